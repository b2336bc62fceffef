package runs

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/dispatch"
	"github.com/holdfast-run/holdfast/postgres"
)

func (w *world) figures() Figures {
	w.Helper()
	f, err := w.runs.Figures(ctx)
	require.NoError(w, err)
	return f
}

func (f Figures) attempts(status dispatch.Status) (found dispatch.OpenAttempts) {
	for _, a := range f.Attempts {
		if a.Status == string(status) {
			found = a
		}
	}
	return found
}

func TestFigures(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	assert.Equal(t, Figures{}, w.figures(), "of nothing")

	ws := w.workspace()
	first, second := w.run(ws), w.run(ws)
	w.run(ws, planOnly) // waits for a runner, never for the workspace
	w.exec("update runs set created_at = created_at - interval '90 seconds' where id = @id", postgres.Args{"id": second.ID})
	f := w.figures()
	assert.Equal(t, 1, f.Waiting)
	assert.InDelta(t, 90, f.OldestWaiting.Seconds(), 60)
	assert.Equal(t, 2, f.attempts(dispatch.Pending).Count)
	assert.Zero(t, f.Dispatch, "no runner has taken anything")

	e := w.take(first.ID)
	e.silence(40 * time.Second)
	f = w.figures()
	assert.InDelta(t, 40, f.attempts(dispatch.Running).Silent.Seconds(), 30)
	assert.Zero(t, f.attempts(dispatch.Pending).Silent, "nobody is to be heard of")
	assert.Positive(t, f.Dispatch.P99)

	e.done(Done{Outcome: OutcomeErrored, ExitCode: 1})
	f = w.figures()
	assert.Zero(t, f.Waiting, "the second one was admitted")
	assert.Positive(t, f.Promotion.P99)
	w.exec("update runs set admitted_at = admitted_at + interval '3 seconds' where id = @id", postgres.Args{"id": second.ID})
	assert.InDelta(t, (f.Promotion.P99 + 3*time.Second).Seconds(), w.figures().Promotion.P99.Seconds(), 0.001)

	w.take(second.ID).plan(true)
	require.NoError(t, w.runs.Confirm(ctx, w.owner, second.ID, Decision{}))
	applying := w.take(second.ID)
	applying.start()
	assert.Zero(t, w.figures().Held)
	applying.done(Done{Outcome: OutcomeUnknown, TofuStarted: true})
	w.exec("update runs set finished_at = finished_at - interval '1 hour' where id = @id", postgres.Args{"id": second.ID})
	f = w.figures()
	assert.Equal(t, 1, f.Held)
	assert.InDelta(t, 3600, f.OldestHeld.Seconds(), 60)
}
