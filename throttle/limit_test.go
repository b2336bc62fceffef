package throttle

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/holdfast-run/holdfast/authz"
)

func limited(perSecond int) *Limit {
	l := New(perSecond, func() int { return 0 })
	l.limit()
	return l
}

// At instants that the test says, so nothing hangs on how fast it runs.
func TestARateLimitIsOfOneToken(t *testing.T) {
	l, now := limited(3), time.Now()
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
	l, now := limited(1), time.Now()
	for i := range remembered {
		l.take(fmt.Sprint(i), now)
	}
	l.take("new", now.Add(time.Minute))
	assert.Len(t, l.byToken, 1)
}

func TestARunIsNotSlowedDown(t *testing.T) {
	limit := limited(1)
	for range 3 {
		assert.NoError(t, limit.Check(authz.Actor{Kind: authz.AttemptActor}, http.Header{}))
	}
	var none *Limit
	assert.NoError(t, none.Check(authz.Actor{Token: "a"}, http.Header{}), "without a limit there is none")
}

// Whoever sets the site's limit changes it for all, from the next request on.
func TestTheSitesLimitStandsBeforeTheOperators(t *testing.T) {
	site, header := 0, http.Header{}
	l := New(5, func() int { return site })
	l.Announce(header)
	assert.Equal(t, "5", header.Get("X-RateLimit-Limit"))
	site = 1
	actor := authz.Actor{Kind: authz.UserActor, Token: "a"}
	assert.NoError(t, l.Check(actor, header))
	assert.Error(t, l.Check(actor, header))
	assert.Equal(t, []string{"1", "0"}, []string{header.Get("X-RateLimit-Limit"), header.Get("X-RateLimit-Remaining")})
	site = 0
	assert.NoError(t, l.Check(actor, header))
}
