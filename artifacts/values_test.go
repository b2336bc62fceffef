package artifacts_test

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/artifacts"
	"github.com/holdfast-run/holdfast/envelope"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/internal/testdb"
	"github.com/holdfast-run/holdfast/postgres"
)

func sealValue(t *testing.T, f *fixture, s *artifacts.Service, org ids.Organization, label, plain string) []byte {
	t.Helper()
	var sealed []byte
	require.NoError(t, f.tx(t, func(tx postgres.Tx) (err error) {
		sealed, err = s.SealValue(t.Context(), tx, org, label, []byte(plain))
		return err
	}))
	return sealed
}

func openValue(t *testing.T, f *fixture, s *artifacts.Service, org ids.Organization, label string, sealed []byte) (string, error) {
	t.Helper()
	var plain []byte
	err := f.tx(t, func(tx postgres.Tx) (err error) {
		plain, err = s.OpenValue(t.Context(), tx, org, label, sealed)
		return err
	})
	return string(plain), err
}

func TestValueOpensOnlyInItsPlace(t *testing.T) {
	f := newFixture(t)
	other := f.newOrganization(t)
	sealed := sealValue(t, f, f.Service, f.org, "variable var-1", "hunter2")
	assert.NotContains(t, string(sealed), "hunter2")

	plain, err := openValue(t, f, f.Service, f.org, "variable var-1", sealed)
	require.NoError(t, err)
	assert.Equal(t, "hunter2", plain)

	fresh := artifacts.New(f.db, f.store, openRing(t, f.keyring)) // nothing cached
	plain, err = openValue(t, f, fresh, f.org, "variable var-1", sealed)
	require.NoError(t, err)
	assert.Equal(t, "hunter2", plain)

	for name, try := range map[string]struct {
		org    ids.Organization
		label  string
		sealed []byte
	}{
		"another label":        {f.org, "variable var-2", sealed},
		"another organization": {other, "variable var-1", sealed},
		"cut":                  {f.org, "variable var-1", sealed[:len(sealed)-1]},
		"nothing":              {f.org, "variable var-1", nil},
		"no version":           {f.org, "variable var-1", append([]byte{0}, sealed[1:]...)},
		"endless version":      {f.org, "variable var-1", []byte(strings.Repeat("\xff", 20))},
	} {
		_, err := openValue(t, f, f.Service, try.org, try.label, try.sealed)
		assert.Truef(t, fault.Is(err, fault.Internal) && fault.HasCode(err, "sealed_value_corrupt"), "%s: %v", name, err)
	}
	_, err = openValue(t, f, f.Service, f.org, "variable var-1", append([]byte{9}, sealed[1:]...))
	assert.True(t, fault.HasCode(err, "organization_key_missing"), "%v", err)
}

func TestASiteValueOpensOnlyInItsPlace(t *testing.T) {
	f := newFixture(t)
	root, sealed, err := f.SealSiteValue(t.Context(), "totp user-1", []byte("hunter2"))
	require.NoError(t, err)
	assert.NotContains(t, string(sealed), "hunter2")
	_, again, err := f.SealSiteValue(t.Context(), "totp user-1", []byte("hunter2"))
	require.NoError(t, err)
	assert.NotEqual(t, sealed, again)
	fresh := artifacts.New(f.db, f.store, openRing(t, f.keyring))
	plain, err := fresh.OpenSiteValue(t.Context(), "totp user-1", root, sealed)
	require.NoError(t, err)
	assert.Equal(t, "hunter2", string(plain))

	for name, try := range map[string]struct {
		label  string
		sealed []byte
	}{
		"another label": {"totp user-2", sealed},
		"cut":           {"totp user-1", sealed[:len(sealed)-1]},
		"nothing":       {"totp user-1", nil},
		"no key":        {"totp user-1", append([]byte{0}, sealed[1:]...)},
		"endless key":   {"totp user-1", []byte(strings.Repeat("\xff", 20))},
		"mixed":         {"totp user-1", append(append([]byte{}, sealed[:len(sealed)/2]...), again[len(sealed)/2:]...)},
	} {
		_, err := f.OpenSiteValue(t.Context(), try.label, root, try.sealed)
		assert.Truef(t, fault.HasCode(err, "sealed_value_corrupt"), "%s: %v", name, err)
	}
	_, err = f.OpenSiteValue(t.Context(), "totp user-1", root+1, sealed)
	assert.True(t, fault.HasCode(err, "root_key_missing"), "%v", err)
}

