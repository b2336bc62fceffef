package runner

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/runnerapi/wire"
)

// script answers the calls of a runner in turn, and keeps what they were.
type script struct {
	mu      sync.Mutex
	answers []func(w http.ResponseWriter)
	calls   []string
	reports []wire.Done
}

func (s *script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	call := r.Method + " " + r.URL.Path
	if offset := r.Header.Get(wire.HeaderOffset); offset != "" {
		call += " " + r.Header.Get(wire.HeaderLogStream) + " at " + offset
	} else {
		var done wire.Done
		_ = json.NewDecoder(r.Body).Decode(&done)
		s.reports = append(s.reports, done)
	}
	s.calls = append(s.calls, call)
	if len(s.answers) == 0 {
		problem(w, http.StatusTeapot, "unexpected", "nothing more was expected")
		return
	}
	next := s.answers[0]
	s.answers = s.answers[1:]
	next(w)
}

func says(status int, code string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		if code == "" {
			w.WriteHeader(status)
			return
		}
		problem(w, status, code, "because")
	}
}

func has(bytes int64) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) { answer(w, http.StatusOK, wire.LogPosition{Next: bytes}) }
}

// reported lets an attempt report its end to a server that answers so.
func reported(t *testing.T, withEvents bool, answers ...func(http.ResponseWriter)) *script {
	t.Helper()
	s := &script{answers: answers}
	web := httptest.NewServer(s)
	t.Cleanup(web.Close)
	srv, err := newServer(web.URL, "")
	require.NoError(t, err)
	end, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	a := &attempt{id: "att-1", server: srv, session: wire.Session{Token: "t"}, end: end, log: &logs{}}
	if withEvents {
		a.log.events = &events{}
	}
	a.report(wire.Done{Outcome: wire.OutcomeFinished, LogSize: 10, JSONLogSize: 20})
	require.NoError(t, end.Err(), "the report came to an end by itself")
	assert.Empty(t, s.answers, "all calls were made: %v", s.calls)
	return s
}

const (
	callDone  = "POST /runner/v1/attempts/att-1/done"
	callLogs  = "POST /runner/v1/attempts/att-1/logs "
	humanAt10 = callLogs + "human at 10"
	jsonAt20  = callLogs + "json at 20"
)

func TestAReportTheServerNeedsNoMoreIsNotRepeated(t *testing.T) {
	for _, code := range []string{"attempt_ended", "state_unproven"} {
		s := reported(t, false, says(http.StatusConflict, code))
		assert.Equal(t, []string{callDone}, s.calls, code)
	}
}

func TestAReportIsRepeatedWhileTheServerCannotTakeIt(t *testing.T) {
	s := reported(t, false, says(http.StatusServiceUnavailable, "database_unavailable"), says(http.StatusBadGateway, ""), says(http.StatusNoContent, ""))
	assert.Equal(t, []string{callDone, callDone, callDone}, s.calls)
	assert.Equal(t, s.reports[0], s.reports[2], "the exact repeat")
}

// TestAReportIsCorrectedByWhatTheServerHas: the answer to the last piece of a log was lost.
func TestAReportIsCorrectedByWhatTheServerHas(t *testing.T) {
	s := reported(t, true, says(http.StatusConflict, wire.CodeLogIncomplete), has(14), has(20), says(http.StatusNoContent, ""))
	assert.Equal(t, []string{callDone, humanAt10, jsonAt20, callDone}, s.calls)
	assert.Equal(t, []int64{14, 20}, []int64{s.reports[1].LogSize, s.reports[1].JSONLogSize})

	s = reported(t, false, says(http.StatusConflict, wire.CodeLogIncomplete), has(14), says(http.StatusNoContent, ""))
	assert.Equal(t, []string{callDone, humanAt10, callDone}, s.calls, "there is no second log to ask for")

	s = reported(t, false, says(http.StatusConflict, wire.CodeLogIncomplete), says(http.StatusUnauthorized, "unauthenticated"))
	assert.Equal(t, []string{callDone, humanAt10}, s.calls)
}

// TestTheServerTellsTheRunnerToEnd: a drained runner deregisters and ends without an error.
func TestTheServerTellsTheRunnerToEnd(t *testing.T) {
	t.Parallel()
	f := newFakeServer(t, wire.Manifest{}, nil)
	polls := make(chan wire.Poll, 10)
	f.override = func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != wire.PathPoll {
			return false
		}
		var in wire.Poll
		_ = json.NewDecoder(r.Body).Decode(&in)
		polls <- in
		w.Header().Set(wire.HeaderRunner, "agent-1")
		w.Header().Set(wire.HeaderDrain, "true")
		w.WriteHeader(http.StatusNoContent)
		return true
	}
	cfg := f.config()
	cfg.Labels = []string{"gpu"}
	require.NoError(t, Run(t.Context(), cfg))
	assert.Len(t, polls, 1)
	first := <-polls
	assert.Equal(t, []any{wire.Version, wire.OldestVersion, []string{"gpu"}}, []any{first.ProtocolVersion, first.OldestVersion, first.Labels})
	assert.Equal(t, []string{"DELETE runners/agent-1"}, f.calls)
}

// TestARunnerNamesItself, so that an offer whose answer was lost is asked for under the
// same name, from the first poll on.
func TestARunnerNamesItself(t *testing.T) {
	t.Parallel()
	f := newFakeServer(t, wire.Manifest{}, nil)
	var names []string
	f.override = func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != wire.PathPoll {
			return false
		}
		var in wire.Poll
		_ = json.NewDecoder(r.Body).Decode(&in)
		switch names = append(names, in.RunnerID); len(names) {
		case 1:
			panic(http.ErrAbortHandler) // the answer is lost
		case 2:
			problem(w, http.StatusNotFound, "not_found", "another group's")
		default:
			w.Header().Set(wire.HeaderDrain, "true")
			w.WriteHeader(http.StatusNoContent)
		}
		return true
	}
	require.NoError(t, Run(t.Context(), f.config()))
	require.Len(t, names, 3)
	_, err := ids.Parse[ids.Runner](names[0])
	require.NoError(t, err)
	assert.Equal(t, names[0], names[1])
	assert.NotEqual(t, names[1], names[2], "a name that is taken is given up")
	assert.Equal(t, []string{"DELETE runners/" + names[2]}, f.calls)
}

func TestARunnerThatIsTooOldSaysSoAndEnds(t *testing.T) {
	t.Parallel()
	f := newFakeServer(t, wire.Manifest{}, nil)
	f.override = func(w http.ResponseWriter, _ *http.Request) bool {
		problem(w, http.StatusUnprocessableEntity, wire.CodeVersion, "Install the holdfast-runner of release 9.")
		return true
	}
	err := Run(t.Context(), f.config())
	assert.True(t, fault.HasCode(err, wire.CodeVersion), "%v", err)
	assert.ErrorContains(t, err, "Install the holdfast-runner of release 9.")
}
