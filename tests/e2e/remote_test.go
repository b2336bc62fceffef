package e2e

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/hashicorp/go-tfe"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestARemoteWorkspaceFromInitToDestroy(t *testing.T) {
	t.Parallel()
	f := newFolder(t, shared, `
		variable "greeting" { default = "hello" }
		resource "terraform_data" "a" { input = var.greeting }
		resource "terraform_data" "b" { input = "b" }
		output "greeting" { value = terraform_data.a.output }
		output "numbers" { value = { one = 1, list = [true, "x"] } }
		output "hidden" {
		  value     = "sesame-${terraform_data.b.output}"
		  sensitive = true
		}`)
	f.init()

	planned := f.tofu("plan", "-detailed-exitcode")
	assert.Equal(t, 2, planned.code, planned.said)
	assert.Contains(t, planned.said, "Plan: 2 to add, 0 to change, 0 to destroy.")
	assert.Equal(t, "planned_and_finished", shared.runFacts(t, runIn(t, planned.said)).Status)

	applied := f.answering("yes", "apply")
	require.Equal(t, 0, applied.code, applied.said)
	assert.Contains(t, applied.said, "Apply complete! Resources: 2 added, 0 changed, 0 destroyed.")
	assert.Equal(t, "succeeded", shared.runFacts(t, runIn(t, applied.said)).DurableStatus)

	assert.Equal(t, "hello", f.output("greeting"))
	assert.Equal(t, "sesame-b", f.output("hidden"), "a sensitive output is read one by one")
	var outputs map[string]struct {
		Sensitive bool
		Type      json.RawMessage
		Value     any
	}
	require.NoError(t, json.Unmarshal([]byte(f.tofu("output", "-json").stdout), &outputs))
	assert.Equal(t, "sesame-b", outputs["hidden"].Value)
	assert.True(t, outputs["hidden"].Sensitive)
	assert.Equal(t, map[string]any{"one": 1.0, "list": []any{true, "x"}}, outputs["numbers"].Value)
	assert.JSONEq(t, `["object",{"list":["tuple",["bool","string"]],"one":"number"}]`, string(outputs["numbers"].Type))
	assert.Nil(t, shared.outputs(t, f.current().ID)["hidden"], "the list does not show it")

	assert.Equal(t, "terraform_data.a\nterraform_data.b\n", f.tofu("state", "list").stdout)
	assert.JSONEq(t, string(f.stateBytes()), f.tofu("state", "pull").stdout)

	again := f.ok("apply", "-auto-approve")
	assert.Contains(t, again, "No changes.")
	facts := shared.runFacts(t, runIn(t, again))
	assert.Equal(t, "planned_and_finished", facts.Status)
	assert.Equal(t, "no_changes", facts.DurableReason)
	assert.Equal(t, 0, f.tofu("plan", "-detailed-exitcode").code)

	assert.Contains(t, f.ok("apply", "-auto-approve", "-var", "greeting=bye"), "0 added, 1 changed, 0 destroyed")
	assert.Equal(t, "bye", f.output("greeting"))

	f.ok("destroy", "-auto-approve")
	assert.Empty(t, f.tofu("state", "list").stdout)
	assert.False(t, f.current().Locked)
}

func TestAnApplyAnsweredNoIsDiscarded(t *testing.T) {
	t.Parallel()
	f := newFolder(t, shared, `resource "terraform_data" "a" {}`)
	f.init()
	r := f.answering("no", "apply")
	assert.Equal(t, 1, r.code, r.said)
	assert.Contains(t, r.said, "Apply discarded")
	facts := shared.runFacts(t, runIn(t, r.said))
	assert.Equal(t, "discarded", facts.Status)
	assert.Equal(t, "rejected", facts.DurableStatus)
	assert.False(t, f.current().Locked)
}

func TestASavedPlanIsAppliedOnce(t *testing.T) {
	t.Parallel()
	f := newFolder(t, shared, `resource "terraform_data" "a" {}`)
	f.init()
	f.ok("plan", "-out", "saved")
	assert.Contains(t, f.ok("apply", "saved"), "Apply complete! Resources: 1 added")
	again := f.tofu("apply", "saved")
	assert.Equal(t, 1, again.code, again.said)
	assert.Contains(t, again.said, "already applied")
}

