package workspaces_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/workspaces"
)

// inProject is a member of acme whose team has these levels in a project.
func (w world) inProject(project ids.Project, levels ...authz.Level) authz.Actor {
	return authz.Actor{
		Kind: authz.UserActor, User: w.member.User, Roles: map[ids.Organization]authz.Role{w.acme.ID: authz.Member},
		Grants: map[ids.Organization]authz.Grants{w.acme.ID: {Projects: map[ids.Project][]authz.Level{project: levels}}},
	}
}

// What is in a set has the rights of the set: neither to write variables of workspaces nor to
// read them is a right to a set, and who has the right to sets needs no other.
func TestVariablesOfASetTakeTheRightToSets(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	project, err := w.CreateProject(ctx, w.owner, "acme", workspaces.NewProject{Name: "net"})
	require.NoError(t, err)
	other, err := w.CreateProject(ctx, w.owner, "acme", workspaces.NewProject{Name: "other"})
	require.NoError(t, err)
	admin := w.inProject(project.ID, "project:admin")
	set, err := w.CreateVariableSet(ctx, admin, "acme", project.ID, workspaces.SetChanges{Name: ptr("ours")})
	require.NoError(t, err)
	wide := w.set("of all", workspaces.SetChanges{Global: ptr(true)}, map[string]string{"k": "v"})
	wide, err = w.VariableSet(ctx, w.owner, wide.ID)
	require.NoError(t, err)
	_, err = w.CreateVariableSet(ctx, w.owner, "acme", other.ID, workspaces.SetChanges{Name: ptr("theirs")})
	require.NoError(t, err)
	v := workspaces.Variable{Key: "a", Value: "1", Category: workspaces.Terraform}

	_, err = w.CreateSetVariable(ctx, w.inProject(project.ID, "project:write"), set.ID, v)
	assert.True(t, fault.Is(err, fault.Forbidden), "it writes variables of workspaces: %v", err)
	_, err = w.SetVariables(ctx, w.inProject(project.ID, "workspace:variables=write"), set.ID)
	assert.True(t, fault.Is(err, fault.NotFound), "it reads variables of workspaces: %v", err)
	made, err := w.CreateSetVariable(ctx, w.inProject(project.ID, "project:variable-sets=write"), set.ID, v)
	require.NoError(t, err)
	list, err := w.SetVariables(ctx, w.inProject(project.ID, "project:variable-sets=read"), set.ID)
	require.NoError(t, err)
	require.Len(t, list, 1)
	assert.Equal(t, made.ID, list[0].ID)
	_, err = w.UpdateSetVariable(ctx, admin, wide.ID, wide.Variables[0], workspaces.VariableChanges{Value: ptr("mine")})
	assert.True(t, fault.Is(err, fault.Forbidden), "the organization's: %v", err)
	_, err = w.CreateVariableSet(ctx, admin, "acme", "", workspaces.SetChanges{Name: ptr("for all")})
	assert.True(t, fault.Is(err, fault.Forbidden), "%v", err)

	names := func(actor authz.Actor) (names []string) {
		list, total, err := w.VariableSets(ctx, actor, "acme", workspaces.SetFilter{})
		require.NoError(t, err)
		require.Len(t, list, total)
		for _, one := range list {
			names = append(names, one.Name)
		}
		return names
	}
	assert.Equal(t, []string{"ours"}, names(admin))
	assert.Equal(t, []string{"of all", "ours", "theirs"}, names(w.owner))
	assert.Empty(t, names(w.inProject(project.ID, "workspace:admin")))
}

