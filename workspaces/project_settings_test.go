package workspaces_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/workspaces"
)

// What an organization settles reaches its projects and workspaces, except those that say
// something themselves; and each can go back to inheriting.
func TestTheExecutionModeIsInherited(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	project, err := w.CreateProject(ctx, w.owner, "acme", workspaces.NewProject{Name: "net"})
	require.NoError(t, err)
	in := func(name string, s workspaces.Settings) workspaces.Workspace {
		ws, err := w.Create(ctx, w.owner, "acme", workspaces.NewWorkspace{Name: name, Settings: s})
		require.NoError(t, err)
		return ws
	}
	plain, own := in("plain", workspaces.Settings{}), in("own", workspaces.Settings{ExecutionMode: ptr(workspaces.Remote)})
	below := in("below", workspaces.Settings{Project: &project.ID})
	modes := func() (list []workspaces.ExecutionMode) {
		for _, ws := range []workspaces.Workspace{plain, own, below} {
			got, err := w.Get(ctx, w.owner, ws.ID)
			require.NoError(t, err)
			list = append(list, got.ExecutionMode)
		}
		return list
	}
	organization := func(mode workspaces.ExecutionMode) {
		_, err := w.UpdateOrganization(ctx, w.owner, "acme", accounts.OrganizationChanges{OrganizationSettings: accounts.OrganizationSettings{DefaultExecutionMode: &mode}})
		require.NoError(t, err)
	}
	organization(workspaces.Local)
	assert.Equal(t, []workspaces.ExecutionMode{workspaces.Local, workspaces.Remote, workspaces.Local}, modes())
	_, err = w.UpdateProject(ctx, w.owner, project.ID, workspaces.ProjectChanges{ProjectSettings: workspaces.ProjectSettings{ExecutionMode: ptr(workspaces.Remote)}})
	require.NoError(t, err)
	organization(workspaces.Remote)
	organization(workspaces.Local)
	assert.Equal(t, []workspaces.ExecutionMode{workspaces.Local, workspaces.Remote, workspaces.Remote}, modes())
	_, err = w.UpdateProject(ctx, w.owner, project.ID, workspaces.ProjectChanges{ProjectSettings: workspaces.ProjectSettings{InheritMode: ptr(true)}})
	require.NoError(t, err)
	_, err = w.Update(ctx, w.owner, own.ID, workspaces.Changes{Settings: workspaces.Settings{InheritMode: ptr(true)}})
	require.NoError(t, err)
	assert.Equal(t, []workspaces.ExecutionMode{workspaces.Local, workspaces.Local, workspaces.Local}, modes())

	_, err = w.UpdateOrganization(ctx, w.owner, "acme", accounts.OrganizationChanges{OrganizationSettings: accounts.OrganizationSettings{DefaultAgentPool: ptr(ids.New[ids.RunnerGroup]())}})
	assert.ErrorContains(t, err, "must not be specified unless using 'agent' execution mode")
	_, err = w.CreateProject(ctx, w.owner, "acme", workspaces.NewProject{Name: "other", ProjectSettings: workspaces.ProjectSettings{ExecutionMode: ptr(workspaces.Agent)}})
	assert.ErrorContains(t, err, "must be specified when using 'agent' execution mode")
	_, err = w.CreateProject(ctx, w.owner, "acme", workspaces.NewProject{Name: "other", ProjectSettings: workspaces.ProjectSettings{ExecutionMode: ptr(workspaces.Agent), AgentPool: ptr(ids.New[ids.RunnerGroup]())}})
	assert.ErrorContains(t, err, "The provided agent pool does not exist")
	_, err = w.UpdateProject(ctx, w.member, project.ID, workspaces.ProjectChanges{Name: ptr("mine")})
	assert.True(t, fault.Is(err, fault.Forbidden))
}

func TestAProjectIsDeletedWhenItIsEmpty(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	project, err := w.CreateProject(ctx, w.owner, "acme", workspaces.NewProject{Name: "net"})
	require.NoError(t, err)
	ws, err := w.Create(ctx, w.owner, "acme", workspaces.NewWorkspace{Name: "w", Settings: workspaces.Settings{Project: &project.ID}})
	require.NoError(t, err)
	assert.True(t, fault.HasCode(w.DeleteProject(ctx, w.owner, project.ID), "project_not_empty"))
	assert.True(t, fault.HasCode(w.DeleteProject(ctx, w.owner, w.acme.DefaultProject), "project_is_default"))
	_, err = w.Update(ctx, w.owner, ws.ID, workspaces.Changes{Settings: workspaces.Settings{Project: &w.acme.DefaultProject}})
	require.NoError(t, err)
	require.NoError(t, w.DeleteProject(ctx, w.owner, project.ID))
	assert.True(t, fault.Is(w.DeleteProject(ctx, w.owner, project.ID), fault.NotFound))
	_, err = w.Project(ctx, w.owner, project.ID)
	assert.True(t, fault.Is(err, fault.NotFound))
	_, err = w.Create(ctx, w.owner, "acme", workspaces.NewWorkspace{Name: "late", Settings: workspaces.Settings{Project: &project.ID}})
	assert.True(t, fault.Is(err, fault.NotFound))
	_, err = w.CreateProject(ctx, w.owner, "acme", workspaces.NewProject{Name: "net"})
	assert.NoError(t, err, "its name is free")
}

