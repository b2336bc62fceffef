package recovery_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/gates"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/runs"
)

// Who holds the lease of a prepared recovery may look for drift: the run plans at once beside
// the one that holds the workspace, takes nothing from it, and can never be applied.
func TestADriftPreview(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := w.run()
	e := w.applying(run)
	waits := w.run()
	last := e.publish(1)
	e.failed()
	_, _, err := w.Preview(ctx, w.owner, run)
	wantCode(t, err, fault.Conflict, "recovery_not_prepared")
	only := verify()
	only.PrepareOnly = true
	_, err = w.Recover(ctx, w.owner, run, only)
	require.NoError(t, err)
	before := w.fence()

	preview, started, err := w.Preview(ctx, w.owner, run)
	require.NoError(t, err)
	assert.True(t, started)
	same, started, err := w.Preview(ctx, w.owner, run)
	require.NoError(t, err)
	assert.Equal(t, []any{preview, false}, []any{same, started}, "one at a time")
	d := w.get(preview)
	assert.Equal(t, []any{true, true, false, "holdfast-recovery", last.ID, w.owner.User}, []any{d.PlanOnly, d.RefreshOnly, d.AutoApply, d.Source, d.PredecessorVersionID, d.CreatedBy})
	assert.Equal(t, preview, w.evidence(run).Preview.Run.ID)

	w.take(preview).plan() // it is offered, although another run waits for the workspace
	shown := w.evidence(run)
	assert.Equal(t, []any{runs.Succeeded, true}, []any{shown.Preview.Run.DurableStatus, *shown.Preview.Run.HasChanges})
	assert.Error(t, w.runs.Confirm(ctx, w.owner, preview, runs.Decision{}))
	assert.Equal(t, before, w.fence(), "the workspace is held as before")
	assert.Equal(t, runs.Queued, w.get(waits).DurableStatus)
	assert.Empty(t, values[string](w, "select id from attempts where run_id = @run and phase = 'apply'", postgres.Args{"run": preview}))
	_, _, err = w.runs.Create(ctx, w.owner, runs.NewRun{Workspace: w.ws, PlanOnly: true, RefreshOnly: true})
	assert.True(t, fault.Is(err, fault.RecoveryHeld), "a client cannot ask for such a run: %v", err)

	second, started, err := w.Preview(ctx, w.owner, run)
	require.NoError(t, err)
	assert.True(t, started, "the first has ended")
	assert.NotEqual(t, preview, second)
	_, err = w.Recover(ctx, w.owner, run, verify())
	require.NoError(t, err, "a preview at work does not hinder the end")
	assert.Equal(t, second, w.evidence(run).Preview.Run.ID)
	_, _, err = w.Preview(ctx, w.owner, run)
	wantCode(t, err, fault.Conflict, "not_held")
	assert.Len(t, values[string](w, "select id from audit_entries where action = 'run.recovery_preview'", nil), 2)
}

// Nobody but the holder of the lease starts one.
func TestWhoMayLookForDrift(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run, _ := w.held(1)
	only := verify()
	only.PrepareOnly = true
	_, err := w.Recover(ctx, w.owner, run, only)
	require.NoError(t, err)
	_, _, err = w.Preview(ctx, w.operator("cy"), run)
	wantCode(t, err, fault.Conflict, "recovery_lease_held")
	_, _, err = w.Preview(ctx, w.member, run)
	assert.True(t, fault.Is(err, fault.Forbidden), "%v", err)
	w.stale.Store(true)
	_, _, err = w.Preview(ctx, w.owner, run)
	wantCode(t, err, fault.Forbidden, "step_up_required")
	w.stale.Store(false)
	w.lapse(run)
	_, _, err = w.Preview(ctx, w.owner, run)
	wantCode(t, err, fault.Conflict, "recovery_lease_expired")
	_, err = w.Recover(ctx, w.owner, run, only)
	require.NoError(t, err)
	closed := gates.New(w.db)
	_, err = closed.SetSuspension(ctx, system, "acme", true, "unpaid")
	require.NoError(t, err)
	_, _, err = w.Preview(ctx, w.owner, run)
	wantCode(t, err, fault.Forbidden, "organization_suspended")
	_, err = closed.SetSuspension(ctx, system, "acme", false, "paid")
	require.NoError(t, err)
	_, started, err := w.Preview(ctx, w.owner, run)
	require.NoError(t, err)
	assert.True(t, started)
}
