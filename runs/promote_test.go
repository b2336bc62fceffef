package runs

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/approvals"
	"github.com/holdfast-run/holdfast/artifacts"
	"github.com/holdfast-run/holdfast/dispatch"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/workspaces"
)

// kept makes a run that ends with a plan that can be promoted.
func (w *world) kept(ws ids.Workspace, options ...func(*NewRun)) ids.Run {
	w.Helper()
	r := w.run(ws, append(options, as(OperationPlan))...)
	w.take(r.ID).plan(true)
	w.wantStatus(r.ID, Succeeded)
	return r.ID
}

func (w *world) promote(run ids.Run) Detail {
	w.Helper()
	d, created, err := w.runs.Promote(ctx, w.owner, run, NewPromotion{Message: w.unique("promote")})
	require.NoError(w, err)
	require.True(w, created)
	return d
}

func (w *world) refusedPromotion(run ids.Run, text string) {
	w.Helper()
	_, _, err := w.runs.Promote(ctx, w.owner, run, NewPromotion{Message: w.unique("promote")})
	wantCode(w, err, fault.Conflict, "not_promotable")
	assert.ErrorContains(w, err, text)
}

func TestAPromotedPlanIsAppliedByARunOfItsOwn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspace()
	source := w.kept(ws)
	before := w.get(source)
	p := w.promote(source)
	assert.NotEqual(t, source, p.ID)
	assert.Equal(t, source, p.SourceRunID)
	assert.Equal(t, OperationApply, p.Operation)
	assert.Equal(t, []ids.Run{p.ID}, w.get(source).PromotedRuns)
	assert.Equal(t, before.PlanID, p.PlanID, "the plan is the source's")
	assert.NotEqual(t, before.ApplyID, p.ApplyID)

	assert.Equal(t, AwaitingApproval, p.DurableStatus)
	assert.Nil(t, p.ConfirmedAt)
	assert.Empty(t, p.ApplyAttempt, "it begins at its approval")
	assert.Equal(t, w.runs.settings.ApprovalLifetime, p.ApprovalExpiresAt.Sub(*p.AdmittedAt).Round(time.Minute))
	w.wantFree(ws)
	_, found := w.poll()
	require.False(t, found)

	require.NoError(t, w.runs.Confirm(ctx, w.owner, p.ID, Decision{Comment: "go"}))
	assert.Equal(t, dispatch.Pending, w.get(p.ID).ApplyAttempt)
	w.take(p.ID).apply(1)
	applied := w.wantStatus(p.ID, Succeeded)
	assert.NotEmpty(t, applied.ResultingVersionID)
	w.wantFree(ws)

	after := w.get(source)
	before.PromotedRuns = after.PromotedRuns
	before.PlanJustFinished = after.PlanJustFinished
	assert.Equal(t, before, after, "a succeeded plan stays one (OP-13)")
	assert.Equal(t, []Status{AwaitingApproval, Applying, Succeeded}, applied.steps(), "each run has its own history (OP-16)")
}

func TestAPromotedRunAppliesTheVeryArtifactsOfItsPlan(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	variables := []Variable{{Key: "a", Value: "1", HCL: true}}
	source := w.kept(w.workspace(), func(n *NewRun) { n.Variables, n.TargetAddrs = variables, []string{"a.b"} })
	s, p := w.get(source), w.promote(source)
	for _, same := range [][2]any{
		{s.PlanObjectID, p.PlanObjectID},
		{s.PlanJSONObjectID, p.PlanJSONObjectID},
		{s.LockFileObjectID, p.LockFileObjectID},
		{s.ConfigurationObjectID, p.ConfigurationObjectID},
		{s.PredecessorVersionID, p.PredecessorVersionID},
		{s.PlanTofuDigest, p.PlanTofuDigest},
		{s.TerraformVersion, p.TerraformVersion},
		{s.TargetAddrs, p.TargetAddrs},
		{s.HasChanges, p.HasChanges},
		{s.ResourceAdditions, p.ResourceAdditions},
		{s.PlanFinishedAt, p.PlanFinishedAt},
	} {
		assert.Equal(t, same[0], same[1])
	}
	require.NoError(t, w.runs.Confirm(ctx, w.owner, p.ID, Decision{}))
	e := w.take(p.ID)
	for kind, want := range map[artifacts.Kind]ids.Object{artifacts.KindPlan: s.PlanObjectID, artifacts.KindLockFile: s.LockFileObjectID, artifacts.KindConfiguration: s.ConfigurationObjectID} {
		body, object, err := w.runs.Input(ctx, e.actor, kind)
		require.NoError(t, err)
		assert.Equal(t, want, object.ID)
		require.NoError(t, body.Close())
	}
	given, err := w.runs.InputVariables(ctx, e.actor)
	require.NoError(t, err)
	assert.Equal(t, variables, given)
	shown, err := w.runs.Variables(ctx, w.owner, p.Run)
	require.NoError(t, err)
	assert.Equal(t, variables, shown)
}

