package runs

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// Who has a right in a project, or in one workspace, finds in lists of the organization what is
// there and nothing else, and what belongs to a run of it is his by the project.
func TestListsShowWhatOneSees(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	here, there := w.workspace(), w.workspace()
	project := ids.New[ids.Project]()
	var org ids.Organization
	require.NoError(t, postgres.InTx(ctx, w.db, "test", func(tx postgres.Tx) (err error) {
		if org, err = postgres.Value[ids.Organization](ctx, tx, "select organization_id from workspaces where id = @id", postgres.Args{"id": here}); err != nil {
			return err
		}
		if _, err = postgres.Exec(ctx, tx, "insert into projects (id, organization_id, name, description, is_default) values (@id, @org, 'net', '', false)", postgres.Args{"id": project, "org": org}); err != nil {
			return err
		}
		_, err = postgres.Exec(ctx, tx, "update workspaces set project_id = @project where id = @id", postgres.Args{"project": project, "id": here})
		return err
	}))
	mine, other := w.run(here), w.run(there)
	said, err := w.runs.CommentOn(ctx, w.owner, mine.ID, "hello")
	require.NoError(t, err)
	elsewhere, err := w.runs.CommentOn(ctx, w.owner, other.ID, "hello")
	require.NoError(t, err)
	trigger, err := w.runs.CreateTrigger(ctx, w.owner, there, here)
	require.NoError(t, err)
	inward, err := w.runs.CreateTrigger(ctx, w.owner, here, there)
	require.NoError(t, err)

	member := func(g authz.Grants) authz.Actor {
		return authz.Actor{
			Kind: authz.UserActor, User: w.member.User, Roles: map[ids.Organization]authz.Role{org: authz.Member}, Grants: map[ids.Organization]authz.Grants{org: g},
		}
	}
	for name, actor := range map[string]authz.Actor{
		"of the project":   member(authz.Grants{Projects: map[ids.Project][]authz.Level{project: {"project:read"}}}),
		"of the workspace": member(authz.Grants{Workspaces: map[ids.Workspace][]authz.Level{here: {"workspace:read"}}}),
	} {
		list, more, err := w.runs.OrganizationRuns(ctx, actor, "acme", Filter{Limit: 10})
		require.NoError(t, err, name)
		assert.False(t, more)
		require.Len(t, list, 1, name)
		assert.Equal(t, mine.ID, list[0].ID)
		c, err := w.runs.Comment(ctx, actor, said.ID)
		require.NoError(t, err, name)
		assert.Equal(t, "hello", c.Body)
		_, err = w.runs.Comment(ctx, actor, elsewhere.ID)
		assert.True(t, fault.Is(err, fault.NotFound), "%s: %v", name, err)
		_, err = w.runs.Trigger(ctx, actor, inward.ID)
		assert.NoError(t, err, name)
		_, err = w.runs.Trigger(ctx, actor, trigger.ID)
		assert.True(t, fault.Is(err, fault.NotFound), "%s: %v", name, err)
		served, total, err := w.runs.Triggers(ctx, actor, here, true, 10, 0)
		require.NoError(t, err, name)
		assert.Empty(t, served, "it would name a workspace that one does not see")
		assert.Zero(t, total)
		sources, total, err := w.runs.Triggers(ctx, actor, here, false, 10, 0)
		require.NoError(t, err, name)
		assert.Len(t, sources, 1, "what starts runs here is told")
		assert.Equal(t, 1, total)
	}
	list, _, err := w.runs.OrganizationRuns(ctx, member(authz.Grants{}), "acme", Filter{Limit: 10})
	require.NoError(t, err)
	assert.Empty(t, list)
	served, total, err := w.runs.Triggers(ctx, w.owner, here, true, 10, 0)
	require.NoError(t, err)
	assert.Len(t, served, 1)
	assert.Equal(t, 1, total)

	// A reader of very many workspaces: their runs are looked for in the order of all.
	w.exec("insert into workspace_counts (organization_id, project_id, living) values (@org, @project, 1000000)", postgres.Args{"org": org, "project": project})
	list, _, err = w.runs.OrganizationRuns(ctx, member(authz.Grants{
		Projects: map[ids.Project][]authz.Level{project: {"project:read"}}, Workspaces: map[ids.Workspace][]authz.Level{here: {"workspace:read"}},
	}), "acme", Filter{Limit: 10})
	require.NoError(t, err)
	require.Len(t, list, 1)
	assert.Equal(t, mine.ID, list[0].ID)
}
