package cli

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/go-tfe"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// secret is what no reader of plans and logs may see.
const secret = "correct-horse-battery"

const withSecrets = `
variable "password" {
  default   = "` + secret + `"
  sensitive = true
}
variable "length" { default = 1 }
resource "terraform_data" "a" {
  triggers_replace = {
    word  = "${var.password}-${var.length}"
    names = sensitive({ "${var.password}-${var.length}" = 1 })
    open  = "open-${var.length}"
  }
  provisioner "local-exec" {
    command = "echo from the provisioner"
  }
  provisioner "local-exec" {
    command = "echo ${var.password}"
  }
}
output "open" { value = "shown" }
output "hidden" {
  value     = "${var.password}-${var.length}"
  sensitive = true
}
`

// drawn runs tofu with the colours of a terminal.
func (f *folder) drawn(args ...string) string {
	f.t.Helper()
	return f.with("TF_CLI_ARGS=").ok(args...)
}

// read gets an address of the API with a token, or a log's without.
func (d *desk) read(address, token, integration string) string {
	d.t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	require.NoError(d.t, err)
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	if integration != "" {
		request.Header.Set("X-Terraform-Integration", integration)
	}
	response, err := shared.http.Do(request)
	require.NoError(d.t, err)
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	require.NoError(d.t, err)
	require.Equal(d.t, http.StatusOK, response.StatusCode, "%s", text)
	return string(text)
}

// newest is the newest run of the workspace w that is not speculative.
func (d *desk) newest() *tfe.Run {
	d.t.Helper()
	list, err := shared.api.Runs.List(ctx, d.workspace("w").ID, &tfe.RunListOptions{Operation: "plan_and_apply,plan_only,save_plan,refresh_only,destroy", Include: []tfe.RunIncludeOpt{tfe.RunPlan, tfe.RunApply}})
	require.NoError(d.t, err)
	require.NotEmpty(d.t, list.Items)
	return list.Items[0]
}

func (d *desk) planJSON(run *tfe.Run, kind string) string {
	return d.read(shared.environ["TFE_ADDRESS"]+"/api/v2/plans/"+run.Plan.ID+"/"+kind, shared.environ["TFE_TOKEN"], "")
}

func inCloudWorkspace(t *testing.T, configuration string) (*desk, *folder) {
	t.Helper()
	d := newDesk(t)
	d.newWorkspace("w", remote(t))
	f := d.folder(d.inCloud(`name = "w"`), configuration)
	f.ok("init")
	return d, f
}

// withEvents skips where the runner's tofu gives no events beside its log: there every
// client prints the log, and that is what the other tests of this folder see.
func withEvents(t *testing.T, f *folder) {
	t.Helper()
	if !strings.Contains(f.tofu("plan", "-help").said, "-json-into=") {
		t.Skip("this tofu does not know plan -json-into, from which structured output comes")
	}
}

// TestTheClientDrawsPlanAndApply: with colours, once, and without a trace of the events it draws from.
func TestTheClientDrawsPlanAndApply(t *testing.T) {
	t.Parallel()
	_, f := inCloudWorkspace(t, `
		resource "terraform_data" "a" {
		  input = "one"
		  provisioner "local-exec" { command = "echo from the provisioner" }
		}
		output "o" { value = "out" }`)
	withEvents(t, f)
	said := f.drawn("plan")
	assert.Contains(t, said, "\x1b[32m+\x1b[0m\x1b[0m resource \"terraform_data\" \"a\" {")
	assert.Equal(t, 1, strings.Count(said, "1 to add, 0 to change, 0 to destroy."), said)
	assert.NotContains(t, said, `"@level"`)

	said = f.drawn("apply", "-auto-approve")
	assert.Equal(t, 1, strings.Count(said, "1 to add, 0 to change, 0 to destroy."), said)
	assert.Equal(t, 1, strings.Count(said, "Apply complete! Resources: 1 added, 0 changed, 0 destroyed."), said)
	assert.Contains(t, said, "\x1b[1mterraform_data.a: (local-exec):\x1b[0m from the provisioner")
	assert.Contains(t, said, "\x1b[1m\x1b[32mOutputs:")
	assert.Contains(t, said, "\no = \"out\"\n")
	assert.NotContains(t, said, `"@level"`)
	assert.Equal(t, 1, strings.Count(said, "Initializing plugins and modules..."), "the apply's first three lines are dropped")

	assert.Contains(t, f.drawn("plan"), "No changes.")
	assert.Contains(t, f.drawn("destroy", "-auto-approve"), "Apply complete! Resources: 0 added, 0 changed, 1 destroyed.")
}

