package throttle

import (
	"math"
	"strconv"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/clock"
	"github.com/holdfast-run/holdfast/fault"
)

// Limit lets each token make so many requests a second, in this process. A burst may have a
// whole second's at once. Nil limits nothing.
type Limit struct {
	operator  int        // what the operator says; 0 is no limit
	site      func() int // what site admins say in place of it; 0 is nothing
	mu        sync.Mutex
	perSecond int // as it holds now
	byToken   map[string]*rate.Limiter
}

// remembered is how many tokens are kept before those that were idle are forgotten.
const remembered = 10_000

// New makes a limit of the operator's, in place of which there may be one of the site's, which is
// asked for at each request.
func New(operator int, site func() int) *Limit {
	return &Limit{operator: operator, site: site, byToken: map[string]*rate.Limiter{}}
}

// limit is how many there may be now; 0 is no limit. Where that changed, all tokens begin anew.
func (l *Limit) limit() int {
	if l == nil {
		return 0
	}
	holds := l.site()
	if holds == 0 {
		holds = l.operator
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.perSecond != holds {
		l.perSecond, l.byToken = holds, map[string]*rate.Limiter{}
	}
	return holds
}

// take counts one request. remaining is how many may follow at once, and reset how long it
// takes until there may be another, when ok is false, or a whole second's again.
func (l *Limit) take(token string, now time.Time) (ok bool, remaining int, reset time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.perSecond == 0 { // set so this moment
		return true, 0, 0
	}
	limiter := l.byToken[token]
	if limiter == nil {
		if len(l.byToken) >= remembered {
			for known, idle := range l.byToken {
				if idle.TokensAt(now) >= float64(l.perSecond) {
					delete(l.byToken, known)
				}
			}
		}
		limiter = rate.NewLimiter(rate.Limit(l.perSecond), l.perSecond)
		l.byToken[token] = limiter
	}
	ok = limiter.AllowN(now, 1)
	left := limiter.TokensAt(now)
	missing := float64(l.perSecond) - left
	if !ok {
		missing = 1 - left
	}
	return ok, max(0, int(left)), time.Duration(math.Ceil(missing / float64(l.perSecond) * float64(time.Second)))
}

// Header takes the headers of an answer.
type Header interface{ Set(name, value string) }

// Check refuses a request over the limit with Exhausted "rate_limited", and says in every
// answer, in the headers of the original API, how it stands. The token of a run is not counted: a run is not
// slowed down half-way.
func (l *Limit) Check(actor authz.Actor, header Header) error {
	limit := l.limit()
	if limit == 0 || actor.Kind == authz.AttemptActor {
		return nil
	}
	ok, remaining, reset := l.take(string(actor.Token), clock.Now())
	l.Announce(header)
	header.Set("X-RateLimit-Remaining", strconv.Itoa(remaining))
	header.Set("X-RateLimit-Reset", strconv.FormatFloat(reset.Seconds(), 'f', 3, 64))
	if ok {
		return nil
	}
	header.Set("Retry-After", strconv.Itoa(int(math.Ceil(reset.Seconds()))))
	return fault.New(fault.Exhausted, "rate_limited", "This token may make %d requests a second, and made more. Wait for %d ms.", limit, reset.Milliseconds()+1)
}

// Announce tells clients the limit: some slow themselves down by it.
func (l *Limit) Announce(header Header) {
	if limit := l.limit(); limit > 0 {
		header.Set("X-RateLimit-Limit", strconv.Itoa(limit))
	}
}
