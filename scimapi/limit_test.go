package scimapi_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/scimapi"
	"github.com/holdfast-run/holdfast/throttle"
)

// TestAnIdentityProviderIsLimitedLikeOthers: its requests count, each answer says how it stands, and one
// too many is refused in the words of the protocol, with the time after which it can be repeated.
func TestAnIdentityProviderIsLimitedLikeOthers(t *testing.T) {
	s := newSite(t)
	server := scimapi.New(scimapi.Deps{
		Authenticate: s.who.AuthenticateSCIM, SCIM: s.scim, Address: s.url, Log: slog.New(slog.DiscardHandler), Limit: throttle.New(2, func() int { return 0 }),
	})
	ask := func() *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/scim/v2/Users", nil)
		r.Header.Set("Authorization", "Bearer "+s.token)
		reply := httptest.NewRecorder()
		server.ServeHTTP(reply, r)
		return reply
	}
	first := ask()
	require.Equal(t, http.StatusOK, first.Code, first.Body)
	assert.Equal(t, []string{"2", "1"}, []string{first.Header().Get("X-RateLimit-Limit"), first.Header().Get("X-RateLimit-Remaining")})
	reply := ask()
	for reply.Code == http.StatusOK { // the test's own limit ends it otherwise
		reply = ask()
	}
	assert.Equal(t, []any{http.StatusTooManyRequests, "1", "application/scim+json"}, []any{reply.Code, reply.Header().Get("Retry-After"), reply.Header().Get("Content-Type")})
	assert.Contains(t, reply.Body.String(), "2 requests a second")
	assert.Empty(t, s.ask("GET", "/Users", "").header.Get("X-RateLimit-Limit"), "off unless it is set")
}