// The record of the decision belongs to the promotion and covers the source's plan (AR-06).
func TestTheApprovalOfAPromotionCoversTheSourcesPlan(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	source := w.kept(w.workspace())
	p := w.promote(source)
	require.NoError(t, w.runs.Confirm(ctx, w.owner, p.ID, Decision{Comment: "go"}))
	assert.Equal(t, 1, count(w, `select count(*) from approvals a join runs p on p.id = a.run_id join runs s on s.id = p.source_run_id join objects o on o.id = s.plan_object_id
	    join policy_checks c on c.run_id = s.id where p.id = @p and s.id = @s and a.plan_digest = o.sha256 and a.policy_result_digest = c.result_digest and c.result_digest <> ''`,
		postgres.Args{"p": p.ID, "s": source}))
	assert.Zero(t, count(w, "select count(*) from approvals where run_id = @s", postgres.Args{"s": source}))
	e := w.take(p.ID)
	w.exec("update policy_checks set result_digest = 'another' where run_id = @s", postgres.Args{"s": source})
	wantCode(t, e.tryStart(), fault.Conflict, "APPROVAL_BINDING_STALE")
	e.done(Done{Outcome: OutcomeErrored})
	w.wantStatus(p.ID, Canceled)
	w.wantFree(e.WorkspaceID)
}

func TestAPromotionIsApprovedAtOnceWhereNobodyIsToBeAsked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	source := w.kept(w.workspace())
	d, created, err := w.runs.Promote(ctx, w.owner, source, NewPromotion{AutoApply: ptr(true)})
	require.NoError(t, err)
	assert.True(t, created)
	assert.NotNil(t, d.ConfirmedAt)
	assert.Equal(t, dispatch.Pending, d.ApplyAttempt)
	assert.Equal(t, 1, w.decisions(d.ID, string(approvals.Approved), string(approvals.AutoApply)))
	w.take(d.ID).apply(1)
	w.wantStatus(d.ID, Succeeded)

	auto := w.kept(w.workspaceWith(workspaces.Settings{AutoApply: ptr(true)}))
	d, _, err = w.runs.Promote(ctx, w.owner, auto, NewPromotion{})
	require.NoError(t, err)
	assert.NotNil(t, d.ConfirmedAt, "as the workspace is set")
	w.take(d.ID)

	locked := w.workspace()
	source = w.kept(locked)
	_, err = w.runs.Lock(ctx, w.owner, locked, "")
	require.NoError(t, err)
	_, _, err = w.runs.Promote(ctx, w.owner, source, NewPromotion{AutoApply: ptr(true)})
	assert.True(t, fault.Is(err, fault.Locked), "%v", err)
	assert.Empty(t, w.get(source).PromotedRuns)
}

func TestAPlanIsPromotedOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspace()
	source := w.kept(ws)
	p := w.promote(source)
	w.refusedPromotion(source, string(p.ID))
	require.NoError(t, w.runs.Discard(ctx, w.owner, p.ID, Decision{}))
	w.wantStatus(p.ID, Rejected)

	p = w.promote(source)
	w.overdue(p.ID)
	w.sweep()
	w.wantStatus(p.ID, Expired)

	p = w.promote(source)
	require.NoError(t, w.runs.Cancel(ctx, w.owner, p.ID, ""))
	_, err := w.runs.Requeue(ctx, w.owner, p.ID)
	wantCode(t, err, fault.Conflict, "not_requeueable")

	p = w.promote(source)
	require.NoError(t, w.runs.Confirm(ctx, w.owner, p.ID, Decision{}))
	e := w.take(p.ID)
	e.start()
	e.done(Done{Outcome: OutcomeErrored, TofuStarted: true, ExitCode: 1})
	w.wantStatus(p.ID, ApplyFailed)
	w.refusedPromotion(source, string(p.ID))
	assert.Len(t, w.get(source).PromotedRuns, 4)
	w.refusedPromotion(p.ID, "operation plan")
}

