package runs

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// failOver makes the database another primary than the one that was noted.
func (w *world) failOver() {
	w.Helper()
	w.exec("update database_identity set timeline = timeline - 1", nil)
}

func (w *world) offers() bool {
	w.Helper()
	_, found := w.poll()
	return found
}

// TestAnotherPrimaryPausesDispatch: until what applies was heard of on it.
func TestAnotherPrimaryPausesDispatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.sweep() // notes the primary
	applying := w.applying(w.workspace())
	applying.silence(0)
	w.run(w.workspace())
	w.failOver()
	assert.False(t, w.offers(), "before any server has noticed")
	w.sweep()
	assert.False(t, w.offers(), "the apply has not been heard of")
	_, err := w.runs.Heartbeat(ctx, applying.actor)
	require.NoError(t, err)
	w.sweep()
	assert.True(t, w.offers())
	w.wantStatus(applying.RunID, Applying)

	t.Log("an apply that stays silent is lost, and held, before the pause ends")
	silent := w.applying(w.workspace())
	w.run(w.workspace())
	w.failOver()
	w.sweep()
	silent.silence(w.runs.settings.ApplyLiveness)
	require.NoError(t, w.runs.ReapSilent(ctx))
	_, err = w.runs.Heartbeat(ctx, applying.actor)
	require.NoError(t, err)
	w.sweep()
	w.wantHeld(silent.RunID)
	assert.True(t, w.offers())
}

// TestAnotherPrimaryThatForgotAnApplyHoldsItsWorkspace: the witness tells of it.
func TestAnotherPrimaryThatForgotAnApplyHoldsItsWorkspace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.sweep()
	forgotten, innocent := w.applying(w.workspace()), w.waiting(w.workspace())
	w.run(w.workspace())
	w.rewind(forgotten.RunID)
	forgotten.forget()
	w.failOver()
	w.store.SetDown(true)
	require.Error(t, NewSweeper(w.runs).Sweep(ctx))
	assert.False(t, w.offers(), "without the store nobody can tell")
	w.store.SetDown(false)
	w.sweep()
	w.wantHeld(forgotten.RunID)
	w.wantStatus(innocent, AwaitingApproval)
	assert.True(t, w.offers())
}
