package tfeapi

import (
	"encoding/json"
	"maps"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-tfe"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/artifacts"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/dispatch"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/runs"
)

// shownResource is one resource of an answer, read without knowing its kind.
type shownResource struct {
	ID            string                     `json:"id"`
	Type          string                     `json:"type"`
	Attributes    map[string]any             `json:"attributes"`
	Relationships map[string]json.RawMessage `json:"relationships"`
}

// related gives the ids that a relation names.
func (r shownResource) related(t *testing.T, name string) (list []string) {
	t.Helper()
	var many struct {
		Data []struct{ ID string } `json:"data"`
	}
	var one struct {
		Data *struct{ ID string } `json:"data"`
	}
	require.Contains(t, r.Relationships, name)
	if json.Unmarshal(r.Relationships[name], &many) != nil {
		require.NoError(t, json.Unmarshal(r.Relationships[name], &one))
		if one.Data != nil {
			return []string{one.Data.ID}
		}
		return nil
	}
	for _, m := range many.Data {
		list = append(list, m.ID)
	}
	return list
}

// show reads one resource below /api/v2/ as somebody.
func (w *world) show(token, path string) shownResource {
	w.Helper()
	response, text := w.send("GET", "/api/v2/"+path, token, "")
	require.Equal(w, 200, response.StatusCode, text)
	var document struct{ Data shownResource }
	require.NoError(w, json.Unmarshal([]byte(text), &document))
	return document.Data
}

func (w *world) review(run *tfe.Run) map[string]any {
	w.Helper()
	return w.show(w.bob, "runs/"+run.ID+"/review").Attributes
}

// all reads a list below a run.
func (w *world) all(run *tfe.Run, list string) []shownResource {
	w.Helper()
	response, text := w.send("GET", "/api/v2/runs/"+run.ID+"/"+list, w.bob, "")
	require.Equal(w, 200, response.StatusCode, text)
	var document struct{ Data []shownResource }
	require.NoError(w, json.Unmarshal([]byte(text), &document))
	return document.Data
}

// exec changes the database behind the server's back, past its triggers and references.
func (w *world) exec(sql string, args postgres.Args) {
	w.Helper()
	require.NoError(w, postgres.InTx(w.Context(), w.db, "test", func(tx postgres.Tx) error {
		if _, err := postgres.Exec(w.Context(), tx, "set local session_replication_role = replica", postgres.Args{}); err != nil {
			return err
		}
		_, err := postgres.Exec(w.Context(), tx, sql, args)
		return err
	}))
}

func (w *world) done(s session, d runs.Done) {
	w.Helper()
	require.NoError(w, w.deps.Runs.Done(w.Context(), s.id, d))
}

// planWithout hands over a finished plan without changes.
func (w *world) planWithout(s session) {
	w.Helper()
	w.handOver(s, artifacts.KindPlan, "plan")
	w.handOver(s, artifacts.KindPlanJSON, `{"format_version":"1.2"}`)
	w.done(s, runs.Done{Outcome: runs.OutcomeFinished, TofuVersion: "1.12.6", TofuDigest: "digest", Plan: &runs.PlanSummary{}})
}

// start brings a planned run to applying.
func (w *world) start(group accounts.RunnerGroup, run *tfe.Run) session {
	w.Helper()
	require.NoError(w, w.client.Runs.Apply(w.Context(), run.ID, tfe.RunApplyOptions{}))
	s := w.accept(group)
	_, err := w.deps.Runs.StartApply(w.Context(), s.actor, s.ManifestDigest, "sandbox", "digest")
	require.NoError(w, err)
	s.actor.Applying = true // as its token says from here on
	return s
}

// applied publishes a state and ends the apply well.
func (w *world) applied(s session, ws *tfe.Workspace) {
	w.Helper()
	w.publish(s, ws)
	proved, err := w.deps.Runs.ConfirmState(w.Context(), s.actor, "sandbox")
	require.NoError(w, err)
	w.done(s, runs.Done{Outcome: runs.OutcomeFinished, TofuStarted: true, Confirmed: proved.ID})
}

