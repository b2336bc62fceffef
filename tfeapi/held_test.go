package tfeapi

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-tfe"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/dispatch"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/runs"
)

// failedApply leaves the workspace held by the ordinary failure.
func (w *world) failedApply(ws *tfe.Workspace) string {
	w.Helper()
	group := w.runner()
	run := w.queue(ws, tfe.RunCreateOptions{})
	w.plan(w.accept(group), "")
	s := w.start(group, run)
	w.publish(s, ws)
	w.done(s, runs.Done{Outcome: runs.OutcomeErrored, ExitCode: 1, TofuStarted: true})
	return run.ID
}

func TestTheListOfHeldWorkspacesOnTheWire(t *testing.T) {
	w := newWorld(t)
	ws := w.workspace("app")
	empty, text := w.send("GET", "/api/v2/organizations/acme/held-workspaces", w.bob, "")
	require.Equal(t, 200, empty.StatusCode, text)
	assert.Contains(t, text, `{"data":[],`)
	run := w.failedApply(ws)

	_, stranger := w.user(t.Context(), "eve")
	for token, want := range map[string]int{"": 401, stranger: 404, w.bob: 200, w.ann: 200} {
		response, text := w.send("GET", "/api/v2/organizations/acme/held-workspaces", token, "")
		assert.Equal(t, want, response.StatusCode, text)
	}
	list := w.list(w.ann, "organizations/acme/held-workspaces")
	require.Len(t, list, 1)
	a := list[0].Attributes
	assert.Equal(t, []any{ws.ID, "app", "acme", run, "apply_failed", true, nil, 1.0, false, map[string]any{"can-recover": true}},
		[]any{list[0].ID, a["name"], a["organization-name"], a["run-id"], a["durable-status"], a["proven"], a["doubt"], a["publications"], a["authority-lost"], a["permissions"]})
	a = w.list(w.bob, "organizations/acme/held-workspaces")[0].Attributes
	assert.Equal(t, []any{run, "apply_failed", nil, nil, nil, map[string]any{"can-recover": false}},
		[]any{a["run-id"], a["durable-status"], a["proven"], a["publications"], a["current-state-version-id"], a["permissions"]}, "who may not recover sees what it may see anyway")
}

// list gives the first page of a list.
func (w *world) list(token, path string) []shownResource {
	w.Helper()
	response, text := w.send("GET", "/api/v2/"+path, token, "")
	require.Equal(w, 200, response.StatusCode, text)
	return decodeInto[struct{ Data []shownResource }](w.T, text).Data
}

// RC-08: whoever finds a workspace held is told the run, its page, and what to do; who
// force-unlocks is told the same.
func TestAHeldWorkspaceTellsTheWayOut(t *testing.T) {
	w := newWorld(t)
	ws := w.workspace("app")
	run := w.failedApply(ws)
	page := "/app/acme/app/runs/" + run
	words := ""
	for _, action := range []string{"lock", "force-unlock"} {
		response, text := w.send("POST", "/api/v2/workspaces/"+ws.ID+"/actions/"+action, w.ann, "{}")
		assert.Equal(t, 423, response.StatusCode, text)
		refusal := decodeInto[struct{ Errors []errorObject }](w.T, text).Errors[0]
		assert.Equal(t, []any{"workspace_recovery_pending", run}, []any{refusal.Code, refusal.Meta["run-id"]})
		assert.True(t, strings.HasSuffix(refusal.Meta["url"].(string), page), refusal.Meta)
		for _, part := range []string{"Complete recovery of " + run, "`holdfast admin recover show " + run + "`", "`holdfast admin recover " + run + " --apply`", refusal.Meta["url"].(string)} {
			assert.Contains(t, refusal.Detail, part)
		}
		if words == "" {
			words = refusal.Detail
		}
		assert.Equal(t, words, refusal.Detail)
	}
	_, err := w.client.Runs.Create(t.Context(), tfe.RunCreateOptions{Workspace: ws})
	assert.ErrorContains(t, err, page)
}

