package shapes

import (
	"fmt"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

// Document is an OpenAPI document, ready for comparing.
type Document struct {
	description *openapi3.T
	paths       []described
}

// described is one path of the document.
type described struct {
	template string
	segments []string
	item     *openapi3.PathItem
}

// Open reads the OpenAPI document at path.
func Open(path string) (*Document, error) {
	loaded, err := openapi3.NewLoader().LoadFromFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the OpenAPI document: %w", err)
	}
	d := &Document{description: loaded}
	for template, item := range loaded.Paths.Map() {
		d.paths = append(d.paths, described{template, strings.Split(template, "/"), item})
	}
	return d, nil
}

// operation finds what describes a request for path, which begins below /api/v2. A literal
// segment wins over a variable. Nil: the document does not have it.
func (d *Document) operation(method, path string) (name string, found *openapi3.Operation) {
	segments, most := strings.Split(path, "/"), -1
	for _, p := range d.paths {
		literal, fits := match(p.segments, segments)
		operation := p.item.GetOperation(method)
		if fits && operation != nil && literal > most {
			name, found, most = method+" "+p.template, operation, literal
		}
	}
	return name, found
}

// Parameters gives the names of the parameters in the query that the document tells of for a
// request for path, and what it calls that operation.
func (d *Document) Parameters(method, path string) (operation string, names []string) {
	operation, found := d.operation(method, path)
	if found == nil {
		return "", nil
	}
	for _, p := range found.Parameters {
		if p.Value.In == openapi3.ParameterInQuery {
			names = append(names, p.Value.Name)
		}
	}
	return operation, names
}

// match tells whether a template fits a path, and by how many literal segments.
func match(template, path []string) (literal int, fits bool) {
	if len(template) != len(path) {
		return 0, false
	}
	for i, segment := range template {
		switch {
		case segment == path[i]:
			literal++
		case !strings.HasPrefix(segment, "{"):
			return 0, false
		}
	}
	return literal, true
}

// answerOf gives the schema that describes the body of an answer with that status. stated
// tells whether the document lists the status; a schema is nil where it describes no body.
func answerOf(operation *openapi3.Operation, status int) (schema *openapi3.SchemaRef, stated bool) {
	response := operation.Responses.Status(status)
	if response == nil {
		return nil, false
	}
	for _, content := range response.Value.Content {
		return content.Schema, true
	}
	return nil, true
}