func TestVariablesOfTheClient(t *testing.T) {
	t.Parallel()
	f := newFolder(t, shared, `
		variable "flag" {}
		variable "file" { type = object({ a = string }) }
		variable "auto" {}
		variable "environment" { type = list(string) }
		output "all" { value = [var.flag, var.file.a, var.auto, var.environment] }`)
	f.write("more.tfvars", `file = { a = "from the file \"quoted\" ${1 + 1}" }`)
	f.write("terraform.tfvars", `auto = "loaded by itself"`)
	f.environ = []string{`TF_VAR_environment=["e", "$${f}"]`}
	f.init()
	f.ok("apply", "-auto-approve", "-var", `flag=-x "y" ${z}`, "-var-file", "more.tfvars")
	assert.Equal(t, []any{`-x "y" ${z}`, `from the file "quoted" 2`, "loaded by itself", []any{"e", "${f}"}},
		shared.outputs(t, f.current().ID)["all"])
}

// Case 86: a value arrives as it was set, whatever it looks like to tofu.
func TestVariablesOfTheWorkspaceReachTheRun(t *testing.T) {
	t.Parallel()
	const nasty = "a\nb\r\n\t\"quoted\" \\back ${x} %{if} <<EOT 'é' <&> \u2028 \n"
	w := shared.newWorkspace(t, workspaceName(t))
	for _, v := range []tfe.VariableCreateOptions{
		{Key: tfe.String("literal"), Value: tfe.String(nasty), Category: tfe.Category(tfe.CategoryTerraform)},
		{Key: tfe.String("expression"), Value: tfe.String(`{ n = 1 + 1 }`), Category: tfe.Category(tfe.CategoryTerraform), HCL: tfe.Bool(true)},
		{Key: tfe.String("SPECIAL"), Value: tfe.String(nasty), Category: tfe.Category(tfe.CategoryEnv)},
		{Key: tfe.String("TF_VAR_by_environment"), Value: tfe.String("seen"), Category: tfe.Category(tfe.CategoryEnv)},
		{Key: tfe.String("overruled"), Value: tfe.String("by the workspace"), Category: tfe.Category(tfe.CategoryTerraform)},
	} {
		_, err := shared.api.Variables.Create(ctx, w.ID, v)
		require.NoError(t, err)
	}
	seen := filepath.Join(t.TempDir(), "seen")
	r := shared.newRun(t, w.ID, `
		variable "literal" {}
		variable "expression" {}
		variable "by_environment" {}
		variable "overruled" {}
		output "literal" { value = var.literal }
		output "expression" { value = var.expression.n }
		output "by_environment" { value = var.by_environment }
		output "overruled" { value = var.overruled }
		`+resource("a", `printf %s "$SPECIAL" > `+seen), &tfe.RunVariable{Key: "overruled", Value: `"by the run"`})
	facts := shared.ended(t, r.ID)
	require.Equal(t, "applied", facts.Status, facts.StatusMessage)
	assert.Equal(t, map[string]any{"literal": nasty, "expression": 2.0, "by_environment": "seen", "overruled": "by the run"},
		shared.outputs(t, w.ID))
	assert.Equal(t, nasty, readFile(t, seen))
}

func TestTheWorkingDirectory(t *testing.T) {
	t.Parallel()
	root := newFolder(t, shared, "")
	w := shared.newWorkspace(t, root.workspace)
	_, err := shared.api.Workspaces.UpdateByID(ctx, w.ID, tfe.WorkspaceUpdateOptions{WorkingDirectory: tfe.String("live/prod")})
	require.NoError(t, err)
	root.write("modules/greet/main.tf", `output "text" { value = "from the module" }`)
	root.write("live/prod/cloud.tf", readFile(t, filepath.Join(root.dir, "cloud.tf")))
	root.write("live/prod/main.tf", `
		module "greet" { source = "../../modules/greet" }
		output "text" { value = module.greet.text }`)
	prod := *root
	prod.dir = filepath.Join(root.dir, "live", "prod")
	prod.init()
	prod.ok("apply", "-auto-approve")
	assert.Equal(t, "from the module", prod.output("text"))
}

func TestAnInvalidConfigurationFailsTheRun(t *testing.T) {
	t.Parallel()
	f := newFolder(t, shared, `output "a" { value = terraform_data.missing.output }`)
	f.init()
	for _, command := range [][]string{{"plan"}, {"apply", "-auto-approve"}} {
		r := f.tofu(command...)
		assert.Equal(t, 1, r.code, r.said)
		assert.Contains(t, r.said, "Reference to undeclared resource")
		facts := shared.runFacts(t, runIn(t, r.said))
		assert.Equal(t, "errored", facts.Status)
		assert.Equal(t, "plan_failed", facts.DurableStatus)
	}
	assert.False(t, f.current().Locked, "nothing is left behind")
}
