package runs

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/dispatch"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

func TestAnUnsupportedProviderFailsWhatWaitsWithTheSameConfiguration(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspace()
	configuration := w.configuration(ws)
	queue := func(options ...func(*NewRun)) ids.Run {
		return w.run(ws, append(options, func(n *NewRun) { n.Configuration, n.Message = configuration, w.unique("m") })...).ID
	}
	first := queue()
	e := w.take(first)
	var waiting []ids.Run
	for range 5 {
		waiting = append(waiting, queue())
	}
	looks := queue(planOnly)
	fixed := w.run(ws).ID
	last := queue()
	e.done(Done{Outcome: OutcomeErrored, ExitCode: 1, Reason: UnsupportedProvider, Message: "x/y has no package for this platform"})

	assert.Equal(t, "unsupported_provider", w.wantStatus(first, PlanFailed).DurableReason)
	for _, run := range append(waiting, last) {
		d := w.wantStatus(run, PlanFailed)
		assert.Equal(t, "unsupported_provider", d.DurableReason)
		assert.Contains(t, d.StatusMessage, string(first))
		assert.Contains(t, d.StatusMessage, "x/y has no package")
		assert.Nil(t, d.AdmittedAt, "it never had its turn")
	}
	w.wantStatus(looks, Queued)
	w.wantAdmitted(fixed)
}

// A plan that holds nothing says nothing about the runs in the queue.
func TestAnUnsupportedProviderOfALookFailsAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspace()
	configuration := w.configuration(ws)
	same := func(n *NewRun) { n.Configuration = configuration }
	_, err := w.runs.Lock(ctx, w.owner, ws, "")
	require.NoError(t, err)
	waits, looks := w.run(ws, same), w.run(ws, same, planOnly)
	w.take(looks.ID).done(Done{Outcome: OutcomeErrored, ExitCode: 1, Reason: UnsupportedProvider})
	w.wantStatus(looks.ID, PlanFailed)
	w.wantWaits(waits.ID)
}

func TestWhatCannotBeDispatchedFailsAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspace()
	configuration := w.configuration(ws)
	same := func(n *NewRun) { n.Configuration, n.Message = configuration, w.unique("m") }
	e := w.take(w.run(ws, same).ID)
	next := w.run(ws, same)
	e.done(Done{Outcome: OutcomeErrored, ExitCode: -1, Reason: DispatchFailed, Message: "no tofu"})
	assert.Equal(t, "dispatch_failed", w.wantStatus(e.RunID, PlanFailed).DurableReason)
	assert.Equal(t, 1, count(w, "select count(*) from attempts where run_id = @r", postgres.Args{"r": e.RunID}), "it is not dispatched again")
	w.wantAdmitted(next.ID)

	w.take(next.ID).plan(true)
	require.NoError(t, w.runs.Confirm(ctx, w.owner, next.ID, Decision{}))
	last := w.run(ws, same)
	w.take(next.ID).done(Done{Outcome: OutcomeErrored, ExitCode: -1, Reason: DispatchFailed})
	d := w.wantStatus(next.ID, ApplyFailed)
	assert.Equal(t, "dispatch_failed", d.DurableReason)
	assert.Equal(t, dispatch.Finished, d.ApplyAttempt)
	w.wantAdmitted(last.ID)
}

func TestAReasonThatIsNotKnownCountsAsNone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.take(w.run(w.workspace()).ID)
	e.done(Done{Outcome: OutcomeErrored, ExitCode: 1, Reason: "bad_weather"})
	assert.Equal(t, "plan_failed", w.wantStatus(e.RunID, PlanFailed).DurableReason)
	wantCode(t, e.tryDone(Done{Outcome: OutcomeErrored, ExitCode: 1}), fault.Conflict, "attempt_ended")
}
