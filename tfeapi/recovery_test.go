package tfeapi

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-tfe"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/runs"
)

const ordinary = `"resolution":"current_state_verified","reason":"looked at it","confirm-revoke-authority":true,"confirm-advance-fence":true`

// recover sends the request, and demands a status and, of a refusal, a code.
func (w *world) recover(token, run, attributes string, status int, code string) (data shownResource) {
	w.Helper()
	response, text := w.send("POST", "/api/v2/runs/"+run+"/actions/recover", token, `{"data":{"attributes":{`+attributes+`}}}`)
	require.Equal(w, status, response.StatusCode, text)
	if code != "" {
		assert.Contains(w, text, `"code":"`+code+`"`)
		return data
	}
	var document struct{ Data shownResource }
	require.NoError(w, json.Unmarshal([]byte(text), &document))
	return document.Data
}

// steppedUp is a world in which ann has just stepped up.
func steppedUp(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	secret, _ := w.enrol("ann", w.ann)
	w.stepUp(secret, w.ann)
	return w
}

func TestARecoveryOnTheWire(t *testing.T) {
	w := steppedUp(t)
	ctx, group, ws := t.Context(), w.runner(), w.workspace("app")
	run := w.queue(ws, tfe.RunCreateOptions{})
	w.plan(w.accept(group), "")
	s := w.start(group, run)
	w.publish(s, ws)
	w.done(s, runs.Done{Outcome: runs.OutcomeErrored, ExitCode: 1, TofuStarted: true})
	held, err := w.client.Workspaces.Read(ctx, "acme", "app")
	require.NoError(t, err)
	require.True(t, held.Locked)

	_, stranger := w.user(ctx, "eve")
	for token, want := range map[string]int{"": 401, stranger: 404, w.bob: 403, w.ann: 200} {
		response, text := w.send("GET", "/api/v2/runs/"+run.ID+"/recovery", token, "")
		assert.Equal(t, want, response.StatusCode, text)
	}
	current, err := w.client.StateVersions.ReadCurrent(ctx, ws.ID)
	require.NoError(t, err)
	e := w.show(w.ann, "runs/"+run.ID+"/recovery").Attributes
	assert.Equal(t, []any{true, "apply_failed", nil, current.ID, true, nil, nil}, []any{e["required"], e["durable-status"], e["pre-apply-state-version-id"], e["current-state-version-id"], e["pointer-moved"], e["claimed-upload"], e["emergency-state"]})
	publication := e["publications"].([]any)[0].(map[string]any)
	assert.Equal(t, []any{current.ID, run.ID, string(s.id), "sandbox", nil, "run", run.ID, float64(s.actor.Epoch)},
		[]any{publication["id"], publication["run-id"], publication["attempt-id"], publication["sandbox-id"], publication["predecessor-id"], publication["locked-by-kind"], publication["locked-by-id"], publication["fence-epoch"]})
	writer := e["writer"].(map[string]any)
	assert.Equal(t, []any{true, "done-report", nil}, []any{writer["proven-stopped"], writer["how"], writer["cloud-credentials-end-at"]})
	assert.NotEmpty(t, writer["session-authority-ends-at"])
	possible := map[any]any{}
	for _, r := range e["resolutions"].([]any) {
		possible[r.(map[string]any)["resolution"]] = r.(map[string]any)["code"]
	}
	assert.Equal(t, map[any]any{"current_state_verified": "", "import_emergency_state": "predecessor_moved", "import_emergency_successor": "emergency_state_missing"}, possible)

	w.recover(w.bob, run.ID, ordinary, 403, "forbidden")
	w.recover(stranger, run.ID, ordinary, 404, "not_found")
	w.recover(w.ann, run.ID, strings.Replace(ordinary, "looked at it", " ", 1), 422, "reason_required")
	w.recover(w.ann, run.ID, strings.Replace(ordinary, `,"confirm-advance-fence":true`, "", 1), 422, "confirmation_required")
	w.recover(w.ann, run.ID, ordinary+`,"current-state-checksum":"0123"`, 409, "evidence_mismatch")
	w.recover(w.ann, run.ID, ordinary+`,"current-state-version-id":null`, 409, "evidence_mismatch")
	age := func(by string) {
		w.exec("update tokens set step_up_at = clock_timestamp() - @by::interval where step_up_at is not null", postgres.Args{"by": by})
	}
	age("901 seconds")
	w.recover(w.ann, run.ID, ordinary, 403, "step_up_required")
	age("800 seconds")
	op := w.recover(w.ann, run.ID, ordinary, 200, "")
	assert.Equal(t, []any{"committed", current.ID, float64(s.actor.Epoch + 1)}, []any{op.Attributes["status"], op.Attributes["target-state-version-id"], op.Attributes["fence-epoch"]})
	assert.Equal(t, op, w.recover(w.ann, run.ID, ordinary, 200, ""), "the repeat")
	free, err := w.client.Workspaces.Read(ctx, "acme", "app")
	require.NoError(t, err)
	assert.False(t, free.Locked)
	after := w.show(w.ann, "runs/"+run.ID+"/recovery").Attributes
	assert.Equal(t, false, after["required"])
	assert.Equal(t, op.ID, after["operation"].(map[string]any)["id"])
	assert.NotEmpty(t, w.show(w.bob, "runs/"+run.ID).Attributes["recovered-at"])
	w.recover(w.ann, run.ID, strings.Replace(ordinary, "looked", "looks", 1), 409, "not_held")
	again := w.queue(ws, tfe.RunCreateOptions{})
	assert.Equal(t, tfe.RunPlanQueued, again.Status, "the next action is a new plan")
}

