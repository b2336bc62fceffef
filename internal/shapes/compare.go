package shapes

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/getkin/kin-openapi/openapi3"
)

// Record collects what comparing answers showed. Safe for use by many.
type Record struct {
	document *Document

	mutex      sync.Mutex
	compared   int
	operations map[string]bool
	deviations map[string]string // → an address where it was seen
	properties map[string]bool   // where, of those the document describes → in an answer?
}

// NewRecord makes an empty one.
func NewRecord(d *Document) *Record {
	return &Record{document: d, operations: map[string]bool{}, deviations: map[string]string{}, properties: map[string]bool{}}
}

// errorsSchema describes the body of every refusal.
const errorsSchema = "errors"

// Compare holds one answer against the document. path begins below /api/v2, without a
// query. It gives the deviations of this answer, none when the document does not have the route.
func (r *Record) Compare(method, path string, status int, body []byte) []string {
	name, operation := r.document.operation(method, path)
	if operation == nil {
		return nil
	}
	schema, stated := answerOf(operation, status)
	if status >= 400 {
		schema, stated = r.document.description.Components.Schemas[errorsSchema], true
	}
	walk := &walk{schemas: r.document.description.Components.Schemas, where: map[string]string{}, properties: map[string]bool{}}
	found := map[string]bool{}
	switch {
	case !stated:
		found[fmt.Sprintf("%s: status %d", name, status)] = true
	case schema == nil || len(body) == 0:
		if (schema == nil) != (len(body) == 0) && status < 400 {
			found[fmt.Sprintf("%s: status %d: body %s", name, status, map[bool]string{true: "not described", false: "missing"}[schema == nil])] = true
		}
	default:
		walk.compare(schema, body, name, found)
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.compared++
	r.operations[name] = true
	for deviation := range found {
		if r.deviations[deviation] == "" {
			r.deviations[deviation] = fmt.Sprintf("%s %s: %d", method, path, status)
		}
	}
	for where, present := range walk.properties {
		r.properties[where] = r.properties[where] || present
	}
	return slices.Sorted(maps.Keys(found))
}

// Count gives how many answers were compared, and of how many operations of the document.
func (r *Record) Count() (answers, operations int) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.compared, len(r.operations)
}

// Seen gives the deviations, each with an address where it was seen.
func (r *Record) Seen() map[string]string {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return maps.Clone(r.deviations)
}

// Absent gives the properties that no answer had.
func (r *Record) Absent() []string {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	var absent []string
	for where, present := range r.properties {
		if !present {
			absent = append(absent, where+": absent")
		}
	}
	slices.Sort(absent)
	return absent
}

// walk is the comparing of one answer.
type walk struct {
	schemas    openapi3.Schemas
	where      map[string]string // JSON pointer → where
	properties map[string]bool
}

func (w *walk) compare(schema *openapi3.SchemaRef, body []byte, name string, found map[string]bool) {
	var value any
	if err := json.Unmarshal(body, &value); err != nil {
		found[name+": not JSON"] = true
		return
	}
	w.name(schema, value, "", name)
	w.validate(schema, value, "", found)
	document, _ := value.(map[string]any)
	included, _ := document["included"].([]any)
	for i, item := range included {
		resource, _ := item.(map[string]any)
		kind, _ := resource["type"].(string)
		described := w.schemas[kind]
		if described == nil {
			continue
		}
		at := "/included/" + strconv.Itoa(i)
		w.name(&openapi3.SchemaRef{Ref: "/" + kind, Value: described.Value}, item, at, kind)
		w.validate(described, item, at, found)
	}
}

// name says for each value of an answer where it stands, and which properties are there.
func (w *walk) name(schema *openapi3.SchemaRef, value any, at, where string) {
	if schema == nil || schema.Value == nil {
		return
	}
	if schema.Ref != "" {
		where = schema.Ref[strings.LastIndex(schema.Ref, "/")+1:]
	}
	w.where[at] = where
	for _, part := range schema.Value.AllOf {
		w.name(part, value, at, where)
	}
	switch value := value.(type) {
	case map[string]any:
		for property, inner := range schema.Value.Properties {
			child, present := value[property]
			if !inner.Value.WriteOnly {
				w.properties[where+"."+property] = w.properties[where+"."+property] || present
			}
			if present {
				w.name(inner, child, at+"/"+property, where+"."+property)
			}
		}
	case []any:
		for i, child := range value {
			w.name(schema.Value.Items, child, at+"/"+strconv.Itoa(i), where)
		}
	}
}

func (w *walk) validate(schema *openapi3.SchemaRef, value any, at string, found map[string]bool) {
	err := schema.Value.VisitJSON(value, openapi3.MultiErrors(), openapi3.VisitAsResponse(), openapi3.EnableFormatValidation())
	for _, wrong := range flatten(err) {
		pointer := at
		for _, key := range wrong.JSONPointer() {
			if parent := w.where[pointer]; w.where[pointer+"/"+key] == "" {
				w.where[pointer+"/"+key] = strings.TrimSuffix(parent, ".") + "." + key
			}
			pointer += "/" + key
		}
		found[w.where[pointer]+": "+describe(wrong)] = true
	}
}

// flatten gives the innermost errors.
func flatten(err error) (all []*openapi3.SchemaError) {
	switch err := err.(type) { // the library's own tree, walked from its root
	case nil:
	case openapi3.MultiError:
		for _, inner := range err {
			all = append(all, flatten(inner)...)
		}
	case *openapi3.SchemaError:
		var inner openapi3.MultiError
		if errors.As(err.Origin, &inner) {
			return flatten(inner)
		}
		all = append(all, err)
	}
	return all
}

// describe says what is wrong in few words that are the same for all answers alike.
func describe(err *openapi3.SchemaError) string {
	switch err.SchemaField {
	case "nullable":
		return "null"
	case "enum":
		return fmt.Sprintf("is %q, which is not listed", fmt.Sprint(err.Value))
	case "required":
		return "missing"
	case "type":
		return fmt.Sprintf("is %s, not %s", kindOf(err.Value), strings.Join(err.Schema.Type.Slice(), " or "))
	case "format":
		return "not of the format " + err.Schema.Format
	}
	return err.SchemaField + ": " + strings.ReplaceAll(err.Reason, "\n", " ")
}

func kindOf(value any) string {
	switch value.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case float64:
		return "number"
	case string:
		return "string"
	case []any:
		return "array"
	}
	return "object"
}
