package tfeapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/envelope"
	"github.com/holdfast-run/holdfast/fault"
)

// bare is a server without services behind it: what it answers it answers by itself,
// and a handler that is reached panics.
func bare(t *testing.T, ready error) (http.Handler, *bytes.Buffer) {
	t.Helper()
	var log bytes.Buffer
	return New(Deps{
		Authenticate: func(_ context.Context, token string) (authz.Actor, error) {
			if token != "good" {
				return authz.Actor{}, fault.New(fault.Unauthenticated, "unauthenticated", "No.")
			}
			return authz.Actor{Kind: authz.UserActor, User: "user-1"}, nil
		},
		Links:   testLinks(t),
		Ready:   func(context.Context) error { return ready },
		Address: "https://h:8443/",
		Log:     slog.New(slog.NewJSONHandler(&log, nil)),
	}), &log
}

func testLinks(t *testing.T) *envelope.Links {
	t.Helper()
	links, err := envelope.NewLinks(t.Context(), testRing(t))
	require.NoError(t, err)
	return links
}

func ask(h http.Handler, method, target, token string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "/", nil)
	path, query, _ := strings.Cut(target, "?")
	r.URL.Path, r.URL.RawPath = unescaped(path), path
	r.URL.RawQuery = query
	r.RequestURI = target
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func unescaped(path string) string {
	return strings.NewReplacer("%2F", "/", "%00", "\x00", "%FF", "\xff").Replace(path)
}

func firstError(t *testing.T, w *httptest.ResponseRecorder) errorObject {
	t.Helper()
	assert.Equal(t, mediaType, w.Header().Get("Content-Type"))
	var body struct{ Errors []errorObject }
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &body), w.Body.String())
	require.Len(t, body.Errors, 1)
	return body.Errors[0]
}

func TestDiscovery(t *testing.T) {
	h, _ := bare(t, nil)
	w := ask(h, "GET", "/.well-known/terraform.json", "")
	assert.Equal(t, 200, w.Code)
	assert.Equal(t, "application/json", w.Header().Get("Content-Type"))
	assert.JSONEq(t, `{"tfe.v2":"https://h:8443/api/v2/","tfe.v2.1":"https://h:8443/api/v2/","tfe.v2.2":"https://h:8443/api/v2/","state.v2":"https://h:8443/api/v2/",
		"modules.v1":"https://h:8443/api/registry/v1/modules/","providers.v1":"https://h:8443/api/registry/v1/providers/",
		"login.v1":{"client":"holdfast-cli","grant_types":["authz_code"],"authz":"https://h:8443/oauth/authorize",
		"token":"https://h:8443/oauth/token","ports":[10000,10100]}}`, w.Body.String())
	assert.Equal(t, 200, ask(h, "GET", "/.well-known/terraform.json", "bad").Code, "a stored token that is over does not hide it")
}

func TestPing(t *testing.T) {
	h, _ := bare(t, nil)
	for _, method := range []string{"GET", "HEAD"} {
		w := ask(h, method, "/api/v2/ping", "")
		assert.Equal(t, 204, w.Code)
		assert.Equal(t, "2.6", w.Header().Get("TFP-API-Version"))
		assert.Equal(t, "v202502-1", w.Header().Get("X-TFE-Version"))
		assert.Empty(t, w.Header().Get("X-RateLimit-Limit"))
		assert.Empty(t, w.Header().Get("TFP-AppName"))
		assert.NotEmpty(t, w.Header().Get("X-Request-Id"))
	}
}

func TestHealth(t *testing.T) {
	h, _ := bare(t, nil)
	assert.Equal(t, 200, ask(h, "GET", "/healthz", "").Code)
	assert.Equal(t, 200, ask(h, "GET", "/readyz", "").Code)
	h, _ = bare(t, errors.New("no store"))
	assert.Equal(t, 200, ask(h, "GET", "/healthz", "").Code, "a restart would not bring the store back")
	w := ask(h, "GET", "/readyz", "")
	assert.Equal(t, 503, w.Code)
	assert.Equal(t, "not_ready", firstError(t, w).Code)
}

func TestUnknownAddresses(t *testing.T) {
	h, _ := bare(t, nil)
	for _, path := range []string{
		"/", "/api/v2", "/api/v2/", "/api/v2/nonsense", "/api/v2/organizations/", "/api/v2/organizations/o/workspaces/w/", "//api/v2/ping",
		"/api/v2//ping", "/api/v2/../v2/ping", "/api/v2/organizations/%00", "/api/v2/organizations/%FF",
	} {
		w := ask(h, "GET", path, "good")
		assert.Equalf(t, 404, w.Code, "%s", path)
		assert.Equalf(t, "not_found", firstError(t, w).Code, "%s", path)
	}
}

