package tfeapi

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"

	"github.com/hashicorp/go-tfe"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/artifacts"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/runs"
)

// runDocumentData is what a script reads of a run beside what native clients know.
type runDocumentData struct {
	ID         string `json:"id"`
	Attributes struct {
		Status        string     `json:"status"`
		DurableStatus string     `json:"durable-status"`
		Operation     string     `json:"operation"`
		TargetAddrs   []string   `json:"target-addrs"`
		HasChanges    bool       `json:"has-changes"`
		Actions       runActions `json:"actions"`
	} `json:"attributes"`
	Relationships map[string]struct {
		Data json.RawMessage `json:"data"`
	} `json:"relationships"`
}

func (d runDocumentData) related(name string) string { return string(d.Relationships[name].Data) }

// act posts an action of a run and reads the run it answers with.
func (w *world) act(run, action, body string, status int) (data runDocumentData) {
	w.Helper()
	response, text := w.send("POST", "/api/v2/runs/"+run+"/actions/"+action, w.ann, body)
	require.Equal(w, status, response.StatusCode, text)
	var doc struct{ Data runDocumentData }
	require.NoError(w, json.Unmarshal([]byte(text), &doc))
	return doc.Data
}

func (w *world) facts(run string) runDocumentData {
	w.Helper()
	var doc struct{ Data runDocumentData }
	require.NoError(w, json.Unmarshal([]byte(w.get("/api/v2/runs/"+run, w.ann)), &doc))
	return doc.Data
}

// refused posts an action that must be refused, and gives the code of the error.
func (w *world) refused(run, action, body string, status int) string {
	w.Helper()
	response, text := w.send("POST", "/api/v2/runs/"+run+"/actions/"+action, w.ann, body)
	assert.Equal(w, status, response.StatusCode, text)
	var doc struct {
		Errors []struct{ Code, Detail string }
	}
	require.NoError(w, json.Unmarshal([]byte(text), &doc))
	require.Len(w, doc.Errors, 1)
	assert.NotEmpty(w, doc.Errors[0].Detail)
	return doc.Errors[0].Code
}

// queueAs makes a run with one more attribute than native clients send.
func (w *world) queueAs(ws *tfe.Workspace, attributes string) (status int, data runDocumentData, text string) {
	w.Helper()
	run := w.queue(ws, tfe.RunCreateOptions{}) // for its configuration version
	require.NoError(w, w.client.Runs.Cancel(w.Context(), run.ID, tfe.RunCancelOptions{}))
	response, text := w.send("POST", "/api/v2/runs", w.ann, `{"data":{"type":"runs","attributes":{`+attributes+`},"relationships":{"workspace":{"data":{"type":"workspaces","id":"`+ws.ID+`"}}}}}`)
	var doc struct{ Data runDocumentData }
	require.NoError(w, json.Unmarshal([]byte(text), &doc))
	return response.StatusCode, doc.Data, text
}

func TestTheOperationOfARun(t *testing.T) {
	w := newWorld(t)
	w.runner()
	ws := w.workspace("app")
	for attributes, want := range map[string]string{
		``: "apply", `"is-destroy":true`: "destroy", `"plan-only":true`: "plan-only", `"save-plan":true`: "plan",
		`"operation":"plan"`: "plan", `"operation":"preview"`: "preview", `"operation":"teardown"`: "teardown", `"is-destroy":true,"teardown":true`: "teardown",
	} {
		status, run, text := w.queueAs(ws, attributes)
		require.Equal(t, 201, status, text)
		assert.Equal(t, want, run.Attributes.Operation, attributes)
		require.NoError(t, w.client.Runs.Cancel(t.Context(), run.ID, tfe.RunCancelOptions{}))
	}
	for _, attributes := range []string{`"operation":"execute"`, `"operation":"fly"`, `"operation":"apply","plan-only":true`} {
		status, _, text := w.queueAs(ws, attributes)
		assert.Equal(t, 422, status, text)
		assert.Contains(t, text, `"pointer":"/data/attributes/operation"`)
	}
}

