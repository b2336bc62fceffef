package runs

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/artifacts"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/postgres"
)

// Rules that other tests pass on their way, one by one.

// RL-18
func TestAPlanWaitsSevenDaysForItsDecision(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := w.waiting(w.workspace())
	assert.Equal(t, 1, count(w, `select count(*) from runs r join run_history h on h.run_id = r.id and h.to_status = 'awaiting_approval'
		where r.id = @r and abs(extract(epoch from r.approval_expires_at - h.at) - 604800) < 5`, postgres.Args{"r": run}), "persisted when it began to wait")
}

// RL-19
func TestNothingButApplyStartMakesARunApplying(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.confirmed(w.workspace())
	require.NoError(t, second(e.runs.Heartbeat(ctx, e.actor)))
	e.log("preparing\n")
	_, err := e.runs.ConfirmState(ctx, e.actor, e.sandbox)
	require.Error(t, err)
	w.sweep()
	w.wantStatus(e.RunID, AwaitingApproval)
	e.start()
	w.wantStatus(e.RunID, Applying)
}

// RL-28
func TestARunnerThatVanishesAfterApplyStartLeavesItsStartUncertain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.applying(w.workspace())
	e.silence(w.runs.settings.ApplyLiveness)
	require.NoError(t, w.runs.ReapSilent(ctx))
	d := w.wantStatus(e.RunID, ApplyStartUncertain)
	assert.Equal(t, "runner_lost", d.DurableReason)
	w.wantHeld(e.RunID)
}

// RL-38
func TestOnlyDoneEndsWhatARunnerExecutes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.take(w.run(w.workspace()).ID)
	e.log("everything is planned\n")
	for kind, content := range map[artifacts.Kind]string{artifacts.KindPlanJSON: "{}", artifacts.KindLockFile: "locked", artifacts.KindPlan: "the plan"} {
		e.handOver(kind, content)
	}
	require.NoError(t, second(e.runs.Heartbeat(ctx, e.actor)))
	w.sweep()
	w.wantStatus(e.RunID, Planning)
	e.done(planned(true))
	w.wantStatus(e.RunID, AwaitingApproval)
}

// RL-39: the end of a run, what it releases and the next run's admission are one transaction.
func TestAFaultInThePromotionOfTheNextUndoesTheEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspace()
	e := w.take(w.run(ws).ID)
	next := w.run(ws)
	e.log("planning\n")
	require.NoError(t, w.tryExec(`create function refuse_admission() returns trigger language plpgsql as $$ begin raise exception 'no admission'; end $$`, nil))
	w.tryTrigger("create trigger refuse_admission before update on runs for each row when (old.admitted_at is null and new.admitted_at is not null) execute function refuse_admission()")
	before := w.fence(ws)
	require.ErrorContains(t, e.tryDone(Done{Outcome: OutcomeErrored, ExitCode: 1}), "no admission")
	d := w.wantStatus(e.RunID, Planning)
	assert.Nil(t, d.FinishedAt)
	assert.Equal(t, before, w.fence(ws), "the workspace is its own as before")
	assert.Equal(t, 1, count(w, "select count(*) from attempts where id = @id and status = 'running'", postgres.Args{"id": e.ID}))
	assert.Zero(t, count(w, "select count(*) from run_history where run_id = @r and to_status = 'plan_failed'", postgres.Args{"r": e.RunID}))
	w.wantWaits(next.ID)

	w.tryTrigger("drop trigger refuse_admission on runs")
	e.done(Done{Outcome: OutcomeErrored, ExitCode: 1})
	w.wantStatus(e.RunID, PlanFailed)
	w.wantAdmitted(next.ID)
}

func (w *world) tryTrigger(sql string) {
	w.Helper()
	require.NoError(w, w.tryExec(sql, nil))
}

// RL-42
func TestACanceledPlanGoesOnUntilItsRunnerHasStoppedIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.take(w.run(w.workspace()).ID)
	require.NoError(t, w.runs.Cancel(ctx, w.owner, e.RunID, ""))
	w.wantStatus(e.RunID, Planning)
	stop, err := e.runs.Heartbeat(ctx, e.actor)
	require.NoError(t, err)
	assert.True(t, stop, "its runner is told")
	w.sweep()
	w.wantStatus(e.RunID, Planning)
	e.done(Done{Outcome: OutcomeCanceled})
	w.wantStatus(e.RunID, Canceled)
}