// A set of a project reaches nothing outside of it, whatever it is applied to and wherever
// that has moved since.
func TestASetOfAProjectStaysInIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	project, err := w.CreateProject(ctx, w.owner, "acme", workspaces.NewProject{Name: "net"})
	require.NoError(t, err)
	inside, err := w.Create(ctx, w.owner, "acme", workspaces.NewWorkspace{Name: "inside", Settings: workspaces.Settings{Project: &project.ID}})
	require.NoError(t, err)
	outside := w.workspace("acme", "outside")
	admin := w.inProject(project.ID, "project:admin")
	set, err := w.CreateVariableSet(ctx, admin, "acme", project.ID, workspaces.SetChanges{
		Name: ptr("ours"), Priority: ptr(true), Global: ptr(true), Workspaces: ptr([]ids.Workspace{inside.ID}), Projects: ptr([]ids.Project{project.ID}),
	})
	require.NoError(t, err)
	_, err = w.CreateSetVariable(ctx, admin, set.ID, workspaces.Variable{Key: "a", Value: "1", Category: workspaces.Env})
	require.NoError(t, err)
	assert.True(t, fault.Is(w.ApplyToWorkspaces(ctx, admin, set.ID, []ids.Workspace{outside.ID}), fault.NotFound))
	assert.True(t, fault.Is(w.ApplyToProjects(ctx, admin, set.ID, []ids.Project{outside.Project}), fault.NotFound))

	reaches := func(ws ids.Workspace) int {
		var above []workspaces.Variable
		require.NoError(t, w.tx(func(tx postgres.Tx) (err error) {
			_, above, err = w.ResolveVariables(ctx, tx, w.acme.ID, ws)
			return err
		}))
		list, total, err := w.WorkspaceVariableSets(ctx, w.owner, ws, workspaces.SetFilter{})
		require.NoError(t, err)
		require.Len(t, list, total)
		require.Len(t, above, total, "what is listed is what runs get")
		return total
	}
	assert.Equal(t, 1, reaches(inside.ID))
	assert.Equal(t, 0, reaches(outside.ID))
	_, err = w.Update(ctx, w.owner, inside.ID, workspaces.Changes{Settings: workspaces.Settings{Project: &outside.Project}})
	require.NoError(t, err)
	assert.Equal(t, 0, reaches(inside.ID), "it has moved away")
}

// Runs that the clock starts have the rights of whoever set the clock, so he must have them.
func TestWhoLetsTheClockStartRunsMayStartThem(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspace("acme", "w")
	soon := ptr(ws.CreatedAt.AddDate(1, 0, 0))
	token := authz.Actor{Kind: authz.OrganizationActor, Organization: w.acme.ID, Grants: map[ids.Organization]authz.Grants{w.acme.ID: {Levels: []authz.Level{authz.OrganizationToken}}}}
	for name, s := range map[string]workspaces.Settings{"destroy": {AutoDestroyAt: soon}, "assess": {AssessmentsEnabled: ptr(true)}} {
		_, err := w.Update(ctx, token, ws.ID, workspaces.Changes{Settings: s})
		assert.True(t, fault.Is(err, fault.Forbidden), "%s: %v", name, err)
		_, err = w.Update(ctx, w.owner, ws.ID, workspaces.Changes{Settings: s})
		assert.NoError(t, err, name)
	}
	_, err := w.Update(ctx, token, ws.ID, workspaces.Changes{Settings: workspaces.Settings{NoAutoDestroy: true, AssessmentsEnabled: ptr(false)}})
	assert.NoError(t, err, "to stop it takes no such right")
}

// Consumers and projects that one does not see are neither shown nor counted.
func TestConsumersAndProjectsThatOneDoesNotSee(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	project, err := w.CreateProject(ctx, w.owner, "acme", workspaces.NewProject{Name: "net"})
	require.NoError(t, err)
	in := func(name string) workspaces.Workspace {
		ws, err := w.Create(ctx, w.owner, "acme", workspaces.NewWorkspace{Name: name, Settings: workspaces.Settings{Project: &project.ID}})
		require.NoError(t, err)
		return ws
	}
	source, near, far := in("source"), in("near"), w.workspace("acme", "far")
	require.NoError(t, w.AddConsumers(ctx, w.owner, source.ID, []ids.Workspace{near.ID, far.ID}))
	reader := w.inProject(project.ID, "project:read")
	list, total, err := w.Consumers(ctx, reader, source.ID, false, workspaces.Page{})
	require.NoError(t, err)
	require.Len(t, list, 1)
	assert.Equal(t, 1, total)
	assert.Equal(t, near.ID, list[0].ID)
	seen, err := w.SomeProjects(ctx, reader, []ids.Project{project.ID, far.Project})
	require.NoError(t, err)
	require.Len(t, seen, 1)
	assert.Equal(t, project.ID, seen[0].ID)
	only := authz.Actor{
		Kind: authz.UserActor, User: w.member.User, Roles: reader.Roles,
		Grants: map[ids.Organization]authz.Grants{w.acme.ID: {Workspaces: map[ids.Workspace][]authz.Level{far.ID: {"workspace:read"}}}},
	}
	seen, err = w.SomeProjects(ctx, only, []ids.Project{project.ID, far.Project})
	require.NoError(t, err)
	require.Len(t, seen, 1, "where one sees a workspace one sees its project")
	assert.Equal(t, far.Project, seen[0].ID)
}
