package cli

import (
	"encoding/json"
	"testing"

	"github.com/hashicorp/go-tfe"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const numbered = `
variable "n" { default = 0 }
resource "terraform_data" "a" { input = var.n }
output "n" { value = terraform_data.a.output }
`

// TestASavedPlanIsShownAndApplied, and neither holds the workspace nor waits for it.
func TestASavedPlanIsShownAndApplied(t *testing.T) {
	t.Parallel()
	d, f := inCloudWorkspace(t, numbered)
	w := d.workspace("w")
	_, err := shared.api.Workspaces.Lock(ctx, w.ID, tfe.WorkspaceLockOptions{})
	require.NoError(t, err)
	said := f.ok("plan", "-var=n=1", "-out=saved")
	assert.Contains(t, said, "Plan: 1 to add, 0 to change, 0 to destroy.")
	assert.Contains(t, said, `tofu apply "saved"`)
	run := d.newest()
	assert.Equal(t, tfe.RunPlannedAndSaved, run.Status)

	said = f.ok("show", "saved")
	assert.Contains(t, said, "Plan: 1 to add, 0 to change, 0 to destroy.")
	assert.Contains(t, said, "Run status: planned and saved (confirmable)")
	assert.Contains(t, said, "Workspace is locked")
	var plan struct {
		Changes []struct{ Address string } `json:"resource_changes"`
	}
	require.NoError(t, json.Unmarshal([]byte(f.tofu("show", "-json", "saved").stdout), &plan))
	require.Len(t, plan.Changes, 1)
	assert.Equal(t, "terraform_data.a", plan.Changes[0].Address)

	t.Log("somebody has the workspace")
	f.fails([]string{"Failed to approve the apply command", "is locked by User"}, "apply", "saved")
	assert.Equal(t, tfe.RunPlannedAndSaved, d.newest().Status, "it may be applied later")
	_, err = shared.api.Workspaces.Unlock(ctx, w.ID)
	require.NoError(t, err)

	said = f.ok("apply", "saved")
	assert.Contains(t, said, "Apply complete! Resources: 1 added, 0 changed, 0 destroyed.")
	assert.Equal(t, "1", f.output("n"))
	assert.False(t, d.workspace("w").Locked)
	f.fails([]string{"Saved plan is already applied"}, "apply", "saved")
}

// TestASavedPlanOfAnOlderStateIsDiscarded: nobody has to know it beforehand.
func TestASavedPlanOfAnOlderStateIsDiscarded(t *testing.T) {
	t.Parallel()
	d, f := inCloudWorkspace(t, numbered)
	f.ok("plan", "-var=n=1", "-out=first")
	first := d.newest()
	f.ok("plan", "-var=n=2", "-out=second")
	f.ok("apply", "second")
	r := f.tofu("apply", "first")
	assert.Equal(t, 1, r.code)
	assert.Regexp(t, `plan of `+first.ID+` is discarded|Saved plan is discarded`, flat(r.said))
	assert.Equal(t, "2", f.output("n"))
	discarded, err := shared.api.Runs.Read(ctx, first.ID)
	require.NoError(t, err)
	assert.Equal(t, tfe.RunDiscarded, discarded.Status)
	f.fails([]string{"Saved plan is discarded", "another run was applied first"}, "apply", "first")
	assert.Contains(t, f.ok("show", "first"), "Run status: discarded (not confirmable)")
}

func TestASavedPlanWithoutChanges(t *testing.T) {
	t.Parallel()
	_, f := inCloudWorkspace(t, numbered)
	f.ok("apply", "-auto-approve")
	f.ok("plan", "-out=saved")
	assert.Contains(t, f.ok("show", "saved"), "No changes.")
	f.fails([]string{"Saved plan has no changes"}, "apply", "saved")
}
