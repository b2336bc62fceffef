package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/go-tfe"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Show 3: an apply that fails half-way holds its workspace until an operator vouches for
// what is there.
func TestAHalfFailedApplyHoldsTheWorkspaceUntilItIsRecovered(t *testing.T) {
	t.Parallel()
	// The client looks for the apply only a while after the plan, and shows no log of one that
	// has failed by then: hence the gate.
	cured, at := filepath.Join(t.TempDir(), "cured"), newGate(t)
	f := newFolder(t, shared, `resource "terraform_data" "first" {}`+"\n"+
		resource("second", at.command()+"; test -e "+cured, "depends_on = [terraform_data.first]"))
	f.init()

	apply := f.start("apply", "-auto-approve")
	eventually(t, "the client to follow the apply", func() bool {
		return strings.Contains(apply.said.String(), "terraform_data.second: Provisioning with 'local-exec'")
	})
	at.open()
	require.Equal(t, 1, apply.wait(t), apply.said)
	assert.Contains(t, apply.said.String(), "local-exec provisioner error")
	id := runIn(t, apply.said.String())
	facts := shared.runFacts(t, id)
	assert.Equal(t, "errored", facts.Status)
	assert.Equal(t, "apply_failed", facts.DurableStatus)
	assert.False(t, facts.Fence.Released)
	assert.True(t, f.current().Locked)

	assertHeld := func() {
		t.Helper()
		for _, command := range [][]string{{"plan"}, {"apply", "-auto-approve"}, {"destroy", "-auto-approve"}} {
			r := f.tofu(command...)
			assert.Equal(t, 1, r.code, r.said)
			assert.Contains(t, r.said, "Workspace locked")
			assert.Contains(t, r.said, id)
			assert.Contains(t, r.said, "holdfast admin recover "+id)
		}
		held := "/api/v2/workspaces/" + f.current().ID + "/actions/"
		assert.Contains(t, shared.post(t, held+"lock", "{}").refusal(t, http.StatusLocked).Detail, "holdfast admin recover")
		assert.Contains(t, shared.post(t, held+"unlock", "").refusal(t, http.StatusConflict).Detail, "holdfast admin recover")
		assert.Contains(t, shared.post(t, held+"force-unlock", "").refusal(t, http.StatusLocked).Detail, "holdfast admin recover")
	}
	assertHeld()

	rehearsal := shared.holdfast("admin", "break-glass", id, "--reason", "looked at it")
	require.Equal(t, 0, rehearsal.code, rehearsal.said)
	assert.Contains(t, rehearsal.said, "apply_failed")
	assert.Contains(t, rehearsal.said, "demo/"+f.workspace)
	assert.Contains(t, rehearsal.said, "Nothing was changed.")
	assert.Equal(t, facts, shared.runFacts(t, id))
	assertHeld()
	assert.NotEqual(t, 0, shared.holdfast("admin", "break-glass", id, "--apply").code, "a reason is needed")
	assertHeld()

	recovered := shared.holdfast("admin", "break-glass", id, "--reason", "only the first one was made", "--apply")
	require.Equal(t, 0, recovered.code, recovered.said)
	assert.False(t, f.current().Locked)
	facts = shared.runFacts(t, id)
	assert.Equal(t, "needs_recovery", facts.DurableStatus)
	assert.Equal(t, "errored", facts.Status)
	assert.True(t, facts.Fence.Released)
	twice := shared.holdfast("admin", "break-glass", id, "--reason", "once more", "--apply")
	assert.NotEqual(t, 0, twice.code)
	assert.Contains(t, twice.said, "nothing to release")

	require.NoError(t, os.WriteFile(cured, nil, 0o644))
	said := f.ok("plan")
	assert.Contains(t, said, "terraform_data.second is tainted, so it must be replaced")
	assert.NotContains(t, said, "terraform_data.first must", "the first one stays")
	assert.Contains(t, said, "Plan: 1 to add, 0 to change, 1 to destroy.")
	assert.Contains(t, f.ok("apply", "-auto-approve"), "Apply complete! Resources: 1 added, 0 changed, 1 destroyed.")
	assert.Equal(t, 0, f.tofu("plan", "-detailed-exitcode").code)
}