func TestWrongMethodListsTheRightOnes(t *testing.T) {
	h, _ := bare(t, nil)
	w := ask(h, "PUT", "/api/v2/organizations/o/workspaces", "good")
	assert.Equal(t, 405, w.Code)
	assert.Equal(t, "GET, HEAD, POST", w.Header().Get("Allow"))
	assert.Equal(t, "method_not_allowed", firstError(t, w).Code)
}

func TestEveryRouteButTheOpenOnesAsksForAToken(t *testing.T) {
	h, _ := bare(t, nil)
	s := &server{}
	open := map[string]bool{}
	for _, rt := range s.routes() {
		path := strings.NewReplacer("{organization}", "o", "{workspace}", "w", "{id}", "x", "{variable}", "v", "{token}", "t", "{task}", "k", "{parameter}", "p",
			"{registry}", "private", "{namespace}", "n", "{module}", "m", "{system}", "s", "{provider}", "q", "{version}", "1.0.0", "{os}", "linux", "{arch}", "amd64", "{key}", "K").Replace(rt.path)
		require.NotContains(t, path, "{", "a new path variable needs a value here")
		if rt.open && !strings.HasPrefix(rt.path, "/api/v2/task-results/") { // those ask for the token of a run task
			open[rt.path] = true
			continue
		}
		for _, token := range []string{"", "bad"} {
			w := ask(h, rt.method, path, token)
			assert.Equalf(t, 401, w.Code, "%s %s", rt.method, rt.path)
			assert.Equal(t, "unauthorized", firstError(t, w).Title)
		}
	}
	assert.Equal(t, map[string]bool{
		"/.well-known/terraform.json": true, "/.well-known/jwks": true, "/.well-known/openid-configuration": true, "/healthz": true, "/readyz": true, "/api/v2/ping": true, "/api/meta/ip-ranges": true, "/api/v2/users/{id}/avatar": true,
		uploadStateLink.template(): true, uploadJSONStateLink.template(): true, uploadConfigurationLink.template(): true, uploadPolicySetLink.template(): true,
		planLogLink.template(): true, applyLogLink.template(): true, queryLogLink.template(): true,
		uploadModuleLink.template(): true, uploadShasumsLink.template(): true, uploadSignatureLink.template(): true, uploadPackageLink.template(): true,
		archiveLink.template(): true, packageLink.template(): true, shasumsLink.template(): true, signatureLink.template(): true,
	}, open)
}

func TestLinksRefuseOtherTokens(t *testing.T) {
	h, log := bare(t, nil)
	s := &server{Deps: Deps{Links: testLinks(t), Address: "https://h"}}
	for _, kind := range []linkKind{uploadStateLink, uploadJSONStateLink, uploadConfigurationLink, uploadPolicySetLink, planLogLink, applyLogLink, queryLogLink} {
		method := "PUT"
		if strings.HasSuffix(kind.suffix, "/log/") {
			method = "GET"
		}
		foreign := strings.TrimPrefix(s.logLink(kind, "x"), "https://h") // minted by another key
		for _, path := range []string{foreign, kind.path + "x" + kind.suffix + "nonexisting"} {
			w := ask(h, method, path, "")
			assert.Equalf(t, 404, w.Code, "%s", path)
			assert.Equal(t, "link_invalid", firstError(t, w).Code)
		}
		token := foreign[strings.LastIndex(foreign, "/")+1:]
		assert.NotContains(t, log.String(), token, "a link's token is a secret")
	}
}

func TestAPanicIsA500ThatSaysNothing(t *testing.T) {
	h, log := bare(t, nil)
	w := ask(h, "GET", "/api/v2/account/details", "good")
	assert.Equal(t, 500, w.Code)
	e := firstError(t, w)
	assert.Equal(t, errorObject{ID: w.Header().Get("X-Request-Id"), Status: "500", Code: "internal", Title: "internal server error"}, e)
	assert.Contains(t, log.String(), "nil pointer")
	assert.Contains(t, log.String(), e.ID)
}

func TestOneLogLineWithoutSecrets(t *testing.T) {
	h, log := bare(t, nil)
	ask(h, "GET", "/api/v2/organizations/acme%2Fx/workspaces?search[name]=hidden", "wrong-token")
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	require.Len(t, lines, 1)
	var line map[string]any
	require.NoError(t, json.Unmarshal([]byte(lines[0]), &line))
	assert.Equal(t, "/api/v2/organizations/{organization}/workspaces", line["route"])
	assert.Equal(t, "acme/x", line["organization"], "an escaped slash belongs to the name")
	assert.Equal(t, float64(401), line["status"])
	assert.NotContains(t, lines[0], "wrong-token")
	assert.NotContains(t, lines[0], "hidden")
}

func TestNULInTheQueryIsMalformed(t *testing.T) {
	h, _ := bare(t, nil)
	w := ask(h, "GET", "/api/v2/organizations/o/workspaces?search[name]=%00", "good")
	assert.Equal(t, 400, w.Code)
	assert.Equal(t, "invalid_parameter", firstError(t, w).Code)
}
