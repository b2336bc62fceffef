package tfeapi

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/hashicorp/go-tfe"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/dispatch"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
)

func (w *world) pool(name string) *tfe.AgentPool {
	w.Helper()
	p, err := w.client.AgentPools.Create(w.Context(), "acme", tfe.AgentPoolCreateOptions{Name: &name})
	require.NoError(w, err)
	return p
}

// reply is what the server said to a plain request.
type reply struct {
	*testing.T
	status int
	body   string
}

func (w *world) ask(token, method, path, body string) reply {
	w.Helper()
	response, text := w.send(method, w.url+path, token, body)
	return reply{T: w.T, status: response.StatusCode, body: text}
}

// attributes gives the named attributes of the one resource of a reply.
func (r reply) attributes(names ...string) (values []any) {
	r.Helper()
	var doc struct {
		Data struct{ Attributes map[string]any }
	}
	require.NoError(r, json.Unmarshal([]byte(r.body), &doc), r.body)
	for _, name := range names {
		values = append(values, doc.Data.Attributes[name])
	}
	return values
}

// polls lets a runner with that token ask for work.
func (w *world) polls(token string, hello dispatch.RunnerHello) (runner ids.Runner, attempt dispatch.Attempt, found bool, err error) {
	group, err := w.deps.Accounts.RunnerGroupByToken(w.Context(), token)
	if err != nil {
		return "", attempt, false, err
	}
	return w.deps.Runs.Poll(w.Context(), group, hello)
}

