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

// A tofu that does not even end when it is killed, here because something it started keeps its output
// open from a session of its own, is left to itself: nobody knows what it does, and its folder stays.
// What is told of it must not be that of the call that goes on: go test -race sees that.
func TestATofuThatDoesNotEnd(t *testing.T) {
	t.Parallel()
	f := newFakeServer(t, wire.Manifest{InterruptSeconds: 1}, map[string]string{"main.tf": ``})
	cfg := f.config()
	cfg.TofuPath = filepath.Join(t.TempDir(), "tofu")
	begun := filepath.Join(t.TempDir(), "begun")
	stuck := fmt.Sprintf("#!/bin/sh\nif [ \"$1\" = plan ] && [ \"$2\" != -help ]; then\n"+
		"touch '%s'; setsid sh -c 'while [ -e \"%s\" ]; do sleep 0.05; done' &\nwait\nfi\nexec '%s' \"$@\"\n", begun, begun, testTofu(t).path)
	require.NoError(t, os.WriteFile(cfg.TofuPath, []byte(stuck), 0o755))
	start(t, cfg)
	require.Eventually(t, func() bool { _, err := os.Stat(begun); return err == nil }, patience, 10*time.Millisecond)
	f.mu.Lock()
	f.stop = true
	f.mu.Unlock()
	done := f.await()
	assert.Equal(t, wire.OutcomeUnknown, done.Outcome, f.logText())
	assert.Equal(t, "tofu did not end although it was killed.", done.Message)
	assert.Empty(t, f.artifacts[wire.KindPlan])
	left, err := os.ReadDir(filepath.Join(cfg.Dir, "attempts"))
	require.NoError(t, err)
	assert.Len(t, left, 1, "it may still work there")
}
