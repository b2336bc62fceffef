package tfeapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
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

// decode reads a JSON:API request document whose data.type must be kind. Attributes
// without a field in A are ignored. Errors are fault.Malformed with a pointer.
func decode[A any](body []byte, kind string) (input[A], error) {
	return parse[A](body, func(got string) bool { return got == kind }, kind)
}

// decodeUntyped is decode for the documents that clients send without a type, or
// leave out altogether: locks and the actions of a run (amendment 4). A bare object
// such as {"reason": …} is read as the attributes.
func decodeUntyped[A any](body []byte) (input[A], error) {
	if len(bytes.TrimSpace(body)) == 0 {
		return input[A]{}, nil
	}
	var top map[string]json.RawMessage
	if err := unmarshal(body, &top, ""); err != nil {
		return input[A]{}, err
	}
	if _, ok := top["data"]; !ok {
		var in input[A]
		return in, fill(&in.Attributes, top, "")
	}
	return parse[A](body, func(string) bool { return true }, "")
}

func parse[A any](body []byte, accept func(kind string) bool, want string) (in input[A], err error) {
	var top map[string]json.RawMessage
	if err := unmarshal(body, &top, ""); err != nil {
		return in, err
	}
	data, ok := top["data"]
	if !ok {
		return in, malformed("/data", "The document has no member data. It must look like {\"data\":{\"type\":%q,\"attributes\":{…}}}.", want)
	}
	var resource struct {
		Type          json.RawMessage `json:"type"`
		Attributes    json.RawMessage `json:"attributes"`
		Relationships json.RawMessage `json:"relationships"`
	}
	if kind := firstByte(data); kind != '{' {
		return in, malformed("/data", "data must be an object.")
	}
	if err := unmarshal(data, &resource, "/data"); err != nil {
		return in, err
	}
	var got string
	if len(resource.Type) > 0 {
		if err := unmarshal(resource.Type, &got, "/data/type"); err != nil {
			return in, err
		}
	}
	if !accept(got) {
		return in, malformed("/data/type", "The type must be %q, not %q.", want, got)
	}
	attributes, err := members(resource.Attributes, "/data/attributes")
	if err != nil {
		return in, err
	}
	if in.relations, err = members(resource.Relationships, "/data/relationships"); err != nil {
		return in, err
	}
	return in, fill(&in.Attributes, attributes, "/data/attributes")
}

// members reads an object that may be absent or null.
func members(raw json.RawMessage, pointer string) (map[string]json.RawMessage, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	var m map[string]json.RawMessage
	return m, unmarshal(raw, &m, pointer)
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
	raw, ok := in.relations[name]
	if !ok {
		return "", nil
	}
	pointer := "/data/relationships/" + name
	var relation struct {
		Data *struct {
			Type string `json:"type"`
			ID   string `json:"id"`
		} `json:"data"`
	}
	if err := unmarshal(raw, &relation, pointer); err != nil {
		return "", err
	}
	if relation.Data == nil {
		return "", nil
	}
	if relation.Data.Type != kind {
		return "", malformed(pointer+"/data/type", "The type must be %q, not %q.", kind, relation.Data.Type)
	}
	if relation.Data.ID == "" {
		return "", malformed(pointer+"/data/id", "The id of the related %s is missing.", kind)
	}
	return relation.Data.ID, refuseNUL(raw, pointer)
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

func firstByte(raw []byte) byte {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 {
		return 0
	}
	return raw[0]
}

func malformed(pointer, message string, args ...any) *fault.Error {
	return fault.New(fault.Malformed, "malformed", message, args...).At(pointer)
}
