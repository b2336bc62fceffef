package tfeapi

import (
	"net/url"
	"strings"
	"testing"

	"github.com/hashicorp/go-tfe"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/runs"
)

func TestClientTags(t *testing.T) {
	w := newWorld(t)
	ctx, name := t.Context(), "app"
	made, err := w.client.Workspaces.Create(ctx, "acme", tfe.WorkspaceCreateOptions{Name: &name, Tags: []*tfe.Tag{{Name: "prod"}, {Name: "App"}}})
	require.NoError(t, err)
	assert.Equal(t, []string{"App", "prod"}, made.TagNames)
	assert.Contains(t, w.raw("GET", "/api/v2/workspaces/"+made.ID, w.ann, ""), `"can-manage-tags":true`)
	require.NoError(t, w.client.Workspaces.AddTags(ctx, made.ID, tfe.WorkspaceAddTagsOptions{Tags: []*tfe.Tag{{Name: "prod"}, {Name: "new"}}}))
	tags, err := w.client.Workspaces.ListTags(ctx, made.ID, nil)
	require.NoError(t, err)
	require.Len(t, tags.Items, 3)
	assert.Equal(t, "new", tags.Items[1].Name)

	other := w.workspace("other")
	require.NoError(t, w.client.Workspaces.AddTags(ctx, other.ID, tfe.WorkspaceAddTagsOptions{Tags: []*tfe.Tag{{ID: tags.Items[1].ID}}}))
	require.NoError(t, w.client.OrganizationTags.AddWorkspaces(ctx, tags.Items[2].ID, tfe.AddWorkspacesToTagOptions{WorkspaceIDs: []string{other.ID}}))
	read, err := w.client.Workspaces.ReadByID(ctx, other.ID)
	require.NoError(t, err)
	assert.Equal(t, []string{"new", "prod"}, read.TagNames)
	require.NoError(t, w.client.Workspaces.RemoveTags(ctx, other.ID, tfe.WorkspaceRemoveTagsOptions{Tags: []*tfe.Tag{{Name: "new"}, {Name: "NonExistentTag"}}}))

	all, err := w.client.OrganizationTags.List(ctx, "acme", nil)
	require.NoError(t, err)
	require.Len(t, all.Items, 3)
	assert.Equal(t, "acme", all.Items[0].Organization.Name)
	assert.Equal(t, []int{1, 1, 2}, []int{all.Items[0].InstanceCount, all.Items[1].InstanceCount, all.Items[2].InstanceCount})
	some, err := w.client.OrganizationTags.List(ctx, "acme", &tfe.OrganizationTagsListOptions{Query: "pro"})
	require.NoError(t, err)
	assert.Len(t, some.Items, 1)
	some, err = w.client.OrganizationTags.List(ctx, "acme", &tfe.OrganizationTagsListOptions{Filter: other.ID})
	require.NoError(t, err)
	assert.Len(t, some.Items, 2)
	require.NoError(t, w.client.OrganizationTags.Delete(ctx, "acme", tfe.OrganizationTagsDeleteOptions{IDs: []string{all.Items[2].ID}}))
	read, err = w.client.Workspaces.ReadByID(ctx, other.ID)
	require.NoError(t, err)
	assert.Empty(t, read.TagNames)

	assert.ErrorContains(t, w.client.Workspaces.AddTags(ctx, made.ID, tfe.WorkspaceAddTagsOptions{Tags: []*tfe.Tag{{Name: "a b"}}}), "invalid attribute\n\nName of a tag")
	assert.ErrorContains(t, w.as(w.bob).Workspaces.AddTags(ctx, made.ID, tfe.WorkspaceAddTagsOptions{Tags: []*tfe.Tag{{Name: "a"}}}), "workspace:update")
	for _, body := range []string{`{"data":[{"type":"workspaces","id":"x"}]}`, `{"data":{}}`, `{"data":[]}`} {
		response, text := w.send("DELETE", "/api/v2/organizations/acme/tags", w.ann, body)
		assert.Equal(t, 400, response.StatusCode, text)
		assert.Contains(t, text, `"pointer":"/data`)
	}
}

// raw gives the body of an answer.
func (w *world) raw(method, address, token, body string) string {
	w.Helper()
	_, text := w.send(method, address, token, body)
	return text
}

