package tfeapi

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-tfe"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/artifacts"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/runs"
)

// handOver gives an artifact of a plan, and its digest.
func (w *world) handOver(s session, kind artifacts.Kind, content string) string {
	w.Helper()
	sum := sha256.Sum256([]byte(content))
	digest := hex.EncodeToString(sum[:])
	require.NoError(w, w.deps.Runs.HandOver(w.Context(), s.actor, kind, digest, strings.NewReader(content)))
	return digest
}

// planOnly ends a plan with changes of which nothing is kept that could be applied.
func (w *world) planOnly(s session) {
	w.Helper()
	w.handOver(s, artifacts.KindPlanJSON, `{"format_version":"1.2"}`)
	w.done(s, runs.Done{Outcome: runs.OutcomeFinished, ExitCode: 2, TofuVersion: "1.12.6", TofuDigest: "digest", Plan: &runs.PlanSummary{HasChanges: true, Additions: 1}})
}

// stages is a run's stages in short.
func (w *world) stages(run *tfe.Run) string {
	w.Helper()
	var list []string
	for i, s := range w.all(run, "stages") {
		assert.Equal(w, float64(i), s.Attributes["position"])
		list = append(list, s.Attributes["kind"].(string)+":"+s.Attributes["status"].(string))
	}
	return strings.Join(list, " ")
}

// TestStagesComeJustInTime holds RL-33 and RL-36.
func TestStagesComeJustInTime(t *testing.T) {
	w := newWorld(t)
	ctx, group, ws := t.Context(), w.runner(), w.workspace("app")
	run := w.queue(ws, tfe.RunCreateOptions{})
	assert.Equal(t, "plan:pending", w.stages(run))
	s := w.accept(group)
	assert.Equal(t, "plan:running", w.stages(run))
	w.plan(s, "")
	assert.Equal(t, "plan:succeeded policy:succeeded approval:pending", w.stages(run))
	require.NoError(t, w.client.Runs.Apply(ctx, run.ID, tfe.RunApplyOptions{}))
	assert.Equal(t, "plan:succeeded policy:succeeded approval:succeeded apply:pending", w.stages(run))
	s = w.accept(group)
	assert.Equal(t, "plan:succeeded policy:succeeded approval:succeeded apply:pending", w.stages(run), "its authority is not redeemed yet")
	_, err := w.deps.Runs.StartApply(ctx, s.actor, s.ManifestDigest, "sandbox", "digest")
	require.NoError(t, err)
	s.actor.Applying = true
	assert.Equal(t, "plan:succeeded policy:succeeded approval:succeeded apply:running", w.stages(run))
	w.applied(s, ws)
	assert.Equal(t, "plan:succeeded policy:succeeded approval:succeeded apply:succeeded", w.stages(run))
}

// TestHowStagesEnd: as the step that ends them says, and nothing comes after.
func TestHowStagesEnd(t *testing.T) {
	w := newWorld(t)
	ctx, group, yes := t.Context(), w.runner(), true
	planned := func(name string) *tfe.Run {
		run := w.queue(w.workspace(name), tfe.RunCreateOptions{})
		w.plan(w.accept(group), "")
		return run
	}
	run := w.queue(w.workspace("canceled"), tfe.RunCreateOptions{})
	require.NoError(t, w.client.Runs.Cancel(ctx, run.ID, tfe.RunCancelOptions{}))
	assert.Equal(t, "plan:canceled", w.stages(run))

	run = w.queue(w.workspace("failed"), tfe.RunCreateOptions{})
	w.done(w.accept(group), runs.Done{Outcome: runs.OutcomeErrored, ExitCode: 1})
	assert.Equal(t, "plan:failed", w.stages(run))

	run = w.queue(w.workspace("only"), tfe.RunCreateOptions{PlanOnly: &yes})
	w.planOnly(w.accept(group))
	assert.Equal(t, "plan:succeeded policy:succeeded", w.stages(run), "nothing was ever to be applied")

	const until = "plan:succeeded policy:succeeded "
	run = planned("discarded")
	require.NoError(t, w.client.Runs.Discard(ctx, run.ID, tfe.RunDiscardOptions{}))
	assert.Equal(t, until+"approval:rejected", w.stages(run))

	run = planned("expired")
	w.exec("update runs set approval_expires_at = clock_timestamp() where id = @id", postgres.Args{"id": run.ID})
	require.NoError(t, runs.NewSweeper(w.deps.Runs).Sweep(ctx))
	assert.Equal(t, until+"approval:expired", w.stages(run))

	run = planned("called-off")
	require.NoError(t, w.client.Runs.Apply(ctx, run.ID, tfe.RunApplyOptions{}))
	require.NoError(t, w.client.Runs.Cancel(ctx, run.ID, tfe.RunCancelOptions{}))
	assert.Equal(t, until+"approval:succeeded apply:canceled", w.stages(run))

	for name, end := range map[string]struct {
		d    runs.Done
		want string
	}{
		"apply-failed":      {runs.Done{Outcome: runs.OutcomeErrored, ExitCode: 1, TofuStarted: true}, "failed"},
		"apply-uncertain":   {runs.Done{Outcome: runs.OutcomeUnknown}, "uncertain"},
		"apply-unknown":     {runs.Done{Outcome: runs.OutcomeUnknown, TofuStarted: true}, "uncertain"},
		"apply-interrupted": {runs.Done{Outcome: runs.OutcomeCanceled, TofuStarted: true}, "canceled"},
	} {
		run = planned(name)
		w.done(w.start(group, run), end.d)
		assert.Equal(t, until+"approval:succeeded apply:"+end.want, w.stages(run), name)
	}
}

