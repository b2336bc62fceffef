package runs

import (
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/artifacts"
	"github.com/holdfast-run/holdfast/dispatch"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/workspaces"
)

// takeWithEvents accepts the attempt of this run as a runner that sends events.
func (w *world) takeWithEvents(run ids.Run) *executor {
	w.Helper()
	e, found := w.poll()
	require.True(w, found)
	require.Equal(w, run, e.RunID)
	require.NoError(w, w.runs.Ready(ctx, e.group, e.runner))
	var err error
	e.session, err = w.runs.Accept(ctx, e.group, e.ID, dispatch.Acceptance{Runner: e.runner, Sandbox: e.sandbox, JSONLog: true}, render)
	require.NoError(w, err)
	e.actor, err = w.disp.Authenticate(ctx, e.session.Token)
	require.NoError(w, err)
	return e
}

func (e *executor) event(start int64, text string) (next int64) {
	e.Helper()
	next, err := e.runs.AppendLog(ctx, e.actor, dispatch.JSON, start, []byte(text))
	require.NoError(e, err)
	return next
}

func (w *world) planLogOf(run ids.Run, stream dispatch.Stream) LogSlice {
	w.Helper()
	s, err := w.runs.PlanLog(ctx, w.get(run).PlanID, stream, 0, 10_000)
	require.NoError(w, err)
	return s
}

func TestARunHasTwoLogsWhereClientsDrawIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspace()
	run := w.run(ws)
	assert.True(t, run.StructuredOutput)
	e := w.takeWithEvents(run.ID)
	assert.True(t, w.get(run.ID).StructuredOutput)
	assert.Empty(t, w.planLogOf(run.ID, dispatch.JSON).Data, "nothing of the other log while there is none")
	e.log("for people\n")
	assert.Empty(t, w.planLogOf(run.ID, dispatch.JSON).Data)
	size := e.event(0, "{}\n")
	assert.Equal(t, "for people\n", string(w.planLogOf(run.ID, dispatch.Human).Data))
	assert.Equal(t, "{}\n", string(w.planLogOf(run.ID, dispatch.JSON).Data))

	e.handOver(artifacts.KindPlanJSON, "{}")
	e.handOver(artifacts.KindPlan, "a plan")
	e.handOver(artifacts.KindPlanJSONRedacted, `{"redacted":true}`)
	report := planned(true)
	wantCode(t, e.tryDone(report), fault.Conflict, "log_incomplete")
	report.JSONLogSize = size
	e.done(report)
	for _, stream := range []dispatch.Stream{dispatch.Human, dispatch.JSON} {
		assert.True(t, w.planLogOf(run.ID, stream).Final)
	}
	_, err := w.disp.Fold(ctx, 10)
	require.NoError(t, err)
	assert.Equal(t, "{}\n", string(w.planLogOf(run.ID, dispatch.JSON).Data))
	assert.Equal(t, "for people\n", string(w.planLogOf(run.ID, dispatch.Human).Data))

	body, _, err := w.runs.PlanJSONRedacted(ctx, w.member, run.PlanID)
	require.NoError(t, err, "whoever sees the run")
	text, err := io.ReadAll(body)
	require.NoError(t, err)
	require.NoError(t, body.Close())
	assert.Equal(t, `{"redacted":true}`, string(text))
	assert.False(t, w.get(run.ID).GeneratedConfig)

	require.NoError(t, w.runs.Confirm(ctx, w.owner, run.ID, Decision{}))
	old := w.take(run.ID) // by a runner that sends no events
	old.log("for people, too\n")
	s, err := w.runs.ApplyLog(ctx, w.get(run.ID).ApplyID, dispatch.JSON, 0, 100)
	require.NoError(t, err)
	assert.Equal(t, "for people, too\n", string(s.Data))
}

// TestWhetherClientsDrawARunIsSettledBeforeItsFirstByte: a reader who was given one log
// must never find himself in the other.
func TestWhetherClientsDrawARunIsSettledBeforeItsFirstByte(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	off := w.run(w.workspaceWith(workspaces.Settings{StructuredRunOutputEnabled: ptr(false)}))
	assert.False(t, off.StructuredOutput)
	e := w.takeWithEvents(off.ID)
	e.event(0, "{}\n")
	e.log("for people\n")
	assert.Equal(t, "for people\n", string(w.planLogOf(off.ID, dispatch.JSON).Data))

	ws := w.workspace()
	run := w.run(ws)
	old := w.take(run.ID)
	assert.False(t, w.get(run.ID).StructuredOutput, "its runner sends no events")
	old.log("for people\n")
	assert.Equal(t, "for people\n", string(w.planLogOf(run.ID, dispatch.JSON).Data))
	_, err := w.runs.AppendLog(ctx, old.actor, dispatch.JSON, 0, []byte("{}\n"))
	wantCode(t, err, fault.Invalid, "no_json_log")
	old.plan(true)
	_, _, err = w.runs.PlanJSONRedacted(ctx, w.owner, run.PlanID)
	wantCode(t, err, fault.NotFound, "no_plan")

	require.NoError(t, w.runs.Discard(ctx, w.owner, run.ID, Decision{}))
	later := w.run(ws)
	_, err = w.spaces.Update(ctx, w.owner, ws, workspaces.Changes{Settings: workspaces.Settings{StructuredRunOutputEnabled: ptr(false)}})
	require.NoError(t, err)
	assert.True(t, w.get(later.ID).StructuredOutput, "as the workspace was set when the run was made")
}

func TestAPlanThatClientsDrawNeedsItsRedactedJSON(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := w.run(w.workspace())
	e := w.takeWithEvents(run.ID)
	e.handOver(artifacts.KindPlanJSON, "{}")
	e.handOver(artifacts.KindPlan, "a plan")
	e.done(planned(true))
	d := w.wantStatus(run.ID, PlanFailed)
	assert.Equal(t, "plan_evidence_missing", d.DurableReason)
	assert.Contains(t, d.StatusMessage, "plan-json-redacted")
}

func generateConfig(n *NewRun) { n.GenerateConfig = true }

func TestGeneratedConfiguration(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := w.run(w.workspace(), generateConfig)
	assert.True(t, run.GenerateConfig)
	e := w.takeWithEvents(run.ID)
	e.handOver(artifacts.KindPlanJSON, "{}")
	e.handOver(artifacts.KindPlan, "a plan")
	e.handOver(artifacts.KindPlanJSONRedacted, "{}")
	report := planned(true)
	report.GeneratedConfig = true
	e.done(report)
	assert.True(t, w.wantStatus(run.ID, AwaitingApproval).GeneratedConfig)
}

func TestAFailedPlanKeepsTheConfigurationItGenerated(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	fail := func(asked ...func(*NewRun)) Detail {
		run := w.run(w.workspace(), asked...)
		e := w.takeWithEvents(run.ID)
		e.handOver(artifacts.KindPlanJSONRedacted, `{"generated":1}`)
		e.done(Done{Outcome: OutcomeErrored, ExitCode: 1, Message: "boom", GeneratedConfig: true})
		return w.wantStatus(run.ID, PlanFailed)
	}
	d := fail(generateConfig)
	assert.True(t, d.GeneratedConfig)
	body, _, err := w.runs.PlanJSONRedacted(ctx, w.owner, d.PlanID)
	require.NoError(t, err)
	require.NoError(t, body.Close())

	unasked := fail()
	assert.False(t, unasked.GeneratedConfig)
	_, _, err = w.runs.PlanJSONRedacted(ctx, w.owner, unasked.PlanID)
	wantCode(t, err, fault.NotFound, "no_plan")
}