func TestAPromotionOnTheWire(t *testing.T) {
	w := newWorld(t)
	ctx, group, ws := t.Context(), w.runner(), w.workspace("app")
	_, source, _ := w.queueAs(ws, `"operation":"plan"`)
	assert.Equal(t, "not_promotable", w.refused(source.ID, "promote", "", 409))
	w.plan(w.accept(group), "the plan\n")
	source = w.facts(source.ID)
	assert.Equal(t, "planned_and_saved succeeded", source.Attributes.Status+" "+source.Attributes.DurableStatus)
	assert.False(t, source.Attributes.Actions.IsConfirmable, "it is promoted, not confirmed")
	assert.Equal(t, "[]", source.related("promoted-runs"))

	p := w.act(source.ID, "promote", `{"data":{"attributes":{"message":"go"}}}`, 201)
	assert.Equal(t, "apply planned", p.Attributes.Operation+" "+p.Attributes.Status)
	assert.True(t, p.Attributes.HasChanges)
	assert.True(t, p.Attributes.Actions.IsConfirmable)
	assert.JSONEq(t, `{"type":"runs","id":"`+source.ID+`"}`, p.related("source-run"))
	assert.JSONEq(t, source.related("plan"), p.related("plan"))
	assert.NotEqual(t, source.related("apply"), p.related("apply"))
	assert.JSONEq(t, `[{"type":"runs","id":"`+p.ID+`"}]`, w.facts(source.ID).related("promoted-runs"))
	assert.Equal(t, p.ID, w.act(source.ID, "promote", `{"message":"go"}`, 200).ID, "the same request is the same run")
	assert.Equal(t, "not_promotable", w.refused(source.ID, "promote", `{"message":"another"}`, 409))

	run, err := w.client.Runs.Read(ctx, p.ID)
	require.NoError(t, err)
	assert.Equal(t, "the plan\n", w.logs(ctx, w.client.Plans.Logs, run.Plan.ID))
	require.NoError(t, w.client.Runs.Apply(ctx, p.ID, tfe.RunApplyOptions{}))
	assert.Equal(t, "apply_queued", w.facts(p.ID).Attributes.Status)
	applying := w.accept(group)
	assert.Equal(t, ids.Run(p.ID), applying.actor.Run)
	_, err = w.deps.Runs.StartApply(ctx, applying.actor, applying.ManifestDigest, "sandbox", "digest")
	require.NoError(t, err)
	applying.actor.Applying = true
	w.publish(applying, ws)
	proved, err := w.deps.Runs.ConfirmState(ctx, applying.actor, "sandbox")
	require.NoError(t, err)
	require.NoError(t, w.deps.Runs.Done(ctx, applying.id, runs.Done{Outcome: runs.OutcomeFinished, TofuStarted: true, Confirmed: proved.ID}))
	assert.Equal(t, "applied", w.facts(p.ID).Attributes.Status)
	assert.Equal(t, "planned_and_saved", w.facts(source.ID).Attributes.Status)
}

func TestRequeueAndReplanOnTheWire(t *testing.T) {
	w := newWorld(t)
	group, ws := w.runner(), w.workspace("app")
	run := w.queue(ws, tfe.RunCreateOptions{})
	assert.Equal(t, "not_requeueable", w.refused(run.ID, "requeue", "", 409))
	require.NoError(t, w.client.Runs.Cancel(t.Context(), run.ID, tfe.RunCancelOptions{}))
	again := w.act(run.ID, "requeue", "", 200)
	assert.Equal(t, run.ID, again.ID)
	assert.Equal(t, "plan_queued", again.Attributes.Status)
	assert.True(t, w.read(run).StatusTimestamps.CanceledAt.IsZero(), "the end of before is not its end")
	assert.Equal(t, "invalid_transition", w.refused(run.ID, "replan", `{"target-addrs":["a.b"]}`, 409))
	w.plan(w.accept(group), "")

	fresh := w.act(run.ID, "replan", `{"data":{"attributes":{"target-addrs":["a.b"]}}}`, 201)
	assert.NotEqual(t, run.ID, fresh.ID)
	assert.Equal(t, []string{"a.b"}, fresh.Attributes.TargetAddrs)
	assert.Equal(t, "plan_queued", fresh.Attributes.Status)
	assert.JSONEq(t, `{"type":"runs","id":"`+run.ID+`"}`, fresh.related("replan-of"))
	assert.Equal(t, "null", fresh.related("source-run"))
	assert.Equal(t, tfe.RunDiscarded, w.read(run).Status)

	for _, action := range []string{"requeue", "replan", "promote"} {
		response, _ := w.send("POST", "/api/v2/runs/"+fresh.ID+"/actions/"+action, w.bob, "")
		assert.Equal(t, 403, response.StatusCode, action)
		response, _ = w.send("POST", "/api/v2/runs/run-0000000000000000/actions/"+action, w.ann, "")
		assert.Equal(t, 404, response.StatusCode, action)
	}
}

