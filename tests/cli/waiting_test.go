package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/go-tfe"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const prompt = `Do you want to perform these actions in workspace "w"?`

// NC-15: at its prompt the client learns of a decision that was made elsewhere.
func TestADecisionElsewhereWhileTheClientPrompts(t *testing.T) {
	t.Parallel()
	d, f := inCloudWorkspace(t, numbered)

	s := f.start("apply", "-var=n=1")
	s.await(prompt)
	run := d.newest()
	require.True(t, run.Actions.IsConfirmable)
	require.NoError(t, shared.api.Runs.Discard(ctx, run.ID, tfe.RunDiscardOptions{Comment: tfe.String("not today")}))
	s.await("discarded using the UI or API")
	r := s.end()
	assert.Equal(t, 1, r.code, r.said)
	assert.Contains(t, r.said, "Apply discarded.")
	assert.Equal(t, tfe.RunDiscarded, d.newest().Status)
	assert.False(t, d.workspace("w").Locked)

	s = f.start("apply", "-var=n=2")
	s.await(prompt)
	require.NoError(t, shared.api.Runs.Apply(ctx, d.newest().ID, tfe.RunApplyOptions{Comment: tfe.String("go on")}))
	s.await("approved using the UI or API")
	r = s.end()
	assert.Equal(t, 0, r.code, r.said)
	assert.Contains(t, r.said, "Apply complete! Resources: 1 added, 0 changed, 0 destroyed.")
	assert.Equal(t, "2", f.output("n"))
	assert.Equal(t, tfe.RunApplied, d.newest().Status)
}

// NC-06: the client waits for its turn as long as it was told to, and then takes its run back.
func TestLockTimeoutOfARemoteRun(t *testing.T) {
	t.Parallel()
	d, f := inCloudWorkspace(t, numbered)
	w := d.workspace("w")
	lock(t, w.ID)

	s := f.start("apply", "-auto-approve", "-lock-timeout=10s") // in which it looks once, and says so, on any machine
	s.await("Waiting for the manually locked workspace to be unlocked")
	s.await("Lock timeout exceeded")
	r := s.end()
	assert.Contains(t, r.said, "The remote operation was successfully cancelled.")
	given := d.newest()
	assert.Equal(t, tfe.RunCanceled, given.Status)

	s = f.start("apply", "-auto-approve", "-lock-timeout=5m")
	s.await("Waiting for the manually locked workspace to be unlocked")
	unlock(t, w.ID)
	r = s.end()
	require.Equal(t, 0, r.code, r.said)
	assert.Contains(t, r.said, "Apply complete! Resources: 1 added")
	assert.NotEqual(t, given.ID, d.newest().ID)
}

// RC-08: no client gets past a workspace that is held for recovery, wherever it would work.
func TestAHeldWorkspaceRefusesEveryClient(t *testing.T) {
	t.Parallel()
	// The gate: a client shows no log of an apply that has failed before it looks.
	gate := filepath.Join(t.TempDir(), "gate")
	d, f := inCloudWorkspace(t, fmt.Sprintf(`resource "terraform_data" "a" {
		provisioner "local-exec" { command = "until test -e %s; do sleep 0.1; done; exit 1" }
	}`, gate))
	s := f.start("apply", "-auto-approve")
	s.await("Provisioning with 'local-exec'")
	require.NoError(t, os.WriteFile(gate, nil, 0o600))
	r := s.end()
	require.Equal(t, 1, r.code, r.said)
	assert.Contains(t, flat(r.said), "local-exec provisioner error")
	run := d.newest()
	require.True(t, d.workspace("w").Locked)
	refusal := []string{"Complete recovery of " + run.ID, "holdfast admin recover " + run.ID}
	f.fails(refusal, "plan")
	f.fails(refusal, "apply", "-auto-approve")

	_, err := shared.api.Workspaces.UpdateByID(ctx, d.workspace("w").ID, tfe.WorkspaceUpdateOptions{ExecutionMode: tfe.String("local")})
	require.NoError(t, err)
	before := f.tofu("state", "pull").stdout
	f.fails(append(refusal, "Error acquiring the state lock"), "apply", "-auto-approve")
	f.fails(append(refusal, "Error acquiring the state lock"), "destroy", "-auto-approve", "-lock-timeout=1s")
	f.fails(refusal, "state", "rm", "terraform_data.a")
	f.fails(refusal, "taint", "terraform_data.a")
	f.fails(nil, "apply", "-auto-approve", "-lock=false")
	assert.Equal(t, before, f.tofu("state", "pull").stdout, "nothing was written")
	assert.True(t, d.workspace("w").Locked)
	release(t, run)
	f.fails([]string{"local-exec provisioner error"}, "apply", "-auto-approve")
}

// NC-22 and case 1: a state that could not be uploaded is on disk, with the serial after the
// one that was refused, and is taken under a new lock.
func TestAStateThatCouldNotBeUploaded(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	w := d.newWorkspace("w", tfe.WorkspaceCreateOptions{})
	f := d.folder(d.inCloud(`name = "w"`), three)
	f.ok("init")
	f.ok("apply", "-auto-approve")
	before := f.pulled()

	gate := filepath.Join(t.TempDir(), "gate")
	f.write("more.tf", fmt.Sprintf(`resource "terraform_data" "late" {
		provisioner "local-exec" { command = "until test -e %s; do sleep 0.1; done" }
	}`, gate))
	s := f.start("apply", "-auto-approve")
	s.await("Provisioning with 'local-exec'")
	_, err := shared.api.Workspaces.ForceUnlock(ctx, w.ID)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(gate, nil, 0o600))
	r := s.end()
	assert.Equal(t, 1, r.code)
	assert.Contains(t, flat(r.said), `workspace is not locked`)
	assert.Contains(t, flat(r.said), `tofu state push errored.tfstate`)
	assert.Equal(t, before, f.pulled(), "the server has what it had")

	kept := f.errored()
	assert.Equal(t, before.Lineage, kept.Lineage)
	assert.Contains(t, []int64{before.Serial + 2, before.Serial + 3}, kept.Serial, "3 where it was saved once while it worked")
	assert.Len(t, kept.Resources, 3)
	f.ok("state", "push", "errored.tfstate")
	now := f.pulled()
	assert.Equal(t, kept.Resources, now.Resources)
	assert.Equal(t, kept.Lineage, now.Lineage)
	assert.GreaterOrEqual(t, now.Serial, kept.Serial)
	assert.Contains(t, f.ok("plan"), "No changes.")
}