func TestOnlyAKeptPlanIsPromoted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspace()
	r := w.run(ws, as(OperationPlan))
	w.refusedPromotion(r.ID, "no plan")
	e := w.take(r.ID)
	e.plan(false)
	w.refusedPromotion(r.ID, "nothing")
	w.refusedPromotion(w.failed(ws, as(OperationPlan)), "no plan")
	w.refusedPromotion(w.waiting(ws), "apply")
	_, _, err := w.runs.Promote(ctx, w.member, r.ID, NewPromotion{})
	wantCode(t, err, fault.Forbidden, "forbidden")
}

func TestAPlanOfAnOlderStateIsNotPromotedNorApplied(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspace()
	stale, p := w.kept(ws), w.promote(w.kept(ws))
	swept := w.promote(w.kept(ws))
	w.confirmed(ws).apply(1)
	w.refusedPromotion(stale, "state")
	wantCode(t, w.runs.Confirm(ctx, w.owner, p.ID, Decision{}), fault.Conflict, "APPROVAL_BINDING_STALE")
	w.wantStatus(p.ID, Rejected)
	w.sweep()
	assert.Equal(t, "APPROVAL_BINDING_STALE", w.wantStatus(swept.ID, Rejected).DurableReason)
}

// A promotion neither waits for the workspace nor holds it, until it is approved.
func TestAPromotionTakesTheWorkspaceWhenItIsApproved(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspace()
	p := w.promote(w.kept(ws))
	busy := w.run(ws)
	w.wantAdmitted(busy.ID)
	wantCode(t, w.runs.Confirm(ctx, w.owner, p.ID, Decision{}), fault.Locked, "workspace_locked")
	w.wantStatus(p.ID, AwaitingApproval)
	require.NoError(t, w.runs.Cancel(ctx, w.owner, busy.ID, ""))
	require.NoError(t, w.runs.Confirm(ctx, w.owner, p.ID, Decision{}))
	next := w.run(ws)
	w.wantWaits(next.ID)
	w.take(p.ID).apply(1)
	w.wantAdmitted(next.ID)
}

// A plan that a native client saved is either confirmed in its run, or promoted (G-02).
func TestASavedPlanIsConfirmedOrPromoted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspace()
	source := w.waiting(ws, savePlan)
	p := w.promote(source)
	d := w.wantStatus(source, Succeeded)
	assert.Equal(t, "PROMOTED", d.DurableReason)
	wantCode(t, w.runs.Confirm(ctx, w.owner, source, Decision{}), fault.Conflict, "invalid_transition")
	require.NoError(t, w.runs.Confirm(ctx, w.owner, p.ID, Decision{}))
	w.take(p.ID).apply(1)
	w.wantStatus(source, Succeeded)

	source = w.waiting(ws, savePlan)
	require.NoError(t, w.runs.Confirm(ctx, w.owner, source, Decision{}))
	w.refusedPromotion(source, "confirmed already")
	w.take(source).apply(2)
	w.refusedPromotion(source, "applied by that run itself")

	late := w.waiting(ws, savePlan)
	w.overdue(late)
	_, _, err := w.runs.Promote(ctx, w.owner, late, NewPromotion{})
	wantCode(t, err, fault.Conflict, "APPROVAL_EXPIRED")
}

func TestTheSamePromotionWithinTheWindowIsTheSameRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	source := w.kept(w.workspace())
	first, created, err := w.runs.Promote(ctx, w.owner, source, NewPromotion{Message: "m"})
	require.NoError(t, err)
	assert.True(t, created)
	again, created, err := w.runs.Promote(ctx, w.owner, source, NewPromotion{Message: "m"})
	require.NoError(t, err)
	assert.False(t, created)
	assert.Equal(t, first.ID, again.ID)
	w.refusedPromotion(source, string(first.ID))
	w.exec("update runs set created_at = created_at - interval '2 minutes' where id = @r", postgres.Args{"r": first.ID})
	_, _, err = w.runs.Promote(ctx, w.owner, source, NewPromotion{Message: "m"})
	wantCode(t, err, fault.Conflict, "not_promotable")
}
