package runs

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/artifacts"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/dispatch"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/fence"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

var mainPath = []Status{Queued, Planning, PlanComplete, PolicyEvaluating, PolicyPassed, AwaitingApproval, Applying, Succeeded}

func TestAWholeRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspace()
	run := w.run(ws)
	w.wantAdmitted(run.ID)
	assert.Equal(t, tofu, run.TerraformVersion)

	e := w.take(run.ID)
	w.wantStatus(run.ID, Planning)
	e.plan(true)
	d := w.wantStatus(run.ID, AwaitingApproval)
	assert.True(t, *d.HasChanges)
	assert.Equal(t, 3, d.ResourceAdditions)
	assert.Equal(t, tofuDigest, d.PlanTofuDigest)
	assert.Empty(t, d.ApplyAttempt, "nothing is prepared before the decision")
	assert.Equal(t, 1, count(w, "select count(*) from policy_checks where run_id = @r and durable_status = 'passed'", postgres.Args{"r": run.ID}))
	assert.Equal(t, 1, count(w, "select count(*) from runs where id = @r and approval_expires_at - plan_finished_at between interval '7 days' and interval '7 days 1 minute'", postgres.Args{"r": run.ID}))

	require.NoError(t, w.runs.Confirm(ctx, w.owner, run.ID, Decision{Comment: "looks good"}))
	assert.Equal(t, dispatch.Pending, w.wantStatus(run.ID, AwaitingApproval).ApplyAttempt)
	a := w.take(run.ID)
	w.wantStatus(run.ID, AwaitingApproval) // accepting starts nothing (RL-19)
	a.start()
	w.wantStatus(run.ID, Applying)
	a.log("applying\n")
	v := a.publish(1)
	a.publish(2)
	final := a.publish(3)
	assert.Equal(t, final, a.confirm())
	a.done(Done{Outcome: OutcomeFinished, TofuStarted: true, Confirmed: final})

	d = w.wantStatus(run.ID, Succeeded)
	assert.Equal(t, mainPath, d.steps())
	assert.Equal(t, DispatchPending, d.History[0].FromStatus)
	assert.Equal(t, final, d.ResultingVersionID)
	assert.NotEqual(t, v, final)
	assert.Equal(t, []Status{Planning, Applying, Succeeded}, byAttempt(d))
	w.wantReleased(run.ID)
	w.wantFree(ws)
	assert.Equal(t, len(mainPath), count(w, "select count(*) from audit_entries where object_id = @r and action = any (@a::text[])", postgres.Args{"r": run.ID, "a": actions(mainPath)}))
	assert.Equal(t, run.ID, w.current(ws))

	next := w.run(ws)
	assert.Equal(t, final, w.get(next.ID).PredecessorVersionID)
}

func actions(steps []Status) (list []string) {
	for _, s := range steps {
		list = append(list, "run."+string(s))
	}
	return list
}

// byAttempt lists the steps that a runner made, without those of a plan's end.
func byAttempt(d Detail) (list []Status) {
	for _, h := range d.History {
		if h.ActorKind == "attempt" && h.ToStatus != PlanComplete {
			list = append(list, h.ToStatus)
		}
	}
	return list
}

