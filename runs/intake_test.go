package runs

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/gates"
)

func (w *world) pauseIntake(paused bool) {
	w.Helper()
	_, err := gates.New(w.db).SetControls(ctx, system, gates.Controls{IntakePaused: paused})
	require.NoError(w, err)
}

// RL-12: a run exists durably before it is dispatched, and keeps its place.
func TestWhileTheIntakeIsPausedRunsAreKeptInTheirOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspace()
	w.pauseIntake(true)
	first, second, look := w.run(ws), w.run(ws), w.run(ws, planOnly)
	canceled := w.run(ws)
	for range 2 {
		w.sweep()
		for _, r := range []Detail{first, second, look, canceled} {
			d := w.wantStatus(r.ID, DispatchPending)
			assert.Empty(t, d.steps(), "it is born so")
			assert.NotEmpty(t, d.WaitsFor())
		}
	}
	_, found := w.poll()
	assert.False(t, found)
	w.wantFree(ws)
	require.NoError(t, w.runs.Cancel(ctx, w.owner, canceled.ID, ""))
	w.wantStatus(canceled.ID, Canceled)

	w.pauseIntake(false)
	late := w.run(ws) // before the sweep: it must not overtake those that waited
	w.wantStatus(late.ID, DispatchPending)
	w.sweep()
	w.wantAdmitted(first.ID)
	w.wantWaits(second.ID)
	w.wantWaits(late.ID)
	assert.Equal(t, Queued, w.get(look.ID).DurableStatus)
	assert.NotNil(t, w.get(look.ID).AdmittedAt, "what only plans waits for nobody")
	assert.Equal(t, []Status{Queued}, w.get(first.ID).steps())
	w.take(first.ID).plan(false)
	w.wantAdmitted(second.ID)
	direct := w.run(w.workspace())
	w.wantAdmitted(direct.ID)
}
