package runner

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestLeftovers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	work := filepath.Join(dir, "attempts", "sbx-OLD", "config", "envs")
	require.NoError(t, os.MkdirAll(work, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(work, erroredState), []byte("precious"), 0o644))
	f, err := openFolder(dir)
	require.NoError(t, err)
	defer f.release()
	assert.NoDirExists(t, filepath.Join(dir, "attempts", "sbx-OLD"))
	text, err := os.ReadFile(filepath.Join(dir, "errored", "sbx-OLD.tfstate"))
	require.NoError(t, err)
	assert.Equal(t, "precious", string(text))

	_, err = openFolder(dir)
	assert.ErrorContains(t, err, "Another runner works in")
}

// No state displaces another one. That of the folder where tofu ran has the plain name.
func TestSeveralErroredStates(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	config := filepath.Join(dir, "attempts", "sbx-OLD", "config")
	for name, text := range map[string]string{
		"a/errored.tfstate": "of the configuration", "work/errored.tfstate": "precious", "work/" + overrideName: "", "z/errored.tfstate": "another",
	} {
		path := filepath.Join(config, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	for _, old := range []string{"", "precious"} { // the second time the plain name is taken
		if old != "" {
			require.NoError(t, os.MkdirAll(config, 0o700))
			require.NoError(t, os.WriteFile(filepath.Join(config, erroredState), []byte("later"), 0o600))
		}
		f, err := openFolder(dir)
		require.NoError(t, err)
		f.release()
	}
	for name, want := range map[string]string{"": "precious", "-2": "of the configuration", "-3": "another", "-4": "later"} {
		text, err := os.ReadFile(filepath.Join(dir, "errored", "sbx-OLD"+name+".tfstate"))
		require.NoError(t, err)
		assert.Equal(t, want, string(text))
	}
	assert.NoDirExists(t, filepath.Join(dir, "attempts", "sbx-OLD"))
}

// Folders that are closed to writing are removed all the same; what a link points to is left alone.
func TestClosedFolders(t *testing.T) {
	t.Parallel()
	dir, elsewhere := filepath.Join(t.TempDir(), "sbx"), t.TempDir()
	closed := filepath.Join(dir, "cache", "mod")
	require.NoError(t, os.MkdirAll(closed, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(closed, "file"), nil, 0o400))
	require.NoError(t, os.Symlink(elsewhere, filepath.Join(dir, "link")))
	require.NoError(t, os.Chmod(elsewhere, 0o500))
	require.NoError(t, os.Chmod(closed, 0o500))
	require.NoError(t, os.Chmod(filepath.Dir(closed), 0))

	openFolders(dir)
	for path, want := range map[string]os.FileMode{closed: 0o700, filepath.Dir(closed): 0o700, elsewhere: 0o500} {
		info, err := os.Stat(path)
		require.NoError(t, err)
		assert.Equal(t, want, info.Mode().Perm(), path)
	}
	require.NoError(t, os.Chmod(closed, 0o500))
	require.NoError(t, removeSandbox(dir))
	assert.NoDirExists(t, dir)
}

// A leftover that cannot be removed does not keep the runner from working.
func TestLeftoverThatStays(t *testing.T) {
	t.Parallel()
	if os.Geteuid() == 0 {
		t.Skip("root may remove everything")
	}
	dir := t.TempDir()
	attempts := filepath.Join(dir, "attempts")
	require.NoError(t, os.MkdirAll(filepath.Join(attempts, "sbx-OLD"), 0o700))
	require.NoError(t, os.Chmod(attempts, 0o500))
	f, err := openFolder(dir)
	require.NoError(t, os.Chmod(attempts, 0o700))
	require.NoError(t, err)
	f.release()
	assert.DirExists(t, filepath.Join(attempts, "sbx-OLD"))
}