func TestARunThatOnlyPlansNeverLocksAndNeverWaits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspace()
	occupant := w.applying(ws)
	before := w.fence(ws)
	speculative := w.configurationWith(ws, NewConfiguration{Speculative: true})
	for name, o := range map[string]func(*NewRun){"plan-only": planOnly, "speculative": func(n *NewRun) { n.Configuration = speculative }} {
		t.Run(name, func(t *testing.T) {
			run := w.run(ws, o, func(n *NewRun) { n.Message = name })
			assert.True(t, run.PlanOnly)
			assert.Nil(t, run.FenceEpoch)
			e := w.take(run.ID)
			assert.Nil(t, e.FenceEpoch)
			wantCode(t, e.runs.HandOver(ctx, e.actor, artifacts.KindPlan, sha("p"), strings.NewReader("p")), fault.Conflict, "plan_only")
			_, err := w.runs.Lock(ctx, e.actor, ws, "")
			assert.True(t, fault.Is(err, fault.Forbidden), "%v", err)
			e.plan(true)
			d := w.wantStatus(run.ID, Succeeded)
			assert.Equal(t, []Status{Queued, Planning, PlanComplete, PolicyEvaluating, PolicyPassed, Succeeded}, d.steps())
			assert.Empty(t, d.PlanObjectID)
			assert.NotEmpty(t, d.PlanJSONObjectID)
			assert.Zero(t, count(w, "select count(*) from objects where run_id = @r and kind = 'plan'", postgres.Args{"r": run.ID}))
			wantCode(t, w.runs.Confirm(ctx, w.owner, run.ID, Decision{}), fault.Conflict, "invalid_transition")
		})
	}
	assert.Equal(t, before, w.fence(ws))
	assert.Equal(t, occupant.RunID, w.current(ws))
}

func TestAPlanWithoutChangesEndsTheRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspace()
	run, next := w.run(ws, autoApply), w.run(ws)
	w.take(run.ID).plan(false)
	d := w.wantStatus(run.ID, Succeeded)
	assert.Equal(t, "no_changes", d.DurableReason)
	assert.Empty(t, d.ApplyAttempt)
	w.wantReleased(run.ID)
	w.wantAdmitted(next.ID)
}

func TestAFailedPlan(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspace()
	for _, c := range []struct {
		done   Done
		reason string
	}{
		{Done{Outcome: OutcomeErrored, ExitCode: 1, Message: "Unsupported block type"}, "plan_failed"},
		{Done{Outcome: OutcomeUnknown}, "plan_failed"},
		{Done{Outcome: OutcomeTimedOut}, "RUN_TTL_EXCEEDED"},
		{Done{Outcome: OutcomeCanceled}, "runner_stopped"},
		{planned(true), "plan_evidence_missing"},
		{Done{Outcome: OutcomeFinished}, "plan_evidence_missing"},
	} {
		run, next := w.run(ws), w.run(ws)
		w.take(run.ID).done(c.done)
		d := w.wantStatus(run.ID, PlanFailed)
		assert.Equal(t, c.reason, d.DurableReason)
		assert.Nil(t, d.PlanFinishedAt)
		w.wantReleased(run.ID)
		w.wantAdmitted(next.ID)
		require.NoError(t, w.runs.Cancel(ctx, w.owner, next.ID, ""))
	}
}

func TestAnAcceptIsRepeatedExactlyOrRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := w.run(w.workspace())
	e, found := w.poll()
	require.True(t, found)
	w.wantStatus(run.ID, Queued) // an offer changes nothing (RP-06)

	_, err := w.runs.Accept(ctx, w.group, e.ID, dispatch.Acceptance{Runner: e.runner, Sandbox: e.sandbox}, render)
	wantCode(t, err, fault.Conflict, "runner_not_ready")
	w.wantStatus(run.ID, Queued)
	e.accept()
	again, err := e.tryAccept()
	require.NoError(t, err)
	assert.Equal(t, e.session, again)
	assert.Equal(t, []Status{Queued, Planning}, w.get(run.ID).steps())

	_, err = w.runs.Accept(ctx, w.group, e.ID, dispatch.Acceptance{Runner: e.runner, Sandbox: "another sandbox"}, render)
	wantCode(t, err, fault.Conflict, "capability_replayed")
	stranger, found := w.poll()
	require.False(t, found)
	stranger.Attempt = e.Attempt
	_, err = stranger.tryAccept()
	wantCode(t, err, fault.Conflict, "assignment_lost")
	_, err = w.runs.Accept(ctx, w.group, e.ID, dispatch.Acceptance{Runner: e.runner, Sandbox: ""}, render)
	wantCode(t, err, fault.Invalid, "sandbox_required")
}