// TestARunKeepsWhatItWasMadeBy holds RL-03, RL-04 and RL-05: a later build of the server
// does not change what a run says of itself.
func TestARunKeepsWhatItWasMadeBy(t *testing.T) {
	w := newWorld(t)
	w.runner()
	ws := w.workspace("app")
	run := w.queue(ws, tfe.RunCreateOptions{})
	seen := w.review(run)
	assert.Equal(t, run.ID, seen["workflow-instance-id"])
	assert.Equal(t, runs.WorkflowDefinition(), seen["workflow-definition"])
	assert.Regexp(t, `^run-lifecycle@[0-9a-f]{12}$`, seen["workflow-definition"])
	assert.Equal(t, "aaa", seen["application-build-sha"])
	origin := []string{"workflow-instance-id", "workflow-definition", "application-build-sha"}
	for _, name := range origin {
		assert.Equal(t, seen[name], w.show(w.bob, "runs/"+run.ID).Attributes[name], "on the run, too: %s", name)
	}

	t.Log("the server is replaced by another build")
	w.deps.Runs = w.engine("bbb")
	next := httptest.NewServer(New(w.deps))
	defer next.Close()
	w.url = next.URL
	w.exec("update runs set workflow_definition = 'run-lifecycle@of-before' where id = @id", postgres.Args{"id": run.ID})
	again := w.review(run)
	assert.Equal(t, "aaa", again["application-build-sha"])
	assert.Equal(t, "run-lifecycle@of-before", again["workflow-definition"])
	w.client = w.as(w.ann)
	assert.Equal(t, "bbb", w.review(w.queue(ws, tfe.RunCreateOptions{}))["application-build-sha"])
}

func statuses(attributes map[string]any) (list []string) {
	history, _ := attributes["durable-history"].([]any)
	for _, entry := range history {
		list = append(list, entry.(map[string]any)["status"].(string))
	}
	return list
}

// TestTheDurableHistory holds RL-06: every status in order, the first included.
func TestTheDurableHistory(t *testing.T) {
	w := newWorld(t)
	group, ws := w.runner(), w.workspace("app")
	run := w.queue(ws, tfe.RunCreateOptions{})
	w.plan(w.accept(group), "")
	w.applied(w.start(group, run), ws)
	path := []string{"dispatch_pending", "queued", "planning", "plan_complete", "policy_evaluating", "policy_passed", "awaiting_approval", "applying", "succeeded"}
	assert.Equal(t, path, statuses(w.review(run)))
	assert.Equal(t, path, statuses(w.show(w.bob, "runs/"+run.ID).Attributes))
}

// TestTheLabelSaysWhetherAnythingWasApplied holds RL-20, in the words of UI-05.
func TestTheLabelSaysWhetherAnythingWasApplied(t *testing.T) {
	w := newWorld(t)
	group, ws, yes := w.runner(), w.workspace("app"), true
	label := func(run *tfe.Run, want string) {
		t.Helper()
		assert.Equal(t, want, w.review(run)["display-label"])
		assert.Equal(t, want, w.show(w.bob, "runs/"+run.ID).Attributes["display-label"])
	}
	only := w.queue(ws, tfe.RunCreateOptions{PlanOnly: &yes})
	w.planOnly(w.accept(group))
	label(only, "Plan completed")

	cv, err := w.client.ConfigurationVersions.Create(t.Context(), ws.ID, tfe.ConfigurationVersionCreateOptions{Speculative: &yes})
	require.NoError(t, err)
	require.NoError(t, w.client.ConfigurationVersions.UploadTarGzip(t.Context(), cv.UploadURL, strings.NewReader(string(configuration(t)))))
	speculative, err := w.client.Runs.Create(t.Context(), tfe.RunCreateOptions{Workspace: ws, ConfigurationVersion: cv})
	require.NoError(t, err)
	w.planOnly(w.accept(group))
	label(speculative, "Plan completed")

	unchanged := w.queue(ws, tfe.RunCreateOptions{})
	w.planWithout(w.accept(group))
	label(unchanged, "Plan completed")

	applied := w.queue(ws, tfe.RunCreateOptions{})
	label(applied, "Waiting to plan")
	w.plan(w.accept(group), "")
	label(applied, "Needs a decision")
	s := w.start(group, applied)
	label(applied, "Applying")
	w.applied(s, ws)
	label(applied, "Applied")
	for _, status := range runs.Statuses {
		assert.NotEmpty(t, runs.Run{DurableStatus: status}.Label(), status)
	}
	recovered := time.Now()
	assert.Equal(t, "Recovered", runs.Run{DurableStatus: runs.NeedsRecovery, RecoveredAt: &recovered}.Label())
}

