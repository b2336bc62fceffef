package cli

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/hashicorp/go-tfe"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRemoteBackendByName(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	f := d.folder(d.onRemote(`name = "one"`), something, `output "id" { value = terraform_data.a.output }`)
	assert.Contains(t, f.ok("init"), `Successfully configured the backend "remote"!`)
	assert.Contains(t, f.ok("plan"), "Plan: 1 to add, 0 to change, 0 to destroy.")
	f.okTalk([]turn{{`Do you want to perform these actions in workspace "one"?`, "yes"}}, "apply")
	assert.Equal(t, "a", f.output("id"))
	assert.Equal(t, "terraform_data.a\n", f.ok("state", "list"))
	assert.Equal(t, tfe.RunApplied, d.workspace("one").CurrentRun.Status)
	f.fails([]string{"workspaces not supported"}, "workspace", "list")
	f.fails([]string{"workspaces not supported"}, "workspace", "new", "x")

	refused := f.talk([]turn{{`Do you really want to destroy all resources in workspace "one"?`, "no"}}, "destroy")
	assert.Equal(t, 1, refused.code)
	assert.Contains(t, refused.said, "Destroy discarded.")
	f.ok("destroy", "-auto-approve")
	assert.Empty(t, f.ok("state", "list"))
	assert.False(t, d.workspace("one").Locked)
}

func TestRemoteBackendByPrefix(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for _, name := range []string{"app-one", "my-app-not"} {
		d.newWorkspace(name, remote(t))
	}
	f := d.folder(d.onRemote(`prefix = "app-"`), value)
	f.ok("init")
	assert.Equal(t, "* one\n\n", f.ok("workspace", "list"), "the prefix and no other part")
	assert.Contains(t, f.ok("workspace", "new", "two"), `Created and switched to workspace "two"!`)
	f.ok("apply", "-auto-approve")
	assert.Equal(t, tfe.RunApplied, d.workspace("app-two").CurrentRun.Status)
	f.ok("workspace", "select", "one")
	assert.Contains(t, f.ok("workspace", "delete", "two"), `Deleted workspace "two"!`)
	assert.Equal(t, []string{"app-one", "my-app-not"}, d.workspaces())
}

func TestRemoteBackendWorksHere(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.newWorkspace("here", tfe.WorkspaceCreateOptions{})
	for name, f := range map[string]*folder{
		"here":   d.folder(d.onRemote(`name = "here"`), something, value),
		"forced": d.folder(d.onRemote(`name = "forced"`), something, value).with("TF_FORCE_LOCAL_BACKEND=1"),
	} {
		f.ok("init")
		assert.Contains(t, f.ok("apply", "-auto-approve"), "Apply complete! Resources: 1 added")
		assert.Equal(t, "terraform_data.a\n", f.ok("state", "list"))
		w := d.workspace(name)
		assert.Nil(t, w.CurrentRun, "no run was made")
		assert.False(t, w.Locked)
		assert.Contains(t, f.ok("destroy", "-auto-approve"), "Destroy complete! Resources: 1 destroyed.")
	}
}

func (d *desk) remoteState(workspaces string) string {
	return fmt.Sprintf(`
		data "terraform_remote_state" "other" {
		  backend = "remote"
		  config = {
		    hostname     = %q
		    organization = %q
		    workspaces   = { %s }
		  }
		}
		output "seen" { value = data.terraform_remote_state.other.outputs.val }`, host(), d.organization, workspaces)
}

// In a remote run the workspace that is read decides whose runs may.
func TestRemoteStateInARemoteRun(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	source := d.folder(d.inCloud(`name = "source"`), value)
	source.ok("init")
	source.ok("apply", "-auto-approve")
	reader := d.folder(d.inCloud(`name = "reader"`), d.remoteState(`name = "source"`))
	reader.ok("init")
	reader.fails([]string{"workspace source", "is not there, or does not share its state with the run's own workspace", "remote state consumers"}, "plan")
	from, to := d.workspace("source"), d.workspace("reader")
	require.NoError(t, shared.api.Workspaces.AddRemoteStateConsumers(ctx, from.ID, tfe.WorkspaceAddRemoteStateConsumersOptions{Workspaces: []*tfe.Workspace{to}}))
	reader.ok("apply", "-auto-approve")
	assert.Equal(t, "source", reader.output("seen"))
	assert.False(t, d.workspace("source").Locked)
	require.NotNil(t, d.workspace("reader").CurrentRun, "it was a remote run")
}

