package tfeapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/holdfast-run/holdfast/fault"
)

// Opt is an attribute of a request document that may be absent, null or set.
type Opt[T any] struct {
	Value   T
	Present bool // the attribute is there, perhaps as null
	Null    bool
}

// Set tells whether the attribute has a value.
func (o Opt[T]) Set() bool { return o.Present && !o.Null }

// Or gives the value, or fallback when it is absent or null.
func (o Opt[T]) Or(fallback T) T {
	if o.Set() {
		return o.Value
	}
	return fallback
}

// Pointer gives the value's address, or nil when it is absent or null.
func (o Opt[T]) Pointer() *T {
	if o.Set() {
		return &o.Value
	}
	return nil
}

func (o *Opt[T]) set(raw json.RawMessage) error {
	o.Present = true
	if string(raw) == "null" {
		o.Null = true
		return nil
	}
	return json.Unmarshal(raw, &o.Value)
}

type attribute interface {
	set(raw json.RawMessage) error
}

// input is a request document: its attributes as a struct of Opt fields with json
// tags, and its relations.
type input[A any] struct {
	Attributes A
	relations  map[string]json.RawMessage
}

const (
	maxDocument      = 10 << 20  // bytes of a request document
	maxStateDocument = 400 << 20 // of one that carries a state inside
)

// readBody reads a whole body of at most limit bytes.
func readBody(r *http.Request, limit int64) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, limit))
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return nil, fault.New(fault.TooLarge, "document_too_large", "The request document is larger than %d bytes.", limit)
	}
	if err != nil {
		return nil, fault.New(fault.Malformed, "malformed", "The request body ended early. Send it again.").Because(err)
	}
	return body, nil
}

// resource is a request document as it is read first: once, because it may be large.
type resource struct {
	Data *struct {
		Type          string                     `json:"type"`
		Attributes    map[string]json.RawMessage `json:"attributes"`
		Relationships map[string]json.RawMessage `json:"relationships"`
	} `json:"data"`
}

// decode reads a JSON:API request document whose data.type must be kind. Attributes
// without a field in A are ignored. Errors are fault.Malformed with a pointer.
func decode[A any](body []byte, kind string) (in input[A], err error) {
	var doc resource
	if err := unmarshal(body, &doc, ""); err != nil {
		return in, err
	}
	if doc.Data == nil {
		return in, malformed("/data", "The document has no member data. It must look like {\"data\":{\"type\":%q,\"attributes\":{…}}}.", kind)
	}
	if doc.Data.Type != kind {
		return in, malformed("/data/type", "The type must be %q, not %q.", kind, doc.Data.Type)
	}
	in.relations = doc.Data.Relationships
	return in, fill(&in.Attributes, doc.Data.Attributes, "/data/attributes")
}

// decodeUntyped is decode for the documents that clients send without a type, or
// leave out altogether: locks and the actions of a run (amendment 4). A bare object
// such as {"reason": …} is read as the attributes.
func decodeUntyped[A any](body []byte) (in input[A], err error) {
	if len(bytes.TrimSpace(body)) == 0 {
		return in, nil
	}
	var doc resource
	if err := unmarshal(body, &doc, ""); err != nil {
		return in, err
	}
	if doc.Data != nil {
		in.relations = doc.Data.Relationships
		return in, fill(&in.Attributes, doc.Data.Attributes, "/data/attributes")
	}
	var bare map[string]json.RawMessage
	if err := unmarshal(body, &bare, ""); err != nil {
		return in, err
	}
	return in, fill(&in.Attributes, bare, "")
}

// fill sets every Opt field of target from the member its json tag names.
func fill(target any, from map[string]json.RawMessage, pointer string) error {
	v := reflect.ValueOf(target).Elem()
	for i := range v.NumField() {
		name := v.Type().Field(i).Tag.Get("json")
		raw, ok := from[name]
		if !ok {
			continue
		}
		at := pointer + "/" + name
		if err := refuseNUL(raw, at); err != nil {
			return err
		}
		opt, ok := v.Field(i).Addr().Interface().(attribute)
		if !ok {
			return fmt.Errorf("%s.%s is no Opt", v.Type(), v.Type().Field(i).Name)
		}
		if err := opt.set(raw); err != nil {
			return typeError(err, at)
		}
	}
	return nil
}

