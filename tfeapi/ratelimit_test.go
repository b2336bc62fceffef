package tfeapi

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/throttle"
)

func TestARateLimitIsSaidAsClientsReadIt(t *testing.T) {
	w := newWorld(t)
	asked := func(perSecond int) func(path, token string) *http.Response {
		deps := w.deps
		deps.Limit = throttle.New(perSecond, w.deps.Site.RequestLimit)
		server := httptest.NewServer(New(deps))
		t.Cleanup(server.Close)
		return func(path, token string) *http.Response {
			t.Helper()
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path, nil)
			require.NoError(t, err)
			r.Header.Set("Authorization", "Bearer "+token)
			response, err := http.DefaultClient.Do(r)
			require.NoError(t, err)
			require.NoError(t, response.Body.Close())
			return response
		}
	}
	get := asked(1)
	ping := get("/api/v2/ping", "")
	assert.Equal(t, "1", ping.Header.Get("X-RateLimit-Limit"))
	var refused *http.Response
	require.Eventually(t, func() bool { // the first request after a second of rest is let through
		refused = get("/api/v2/account/details", w.ann)
		return refused.StatusCode == http.StatusTooManyRequests
	}, 30*time.Second, time.Millisecond)
	assert.Equal(t, []string{"1", "0", "1"}, []string{refused.Header.Get("X-RateLimit-Limit"), refused.Header.Get("X-RateLimit-Remaining"), refused.Header.Get("Retry-After")})
	reset, err := strconv.ParseFloat(refused.Header.Get("X-RateLimit-Reset"), 64)
	require.NoError(t, err)
	assert.Greater(t, reset, 0.0)
	assert.LessOrEqual(t, reset, 1.0)

	free := asked(0)
	for range 5 {
		response := free("/api/v2/account/details", w.ann)
		assert.Equal(t, []any{http.StatusOK, ""}, []any{response.StatusCode, response.Header.Get("X-RateLimit-Limit")}, "off unless it is set")
	}
	assert.Empty(t, free("/api/v2/ping", "").Header.Get("X-RateLimit-Limit"))
}

// TestTheRegistryIsLimitedLikeTheRest: what tofu asks when it installs counts, and says so.
func TestTheRegistryIsLimitedLikeTheRest(t *testing.T) {
	w := newWorld(t)
	deps := w.deps
	deps.Limit = throttle.New(1, w.deps.Site.RequestLimit)
	server := New(deps)
	for _, path := range []string{"/api/registry/v1/modules/acme/net/aws/versions", "/api/registry/v1/providers/acme/cloud/versions", "/api/registry/private/v2/gpg-keys?filter[namespace]=acme"} {
		var status int
		for status != http.StatusTooManyRequests { // the test's own limit ends it otherwise
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
			r.Header.Set("Authorization", "Bearer "+w.ann)
			reply := httptest.NewRecorder()
			server.ServeHTTP(reply, r)
			status = reply.Code
			require.Equal(t, "1", reply.Header().Get("X-RateLimit-Limit"), path)
			require.NotEmpty(t, reply.Header().Get("X-RateLimit-Remaining"), path)
		}
	}
}

// TestASiteAdminSetsTheRateLimit: it holds in place of the operator's, from the next request on.
func TestASiteAdminSetsTheRateLimit(t *testing.T) {
	w := newWorld(t)
	root := w.siteAdmin()
	limit := func() string {
		response, _ := w.send("GET", "/api/v2/organizations/acme", w.ann, "")
		return response.Header.Get("X-RateLimit-Limit")
	}
	assert.Empty(t, limit())
	set := func(attributes string) {
		response, body := w.send("PATCH", "/api/v2/admin/general-settings", root, `{"data":{"attributes":{`+attributes+`}}}`)
		require.Equal(t, 200, response.StatusCode, body)
	}
	set(`"api-rate-limiting-enabled":true,"api-rate-limit":1`)
	assert.Equal(t, "1", limit())
	statuses := map[int]bool{}
	for !statuses[http.StatusTooManyRequests] { // the test's own limit ends it otherwise
		response, _ := w.send("GET", "/api/v2/organizations/acme", w.ann, "")
		statuses[response.StatusCode] = true
	}
	set(`"api-rate-limiting-enabled":false`)
	assert.Empty(t, limit())
}
