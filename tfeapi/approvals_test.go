package tfeapi

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/hashicorp/go-tfe"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/postgres"
)

// owner makes one more owner of acme and gives a token.
func (w *world) owner(name string) string {
	w.Helper()
	user, token := w.user(w.Context(), name)
	org, err := w.deps.Accounts.Organization(w.Context(), authz.System(), "acme")
	require.NoError(w, err)
	require.NoError(w, w.deps.Accounts.AddMember(w.Context(), authz.System(), org.ID, user, authz.Owner))
	return token
}

// rule sets attributes of an approval rule, and gives all of them.
func (w *world) rule(token, place, attributes string, status int) map[string]any {
	w.Helper()
	response, text := w.send(http.MethodPatch, "/api/v2/"+place+"/approval-rule", token, `{"data":{"type":"approval-rules","attributes":{`+attributes+`}}}`)
	require.Equal(w, status, response.StatusCode, text)
	if status != http.StatusOK {
		return nil
	}
	var doc struct{ Data shownResource }
	require.NoError(w, json.Unmarshal([]byte(text), &doc))
	return doc.Data.Attributes
}

// decides posts a decision, and gives the document or the error's code.
func (w *world) decides(token string, run *tfe.Run, action, body string, status int) (data shownResource, code string) {
	w.Helper()
	response, text := w.send(http.MethodPost, "/api/v2/runs/"+run.ID+"/"+action, token, body)
	require.Equal(w, status, response.StatusCode, text)
	var doc struct {
		Data   shownResource
		Errors []struct{ Code, Title, Detail string }
	}
	if text != "" {
		require.NoError(w, json.Unmarshal([]byte(text), &doc))
	}
	if len(doc.Errors) > 0 {
		assert.NotEmpty(w, doc.Errors[0].Detail)
		code = doc.Errors[0].Code
	}
	return doc.Data, code
}

// The rule of a place as a script sets, reads and clears it.
func TestAnApprovalRuleOnTheWire(t *testing.T) {
	w := newWorld(t)
	ws := w.workspace("app")
	team := w.team("reviewers", nil)
	here, project := "workspaces/"+ws.ID, "projects/"+ws.Project.ID
	nothing := map[string]any{"mode": nil, "required-approvals": nil, "exclude-requester": nil, "reviewer-teams": nil, "environment-class": nil}
	effective := func(mode string, required int, exclude bool, class string, teams ...any) map[string]any {
		return map[string]any{"mode": mode, "required-approvals": float64(required), "exclude-requester": exclude, "environment-class": class, "reviewer-teams": append([]any{}, teams...)}
	}
	want := func(said map[string]any, e map[string]any) map[string]any {
		all := map[string]any{"effective": e}
		for name, value := range nothing {
			all[name] = value
		}
		for name, value := range said {
			all[name] = value
		}
		return all
	}
	assert.Equal(t, want(nil, effective("requester", 1, false, "other")), w.show(w.bob, here+"/approval-rule").Attributes, "who sees the workspace sees its rule")

	w.rule(w.ann, "organizations/acme", `"required-approvals":2`, 200)
	w.rule(w.ann, project, `"environment-class":"production","reviewer-teams":["`+team.ID+`"]`, 200)
	got := w.rule(w.ann, here, `"exclude-requester":true,"mode":"requester"`, 200)
	assert.Equal(t, want(map[string]any{"exclude-requester": true, "mode": "requester"}, effective("requester", 2, true, "production", []any{team.ID})), got)
	got = w.rule(w.ann, here, `"exclude-requester":null`, 200)
	assert.Equal(t, want(map[string]any{"mode": "requester"}, effective("requester", 2, false, "production", []any{team.ID})), got, "what is not named stays")
	assert.Equal(t, got, w.show(w.bob, here+"/approval-rule").Attributes)
	w.rule(w.ann, project, `"environment-class":null,"reviewer-teams":[]`, 200)
	assert.Equal(t, want(map[string]any{"mode": "requester"}, effective("requester", 2, false, "other")), w.show(w.ann, here+"/approval-rule").Attributes)

	w.rule(w.bob, here, `"mode":"manual"`, 403)
	w.rule(w.bob, "organizations/acme", `"mode":"manual"`, 403)
	w.rule(w.ann, "organizations/nobody", `"mode":"manual"`, 404)
	for attribute, field := range map[string]string{
		`"mode":"vote"`: "mode", `"required-approvals":0`: "required-approvals", `"environment-class":"production"`: "environment-class", `"reviewer-teams":["team-ABCDEFGHJKLMNPQR"]`: "reviewer-teams",
	} {
		response, text := w.send(http.MethodPatch, "/api/v2/"+here+"/approval-rule", w.ann, `{"data":{"type":"approval-rules","attributes":{`+attribute+`}}}`)
		assert.Equal(t, 422, response.StatusCode, text)
		assert.Contains(t, text, `"pointer":"/data/attributes/`+field+`"`)
	}
}