func TestEvidenceIsImmutable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.take(w.run(w.workspace()).ID)
	e.handOver(artifacts.KindPlan, "a plan")
	e.handOver(artifacts.KindPlan, "a plan") // the same again
	err := e.runs.HandOver(ctx, e.actor, artifacts.KindPlan, sha("another"), strings.NewReader("another"))
	wantCode(t, err, fault.Conflict, "artifact_fixed")
	err = e.runs.HandOver(ctx, e.actor, artifacts.KindLockFile, sha("said"), strings.NewReader("sent"))
	wantCode(t, err, fault.Invalid, "digest_mismatch")
	err = e.runs.HandOver(ctx, e.actor, artifacts.KindState, sha("s"), strings.NewReader("s"))
	assert.True(t, fault.Is(err, fault.NotFound), "%v", err)
	e.handOver(artifacts.KindPlanJSON, "{}")
	e.done(planned(true))
	err = e.runs.HandOver(ctx, e.actor, artifacts.KindLockFile, sha("late"), strings.NewReader("late"))
	wantCode(t, err, fault.Conflict, "attempt_ended")
	assert.Empty(t, w.get(e.RunID).LockFileObjectID)
}

func TestTheInputsOfAnApplyAreThoseOfThePlan(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := w.run(w.workspace())
	p := w.take(run.ID)
	_, _, err := p.runs.Input(ctx, p.actor, artifacts.KindPlan)
	assert.True(t, fault.Is(err, fault.NotFound), "%v", err)
	p.plan(true)
	require.NoError(t, w.runs.Confirm(ctx, w.owner, run.ID, Decision{}))
	a := w.take(run.ID)
	for kind, want := range map[artifacts.Kind]string{artifacts.KindPlan: "the plan of " + string(p.ID), artifacts.KindLockFile: "locked providers"} {
		body, object, err := a.runs.Input(ctx, a.actor, kind)
		require.NoError(t, err)
		got, err := io.ReadAll(body)
		require.NoError(t, errors.Join(err, body.Close()))
		assert.EqualValues(t, len(want), object.Size)
		assert.Equal(t, want, string(got))
	}
}

func TestDoneIsAcceptedOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := w.run(w.workspace())
	e := w.take(run.ID)
	e.log("some log")
	e.handOver(artifacts.KindPlanJSON, "{}")
	e.handOver(artifacts.KindPlan, "a plan")
	short := planned(true)
	short.LogSize = 3
	wantCode(t, w.runs.Done(ctx, e.ID, short), fault.Conflict, "log_incomplete")
	w.wantStatus(run.ID, Planning)

	e.done(planned(true))
	history := w.get(run.ID).History
	e.done(planned(true))
	wantCode(t, e.tryDone(planned(false)), fault.Conflict, "attempt_ended")
	wantCode(t, e.tryDone(Done{Outcome: OutcomeErrored}), fault.Conflict, "attempt_ended")
	assert.Equal(t, history, w.get(run.ID).History)
	_, err := w.disp.Authenticate(ctx, e.session.Token)
	assert.True(t, fault.Is(err, fault.Unauthenticated), "the token ends with the attempt: %v", err)
	assert.True(t, fault.Is(w.runs.Done(ctx, "att-1111111111111111", planned(true)), fault.NotFound))
}

func TestASavedPlanTakesTheWorkspaceWhenItIsConfirmed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspace()
	saved := w.waiting(ws, savePlan)
	assert.Nil(t, w.get(saved).FenceEpoch)
	w.wantFree(ws)
	assert.Empty(t, w.current(ws))

	other := w.run(ws)
	w.wantAdmitted(other.ID)
	wantCode(t, w.runs.Confirm(ctx, w.owner, saved, Decision{}), fault.Locked, "workspace_locked")
	w.wantStatus(saved, AwaitingApproval)
	assert.Zero(t, count(w, "select count(*) from approvals where run_id = @r", postgres.Args{"r": saved}), "a refused decision is not recorded")
	require.NoError(t, w.runs.Cancel(ctx, w.owner, other.ID, ""))

	require.NoError(t, w.runs.Confirm(ctx, w.owner, saved, Decision{}))
	assert.True(t, w.fence(ws).HeldBy(fence.Run, string(saved)))
	next := w.run(ws)
	w.wantWaits(next.ID)
	w.take(saved).apply(1)
	w.wantStatus(saved, Succeeded)
	w.wantAdmitted(next.ID)
}

