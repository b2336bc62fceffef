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
	"github.com/holdfast-run/holdfast/workspaces"
)

// overdue backdates the deadline of a run that waits for a decision.
func (w *world) overdue(run ids.Run) {
	w.Helper()
	w.exec("update runs set approval_expires_at = clock_timestamp() where id = @id", postgres.Args{"id": run})
}

func (w *world) decisions(run ids.Run, decision, source string) int {
	w.Helper()
	return count(w, "select count(*) from approvals where run_id = @r and decision = @d and source = @s and reviewer_id = @u and requester_id = @u",
		postgres.Args{"r": run, "d": decision, "s": source, "u": w.owner.User})
}

func TestConfirm(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := w.waiting(w.workspace())
	wantCode(t, w.runs.Confirm(ctx, w.member, run, Decision{}), fault.Forbidden, "forbidden")
	require.NoError(t, w.runs.Confirm(ctx, w.owner, run, Decision{Comment: "go"}))
	d := w.wantStatus(run, AwaitingApproval)
	assert.NotNil(t, d.ConfirmedAt)
	assert.Equal(t, dispatch.Pending, d.ApplyAttempt)
	assert.Equal(t, 1, w.decisions(run, "approved", "native"))
	assert.Equal(t, 1, count(w, "select count(*) from audit_entries where object_id = @r and action = 'run.confirmed' and reason = 'go'", postgres.Args{"r": run}))

	wantCode(t, w.runs.Confirm(ctx, w.owner, run, Decision{}), fault.Conflict, "invalid_transition")
	wantCode(t, w.runs.Discard(ctx, w.owner, run, Decision{}), fault.Conflict, "invalid_transition")
}

func TestOnlyAFinishedPlanIsDecidedAbout(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := w.run(w.workspace()).ID
	refused := func() {
		t.Helper()
		wantCode(t, w.runs.Confirm(ctx, w.owner, run, Decision{}), fault.Conflict, "invalid_transition")
		wantCode(t, w.runs.Discard(ctx, w.owner, run, Decision{}), fault.Conflict, "invalid_transition")
	}
	refused()
	e := w.take(run)
	refused()
	e.plan(true)
	require.NoError(t, w.runs.Discard(ctx, w.owner, run, Decision{}))
	refused()
}

func TestDiscard(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspace()
	run := w.waiting(ws)
	next := w.run(ws)
	require.NoError(t, w.runs.Discard(ctx, w.owner, run, Decision{Comment: "no"}))
	d := w.wantStatus(run, Rejected)
	assert.Equal(t, 1, w.decisions(run, "rejected", "native"))
	assert.Empty(t, d.ApplyAttempt)
	w.wantReleased(run)
	w.wantAdmitted(next.ID)
}

func TestALateDecisionIsRefusedBeforeAndAfterTheSweep(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspace()
	run := w.waiting(ws)
	next := w.run(ws)
	w.sweep()
	w.wantStatus(run, AwaitingApproval)
	w.overdue(run)
	late := func() {
		t.Helper()
		wantCode(t, w.runs.Confirm(ctx, w.owner, run, Decision{}), fault.Conflict, "APPROVAL_EXPIRED")
		wantCode(t, w.runs.Discard(ctx, w.owner, run, Decision{}), fault.Conflict, "APPROVAL_EXPIRED")
	}
	late()
	w.wantStatus(run, AwaitingApproval)
	w.wantWaits(next.ID)
	w.sweep()
	d := w.wantStatus(run, Expired)
	assert.Equal(t, "APPROVAL_EXPIRED", d.DurableReason)
	assert.Empty(t, d.ApplyAttempt)
	w.wantReleased(run)
	w.wantAdmitted(next.ID)
	late()
	w.sweep()
	assert.Len(t, w.get(run).History, len(d.History))
}

// The deadline is asked once more where the run is confirmed: it may come while the approval is written.
func TestADeadlineThatComesWhileItIsDecided(t *testing.T) {
	w := newWorld(t)
	run := w.waiting(w.workspace())
	require.NoError(t, w.tx(func(tx postgres.Tx) error {
		_, err := postgres.Exec(ctx, tx, `create function late() returns trigger language plpgsql as $$
			begin update runs set approval_expires_at = clock_timestamp() where id = new.run_id; return new; end $$`, nil)
		if err == nil {
			_, err = postgres.Exec(ctx, tx, "create trigger late after insert on approvals for each row execute function late()", nil)
		}
		return err
	}))
	wantCode(t, w.runs.Confirm(ctx, w.owner, run, Decision{}), fault.Conflict, "APPROVAL_EXPIRED")
	assert.Nil(t, w.wantStatus(run, AwaitingApproval).ConfirmedAt)
	assert.Zero(t, w.decisions(run, "approved", "native"))
}

func TestADecisionBeforeTheDeadlineCounts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := w.waiting(w.workspace())
	require.NoError(t, w.runs.Confirm(ctx, w.owner, run, Decision{}))
	w.overdue(run)
	w.sweep()
	w.take(run).apply(1)
	w.wantStatus(run, Succeeded)
}

