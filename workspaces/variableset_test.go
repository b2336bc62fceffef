package workspaces_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/workspaces"
)

func (w world) set(name string, c workspaces.SetChanges, values map[string]string) workspaces.VariableSet {
	w.Helper()
	c.Name = &name
	v, err := w.CreateVariableSet(ctx, w.owner, "acme", "", c)
	require.NoError(w, err)
	for key, value := range values {
		_, err := w.CreateSetVariable(ctx, w.owner, v.ID, workspaces.Variable{Key: key, Value: value, Category: workspaces.Terraform})
		require.NoError(w, err)
	}
	return v
}

// The more specific goes before the less specific, the first name before the last; with
// priority it is the other way round, and above what a run says itself.
func TestThePrecedenceOfVariableSets(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	project, err := w.CreateProject(ctx, w.owner, "acme", workspaces.NewProject{Name: "net"})
	require.NoError(t, err)
	ws, err := w.Create(ctx, w.owner, "acme", workspaces.NewWorkspace{Name: "w", Settings: workspaces.Settings{Project: &project.ID}})
	require.NoError(t, err)
	yes := ptr(true)
	on, in := ptr([]ids.Workspace{ws.ID}), ptr([]ids.Project{project.ID})
	all := func(value string) map[string]string {
		return map[string]string{"a": value, "b": value, "c": value, "d": value, "e": value}
	}
	w.set("global", workspaces.SetChanges{Global: yes}, all("global"))
	w.set("of the project", workspaces.SetChanges{Projects: in}, map[string]string{"b": "project", "c": "project", "d": "project"})
	w.set("x of the workspace", workspaces.SetChanges{Workspaces: on}, map[string]string{"c": "last", "d": "last"})
	w.set("of the workspace", workspaces.SetChanges{Workspaces: on}, map[string]string{"c": "first", "d": "first"})
	w.set("elsewhere", workspaces.SetChanges{Workspaces: ptr([]ids.Workspace{w.workspace("acme", "n").ID})}, all("elsewhere"))
	w.variable(ws.ID, workspaces.Variable{Key: "d", Value: "own", Category: workspaces.Terraform})
	w.variable(ws.ID, workspaces.Variable{Key: "a", Value: "environment", Category: workspaces.Env})
	w.set("above", workspaces.SetChanges{Global: yes, Priority: yes}, map[string]string{"f": "above", "g": "above"})
	w.set("above here", workspaces.SetChanges{Workspaces: on, Priority: yes}, map[string]string{"f": "here", "h": "here"})

	plain := func(list []workspaces.Variable) map[string]string {
		values := map[string]string{}
		for _, v := range list {
			require.NotContains(t, values, string(v.Category)+":"+v.Key)
			values[string(v.Category)+":"+v.Key] = v.Value
		}
		return values
	}
	var own, above []workspaces.Variable
	require.NoError(t, w.tx(func(tx postgres.Tx) (err error) {
		own, above, err = w.ResolveVariables(ctx, tx, w.acme.ID, ws.ID)
		return err
	}))
	assert.Equal(t, map[string]string{
		"terraform:a": "global", "terraform:b": "project", "terraform:c": "first", "terraform:d": "own", "terraform:e": "global", "env:a": "environment",
	}, plain(own))
	assert.Equal(t, map[string]string{"terraform:f": "above", "terraform:g": "above", "terraform:h": "here"}, plain(above))
	shown, err := w.AllVariables(ctx, w.member, ws.ID)
	require.NoError(t, err)
	assert.Len(t, shown, 9)
	list, total, err := w.WorkspaceVariableSets(ctx, w.member, ws.ID, workspaces.SetFilter{})
	require.NoError(t, err)
	assert.Equal(t, []int{6, 6}, []int{total, len(list)})
}

func TestVariableSetsRefuse(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	project, err := w.CreateProject(ctx, w.owner, "acme", workspaces.NewProject{Name: "net"})
	require.NoError(t, err)
	outside := w.workspace("acme", "outside")
	foreign := w.workspace("other", "foreign")
	v := w.set("s", workspaces.SetChanges{}, map[string]string{"k": "secret"})
	owned, err := w.CreateVariableSet(ctx, w.owner, "acme", project.ID, workspaces.SetChanges{Name: ptr("owned")})
	require.NoError(t, err)
	assert.Equal(t, project.ID, owned.Project)

	_, err = w.CreateVariableSet(ctx, w.owner, "acme", "", workspaces.SetChanges{Name: ptr("s")})
	assert.ErrorContains(t, err, "Name has already been taken")
	_, err = w.CreateVariableSet(ctx, w.owner, "acme", "", workspaces.SetChanges{})
	assert.ErrorContains(t, err, "Name can't be blank")
	assert.True(t, fault.Is(w.ApplyToWorkspaces(ctx, w.owner, v.ID, []ids.Workspace{foreign.ID}), fault.NotFound))
	assert.True(t, fault.Is(w.ApplyToWorkspaces(ctx, w.owner, owned.ID, []ids.Workspace{outside.ID}), fault.NotFound), "it is the project's")
	_, err = w.CreateSetVariable(ctx, w.owner, v.ID, workspaces.Variable{Key: "k", Category: workspaces.Terraform})
	assert.ErrorContains(t, err, "Key has already been taken")
	_, err = w.CreateSetVariable(ctx, w.owner, v.ID, workspaces.Variable{Key: "PATH", Category: workspaces.Env})
	assert.True(t, fault.HasCode(err, "reserved_variable"))
	_, err = w.CreateSetVariable(ctx, w.member, v.ID, workspaces.Variable{Key: "x", Category: workspaces.Env})
	assert.True(t, fault.Is(err, fault.Forbidden))
	_, err = w.VariableSet(ctx, w.nobody, v.ID)
	assert.True(t, fault.Is(err, fault.NotFound))

	variables, err := w.SetVariables(ctx, w.owner, v.ID)
	require.NoError(t, err)
	hidden, err := w.UpdateSetVariable(ctx, w.owner, v.ID, variables[0].ID, workspaces.VariableChanges{Sensitive: ptr(true)})
	require.NoError(t, err)
	assert.Empty(t, hidden.Value)
	assert.True(t, fault.Is(w.DeleteSetVariable(ctx, w.owner, owned.ID, variables[0].ID), fault.NotFound), "it is of another set")
	require.NoError(t, w.DeleteVariableSet(ctx, w.owner, v.ID))
	assert.True(t, fault.Is(w.DeleteVariableSet(ctx, w.owner, v.ID), fault.NotFound))
}
