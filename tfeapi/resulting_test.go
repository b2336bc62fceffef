package tfeapi

import (
	"testing"

	"github.com/hashicorp/go-tfe"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/runs"
)

// What became of the state is told by following the run's pointer, whatever the apply says of
// itself (ST-10 to ST-14).

// resulting is a world with a run whose plan waits for its decision.
type resulting struct {
	*world
	group accounts.RunnerGroup
	ws    *tfe.Workspace
	run   *tfe.Run
}

func newResulting(t *testing.T) *resulting {
	w := newWorld(t)
	r := &resulting{world: w, group: w.runner(), ws: w.workspace("app")}
	r.run = w.queue(r.ws, tfe.RunCreateOptions{})
	w.plan(w.accept(r.group), "")
	return r
}

// record is the apply in the review, and what it says of the state.
func (r *resulting) record() (apply, state map[string]any) {
	r.Helper()
	apply = r.review(r.run)["apply"].(map[string]any)
	return apply, apply["resulting-state"].(map[string]any)
}

// apply carries the run out, and gives the state version that it made.
func (r *resulting) apply() *tfe.StateVersion {
	r.Helper()
	r.applied(r.start(r.group, r.run), r.ws)
	current, err := r.client.StateVersions.ReadCurrent(r.Context(), r.ws.ID)
	require.NoError(r, err)
	return current
}

// ST-10
func TestAStateThatIsRecordedIsToldInFull(t *testing.T) {
	r := newResulting(t)
	current := r.apply()
	version, err := r.deps.State.Version(t.Context(), authz.System(), ids.StateVersion(current.ID))
	require.NoError(t, err)
	_, state := r.record()
	assert.Equal(t, map[string]any{
		"status": "recorded", "id": current.ID, "checksum": version.SHA256, "serial": float64(current.Serial), "created-at": rfc3339(current.CreatedAt),
	}, state)
}

// ST-11
func TestWithoutAPointerNoStateIsRecorded(t *testing.T) {
	r := newResulting(t)
	_, state := r.record()
	assert.Equal(t, map[string]any{"status": "not_recorded"}, state, "before the apply")
	r.done(r.start(r.group, r.run), runs.Done{Outcome: runs.OutcomeErrored, ExitCode: 1, TofuStarted: true})
	_, state = r.record()
	assert.Equal(t, map[string]any{"status": "not_recorded"}, state, "it failed and published nothing")
}

// ST-12
func TestAPointerThatLeadsNowhereIsUnavailable(t *testing.T) {
	r := newResulting(t)
	current := r.apply()
	r.exec("update runs set resulting_version_id = 'sv-1111111111111111' where id = @id", postgres.Args{"id": r.run.ID})
	_, state := r.record()
	assert.Equal(t, map[string]any{"status": "unavailable"}, state)
	r.exec("update runs set resulting_version_id = @version where id = @id", postgres.Args{"id": r.run.ID, "version": current.ID})
	r.exec("update state_versions set status = 'discarded' where id = @version", postgres.Args{"version": current.ID})
	_, state = r.record()
	assert.Equal(t, map[string]any{"status": "unavailable"}, state, "it leads to what was never finished")
}

// ST-13
func TestAFailedApplyThatPublishedClaimsNoState(t *testing.T) {
	r := newResulting(t)
	s := r.start(r.group, r.run)
	r.publish(s, r.ws)
	r.done(s, runs.Done{Outcome: runs.OutcomeErrored, ExitCode: 1, TofuStarted: true})
	apply, state := r.record()
	assert.Equal(t, map[string]any{"status": "not_recorded"}, state, "no id, no checksum, no word of success")
	assert.Equal(t, "errored", apply["status"])
}

// ST-14
func TestTheApplyIsToldApartFromItsState(t *testing.T) {
	r := newResulting(t)
	apply, _ := r.record()
	assert.Equal(t, []any{r.run.Apply.ID, "pending", nil}, []any{apply["id"], apply["status"], apply["closed-at"]})
	r.apply()
	r.exec("update runs set resulting_version_id = 'sv-1111111111111111' where id = @id", postgres.Args{"id": r.run.ID})
	apply, state := r.record()
	assert.Equal(t, "unavailable", state["status"])
	assert.Equal(t, "finished", apply["status"], "the apply is not called into question by that")
	assert.NotEmpty(t, apply["closed-at"])
}

// PL-09
func TestADenialSaysWhenToTryAgain(t *testing.T) {
	w := newWorld(t)
	root, ws := w.siteAdmin(), w.workspace("app")
	w.runner()
	create := `{"data":{"type":"runs","attributes":{},"relationships":{"workspace":{"data":{"type":"workspaces","id":"` + ws.ID + `"}}}}}`
	response, body := w.send("PUT", "/api/v2/admin/launch-controls", root, denyRuns)
	require.Equal(t, 200, response.StatusCode, body)
	response, _ = w.send("POST", "/api/v2/runs", w.ann, create)
	assert.Equal(t, 503, response.StatusCode)
	assert.Equal(t, []string{"60"}, response.Header.Values("Retry-After"))
	response, _ = w.send("GET", "/api/v2/workspaces/"+ws.ID, w.ann, "")
	assert.Empty(t, response.Header.Values("Retry-After"), "and nothing else does")
}

// RL-03
func TestTheWorkflowInstanceIsTheRun(t *testing.T) {
	w := newWorld(t)
	w.runner()
	run := w.queue(w.workspace("app"), tfe.RunCreateOptions{})
	assert.Regexp(t, "^run-[1-9A-HJ-NP-Za-km-z]{16}$", run.ID)
	assert.Equal(t, run.ID, w.review(run)["workflow-instance-id"])
	assert.Equal(t, run.ID, w.show(w.bob, "runs/"+run.ID).Attributes["workflow-instance-id"])
}

// OP-10
func TestAnApprovedRunIsQueuedForItsApply(t *testing.T) {
	r := newResulting(t)
	r.intends(r.run, "pending_approval", "confirmation")
	require.NoError(t, r.client.Runs.Apply(t.Context(), r.run.ID, tfe.RunApplyOptions{}))
	r.intends(r.run, "queued", "confirmation")
}

// OP-11
func TestAQueuedRunIsRunningOnceARunnerHasIt(t *testing.T) {
	w := newWorld(t)
	group := w.runner()
	run := w.queue(w.workspace("app"), tfe.RunCreateOptions{})
	w.intends(run, "queued", "queued")
	s := w.accept(group)
	w.intends(run, "running", "planning")
	w.plan(s, "")
	s = w.start(group, run)
	w.intends(run, "running", "applying")
}
