package cli

import (
	"testing"

	"github.com/hashicorp/go-tfe"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	value       = "output \"val\" {\n  value = terraform.workspace\n}\n"
	initialized = "Cloud backend has been successfully initialized!"
	complete    = "Apply complete!"
	local       = "terraform {\n  backend \"local\" {}\n}\n"
)

// remote are the options of a workspace whose runs happen on a runner, with a version
// that the server says it has.
func remote(t *testing.T) tfe.WorkspaceCreateOptions {
	t.Helper()
	versions, err := shared.api.Admin.TerraformVersions.List(ctx, &tfe.AdminTerraformVersionsListOptions{ListOptions: tfe.ListOptions{PageNumber: 1, PageSize: 100}})
	require.NoError(t, err)
	require.NotEmpty(t, versions.Items)
	return tfe.WorkspaceCreateOptions{TerraformVersion: &versions.Items[0].Version, ExecutionMode: tfe.String("remote")}
}

func Test_terraform_apply_autoApprove(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for _, c := range []struct {
		name            string
		workspace, flag bool
	}{{"app", false, false}, {"app-auto", true, false}, {"app-flag", false, true}, {"app-both", true, true}} {
		options := remote(t)
		options.AutoApply = tfe.Bool(c.workspace)
		d.newWorkspace(c.name, options)
		f := d.folder(d.inCloud(`name = "`+c.name+`"`), value)
		assert.Contains(t, f.ok("init"), initialized)
		if c.flag {
			assert.Contains(t, f.ok("apply", "-auto-approve"), complete)
		} else {
			dialogue := []turn{{`Do you want to perform these actions in workspace "` + c.name + `"?`, "yes"}}
			assert.Contains(t, f.okTalk(dialogue, "apply"), complete, "the prompt comes whatever the workspace is set to")
		}
		w := d.workspace(c.name)
		require.NotNil(t, w.CurrentRun)
		assert.Equal(t, tfe.RunApplied, w.CurrentRun.Status)
		assert.Equal(t, c.flag, w.CurrentRun.AutoApply, "what the command says wins")
	}
}

func Test_apply_no_input_flag(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	f := d.folder(d.inCloud(`name = "new-workspace"`), value)
	assert.Contains(t, f.ok("init", "-input=false"), initialized)
	f.fails([]string{"Cannot confirm apply due to -input=false. Please handle run confirmation in the UI."}, "apply", "-input=false")
	f = d.folder(d.inCloud(`name = "cloud-workspace"`), value)
	f.ok("init", "-input=false")
	assert.Contains(t, f.ok("apply", "-auto-approve", "-input=false"), complete)
}

func Test_backend_apply_before_init(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	const refusal = `Cloud backend initialization required: please run "tofu init"`
	f := d.folder(d.inCloud(`name = "new-workspace"`), value)
	f.fails([]string{refusal}, "apply")
	f = d.folder(local, value)
	f.ok("init")
	f.ok("apply", "-auto-approve")
	f.backend(d.inCloud(`name = "new-workspace"`))
	f.fails([]string{refusal}, "apply")
	assert.Empty(t, d.workspaces())
}

func Test_cloud_organization_env_var(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	f := d.folder("terraform {\n  cloud {\n    hostname = \""+host()+"\"\n    workspaces {\n      name = \"cloud-workspace\"\n    }\n  }\n}\n", value)
	f = f.with("TF_CLOUD_ORGANIZATION=" + d.organization)
	assert.Contains(t, f.ok("init"), initialized)
	assert.Contains(t, f.ok("apply", "-auto-approve"), complete)
	assert.Equal(t, []string{"cloud-workspace"}, d.workspaces())
}

func Test_cloud_workspace_name_env_var(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.newWorkspace("cloud-workspace", remote(t))
	block := "terraform {\n  cloud {\n    hostname = \"" + host() + "\"\n    organization = \"" + d.organization + "\"\n  }\n}\n"
	f := d.folder(block, value).with("TF_WORKSPACE=cloud-workspace")
	f.ok("init")
	assert.Contains(t, f.ok("apply", "-auto-approve"), complete)
	f.ok("init")
	assert.Equal(t, "cloud-workspace\n", f.ok("workspace", "show"))

	d.folder(block, value).with("TF_WORKSPACE=the-fires-of-mt-doom").fails([]string{"Invalid workspace selection"}, "init")
	assert.Equal(t, []string{"cloud-workspace"}, d.workspaces(), "it is never made")
}

func Test_cloud_workspace_tags_env_var(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	tagged := remote(t)
	tagged.Tags = []*tfe.Tag{{Name: "cloud"}}
	w := d.newWorkspace("cloud-workspace", tagged)
	require.Equal(t, "cloud", w.TagNames[0])
	d.newWorkspace("cloud-workspace-2", remote(t))
	f := d.folder(d.inCloud(`tags = ["cloud"]`), value).with("TF_WORKSPACE=cloud-workspace")
	f.ok("init")
	assert.Contains(t, f.ok("apply", "-auto-approve"), complete)
	f.ok("init")
	assert.Equal(t, "cloud-workspace\n", f.ok("workspace", "show"))
	d.folder(d.inCloud(`tags = ["cloud"]`), value).with("TF_WORKSPACE=cloud-workspace-2").fails([]string{"Invalid workspace selection"}, "init")
}

func Test_cloud_null_config(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.newWorkspace("cloud-workspace", remote(t))
	f := d.folder("terraform {\n  cloud {}\n}\n", value).with("TF_CLOUD_ORGANIZATION="+d.organization, "TF_CLOUD_HOSTNAME="+host(), "TF_WORKSPACE=cloud-workspace")
	f.ok("init")
	assert.Contains(t, f.ok("apply", "-auto-approve"), complete)
	assert.Equal(t, "cloud-workspace\n", f.ok("workspace", "show"))
	assert.Equal(t, "cloud-workspace", f.output("val"), "a run knows the name of its workspace")
}

func Test_init_with_empty_tags(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	f := d.folder(d.inCloud(`tags = ["emptytag"]`), value)
	f.fails(nil, "init", "-input=false")
	said := f.okTalk([]turn{{"There are no workspaces with the configured tags (emptytag)", "emptytag-prod"}}, "init")
	assert.Contains(t, said, initialized)
	w := d.workspace("emptytag-prod")
	assert.Equal(t, []string{"emptytag"}, w.TagNames)
	assert.Nil(t, w.CurrentRun)
}

func Test_migrate_tfc_to_other(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	f := d.folder(d.inCloud(`name = "new-workspace"`), value)
	f.ok("init")
	f.backend(local)
	f.fails([]string{"Migrating state from cloud backend to another backend is not yet implemented."}, "init")
}

func Test_cloud_run_variables(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.newWorkspace("new-workspace", remote(t))
	f := d.folder(d.inCloud(`name = "new-workspace"`), `
		variable "foo" { type = string }
		variable "baz" { type = string }
		output "test_cli" { value = var.foo }
		output "test_env" { value = var.baz }`).with("TF_VAR_baz=qux")
	f.ok("init")
	said := f.ok("plan", "-var", "foo=bar")
	assert.Contains(t, said, `  + test_cli = "bar"`)
	assert.Contains(t, said, `  + test_env = "qux"`)
}
