package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/artifacts"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/envelope"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/internal/testdb"
)

func TestAdminResetsASecondFactor(t *testing.T) {
	db := testdb.New(t)
	t.Setenv("HOLDFAST_DATABASE_URL", testdb.URL(t))
	path := filepath.Join(t.TempDir(), "keyring")
	require.NoError(t, envelope.CreateKeyring(path))
	ring, err := envelope.OpenKeyring(path)
	require.NoError(t, err)
	who := accounts.New(db, artifacts.New(db, nil, ring))
	ada, err := who.CreateUser(t.Context(), authz.System(), accounts.NewUser{Username: "ada"})
	require.NoError(t, err)
	made, err := who.ProvisionTOTP(t.Context(), authz.System(), ada, "holdfast.test")
	require.NoError(t, err)

	_, err = adminUsers(t, "", "reset-totp", "ada")
	require.NoError(t, err)
	state, err := who.Factor(t.Context(), authz.Actor{Kind: authz.UserActor, User: ada.ID})
	require.NoError(t, err)
	assert.Nil(t, state.EnrolledAt)
	_, err = adminUsers(t, "", "reset-totp", "ada")
	assert.True(t, fault.HasCode(err, "totp_not_enrolled"))
	_, err = adminUsers(t, "", "reset-totp", "eve")
	assert.True(t, fault.Is(err, fault.NotFound))

	file := filepath.Join(t.TempDir(), "admin-totp")
	require.NoError(t, os.WriteFile(file, []byte(made.Secret+"\n"), 0o600))
	assert.NoError(t, totpCmd{File: file}.Run())
	require.NoError(t, os.WriteFile(file, []byte("1!"), 0o600))
	err = totpCmd{File: file}.Run()
	assert.True(t, fault.HasCode(err, "totp_secret_invalid"))
	assert.ErrorIs(t, totpCmd{File: file + ".gone"}.Run(), os.ErrNotExist)
}