// TestEveryReaderGetsHisLog: the remote backend and curl print what they get.
func TestEveryReaderGetsHisLog(t *testing.T) {
	t.Parallel()
	d, f := inCloudWorkspace(t, `resource "terraform_data" "a" {}`)
	withEvents(t, f)
	f.ok("apply", "-auto-approve")
	run := d.newest()
	plan, err := shared.api.Plans.Read(ctx, run.Plan.ID)
	require.NoError(t, err)
	apply, err := shared.api.Applies.Read(ctx, run.Apply.ID)
	require.NoError(t, err)
	for url, texts := range map[string][2]string{
		plan.LogReadURL:  {"# terraform_data.a will be created", `"type":"planned_change"`},
		apply.LogReadURL: {"Apply complete! Resources: 1 added", `"type":"apply_complete"`},
	} {
		human, events := d.read(url, "", ""), d.read(url, "", "cloud")
		assert.Contains(t, human, texts[0])
		assert.NotContains(t, human, `"@level"`)
		assert.Contains(t, events, texts[1])
	}

	r := d.folder(d.onRemote(`name = "w"`), `resource "terraform_data" "b" {}`)
	r.ok("init")
	said := r.ok("apply", "-auto-approve")
	assert.Equal(t, 1, strings.Count(said, "Plan: 1 to add, 0 to change, 1 to destroy."), said)
	assert.Contains(t, said, "Apply complete! Resources: 1 added, 0 changed, 1 destroyed.")
	assert.NotContains(t, said, `"@level"`)
}

// TestAWorkspaceWithoutStructuredOutput prints the runner's text, once.
func TestAWorkspaceWithoutStructuredOutput(t *testing.T) {
	t.Parallel()
	d, f := inCloudWorkspace(t, `resource "terraform_data" "a" {}`)
	_, err := shared.api.Workspaces.Update(ctx, d.organization, "w", tfe.WorkspaceUpdateOptions{StructuredRunOutputEnabled: tfe.Bool(false)})
	require.NoError(t, err)
	said := f.drawn("apply", "-auto-approve")
	assert.Equal(t, 1, strings.Count(said, "Plan: 1 to add, 0 to change, 0 to destroy."), said)
	assert.Contains(t, said, "\n  # terraform_data.a will be created", "without colours, as it was logged")
	assert.Contains(t, said, "Apply complete! Resources: 1 added")
	f.write("file-1.tf", `resource "terraform_data" "b" {}`)
	f.ok("plan", "-out=saved")
	assert.Contains(t, f.drawn("show", "saved"), "\x1b[32m+\x1b[0m\x1b[0m resource \"terraform_data\" \"b\"", "a saved plan is drawn all the same")
}

// TestSensitiveValuesAreInNoPlanAndNoLog looks at everything that whoever may see the run may see.
func TestSensitiveValuesAreInNoPlanAndNoLog(t *testing.T) {
	t.Parallel()
	d, f := inCloudWorkspace(t, withSecrets)
	var seen []string
	look := func(said string) *tfe.Run {
		run := d.newest()
		redacted := d.planJSON(run, "json-output-redacted")
		seen = append(seen, said, redacted)
		plan, err := shared.api.Plans.Read(ctx, run.Plan.ID)
		require.NoError(t, err)
		apply, err := shared.api.Applies.Read(ctx, run.Apply.ID)
		require.NoError(t, err)
		for _, integration := range []string{"", "cloud"} {
			seen = append(seen, d.read(plan.LogReadURL, "", integration), d.read(apply.LogReadURL, "", integration))
		}
		var doc struct {
			ResourceChanges []struct {
				Change struct {
					AfterSensitive json.RawMessage `json:"after_sensitive"`
				}
			} `json:"resource_changes"`
			ProviderSchemas map[string]struct {
				Resources map[string]any `json:"resource_schemas"`
			} `json:"provider_schemas"`
		}
		require.NoError(t, json.Unmarshal([]byte(redacted), &doc))
		require.Len(t, doc.ResourceChanges, 1)
		assert.JSONEq(t, `{"triggers_replace":{"names":true,"word":true}}`, string(doc.ResourceChanges[0].Change.AfterSensitive), "what is sensitive is told")
		assert.Len(t, doc.ProviderSchemas["terraform.io/builtin/terraform"].Resources, 1, "of the types in the plan")
		return run
	}
	run := look(f.ok("apply", "-auto-approve"))
	assert.Contains(t, d.planJSON(run, "json-output"), secret, "the right to read state is needed for that one")

	said := f.ok("apply", "-auto-approve", "-var=length=2")
	look(said)
	assert.Regexp(t, `~ names += \(sensitive value\)`, said)
	assert.Regexp(t, `~ open += "open-1" -> "open-2"`, said)
	assert.Regexp(t, `~ word += \(sensitive value\)`, said)
	assert.Regexp(t, `~ hidden += \(sensitive value\)`, said)
	assert.Contains(t, said, "from the provisioner")
	for _, text := range seen {
		assert.NotContains(t, text, secret)
	}
	f.ok("plan", "-var=length=3", "-out=saved")
	assert.NotContains(t, f.with("TF_CLI_ARGS=").ok("show", "-show-sensitive", "saved"), secret)
}