// Case 82: both kinds of tags select, and what is not known selects nothing.
func TestWorkspaceListFilters(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	for name, o := range map[string]tfe.WorkspaceCreateOptions{
		"app-prod": {Tags: []*tfe.Tag{{Name: "app"}, {Name: "prod"}}},
		"app-dev":  {Tags: []*tfe.Tag{{Name: "app"}}, TagBindings: []*tfe.TagBinding{{Key: "env", Value: "dev"}}},
		"db":       {TagBindings: []*tfe.TagBinding{{Key: "env", Value: "prod"}}},
	} {
		o.Name = &name
		_, err := w.client.Workspaces.Create(ctx, "acme", o)
		require.NoError(t, err)
	}
	list := func(o tfe.WorkspaceListOptions) (names []string) {
		t.Helper()
		page, err := w.client.Workspaces.List(ctx, "acme", &o)
		require.NoError(t, err)
		for _, item := range page.Items {
			names = append(names, item.Name)
		}
		assert.Equal(t, len(names), page.TotalCount)
		return names
	}
	assert.Equal(t, []string{"app-prod"}, list(tfe.WorkspaceListOptions{Tags: "app,prod"}))
	assert.Equal(t, []string{"app-dev", "db"}, list(tfe.WorkspaceListOptions{ExcludeTags: "prod"}))
	assert.Equal(t, []string{"app-dev", "app-prod"}, list(tfe.WorkspaceListOptions{WildcardName: "app-*"}))
	assert.Equal(t, []string{"app-dev", "db"}, list(tfe.WorkspaceListOptions{TagBindings: []*tfe.TagBinding{{Key: "env"}}}))
	assert.Equal(t, []string{"db"}, list(tfe.WorkspaceListOptions{TagBindings: []*tfe.TagBinding{{Key: "env", Value: "prod"}}}))
	assert.Equal(t, []string{"db", "app-prod", "app-dev"}, list(tfe.WorkspaceListOptions{Sort: "-name"}))
	assert.Empty(t, list(tfe.WorkspaceListOptions{ProjectID: "prj-1234567890123456"}))
	for _, query := range []string{"filter[tagged][0][value]=prod", "filter[anything]=x", "search[what]=x", "sort=size", "filter[unknown]=applied"} {
		name, value, _ := strings.Cut(query, "=")
		response, text := w.send("GET", "/api/v2/organizations/acme/workspaces?"+url.Values{name: {value}}.Encode(), w.ann, "")
		assert.Equal(t, 400, response.StatusCode, query+text)
	}
}

func TestClientTagBindings(t *testing.T) {
	w := newWorld(t)
	ctx, ws := t.Context(), w.workspace("app")
	set, err := w.client.Workspaces.AddTagBindings(ctx, ws.ID, tfe.WorkspaceAddTagBindingsOptions{TagBindings: []*tfe.TagBinding{{Key: "foo", Value: "bar"}, {Key: "baz", Value: "qux"}}})
	require.NoError(t, err)
	require.Len(t, set, 2)
	assert.Equal(t, "foo", set[0].Key)
	list, err := w.client.Workspaces.ListTagBindings(ctx, ws.ID)
	require.NoError(t, err)
	assert.Equal(t, []*tfe.TagBinding{set[1], set[0]}, list)
	effective, err := w.client.Workspaces.ListEffectiveTagBindings(ctx, ws.ID)
	require.NoError(t, err)
	assert.Equal(t, "qux", effective[0].Value)
	require.NoError(t, w.client.Workspaces.DeleteAllTagBindings(ctx, ws.ID))
	list, err = w.client.Workspaces.ListTagBindings(ctx, ws.ID)
	require.NoError(t, err)
	assert.Empty(t, list)
}