// TestOperations: what a run is for can be told from what it was asked for.
func TestOperations(t *testing.T) {
	w := newWorld(t)
	w.runner()
	ws, yes := w.workspace("app"), true
	for want, options := range map[string]tfe.RunCreateOptions{
		"apply": {}, "destroy": {IsDestroy: &yes}, "plan": {SavePlan: &yes}, "plan-only": {PlanOnly: &yes},
	} {
		run := w.queue(ws, options)
		assert.Equal(t, want, w.review(run)["operation"])
		assert.Equal(t, want, w.show(w.bob, "runs/"+run.ID).Attributes["operation"])
	}
	cv, err := w.client.ConfigurationVersions.Create(t.Context(), ws.ID, tfe.ConfigurationVersionCreateOptions{Speculative: &yes})
	require.NoError(t, err)
	require.NoError(t, w.client.ConfigurationVersions.UploadTarGzip(t.Context(), cv.UploadURL, strings.NewReader(string(configuration(t)))))
	run, err := w.client.Runs.Create(t.Context(), tfe.RunCreateOptions{Workspace: ws, ConfigurationVersion: cv})
	require.NoError(t, err)
	assert.Equal(t, "preview", w.review(run)["operation"])
}

// intends demands the projections of a run's status (checklist §3.5) on run and review.
func (w *world) intends(run *tfe.Run, intent, deployment string) {
	w.Helper()
	seen := w.review(run)
	assert.Equal(w, []any{intent, deployment}, []any{seen["intent-status"], seen["deployment-status"]}, seen["durable-status"])
	assert.Equal(w, intent, w.show(w.bob, "runs/"+run.ID).Attributes["intent-status"])
}

// TestTheIntentStatusOfARunThatIsApplied holds RL-40, OP-10 and OP-11.
func TestTheIntentStatusOfARunThatIsApplied(t *testing.T) {
	w := newWorld(t)
	ctx, group, ws := t.Context(), w.runner(), w.workspace("app")
	run := w.queue(ws, tfe.RunCreateOptions{})
	w.intends(run, "queued", "queued")
	s := w.accept(group)
	w.intends(run, "running", "planning")
	w.plan(s, "")
	w.intends(run, "pending_approval", "confirmation")
	require.NoError(t, w.client.Runs.Apply(ctx, run.ID, tfe.RunApplyOptions{}))
	w.intends(run, "queued", "confirmation") // approved: it waits for a runner
	s = w.accept(group)
	w.intends(run, "queued", "confirmation") // and for its authority
	_, err := w.deps.Runs.StartApply(ctx, s.actor, s.ManifestDigest, "sandbox", "digest")
	require.NoError(t, err)
	s.actor.Applying = true
	w.intends(run, "running", "applying")
	w.applied(s, ws)
	w.intends(run, "succeeded", "finished")
}

