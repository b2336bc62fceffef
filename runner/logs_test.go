package runner

import (
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/holdfast-run/holdfast/runnerapi/wire"
)

// A server that refuses logs and status polls while tofu runs does not disturb it; all of the
// log arrives once it is back.
func TestLogFailuresDoNotDisturbTofu(t *testing.T) {
	t.Parallel()
	var refusals atomic.Int32
	var down atomic.Bool
	down.Store(true)
	f := newFakeServer(t, wire.Manifest{}, map[string]string{"main.tf": cloudConfig})
	f.override = func(w http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, "/artifacts/plan-json") {
			down.Store(false) // tofu has done its work
		}
		failing := strings.HasSuffix(r.URL.Path, "/logs") || strings.HasSuffix(r.URL.Path, "/status")
		if !failing || !down.Load() {
			return false
		}
		w.WriteHeader([]int{500, 401, 503, 404}[refusals.Add(1)%4])
		return true
	}
	start(t, f.config())
	done := f.await()
	assert.Equal(t, wire.OutcomeFinished, done.Outcome, f.logText())
	assert.Positive(t, refusals.Load())
	assert.EqualValues(t, len(f.logText()), done.LogSize)
	assert.Contains(t, f.logText(), "Plan: 1 to add")
}

// inTwoPieces lets the log that people read come in two pieces at least, on any machine: the
// run gets its configuration only when the server has some of what the runner says before.
// From the second piece on, rest decides.
func (f *fakeServer) inTwoPieces(rest func(w http.ResponseWriter) bool) func(http.ResponseWriter, *http.Request) bool {
	begun := make(chan struct{})
	var once sync.Once
	return func(w http.ResponseWriter, r *http.Request) bool {
		switch {
		case strings.HasSuffix(r.URL.Path, "/inputs/"+wire.KindConfiguration):
			select {
			case <-begun:
			case <-r.Context().Done():
			}
		case !strings.HasSuffix(r.URL.Path, "/logs") || r.Header.Get(wire.HeaderLogStream) != wire.StreamHuman:
		case r.Header.Get(wire.HeaderOffset) != "0":
			return rest(w)
		default:
			once.Do(func() { close(begun) })
		}
		return false
	}
}

// A server that has less of the log than it said gets it from there again.
func TestServerLosesLog(t *testing.T) {
	t.Parallel()
	f := newFakeServer(t, wire.Manifest{}, map[string]string{"main.tf": cloudConfig})
	var lost atomic.Bool
	f.override = f.inTwoPieces(func(w http.ResponseWriter) bool {
		if lost.Swap(true) {
			return false
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		f.log = f.log[:len(f.log)/2]
		answer(w, 200, wire.LogPosition{Next: int64(len(f.log))})
		return true
	})
	start(t, f.config())
	done := f.await()
	assert.Equal(t, wire.OutcomeFinished, done.Outcome)
	assert.True(t, lost.Load())
	assert.EqualValues(t, len(f.logText()), done.LogSize)
	assert.True(t, strings.HasPrefix(f.logText(), "OpenTofu v"+testTofu(t).version+"\non "))
	assert.Equal(t, 1, strings.Count(f.logText(), "Plan: 1 to add"))
}

// A log that the server takes only in part does not keep the end from being reported.
func TestLogNotTaken(t *testing.T) {
	t.Parallel()
	f := newFakeServer(t, wire.Manifest{}, map[string]string{"main.tf": cloudConfig})
	var refused atomic.Bool
	f.override = f.inTwoPieces(func(w http.ResponseWriter) bool {
		refused.Store(true)
		problem(w, 413, "log_too_large", "enough")
		return true
	})
	start(t, f.config())
	done := f.await()
	assert.Equal(t, wire.OutcomeFinished, done.Outcome)
	assert.True(t, refused.Load())
	assert.Positive(t, done.LogSize)
	assert.EqualValues(t, len(f.logText()), done.LogSize, "what the server has")
}
