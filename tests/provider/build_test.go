package provider

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var platform = runtime.GOOS + "_" + runtime.GOARCH

func TestMirrorHoldsTheTwoProvidersAndNothingElse(t *testing.T) {
	var files []string
	require.NoError(t, fs.WalkDir(os.DirFS(mirror), ".", func(path string, d fs.DirEntry, err error) error {
		if !d.IsDir() {
			files = append(files, path)
		}
		return err
	}))
	assert.Equal(t, []string{
		"registry.opentofu.org/hashicorp/null/3.2.999/" + platform + "/terraform-provider-null_v3.2.999",
		"registry.opentofu.org/holdfast-run/fault/1.0.0/" + platform + "/terraform-provider-fault_v1.0.0",
	}, files)
}

// What a second call finds in place it leaves, and what was damaged it mends from the cache.
func TestBuildAgain(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, build(dir))
	good := filepath.Join(dir, "registry.opentofu.org/holdfast-run/fault/1.0.0", platform, "terraform-provider-fault_v1.0.0")
	damaged := filepath.Join(dir, "registry.opentofu.org/hashicorp/null/3.2.999", platform, "terraform-provider-null_v3.2.999")
	untouched, err := os.Stat(good)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(damaged, []byte("no program"), 0o755))

	require.NoError(t, build(dir))
	after, err := os.Stat(good)
	require.NoError(t, err)
	assert.True(t, os.SameFile(untouched, after) && untouched.ModTime().Equal(after.ModTime()), "what is right stays")
	assert.NoError(t, exec.Command("cmp", damaged, filepath.Join(mirror, "registry.opentofu.org/hashicorp/null/3.2.999", platform, filepath.Base(damaged))).Run())
}

func TestBuildWantsAFolder(t *testing.T) {
	out, err := exec.Command("./build.sh").CombinedOutput()
	assert.Equal(t, 1, exitCode(err))
	assert.Equal(t, "build.sh: usage: build.sh DIR\n", string(out))
}
