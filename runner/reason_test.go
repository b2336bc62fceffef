package runner

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/runnerapi/wire"
)

// TestReasonOf: what tofu prints is wrapped to the width of a terminal, anywhere.
func TestReasonOf(t *testing.T) {
	missing := exec.Command("/nowhere/tofu").Run()
	for text, c := range map[string]struct {
		err  error
		want string
	}{
		"registry": {errors.New("exit status 1\n\nError: Incompatible provider version\n\nProvider registry.opentofu.org/hashicorp/template v2.2.0 does not have a\npackage available for your current platform, linux_arm64.\n"), wire.ReasonUnsupportedProvider},
		"mirror":   {errors.New("exit status 1\n\nError: Incompatible provider version\n\nYour chosen provider mirror at m does not have a x/y v1.0.0 package\navailable for your current platform, linux_arm64.\n"), wire.ReasonUnsupportedProvider},
		"no tofu":  {fmt.Errorf("run: %w", missing), wire.ReasonDispatchFailed},
		"no path":  {fmt.Errorf("run: %w", exec.ErrNotFound), wire.ReasonDispatchFailed},
		"other":    {errors.New("exit status 1\n\nError: Invalid block\n"), ""},
	} {
		var f *failure
		assert.ErrorAs(t, tofuFailed("init", c.err), &f, text)
		assert.Equal(t, c.want, f.reason, text)
	}
}

func TestAProviderWithoutAPackageForThePlatform(t *testing.T) {
	t.Parallel()
	f := newFakeServer(t, wire.Manifest{}, map[string]string{"main.tf": `
terraform {
  required_providers {
    fake = { source = "registry.invalid/x/fake" }
  }
}
resource "fake_thing" "a" {}
`})
	cfg := f.config()
	cfg.ProviderMirror = t.TempDir()
	dir := filepath.Join(cfg.ProviderMirror, "registry.invalid/x/fake/1.2.3/plan9_mips")
	require.NoError(t, os.MkdirAll(dir, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "terraform-provider-fake_v1.2.3"), nil, 0o700))
	start(t, cfg)
	done := f.await()
	assert.Equal(t, wire.OutcomeErrored, done.Outcome)
	assert.Equal(t, wire.ReasonUnsupportedProvider, done.Reason, f.logText())
}