// An operator's way out over the API for a run that the database has lost: it does not even
// know the run, and the exact repeat still answers.
func TestALostRunOnTheWire(t *testing.T) {
	w := steppedUp(t)
	ws := w.workspace("app")
	group, done := w.runner(), w.queue(ws, tfe.RunCreateOptions{})
	w.plan(w.accept(group), "")
	s := w.start(group, done)
	w.applied(s, ws)
	current, err := w.client.StateVersions.ReadCurrent(t.Context(), ws.ID)
	require.NoError(t, err)
	run, epoch, expires := ids.New[ids.Run](), int64(41), time.Now().Add(time.Hour)
	org, err := w.deps.Accounts.Organization(t.Context(), authz.System(), "acme")
	require.NoError(t, err)
	token := w.deps.Dispatch.Token(dispatch.Attempt{
		ID: ids.New[ids.Attempt](), RunID: run, OrganizationID: org.ID, WorkspaceID: ids.Workspace(ws.ID), Phase: authz.Apply, SandboxID: "box", FenceEpoch: &epoch, JTI: "j", TokenExpiresAt: &expires,
	})
	_, err = w.deps.Runs.Authenticate(t.Context(), token)
	require.True(t, fault.HasCode(err, "authority_lost"), "%v", err)

	e := w.show(w.ann, "runs/"+string(run)+"/recovery").Attributes
	assert.Equal(t, []any{true, true, "authority_lost", false, "authority_lost", "acme", "app"},
		[]any{e["required"], e["authority-lost"], e["durable-reason"], e["proven"], e["doubt"].(map[string]any)["code"], e["organization-name"], e["workspace-name"]})
	now := e["current-state"].(map[string]any)
	w.recover(w.ann, string(run), ordinary, 422, "evidence_required")
	named := ordinary + fmt.Sprintf(`,"current-state-version-id":%q,"current-state-checksum":%q`, now["id"], now["checksum"])
	w.recover(w.ann, string(run), named, 422, "confirmation_required")
	w.recover(w.bob, string(run), named, 403, "forbidden")
	full := named + `,"confirm-authority-lost":true,"confirm-writer-not-proven":true`
	op := w.recover(w.ann, string(run), full, 200, "")
	assert.Equal(t, []any{"committed", current.ID, true}, []any{op.Attributes["status"], op.Attributes["target-state-version-id"], op.Attributes["authority-lost"]})
	assert.Equal(t, op, w.recover(w.ann, string(run), full, 200, ""), "the repeat")
	free, err := w.client.Workspaces.ReadByID(t.Context(), ws.ID)
	require.NoError(t, err)
	assert.False(t, free.Locked)
	assert.Equal(t, false, w.show(w.ann, "runs/"+string(run)+"/recovery").Attributes["required"])
}

// The settings on the wire: who may not recover cannot have it done for him.
func TestTheSettingFailedApply(t *testing.T) {
	w := newWorld(t)
	ws := w.workspace("app")
	patch := func(token, attributes string, status int) string {
		t.Helper()
		response, text := w.send("PATCH", "/api/v2/workspaces/"+ws.ID, token, `{"data":{"type":"workspaces","attributes":{`+attributes+`}}}`)
		assert.Equal(t, status, response.StatusCode, text)
		return text
	}
	assert.Contains(t, patch(w.ann, "", 200), `"environment-class":"other","execution-mode":"remote","failed-apply":"hold"`)
	assert.Contains(t, patch(w.ann, `"environment-class":"production","failed-apply":"release-when-proven"`, 422), `/data/attributes/failed-apply`)
	assert.Contains(t, patch(w.ann, `"failed-apply":"release-when-proven"`, 200), `"failed-apply":"release-when-proven"`)
	patch(w.ann, `"environment-class":"production"`, 422)
	patch(w.ann, `"failed-apply":"hold","environment-class":"production"`, 200)
	patch(w.bob, `"failed-apply":"hold"`, 403)
}

func decodeInto[T any](t *testing.T, text string) (into T) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(text), &into), text)
	return into
}