func TestAutoApplyIsTheRequestersOwnDecision(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	byWorkspace := w.workspaceWith(workspaces.Settings{AutoApply: ptr(true)})
	assert.True(t, w.run(w.workspace(), autoApply).AutoApply)
	assert.True(t, w.run(byWorkspace).AutoApply)
	for range 2 {
		e, found := w.poll()
		require.True(t, found)
		e.accept()
		e.plan(true)
		assert.Equal(t, 1, w.decisions(e.RunID, "approved", "auto-apply"))
		assert.NotNil(t, w.wantStatus(e.RunID, AwaitingApproval).ConfirmedAt)
		w.take(e.RunID).apply(1)
		assert.Equal(t, mainPath, w.wantStatus(e.RunID, Succeeded).steps())
	}
	off := w.run(byWorkspace, func(n *NewRun) { n.AutoApply = ptr(false) })
	assert.False(t, off.AutoApply, "what is asked for wins")
	require.NoError(t, w.runs.Cancel(ctx, w.owner, off.ID, ""))

	assert.False(t, w.run(byWorkspace, savePlan).AutoApply)
	assert.False(t, w.run(byWorkspace, planOnly).AutoApply)
	_, err := w.tryRun(byWorkspace, savePlan, autoApply)
	wantCode(t, err, fault.Invalid, "invalid_attribute")
}

// The right is looked at when the decision is recorded, not only when it is asked for.
func TestAutoApplyWaitsForSomebodyWhenItsRequesterLostTheRight(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.take(w.run(w.workspace(), autoApply).ID)
	w.exec("update memberships set role = 'member' where user_id = @user", postgres.Args{"user": w.owner.User})
	e.plan(true)
	d := w.wantStatus(e.RunID, AwaitingApproval)
	assert.Nil(t, d.ConfirmedAt)
	assert.Zero(t, w.decisions(e.RunID, "approved", "auto-apply"))
}

func TestAutoApplyNeedsTheRightToApply(t *testing.T) {
	t.Parallel()
	member := authz.Actor{
		Kind: authz.UserActor, Roles: map[ids.Organization]authz.Role{"org-1": authz.Member},
		Grants: map[ids.Organization]authz.Grants{"org-1": {Workspaces: map[ids.Workspace][]authz.Level{"ws-1": {"workspace:plan"}}}},
	}
	ws := workspaces.Workspace{ID: "ws-1", Organization: "org-1", AutoApply: true}
	auto, err := settleAutoApply(member, ws, NewRun{})
	require.NoError(t, err)
	assert.False(t, *auto, "the workspace's setting does not give a right")
	_, err = settleAutoApply(member, ws, NewRun{AutoApply: ptr(true)})
	assert.True(t, fault.Is(err, fault.Forbidden), "%v", err)
}

func TestCancelEndsAtOnceWhatNoRunnerWorksOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, prepare := range map[string]func(ws ids.Workspace) ids.Run{
		"queued and admitted": func(ws ids.Workspace) ids.Run { return w.run(ws).ID },
		"offered": func(ws ids.Workspace) ids.Run {
			run := w.run(ws).ID
			_, found := w.poll()
			require.True(t, found)
			return run
		},
		"awaiting approval": func(ws ids.Workspace) ids.Run { return w.waiting(ws) },
		"confirmed": func(ws ids.Workspace) ids.Run {
			run := w.waiting(ws)
			require.NoError(t, w.runs.Confirm(ctx, w.owner, run, Decision{}))
			return run
		},
		"apply offered": func(ws ids.Workspace) ids.Run {
			run := w.waiting(ws)
			require.NoError(t, w.runs.Confirm(ctx, w.owner, run, Decision{}))
			_, found := w.poll()
			require.True(t, found)
			return run
		},
	} {
		t.Run(name, func(t *testing.T) {
			ws := w.workspace()
			run := prepare(ws)
			next := w.run(ws)
			require.NoError(t, w.runs.Cancel(ctx, w.owner, run, "changed my mind"))
			d := w.wantStatus(run, Canceled)
			assert.Equal(t, "changed my mind", d.StatusMessage)
			for _, s := range []dispatch.Status{d.PlanAttempt, d.ApplyAttempt} {
				assert.NotContains(t, []dispatch.Status{dispatch.Pending, dispatch.Assigned, dispatch.Running}, s)
			}
			w.wantReleased(run)
			w.wantAdmitted(next.ID)
			wantCode(t, w.runs.Cancel(ctx, w.owner, run, ""), fault.Conflict, "invalid_transition")
			require.NoError(t, w.runs.Cancel(ctx, w.owner, next.ID, ""))
		})
	}
	t.Run("waiting behind another", func(t *testing.T) {
		ws := w.workspace()
		first, second, third := w.run(ws), w.run(ws), w.run(ws)
		require.NoError(t, w.runs.Cancel(ctx, w.owner, second.ID, ""))
		w.wantStatus(second.ID, Canceled)
		w.wantAdmitted(first.ID)
		w.wantWaits(third.ID)
		require.NoError(t, w.runs.Cancel(ctx, w.owner, first.ID, ""))
		w.wantAdmitted(third.ID)
	})
}

