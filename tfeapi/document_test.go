package tfeapi

import (
	"encoding/json"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/fault"
)

type thingView struct {
	ID     string     `jsonapi:"primary,things"`
	Name   string     `jsonapi:"attr,name"`
	At     time.Time  `jsonapi:"attr,at,iso8601"`
	Ended  *time.Time `jsonapi:"attr,ended,iso8601,omitempty"`
	Nested struct {
		CanDo bool `json:"can-do"`
	} `jsonapi:"attr,nested"`
	related relations
}

func (v *thingView) relations() relations { return v.related }

func encoded(t *testing.T, d document) string {
	t.Helper()
	payload, err := d.payload()
	require.NoError(t, err)
	raw, err := json.Marshal(payload)
	require.NoError(t, err)
	return string(raw)
}

func TestDocuments(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 678, time.FixedZone("", 3600))
	thing := &thingView{ID: "t-1", Name: "n", At: at, related: relations{
		"owner": ref{"users", "user-1"}, "none": nil, "parts": []ref{{"parts", "p-2"}, {"parts", "p-1"}}, "empty": []ref{},
	}}
	resource := `{"type":"things","id":"t-1","attributes":{"at":"2026-01-02T02:04:05Z","name":"n","nested":{"can-do":false}},"relationships":{` +
		`"empty":{"data":[]},"none":{"data":null},"owner":{"data":{"type":"users","id":"user-1"}},"parts":{"data":[{"type":"parts","id":"p-2"},{"type":"parts","id":"p-1"}]}}}`

	assert.Equal(t, `{"data":`+resource+`}`, encoded(t, document{one: thing}))
	assert.Equal(t, `{"data":[`+resource+`],"meta":{"pagination":{"current-page":1,"page-size":20,"prev-page":null,"next-page":null,"total-pages":1,"total-count":1}}}`,
		encoded(t, document{many: []view{thing}, page: paging{1, 20}.of(1)}), "a list has the same resource")
	assert.Equal(t, `{"data":[]}`, encoded(t, document{}), "an empty list is no null")
}

func TestIncludedIsSortedAndSingle(t *testing.T) {
	main, a, b := &thingView{ID: "t-0"}, &thingView{ID: "t-1"}, &thingView{ID: "t-2"}
	for range 20 {
		text := encoded(t, document{one: main, included: []view{b, a, b}})
		var body struct{ Included []struct{ ID string } }
		require.NoError(t, json.Unmarshal([]byte(text), &body))
		require.Len(t, body.Included, 2)
		assert.Equal(t, "t-1", body.Included[0].ID)
		assert.Equal(t, "t-2", body.Included[1].ID)
	}
}

func TestPagination(t *testing.T) {
	number := func(n int) *int { return &n }
	for _, row := range []struct {
		p     paging
		total int
		want  pagination
	}{
		{paging{1, 20}, 0, pagination{CurrentPage: 1, PageSize: 20, TotalPages: 1}},
		{paging{1, 20}, 20, pagination{CurrentPage: 1, PageSize: 20, TotalPages: 1, TotalCount: 20}},
		{paging{1, 20}, 21, pagination{CurrentPage: 1, PageSize: 20, NextPage: number(2), TotalPages: 2, TotalCount: 21}},
		{paging{2, 20}, 21, pagination{CurrentPage: 2, PageSize: 20, PreviousPage: number(1), TotalPages: 2, TotalCount: 21}},
		{paging{999, 20}, 21, pagination{CurrentPage: 999, PageSize: 20, PreviousPage: number(2), TotalPages: 2, TotalCount: 21}},
	} {
		assert.Equal(t, &row.want, row.p.of(row.total))
	}
}

func TestParsePaging(t *testing.T) {
	for query, want := range map[string]paging{
		"": {1, 20}, "page[number]=3&page[size]=50": {3, 50}, "page[size]=1000": {1, 100}, "page[number]=0&page[size]=-1": {1, 20}, "page[number]=2147483647": {10_000_000, 20},
	} {
		values, err := url.ParseQuery(query)
		require.NoError(t, err)
		got, err := parsePaging(values)
		require.NoError(t, err)
		assert.Equal(t, want, got, query)
		assert.GreaterOrEqual(t, got.offset(), 0)
	}
	for _, query := range []string{"page[number]=x", "page[size]=1e9", "page[number]=99999999999"} {
		values, err := url.ParseQuery(query)
		require.NoError(t, err)
		_, err = parsePaging(values)
		assert.Truef(t, fault.Is(err, fault.Malformed), "%s", query)
	}
}

func TestIncludes(t *testing.T) {
	values, err := url.ParseQuery("include=workspace%2Ccurrent_run,&include=task-stages")
	require.NoError(t, err)
	in := parseIncludes(values)
	for _, name := range []string{"workspace", "current-run", "task-stages"} {
		assert.Truef(t, in[name], "%s", name)
	}
	assert.False(t, in["plan"])
}