func TestClientAgentPools(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	app, db := w.workspace("app"), w.workspace("db")
	first := w.pool("first")
	assert.True(t, first.OrganizationScoped)
	assert.Equal(t, "acme", first.Organization.Name)
	read, err := w.client.AgentPools.Read(ctx, first.ID)
	require.NoError(t, err)
	assert.Equal(t, first, read)

	project, err := w.client.Projects.Create(ctx, "acme", tfe.ProjectCreateOptions{Name: "payments"})
	require.NoError(t, err)
	narrow, err := w.client.AgentPools.Create(ctx, "acme", tfe.AgentPoolCreateOptions{
		Name: tfe.String("narrow"), OrganizationScoped: tfe.Bool(false), AllowedWorkspaces: []*tfe.Workspace{app},
		AllowedProjects: []*tfe.Project{project}, ExcludedWorkspaces: []*tfe.Workspace{db},
	})
	require.NoError(t, err)
	list := func(options tfe.AgentPoolListOptions) (names []string) {
		t.Helper()
		found, err := w.client.AgentPools.List(ctx, "acme", &options)
		require.NoError(t, err)
		for _, p := range found.Items {
			names = append(names, p.Name)
		}
		assert.Equal(t, len(names), found.TotalCount)
		return names
	}
	assert.Equal(t, []string{"first", "narrow"}, list(tfe.AgentPoolListOptions{}))
	assert.Equal(t, []string{"narrow", "first"}, list(tfe.AgentPoolListOptions{Sort: "-created-at"}))
	assert.Equal(t, []string{"narrow", "first"}, list(tfe.AgentPoolListOptions{Sort: "-name"}))
	assert.Equal(t, []string{"narrow"}, list(tfe.AgentPoolListOptions{Query: "ARR"}))
	assert.Equal(t, []string{"first", "narrow"}, list(tfe.AgentPoolListOptions{AllowedWorkspacesName: "app"}))
	assert.Equal(t, []string{"first"}, list(tfe.AgentPoolListOptions{AllowedWorkspacesName: "db"}))
	assert.Equal(t, []string{"first", "narrow"}, list(tfe.AgentPoolListOptions{AllowedProjectsName: "payments"}))
	assert.Empty(t, list(tfe.AgentPoolListOptions{AllowedWorkspacesName: "absent"}))

	renamed, err := w.client.AgentPools.Update(ctx, narrow.ID, tfe.AgentPoolUpdateOptions{Name: tfe.String("renamed")})
	require.NoError(t, err)
	assert.Equal(t, "renamed", renamed.Name)
	assert.Equal(t, narrow.AllowedWorkspaces, renamed.AllowedWorkspaces)
	assert.Equal(t, narrow.AllowedProjects, renamed.AllowedProjects)
	assert.Equal(t, narrow.ExcludedWorkspaces, renamed.ExcludedWorkspaces)
	emptied, err := w.client.AgentPools.UpdateAllowedWorkspaces(ctx, narrow.ID, tfe.AgentPoolAllowedWorkspacesUpdateOptions{AllowedWorkspaces: []*tfe.Workspace{}})
	require.NoError(t, err)
	assert.Empty(t, emptied.AllowedWorkspaces)
	assert.Equal(t, narrow.AllowedProjects, emptied.AllowedProjects)

	for _, name := range []string{"first", "a/b"} {
		_, err = w.client.AgentPools.Update(ctx, narrow.ID, tfe.AgentPoolUpdateOptions{Name: &name})
		assert.Error(t, err)
	}
	_, err = w.client.AgentPools.Create(ctx, "acme", tfe.AgentPoolCreateOptions{Name: tfe.String("first")})
	assert.ErrorContains(t, err, "Name has already been taken")
	_, err = w.client.AgentPools.Create(ctx, "acme", tfe.AgentPoolCreateOptions{Name: tfe.String("x"), AllowedWorkspaces: []*tfe.Workspace{{ID: "ws-1111111111111111"}}})
	assert.Equal(t, tfe.ErrResourceNotFound, err)

	bob := w.as(w.bob)
	_, err = bob.AgentPools.Read(ctx, first.ID)
	require.NoError(t, err, "members see pools")
	_, err = bob.AgentPools.Update(ctx, first.ID, tfe.AgentPoolUpdateOptions{Name: tfe.String("mine")})
	assert.ErrorContains(t, err, "agent-pools:manage")
	assert.ErrorContains(t, bob.AgentPools.Delete(ctx, first.ID), "agent-pools:manage")
	_, other := w.user(ctx, "eve")
	_, err = w.as(other).AgentPools.Read(ctx, first.ID)
	assert.Equal(t, tfe.ErrResourceNotFound, err, "who is not of the organization")

	require.NoError(t, w.client.AgentPools.Delete(ctx, narrow.ID))
	_, err = w.client.AgentPools.Read(ctx, narrow.ID)
	assert.Equal(t, tfe.ErrResourceNotFound, err)
	assert.Equal(t, "renamed", func() string { p := w.pool("renamed"); return p.Name }(), "the name is free again")
}

// TestEveryLauncherConverges is RP-14: four names are known, and all speak one protocol.
func TestEveryLauncherConverges(t *testing.T) {
	w := newWorld(t)
	for _, launcher := range []string{"local", "docker", "kubernetes", "github-actions"} {
		made := w.ask(w.ann, http.MethodPost, "/api/v2/organizations/acme/agent-pools", `{"data":{"type":"agent-pools","attributes":{"name":"`+launcher+`","launcher":"`+launcher+`","labels":["gpu"],"remote-runs":true}}}`)
		require.Equal(t, http.StatusCreated, made.status, "%s", made.body)
		assert.Equal(t, []any{launcher, []any{"gpu"}, true, false}, made.attributes("launcher", "labels", "remote-runs", "draining"))
	}
	for _, attributes := range []string{`"launcher":"ssh"`, `"launcher":""`, `"labels":["a b"]`, `"labels":[""]`} {
		refused := w.ask(w.ann, http.MethodPost, "/api/v2/organizations/acme/agent-pools", `{"data":{"type":"agent-pools","attributes":{"name":"x",`+attributes+`}}}`)
		assert.Equal(t, http.StatusUnprocessableEntity, refused.status, "%s: %s", attributes, refused.body)
	}
}

