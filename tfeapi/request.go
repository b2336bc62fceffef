package tfeapi

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/gorilla/mux"

	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
)

// request is what a handler reads: who asks, the path, the query, the body.
type request struct {
	ctx    context.Context
	actor  authz.Actor // zero on an open route
	http   *http.Request
	vars   map[string]string // of the path, unescaped
	query  url.Values
	header http.Header // of the answer
	conn   *http.ResponseController
}

// newRequest refuses text that cannot be kept or compared: a path that holds it
// names nothing.
func newRequest(w http.ResponseWriter, r *http.Request) (*request, error) {
	req := &request{ctx: r.Context(), http: r, vars: map[string]string{}, query: r.URL.Query(), header: w.Header(), conn: http.NewResponseController(w)}
	for name, escaped := range mux.Vars(r) {
		text, err := url.PathUnescape(escaped)
		if err != nil || !storable(text) {
			return req, fault.New(fault.NotFound, "not_found", "The address holds characters that no name has.")
		}
		req.vars[name] = text
	}
	for name, values := range req.query {
		for _, value := range values {
			if !storable(name) || !storable(value) {
				return req, fault.New(fault.Malformed, "invalid_parameter", "The query holds characters that cannot be searched for.")
			}
		}
	}
	return req, nil
}

func storable(text string) bool { return utf8.ValidString(text) && !strings.ContainsRune(text, 0) }

// id reads a path variable as an id of kind T.
func id[T ids.Any](r *request) (T, error) { return ids.Parse[T](r.vars["id"]) }

// body reads the request document of an ordinary size.
func (r *request) body() ([]byte, error) { return readBody(r.http, maxDocument) }

func (r *request) includes() includes { return parseIncludes(r.query) }

// pageAsked tells whether the request names a page or its size.
func (r *request) pageAsked() bool { return r.query.Has("page[number]") || r.query.Has("page[size]") }

// either reads a parameter that goes by two names: go-tfe's, and that of the documentation.
func (r *request) either(name, other string) string {
	if r.query.Has(name) {
		return r.query.Get(name)
	}
	return r.query.Get(other)
}

// sorted reads the parameter sort: "", or one of these, with - before it for the other way round.
// things is what the list has.
func (r *request) sorted(things string, by ...string) (string, error) {
	sort := r.query.Get("sort")
	if sort == "" || slices.Contains(by, strings.TrimPrefix(sort, "-")) {
		return sort, nil
	}
	return "", fault.New(fault.Malformed, "invalid_parameter", "%s cannot be sorted by %q. Sort by %s, or with - before it.", things, sort, strings.Join(by, " or "))
}

// choice reads a parameter that is true or false, or nil where it is not given.
func (r *request) choice(name string) (*bool, error) {
	switch text := r.query.Get(name); text {
	case "":
		return nil, nil
	case "true", "false":
		chosen := text == "true"
		return &chosen, nil
	default:
		return nil, fault.New(fault.Malformed, "invalid_parameter", "The query parameter %s must be true or false.", name)
	}
}

// bearer gives the token of the Authorization header, or "".
func bearer(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// upload gives the body of a request as it streams in. A client that breaks off is
// at fault itself.
func (r *request) upload() io.Reader { return uploadReader{r.http.Body} }

type uploadReader struct{ body io.Reader }

func (u uploadReader) Read(p []byte) (int, error) {
	n, err := u.body.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = fault.New(fault.Malformed, "upload_incomplete", "The upload ended before all bytes had come. Send it again.").Because(err)
	}
	return n, err
}
