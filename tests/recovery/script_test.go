package recovery

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/tests/stack"
)

// The script that the runbook's examples come from does what it says, with the client's tofu and
// the operator's command line. (The stories in which a runner is lost wait too long for here.)
func TestTheScriptOfTheRunbook(t *testing.T) {
	t.Parallel()
	script, err := filepath.Abs("../../examples/recovery/run.sh")
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), program("holdfast"), "dev", "--data", filepath.Join(t.TempDir(), "data"), "--listen", "localhost:0", "--",
		script, "provider-error", "user-canceled", "control-plane-down")
	cmd.Env = append(stack.PlainEnviron(), "HOLDFAST_RUNNER_ISOLATION=external", "HOLDFAST_HEARTBEAT=1s")
	said, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", said)
	assert.Contains(t, string(said), "All was recovered.")
}