// Show 2 on the wire, by scripts: the requester is refused with the reason and sees a run that stays open, two
// others approve, and the records say who and what.
func TestAQuorumOnTheWire(t *testing.T) {
	w := newWorld(t)
	ctx, group, ws := t.Context(), w.runner(), w.workspace("app")
	w.rule(w.ann, "workspaces/"+ws.ID, `"required-approvals":2,"exclude-requester":true`, 200)
	eve, dan := w.owner("eve"), w.owner("dan")
	run := w.queue(ws, tfe.RunCreateOptions{})
	w.plan(w.accept(group), "the plan\n")
	run = w.read(run)
	require.True(t, run.Actions.IsConfirmable, "or the client ends without a word")

	err := w.client.Runs.Apply(ctx, run.ID, tfe.RunApplyOptions{})
	require.ErrorContains(t, err, "separate_approver_required")
	require.ErrorContains(t, err, "approved by somebody else")
	_, code := w.decides(w.ann, run, "actions/approve", "", 403)
	assert.Equal(t, "separate_approver_required", code)
	assert.Equal(t, tfe.RunPlanned, w.read(run).Status)

	review := w.review(run)
	requirement := review["approval-requirement"].(map[string]any)
	assert.Equal(t, []any{"requester", 2.0, true, 0.0, 2.0}, []any{requirement["mode"], requirement["required-approvals"], requirement["exclude-requester"], requirement["given"], requirement["missing"]})
	digest := requirement["binding-digest"].(string)
	_, code = w.decides(eve, run, "actions/approve", `{"binding-digest":"`+strings.Repeat("0", 64)+`"}`, 409)
	assert.Equal(t, "binding_mismatch", code)

	record, _ := w.decides(eve, run, "actions/approve", `{"data":{"attributes":{"comment":"looks right","binding-digest":"`+digest+`"}}}`, 200)
	assert.Equal(t, []any{"approved", "native", "looks right", digest, nil}, []any{record.Attributes["decision"], record.Attributes["source"], record.Attributes["comment"], record.Attributes["binding-digest"], record.Attributes["spent-at"]})
	assert.Equal(t, requirement["binding"], record.Attributes["binding"])
	_, code = w.decides(eve, run, "actions/approve", "", 409)
	assert.Equal(t, "already_decided", code)

	byEve, err := w.as(eve).Runs.Read(ctx, run.ID)
	require.NoError(t, err)
	assert.Equal(t, tfe.RunConfirmed, byEve.Status, "who has approved waits")
	assert.False(t, byEve.Actions.IsConfirmable)
	others, err := w.as(dan).Runs.Read(ctx, run.ID)
	require.NoError(t, err)
	assert.Equal(t, tfe.RunPlanned, others.Status)
	assert.True(t, others.Actions.IsConfirmable)

	record, _ = w.decides(dan, run, "approvals", `{"data":{"type":"run-approvals","attributes":{"decision":"approved"}}}`, 201)
	assert.Equal(t, "approved", record.Attributes["decision"])
	assert.Equal(t, tfe.RunApplyQueued, w.read(run).Status)
	s := w.accept(group)
	_, err = w.deps.Runs.StartApply(ctx, s.actor, s.ManifestDigest, "sandbox", "digest")
	require.NoError(t, err)
	s.actor.Applying = true // as its token says from here on
	w.applied(s, ws)
	assert.Equal(t, tfe.RunApplied, w.read(run).Status)

	list := w.all(run, "approvals")
	require.Len(t, list, 2)
	for i, name := range []string{"eve", "dan"} {
		for relation, id := range map[string]string{"reviewer": string(w.actorOf(name).User), "requester": run.CreatedBy.ID, "run": run.ID, "plan": run.Plan.ID} {
			assert.Equal(t, []string{id}, list[i].related(t, relation), relation)
		}
		assert.Equal(t, digest, list[i].Attributes["binding-digest"])
		assert.NotNil(t, list[i].Attributes["spent-at"])
	}
}

// One reject ends a run that one of two has approved: its client has said yes and must learn that nothing was applied.
func TestARejectionAfterAnApprovalIsAnError(t *testing.T) {
	w := newWorld(t)
	group, ws := w.runner(), w.workspace("app")
	w.rule(w.ann, "workspaces/"+ws.ID, `"required-approvals":2`, 200)
	eve := w.owner("eve")
	run := w.queue(ws, tfe.RunCreateOptions{})
	w.plan(w.accept(group), "the plan\n")
	require.NoError(t, w.client.Runs.Apply(t.Context(), run.ID, tfe.RunApplyOptions{}))
	assert.Equal(t, tfe.RunConfirmed, w.read(run).Status)
	_, code := w.decides(eve, run, "approvals", `{"data":{"type":"run-approvals","attributes":{"decision":"perhaps"}}}`, 422)
	assert.Equal(t, "invalid_attribute", code)
	record, _ := w.decides(eve, run, "actions/reject", `{"comment":"not today"}`, 200)
	assert.Equal(t, []any{"rejected", "not today"}, []any{record.Attributes["decision"], record.Attributes["comment"]})
	assert.Equal(t, tfe.RunErrored, w.read(run).Status)
	assert.Equal(t, "rejected", w.facts(run.ID).Attributes.DurableStatus)
}

// Show 3: late is late, by every way to decide and with nobody there to expire the run.
func TestALateDecisionOnTheWire(t *testing.T) {
	w := newWorld(t)
	group, ws := w.runner(), w.workspace("app")
	run := w.queue(ws, tfe.RunCreateOptions{})
	w.plan(w.accept(group), "the plan\n")
	w.exec("update runs set approval_expires_at = clock_timestamp() where id = @id", postgres.Args{"id": run.ID})
	for _, action := range []string{"actions/apply", "actions/discard", "actions/approve", "actions/reject"} {
		_, code := w.decides(w.ann, run, action, "", 409)
		assert.Equal(t, "APPROVAL_EXPIRED", code, action)
	}
	_, code := w.decides(w.ann, run, "approvals", `{"data":{"type":"run-approvals","attributes":{"decision":"approved"}}}`, 409)
	assert.Equal(t, "APPROVAL_EXPIRED", code)
	assert.Equal(t, "awaiting_approval", w.facts(run.ID).Attributes.DurableStatus, "nobody has expired it")
	assert.Empty(t, w.all(run, "approvals"))
}
