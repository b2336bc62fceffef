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

// attemptOf is a run of the workspace at work.
func (w world) attemptOf(ws workspaces.Workspace, phase authz.Phase) authz.Actor {
	return authz.Actor{Kind: authz.AttemptActor, Attempt: ids.New[ids.Attempt](), Run: ids.New[ids.Run](), Organization: ws.Organization, Workspace: ws.ID, Phase: phase}
}

func (w world) shares(source, consumer workspaces.Workspace) (shared bool) {
	w.Helper()
	require.NoError(w, postgres.InSnapshot(ctx, w.db, "test", func(tx postgres.Tx) (err error) {
		shared, err = workspaces.SharesState(ctx, tx, source.ID, consumer.ID)
		return err
	}))
	return shared
}

func (w world) consumers(ws workspaces.Workspace) (names []string) {
	w.Helper()
	list, total, err := w.Consumers(ctx, w.owner, ws.ID, false, workspaces.Page{})
	require.NoError(w, err)
	require.Len(w, list, total)
	for _, c := range list {
		names = append(names, c.Name)
	}
	return names
}

// Whose runs read a workspace's state beside its own: those of all its organization, of its
// project, or of those that are named.
func TestWhoReadsTheStateOfAWorkspace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	project, err := w.CreateProject(ctx, w.owner, "acme", workspaces.NewProject{Name: "net"})
	require.NoError(t, err)
	in := func(name string) workspaces.Workspace {
		ws, err := w.Create(ctx, w.owner, "acme", workspaces.NewWorkspace{Name: name, Settings: workspaces.Settings{Project: &project.ID}})
		require.NoError(t, err)
		return ws
	}
	source, neighbour, named, foreign := in("source"), in("neighbour"), w.workspace("acme", "named"), w.workspace("other", "foreign")
	dead := in("dead")
	require.NoError(t, w.AddConsumers(ctx, w.owner, source.ID, []ids.Workspace{named.ID, dead.ID}))
	require.NoError(t, postgres.InTx(ctx, w.db, "test", func(tx postgres.Tx) error { return workspaces.Tombstone(ctx, tx, w.owner, dead.ID) }))

	for _, tt := range []struct {
		global, project bool
		readers         []string
	}{
		{false, false, []string{"named"}},
		{false, true, []string{"neighbour"}},
		{true, false, []string{"named", "neighbour"}},
	} {
		ws, err := w.Update(ctx, w.owner, source.ID, workspaces.Changes{Settings: workspaces.Settings{GlobalRemoteState: &tt.global, ProjectRemoteState: &tt.project}})
		require.NoError(t, err)
		assert.Equal(t, []bool{tt.global, tt.project}, []bool{ws.GlobalRemoteState, ws.ProjectRemoteState})
		assert.Equal(t, tt.readers, w.consumers(source), "%+v", tt)
		for _, reader := range []workspaces.Workspace{neighbour, named, foreign, dead, source} {
			assert.Equal(t, contains(tt.readers, reader.Name), w.shares(source, reader), "%+v: %s", tt, reader.Name)
		}
		assert.False(t, w.shares(named, source), "it goes one way")
		for _, phase := range []authz.Phase{authz.Plan, authz.Apply} {
			for _, reader := range []workspaces.Workspace{neighbour, named, foreign} {
				_, byID := w.Get(ctx, w.attemptOf(reader, phase), source.ID)
				_, byName := w.GetByName(ctx, w.attemptOf(reader, phase), "acme", "source")
				if contains(tt.readers, reader.Name) {
					assert.NoError(t, byID)
					assert.NoError(t, byName)
					continue
				}
				assert.True(t, fault.Is(byID, fault.NotFound), "%s: %v", reader.Name, byID)
				assert.True(t, fault.Is(byName, fault.NotFound), "%s: %v", reader.Name, byName)
			}
		}
	}
	_, err = w.Update(ctx, w.owner, source.ID, workspaces.Changes{Settings: workspaces.Settings{ProjectRemoteState: ptr(true)}})
	assert.True(t, fault.Is(err, fault.Invalid), "%v", err)
	assert.ErrorContains(t, err, "Project remote state cannot be enabled when global remote state sharing is enabled")
}

func contains(list []string, name string) bool {
	for _, item := range list {
		if item == name {
			return true
		}
	}
	return false
}

func TestConsumersAreNamedAndTakenAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	source, a, b, c := w.workspace("acme", "source"), w.workspace("acme", "a"), w.workspace("acme", "b"), w.workspace("acme", "c")
	foreign := w.workspace("other", "foreign")
	assert.Empty(t, w.consumers(source))
	require.NoError(t, w.AddConsumers(ctx, w.owner, source.ID, []ids.Workspace{a.ID, b.ID, a.ID}))
	require.NoError(t, w.AddConsumers(ctx, w.owner, source.ID, []ids.Workspace{a.ID}), "once more is no error")
	assert.Equal(t, []string{"a", "b"}, w.consumers(source))
	require.NoError(t, w.RemoveConsumers(ctx, w.owner, source.ID, []ids.Workspace{a.ID, c.ID}))
	assert.Equal(t, []string{"b"}, w.consumers(source))
	require.NoError(t, w.SetConsumers(ctx, w.owner, source.ID, []ids.Workspace{c.ID, a.ID}))
	assert.Equal(t, []string{"a", "c"}, w.consumers(source))
	assert.Equal(t, 3, w.audited("workspace.remote-state-consumers"), "what changed nothing is not told")
	list, total, err := w.Consumers(ctx, w.member, source.ID, false, workspaces.Page{Number: 2, Size: 1})
	require.NoError(t, err)
	assert.Equal(t, 2, total)
	require.Len(t, list, 1)
	assert.Equal(t, "c", list[0].Name)

	for name, change := range map[string]func(authz.Actor, ids.Workspace, []ids.Workspace) error{
		"add": func(who authz.Actor, ws ids.Workspace, list []ids.Workspace) error {
			return w.AddConsumers(ctx, who, ws, list)
		},
		"remove": func(who authz.Actor, ws ids.Workspace, list []ids.Workspace) error {
			return w.RemoveConsumers(ctx, who, ws, list)
		},
		"set": func(who authz.Actor, ws ids.Workspace, list []ids.Workspace) error {
			return w.SetConsumers(ctx, who, ws, list)
		},
	} {
		assert.True(t, fault.Is(change(w.member, source.ID, []ids.Workspace{b.ID}), fault.Forbidden), name)
		assert.True(t, fault.Is(change(w.nobody, source.ID, []ids.Workspace{b.ID}), fault.NotFound), name)
		assert.True(t, fault.Is(change(w.attemptOf(a, authz.Apply), source.ID, []ids.Workspace{b.ID}), fault.Forbidden), name)
		assert.True(t, fault.Is(change(system, source.ID, []ids.Workspace{foreign.ID}), fault.NotFound), name)
		assert.True(t, fault.Is(change(w.owner, source.ID, []ids.Workspace{source.ID}), fault.Invalid), name)
	}
	assert.Equal(t, []string{"a", "c"}, w.consumers(source))
}