func TestOrganizationKeepsItsFirstKey(t *testing.T) {
	f := newFixture(t)
	sealed := sealValue(t, f, f.Service, f.org, "x", "value")
	require.NoError(t, f.tx(t, func(tx postgres.Tx) error { return f.CreateOrganizationKey(t.Context(), tx, f.org) }))
	fresh := artifacts.New(f.db, f.store, openRing(t, f.keyring))
	plain, err := openValue(t, f, fresh, f.org, "x", sealed)
	require.NoError(t, err)
	assert.Equal(t, "value", plain)
}

func TestNothingIsSealedWithoutAKey(t *testing.T) {
	f := newFixture(t)
	spec := f.spec(artifacts.KindState)
	spec.Organization = ids.New[ids.Organization]()
	_, err := f.Put(t.Context(), spec, strings.NewReader("x"), 0)
	assert.True(t, fault.HasCode(err, "organization_key_missing"), "%v", err)
	assert.Empty(t, f.store.Keys())
}

func TestNewerKeyVersionIsUsedAndOlderStaysReadable(t *testing.T) {
	f := newFixture(t)
	spec := f.spec(artifacts.KindState)
	old := f.put(t, spec, "old")
	oldValue := sealValue(t, f, f.Service, f.org, "x", "old value")
	require.NoError(t, f.tx(t, func(tx postgres.Tx) error {
		aad := []byte(fmt.Sprintf("holdfast organization key v1 %s 2", f.org))
		w, err := openRing(t, f.keyring).Wrap(t.Context(), aad, envelope.NewKey())
		require.NoError(t, err)
		_, err = tx.Exec(t.Context(), "insert into organization_keys (organization_id, version, root_version, wrapped) values ($1, 2, $2, $3)", f.org, w.RootVersion, w.Bytes)
		return err
	}))
	fresh := f.put(t, spec, "new")
	assert.NotNil(t, f.store.Bytes(bodyKey(spec, fresh.ID)+".dek.2"))
	assert.NotNil(t, f.store.Bytes(string(f.org)+"/organization-key.2"))
	for id, want := range map[ids.Object]string{old.ID: "old", fresh.ID: "new"} {
		got, err := f.read(t, f.org, id)
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
	plain, err := openValue(t, f, f.Service, f.org, "x", oldValue)
	require.NoError(t, err)
	assert.Equal(t, "old value", plain)
}

func TestCheckKeysRefusesARingThatLacksAVersion(t *testing.T) {
	f := newFixture(t)
	require.NoError(t, f.CheckKeys(t.Context()))

	path := filepath.Join(t.TempDir(), "other.json")
	root := base64.StdEncoding.EncodeToString(make([]byte, envelope.KeySize))
	require.NoError(t, os.WriteFile(path, []byte(fmt.Sprintf(`{"current":2,"versions":{"2":%q}}`, root)), 0o600))
	wrong := artifacts.New(f.db, f.store, openRing(t, path))
	err := wrong.CheckKeys(t.Context())
	assert.True(t, fault.Is(err, fault.Internal) && fault.HasCode(err, "root_key_missing"), "%v", err)
	assert.Contains(t, err.Error(), "version 1")

	t.Run("of a user's factor", func(t *testing.T) {
		db := testdb.New(t)
		require.NoError(t, postgres.InTx(t.Context(), db, "test", func(tx postgres.Tx) error {
			_, err := tx.Exec(t.Context(), "with u as (insert into users (id, username) values ('user-1', 'ada') returning id) insert into totp_factors (user_id, root_version, secret_sealed) select id, 1, '' from u")
			return err
		}))
		assert.True(t, fault.HasCode(artifacts.New(db, f.store, openRing(t, path)).CheckKeys(t.Context()), "root_key_missing"))
	})
	t.Run("nothing is sealed yet", func(t *testing.T) {
		assert.NoError(t, artifacts.New(testdb.New(t), f.store, openRing(t, path)).CheckKeys(t.Context()))
	})
}
