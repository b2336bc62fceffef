package shapes

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const small = `{"openapi":"3.0.0","info":{"title":"t","version":"1"},"paths":{
 "/things/{id}":{"get":{"responses":{"200":{"description":"d","content":{"application/vnd.api+json":{"schema":{"type":"object","required":["data"],"properties":{"data":{"$ref":"#/components/schemas/things"}}}}}},"default":{"description":"e"}}},
   "delete":{"responses":{"204":{"description":"d"}}}},
 "/things/first":{"get":{"responses":{"204":{"description":"d"}}}}},
 "components":{"schemas":{
  "errors":{"type":"object","properties":{"errors":{"type":"array","items":{"type":"object","properties":{"status":{"type":"string"}}}}}},
  "parts":{"type":"object","properties":{"type":{"type":"string"},"attributes":{"type":"object","properties":{"n":{"type":"integer"}}}}},
  "things":{"type":"object","required":["type"],"properties":{"type":{"type":"string","enum":["things"]},"attributes":{"type":"object","properties":{
    "name":{"type":"string"},"size":{"type":"integer","nullable":true},"made":{"type":"string","format":"date-time"},"password":{"type":"string","writeOnly":true}}}}}}}}`

func record(t *testing.T) *Record {
	t.Helper()
	path := filepath.Join(t.TempDir(), "openapi.json")
	require.NoError(t, os.WriteFile(path, []byte(small), 0o600))
	d, err := Open(path)
	require.NoError(t, err)
	return NewRecord(d)
}

func TestAnAnswerIsComparedWhole(t *testing.T) {
	r := record(t)
	for _, c := range []struct {
		method, path string
		status       int
		body         string
		want         []string
	}{
		{"GET", "/things/1", 200, `{"data":{"type":"things","attributes":{"name":"a","size":null,"made":"2026-01-02T03:04:05Z"}}}`, nil},
		{"GET", "/others/1", 200, `{"data":7}`, nil}, // not described
		{"GET", "/things/1", 200, `{"data":{"type":"thing","attributes":{"name":null,"size":"1","made":"today","password":"p"}}}`, []string{
			"things.attributes.made: not of the format date-time", "things.attributes.name: null",
			`things.attributes.password: writeOnly: writeOnly property "password" in response`, "things.attributes.size: is string, not integer", `things.type: is "thing", which is not listed`,
		}},
		{"GET", "/things/1", 200, `{"data":{}}`, []string{"things.type: missing"}},
		{"GET", "/things/1", 200, `{}`, []string{"GET /things/{id}.data: missing"}},
		{"GET", "/things/1", 200, `{"data":{"type":"things"},"included":[{"type":"parts","attributes":{"n":"x"}},{"type":"unknown","attributes":7}]}`, []string{"parts.attributes.n: is string, not integer"}},
		{"GET", "/things/1", 200, ``, []string{"GET /things/{id}: status 200: body missing"}},
		{"GET", "/things/1", 200, `{`, []string{"GET /things/{id}: not JSON"}},
		{"GET", "/things/1", 201, `{}`, []string{"GET /things/{id}: status 201"}},
		{"GET", "/things/first", 204, ``, nil}, // and not the thing named "first"
		{"DELETE", "/things/1", 204, `{}`, []string{"DELETE /things/{id}: status 204: body not described"}},
		{"DELETE", "/things/1", 404, `{"errors":[{"status":404}]}`, []string{"DELETE /things/{id}.errors.status: is number, not string"}},
	} {
		assert.Equal(t, c.want, r.Compare(c.method, c.path, c.status, []byte(c.body)), "%s %s %s", c.method, c.path, c.body)
	}
	answers, operations := r.Count()
	assert.Equal(t, []int{11, 3}, []int{answers, operations})
	assert.Equal(t, "GET /things/1: 201", r.Seen()["GET /things/{id}: status 201"])
}

func TestWhatNoAnswerHasIsAbsent(t *testing.T) {
	r := record(t)
	r.Compare("GET", "/things/1", 200, []byte(`{"data":{"type":"things","attributes":{"name":"a"}}}`))
	assert.Equal(t, []string{"things.attributes.made: absent", "things.attributes.size: absent"}, r.Absent(), "what is only for requests is not missed")
	r.Compare("GET", "/things/1", 200, []byte(`{"data":{"type":"things","attributes":{"size":null}}}`))
	assert.Equal(t, []string{"things.attributes.made: absent"}, r.Absent())
}

func TestKeptDeviations(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kept.txt")
	require.NoError(t, os.WriteFile(path, []byte("# why\n\nthings.type: missing | it has none\nthings.attributes.* | ours\n"), 0o600))
	kept, err := ReadKept(path)
	require.NoError(t, err)
	assert.True(t, kept.Covers("things.type: missing"))
	assert.True(t, kept.Covers("things.attributes.made: absent"))
	assert.False(t, kept.Covers("things.type: null"))
	assert.Equal(t, []string{"things.attributes.*"}, kept.Unused([]string{"things.type: missing"}))
	assert.Equal(t, 2, kept.Len())
	require.NoError(t, os.WriteFile(path, []byte("things.type: missing\n"), 0o600))
	_, err = ReadKept(path)
	assert.ErrorContains(t, err, "has no reason")
}
