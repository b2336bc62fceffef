package runs

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/workspaces"
)

func (w *world) runsOf(ws ids.Workspace, f Filter) []Detail {
	w.Helper()
	f.Limit = 100
	list, total, err := w.runs.List(ctx, w.owner, ws, f)
	require.NoError(w, err)
	require.Len(w, list, total)
	return list
}

// An apply of the source starts a run of each workspace that has a trigger on it, with the
// rights of whoever made the trigger, once, and only after its first run by a person.
func TestAnApplyOfTheSourceStartsRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	source, eager, shy, stranger := w.workspace(), w.workspaceWith(workspaces.Settings{QueueAllRuns: ptr(true), AutoApplyRunTrigger: ptr(true)}), w.workspace(), w.workspace()
	for _, ws := range []ids.Workspace{eager, shy, stranger} {
		w.configuration(ws)
	}
	for _, ws := range []ids.Workspace{eager, shy} {
		_, err := w.runs.CreateTrigger(ctx, w.owner, ws, source)
		require.NoError(t, err)
	}
	e := w.applying(source)
	w.sweep()
	assert.Empty(t, w.runsOf(eager, Filter{}), "the apply has not ended")
	e.publish(1)
	e.done(Done{Outcome: OutcomeFinished, TofuStarted: true, Confirmed: e.confirm()})
	w.wantStatus(e.RunID, Succeeded)
	w.sweep()
	w.sweep()
	started := w.runsOf(eager, Filter{})
	require.Len(t, started, 1)
	assert.Equal(t, SourceOfTriggers, started[0].Source)
	assert.Equal(t, w.owner.User, started[0].CreatedBy)
	assert.True(t, started[0].AutoApply)
	assert.Contains(t, started[0].Message, string(e.RunID))
	assert.Empty(t, w.runsOf(shy, Filter{}), "nobody has run anything there yet")
	assert.Empty(t, w.runsOf(stranger, Filter{}))
	assert.Zero(t, count(w, "select count(*) from triggered_runs", nil))
}

func TestTriggersRefuse(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, b := w.workspace(), w.workspace()
	trigger, err := w.runs.CreateTrigger(ctx, w.owner, a, b)
	require.NoError(t, err)
	_, err = w.runs.CreateTrigger(ctx, w.owner, a, a)
	assert.ErrorContains(t, err, "cannot be the workspace itself")
	_, err = w.runs.CreateTrigger(ctx, w.owner, a, b)
	assert.ErrorContains(t, err, "has already been taken")
	_, err = w.runs.CreateTrigger(ctx, w.owner, a, ids.New[ids.Workspace]())
	assert.True(t, fault.Is(err, fault.NotFound))
	_, err = w.runs.CreateTrigger(ctx, w.member, b, a)
	assert.True(t, fault.Is(err, fault.Forbidden))
	for outbound, ws := range map[bool]ids.Workspace{false: a, true: b} {
		list, total, err := w.runs.Triggers(ctx, w.member, ws, outbound, 20, 0)
		require.NoError(t, err)
		assert.Equal(t, 1, total)
		assert.Equal(t, trigger, list[0])
	}
	assert.True(t, fault.Is(w.runs.DeleteTrigger(ctx, w.member, trigger.ID), fault.Forbidden))
	require.NoError(t, w.runs.DeleteTrigger(ctx, w.owner, trigger.ID))
	assert.True(t, fault.Is(w.runs.DeleteTrigger(ctx, w.owner, trigger.ID), fault.NotFound))
}

// What keeps a workspace from the run that it is to start is written down, and the sweep goes on.
func TestARefusedTriggerIsWrittenDown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	source, target := w.workspace(), w.workspaceWith(workspaces.Settings{QueueAllRuns: ptr(true)}) // without a configuration
	_, err := w.runs.CreateTrigger(ctx, w.owner, target, source)
	require.NoError(t, err)
	e := w.applying(source)
	e.publish(1)
	e.done(Done{Outcome: OutcomeFinished, TofuStarted: true, Confirmed: e.confirm()})
	w.sweep()
	assert.Empty(t, w.runsOf(target, Filter{}))
	assert.Equal(t, 1, count(w, "select count(*) from audit_entries where action = 'run.not-started'", nil))
}

func TestTheTimeToDestroyComesOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspace()
	w.configuration(ws)
	set := func(sql string) {
		w.exec("update workspaces set auto_destroy_at = "+sql+" where id = @id", postgres.Args{"id": ws})
	}
	past := w.get(w.run(w.workspace()).ID).CreatedAt
	_, err := w.spaces.Update(ctx, w.owner, ws, workspaces.Changes{Settings: workspaces.Settings{AutoDestroyAt: &past}})
	require.NoError(t, err)
	w.sweep()
	assert.Empty(t, w.runsOf(ws, Filter{}), "an instant that had passed when it was set starts nothing")
	ahead := past.AddDate(1, 0, 0)
	_, err = w.spaces.Update(ctx, w.owner, ws, workspaces.Changes{Settings: workspaces.Settings{AutoDestroyAt: &ahead}})
	require.NoError(t, err)
	w.sweep()
	assert.Empty(t, w.runsOf(ws, Filter{}))
	set("clock_timestamp() - interval '1 second'")
	w.sweep()
	w.sweep()
	started := w.runsOf(ws, Filter{})
	require.Len(t, started, 1)
	assert.True(t, started[0].IsDestroy && started[0].AutoApply)
	assert.Equal(t, w.owner.User, started[0].CreatedBy)
}

func TestAWorkspaceIsAssessedOnceADay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspaceWith(workspaces.Settings{AssessmentsEnabled: ptr(true)})
	e := w.applying(ws)
	w.sweep()
	assert.Empty(t, w.runsOf(ws, Filter{Operations: []string{"plan_only"}, PlanOnly: true}), "it has no state yet")
	e.publish(1)
	e.done(Done{Outcome: OutcomeFinished, TofuStarted: true, Confirmed: e.confirm()})
	w.sweep()
	w.sweep()
	assessed := w.runsOf(ws, Filter{PlanOnly: true, Sources: []string{SourceOfSchedules}})
	require.Len(t, assessed, 1)
	assert.True(t, assessed[0].PlanOnly && assessed[0].RefreshOnly)
	w.exec("update runs set created_at = created_at - interval '25 hours' where id = @id", postgres.Args{"id": assessed[0].ID})
	w.exec("update workspaces set assessed_at = clock_timestamp() - interval '25 hours' where id = @id", postgres.Args{"id": ws})
	w.sweep()
	assert.Len(t, w.runsOf(ws, Filter{PlanOnly: true, Sources: []string{SourceOfSchedules}}), 2)
}