func TestForceExecuteOnTheWire(t *testing.T) {
	w := newWorld(t)
	ctx, group, ws := t.Context(), w.runner(), w.workspace("app")
	ahead := w.queue(ws, tfe.RunCreateOptions{})
	waits := w.queue(ws, tfe.RunCreateOptions{})
	assert.Equal(t, "invalid_transition", w.refused(waits.ID, "force-execute", "", 409))
	w.plan(w.accept(group), "")
	assert.True(t, w.read(waits).Permissions.CanForceExecute)
	require.NoError(t, w.client.Runs.ForceExecute(ctx, waits.ID))
	assert.Equal(t, tfe.RunDiscarded, w.read(ahead).Status)
	assert.Equal(t, tfe.RunPlanQueued, w.read(waits).Status)
}

func TestForceCancelOnTheWire(t *testing.T) {
	w := newWorld(t)
	ctx, group, ws := t.Context(), w.runner(), w.workspace("app")
	run := w.queue(ws, tfe.RunCreateOptions{})
	w.accept(group)
	assert.Equal(t, "force_cancel_unavailable", w.refused(run.ID, "force-cancel", "", 409))
	require.NoError(t, w.client.Runs.Cancel(ctx, run.ID, tfe.RunCancelOptions{}))
	canceling := w.read(run)
	assert.Equal(t, tfe.RunPlanning, canceling.Status)
	assert.False(t, canceling.ForceCancelAvailableAt.IsZero())
	assert.False(t, canceling.Actions.IsForceCancelable)
	assert.Equal(t, "force_cancel_unavailable", w.refused(run.ID, "force-cancel", "", 409))
	require.NoError(t, postgres.InTx(ctx, w.db, "test", func(tx postgres.Tx) error {
		_, err := postgres.Exec(ctx, tx, "update runs set force_cancel_available_at = clock_timestamp() where id = @id", postgres.Args{"id": run.ID})
		return err
	}))
	assert.True(t, w.read(run).Actions.IsForceCancelable)
	require.NoError(t, w.client.Runs.ForceCancel(ctx, run.ID, tfe.RunForceCancelOptions{}))
	canceled := w.read(run)
	assert.Equal(t, tfe.RunCanceled, canceled.Status)
	assert.False(t, canceled.StatusTimestamps.ForceCanceledAt.IsZero())
	free, err := w.client.Workspaces.ReadByID(ctx, ws.ID)
	require.NoError(t, err)
	assert.False(t, free.Locked)
}

// A run that took its workspace with it can still be looked at.
func TestATornDownRunIsReadable(t *testing.T) {
	w := newWorld(t)
	ctx, group, ws := t.Context(), w.runner(), w.workspace("app")
	_, run, _ := w.queueAs(ws, `"operation":"teardown"`)
	s := w.accept(group)
	for kind, content := range map[artifacts.Kind]string{artifacts.KindPlan: "plan", artifacts.KindPlanJSON: `{}`} {
		sum := sha256.Sum256([]byte(content))
		require.NoError(t, w.deps.Runs.HandOver(ctx, s.actor, kind, hex.EncodeToString(sum[:]), strings.NewReader(content)))
	}
	require.NoError(t, w.deps.Runs.Done(ctx, s.id, runs.Done{Outcome: runs.OutcomeFinished, TofuVersion: "1.12.6", TofuDigest: "digest", Plan: &runs.PlanSummary{}}))
	response, _ := w.send("GET", "/api/v2/workspaces/"+ws.ID, w.ann, "")
	assert.Equal(t, 404, response.StatusCode)
	fresh, err := w.client.Runs.ReadWithOptions(ctx, run.ID, &tfe.RunReadOptions{Include: []tfe.RunIncludeOpt{tfe.RunWorkspace, tfe.RunConfigVer}})
	require.NoError(t, err)
	assert.Equal(t, tfe.RunPlannedAndFinished, fresh.Status)
	assert.Equal(t, tfe.ConfigurationArchived, fresh.ConfigurationVersion.Status)
	assert.Equal(t, ws.ID, fresh.Workspace.ID)
}

func TestRunsOfALocalWorkspaceAreRefusedOnTheWire(t *testing.T) {
	w := newWorld(t)
	ws := w.workspace("app")
	local := "local"
	_, err := w.client.Workspaces.UpdateByID(t.Context(), ws.ID, tfe.WorkspaceUpdateOptions{ExecutionMode: &local})
	require.NoError(t, err)
	response, text := w.send("POST", "/api/v2/runs", w.ann, `{"data":{"type":"runs","relationships":{"workspace":{"data":{"type":"workspaces","id":"`+ws.ID+`"}}}}}`)
	assert.Equal(t, 422, response.StatusCode)
	assert.Contains(t, text, "execution_mode_local")
}