// TestARunWithoutChangesSkipsTheRest holds RL-09, RL-10 and RL-11.
func TestARunWithoutChangesSkipsTheRest(t *testing.T) {
	w := newWorld(t)
	group, ws := w.runner(), w.workspace("app")
	run := w.queue(ws, tfe.RunCreateOptions{})
	assert.Nil(t, w.show(w.bob, "applies/"+run.Apply.ID).Attributes["closed-at"])
	w.planWithout(w.accept(group))
	assert.Equal(t, "plan:succeeded policy:succeeded approval:skipped apply:skipped", w.stages(run))
	apply := w.show(w.bob, "applies/"+run.Apply.ID).Attributes
	assert.Equal(t, "unreachable", apply["status"])
	assert.Equal(t, w.review(run)["finished-at"], apply["closed-at"])
	attempts := w.all(run, "attempts")
	require.Len(t, attempts, 1)
	assert.Equal(t, "plan", attempts[0].Attributes["phase"])
	require.Len(t, w.all(run, "receipts"), 1)
}

// TestRunStagesAndAttemptsNameOneAnother holds RL-32.
func TestRunStagesAndAttemptsNameOneAnother(t *testing.T) {
	w := newWorld(t)
	group, ws := w.runner(), w.workspace("app")
	run := w.queue(ws, tfe.RunCreateOptions{})
	waiting := w.all(run, "attempts")
	require.Len(t, waiting, 1)
	assert.Equal(t, []string{waiting[0].ID}, w.all(run, "stages")[0].related(t, "attempt"), "known before a runner took it")
	w.plan(w.accept(group), "")
	w.applied(w.start(group, run), ws)

	review, stages, attempts, receipts := w.show(w.bob, "runs/"+run.ID+"/review"), w.all(run, "stages"), w.all(run, "attempts"), w.all(run, "receipts")
	assert.Equal(t, []string{run.ID}, review.related(t, "run"))
	of := func(list []shownResource) (found []string) {
		for _, r := range list {
			assert.Equal(t, []string{run.ID}, r.related(t, "run"), r.Type)
			found = append(found, r.ID)
		}
		return found
	}
	assert.Equal(t, of(stages), review.related(t, "stages"))
	assert.Equal(t, of(attempts), review.related(t, "attempts"))
	assert.Equal(t, of(receipts), review.related(t, "receipts"))
	require.Len(t, stages, 4)
	require.Len(t, attempts, 2)
	require.Len(t, receipts, 2)
	for i, stage := range []int{0, 3} {
		assert.Equal(t, []string{attempts[i].ID}, stages[stage].related(t, "attempt"))
		assert.Equal(t, []string{attempts[i].ID}, receipts[i].related(t, "attempt"))
		assert.Equal(t, []string{stages[stage].ID}, receipts[i].related(t, "stage"))
		assert.Equal(t, stages[stage].Attributes["kind"], attempts[i].Attributes["phase"])
	}
	assert.Empty(t, stages[2].related(t, "attempt"), "a person decides, and no runner")
	assert.Equal(t, []any{"finished", "finished", 2.0, 1.0}, []any{attempts[0].Attributes["status"], attempts[0].Attributes["outcome"], attempts[0].Attributes["exit-code"], attempts[0].Attributes["fence-epoch"]})
	assert.Equal(t, []string{string(group.ID)}, attempts[1].related(t, "agent-pool"))
}

