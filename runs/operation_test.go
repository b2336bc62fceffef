package runs

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/artifacts"
	"github.com/holdfast-run/holdfast/dispatch"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/fence"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/workspaces"
)

func TestWhatARunIsForIsSettledWhenItIsMade(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		asked       NewRun
		speculative bool
		want        NewRun // what it comes to; without an operation it is refused
	}{
		"nothing said":                    {NewRun{}, false, NewRun{Operation: OperationApply}},
		"a destroy of native clients":     {NewRun{IsDestroy: true}, false, NewRun{Operation: OperationDestroy, IsDestroy: true}},
		"a saved plan":                    {NewRun{SavePlan: true}, false, NewRun{Operation: OperationPlan, SavePlan: true}},
		"a saved plan of a destroy":       {NewRun{SavePlan: true, IsDestroy: true}, false, NewRun{Operation: OperationPlan, SavePlan: true, IsDestroy: true}},
		"plan-only of native clients":     {NewRun{PlanOnly: true}, false, NewRun{Operation: OperationPlanOnly, PlanOnly: true}},
		"a speculative configuration":     {NewRun{}, true, NewRun{Operation: OperationPreview, PlanOnly: true}},
		"a look at a destroy":             {NewRun{IsDestroy: true}, true, NewRun{Operation: OperationPreview, PlanOnly: true, IsDestroy: true}},
		"plan":                            {NewRun{Operation: OperationPlan}, false, NewRun{Operation: OperationPlan}},
		"apply":                           {NewRun{Operation: OperationApply}, false, NewRun{Operation: OperationApply}},
		"destroy":                         {NewRun{Operation: OperationDestroy}, false, NewRun{Operation: OperationDestroy, IsDestroy: true}},
		"plan-only":                       {NewRun{Operation: OperationPlanOnly}, false, NewRun{Operation: OperationPlanOnly, PlanOnly: true}},
		"plan-only of a speculative one":  {NewRun{Operation: OperationPlanOnly}, true, NewRun{Operation: OperationPlanOnly, PlanOnly: true}},
		"preview":                         {NewRun{Operation: OperationPreview}, false, NewRun{Operation: OperationPreview, PlanOnly: true}},
		"teardown":                        {NewRun{Operation: OperationTeardown}, false, NewRun{Operation: OperationTeardown, IsDestroy: true, Teardown: true}},
		"teardown as an attribute":        {NewRun{Teardown: true}, false, NewRun{Operation: OperationTeardown, IsDestroy: true, Teardown: true}},
		"an apply that only plans":        {NewRun{Operation: OperationApply, PlanOnly: true}, false, NewRun{}},
		"an apply that destroys":          {NewRun{Operation: OperationApply, IsDestroy: true}, false, NewRun{}},
		"an apply that is saved":          {NewRun{Operation: OperationApply, SavePlan: true}, false, NewRun{}},
		"a speculative apply":             {NewRun{Operation: OperationApply}, true, NewRun{}},
		"a speculative teardown":          {NewRun{Operation: OperationTeardown}, true, NewRun{}},
		"a teardown that only plans":      {NewRun{Teardown: true, PlanOnly: true}, false, NewRun{}},
		"a teardown that is saved":        {NewRun{Teardown: true, SavePlan: true}, false, NewRun{}},
		"a teardown of a part":            {NewRun{Teardown: true, TargetAddrs: []string{"a.b"}}, false, NewRun{}},
		"a playbook":                      {NewRun{Operation: "execute"}, false, NewRun{}},
		"something that is no operation":  {NewRun{Operation: "refresh"}, false, NewRun{}},
		"a preview of which plan is kept": {NewRun{Operation: OperationPlan, PlanOnly: true}, false, NewRun{}},
	} {
		n := c.asked
		err := n.settleOperation(c.speculative)
		if c.want.Operation == "" {
			assert.Error(t, err, name)
			assert.True(t, fault.Is(err, fault.Invalid), "%s: %v", name, err)
			continue
		}
		require.NoError(t, err, name)
		c.want.TargetAddrs = c.asked.TargetAddrs
		assert.Equal(t, c.want, n, name)
	}
}

func TestARunKeepsWhatItIsFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspace()
	for _, o := range operations {
		d := w.run(ws, as(o))
		assert.Equal(t, o, d.Operation)
		assert.Equal(t, o, w.get(d.ID).Operation)
		require.NoError(t, w.runs.Cancel(ctx, w.owner, d.ID, ""))
	}
	_, err := w.tryRun(ws, as("execute"))
	wantCode(t, err, fault.Invalid, "invalid_attribute")
	assert.ErrorContains(t, err, "playbook")
}

// The plan is kept, nothing is locked for it, and nobody is asked: it ends as a plan.
func TestAKeptPlanEndsSucceeded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspace()
	busy := w.run(ws)
	r := w.run(ws, as(OperationPlan))
	w.wantAdmitted(busy.ID)
	assert.Equal(t, dispatch.Pending, r.PlanAttempt, "it does not wait for the other")
	w.take(busy.ID)
	w.take(r.ID).plan(true)
	d := w.wantStatus(r.ID, Succeeded)
	assert.NotEmpty(t, d.PlanObjectID)
	assert.Nil(t, d.ApprovalExpiresAt)
	assert.Nil(t, d.FenceEpoch)
	assert.True(t, w.fence(ws).HeldBy(fence.Run, string(busy.ID)))
	wantCode(t, w.runs.Confirm(ctx, w.owner, r.ID, Decision{}), fault.Conflict, "invalid_transition")

	_, err := w.tryRun(ws, as(OperationPlan), autoApply)
	wantCode(t, err, fault.Invalid, "invalid_attribute")
	auto := w.workspaceWith(workspaces.Settings{AutoApply: ptr(true)})
	assert.False(t, w.run(auto, as(OperationPlan)).AutoApply)
}

func TestOfAPlanToLookAtNothingIsKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, o := range []Operation{OperationPlanOnly, OperationPreview} {
		ws := w.workspace()
		r := w.run(ws, as(o))
		e := w.take(r.ID)
		wantCode(t, e.runs.HandOver(ctx, e.actor, artifacts.KindPlan, sha("x"), nil), fault.Conflict, "plan_only")
		e.plan(true)
		d := w.wantStatus(r.ID, Succeeded)
		assert.Empty(t, d.PlanObjectID)
		assert.Zero(t, w.fence(ws).Epoch, "it never locked")
		assert.Zero(t, count(w, "select count(*) from state_versions where workspace_id = @ws", postgres.Args{"ws": ws}))
		_, _, err := w.runs.Promote(ctx, w.owner, r.ID, NewPromotion{})
		wantCode(t, err, fault.Conflict, "not_promotable")
	}
}

func TestRunsOfALocalWorkspaceAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspace()
	failed := w.run(ws)
	w.take(failed.ID).done(Done{Outcome: OutcomeErrored, ExitCode: 1})
	saved := w.waiting(ws, savePlan)
	_, err := w.spaces.Update(ctx, w.owner, ws, workspaces.Changes{Settings: workspaces.Settings{ExecutionMode: ptr(workspaces.Local)}})
	require.NoError(t, err)
	for name, do := range map[string]func() error{
		"create":  func() error { _, err := w.tryRun(ws); return err },
		"look":    func() error { _, err := w.tryRun(ws, planOnly); return err },
		"requeue": func() error { _, err := w.runs.Requeue(ctx, w.owner, failed.ID); return err },
		"replan":  func() error { _, err := w.runs.Replan(ctx, w.owner, saved, NewReplan{}); return err },
		"promote": func() error { _, _, err := w.runs.Promote(ctx, w.owner, saved, NewPromotion{}); return err },
	} {
		err := do()
		wantCode(t, err, fault.Invalid, "execution_mode_local")
		assert.ErrorContains(t, err, "remote", name)
	}
	w.wantStatus(failed.ID, PlanFailed)
	w.wantStatus(saved, AwaitingApproval)
}
