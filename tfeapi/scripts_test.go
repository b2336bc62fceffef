package tfeapi

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"net/url"
	"strings"
	"testing"

	"github.com/hashicorp/go-tfe"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/state"
)

func text(s string) *string { return &s }

// Every list of these addresses has pages: 20 by default, at most 100, and beyond the end
// none of them but the real total.
func TestListsHavePages(t *testing.T) {
	w := newWorld(t)
	ws := w.workspace("app")
	for _, path := range []string{
		"organizations/acme/ssh-keys", "organizations/acme/varsets", "organizations/acme/reserved-tag-keys", "organizations/acme/projects",
		"workspaces/" + ws.ID + "/varsets", "workspaces/" + ws.ID + "/resources", "workspaces/" + ws.ID + "/runs",
		"workspaces/" + ws.ID + "/run-triggers?filter[run-trigger][type]=inbound", "projects/" + ws.Project.ID + "/varsets",
	} {
		path, query, _ := strings.Cut(path, "?")
		for page, want := range map[string]string{"": `"current-page":1,"page-size":20,`, "page[number]=999&page[size]=500": `"current-page":999,"page-size":100,`} {
			values, err := url.ParseQuery(query + "&" + page)
			require.NoError(t, err)
			response, body := w.send("GET", "/api/v2/"+path+"?"+values.Encode(), w.ann, "")
			assert.Equal(t, 200, response.StatusCode, "%s: %s", path, body)
			assert.Contains(t, body, want, path)
			assert.Contains(t, body, `"total-count":`, path)
		}
	}
	_, body := w.send("GET", "/api/v2/organizations/acme/runs", w.bob, "")
	assert.NotContains(t, body, "total", "the runs of an organization are not counted")
	assert.Contains(t, body, `"next-page":null`)
}

// What is somebody else's is answered like what is not there.
func TestStrangersSeeNothingOfIt(t *testing.T) {
	w := newWorld(t)
	ctx, ws := t.Context(), w.workspace("app")
	_, stranger := w.user(ctx, "eve")
	set, err := w.client.VariableSets.Create(ctx, "acme", &tfe.VariableSetCreateOptions{Name: text("s"), Global: tfe.Bool(true)})
	require.NoError(t, err)
	key, err := w.client.SSHKeys.Create(ctx, "acme", tfe.SSHKeyCreateOptions{Name: text("k"), Value: text("PRIVATE")})
	require.NoError(t, err)
	reserved, err := w.client.ReservedTagKeys.Create(ctx, "acme", tfe.ReservedTagKeyCreateOptions{Key: "env"})
	require.NoError(t, err)
	trigger, err := w.client.RunTriggers.Create(ctx, w.workspace("next").ID, tfe.RunTriggerCreateOptions{Sourceable: ws})
	require.NoError(t, err)
	for _, c := range []struct{ method, path, unknown string }{
		{"GET", "varsets/" + set.ID, "varsets/varset-1234567890123456"},
		{"DELETE", "varsets/" + set.ID, "varsets/varset-1234567890123456"},
		{"GET", "ssh-keys/" + key.ID, "ssh-keys/sshkey-1234567890123456"},
		{"DELETE", "reserved-tag-keys/" + reserved.ID, "reserved-tag-keys/rtk-1234567890123456"},
		{"GET", "run-triggers/" + trigger.ID, "run-triggers/rt-1234567890123456"},
		{"GET", "projects/" + ws.Project.ID, "projects/prj-1234567890123456"},
		{"GET", "workspaces/" + ws.ID + "/all-vars", "workspaces/ws-1234567890123456/all-vars"},
		{"GET", "workspaces/" + ws.ID + "/resources", "workspaces/ws-1234567890123456/resources"},
		{"GET", "workspaces/" + ws.ID + "/relationships/data-retention-policy", "workspaces/ws-1234567890123456/relationships/data-retention-policy"},
	} {
		response, body := w.send(c.method, "/api/v2/"+c.path, stranger, "")
		assert.Equal(t, 404, response.StatusCode, c.path)
		_, unknown := w.send(c.method, "/api/v2/"+c.unknown, stranger, "")
		id, other := c.path[strings.Index(c.path, "/")+1:], c.unknown[strings.Index(c.unknown, "/")+1:]
		id, _, _ = strings.Cut(id, "/")
		other, _, _ = strings.Cut(other, "/")
		assert.Equal(t, unknown, strings.ReplaceAll(body, id, other), c.path)
	}
	response, _ := w.send("DELETE", "/api/v2/ssh-keys/"+key.ID, w.bob, "")
	assert.Equal(t, 404, response.StatusCode, "a member does not see a key that it cannot use")
	for _, path := range []string{"varsets/" + set.ID, "reserved-tag-keys/" + reserved.ID} {
		response, _ := w.send("DELETE", "/api/v2/"+path, w.bob, "")
		assert.Equal(t, 403, response.StatusCode, "a member sees it and may not: %s", path)
	}
}