// TestAgentTokensDieAtOnce: a token is shown once, and deleting it ends what waits on it.
func TestAgentTokensDieAtOnce(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	pool := w.pool("runners")
	token, err := w.client.AgentTokens.Create(ctx, pool.ID, tfe.AgentTokenCreateOptions{Description: tfe.String("rack 3")})
	require.NoError(t, err)
	require.NotEmpty(t, token.Token)
	assert.Equal(t, "rack 3", token.Description)
	read, err := w.client.AgentTokens.Read(ctx, token.ID)
	require.NoError(t, err)
	assert.Empty(t, read.Token, "it is shown once")
	require.NotNil(t, read.CreatedBy)
	assert.True(t, read.LastUsedAt.IsZero())
	list, err := w.client.AgentTokens.List(ctx, pool.ID)
	require.NoError(t, err)
	assert.Equal(t, []*tfe.AgentToken{read}, list.Items)

	_, err = w.as(w.bob).AgentTokens.List(ctx, pool.ID)
	assert.ErrorContains(t, err, "agent-pools:manage")
	_, err = w.as(w.bob).AgentTokens.Read(ctx, token.ID)
	assert.ErrorContains(t, err, "agent-pools:manage")

	group, err := w.deps.Accounts.RunnerGroupByToken(ctx, token.Token)
	require.NoError(t, err)
	assert.Equal(t, pool.ID, string(group.ID))
	hello := dispatch.RunnerHello{Name: "r", TofuVersions: []string{"1.12.6"}}
	hello.ID, _, _, err = w.polls(token.Token, hello)
	require.NoError(t, err)
	used, err := w.client.AgentTokens.Read(ctx, token.ID)
	require.NoError(t, err)
	assert.WithinDuration(t, time.Now(), used.LastUsedAt, time.Minute)

	run := w.agentRun("app", pool.ID)
	_, offered, found, err := w.polls(token.Token, hello)
	require.NoError(t, err)
	require.True(t, found)
	assert.Equal(t, run, string(offered.RunID))
	require.NoError(t, w.client.AgentTokens.Delete(ctx, token.ID))
	_, _, _, err = w.polls(token.Token, hello)
	assert.True(t, fault.Is(err, fault.Unauthenticated), "%v", err)
	_, _, err = w.deps.Runs.Claim(ctx, group, hello)
	assert.True(t, fault.Is(err, fault.Unauthenticated), "a poll that waited with it: %v", err)
	_, err = w.client.AgentTokens.Read(ctx, token.ID)
	assert.Equal(t, tfe.ErrResourceNotFound, err)

	second, err := w.client.AgentTokens.Create(ctx, pool.ID, tfe.AgentTokenCreateOptions{Description: tfe.String("rack 4")})
	require.NoError(t, err)
	_, again, found, err := w.polls(second.Token, dispatch.RunnerHello{Name: "s", TofuVersions: []string{"1.12.6"}})
	require.NoError(t, err)
	assert.True(t, found && again.ID == offered.ID, "what it was offered and cannot accept goes to the others")
}

// agentRun makes a workspace on the pool and a run in it.
func (w *world) agentRun(name, pool string) (run string) {
	w.Helper()
	ctx := w.Context()
	ws, err := w.client.Workspaces.Create(ctx, "acme", tfe.WorkspaceCreateOptions{Name: &name, ExecutionMode: tfe.String("agent"), AgentPoolID: &pool})
	require.NoError(w, err)
	assert.Equal(w, pool, ws.AgentPool.ID)
	return w.queue(ws, tfe.RunCreateOptions{}).ID
}

