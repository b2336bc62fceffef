package runner

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const faultAddress = "registry.opentofu.org/holdfast-run/fault"

// installed is a sandbox in which init has installed one provider.
func installed(t *testing.T) (box sandbox, program, lock string) {
	t.Helper()
	box, err := newSandbox(t.TempDir())
	require.NoError(t, err)
	require.NoError(t, box.enter(""))
	program = filepath.Join(box.work, ".terraform/providers", faultAddress, "1.0.0", platform, "terraform-provider-fault")
	require.NoError(t, os.MkdirAll(filepath.Join(filepath.Dir(program), "docs"), 0o700))
	require.NoError(t, os.WriteFile(program, []byte("the program"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(program), "docs", "README"), []byte("read me"), 0o600))
	h1, err := packageHash(filepath.Dir(program))
	require.NoError(t, err)
	lock = "# of tofu\nprovider \"" + faultAddress + "\" {\n  version = \"1.0.0\"\n  hashes = [\n    \"h1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\",\n    \"" + h1 + "\",\n    \"zh:00\",\n  ]\n}\n"
	require.NoError(t, os.WriteFile(box.lockFile(), []byte(lock), 0o600))
	return box, program, lock
}

// another is a later sandbox with that lock file and nothing installed.
func another(t *testing.T, lock string) sandbox {
	t.Helper()
	box, err := newSandbox(t.TempDir())
	require.NoError(t, err)
	require.NoError(t, box.enter(""))
	require.NoError(t, os.WriteFile(box.lockFile(), []byte(lock), 0o600))
	return box
}

func lent(t *testing.T, s shelf, lock string, elsewhere ...string) []string {
	t.Helper()
	box := another(t, lock)
	addresses, folders, err := s.lay(box, elsewhere)
	require.NoError(t, err)
	require.Len(t, folders, len(addresses))
	for i, address := range addresses {
		content, err := os.ReadFile(filepath.Join(box.mirror(), address, "1.0.0", platform, "terraform-provider-fault"))
		require.NoError(t, err)
		assert.Equal(t, "the program", string(content))
		assert.True(t, strings.HasPrefix(folders[i], s.dir))
	}
	return addresses
}

func TestTheCacheLendsWhatALockFileNames(t *testing.T) {
	t.Parallel()
	box, _, lock := installed(t)
	s := packages{t.TempDir()}.shelf("org-1", false)
	s.take(box)
	s.take(box) // once more changes nothing
	assert.Equal(t, []string{faultAddress}, lent(t, s, lock))
	assert.Empty(t, lent(t, s, strings.ReplaceAll(lock, "h1:", "h2:")), "not for a lock file with no hash of it")
	assert.Empty(t, lent(t, s, ""), "not where the version is still to be found")
	assert.Empty(t, lent(t, s, strings.ReplaceAll(lock, faultAddress, "registry.opentofu.org/../../etc")), "nor for an address that is none")
	assert.Empty(t, lent(t, s, lock, faultAddress), "not what comes from a mirror")
	kept, err := filepath.Glob(filepath.Join(s.dir, "*", "terraform-provider-fault"))
	require.NoError(t, err)
	require.Len(t, kept, 1)
	info, err := os.Stat(kept[0])
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o500), info.Mode())
}

func TestTheCacheIsDivided(t *testing.T) {
	t.Parallel()
	box, _, lock := installed(t)
	p := packages{t.TempDir()}
	p.shelf("org-1", true).take(box)
	assert.Equal(t, []string{faultAddress}, lent(t, p.shelf("org-1", true), lock))
	assert.Empty(t, lent(t, p.shelf("org-1", false), lock), "what a speculative run has installed is not there for one that applies")
	p.shelf("org-1", false).take(box)
	assert.Empty(t, lent(t, p.shelf("org-2", false), lock), "nor for another organization")
	assert.Empty(t, lent(t, p.shelf("org-2", true), lock))
	for _, none := range []shelf{{}, p.shelf("", false), p.shelf("../org-1", false), packages{}.shelf("org-1", false)} {
		none.take(box)
		assert.Empty(t, lent(t, none, lock))
	}
}

func TestWhatTheCacheDoesNotTake(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(box sandbox, program string) error{
		"other bytes":   func(_ sandbox, program string) error { return os.WriteFile(program, []byte("tampered"), 0o700) },
		"one file more": func(_ sandbox, program string) error { return os.WriteFile(program+"-2", nil, 0o600) },
		"a link to it":  func(_ sandbox, program string) error { return os.Symlink(program, program+"-2") },
		"a linked package": func(_ sandbox, program string) error {
			dir := filepath.Dir(program)
			if err := os.Rename(dir, dir+"-moved"); err != nil {
				return err
			}
			return os.Symlink(dir+"-moved", dir)
		},
		"a way out": func(box sandbox, _ string) error {
			outside := box.path + "-outside"
			if err := os.Rename(filepath.Join(box.work, ".terraform"), outside); err != nil {
				return err
			}
			return os.Symlink(outside, filepath.Join(box.work, ".terraform"))
		},
		"no lock file": func(box sandbox, _ string) error { return os.Remove(box.lockFile()) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			box, program, lock := installed(t)
			require.NoError(t, spoil(box, program))
			s := packages{t.TempDir()}.shelf("org-1", false)
			s.take(box)
			assert.Empty(t, lent(t, s, lock))
			left, err := filepath.Glob(filepath.Join(s.dir, "*"))
			require.NoError(t, err)
			hidden, err := filepath.Glob(filepath.Join(s.dir, ".*"))
			require.NoError(t, err)
			assert.Empty(t, append(left, hidden...), "and nothing is left of the try")
		})
	}
}

func TestWhatChangesInTheCacheGoes(t *testing.T) {
	t.Parallel()
	box, _, lock := installed(t)
	p := packages{t.TempDir()}
	s := p.shelf("org-1", false)
	s.take(box)
	kept, err := filepath.Glob(filepath.Join(s.dir, "*"))
	require.NoError(t, err)
	require.Len(t, kept, 1)
	program := filepath.Join(kept[0], "terraform-provider-fault")
	require.NoError(t, os.Chmod(program, 0o700))
	require.NoError(t, os.WriteFile(program, []byte("tampered"), 0o700))
	assert.Empty(t, lent(t, s, lock))
	assert.NoDirExists(t, kept[0])

	s.take(box)
	half := filepath.Join(s.dir, unfinished+"1")
	require.NoError(t, os.Mkdir(half, 0o700))
	p.clear()
	assert.Equal(t, []string{faultAddress}, lent(t, s, lock), "it is used")
	assert.NoDirExists(t, half)
	long := time.Now().Add(-unusedFor - time.Hour)
	require.NoError(t, os.Chtimes(kept[0], long, long))
	p.clear()
	assert.NoDirExists(t, kept[0])
}