func TestWhatIsRefusedOnTheWire(t *testing.T) {
	w := newWorld(t)
	ws := w.workspace("app")
	type refusal struct {
		method, path, body string
		status             int
		detail             string
	}
	document := func(kind, rest string) string { return `{"data":{"type":"` + kind + `",` + rest + `}}` }
	for _, c := range []refusal{
		{"GET", "workspaces/" + ws.ID + "/run-triggers", "", 400, "inbound or outbound"},
		{"POST", "workspaces/" + ws.ID + "/run-triggers", document("run-triggers", `"relationships":{"sourceable":{"data":{"type":"workspaces","id":"`+ws.ID+`"}}}`), 422, "the workspace itself"},
		{"POST", "workspaces/" + ws.ID + "/run-triggers", document("run-triggers", `"attributes":{}`), 400, "sourceable is missing"},
		{"POST", "organizations/acme/varsets", document("varsets", `"attributes":{"global":true}`), 422, "Name can't be blank"},
		{"POST", "organizations/acme/varsets", document("varsets", `"attributes":{"name":"x"},"relationships":{"parent":{"data":{"type":"workspaces","id":"ws-1"}}}`), 400, "must be"},
		{"POST", "organizations/acme/ssh-keys", document("ssh-keys", `"attributes":{"name":"x"}`), 422, "Value can't be blank"},
		{"POST", "organizations/acme/reserved-tag-keys", document("reserved-tag-keys", `"attributes":{"key":""}`), 422, "Key is invalid"},
		{"POST", "workspaces/" + ws.ID + "/relationships/data-retention-policy", document(deletesOlder, `"attributes":{}`), 422, "can't be blank"},
		{"POST", "workspaces/" + ws.ID + "/relationships/data-retention-policy", document(deletesOlder, `"attributes":{"delete-older-than-n-days":0}`), 422, "must be 1 to"},
		{"PATCH", "workspaces/" + ws.ID, document("workspaces", `"attributes":{"setting-overwrites":{"execution-mode":true,"agent-pool":false}}`), 422, "their values must be the same."},
		{"PATCH", "workspaces/" + ws.ID, document("workspaces", `"attributes":{"trigger-prefixes":["/a"],"trigger-patterns":["/b"]}`), 422, "cannot both be set"},
		{"PATCH", "organizations/acme", document("organizations", `"attributes":{"session-timeout":-1}`), 422, "session"},
		{"PATCH", "organizations/acme", document("organizations", `"attributes":{"collaborator-auth-policy":"two_factor_mandatory"}`), 422, "can only be password"},
		{"PATCH", "projects/" + ws.Project.ID, document("projects", `"attributes":{"name":"!"}`), 422, "Name may only contain"},
		{"DELETE", "projects/" + ws.Project.ID, "", 409, "cannot be deleted"},
		{"POST", "plan-exports", document("plan-exports", `"attributes":{"data-type":"sentinel-mock-bundle-v0"}`), 400, "plan is missing"},
		{"PATCH", "account/update", document("users", `"attributes":{"email":"notamailaddress"}`), 422, "e-mail address"},
		{"GET", "admin/feature-sets", "", 404, ""},
		{"POST", "admin/organizations/acme/subscription", document("subscription", `"attributes":{}`), 404, ""},
	} {
		response, body := w.send(c.method, "/api/v2/"+c.path, w.ann, c.body)
		assert.Equal(t, c.status, response.StatusCode, "%s %s: %s", c.method, c.path, body)
		var doc struct{ Errors []errorObject }
		require.NoError(t, json.Unmarshal([]byte(body), &doc), body)
		require.Len(t, doc.Errors, 1)
		assert.Contains(t, doc.Errors[0].Detail, c.detail, "%s %s", c.method, c.path)
	}
}