func TestASavedPlanOfAnOlderStateIsNotApplied(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspace()
	saved := w.waiting(ws, savePlan)
	run := w.waiting(ws)
	require.NoError(t, w.runs.Confirm(ctx, w.owner, run, Decision{}))
	w.take(run).apply(1)

	err := w.runs.Confirm(ctx, w.owner, saved, Decision{})
	wantCode(t, err, fault.Conflict, "APPROVAL_BINDING_STALE")
	assert.Contains(t, err.Error(), "Make a new one")
	d := w.wantStatus(saved, Rejected)
	assert.Equal(t, "APPROVAL_BINDING_STALE", d.DurableReason)
	assert.Equal(t, err.Error(), d.StatusMessage)
	assert.Empty(t, d.ApplyAttempt)
	assert.Zero(t, count(w, "select count(*) from approvals where run_id = @r", postgres.Args{"r": saved}), "nobody has decided")
	w.wantFree(ws)
	wantCode(t, w.runs.Confirm(ctx, w.owner, saved, Decision{}), fault.Conflict, "invalid_transition")
}

func TestSavedPlansOfAnOlderStateAreDiscardedByTheSweep(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspace()
	first, second, confirmed := w.waiting(ws, savePlan), w.waiting(ws, savePlan), w.waiting(ws, savePlan)
	elsewhere := w.waiting(w.workspace(), savePlan)
	w.sweep()
	w.wantStatus(first, AwaitingApproval)
	require.NoError(t, w.runs.Confirm(ctx, w.owner, confirmed, Decision{}))
	w.take(confirmed).apply(1)
	fresh := w.waiting(ws, savePlan)
	w.sweep()
	for _, run := range []ids.Run{first, second} {
		assert.Equal(t, "APPROVAL_BINDING_STALE", w.wantStatus(run, Rejected).DurableReason)
	}
	for _, run := range []ids.Run{elsewhere, fresh} {
		w.wantStatus(run, AwaitingApproval)
	}
	w.wantStatus(confirmed, Succeeded)
	require.NoError(t, w.runs.Confirm(ctx, w.owner, fresh, Decision{}), "its state is current")
}

func TestAnObjectOfAnotherOrganizationIsNotFound(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := w.run(w.workspace())
	stranger := w.owner
	stranger.Roles = map[ids.Organization]authz.Role{"org-other": "owner"}
	_, err := w.runs.Get(ctx, stranger, run.ID)
	assert.True(t, fault.Is(err, fault.NotFound), "%v", err)
	for _, fn := range []func() error{
		func() error { return w.runs.Confirm(ctx, stranger, run.ID, Decision{}) },
		func() error { return w.runs.Discard(ctx, stranger, run.ID, Decision{}) },
		func() error { return w.runs.Cancel(ctx, stranger, run.ID, "") },
		func() error { return w.runs.DeleteWorkspace(ctx, stranger, run.WorkspaceID, false) },
	} {
		assert.True(t, fault.Is(fn(), fault.NotFound))
	}
	for _, fn := range []func() error{
		func() error { return w.runs.Confirm(ctx, w.member, run.ID, Decision{}) },
		func() error { return w.runs.Cancel(ctx, w.member, run.ID, "") },
		func() error { return w.runs.DeleteWorkspace(ctx, w.member, run.WorkspaceID, false) },
	} {
		assert.True(t, fault.Is(fn(), fault.Forbidden))
	}
	w.wantAdmitted(run.ID)
}
