package runs

import (
	"strings"
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

// failed makes a run of a free workspace whose plan fails.
func (w *world) failed(ws ids.Workspace, options ...func(*NewRun)) ids.Run {
	w.Helper()
	e := w.take(w.run(ws, options...).ID)
	e.log("no such thing\n")
	e.done(Done{Outcome: OutcomeErrored, ExitCode: 1, Message: "tofu plan failed"})
	w.wantStatus(e.RunID, PlanFailed)
	return e.RunID
}

func (w *world) requeue(run ids.Run) Detail {
	w.Helper()
	d, err := w.runs.Requeue(ctx, w.owner, run)
	require.NoError(w, err)
	return d
}

func TestARequeuedRunIsTheSameRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := w.failed(w.workspace())
	before := w.get(run)
	d := w.requeue(run)
	assert.Equal(t, run, d.ID)
	assert.Equal(t, before.PlanID, d.PlanID)
	assert.Equal(t, before.ApplyID, d.ApplyID)
	assert.Equal(t, w.get(run), d)
	w.wantAdmitted(run)
	w.take(run).plan(true)
	require.NoError(t, w.runs.Confirm(ctx, w.owner, run, Decision{}))
	w.take(run).apply(1)
	w.wantStatus(run, Succeeded)
	w.wantReleased(run)
}

func TestARequeuedRunGoesToTheBackOfTheQueue(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspace()
	run := w.failed(ws)
	first, second := w.run(ws), w.run(ws)
	assert.Equal(t, Queued, w.requeue(run).DurableStatus)
	w.wantWaits(run)
	w.wantAdmitted(first.ID)
	require.NoError(t, w.runs.Cancel(ctx, w.owner, first.ID, ""))
	w.wantAdmitted(second.ID)
	require.NoError(t, w.runs.Cancel(ctx, w.owner, second.ID, ""))
	w.wantAdmitted(run)
}

// A run that does not need the workspace does not wait for it the second time either.
func TestARequeuedPlanDoesNotWait(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, option := range []func(*NewRun){planOnly, savePlan, as(OperationPlan)} {
		ws := w.workspace()
		run := w.failed(ws, option)
		busy := w.run(ws)
		assert.Equal(t, dispatch.Pending, w.requeue(run).PlanAttempt)
		w.wantAdmitted(busy.ID)
		e := w.take(busy.ID)
		w.take(run)
		e.plan(false)
	}
}

func TestARequeueClearsWhatTheRunHadComeTo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspace()
	run := w.waiting(ws)
	require.NoError(t, w.runs.Confirm(ctx, w.owner, run, Decision{Comment: "yes"}))
	require.NoError(t, w.runs.Cancel(ctx, w.owner, run, "no"))
	next := w.run(ws)
	old := w.wantStatus(run, Canceled)
	require.NotNil(t, old.HasChanges)

	d := w.requeue(run)
	w.wantAdmitted(next.ID)
	for name, left := range map[string]bool{
		"reason": d.DurableReason != "", "message": d.StatusMessage != "", "attempts": d.PlanAttempt != "" || d.ApplyAttempt != "",
		"plan":   d.PlanObjectID != "" || d.PlanJSONObjectID != "" || d.LockFileObjectID != "" || d.PlanTofuDigest != "" || d.PlanTofuVersion != "",
		"counts": d.HasChanges != nil || d.ResourceAdditions != 0, "times": d.PlanFinishedAt != nil || d.FinishedAt != nil || d.AdmittedAt != nil || d.ConfirmedAt != nil || d.ApprovalExpiresAt != nil,
		"cancel": d.CancelRequestedAt != nil || d.ForceCancelAvailableAt != nil, "fence": d.FenceEpoch != nil || d.FenceReleasedAt != nil, "state": d.PredecessorVersionID != "" || d.ResultingVersionID != "",
	} {
		assert.False(t, left, "%s is left", name)
	}
	slice, err := w.runs.PlanLog(ctx, d.PlanID, dispatch.Human, 0, 1000)
	require.NoError(t, err)
	assert.Empty(t, slice.Data, "the log begins anew")
	assert.False(t, slice.Final)

	assert.Equal(t, old.steps(), d.steps()[:len(old.History)], "history is kept")
	assert.Equal(t, []Status{Queued}, d.steps()[len(old.History):])
	assert.Equal(t, []Status{Queued}, Detail{History: d.ThisRound()}.steps())
	assert.Equal(t, 2, count(w, "select count(*) from attempts where run_id = @r and round = 1", postgres.Args{"r": run}), "attempts are kept")
	assert.Equal(t, 1, count(w, "select count(*) from approvals where run_id = @r", postgres.Args{"r": run}), "decisions are kept")
}

func TestARequeueKeepsWhatWasAskedFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspace()
	variables := []Variable{{Key: "a", Value: "1", HCL: true}}
	run := w.failed(ws, as(OperationDestroy), func(n *NewRun) {
		n.Message, n.TargetAddrs, n.Variables = "m", []string{"a.b"}, variables
	})
	_, err := w.spaces.CreateVariable(ctx, w.owner, ws, workspaces.Variable{Key: "later", Value: "x", Category: workspaces.Terraform})
	require.NoError(t, err)
	before, d := w.get(run), w.requeue(run)
	assert.Equal(t, OperationDestroy, d.Operation)
	for _, same := range [][2]any{
		{before.Message, d.Message},
		{before.TargetAddrs, d.TargetAddrs},
		{before.IsDestroy, d.IsDestroy},
		{before.CreatedBy, d.CreatedBy},
		{before.CreatedAt, d.CreatedAt},
		{before.ConfigurationObjectID, d.ConfigurationObjectID},
		{before.TerraformVersion, d.TerraformVersion},
		{before.VariablesSealed, d.VariablesSealed},
		{before.RunVariablesSealed, d.RunVariablesSealed},
	} {
		assert.Equal(t, same[0], same[1])
	}
	given, err := w.runs.InputVariables(ctx, w.take(run).actor)
	require.NoError(t, err)
	assert.Equal(t, variables, given, "as it was made, without what the workspace got since")
}

func TestOnlyWhatFailedOrWasCanceledBeforeItsApplyIsRequeued(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	refused := func(name string, run ids.Run) {
		t.Helper()
		before := w.get(run)
		_, err := w.runs.Requeue(ctx, w.owner, run)
		wantCode(t, err, fault.Conflict, "not_requeueable")
		assert.Equal(t, before, w.get(run), name)
	}
	ws := w.workspace()
	r := w.run(ws)
	refused("queued", r.ID)
	e := w.take(r.ID)
	refused("planning", r.ID)
	e.plan(true)
	refused("awaiting approval", r.ID)
	require.NoError(t, w.runs.Discard(ctx, w.owner, r.ID, Decision{}))
	refused("rejected", r.ID)

	expired := w.waiting(ws)
	w.overdue(expired)
	w.sweep()
	w.wantStatus(expired, Expired)
	refused("expired", expired)

	e = w.applying(ws)
	refused("applying", e.RunID)
	e.publish(1)
	e.done(Done{Outcome: OutcomeFinished, TofuStarted: true, Confirmed: e.confirm()})
	refused("succeeded", e.RunID)

	e = w.confirmed(ws)
	e.start()
	e.done(Done{Outcome: OutcomeErrored, TofuStarted: true, ExitCode: 1})
	w.wantStatus(e.RunID, ApplyFailed)
	refused("apply failed", e.RunID)

	template := w.run(ws, planOnly)
	for _, s := range []Status{ApplyStartUncertain, ApplyInterrupted, NeedsRecovery} {
		refused(string(s), w.bare(template.ID, s))
	}
	for _, s := range requeueable {
		run := w.bare(template.ID, s)
		w.exec("update runs set terraform_version = @v where id = @r", postgres.Args{"v": tofu, "r": run})
		assert.Equal(t, Queued, w.requeue(run).DurableStatus, s)
	}
}

// Whatever a status says: what may have written is not tried again (G-04).
func TestARunWhoseApplyBeganIsNeverRequeued(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := w.failed(w.workspace())
	w.exec("update attempts set phase = 'apply', apply_started_at = clock_timestamp() where run_id = @r", postgres.Args{"r": run})
	_, err := w.runs.Requeue(ctx, w.owner, run)
	wantCode(t, err, fault.Conflict, "not_requeueable")
	assert.ErrorContains(t, err, "begun")
}

func TestRequeueIsRefusedWhileTheWorkspaceIsHeldOrGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspace()
	run := w.failed(ws)
	e := w.applying(ws)
	e.done(Done{Outcome: OutcomeUnknown, TofuStarted: true})
	w.wantHeld(e.RunID)
	_, err := w.runs.Requeue(ctx, w.owner, run)
	wantCode(t, err, fault.RecoveryHeld, "workspace_recovery_pending")

	gone := w.workspace()
	run = w.failed(gone)
	require.NoError(t, w.runs.DeleteWorkspace(ctx, w.owner, gone, false))
	_, err = w.runs.Requeue(ctx, w.owner, run)
	assert.True(t, fault.Is(err, fault.NotFound), "%v", err)
}

func TestARequeueNeedsTheRightToQueue(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := w.failed(w.workspace())
	_, err := w.runs.Requeue(ctx, w.member, run)
	wantCode(t, err, fault.Forbidden, "forbidden")
	_, err = w.runs.Requeue(ctx, authz.Actor{Kind: authz.UserActor}, run)
	assert.True(t, fault.Is(err, fault.NotFound), "%v", err)
}

