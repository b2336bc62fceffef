package tfeapi

import (
	"net/http"
	"strings"

	"github.com/gorilla/mux"
)

// router finds the route of a request. gorilla/mux tries the pattern of one route after another,
// and among hundreds of them that took longer than reading what is asked for. So the routes are
// kept by the shape of their paths, and mux chooses among those few that a path of its shape
// can be of.
type router struct {
	shapes map[shape]*mux.Router
	rest   *mux.Router // has no routes
}

// shape is what tells most addresses apart: how many parts a path has, and the two of them
// that name a collection, as in /api/v2/organizations/demo/workspaces. In the shape of a
// template, one that is a variable is empty.
type shape struct {
	parts        int
	third, fifth string
}

func shapeOf(path string) shape {
	s := shape{}
	for part := range strings.SplitSeq(path, "/") {
		switch s.parts {
		case 3: // before the first is the slash that every path begins with
			s.third = fixed(part)
		case 5:
			s.fifth = fixed(part)
		}
		s.parts++
	}
	return s
}

// fixed is "" for a variable of a template.
func fixed(part string) string {
	if strings.HasPrefix(part, "{") {
		return ""
	}
	return part
}

// meets tells whether there can be a path that is of both shapes.
func (s shape) meets(other shape) bool {
	same := func(a, b string) bool { return a == "" || b == "" || a == b }
	return s.parts == other.parts && same(s.third, other.third) && same(s.fifth, other.fifth)
}

// newRouter makes the router of routes, which are tried in their order. A path that none has is
// for notFound, and one that none has with its method for wrongMethod.
func newRouter(routes []route, handler func(route) http.Handler, notFound, wrongMethod http.Handler) *router {
	// A path is taken as it comes: an escaped slash stays inside its segment, and
	// nothing is redirected, because a redirected POST loses its body.
	empty := func() *mux.Router {
		m := mux.NewRouter().UseEncodedPath().SkipClean(true)
		m.NotFoundHandler, m.MethodNotAllowedHandler = notFound, wrongMethod
		return m
	}
	t := &router{shapes: map[shape]*mux.Router{}, rest: empty()}
	for _, rt := range routes {
		if s := shapeOf(rt.path); t.shapes[s] == nil {
			t.shapes[s] = empty()
		}
	}
	for _, rt := range routes {
		methods := []string{rt.method}
		if rt.method == http.MethodGet {
			methods = append(methods, http.MethodHead)
		}
		serve := handler(rt)
		for s, m := range t.shapes {
			if shapeOf(rt.path).meets(s) {
				m.Handle(rt.path, serve).Methods(methods...)
			}
		}
	}
	return t
}

func (t *router) ServeHTTP(w http.ResponseWriter, r *http.Request) { t.of(r).ServeHTTP(w, r) }

// of gives those routes that the request's path can be of.
func (t *router) of(r *http.Request) *mux.Router {
	is := shapeOf(r.URL.EscapedPath())
	for _, s := range [...]shape{is, {is.parts, is.third, ""}, {is.parts, "", is.fifth}, {is.parts, "", ""}} {
		if m := t.shapes[s]; m != nil {
			return m
		}
	}
	return t.rest
}

// methods gives those of the methods that the request's path is known with.
func (t *router) methods(r *http.Request, of ...string) (known []string) {
	for _, method := range of {
		probe := r.Clone(r.Context())
		probe.Method = method
		var match mux.RouteMatch
		if t.of(r).Match(probe, &match) && match.MatchErr == nil {
			known = append(known, method)
		}
	}
	return known
}
