package tfeapi

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonapi"
)

// encodeDocument gives, byte for byte, what json.Encoder writes for a payload of jsonapi. It knows
// what nodes are made of, which encoding/json finds out anew for each attribute and relation.
func encodeDocument(payload any) ([]byte, error) {
	e := &encoder{text: make([]byte, 0, 4096)}
	e.value(payload)
	return append(e.text, '\n'), e.err
}

type encoder struct {
	text []byte
	err  error // the first one
}

// member is one of an object; absent ones are left out.
type member struct {
	name   string
	value  any
	absent bool
}

func (e *encoder) value(v any) {
	switch v := v.(type) {
	case *jsonapi.OnePayload:
		e.object(member{"data", v.Data, false}, member{"included", v.Included, len(v.Included) == 0},
			member{"links", v.Links, v.Links == nil}, member{"meta", v.Meta, v.Meta == nil})
	case *jsonapi.ManyPayload:
		e.object(member{"data", v.Data, false}, member{"included", v.Included, len(v.Included) == 0},
			member{"links", v.Links, v.Links == nil}, member{"meta", v.Meta, v.Meta == nil})
	case *jsonapi.RelationshipOneNode:
		e.object(member{"data", v.Data, false}, member{"links", v.Links, v.Links == nil}, member{"meta", v.Meta, v.Meta == nil})
	case *jsonapi.RelationshipManyNode:
		e.object(member{"data", v.Data, false}, member{"links", v.Links, v.Links == nil}, member{"meta", v.Meta, v.Meta == nil})
	case *jsonapi.Node:
		if v == nil {
			e.raw("null")
			return
		}
		e.object(member{"type", v.Type, false}, member{"id", v.ID, v.ID == ""}, member{"client-id", v.ClientID, v.ClientID == ""},
			member{"attributes", v.Attributes, len(v.Attributes) == 0}, member{"relationships", v.Relationships, len(v.Relationships) == 0},
			member{"links", v.Links, v.Links == nil}, member{"meta", v.Meta, v.Meta == nil})
	case []*jsonapi.Node:
		array(e, v)
	case *jsonapi.Links:
		e.value(map[string]any(*v))
	case *jsonapi.Meta:
		e.value(map[string]any(*v))
	case map[string]any:
		e.sorted(v)
	case []string:
		array(e, v)
	case string:
		e.string(v)
	case bool:
		e.text = strconv.AppendBool(e.text, v)
	case int:
		e.text = strconv.AppendInt(e.text, int64(v), 10)
	case int64:
		e.text = strconv.AppendInt(e.text, v, 10)
	case nil:
		e.raw("null")
	default:
		e.other(v)
	}
}

func (e *encoder) raw(text string) { e.text = append(e.text, text...) }

// other leaves a value to encoding/json.
func (e *encoder) other(v any) {
	text, err := json.Marshal(v)
	if err != nil && e.err == nil {
		e.err = err
	}
	e.text = append(e.text, text...)
}

func (e *encoder) string(s string) {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			e.other(s) // knows what is escaped, and how
			return
		}
	}
	e.text = append(append(append(e.text, '"'), s...), '"')
}

func (e *encoder) object(members ...member) {
	e.raw("{")
	next := ""
	for _, m := range members {
		if m.absent {
			continue
		}
		e.raw(next)
		e.string(m.name)
		e.raw(":")
		e.value(m.value)
		next = ","
	}
	e.raw("}")
}

// sorted writes a map in the order of its names.
func (e *encoder) sorted(of map[string]any) {
	if of == nil {
		e.raw("null")
		return
	}
	members := make([]member, 0, len(of))
	for name, value := range of {
		members = append(members, member{name, value, false})
	}
	slices.SortFunc(members, func(a, b member) int { return strings.Compare(a.name, b.name) })
	e.object(members...)
}

func array[T any](e *encoder, of []T) {
	if of == nil {
		e.raw("null")
		return
	}
	e.raw("[")
	for i, one := range of {
		if i > 0 {
			e.raw(",")
		}
		e.value(one)
	}
	e.raw("]")
}