func TestAnOfferOfACanceledRunIsNotAccepted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := w.run(w.workspace())
	e, found := w.poll()
	require.True(t, found)
	require.NoError(t, w.runs.Cancel(ctx, w.owner, run.ID, ""))
	_, err := e.tryAccept()
	wantCode(t, err, fault.Conflict, "assignment_lost")
}

// canceling asks for a cancel that has to wait for the runner.
func (e *executor) canceling() {
	e.Helper()
	before := e.get(e.RunID).DurableStatus
	stop, err := e.runs.Heartbeat(ctx, e.actor)
	require.NoError(e, err)
	require.False(e, stop)
	require.NoError(e, e.runs.Cancel(ctx, e.owner, e.RunID, ""))
	d := e.wantStatus(e.RunID, before)
	require.NotNil(e, d.CancelRequestedAt)
	stop, err = e.runs.Heartbeat(ctx, e.actor)
	require.NoError(e, err)
	require.True(e, stop)
	wantCode(e, e.runs.Cancel(ctx, e.owner, e.RunID, ""), fault.Conflict, "cancel_requested")
}

func TestACanceledPlanEndsWithWhatItsRunnerReports(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, c := range map[string]struct {
		report func(e *executor)
		want   Status
	}{
		"stopped":    {func(e *executor) { e.done(Done{Outcome: OutcomeCanceled}) }, Canceled},
		"failed":     {func(e *executor) { e.done(Done{Outcome: OutcomeErrored, ExitCode: 1}) }, PlanFailed},
		"changes":    {func(e *executor) { e.plan(true) }, Canceled},
		"no changes": {func(e *executor) { e.plan(false) }, Succeeded},
		"silent":     {func(e *executor) { e.silence(w.longestOutage()); require.NoError(t, w.runs.ReapSilent(ctx)) }, Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			ws := w.workspace()
			e := w.take(w.run(ws).ID)
			next := w.run(ws)
			e.canceling()
			w.wantWaits(next.ID)
			c.report(e)
			assert.Empty(t, w.wantStatus(e.RunID, c.want).ApplyAttempt)
			w.wantReleased(e.RunID)
			w.wantAdmitted(next.ID)
			require.NoError(t, w.runs.Cancel(ctx, w.owner, next.ID, ""))
		})
	}
}

func TestACanceledAutoApplyDoesNotApply(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.take(w.run(w.workspace(), autoApply).ID)
	e.canceling()
	e.plan(true)
	d := w.wantStatus(e.RunID, Canceled)
	assert.Empty(t, d.ApplyAttempt)
	assert.Zero(t, w.decisions(e.RunID, "approved", "auto-apply"))
}

func TestACancelBeforeApplyStartWins(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, report := range map[string]func(e *executor){
		"stopped":                func(e *executor) { e.done(Done{Outcome: OutcomeCanceled}) },
		"told that it may not":   func(e *executor) { e.done(Done{Outcome: OutcomeErrored, Message: "apply-start was refused"}) },
		"silent until it's lost": func(e *executor) { e.silence(w.longestOutage()); require.NoError(t, w.runs.ReapSilent(ctx)) },
	} {
		t.Run(name, func(t *testing.T) {
			ws := w.workspace()
			e := w.confirmed(ws)
			e.canceling()
			wantCode(t, e.tryStart(), fault.Conflict, "canceled")
			w.wantStatus(e.RunID, AwaitingApproval)
			report(e)
			w.wantStatus(e.RunID, Canceled)
			w.wantReleased(e.RunID)
			w.wantFree(ws)
		})
	}
}

func TestACanceledApplyEndsWithWhatItsRunnerReports(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	t.Run("interrupted", func(t *testing.T) {
		e := w.applying(w.workspace())
		next := w.run(e.WorkspaceID)
		e.canceling()
		e.done(Done{Outcome: OutcomeCanceled, TofuStarted: true, ExitCode: 1})
		w.wantStatus(e.RunID, ApplyInterrupted)
		w.wantHeld(e.RunID)
		w.wantWaits(next.ID)
	})
	t.Run("done all the same", func(t *testing.T) {
		e := w.applying(w.workspace())
		next := w.run(e.WorkspaceID)
		e.canceling()
		e.publish(1)
		e.done(Done{Outcome: OutcomeFinished, TofuStarted: true, Confirmed: e.confirm()})
		w.wantStatus(e.RunID, Succeeded)
		w.wantAdmitted(next.ID)
	})
}

func TestTheServerItselfMayCancel(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := w.run(w.workspace())
	require.NoError(t, w.runs.Cancel(ctx, authz.System(), run.ID, ""))
	w.wantStatus(run.ID, Canceled)
}
