package envelope_test

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/envelope"
	"github.com/holdfast-run/holdfast/fault"
)

func ringFile(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "keyring.json")
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

func rootKey(letter string) string {
	return base64.StdEncoding.EncodeToString([]byte(strings.Repeat(letter, envelope.KeySize)))
}

func TestCreateKeyringOnce(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "keyring.json")
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() { assert.NoError(t, envelope.CreateKeyring(path)) })
	}
	wg.Wait()
	info, err := os.Stat(path)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	before, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, envelope.CreateKeyring(path))
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, before, after, "an existing ring is never replaced")
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, files, 1, "no temporary file stays")

	ring, err := envelope.OpenKeyring(path)
	require.NoError(t, err)
	has, err := ring.Has(t.Context(), 1)
	require.NoError(t, err)
	assert.True(t, has)

	assert.Error(t, envelope.CreateKeyring(filepath.Join(dir, "absent", "keyring.json")))
}

func TestOpenKeyringRefuses(t *testing.T) {
	good := fmt.Sprintf(`{"current":1,"versions":{"1":%q}}`, rootKey("a"))
	_, err := envelope.OpenKeyring(ringFile(t, good))
	require.NoError(t, err)

	for name, content := range map[string]string{
		"empty file":    "",
		"no keys":       `{"current":1,"versions":{}}`,
		"no current":    fmt.Sprintf(`{"versions":{"1":%q}}`, rootKey("a")),
		"wrong current": fmt.Sprintf(`{"current":2,"versions":{"1":%q}}`, rootKey("a")),
		"short key":     `{"current":1,"versions":{"1":"c2hvcnQ="}}`,
		"version zero":  fmt.Sprintf(`{"current":0,"versions":{"0":%q}}`, rootKey("a")),
		"other member":  fmt.Sprintf(`{"current":1,"kms":"x","versions":{"1":%q}}`, rootKey("a")),
		"cut":           good[:len(good)-1],
		"more after it": good + good,
	} {
		_, err := envelope.OpenKeyring(ringFile(t, content))
		assert.Truef(t, fault.Is(err, fault.Invalid), "%s: %v", name, err)
		if err != nil {
			assert.NotContains(t, err.Error(), rootKey("a"))
		}
	}

	for _, mode := range []os.FileMode{0o640, 0o604, 0o620, 0o602, 0o644} {
		path := ringFile(t, good)
		require.NoError(t, os.Chmod(path, mode))
		_, err := envelope.OpenKeyring(path)
		require.Truef(t, fault.Is(err, fault.Invalid), "%v: %v", mode, err)
		assert.Contains(t, err.Error(), "chmod 600")
	}
	_, err = envelope.OpenKeyring(filepath.Join(t.TempDir(), "absent"))
	assert.True(t, fault.Is(err, fault.Invalid))
}

func TestWrappedKeySurvivesRotation(t *testing.T) {
	ctx, aad, key := t.Context(), []byte("organization org-1 version 1"), envelope.NewKey()
	old, err := envelope.OpenKeyring(ringFile(t, fmt.Sprintf(`{"current":1,"versions":{"1":%q}}`, rootKey("a"))))
	require.NoError(t, err)
	wrapped, err := old.Wrap(ctx, aad, key)
	require.NoError(t, err)
	assert.Equal(t, 1, wrapped.RootVersion)
	assert.NotContains(t, string(wrapped.Bytes), string(key[:]))

	both, err := envelope.OpenKeyring(ringFile(t, fmt.Sprintf(`{"current":2,"versions":{"1":%q,"2":%q}}`, rootKey("a"), rootKey("b"))))
	require.NoError(t, err)
	got, err := both.Unwrap(ctx, aad, wrapped)
	require.NoError(t, err)
	assert.Equal(t, [envelope.KeySize]byte(key), [envelope.KeySize]byte(got))
	again, err := both.Wrap(ctx, aad, key)
	require.NoError(t, err)
	assert.Equal(t, 2, again.RootVersion)

	_, err = both.Unwrap(ctx, []byte("organization org-2 version 1"), wrapped)
	assert.True(t, fault.HasCode(err, "sealed_value_corrupt"))
	_, err = both.Unwrap(ctx, aad, envelope.Wrapped{RootVersion: 2, Bytes: wrapped.Bytes})
	assert.True(t, fault.HasCode(err, "sealed_value_corrupt"))
	_, err = old.Unwrap(ctx, aad, again)
	assert.True(t, fault.HasCode(err, "root_key_missing"))
	has, err := old.Has(ctx, 2)
	require.NoError(t, err)
	assert.False(t, has)
}
