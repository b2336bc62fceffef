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

func TestSSHKeysAreKeptSealedAndGivenToWorkspaces(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	key, err := w.CreateSSHKey(ctx, w.owner, "acme", "git", "PRIVATE")
	require.NoError(t, err)
	foreign, err := w.CreateSSHKey(ctx, system, "other", "git", "THEIRS")
	require.NoError(t, err)
	_, err = w.CreateSSHKey(ctx, w.owner, "acme", "git", " ")
	assert.ErrorContains(t, err, "Value can't be blank")
	_, err = w.CreateSSHKey(ctx, w.member, "acme", "git", "x")
	assert.True(t, fault.Is(err, fault.Forbidden))

	// Which keys there are is known to those who manage them, and to whoever can give one to a workspace.
	ws := w.workspace("acme", "w")
	reader, admin := w.member, w.member
	reader.Grants = map[ids.Organization]authz.Grants{ws.Organization: {Workspaces: map[ids.Workspace][]authz.Level{ws.ID: {"workspace:write"}}}}
	admin.Grants = map[ids.Organization]authz.Grants{ws.Organization: {Workspaces: map[ids.Workspace][]authz.Level{ws.ID: {"workspace:admin"}}}}
	_, _, err = w.SSHKeys(ctx, reader, "acme", workspaces.Page{})
	assert.True(t, fault.Is(err, fault.Forbidden), "%v", err)
	_, err = w.SSHKey(ctx, reader, key.ID)
	assert.True(t, fault.Is(err, fault.NotFound), "%v", err)
	assert.True(t, fault.Is(w.DeleteSSHKey(ctx, reader, key.ID), fault.NotFound))
	list, total, err := w.SSHKeys(ctx, admin, "acme", workspaces.Page{})
	require.NoError(t, err)
	assert.Equal(t, []any{1, "git"}, []any{total, list[0].Name})
	_, err = w.SSHKey(ctx, admin, key.ID)
	require.NoError(t, err)
	assert.True(t, fault.Is(w.DeleteSSHKey(ctx, admin, key.ID), fault.Forbidden))

	_, err = w.AssignSSHKey(ctx, w.owner, ws.ID, foreign.ID)
	assert.True(t, fault.Is(err, fault.NotFound))
	_, err = w.AssignSSHKey(ctx, w.member, ws.ID, key.ID)
	assert.True(t, fault.Is(err, fault.Forbidden))
	ws, err = w.AssignSSHKey(ctx, w.owner, ws.ID, key.ID)
	require.NoError(t, err)
	assert.Equal(t, key.ID, ws.SSHKey)
	_, err = w.UpdateSSHKey(ctx, w.owner, key.ID, ptr("renamed"), ptr("NEW"))
	require.NoError(t, err)
	require.NoError(t, w.tx(func(tx postgres.Tx) error {
		value, err := w.SSHKeyValue(ctx, tx, ws)
		assert.Equal(t, "NEW", value)
		if err != nil {
			return err
		}
		plain, err := postgres.Value[int](ctx, tx, "select count(*) from ssh_keys where position('NEW'::bytea in value_sealed) > 0", nil)
		assert.Zero(t, plain)
		return err
	}))
	require.NoError(t, w.DeleteSSHKey(ctx, w.owner, key.ID))
	ws, err = w.Get(ctx, w.owner, ws.ID)
	require.NoError(t, err)
	assert.Empty(t, ws.SSHKey)
	assert.True(t, fault.Is(w.DeleteSSHKey(ctx, w.owner, key.ID), fault.NotFound))
}

func TestRetentionPolicies(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspace("acme", "w")
	none, err := w.Retention(ctx, w.member, ws.ID)
	require.NoError(t, err)
	assert.Nil(t, none)
	_, err = w.SetRetention(ctx, w.owner, ws.ID, ptr(0))
	assert.True(t, fault.Is(err, fault.Invalid))
	_, err = w.SetRetention(ctx, w.member, ws.ID, ptr(3))
	assert.True(t, fault.Is(err, fault.Forbidden))
	first, err := w.SetRetention(ctx, w.owner, ws.ID, ptr(3))
	require.NoError(t, err)
	second, err := w.SetRetention(ctx, w.owner, ws.ID, ptr(4))
	require.NoError(t, err)
	assert.Equal(t, first.ID, second.ID, "of the same sort it is the same policy")
	third, err := w.SetRetention(ctx, w.owner, ws.ID, nil)
	require.NoError(t, err)
	assert.NotEqual(t, first.ID, third.ID)
	org, err := w.SetOrganizationRetention(ctx, w.owner, "acme", ptr(9))
	require.NoError(t, err)
	read, err := w.OrganizationRetention(ctx, w.member, "acme")
	require.NoError(t, err)
	assert.Equal(t, org, *read)
	require.NoError(t, w.ClearRetention(ctx, w.owner, ws.ID))
	require.NoError(t, w.ClearOrganizationRetention(ctx, w.owner, "acme"))
	got, err := w.Get(ctx, w.owner, ws.ID)
	require.NoError(t, err)
	assert.Empty(t, got.Shown.RetentionID)
}