func TestWorkspacesOfAPool(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	pool, other := w.pool("mine"), w.pool("other")
	update := func(ws *tfe.Workspace, options tfe.WorkspaceUpdateOptions) (*tfe.Workspace, error) {
		return w.client.Workspaces.UpdateByID(ctx, ws.ID, options)
	}
	plain := w.workspace("plain")
	for want, options := range map[string]tfe.WorkspaceUpdateOptions{
		"must be specified when using 'agent' execution mode":       {ExecutionMode: tfe.String("agent")},
		"must not be specified unless using 'agent' execution mode": {AgentPoolID: &pool.ID},
		"The provided agent pool does not exist":                    {ExecutionMode: tfe.String("agent"), AgentPoolID: tfe.String("apool-1111111111111111")},
	} {
		_, err := update(plain, options)
		assert.ErrorContains(t, err, want)
	}
	ws, err := update(plain, tfe.WorkspaceUpdateOptions{ExecutionMode: tfe.String("agent"), AgentPoolID: &pool.ID})
	require.NoError(t, err)
	assert.Equal(t, []string{"agent", pool.ID}, []string{ws.ExecutionMode, ws.AgentPool.ID})
	ws, err = update(plain, tfe.WorkspaceUpdateOptions{Description: tfe.String("kept")})
	require.NoError(t, err)
	assert.Equal(t, pool.ID, ws.AgentPool.ID)
	shown, err := w.client.AgentPools.ReadWithOptions(ctx, pool.ID, &tfe.AgentPoolReadOptions{Include: []tfe.AgentPoolIncludeOpt{tfe.AgentPoolWorkspaces}})
	require.NoError(t, err)
	require.Len(t, shown.Workspaces, 1)
	assert.Equal(t, "plain", shown.Workspaces[0].Name, "in full")
	assert.ErrorContains(t, w.client.AgentPools.Delete(ctx, pool.ID), "have their runs on agent pool")

	_, err = w.client.AgentPools.Update(ctx, other.ID, tfe.AgentPoolUpdateOptions{ExcludedWorkspaces: []*tfe.Workspace{ws}})
	require.NoError(t, err)
	_, err = update(plain, tfe.WorkspaceUpdateOptions{AgentPoolID: &other.ID})
	assert.ErrorContains(t, err, "may not be used by this workspace")

	ws, err = update(plain, tfe.WorkspaceUpdateOptions{ExecutionMode: tfe.String("remote")})
	require.NoError(t, err)
	assert.Nil(t, ws.AgentPool, "the pool goes with the mode")
	require.NoError(t, w.client.AgentPools.Delete(ctx, pool.ID))

	selected := w.ask(w.ann, http.MethodPatch, "/api/v2/workspaces/"+ws.ID, `{"data":{"type":"workspaces","attributes":{"runner-selector":["gpu","region=eu"]}}}`)
	assert.Equal(t, []any{[]any{"gpu", "region=eu"}}, selected.attributes("runner-selector"))
	selected = w.ask(w.ann, http.MethodPatch, "/api/v2/workspaces/"+ws.ID, `{"data":{"type":"workspaces","attributes":{"description":"x"}}}`)
	assert.Equal(t, []any{[]any{"gpu", "region=eu"}}, selected.attributes("runner-selector"))
	selected = w.ask(w.ann, http.MethodPatch, "/api/v2/workspaces/"+ws.ID, `{"data":{"type":"workspaces","attributes":{"runner-selector":null}}}`)
	assert.Equal(t, []any{[]any{}}, selected.attributes("runner-selector"))
	refused := w.ask(w.ann, http.MethodPatch, "/api/v2/workspaces/"+ws.ID, `{"data":{"type":"workspaces","attributes":{"runner-selector":["a,b"]}}}`)
	assert.Equal(t, http.StatusUnprocessableEntity, refused.status)
}