func TestBindingsOfAProjectReachItsWorkspaces(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	project, err := w.CreateProject(ctx, w.owner, "acme", workspaces.NewProject{Name: "net", ProjectSettings: workspaces.ProjectSettings{
		Bindings: &[]workspaces.TagBinding{{Key: "env", Value: "prod"}, {Key: "cost", Value: "1"}},
	}})
	require.NoError(t, err)
	ws, err := w.Create(ctx, w.owner, "acme", workspaces.NewWorkspace{Name: "w", Settings: workspaces.Settings{Project: &project.ID}, Bindings: []workspaces.TagBinding{{Key: "env", Value: "dev"}}})
	require.NoError(t, err)
	effective, err := w.EffectiveBindings(ctx, []workspaces.Workspace{ws})
	require.NoError(t, err)
	require.Len(t, effective, 2)
	assert.Equal(t, []string{"cost", "env"}, []string{effective[0].Key, effective[1].Key})
	assert.Equal(t, []ids.Project{project.ID, ""}, []ids.Project{effective[0].InheritedFrom, effective[1].InheritedFrom})
	assert.Equal(t, "dev", effective[1].Value)
	found := func(key, value string) int {
		_, total, err := w.List(ctx, w.owner, "acme", workspaces.Filter{Bindings: []workspaces.TagBinding{{Key: key, Value: value}}})
		require.NoError(t, err)
		return total
	}
	assert.Equal(t, 1, found("cost", ""))
	assert.Equal(t, 0, found("env", "prod"), "its own value goes before")
	list, total, err := w.Projects(ctx, w.owner, "acme", workspaces.ProjectFilter{Bindings: []workspaces.TagBinding{{Key: "env", Value: "prod"}}}, workspaces.Page{})
	require.NoError(t, err)
	assert.Equal(t, []any{1, project.ID}, []any{total, list[0].ID})

	_, err = w.ReserveKey(ctx, w.owner, "acme", "cost", true)
	require.NoError(t, err)
	_, err = w.SetBindings(ctx, w.owner, ws.ID, []workspaces.TagBinding{{Key: "cost", Value: "2"}})
	assert.True(t, fault.HasCode(err, "reserved_tag_key"), "%v", err)
	_, err = w.ReserveKey(ctx, w.owner, "acme", "env", true)
	require.NoError(t, err)
	_, err = w.SetProjectBindings(ctx, w.owner, project.ID, []workspaces.TagBinding{{Key: "env", Value: "test"}})
	assert.True(t, fault.HasCode(err, "reserved_tag_key"), "a workspace has it otherwise already: %v", err)
	_, err = w.ReserveKey(ctx, w.owner, "acme", "env", false)
	assert.ErrorContains(t, err, "Key has already been taken")
	_, err = w.ReserveKey(ctx, w.owner, "acme", "bad\nkey", false)
	assert.ErrorContains(t, err, "Key is invalid")
	_, err = w.ReserveKey(ctx, w.member, "acme", "mine", false)
	assert.True(t, fault.Is(err, fault.Forbidden))
}

// Where runs are executed is changed by whoever says so, and not undone by somebody who read it
// before and changes something else: clients keep the settings of one workspace in two resources.
func TestWhatIsNotSaidOfTheExecutionModeStays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	project, err := w.CreateProject(ctx, w.owner, "acme", workspaces.NewProject{Name: "net", ProjectSettings: workspaces.ProjectSettings{ExecutionMode: ptr(workspaces.Remote)}})
	require.NoError(t, err)
	ws, err := w.Create(ctx, w.owner, "acme", workspaces.NewWorkspace{Name: "web", Settings: workspaces.Settings{ExecutionMode: ptr(workspaces.Remote), Project: &project.ID}})
	require.NoError(t, err)
	text, others := ptr("of the net"), make(chan error, 2)
	require.NoError(t, w.tx(func(tx postgres.Tx) error {
		for _, sql := range []string{"update projects set default_execution_mode = 'local' where id = @project", "update workspaces set execution_mode = 'local' where id = @workspace"} {
			if _, err := postgres.Exec(ctx, tx, sql, postgres.Args{"project": project.ID, "workspace": ws.ID}); err != nil {
				return err
			}
		}
		go func() {
			_, err := w.UpdateProject(ctx, w.owner, project.ID, workspaces.ProjectChanges{Description: text})
			others <- err
		}()
		go func() {
			_, err := w.Update(ctx, w.owner, ws.ID, workspaces.Changes{Settings: workspaces.Settings{Description: text, Project: &project.ID}})
			others <- err
		}()
		require.Eventually(t, func() bool {
			waiting := 0
			require.NoError(t, w.tx(func(tx postgres.Tx) (err error) {
				waiting, err = postgres.Value[int](ctx, tx, "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'", nil)
				return err
			}))
			return waiting == cap(others)
		}, time.Minute, 10*time.Millisecond)
		return nil
	}))
	require.NoError(t, <-others)
	require.NoError(t, <-others)
	ws, err = w.Get(ctx, w.owner, ws.ID)
	require.NoError(t, err)
	project, err = w.Project(ctx, w.owner, project.ID)
	require.NoError(t, err)
	assert.Equal(t, []any{*text, workspaces.Local, *text, workspaces.Local}, []any{ws.Description, ws.ExecutionMode, project.Description, project.ExecutionMode})
}