// TestTheIntentStatusOfTheOtherEnds holds OP-12, RL-41 and RL-43.
func TestTheIntentStatusOfTheOtherEnds(t *testing.T) {
	w := newWorld(t)
	ctx, group := t.Context(), w.runner()
	ended := func(name string, d runs.Done, intent, deployment string) *tfe.Run {
		t.Helper()
		run := w.queue(w.workspace(name), tfe.RunCreateOptions{})
		w.done(w.accept(group), d)
		w.intends(run, intent, deployment)
		return run
	}
	ended("failed", runs.Done{Outcome: runs.OutcomeErrored, ExitCode: 1}, "failed", "failed")
	late := ended("late", runs.Done{Outcome: runs.OutcomeTimedOut}, "timed_out", "failed")
	assert.Equal(t, "RUN_TTL_EXCEEDED", w.review(late)["reason"])

	run := w.queue(w.workspace("stopped"), tfe.RunCreateOptions{})
	s := w.accept(group)
	require.NoError(t, w.client.Runs.Cancel(ctx, run.ID, tfe.RunCancelOptions{}))
	w.intends(run, "canceling", "planning")
	w.done(s, runs.Done{Outcome: runs.OutcomeCanceled})
	w.intends(run, "canceled", "canceled")

	run = w.queue(w.workspace("never-taken"), tfe.RunCreateOptions{})
	require.NoError(t, w.client.Runs.Cancel(ctx, run.ID, tfe.RunCancelOptions{}))
	w.intends(run, "canceled", "canceled")

	run = w.queue(w.workspace("discarded"), tfe.RunCreateOptions{})
	w.plan(w.accept(group), "")
	require.NoError(t, w.client.Runs.Discard(ctx, run.ID, tfe.RunDiscardOptions{}))
	w.intends(run, "failed", "failed")

	run = w.queue(w.workspace("expired"), tfe.RunCreateOptions{})
	w.plan(w.accept(group), "")
	w.exec("update runs set approval_expires_at = clock_timestamp() where id = @id", postgres.Args{"id": run.ID})
	require.NoError(t, runs.NewSweeper(w.deps.Runs).Sweep(ctx))
	w.intends(run, "canceled", "canceled")

	run = w.queue(w.workspace("late-apply"), tfe.RunCreateOptions{})
	w.plan(w.accept(group), "")
	s = w.start(group, run)
	w.done(s, runs.Done{Outcome: runs.OutcomeTimedOut, TofuStarted: true})
	w.intends(run, "timed_out", "failed")

	run = w.queue(w.workspace("interrupted"), tfe.RunCreateOptions{})
	w.plan(w.accept(group), "")
	s = w.start(group, run)
	require.NoError(t, w.client.Runs.Cancel(ctx, run.ID, tfe.RunCancelOptions{}))
	w.intends(run, "canceling", "applying")
	w.done(s, runs.Done{Outcome: runs.OutcomeCanceled, TofuStarted: true})
	w.intends(run, "canceled", "canceled")
}

// names lists the members of a value, those of nested ones behind a dot.
func names(prefix string, value any) (list []string) {
	switch v := value.(type) {
	case map[string]any:
		for name, member := range v {
			list = append(list, prefix+name)
			list = append(list, names(prefix+name+".", member)...)
		}
	case []any:
		for _, item := range v {
			list = append(list, names(prefix, item)...)
		}
	}
	return list
}

// TestTheReviewIsAnAllowList holds PV-13 and PV-14: this is all that it shows, and none
// of it leads to stored bytes or lets anybody upload.
func TestTheReviewIsAnAllowList(t *testing.T) {
	w := newWorld(t)
	group, ws := w.runner(), w.workspace("app")
	run := w.queue(ws, tfe.RunCreateOptions{Variables: []*tfe.RunVariable{{Key: "password", Value: `"S3CRET42"`}}})
	planning := w.accept(group)
	w.plan(planning, "S3CRET42\n")
	applying := w.start(group, run)
	w.publish(applying, ws)
	w.done(applying, runs.Done{Outcome: runs.OutcomeUnknown, TofuStarted: true})

	response, text := w.send("GET", "/api/v2/runs/"+run.ID+"/review", w.ann, "")
	require.Equal(t, 200, response.StatusCode)
	var document map[string]any
	require.NoError(t, json.Unmarshal([]byte(text), &document))
	attributes := document["data"].(map[string]any)["attributes"].(map[string]any)
	shown := names("", attributes)
	slices.Sort(shown)
	assert.Equal(t, strings.Fields(`
		application-build-sha apply apply.closed-at apply.id apply.queued-at apply.resulting-state apply.resulting-state.status apply.started-at apply.status
		approval-expires-at approval-requirement approval-requirement.binding approval-requirement.binding-digest approval-requirement.binding.configuration-digest approval-requirement.binding.dependency-bundle-digest
		approval-requirement.binding.plan-digest approval-requirement.binding.policy-result-digest approval-requirement.binding.predecessor-state-checksum approval-requirement.binding.predecessor-state-version-id
		approval-requirement.environment-class approval-requirement.exclude-requester approval-requirement.given approval-requirement.missing approval-requirement.mode
		approval-requirement.required-approvals approval-requirement.reviewer-teams approval-waits
		approvals approvals.binding-digest approvals.comment approvals.decided-at approvals.decision approvals.id approvals.requester-id approvals.reviewer-id approvals.source
		cancel-requested-at created-at deployment-status display-label durable-history durable-history.at durable-history.reason durable-history.status
		durable-reason durable-status fence fence.epoch fence.released finished-at intent-status operation
		plan plan.finished-at plan.has-changes plan.id plan.resource-additions plan.resource-changes plan.resource-destructions plan.resource-imports plan.status plan.tofu-digest plan.tofu-version
		policy-check policy-check.completed-at policy-check.durable-status policy-check.id policy-check.input-digest policy-check.result-digest
		reason recovery recovery.claimed-upload recovery.current-state recovery.current-state.checksum recovery.current-state.created-at recovery.current-state.id recovery.current-state.serial
		recovery.emergency-state recovery.held-since recovery.lease-expires-at recovery.lease-remaining-seconds recovery.open-uploads recovery.pre-apply-state recovery.publications recovery.recovered-at recovery.required
		source-provenance status status-message terraform-version waiting-reason workflow-definition workflow-instance-id`), slices.Compact(shown))
	assert.Contains(t, attributes, "source-provenance")
	assert.Nil(t, attributes["source-provenance"])

	var objects []string
	require.NoError(t, postgres.InTx(t.Context(), w.db, "test", func(tx postgres.Tx) (err error) {
		objects, err = postgres.Values[string](t.Context(), tx, "select id from objects", postgres.Args{})
		return err
	}))
	assert.NotEmpty(t, objects)
	for _, list := range []string{"review", "stages", "attempts", "receipts"} {
		_, text := w.send("GET", "/api/v2/runs/"+run.ID+"/"+list, w.ann, "")
		text = strings.ReplaceAll(text, w.url+"/api/v2/runs/"+run.ID+"/"+list, "") // the pages of the list
		for _, hidden := range append(objects, "S3CRET42", "upload-url", "http", "hfa_", "manifest\":", planning.Token, applying.Token, w.ann) {
			assert.NotContains(t, text, hidden, list)
		}
	}
}

