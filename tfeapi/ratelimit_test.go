package tfeapi

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/authz"
)

// At instants that the test says, so nothing hangs on how fast it runs.
func TestARateLimitIsOfOneToken(t *testing.T) {
	l, now := newRateLimit(3), time.Now()
	for left := 2; left >= 0; left-- {
		ok, remaining, _ := l.take("a", now)
		assert.Equal(t, []any{true, left}, []any{ok, remaining})
	}
	ok, remaining, reset := l.take("a", now)
	assert.Equal(t, []any{false, 0}, []any{ok, remaining})
	assert.InDelta(t, time.Second/3, reset, float64(time.Millisecond))
	ok, _, _ = l.take("b", now)
	assert.True(t, ok, "another token has its own")
	ok, _, _ = l.take("a", now.Add(reset+time.Millisecond))
	assert.True(t, ok, "when the reset has come")
	ok, remaining, _ = l.take("a", now.Add(time.Hour))
	assert.Equal(t, []any{true, 2}, []any{ok, remaining}, "and never more than a second's at once")
}

func TestIdleTokensAreForgotten(t *testing.T) {
	l, now := newRateLimit(1), time.Now()
	for i := range remembered {
		l.take(fmt.Sprint(i), now)
	}
	l.take("new", now.Add(time.Minute))
	assert.Len(t, l.byToken, 1)
}

func TestARateLimitIsSaidAsClientsReadIt(t *testing.T) {
	w := newWorld(t)
	asked := func(perSecond int) func(path, token string) *http.Response {
		deps := w.deps
		deps.RateLimit = perSecond
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
	limit := newRateLimit(1)
	for range 3 {
		assert.NoError(t, limit.check(authz.Actor{Kind: authz.AttemptActor}, http.Header{}), "a run is not slowed down")
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