// refuseNUL refuses text with a NUL character, which PostgreSQL cannot keep.
func refuseNUL(raw json.RawMessage, pointer string) error {
	if !bytes.Contains(raw, []byte(`\u0000`)) {
		return nil
	}
	var value any
	if err := json.Unmarshal(raw, &value); err == nil && hasNUL(value) {
		return malformed(pointer, "The text contains a NUL character, which cannot be stored.")
	}
	return nil
}

func hasNUL(value any) bool {
	switch v := value.(type) {
	case string:
		return strings.ContainsRune(v, 0)
	case []any:
		for _, item := range v {
			if hasNUL(item) {
				return true
			}
		}
	case map[string]any:
		for key, item := range v {
			if hasNUL(key) || hasNUL(item) {
				return true
			}
		}
	}
	return false
}

// related gives the id of a to-one relation. An absent or null one is "".
func (in input[A]) related(name, kind string) (string, error) {
	_, id, err := in.relatedAny(name, kind)
	return id, err
}

// relatedAny is related for a relation to one of several types.
func (in input[A]) relatedAny(name string, kinds ...string) (kind, id string, err error) {
	raw, ok := in.relations[name]
	if !ok {
		return "", "", nil
	}
	pointer := "/data/relationships/" + name
	var relation struct {
		Data *struct {
			Type string `json:"type"`
			ID   string `json:"id"`
		} `json:"data"`
	}
	if err := unmarshal(raw, &relation, pointer); err != nil {
		return "", "", err
	}
	if relation.Data == nil {
		return "", "", nil
	}
	if !slices.Contains(kinds, relation.Data.Type) {
		return "", "", malformed(pointer+"/data/type", "The type must be %q, not %q.", kinds[0], relation.Data.Type)
	}
	if relation.Data.ID == "" {
		return "", "", malformed(pointer+"/data/id", "The id of the related %s is missing.", relation.Data.Type)
	}
	return relation.Data.Type, relation.Data.ID, refuseNUL(raw, pointer)
}

// listed is one resource of a list in a request: named by its id, or described by
// its attributes.
type listed[A any] struct {
	ID         string
	Attributes A
}

// decodeMany reads {"data": […]}, as a body or as a to-many relation, whose items'
// type must be kind. pointer is where it stands. Absent or null data are no items.
func decodeMany[A any](raw []byte, kind, pointer string) ([]listed[A], error) {
	var doc struct {
		Data []struct {
			Type       string                     `json:"type"`
			ID         string                     `json:"id"`
			Attributes map[string]json.RawMessage `json:"attributes"`
		} `json:"data"`
	}
	if err := unmarshal(raw, &doc, pointer); err != nil {
		return nil, err
	}
	list := make([]listed[A], 0, len(doc.Data))
	for i, item := range doc.Data {
		at := fmt.Sprintf("%s/data/%d", pointer, i)
		if item.Type != kind {
			return nil, malformed(at+"/type", "The type must be %q, not %q.", kind, item.Type)
		}
		out := listed[A]{ID: item.ID}
		if err := fill(&out.Attributes, item.Attributes, at+"/attributes"); err != nil {
			return nil, err
		}
		list = append(list, out)
	}
	return list, nil
}

// relatedMany is decodeMany for a relation; given tells whether it is there.
func relatedMany[B, A any](in input[A], name, kind string) (list []listed[B], given bool, err error) {
	raw, given := in.relations[name]
	if !given {
		return nil, false, nil
	}
	list, err = decodeMany[B](raw, kind, "/data/relationships/"+name)
	return list, true, err
}

// required is related for a relation that must be there.
func (in input[A]) required(name, kind string) (string, error) {
	id, err := in.related(name, kind)
	if err == nil && id == "" {
		err = malformed("/data/relationships/"+name, "The relation %s is missing. It must name one of the %s.", name, kind)
	}
	return id, err
}

func unmarshal(raw []byte, target any, pointer string) error {
	if err := json.Unmarshal(raw, target); err != nil {
		return typeError(err, pointer)
	}
	return nil
}

func typeError(err error, pointer string) error {
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		if wrong.Field != "" {
			pointer += "/" + strings.ReplaceAll(wrong.Field, ".", "/")
		}
		return malformed(pointer, "The value must be %s, not a JSON %s.", describeType(wrong.Type), wrong.Value)
	}
	return malformed(pointer, "The body is not valid JSON.").Because(err)
}

func describeType(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int64, reflect.Int32, reflect.Float64:
		return "a whole number"
	case reflect.Slice:
		return "an array"
	default:
		return "an object"
	}
}

func malformed(pointer, message string, args ...any) *fault.Error {
	return fault.New(fault.Malformed, "malformed", message, args...).At(pointer)
}
