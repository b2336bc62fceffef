package tfeapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/google/jsonapi"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestDocumentsAreEncodedAsEncodingJSONDoes(t *testing.T) {
	text, none := "p", (*string)(nil)
	links, meta := &jsonapi.Links{"self": "/a?b=c&d", "next": nil, "about": jsonapi.Link{Href: "/x"}}, &jsonapi.Meta{"pagination": paging{2, 20}.of(100), "n": 1}
	node := &jsonapi.Node{
		Type: "things", ID: "t-1", ClientID: "c", Links: links, Meta: meta,
		Attributes: map[string]any{
			"z": "plain", "a": "", "quote": `"\`, "html": "<b>&", "lines": "a\nb\t\x00\x7f", "words": "é\u2028\U0001F600", "broken": "\xff", "no": nil, "yes": true, "not": false,
			"int": 7, "int64": int64(math.MinInt64), "uint": uint8(3), "float": 1e21, "list": []string{"a", "<"}, "empty": []string{}, "null": []string(nil),
			"pointer": &text, "none": none, "time": time.Unix(0, 1).UTC(), "raw": json.RawMessage(`{ "a" : [1, "<"] }`), "any": []any{1, "&", nil, map[string]any{"b": 1, "a": "<"}},
			"map": map[string]any{"y": 1, "x": map[string]any(nil)}, "struct": struct {
				CanDo bool `json:"can-do"`
				Left  any  `json:"left,omitempty"`
			}{CanDo: true}, `od"d`: 1,
		},
		Relationships: map[string]any{
			"one": relationship(ref{"runs", "run-1"}), "some": relationship([]ref{{"runs", "run-1"}, {"vars", "var-1"}}), "few": relationship([]ref{}), "nothing": relationship(nil),
			"linked": &jsonapi.RelationshipManyNode{Links: links, Meta: meta}, "single": &jsonapi.RelationshipOneNode{Meta: meta},
		},
	}
	bare := &jsonapi.Node{Type: "things", Attributes: map[string]any{}, Links: &jsonapi.Links{}, Meta: &jsonapi.Meta{}}
	for _, payload := range []any{
		&jsonapi.OnePayload{Data: node}, &jsonapi.OnePayload{Data: bare, Included: []*jsonapi.Node{node, bare}, Links: links, Meta: meta}, &jsonapi.OnePayload{}, &jsonapi.OnePayload{Included: []*jsonapi.Node{}},
		&jsonapi.ManyPayload{}, &jsonapi.ManyPayload{Data: []*jsonapi.Node{}, Links: links, Meta: meta}, &jsonapi.ManyPayload{Data: []*jsonapi.Node{node, bare, nil}, Included: []*jsonapi.Node{bare}},
	} {
		var want bytes.Buffer
		require.NoError(t, json.NewEncoder(&want).Encode(payload))
		got, err := encodeDocument(payload)
		require.NoError(t, err)
		assert.Equal(t, want.String(), string(got))
	}
}

type unwritable struct{}

func (unwritable) MarshalJSON() ([]byte, error) { return nil, errors.New("no") }

func TestWhatCannotBeEncodedIsAnError(t *testing.T) {
	_, err := encodeDocument(&jsonapi.OnePayload{Data: &jsonapi.Node{Type: "things", Attributes: map[string]any{"a": unwritable{}, "b": 1}}})
	require.ErrorContains(t, err, "no")
}