// Read by a command on this machine.
func TestRemoteState(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.newWorkspace("source", tfe.WorkspaceCreateOptions{})
	source := d.folder(d.inCloud(`name = "source"`), value)
	source.ok("init")
	source.ok("apply", "-auto-approve")
	for _, block := range []string{local, d.inCloud(`name = "reader"`)} {
		d.newWorkspace("reader", tfe.WorkspaceCreateOptions{})
		f := d.folder(block, d.remoteState(`name = "source"`))
		f.ok("init")
		f.ok("apply", "-auto-approve")
		assert.Equal(t, "source", f.output("seen"))
		require.NoError(t, shared.api.Workspaces.Delete(ctx, d.organization, "reader"))
	}
	byPrefix := strings.Replace(d.remoteState(`prefix = "sour"`), `backend = "remote"`, "backend = \"remote\"\nworkspace = \"ce\"", 1)
	f := d.folder(local, byPrefix)
	f.ok("init")
	f.ok("apply", "-auto-approve")
	assert.Equal(t, "source", f.output("seen"))
	assert.False(t, d.workspace("source").Locked)
}

func TestRemoteBackendRefusesWhatItCannotDo(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	f := d.folder(d.onRemote(`name = "one"`), something, `variable "v" { default = 1 }`)
	f.ok("init")
	f.fails([]string{"Saving a generated plan is currently not supported"}, "plan", "-out", filepath.Join(f.dir, "saved"))
	f.fails([]string{"Run variables are currently not supported"}, "plan", "-var", "v=2")
	assert.Nil(t, d.workspace("one").CurrentRun)
}

// The remote backend compares only the first two numbers of a version.
func TestRemoteBackendComparesVersions(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	w := d.newWorkspace("one", remote(t)) // with local execution nothing is compared
	f := d.folder(d.onRemote(`name = "one"`), something)
	f.ok("init")
	f.ok("apply", "-auto-approve")
	minor, err := strconv.Atoi(strings.Split(f.ok("version"), ".")[1]) // "OpenTofu v1.12.6"
	require.NoError(t, err)
	for version, refused := range map[string]bool{
		fmt.Sprintf("1.%d.0", minor): false, fmt.Sprintf("1.%d.6-dev", minor): false, "latest": false,
		fmt.Sprintf("1.%d.5", minor-1): true, fmt.Sprintf("1.%d.0", minor+1): true,
	} {
		_, err := shared.api.Workspaces.UpdateByID(ctx, w.ID, tfe.WorkspaceUpdateOptions{TerraformVersion: &version})
		require.NoError(t, err)
		r := f.tofu("taint", "terraform_data.a")
		if refused {
			assert.Equal(t, 1, r.code, "%s: %s", version, r.said)
			assert.Contains(t, flat(r.said), "version mismatch", version)
		} else {
			assert.Equal(t, 0, r.code, "%s: %s", version, r.said)
		}
	}
	_, err = shared.api.Workspaces.UpdateByID(ctx, w.ID, tfe.WorkspaceUpdateOptions{TerraformVersion: tfe.String(fmt.Sprintf("1.%d.5", minor-1))})
	require.NoError(t, err)
	f.ok("state", "rm", "-ignore-remote-version", "terraform_data.a")
	for _, constraint := range []string{"~> 1.12.0", "", ">= 1.10"} {
		_, err := shared.api.Workspaces.UpdateByID(ctx, w.ID, tfe.WorkspaceUpdateOptions{TerraformVersion: &constraint})
		assert.ErrorContains(t, err, "Terraform version must be latest or one exact version", "this backend could not read it")
	}
}
