package tfeapi

import (
	"errors"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/fault"
)

type sample struct {
	Name   Opt[string]   `json:"name"`
	Auto   Opt[bool]     `json:"auto-apply"`
	Serial Opt[int64]    `json:"serial"`
	Addrs  Opt[[]string] `json:"target-addrs"`
	Nested Opt[struct {
		Key string `json:"key"`
	}] `json:"nested"`
}

func TestAbsentNullAndSetAreToldApart(t *testing.T) {
	in, err := decode[sample]([]byte(`{"data":{"type":"things","attributes":{"name":"","auto-apply":null,"target-addrs":["a"],"unknown":{"x":1}}}}`), "things")
	require.NoError(t, err)
	a := in.Attributes
	assert.Equal(t, Opt[string]{Present: true}, a.Name)
	assert.Equal(t, Opt[bool]{Present: true, Null: true}, a.Auto)
	assert.Equal(t, Opt[int64]{}, a.Serial)
	assert.Equal(t, []string{"a"}, a.Addrs.Value)
	assert.True(t, a.Name.Set())
	assert.False(t, a.Auto.Set())
	assert.True(t, a.Auto.Or(true), "null falls back")
	assert.False(t, a.Serial.Set())
	assert.Nil(t, a.Serial.Pointer())
	assert.Equal(t, "", *a.Name.Pointer())
}

func TestMalformedDocumentsArePointedAt(t *testing.T) {
	for body, pointer := range map[string]string{
		``:                           "",
		`{`:                          "",
		`[]`:                         "",
		`{"data":{}} x`:              "",
		`{}`:                         "/data",
		`{"data":null}`:              "/data",
		`{"data":[]}`:                "/data",
		`{"data":{}}`:                "/data/type",
		`{"data":{"type":4}}`:        "/data/type",
		`{"data":{"type":"others"}}`: "/data/type",
		`{"data":{"type":"things","attributes":[]}}`:                          "/data/attributes",
		`{"data":{"type":"things","relationships":4}}`:                        "/data/relationships",
		`{"data":{"type":"things","attributes":{"name":4}}}`:                  "/data/attributes/name",
		`{"data":{"type":"things","attributes":{"auto-apply":"yes"}}}`:        "/data/attributes/auto-apply",
		`{"data":{"type":"things","attributes":{"serial":"3"}}}`:              "/data/attributes/serial",
		`{"data":{"type":"things","attributes":{"serial":1.5}}}`:              "/data/attributes/serial",
		`{"data":{"type":"things","attributes":{"target-addrs":"a"}}}`:        "/data/attributes/target-addrs",
		`{"data":{"type":"things","attributes":{"nested":{"key":1}}}}`:        "/data/attributes/nested/key",
		`{"data":{"type":"things","attributes":{"name":"a\u0000b"}}}`:         "/data/attributes/name",
		`{"data":{"type":"things","attributes":{"target-addrs":["\u0000"]}}}`: "/data/attributes/target-addrs",
	} {
		_, err := decode[sample]([]byte(body), "things")
		var classified *fault.Error
		require.Truef(t, errors.As(err, &classified), "%s: %v", body, err)
		assert.Equalf(t, fault.Malformed, classified.Kind, "%s", body)
		assert.Equalf(t, pointer, classified.Pointer, "%s: %s", body, classified.Message)
	}
}

func TestAnEscapedBackslashIsNoNUL(t *testing.T) {
	in, err := decode[sample]([]byte(`{"data":{"type":"things","attributes":{"name":"\\u0000"}}}`), "things")
	require.NoError(t, err)
	assert.Equal(t, `\u0000`, in.Attributes.Name.Value)
}

func TestUntypedBodies(t *testing.T) {
	type lock struct {
		Reason Opt[string] `json:"reason"`
	}
	for body, reason := range map[string]string{
		"":                  "",
		" \n":               "",
		`{}`:                "",
		`{"reason":"bare"}`: "bare",
		`{"data":{"type":"","attributes":{"reason":"typed"}}}`:   "typed",
		`{"data":{"type":"workspaces"}}`:                         "",
		`{"data":{"attributes":{"reason":"no type"}},"meta":{}}`: "no type",
	} {
		in, err := decodeUntyped[lock]([]byte(body))
		require.NoErrorf(t, err, "%s", body)
		assert.Equalf(t, reason, in.Attributes.Reason.Or(""), "%s", body)
	}
	for body, pointer := range map[string]string{`nonsense`: "", `{"reason":1}`: "/reason", `{"data":{"attributes":{"reason":1}}}`: "/data/attributes/reason"} {
		_, err := decodeUntyped[lock]([]byte(body))
		var classified *fault.Error
		require.Truef(t, errors.As(err, &classified), "%s", body)
		assert.Equal(t, pointer, classified.Pointer)
	}
}

func TestRelations(t *testing.T) {
	in, err := decode[sample]([]byte(`{"data":{"type":"things","relationships":{"a":{"data":{"type":"as","id":"a-1"}},"none":{"data":null},"links":{"links":{}},"wrong":{"data":{"type":"bs","id":"b-1"}},"anonymous":{"data":{"type":"as"}},"text":"x"}}}`), "things")
	require.NoError(t, err)
	for _, name := range []string{"none", "links", "absent"} {
		id, err := in.related(name, "as")
		assert.NoError(t, err)
		assert.Empty(t, id)
		_, err = in.required(name, "as")
		assert.Truef(t, fault.Is(err, fault.Malformed), "%s is required", name)
	}
	id, err := in.required("a", "as")
	require.NoError(t, err)
	assert.Equal(t, "a-1", id)
	for name, pointer := range map[string]string{"wrong": "/data/relationships/wrong/data/type", "anonymous": "/data/relationships/anonymous/data/id", "text": "/data/relationships/text"} {
		_, err := in.related(name, "as")
		var classified *fault.Error
		require.True(t, errors.As(err, &classified))
		assert.Equal(t, pointer, classified.Pointer)
	}
}

func TestBodyLimit(t *testing.T) {
	body, err := readBody(httptest.NewRequest("POST", "/", strings.NewReader("1234")), 4)
	require.NoError(t, err)
	assert.Equal(t, "1234", string(body))
	_, err = readBody(httptest.NewRequest("POST", "/", strings.NewReader("12345")), 4)
	assert.True(t, fault.Is(err, fault.TooLarge))
}