// TestWhoMayReview holds PV-15 and G-31: whoever may see the run, with a token; the
// recovery is for those who may recover it.
func TestWhoMayReview(t *testing.T) {
	w := newWorld(t)
	group, ws := w.runner(), w.workspace("app")
	run := w.queue(ws, tfe.RunCreateOptions{})
	planning := w.accept(group)
	_, stranger := w.user(t.Context(), "eve")
	for _, list := range []string{"review", "stages", "attempts", "receipts"} {
		path := "/api/v2/runs/" + run.ID + "/" + list
		for token, want := range map[string]int{"": 401, "wrong": 401, stranger: 404, planning.Token: 403, w.bob: 200, w.ann: 200} {
			response, text := w.send("GET", path, token, "")
			assert.Equal(t, want, response.StatusCode, "%s: %s", path, text)
		}
		response, _ := w.send("GET", "/api/v2/runs/run-1111111111111111/"+list, w.ann, "")
		assert.Equal(t, 404, response.StatusCode)
	}

	path := "runs/" + run.ID + "/review"
	assert.NotContains(t, w.show(w.bob, path).Attributes, "recovery")
	assert.Equal(t, false, w.show(w.ann, path).Attributes["recovery"].(map[string]any)["required"])
	w.plan(planning, "")
	s := w.start(group, run)
	w.publish(s, ws)
	w.done(s, runs.Done{Outcome: runs.OutcomeUnknown, TofuStarted: true})
	assert.NotContains(t, w.show(w.bob, path).Attributes, "recovery")
	held := w.show(w.ann, path).Attributes["recovery"].(map[string]any)
	assert.Equal(t, []any{true, nil, 1.0, 0.0, nil}, []any{held["required"], held["pre-apply-state"], held["publications"], held["open-uploads"], held["recovered-at"]})
	current, err := w.client.StateVersions.ReadCurrent(t.Context(), ws.ID)
	require.NoError(t, err)
	assert.Equal(t, current.ID, held["current-state"].(map[string]any)["id"])
	assert.NotEmpty(t, held["held-since"])

	_, err = w.deps.Recovery.Release(t.Context(), authz.System(), ids.Run(run.ID), "looked at it")
	require.NoError(t, err)
	held = w.show(w.ann, path).Attributes["recovery"].(map[string]any)
	assert.Equal(t, false, held["required"])
	assert.NotEmpty(t, held["recovered-at"])
}

