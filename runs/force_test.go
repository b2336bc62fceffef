package runs

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/dispatch"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

func TestForceExecute(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspace()
	ahead := w.waiting(ws)
	earlier, run, later := w.run(ws), w.run(ws), w.run(ws)
	wantCode(t, w.runs.ForceExecute(ctx, w.member, run.ID), fault.Forbidden, "forbidden")
	require.NoError(t, w.runs.ForceExecute(ctx, w.owner, run.ID))
	w.wantAdmitted(run.ID)
	assert.Equal(t, "FORCE_EXECUTED", w.wantStatus(ahead, Rejected).DurableReason)
	assert.Equal(t, "FORCE_EXECUTED", w.wantStatus(earlier.ID, Canceled).DurableReason)
	assert.Nil(t, w.get(earlier.ID).AdmittedAt, "nothing slipped in between")
	w.wantWaits(later.ID)
	w.wantReleased(ahead)
	assert.Equal(t, 1, count(w, "select count(*) from audit_entries where object_id = @r and action = 'run.force-executed' and details->>'instead_of' = @a", postgres.Args{"r": run.ID, "a": ahead}))
	wantCode(t, w.runs.ForceExecute(ctx, w.owner, run.ID), fault.Conflict, "invalid_transition")
	w.take(run.ID).plan(true)
}

func TestForceExecuteNeedsARunThatWaitsBehindADecision(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspace()
	refused := func(run ids.Run, kind fault.Kind, code string) {
		t.Helper()
		before := w.get(run)
		wantCode(t, w.runs.ForceExecute(ctx, w.owner, run), kind, code)
		assert.Equal(t, before, w.get(run))
	}
	ahead := w.run(ws)
	waits := w.run(ws)
	refused(ahead.ID, fault.Conflict, "invalid_transition")
	refused(waits.ID, fault.Conflict, "invalid_transition") // behind a queued one
	e := w.take(ahead.ID)
	refused(waits.ID, fault.Conflict, "invalid_transition") // a planning one
	e.plan(true)
	refused(ahead.ID, fault.Conflict, "invalid_transition")
	require.NoError(t, w.runs.Confirm(ctx, w.owner, ahead.ID, Decision{}))
	refused(waits.ID, fault.Conflict, "invalid_transition") // a confirmed one
	e = w.take(ahead.ID)
	e.start()
	refused(waits.ID, fault.Conflict, "invalid_transition") // an applying one
	e.done(Done{Outcome: OutcomeUnknown, TofuStarted: true})
	refused(waits.ID, fault.RecoveryHeld, "workspace_recovery_pending")

	locked := w.workspace()
	_, err := w.runs.Lock(ctx, w.owner, locked, "")
	require.NoError(t, err)
	refused(w.run(locked).ID, fault.Locked, "workspace_locked")
}

// due lets the time pass that a canceled plan's runner has to stop.
func (w *world) due(run ids.Run) {
	w.Helper()
	w.exec("update runs set force_cancel_available_at = clock_timestamp() where id = @r and force_cancel_available_at > clock_timestamp()", postgres.Args{"r": run})
}

func TestForceCancelEndsAPlanThatDoesNotStop(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspace()
	e := w.take(w.run(ws).ID)
	next := w.run(ws)
	wantCode(t, w.runs.ForceCancel(ctx, w.owner, e.RunID, ""), fault.Conflict, "force_cancel_unavailable")
	e.canceling()
	d := w.get(e.RunID)
	assert.Equal(t, w.runs.settings.ForceCancelGrace.Seconds(), d.ForceCancelAvailableAt.Sub(*d.CancelRequestedAt).Round(1e9).Seconds())
	assert.False(t, d.ForceCancelable())
	wantCode(t, w.runs.ForceCancel(ctx, w.owner, e.RunID, ""), fault.Conflict, "force_cancel_unavailable")
	w.wantStatus(e.RunID, Planning)
	w.due(e.RunID)
	assert.True(t, w.get(e.RunID).ForceCancelable())
	wantCode(t, w.runs.ForceCancel(ctx, w.member, e.RunID, ""), fault.Forbidden, "forbidden")
	writer := w.member
	writer.Grants = map[ids.Organization]authz.Grants{w.acme.ID: {Workspaces: map[ids.Workspace][]authz.Level{e.WorkspaceID: {"workspace:write"}}}}
	require.True(t, authz.Can(writer, authz.RunApply, w.get(e.RunID).Object()))
	wantCode(t, w.runs.ForceCancel(ctx, writer, e.RunID, ""), fault.Forbidden, "forbidden") // it is for who administrates the workspace
	require.NoError(t, w.runs.ForceCancel(ctx, w.owner, e.RunID, "it hangs"))

	d = w.wantStatus(e.RunID, Canceled)
	assert.Equal(t, ForceCanceled, d.DurableReason)
	assert.Contains(t, d.StatusMessage, "it hangs")
	w.wantReleased(e.RunID)
	w.wantAdmitted(next.ID)
	_, err := w.disp.Authenticate(ctx, e.session.Token)
	assert.True(t, fault.Is(err, fault.Unauthenticated), "its runner has no authority any more: %v", err)
	stop, err := w.runs.Heartbeat(ctx, e.actor)
	require.NoError(t, err)
	assert.True(t, stop)
	wantCode(t, e.tryDone(planned(true)), fault.Conflict, "attempt_ended")
	wantCode(t, w.runs.ForceCancel(ctx, w.owner, e.RunID, ""), fault.Conflict, "invalid_transition")
	assert.Equal(t, 1, count(w, "select count(*) from audit_entries where object_id = @r and action = 'run.force-canceled' and reason = 'it hangs'", postgres.Args{"r": e.RunID}))
}