// A comment is an event of its run, and both can be read by their ids.
func TestCommentsAreEvents(t *testing.T) {
	w := newWorld(t)
	w.runner()
	ctx, ws := t.Context(), w.workspace("app")
	run := w.queue(ws, tfe.RunCreateOptions{})
	c, err := w.client.Comments.Create(ctx, run.ID, tfe.CommentCreateOptions{Body: "looks right"})
	require.NoError(t, err)
	list, err := w.client.RunEvents.List(ctx, run.ID, &tfe.RunEventListOptions{Include: []tfe.RunEventIncludeOpt{tfe.RunEventComment, tfe.RunEventActor}})
	require.NoError(t, err)
	last := list.Items[len(list.Items)-1]
	assert.Equal(t, []string{"commented", "looks right", "ann"}, []string{last.Action, last.Comment.Body, last.Actor.Username})
	event, err := w.client.RunEvents.Read(ctx, last.ID)
	require.NoError(t, err)
	assert.Equal(t, c.ID, event.Comment.ID)
	first, err := w.client.RunEvents.Read(ctx, list.Items[0].ID)
	require.NoError(t, err)
	assert.Equal(t, "created", first.Action)
	for _, id := range []string{"re-x", "re-wsc-1234567890123456", last.ID + "x", strings.TrimSuffix(list.Items[0].ID, "0") + "99"} {
		_, err = w.client.RunEvents.Read(ctx, id)
		assert.ErrorIs(t, err, tfe.ErrResourceNotFound, id)
	}
	assert.Len(t, w.read(run).Comments, 1)
	assert.Len(t, w.read(run).RunEvents, len(list.Items))
}

// A bundle holds what policies import, in the form that they read.
func TestTheBundleOfAPlan(t *testing.T) {
	bundle, err := sentinelMocks([]byte(`{"terraform_version":"1.12.6","variables":{"a":{"value":1.50}},"planned_values":{},"resource_changes":[{"address":"x.y","change":{"after":null}}],"configuration":{"k":[true]}}`))
	require.NoError(t, err)
	unzipped, err := gzip.NewReader(bytes.NewReader(bundle))
	require.NoError(t, err)
	files := map[string]string{}
	for archive := tar.NewReader(unzipped); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		content, err := io.ReadAll(archive)
		require.NoError(t, err)
		files[header.Name] = string(content)
	}
	assert.Len(t, files, 3)
	plan := files["mock-tfplan-v2.sentinel"]
	assert.Contains(t, plan, "resource_changes = {\n\t\"x.y\": {\n\t\t\"address\": \"x.y\",\n\t\t\"change\": {\n\t\t\t\"after\": null,\n\t\t},\n\t},\n}")
	assert.Contains(t, plan, "\"value\": 1.50,", "numbers stay as they are written")
	assert.Contains(t, files["mock-tfconfig-v2.sentinel"], "\"k\": [\n\t\ttrue,\n\t],")
	_, err = sentinelMocks([]byte("no plan"))
	assert.Error(t, err)
}

func TestResourcesAreNamedAsPeopleWriteThem(t *testing.T) {
	views := newWorkspaceResourceViews("sv-1", resourceOf(`module.net["a"].module.sub`, `provider["registry.opentofu.org/hashicorp/null"].east`, `"k"`))
	require.Len(t, views, 1)
	assert.Equal(t, `net["a"].sub.null_resource.x["k"]`, views[0].Address)
	assert.Equal(t, []string{`net["a"].sub`, "hashicorp/null", "k"}, []string{views[0].Module, views[0].Provider, *views[0].NameIndex})
	plain := newWorkspaceResourceViews("sv-1", resourceOf("", `provider["registry.opentofu.org/hashicorp/null"]`))
	assert.Equal(t, []string{"null_resource.x", "root"}, []string{plain[0].Address, plain[0].Module})
	assert.Nil(t, plain[0].NameIndex)
}

// Each status that clients can ask for is shown by some run, and asking for one of them
// finds no run that can never be shown so.
func TestFiltersKnowEveryStatus(t *testing.T) {
	assert.Equal(t, []string{"dispatch_pending", "queued"}, durableStatuses([]string{"pending"}))
	assert.Equal(t, []string{"succeeded"}, durableStatuses([]string{"applied"}))
	assert.Contains(t, durableStatuses([]string{"planned"}), "awaiting_approval")
	for shown, want := range map[string]string{
		"cost_estimated": "awaiting_approval", "policy_checked": "awaiting_approval", "policy_checking": "policy_evaluating", "pre_plan_running": "queued",
		"post_plan_running": "plan_complete", "pre_apply_running": "awaiting_approval",
	} {
		assert.Contains(t, durableStatuses([]string{shown}), want, shown)
	}
	assert.Empty(t, durableStatuses([]string{"fetching"}))
}

// resourceOf is a resource with one instance, or with one for each key.
func resourceOf(module, provider string, keys ...string) state.Resource {
	return state.Resource{Module: module, Mode: "managed", Type: "null_resource", Name: "x", Provider: provider, Instances: max(1, len(keys)), Keys: keys}
}