func TestAnImportOnTheWire(t *testing.T) {
	w := steppedUp(t)
	group, ws := w.runner(), w.workspace("app")
	run := w.queue(ws, tfe.RunCreateOptions{})
	w.plan(w.accept(group), "")
	s := w.start(group, run)
	text := `{"version":4,"serial":2,"lineage":"l-1","outputs":{},"resources":[]}`
	sum := sha256.Sum256([]byte(text))
	digest := hex.EncodeToString(sum[:])
	response, body := w.send("GET", "/api/v2/runs/"+run.ID+"/emergency-state", w.ann, "")
	assert.Equal(t, 404, response.StatusCode, body)
	_, err := w.deps.Recovery.TakeEmergency(t.Context(), s.Emergency.Token, s.id, digest, strings.NewReader(text))
	require.NoError(t, err)
	w.done(s, runs.Done{Outcome: runs.OutcomeErrored, ExitCode: 1, TofuStarted: true, ErroredState: true})

	found := w.show(w.ann, "runs/"+run.ID+"/recovery").Attributes["emergency-state"].(map[string]any)
	assert.Equal(t, []any{digest, float64(len(text)), 2.0, 1.0, ""}, []any{found["digest"], found["size"], found["serial"], found["normalized-serial"], found["obstacle"]})
	response, body = w.send("GET", "/api/v2/runs/"+run.ID+"/emergency-state", w.ann, "")
	assert.Equal(t, []any{200, text, "application/octet-stream"}, []any{response.StatusCode, body, response.Header.Get("Content-Type")})
	response, _ = w.send("GET", "/api/v2/runs/"+run.ID+"/emergency-state", w.bob, "")
	assert.Equal(t, 403, response.StatusCode)

	imported := strings.Replace(ordinary, "current_state_verified", "import_emergency_state", 1)
	w.recover(w.ann, run.ID, imported+`,"emergency-state-digest":"0123"`, 409, "evidence_mismatch")
	w.recover(w.ann, run.ID, imported+`,"emergency-state-size":1`, 409, "evidence_mismatch")
	imported += fmt.Sprintf(`,"emergency-state-digest":%q,"emergency-state-size":%d`, digest, len(text))
	prepared := w.recover(w.ann, run.ID, imported+`,"prepare-only":true`, 200, "")
	assert.Equal(t, []any{"prepared", 900.0, nil}, []any{prepared.Attributes["status"], prepared.Attributes["lease-remaining-seconds"], prepared.Attributes["fence-epoch"]})
	shown := w.show(w.ann, "runs/"+run.ID+"/recovery").Attributes
	assert.Equal(t, prepared.Attributes["lease-expires-at"], shown["lease-expires-at"])
	assert.InDelta(t, 900.0, shown["lease-remaining-seconds"], 60)
	review := w.show(w.ann, "runs/"+run.ID+"/review").Attributes["recovery"].(map[string]any)
	assert.Equal(t, []any{prepared.Attributes["lease-expires-at"], digest}, []any{review["lease-expires-at"], review["emergency-state"].(map[string]any)["digest"]})
	op := w.recover(w.ann, run.ID, imported, 200, "")
	assert.Equal(t, prepared.ID, op.ID)
	current, err := w.client.StateVersions.ReadCurrent(t.Context(), ws.ID)
	require.NoError(t, err)
	assert.Equal(t, []any{op.Attributes["target-state-version-id"], int64(1)}, []any{current.ID, current.Serial})
}

