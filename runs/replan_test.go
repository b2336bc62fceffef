package runs

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

func (w *world) replan(run ids.Run, targets ...string) Detail {
	w.Helper()
	d, err := w.runs.Replan(ctx, w.owner, run, NewReplan{TargetAddrs: targets})
	require.NoError(w, err)
	return d
}

func TestAReplanTakesThePlaceOfItsRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspace()
	variables := []Variable{{Key: "a", Value: "1", HCL: true}}
	old := w.waiting(ws, func(n *NewRun) { n.Variables = variables })
	waits := w.run(ws)
	d := w.replan(old, "a.b", "c.d")
	assert.NotEqual(t, old, d.ID)
	assert.Equal(t, old, d.ReplanOf)
	assert.Equal(t, []string{"a.b", "c.d"}, d.TargetAddrs)
	w.wantAdmitted(d.ID)
	w.wantWaits(waits.ID)
	ended := w.wantStatus(old, Rejected)
	assert.Equal(t, "REPLANNED", ended.DurableReason)
	assert.Contains(t, ended.StatusMessage, string(d.ID))
	assert.Empty(t, ended.TargetAddrs, "the old run stays as it was asked for")
	w.wantReleased(old)
	assert.Equal(t, ended.ConfigurationVersionID, d.ConfigurationVersionID)
	assert.Equal(t, ended.TerraformVersion, d.TerraformVersion)

	e := w.take(d.ID)
	given, err := w.runs.InputVariables(ctx, e.actor)
	require.NoError(t, err)
	assert.Equal(t, variables, given)
	e.plan(true)
	require.NoError(t, w.runs.Confirm(ctx, w.owner, d.ID, Decision{}))
	w.take(d.ID).apply(1)
	w.wantStatus(d.ID, Succeeded)
	w.wantAdmitted(waits.ID)
	assert.Equal(t, 1, count(w, "select count(*) from audit_entries where object_id = @r and action = 'run.replanned' and details->>'replan' = @n", postgres.Args{"r": old, "n": d.ID}))
}

func TestAReplanWithoutTargetsKeepsThem(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspace()
	old := w.waiting(ws, func(n *NewRun) { n.TargetAddrs = []string{"a.b"} })
	d := w.replan(old)
	assert.Equal(t, []string{"a.b"}, d.TargetAddrs)
	w.take(d.ID).plan(true)
	all, err := w.runs.Replan(ctx, w.owner, d.ID, NewReplan{TargetAddrs: []string{}})
	require.NoError(t, err)
	assert.Empty(t, all.TargetAddrs, "an empty list is a wish, too")
}

// A saved plan holds nothing that could be handed over.
func TestAReplanOfASavedPlanLeavesTheWorkspaceAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspace()
	old := w.waiting(ws, savePlan)
	busy := w.run(ws)
	d := w.replan(old, "a.b")
	assert.True(t, d.SavePlan)
	w.wantStatus(old, Rejected)
	w.wantAdmitted(busy.ID)
	w.take(busy.ID)
	w.take(d.ID).plan(true)
	w.wantStatus(d.ID, AwaitingApproval)
}

func TestOnlyAPlanThatWaitsForADecisionIsReplanned(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	refused := func(run ids.Run, code string) {
		t.Helper()
		before := count(w, "select count(*) from runs", postgres.Args{})
		_, err := w.runs.Replan(ctx, w.owner, run, NewReplan{})
		wantCode(t, err, fault.Conflict, code)
		assert.Equal(t, before, count(w, "select count(*) from runs", postgres.Args{}))
	}
	ws := w.workspace()
	r := w.run(ws)
	refused(r.ID, "invalid_transition")
	w.take(r.ID).plan(true)
	_, err := w.runs.Replan(ctx, w.member, r.ID, NewReplan{})
	wantCode(t, err, fault.Forbidden, "forbidden")
	w.overdue(r.ID)
	refused(r.ID, "APPROVAL_EXPIRED")
	w.sweep()
	refused(r.ID, "APPROVAL_EXPIRED")
	e := w.confirmed(ws)
	refused(e.RunID, "invalid_transition")
	e.apply(1)
	refused(e.RunID, "invalid_transition")
	refused(w.promote(w.kept(ws)).ID, "invalid_transition")
}