func TestARequeueIsInTheAudit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := w.failed(w.workspace())
	w.requeue(run)
	assert.Equal(t, 1, count(w, `select count(*) from audit_entries where object_id = @r and action = 'run.requeued' and actor_id = @u
	    and details->>'from' = 'plan_failed' and details->>'reason' = 'plan_failed' and (details->>'round')::int = 2`, postgres.Args{"r": run, "u": w.owner.User}))
}

// The policy check and the decision of a round say nothing about the plan of the next.
func TestEachRoundHasItsOwnPolicyCheckAndDecision(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := w.waiting(w.workspace())
	require.NoError(t, w.runs.Confirm(ctx, w.owner, run, Decision{Comment: "first"}))
	require.NoError(t, w.runs.Cancel(ctx, w.owner, run, ""))
	w.requeue(run)
	w.take(run).plan(true)
	d := w.wantStatus(run, AwaitingApproval)
	assert.Nil(t, d.ConfirmedAt, "the decision about the first plan does not count")
	require.NoError(t, w.runs.Confirm(ctx, w.owner, run, Decision{Comment: "second"}))
	suffix := strings.TrimPrefix(string(run), "run-")
	for i, id := range []string{"polchk-" + suffix, "polchk-" + suffix + "-2"} {
		assert.Equal(t, 1, count(w, "select count(*) from policy_checks where id = @id and run_id = @r and round = @n and durable_status = 'passed'", postgres.Args{"id": id, "r": run, "n": i + 1}))
		assert.Equal(t, 1, count(w, "select count(*) from approvals a join policy_checks c on c.run_id = a.run_id and c.round = a.round and c.result_digest = a.policy_result_digest where a.run_id = @r and a.round = @n",
			postgres.Args{"r": run, "n": i + 1}))
	}
	w.take(run).apply(1)
	w.wantStatus(run, Succeeded)
}

func TestARequeuedRunPlansOnTheStateOfNow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspace()
	run := w.failed(ws)
	other := w.confirmed(ws)
	other.apply(1)
	current := w.get(other.RunID).ResultingVersionID
	require.NotEmpty(t, current)
	assert.Empty(t, w.get(run).PredecessorVersionID)
	assert.Equal(t, current, w.requeue(run).PredecessorVersionID)
}

func TestARequeuedAutoApplyRunAppliesByItself(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := w.failed(w.workspace(), autoApply)
	w.requeue(run)
	w.take(run).plan(true)
	assert.NotNil(t, w.wantStatus(run, AwaitingApproval).ConfirmedAt)
}

func TestARequeueNeedsARunnerWithItsVersion(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspaceWith(workspaces.Settings{TerraformVersion: ptr("1.11.0")})
	run := w.run(ws).ID
	w.wantStatus(run, PlanFailed)
	_, err := w.runs.Requeue(ctx, w.owner, run)
	wantCode(t, err, fault.Conflict, "not_requeueable")
	assert.ErrorContains(t, err, tofu, "it names what there is")

	w.exec("delete from runner_group_versions", postgres.Args{})
	early := w.run(w.workspace()).ID
	assert.Equal(t, "tofu_version_unavailable", w.wantStatus(early, PlanFailed).DurableReason)
	_, found := w.poll() // the first runner connects
	require.False(t, found)
	assert.Equal(t, tofu, w.requeue(early).TerraformVersion)
	w.take(early).plan(false)
	w.wantStatus(early, Succeeded)
}

func TestALostRunnersRunIsRequeued(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.take(w.run(w.workspace()).ID)
	e.silence(w.longestOutage())
	require.NoError(t, w.runs.ReapSilent(ctx))
	w.requeue(e.RunID)
	again := w.take(e.RunID)
	wantCode(t, e.tryDone(planned(true)), fault.Conflict, "attempt_ended")
	assert.Equal(t, Planning, w.get(e.RunID).DurableStatus, "the old runner changes nothing")
	again.plan(false)
	w.wantStatus(e.RunID, Succeeded)
}

// A plan that ran for too long is not what a person asked for, and may be tried again (G-12).
func TestAPlanThatTookTooLongIsRequeued(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.take(w.run(w.workspace()).ID)
	e.done(Done{Outcome: OutcomeTimedOut, ExitCode: -1})
	assert.Equal(t, "RUN_TTL_EXCEEDED", w.wantStatus(e.RunID, PlanFailed).DurableReason)
	assert.Empty(t, w.requeue(e.RunID).DurableReason)
	w.wantAdmitted(e.RunID)
}