// Amendment 20: an apply that fails before it made anything has nothing to recover.
func TestAnApplyThatFailedWithNothingMadeIsReleased(t *testing.T) {
	t.Parallel()
	input := filepath.Join(t.TempDir(), "input")
	require.NoError(t, os.WriteFile(input, []byte("one"), 0o644))
	f := newFolder(t, shared, fmt.Sprintf("resource \"terraform_data\" \"first\" { input = file(%q) }", input))
	f.init()
	f.ok("apply", "-auto-approve")
	before := f.stateBytes()

	require.NoError(t, os.WriteFile(input, []byte("two"), 0o644))
	cv := shared.upload(t, f.current().ID, map[string]string{"main.tf": readFile(t, filepath.Join(f.dir, "main.tf"))})
	r, err := shared.api.Runs.Create(ctx, tfe.RunCreateOptions{Workspace: f.current(), ConfigurationVersion: cv})
	require.NoError(t, err)
	shared.reaches(t, r.ID, "awaiting_approval")
	require.NoError(t, os.Remove(input)) // what the plan saw is not there for the apply
	require.NoError(t, shared.api.Runs.Apply(ctx, r.ID, tfe.RunApplyOptions{}))
	facts := shared.ended(t, r.ID)
	assert.Equal(t, "errored", facts.Status)
	assert.Equal(t, "apply_failed", facts.DurableStatus)
	require.NotNil(t, facts.Fence)
	assert.True(t, facts.Fence.Released, facts.StatusMessage)
	assert.False(t, f.current().Locked)
	assert.Equal(t, string(before), string(f.stateBytes()))

	require.NoError(t, os.WriteFile(input, []byte("three"), 0o644))
	assert.Contains(t, f.ok("apply", "-auto-approve"), "Apply complete! Resources: 0 added, 1 changed")
}

// Case 103: an apply that the system kills, as it does when memory runs out, may have made
// what no state tells of. So it holds the workspace although nothing was published.
func TestAnApplyThatTheSystemKillsHoldsTheWorkspace(t *testing.T) {
	t.Parallel()
	w := shared.newWorkspace(t, workspaceName(t))
	r := shared.newRun(t, w.ID, resource("deadly", "kill -9 $PPID")) // the shell's parent is tofu
	facts := shared.ended(t, r.ID)
	assert.Equal(t, "needs_recovery", facts.DurableStatus)
	assert.Equal(t, "outcome_unknown", facts.DurableReason)
	assert.Contains(t, facts.StatusMessage, "signal: killed")
	w, err := shared.api.Workspaces.ReadByID(ctx, w.ID)
	require.NoError(t, err)
	assert.True(t, w.Locked)
	shared.get(t, "/api/v2/workspaces/"+w.ID+"/current-state-version").refusal(t, http.StatusNotFound)
	released := shared.holdfast("admin", "break-glass", r.ID, "--reason", "nothing was made", "--apply")
	require.Equal(t, 0, released.code, released.said)
	next := shared.newRun(t, w.ID, `resource "terraform_data" "next" {}`)
	assert.Equal(t, "applied", shared.ended(t, next.ID).Status)
}

func TestACanceledApplyHoldsTheWorkspace(t *testing.T) {
	t.Parallel()
	at := newGate(t)
	w := shared.newWorkspace(t, workspaceName(t))
	r := shared.newRun(t, w.ID, resource("slow", at.command()))
	at.reached()
	require.Equal(t, http.StatusAccepted, shared.post(t, fmt.Sprintf("/api/v2/runs/%s/actions/cancel", r.ID), "{}").status)
	facts := shared.ended(t, r.ID)
	assert.Equal(t, "canceled", facts.Status)
	assert.Equal(t, "apply_interrupted", facts.DurableStatus)
	w, err := shared.api.Workspaces.ReadByID(ctx, w.ID)
	require.NoError(t, err)
	assert.True(t, w.Locked)
}