func TestAClaimedUploadOnTheWire(t *testing.T) {
	w := steppedUp(t)
	group, ws := w.runner(), w.workspace("app")
	run := w.queue(ws, tfe.RunCreateOptions{})
	w.plan(w.accept(group), "")
	s := w.start(group, run)
	lineage, data := "l-1", stateFile(1)
	v, err := w.as(s.Token).StateVersions.Create(t.Context(), ws.ID, tfe.StateVersionCreateOptions{Lineage: &lineage, MD5: md5Of(data), Serial: number(1)})
	require.NoError(t, err)
	w.exec("update state_versions set raw_claimed_at = clock_timestamp() where id = @id", postgres.Args{"id": v.ID})
	w.done(s, runs.Done{Outcome: runs.OutcomeErrored, ExitCode: 1, TofuStarted: true})
	w.recover(w.ann, run.ID, ordinary, 409, "claimed_upload_unresolved")
	claimed := w.show(w.ann, "runs/"+run.ID+"/recovery").Attributes["claimed-upload"].(map[string]any)
	assert.Equal(t, v.ID, claimed["id"])
	assert.Equal(t, claimed, w.show(w.ann, "runs/"+run.ID+"/review").Attributes["recovery"].(map[string]any)["claimed-upload"], "the review exposes it, too")
	at, err := time.Parse(time.RFC3339Nano, claimed["claimed-at"].(string))
	require.NoError(t, err)

	override := func(id string, at time.Time) string {
		return fmt.Sprintf(`,"claimed-upload-override":{"state-upload-id":%q,"claimed-at":%q}`, id, at.Format(time.RFC3339Nano))
	}
	w.recover(w.ann, run.ID, ordinary+override(v.ID, at), 422, "confirmation_required")
	w.recover(w.ann, run.ID, ordinary+`,"acknowledge-state-loss":true`+override(v.ID, at.Add(time.Microsecond)), 409, "override_mismatch")
	w.recover(w.ann, run.ID, ordinary+`,"acknowledge-state-loss":true`+override("sv-1111111111111111", at), 409, "override_mismatch")
	w.recover(w.ann, run.ID, ordinary+`,"acknowledge-state-loss":true,"claimed-upload-override":"all"`, 400, "malformed")
	list := strings.Replace(strings.Replace(override(v.ID, at), ":{", ":[{", 1), "}", "}]", 1)
	op := w.recover(w.ann, run.ID, ordinary+`,"acknowledge-state-loss":true`+list, 200, "")
	assert.Equal(t, v.ID, op.Attributes["superseded-uploads"].([]any)[0].(map[string]any)["state-upload-id"])
	response, text := w.send("PUT", v.UploadURL, "", string(data))
	assert.Equal(t, 409, response.StatusCode, text)
}

// A lost runner proves nothing: the operator confirms that the writer has stopped.
func TestAWriterThatIsNotProvenOnTheWire(t *testing.T) {
	w := steppedUp(t)
	group, ws := w.runner(), w.workspace("app")
	run := w.queue(ws, tfe.RunCreateOptions{})
	w.plan(w.accept(group), "")
	s := w.start(group, run)
	w.done(s, runs.Done{Outcome: runs.OutcomeUnknown, TofuStarted: true})
	writer := w.show(w.ann, "runs/"+run.ID+"/recovery").Attributes["writer"].(map[string]any)
	assert.Equal(t, []any{false, "not-proven", nil}, []any{writer["proven-stopped"], writer["how"], writer["reported-at"]})
	w.recover(w.ann, run.ID, ordinary, 422, "confirmation_required")
	op := w.recover(w.ann, run.ID, ordinary+`,"confirm-writer-not-proven":true`, 200, "")
	assert.Equal(t, []any{false, nil}, []any{op.Attributes["writer-proven-stopped"], op.Attributes["target-state-version-id"]}, "there is no state, and that is verified")
}

// A drift preview is started by who holds the lease, and shown with the evidence.
func TestADriftPreviewOnTheWire(t *testing.T) {
	w := steppedUp(t)
	group, ws := w.runner(), w.workspace("app")
	run := w.queue(ws, tfe.RunCreateOptions{})
	w.plan(w.accept(group), "")
	s := w.start(group, run)
	w.publish(s, ws)
	w.done(s, runs.Done{Outcome: runs.OutcomeErrored, ExitCode: 1, TofuStarted: true})
	ask := func(token string) (int, string) {
		response, text := w.send("POST", "/api/v2/runs/"+run.ID+"/actions/recovery-preview", token, "")
		return response.StatusCode, text
	}
	status, text := ask(w.ann)
	assert.Equal(t, 409, status)
	assert.Contains(t, text, `"code":"recovery_not_prepared"`)
	w.recover(w.ann, run.ID, ordinary+`,"prepare-only":true`, 200, "")
	assert.Nil(t, w.show(w.ann, "runs/"+run.ID+"/recovery").Attributes["drift-preview"])
	status, _ = ask(w.bob)
	assert.Equal(t, 403, status)
	status, text = ask(w.ann)
	require.Equal(t, 201, status, text)
	var started struct{ Data shownResource }
	require.NoError(t, json.Unmarshal([]byte(text), &started))
	assert.Equal(t, []any{true, true, "plan-only"}, []any{started.Data.Attributes["plan-only"], started.Data.Attributes["refresh-only"], started.Data.Attributes["operation"]})
	status, text = ask(w.ann)
	assert.Equal(t, 200, status)
	assert.Contains(t, text, started.Data.ID)
	shown := w.show(w.ann, "runs/"+run.ID+"/recovery").Attributes["drift-preview"].(map[string]any)
	assert.Equal(t, []any{started.Data.ID, "queued", nil, ""}, []any{shown["run-id"], shown["status"], shown["has-drift"], shown["log-tail"]})
}