// TestDrain: a drained pool is offered nothing until it is resumed; a drained runner
// finishes what it has.
func TestDrain(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	pool := w.pool("runners")
	token, err := w.client.AgentTokens.Create(ctx, pool.ID, tfe.AgentTokenCreateOptions{Description: tfe.String("x")})
	require.NoError(t, err)
	busy, idle := dispatch.RunnerHello{Name: "busy", TofuVersions: []string{"1.12.6"}}, dispatch.RunnerHello{Name: "idle", TofuVersions: []string{"1.12.6"}, Labels: []string{"gpu"}, Address: "192.0.2.7"}
	busy.ID, _, _, err = w.polls(token.Token, busy)
	require.NoError(t, err)
	idle.ID, _, _, err = w.polls(token.Token, idle)
	require.NoError(t, err)
	w.agentRun("one", pool.ID)
	_, _, found, err := w.polls(token.Token, busy)
	require.NoError(t, err)
	require.True(t, found)

	agents, err := w.client.Agents.List(ctx, pool.ID, nil)
	require.NoError(t, err)
	require.Len(t, agents.Items, 2)
	assert.Equal(t, []string{"busy", "busy", "idle", "idle", "192.0.2.7"}, []string{agents.Items[0].Name, agents.Items[0].Status, agents.Items[1].Name, agents.Items[1].Status, agents.Items[1].IP})
	one, err := w.client.Agents.Read(ctx, string(idle.ID))
	require.NoError(t, err)
	assert.Equal(t, agents.Items[1], one)
	counted, err := w.client.AgentPools.Read(ctx, pool.ID)
	require.NoError(t, err)
	assert.Equal(t, 2, counted.AgentCount)

	w.agentRun("two", pool.ID)
	drained := w.ask(w.ann, http.MethodPost, "/api/v2/agent-pools/"+pool.ID+"/actions/drain", "")
	assert.Equal(t, []any{true}, drained.attributes("draining"))
	_, _, found, err = w.polls(token.Token, idle)
	require.NoError(t, err)
	assert.False(t, found, "nothing is offered to a drained pool")
	_, _, found, err = w.polls(token.Token, busy)
	require.NoError(t, err)
	assert.True(t, found, "what was offered is still there")
	resumed := w.ask(w.ann, http.MethodPost, "/api/v2/agent-pools/"+pool.ID+"/actions/resume", "")
	assert.Equal(t, []any{false}, resumed.attributes("draining"))

	ended := w.ask(w.ann, http.MethodPost, "/api/v2/agents/"+string(idle.ID)+"/actions/drain", "")
	assert.Equal(t, []any{true, []any{"gpu"}, []any{"1.12.6"}}, ended.attributes("draining", "labels", "tofu-versions"))
	_, _, found, err = w.polls(token.Token, idle)
	require.NoError(t, err)
	assert.False(t, found, "nor to a drained runner")
	assert.Equal(t, http.StatusConflict, w.ask(w.ann, http.MethodDelete, "/api/v2/agents/"+string(idle.ID), "").status, "it is there")
	third := dispatch.RunnerHello{Name: "third", TofuVersions: []string{"1.12.6"}}
	_, _, found, err = w.polls(token.Token, third)
	require.NoError(t, err)
	assert.True(t, found)

	for _, path := range []string{"/api/v2/agent-pools/" + pool.ID + "/actions/drain", "/api/v2/agents/" + string(idle.ID) + "/actions/drain"} {
		assert.Equal(t, http.StatusForbidden, w.ask(w.bob, http.MethodPost, path, "").status, "members do not drain")
	}
}

// TestTheSitesOwnGroupIsAPool: site admins see the group that serves all organizations
// by its id, and nobody else does.
func TestTheSitesOwnGroupIsAPool(t *testing.T) {
	w := newWorld(t)
	group := w.runner()
	path := "/api/v2/agent-pools/" + string(group.ID)
	assert.Equal(t, http.StatusNotFound, w.ask(w.ann, http.MethodGet, path, "").status)
	root, err := w.deps.Accounts.CreateUser(t.Context(), authz.System(), accounts.NewUser{Username: "root", SiteAdmin: true})
	require.NoError(t, err)
	token, _, err := w.deps.Accounts.CreateUserToken(t.Context(), authz.System(), root.ID, "", 0)
	require.NoError(t, err)
	shown := w.ask(token, http.MethodGet, path, "")
	assert.Equal(t, []any{"local", true}, shown.attributes("name", "remote-runs"))
	assert.Equal(t, http.StatusCreated, w.ask(token, http.MethodPost, path+"/authentication-tokens", `{"data":{"type":"authentication-tokens","attributes":{"description":"more"}}}`).status)
}