// TestTheReceiptOfAPlan holds PL-18 and RE-01.
func TestTheReceiptOfAPlan(t *testing.T) {
	w := newWorld(t)
	group, ws := w.runner(), w.workspace("app")
	run := w.queue(ws, tfe.RunCreateOptions{})
	s := w.accept(group)
	assert.Empty(t, w.all(run, "receipts"), "it is written by what ends the phase")
	digests := map[string]any{"plan": w.handOver(s, artifacts.KindPlan, "plan"), "plan-json": w.handOver(s, artifacts.KindPlanJSON, `{"format_version":"1.2"}`)}
	w.exec("update attempts set accepted_at = accepted_at - interval '90 seconds' where id = @id", postgres.Args{"id": s.id})
	w.done(s, runs.Done{
		Outcome: runs.OutcomeFinished, ExitCode: 2, TofuVersion: "1.12.6", TofuDigest: "digest",
		Plan: &runs.PlanSummary{HasChanges: true, Additions: 4, Changes: 3, Destructions: 2, Imports: 1},
	})
	receipts := w.all(run, "receipts")
	require.Len(t, receipts, 1)
	a := receipts[0].Attributes
	assert.Equal(t, []any{"plan", "succeeded", "", true, 4.0, 3.0, 2.0, 1.0, 2.0, "1.12.6", "digest"}, []any{
		a["kind"], a["result"], a["reason"], a["has-changes"], a["resource-additions"], a["resource-changes"], a["resource-destructions"], a["resource-imports"],
		a["exit-code"], a["tofu-version"], a["tofu-digest"],
	})
	assert.Equal(t, digests, a["digests"])
	assert.InDelta(t, 90_000, a["duration-ms"], 20_000)
	assert.Empty(t, a["outputs"])
	assert.Empty(t, receipts[0].related(t, "state-version"))

	t.Log("a plan that failed counts nothing")
	failed := w.queue(w.workspace("other"), tfe.RunCreateOptions{})
	w.done(w.accept(group), runs.Done{Outcome: runs.OutcomeErrored, ExitCode: 1})
	receipts = w.all(failed, "receipts")
	require.Len(t, receipts, 1)
	a = receipts[0].Attributes
	assert.Equal(t, []any{"failed", "plan_failed", nil, nil, 1.0}, []any{a["result"], a["reason"], a["has-changes"], a["resource-additions"], a["exit-code"]})

	t.Log("what no runner took has none")
	never := w.queue(w.workspace("never"), tfe.RunCreateOptions{})
	require.NoError(t, w.client.Runs.Cancel(t.Context(), never.ID, tfe.RunCancelOptions{}))
	assert.Empty(t, w.all(never, "receipts"))
}