// TestAFailedApplyIsExplained: plan and reason are shown. It fails only when the client looks at
// it: a client that finds that it has failed before shows nothing of it.
func TestAFailedApplyIsExplained(t *testing.T) {
	t.Parallel()
	gate := filepath.Join(t.TempDir(), "gate")
	d, f := inCloudWorkspace(t, `
		resource "terraform_data" "a" {
		  provisioner "local-exec" { command = "until test -e `+gate+`; do sleep 0.1; done; echo before; exit 7" }
		}`)
	withEvents(t, f)
	s := f.start("apply", "-auto-approve")
	s.await("Provisioning with 'local-exec'")
	require.NoError(t, os.WriteFile(gate, nil, 0o600))
	r := s.end()
	assert.Equal(t, 1, r.code)
	assert.Equal(t, 1, strings.Count(r.said, "Plan: 1 to add, 0 to change, 0 to destroy."), r.said)
	assert.Contains(t, flat(r.said), "Error: local-exec provisioner error")
	assert.Contains(t, r.said, "before")
	assert.Contains(t, flat(r.said), "exit status 7")
	assert.Equal(t, 1, strings.Count(flat(r.said), "tofu apply ended with exit code 1"), r.said)
	assert.Equal(t, 1, strings.Count(r.said, "Initializing cloud backend..."), "in the plan's log and not again in the apply's: %s", r.said)
	run := d.newest()
	assert.Equal(t, tfe.RunErrored, run.Status)

	// It has published state, so the workspace is held.
	release(t, run)
}

func TestAFailedPlanIsExplained(t *testing.T) {
	t.Parallel()
	_, f := inCloudWorkspace(t, `
		resource "terraform_data" "a" {
		  lifecycle {
		    precondition {
		      condition     = 1 == length(path.cwd)
		      error_message = "never that short"
		    }
		  }
		}`)
	withEvents(t, f)
	r := f.tofu("plan")
	assert.Equal(t, 1, r.code)
	assert.Equal(t, 1, strings.Count(flat(r.said), "Error: Resource precondition failed"), r.said)
	assert.Contains(t, r.said, "never that short")
	assert.NotContains(t, r.said, `"@level"`)
	assert.Equal(t, 1, strings.Count(r.said, "tofu plan ended with exit code 1"), r.said)
}

// TestDriftIsShown uses a provider whose object is a file.
func TestDriftIsShown(t *testing.T) {
	t.Parallel()
	object := filepath.Join(t.TempDir(), "object")
	require.NoError(t, os.WriteFile(object, []byte("as it was"), 0o600))
	_, f := inCloudWorkspace(t, `
		terraform {
		  required_providers {
		    fault = { source = "holdfast-run/fault" }
		  }
		}
		resource "fault_plain" "a" {
		  observes = "`+object+`"
		}
		resource "terraform_data" "b" {
		  input = fault_plain.a.observed
		}`)
	f.ok("apply", "-auto-approve")
	require.NoError(t, os.WriteFile(object, []byte("as it is"), 0o600))
	said := f.ok("plan", "-refresh-only")
	assert.Contains(t, said, "Objects have changed outside of OpenTofu")
	assert.Contains(t, said, `"as it was" -> "as it is"`)
	said = f.ok("apply", "-refresh-only", "-auto-approve")
	assert.Contains(t, said, `"as it was" -> "as it is"`)
	assert.Contains(t, said, "Apply complete!")
	said = f.ok("plan")
	assert.NotContains(t, said, "Objects have changed outside of OpenTofu")
	assert.Contains(t, said, "Plan: 0 to add, 1 to change, 0 to destroy.")
}

func TestGeneratedConfiguration(t *testing.T) {
	t.Parallel()
	_, f := inCloudWorkspace(t, `
		import {
		  to = terraform_data.made
		  id = "an-id"
		}`)
	said := f.ok("plan", "-generate-config-out=generated.tf")
	assert.Contains(t, said, "Plan: 1 to import, 0 to add, 0 to change, 0 to destroy.")
	assert.Contains(t, said, "written it to generated.tf")
	text, err := os.ReadFile(filepath.Join(f.dir, "generated.tf"))
	require.NoError(t, err)
	assert.Contains(t, string(text), `resource "terraform_data" "made" {`)
	f.fails([]string{"Target generated file already exists"}, "plan", "-generate-config-out=generated.tf")
	f.ok("apply", "-auto-approve")
	assert.Equal(t, "terraform_data.made\n", f.ok("state", "list"))

	f.write("more.tf", `
		import {
		  to = terraform_data.more
		  id = "another-id"
		}
		resource "terraform_data" "stops" {
		  lifecycle {
		    precondition {
		      condition     = 1 == length(path.cwd)
		      error_message = "never that short"
		    }
		  }
		}`)
	f.tofu("plan", "-generate-config-out=rest.tf")
	text, err = os.ReadFile(filepath.Join(f.dir, "rest.tf"))
	require.NoError(t, err, "also of a plan that fails")
	assert.Contains(t, string(text), `resource "terraform_data" "more" {`)
}