// QP-06
func TestTheWorkspaceOfADeadRunnerGoesToTheNextRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspace()
	e := w.take(w.run(ws).ID)
	next, last := w.run(ws), w.run(ws)
	e.silence(w.longestOutage())
	require.NoError(t, w.runs.ReapSilent(ctx))
	w.wantStatus(e.RunID, PlanFailed)
	w.wantAdmitted(next.ID)
	w.wantWaits(last.ID)
}

// QP-11
func TestNoDeadlineFreesAHeldWorkspace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.applying(w.workspace())
	next := w.run(e.WorkspaceID)
	e.silence(w.runs.settings.ApplyLiveness)
	require.NoError(t, w.runs.ReapSilent(ctx))
	held := w.fence(e.WorkspaceID)
	require.True(t, held.RecoveryHeld)
	w.exec("update workspace_fences set acquired_at = acquired_at - interval '1 year' where workspace_id = @w", postgres.Args{"w": e.WorkspaceID})
	w.exec("update runs set created_at = created_at - interval '1 year', finished_at = finished_at - interval '1 year' where id = @r", postgres.Args{"r": e.RunID})
	for range 2 {
		w.sweep()
		require.NoError(t, w.runs.ReapSilent(ctx))
	}
	now := w.fence(e.WorkspaceID)
	assert.Equal(t, []any{held.Epoch, held.Holder, true}, []any{now.Epoch, now.Holder, now.RecoveryHeld})
	_, err := w.runs.ForceUnlock(ctx, w.owner, e.WorkspaceID)
	require.Error(t, err)
	w.wantWaits(next.ID)
}

// AU-13
func TestALostAnswerOfApplyStartIsGivenAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.confirmed(w.workspace())
	at, err := e.runs.StartApply(ctx, e.actor, e.session.ManifestDigest, e.sandbox, tofuDigest)
	require.NoError(t, err)
	w.exec("update attempts set apply_started_at = apply_started_at - interval '1 minute' where id = @id", postgres.Args{"id": e.ID})
	again, err := e.runs.StartApply(ctx, e.actor, e.session.ManifestDigest, e.sandbox, tofuDigest)
	require.NoError(t, err)
	assert.Equal(t, time.Minute, at.Sub(again), "the stored answer, not a new one")
	_, err = e.runs.StartApply(ctx, e.actor, e.session.ManifestDigest, e.sandbox, "another binary")
	require.True(t, fault.Is(err, fault.Conflict), "%v", err)
	w.exec("update attempts set token_expires_at = clock_timestamp() where id = @id", postgres.Args{"id": e.ID})
	_, err = w.disp.Authenticate(ctx, e.session.Token)
	wantCode(t, err, fault.Unauthenticated, "capability_expired")
}

// AU-18
func TestApplyStartIsComparedWithTheManifestThatWasIssued(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.confirmed(w.workspace())
	assert.Equal(t, sha("manifest of "+string(e.ID)), e.session.ManifestDigest)
	for _, other := range []string{"", sha("x"), e.session.ManifestDigest + " "} {
		_, err := e.runs.StartApply(ctx, e.actor, other, e.sandbox, tofuDigest)
		wantCode(t, err, fault.Conflict, "manifest_mismatch")
	}
	w.wantStatus(e.RunID, AwaitingApproval)
	require.NoError(t, e.tryStart())
}

// OP-16
func TestAPromotionAndItsSourceKeepTheirHistories(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	source := w.kept(w.workspace())
	before := w.get(source)
	p := w.promote(source)
	require.NoError(t, w.runs.Confirm(ctx, w.owner, p.ID, Decision{}))
	w.take(p.ID).apply(1)
	after, promoted := w.get(source), w.wantStatus(p.ID, Succeeded)
	assert.Equal(t, before.History, after.History)
	assert.Equal(t, []Operation{OperationPlan, OperationApply}, []Operation{after.Operation, promoted.Operation})
	assert.Equal(t, []Status{AwaitingApproval, Applying, Succeeded}, promoted.steps())
}