// TestTheReceiptOfAnApply holds RE-02 and ST-20: outputs without what is sensitive in
// them, duration and result.
func TestTheReceiptOfAnApply(t *testing.T) {
	w := newWorld(t)
	group, ws := w.runner(), w.workspace("app")
	run := w.queue(ws, tfe.RunCreateOptions{})
	w.plan(w.accept(group), "")
	s := w.start(group, run)
	require.Len(t, w.all(run, "receipts"), 1)
	w.exec("update attempts set accepted_at = accepted_at - interval '30 seconds' where id = @id", postgres.Args{"id": s.id})
	w.applied(s, ws)
	receipts := w.all(run, "receipts")
	require.Len(t, receipts, 2)
	a := receipts[1].Attributes
	assert.Equal(t, []any{"apply", "succeeded", "", 0.0, 1.0}, []any{a["kind"], a["result"], a["reason"], a["exit-code"], a["resource-additions"]})
	assert.InDelta(t, 30_000, a["duration-ms"], 20_000)
	started, err := time.Parse(time.RFC3339, a["started-at"].(string))
	require.NoError(t, err)
	finished, err := time.Parse(time.RFC3339, a["finished-at"].(string))
	require.NoError(t, err)
	assert.InDelta(t, finished.Sub(started).Milliseconds(), a["duration-ms"], 1000)
	current, err := w.client.StateVersions.ReadCurrent(t.Context(), ws.ID)
	require.NoError(t, err)
	assert.Equal(t, []string{current.ID}, receipts[1].related(t, "state-version"))
	outputs := map[string]map[string]any{}
	for _, o := range a["outputs"].([]any) {
		o := o.(map[string]any)
		outputs[o["name"].(string)] = o
	}
	require.Len(t, outputs, 2)
	assert.Equal(t, []any{"v1", false, "string"}, []any{outputs["name"]["value"], outputs["name"]["sensitive"], outputs["name"]["type"]})
	assert.Equal(t, []any{nil, true, "array"}, []any{outputs["secret"]["value"], outputs["secret"]["sensitive"], outputs["secret"]["type"]})

	t.Log("a later state does not change it")
	lock := "l-1"
	_, err = w.client.Workspaces.Lock(t.Context(), ws.ID, tfe.WorkspaceLockOptions{})
	require.NoError(t, err)
	data := stateFile(2)
	_, err = w.client.StateVersions.Upload(t.Context(), ws.ID, tfe.StateVersionUploadOptions{
		StateVersionCreateOptions: tfe.StateVersionCreateOptions{Lineage: &lock, MD5: md5Of(data), Serial: number(2)}, RawState: data,
	})
	require.NoError(t, err)
	_, err = w.client.Workspaces.Unlock(t.Context(), ws.ID)
	require.NoError(t, err)
	assert.Equal(t, receipts, w.all(run, "receipts"))

	t.Log("an apply whose runner never said how it ended")
	other := w.workspace("other")
	run = w.queue(other, tfe.RunCreateOptions{})
	w.plan(w.accept(group), "")
	s = w.start(group, run)
	w.publish(s, other)
	w.exec("update attempts set heartbeat_at = clock_timestamp() - interval '1 hour' where id = @id", postgres.Args{"id": s.id})
	require.NoError(t, w.deps.Runs.ReapSilent(t.Context()))
	receipts = w.all(run, "receipts")
	require.Len(t, receipts, 2)
	a = receipts[1].Attributes
	assert.Equal(t, []any{"uncertain", "runner_lost", nil, nil}, []any{a["result"], a["reason"], a["exit-code"], a["resource-additions"]})
	current, err = w.client.StateVersions.ReadCurrent(t.Context(), other.ID)
	require.NoError(t, err)
	assert.Equal(t, []string{current.ID}, receipts[1].related(t, "state-version"), "what it left")
}

// TestTheEvidenceOfAnEndedRunStays holds RE-07: no request removes it, and neither does
// the deletion of its workspace.
func TestTheEvidenceOfAnEndedRunStays(t *testing.T) {
	w := newWorld(t)
	group, ws := w.runner(), w.workspace("app")
	run := w.queue(ws, tfe.RunCreateOptions{})
	w.plan(w.accept(group), "")
	require.NoError(t, w.client.Runs.Discard(t.Context(), run.ID, tfe.RunDiscardOptions{}))
	before := map[string][]shownResource{}
	for _, list := range []string{"stages", "attempts", "receipts", "run-events"} {
		before[list] = w.all(run, list)
		require.NotEmpty(t, before[list])
	}
	for _, path := range []string{"", "/review", "/stages", "/attempts", "/receipts", "/run-events"} {
		for _, method := range []string{"DELETE", "PATCH", "PUT", "POST"} {
			response, _ := w.send(method, "/api/v2/runs/"+run.ID+path, w.ann, "{}")
			assert.Contains(t, []int{404, 405}, response.StatusCode, "%s %s", method, path)
		}
	}
	require.NoError(t, w.client.Workspaces.DeleteByID(t.Context(), ws.ID))
	for list, want := range before {
		assert.Equal(t, want, w.all(run, list), list)
	}
	assert.Equal(t, "rejected", w.review(run)["durable-status"])
}

// TestListsBelowARunComeInPages like every other list.
func TestListsBelowARunComeInPages(t *testing.T) {
	w := newWorld(t)
	group, ws := w.runner(), w.workspace("app")
	run := w.queue(ws, tfe.RunCreateOptions{})
	w.plan(w.accept(group), "")
	w.applied(w.start(group, run), ws)
	for list, total := range map[string]int{"stages": 4, "attempts": 2, "receipts": 2} {
		whole := w.all(run, list)
		require.Len(t, whole, total)
		for i := range total {
			assert.Equal(t, whole[i:i+1], w.all(run, list+"?page%5Bsize%5D=1&page%5Bnumber%5D="+string(rune('1'+i))), list)
		}
		response, text := w.send("GET", "/api/v2/runs/"+run.ID+"/"+list+"?page%5Bsize%5D=1", w.bob, "")
		assert.Equal(t, 200, response.StatusCode)
		assert.Contains(t, text, `"total-count":`+string(rune('0'+total)))
		response, _ = w.send("GET", "/api/v2/runs/"+run.ID+"/"+list+"?page%5Bsize%5D=x", w.bob, "")
		assert.Equal(t, 400, response.StatusCode)
	}
}