func TestClientChangesAndDeletesAnOrganization(t *testing.T) {
	w := newWorld(t)
	ctx, ws := t.Context(), w.workspace("app")
	name, email, taken := "renamed", "new@acme.test", "taken"
	_, err := w.deps.Workspaces.CreateOrganization(ctx, authz.System(), accounts.NewOrganization{Name: taken})
	require.NoError(t, err)
	_, err = w.client.Organizations.Update(ctx, "acme", tfe.OrganizationUpdateOptions{Name: &taken})
	assert.ErrorContains(t, err, "Name has already been taken")
	_, err = w.as(w.bob).Organizations.Update(ctx, "acme", tfe.OrganizationUpdateOptions{Name: &name})
	assert.ErrorContains(t, err, "organization:settings")
	changed, err := w.client.Organizations.Update(ctx, "acme", tfe.OrganizationUpdateOptions{Name: &name, Email: &email})
	require.NoError(t, err)
	assert.Equal(t, []string{name, email}, []string{changed.Name, changed.Email})
	_, err = w.client.Workspaces.Read(ctx, name, "app")
	require.NoError(t, err)

	assert.ErrorContains(t, w.as(w.bob).Organizations.Delete(ctx, name), "organization:delete")
	require.NoError(t, w.client.Organizations.Delete(ctx, name))
	_, err = w.client.Organizations.Read(ctx, name)
	assert.Equal(t, tfe.ErrResourceNotFound, err)
	_, err = w.client.Workspaces.ReadByID(ctx, ws.ID)
	assert.Equal(t, tfe.ErrResourceNotFound, err)
	assert.Equal(t, tfe.ErrResourceNotFound, w.client.Organizations.Delete(ctx, name))
	_, err = w.deps.Workspaces.CreateOrganization(ctx, authz.System(), accounts.NewOrganization{Name: name})
	require.NoError(t, err, "the name is free")
}

func TestSiteAdministration(t *testing.T) {
	w := newWorld(t)
	w.runner()
	const patch = `{"data":{"type":"","attributes":{"access-beta-tools":true}}}`
	for _, request := range [][2]string{{"GET", "admin/terraform-versions"}, {"PATCH", "admin/organizations/acme"}} {
		response, _ := w.send(request[0], "/api/v2/"+request[1], w.ann, patch)
		assert.Equal(t, 404, response.StatusCode, "an owner is no site admin")
	}
	admin, err := w.deps.Accounts.CreateUser(t.Context(), authz.System(), accounts.NewUser{Username: "root", SiteAdmin: true})
	require.NoError(t, err)
	token, _, err := w.deps.Accounts.CreateUserToken(t.Context(), authz.System(), admin.ID, "", 0)
	require.NoError(t, err)
	versions, err := w.as(token).Admin.TerraformVersions.List(t.Context(), &tfe.AdminTerraformVersionsListOptions{ListOptions: tfe.ListOptions{PageNumber: 1, PageSize: 100}})
	require.NoError(t, err)
	offered := map[string]bool{}
	for _, v := range versions.Items {
		offered[v.Version] = v.Enabled
	}
	assert.True(t, offered["1.12.6"], "what a runner brings is in the catalogue: %v", offered)
	response, text := w.send("PATCH", "/api/v2/admin/organizations/acme", token, patch)
	assert.Equal(t, 200, response.StatusCode)
	assert.Contains(t, text, `"access-beta-tools":true`)
}

// ST-23: an organization goes with everything in it or not at all.
func TestAnOrganizationThatAppliesIsNotDeleted(t *testing.T) {
	w := newWorld(t)
	ctx, group := t.Context(), w.runner()
	idle, busy := w.workspace("a-idle"), w.workspace("busy")
	waiting := w.queue(idle, tfe.RunCreateOptions{})
	w.accept(group) // of the idle one
	run := w.queue(busy, tfe.RunCreateOptions{})
	w.plan(w.accept(group), "")
	require.NoError(t, w.client.Runs.Apply(ctx, run.ID, tfe.RunApplyOptions{}))
	applying := w.accept(group)
	_, err := w.deps.Runs.StartApply(ctx, applying.actor, applying.ManifestDigest, "sandbox", "digest")
	require.NoError(t, err)

	response, text := w.send("DELETE", "/api/v2/organizations/acme", w.ann, "")
	assert.Equal(t, 423, response.StatusCode)
	assert.Contains(t, text, "workspace_applying")
	assert.Equal(t, tfe.RunPlanning, w.read(waiting).Status, "nothing was done to the others")

	require.NoError(t, w.deps.Runs.Done(ctx, applying.id, runs.Done{Outcome: runs.OutcomeUnknown, TofuStarted: true}))
	response, text = w.send("DELETE", "/api/v2/organizations/acme", w.ann, "")
	assert.Equal(t, 423, response.StatusCode, "the state it left is not known")
	assert.Contains(t, text, "workspace_recovery_pending")
}
