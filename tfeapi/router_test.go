package tfeapi

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gorilla/mux"
	"github.com/stretchr/testify/assert"
)

// A path finds the route that mux by itself finds among all of them, with the same variables.
func TestTheRouterFindsWhatMuxFinds(t *testing.T) {
	type found struct {
		route string
		vars  map[string]string
	}
	var last found
	remember := func(rt route) http.Handler {
		return http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { last = found{rt.method + " " + rt.path, mux.Vars(r)} })
	}
	notFound, wrongMethod := remember(route{path: "not found"}), remember(route{path: "wrong method"})
	routes := (&server{}).routes()
	whole := mux.NewRouter().UseEncodedPath().SkipClean(true)
	whole.NotFoundHandler, whole.MethodNotAllowedHandler = notFound, wrongMethod
	for _, rt := range routes {
		methods := []string{rt.method}
		if rt.method == http.MethodGet {
			methods = append(methods, http.MethodHead)
		}
		whole.Handle(rt.path, remember(rt)).Methods(methods...)
	}
	ours := newRouter(routes, remember, notFound, wrongMethod)
	asked, hit := map[string]bool{}, map[string]bool{}
	for _, rt := range routes {
		for _, path := range around(rt.path) {
			for _, method := range []string{rt.method, http.MethodHead, del} {
				if asked[method+path] {
					continue
				}
				asked[method+path] = true
				r := httptest.NewRequest(method, "/", nil)
				r.URL.Path, r.URL.RawPath = unescaped(path), path
				last = found{}
				whole.ServeHTTP(nil, r)
				want := last
				last = found{}
				ours.ServeHTTP(nil, r)
				assert.Equal(t, want, last, "%s %s", method, path)
				hit[last.route] = true
			}
		}
	}
	for _, rt := range routes {
		assert.True(t, hit[rt.method+" "+rt.path], "%s %s is not found by any path", rt.method, rt.path)
	}
}

// around gives a path of the template, and others that are nearly one.
func around(template string) []string {
	parts := strings.Split(template, "/")
	path := func(value string) string {
		filled := append([]string{}, parts...)
		for i, part := range filled {
			if strings.HasPrefix(part, "{") {
				filled[i] = value
			}
		}
		return strings.Join(filled, "/")
	}
	paths := []string{path("x-1"), path("a%2Fb"), path(""), path("workspaces"), path("x") + "/", path("x") + "/more", "/" + path("x"), strings.ToUpper(path("x"))}
	for i := 1; i < len(parts); i++ { // another word, or none, in the place of each part
		filled := strings.Split(path("x"), "/")
		filled[i] = "other"
		paths = append(paths, strings.Join(filled, "/"), strings.Join(append(append([]string{}, filled[:i]...), filled[i+1:]...), "/"))
	}
	return paths
}