func TestAnApplyIsNeverEndedByForce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.confirmed(w.workspace())
	wantCode(t, w.runs.ForceCancel(ctx, w.owner, e.RunID, ""), fault.Conflict, "invalid_transition")
	e.start()
	e.canceling()
	w.due(e.RunID)
	err := w.runs.ForceCancel(ctx, w.owner, e.RunID, "")
	wantCode(t, err, fault.Conflict, "invalid_transition")
	assert.ErrorContains(t, err, "holdfast admin recover "+string(e.RunID))
	assert.False(t, w.get(e.RunID).ForceCancelable())
	w.wantStatus(e.RunID, Applying)
	assert.Equal(t, dispatch.Running, w.get(e.RunID).ApplyAttempt)
}

// Clients demand the time on whatever was canceled (amendment 10).
func TestEveryCancelSetsTheTimeOfItsForce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspace()
	queued := w.run(ws).ID
	require.NoError(t, w.runs.Cancel(ctx, w.owner, queued, ""))
	decided := w.waiting(ws)
	require.NoError(t, w.runs.Cancel(ctx, w.owner, decided, ""))
	for _, run := range []ids.Run{queued, decided} {
		d := w.wantStatus(run, Canceled)
		require.NotNil(t, d.ForceCancelAvailableAt)
		assert.False(t, d.ForceCancelDue, "it is in the future")
	}
}

func TestCancelOfAFinishedRunChangesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspace()
	e := w.confirmed(ws)
	e.apply(1)
	for _, run := range []ids.Run{e.RunID, w.failed(ws)} {
		before := w.get(run)
		audited := count(w, "select count(*) from audit_entries", postgres.Args{})
		wantCode(t, w.runs.Cancel(ctx, w.owner, run, "late"), fault.Conflict, "invalid_transition")
		before.PlanJustFinished = w.get(run).PlanJustFinished
		assert.Equal(t, before, w.get(run))
		assert.Equal(t, audited, count(w, "select count(*) from audit_entries", postgres.Args{}))
	}
}

// Whoever queued a run may take it back as long as nobody has decided that it is applied.
func TestWhoMayCancel(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.get(w.run(w.workspace()).ID).Run
	own, foreign := r, r
	foreign.CreatedBy = "user-0000000000000000"
	confirmed := own
	confirmed.ConfirmedAt = &own.CreatedAt
	for name, c := range map[string]struct {
		actor authz.Actor
		run   Run
		want  bool
	}{
		"may apply, its own":        {w.owner, own, true},
		"may apply, another's":      {w.owner, foreign, true},
		"may apply, confirmed":      {w.owner, confirmed, true},
		"the server":                {system, confirmed, true},
		"may only read":             {w.member, own, false},
		"may only read, but queued": {authz.Actor{Kind: authz.UserActor, User: w.owner.User, Roles: w.member.Roles}, own, false},
		"an attempt":                {authz.Actor{Kind: authz.AttemptActor, Run: own.ID, Organization: own.OrganizationID, Workspace: own.WorkspaceID, Phase: authz.Plan}, own, false},
	} {
		assert.Equal(t, c.want, MayCancel(c.actor, c.run), name)
	}
	wantCode(t, w.runs.Cancel(ctx, w.member, r.ID, ""), fault.Forbidden, "forbidden")
}

func TestTheServerMayCancelWhatARunnerWorksOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.take(w.run(w.workspace()).ID)
	require.NoError(t, w.runs.Cancel(ctx, system, e.RunID, ""))
	assert.NotNil(t, w.wantStatus(e.RunID, Planning).CancelRequestedAt)
	e.done(Done{Outcome: OutcomeCanceled})
	w.wantStatus(e.RunID, Canceled)
}
