package runner

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/runnerapi/wire"
)

// Case 103: the system kills a tofu that needs too much memory. A plan has failed then; what
// an apply has done nobody knows.
func TestATofuThatTheSystemKills(t *testing.T) {
	t.Parallel()
	f := newFakeServer(t, wire.Manifest{}, map[string]string{"main.tf": ``})
	cfg := f.config()
	cfg.TofuPath = filepath.Join(t.TempDir(), "tofu")
	dying := fmt.Sprintf("#!/bin/sh\nif [ \"$1\" = plan ] && [ \"$2\" != -help ]; then kill -9 $$; fi\nexec %s \"$@\"\n", testTofu(t).path)
	require.NoError(t, os.WriteFile(cfg.TofuPath, []byte(dying), 0o755))
	start(t, cfg)
	done := f.await()
	assert.Equal(t, wire.OutcomeErrored, done.Outcome)
	assert.Equal(t, noExitCode, done.ExitCode)
	assert.Equal(t, "tofu plan was ended from outside (signal: killed), as a system does that runs out of memory.", done.Message)

	// The parent of what a provisioner starts is tofu itself.
	f, cfg = applyOf(t, wire.Manifest{}, map[string]string{"main.tf": `
resource "terraform_data" "first" {}
resource "terraform_data" "deadly" {
  depends_on = [terraform_data.first]
  provisioner "local-exec" { command = "kill -9 $PPID" }
}`}, func(*fakeServer) {})
	done = f.await()
	assert.Equal(t, wire.OutcomeUnknown, done.Outcome, f.logText())
	assert.True(t, done.TofuStarted)
	assert.Equal(t, noExitCode, done.ExitCode)
	assert.False(t, done.ErroredState)
	assert.Contains(t, done.Message, "tofu apply was ended from outside (signal: killed)")
	assert.Contains(t, f.logText(), "terraform_data.deadly: Provisioning with 'local-exec'...", "the log is whole")
	require.Eventually(t, func() bool {
		left, err := os.ReadDir(filepath.Join(cfg.Dir, "attempts"))
		return err == nil && len(left) == 0
	}, patience, 10*time.Millisecond, "nothing works there any more")
}