// TestTheWaitingReason says what a run waits for; of a workspace that waits for a
// recovery it names the run (G-07).
func TestTheWaitingReason(t *testing.T) {
	w := newWorld(t)
	ctx, group, ws := t.Context(), w.runner(), w.workspace("app")
	waits := func(run *tfe.Run, want any) {
		t.Helper()
		assert.Equal(t, want, w.review(run)["waiting-reason"])
		assert.Equal(t, want, w.show(w.bob, "runs/"+run.ID).Attributes["waiting-reason"])
	}
	_, err := w.client.Workspaces.Lock(ctx, ws.ID, tfe.WorkspaceLockOptions{})
	require.NoError(t, err)
	first := w.queue(ws, tfe.RunCreateOptions{})
	waits(first, "workspace locked by user ann")
	_, err = w.client.Workspaces.Unlock(ctx, ws.ID)
	require.NoError(t, err)
	waits(first, "waiting for a runner to plan")
	second := w.queue(ws, tfe.RunCreateOptions{})
	waits(second, "workspace busy with "+first.ID)

	_, attempt, found, err := w.deps.Runs.Poll(ctx, group, dispatch.RunnerHello{Name: "r", TofuVersions: []string{"1.12.6"}})
	require.NoError(t, err)
	require.True(t, found && string(attempt.RunID) == first.ID)
	waits(first, "a runner was offered the plan")
	w.exec("update attempts set status = 'pending', runner_id = null, group_id = null where id = @id", postgres.Args{"id": attempt.ID})
	s := w.accept(group)
	waits(first, nil)
	w.plan(s, "")
	waits(first, "waiting for a decision about the plan")
	require.NoError(t, w.client.Runs.Apply(ctx, first.ID, tfe.RunApplyOptions{}))
	waits(first, "waiting for a runner to apply")
	s = w.accept(group)
	_, err = w.deps.Runs.StartApply(ctx, s.actor, s.ManifestDigest, "sandbox", "digest")
	require.NoError(t, err)
	waits(first, nil)
	w.done(s, runs.Done{Outcome: runs.OutcomeUnknown, TofuStarted: true})
	waits(first, nil)
	waits(second, "workspace held by "+first.ID+" pending recovery")
	assert.Equal(t, "pending", w.show(w.bob, "runs/"+second.ID).Attributes["status"])
}

// TestTheReviewShowsDecisionsAndThePolicyCheck: who decided, and over which plan.
func TestTheReviewShowsDecisionsAndThePolicyCheck(t *testing.T) {
	w := newWorld(t)
	group, ws, comment := w.runner(), w.workspace("app"), "looks good"
	run := w.queue(ws, tfe.RunCreateOptions{})
	seen := w.review(run)
	assert.Nil(t, seen["policy-check"])
	assert.Empty(t, seen["approvals"])
	assert.Equal(t, map[string]any{"epoch": 1.0, "released": false}, seen["fence"])
	w.plan(w.accept(group), "")
	require.NoError(t, w.client.Runs.Apply(t.Context(), run.ID, tfe.RunApplyOptions{Comment: &comment}))
	seen = w.review(run)
	check := seen["policy-check"].(map[string]any)
	assert.Equal(t, []any{"polchk-" + strings.TrimPrefix(run.ID, "run-"), "passed"}, []any{check["id"], check["durable-status"]})
	assert.Len(t, check["input-digest"], 64)
	require.Len(t, seen["approvals"], 1)
	approval := seen["approvals"].([]any)[0].(map[string]any)
	assert.Equal(t, []any{"approved", "native", comment, run.CreatedBy.ID, run.CreatedBy.ID},
		[]any{approval["decision"], approval["source"], approval["comment"], approval["reviewer-id"], approval["requester-id"]})
	plan := seen["plan"].(map[string]any)
	assert.Equal(t, []any{"finished", true, 1.0, 0.0, "digest"}, []any{plan["status"], plan["has-changes"], plan["resource-additions"], plan["resource-changes"], plan["tofu-digest"]})
	assert.Contains(t, slices.Collect(maps.Keys(seen)), "cancel-requested-at")
}
