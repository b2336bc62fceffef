package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/go-tfe"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const three = `
resource "terraform_data" "a" {
  input = "a"
}
resource "terraform_data" "b" {
  input = "b"
}
output "a" {
  value = terraform_data.a.output
}
`

// inBothModes runs the test in a workspace whose operations happen on this machine and in
// one whose runs happen on a runner. The folder has been applied.
func inBothModes(t *testing.T, configuration string, test func(t *testing.T, d *desk, f *folder)) {
	for _, mode := range []string{"local", "remote"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			options := remote(t)
			options.ExecutionMode = &mode
			d.newWorkspace("w", options)
			f := d.folder(d.inCloud(`name = "w"`), configuration)
			f.ok("init")
			f.ok("apply", "-auto-approve")
			test(t, d, f)
			assert.False(t, d.workspace("w").Locked, "no lock is left behind")
		})
	}
}

// stateFile is what the tests look at in a state.
type stateFile struct {
	Serial    int64
	Lineage   string
	Resources []struct {
		Mode, Type, Name, Provider string
		Instances                  []struct{ Status string }
	}
}

// pulled gives the state as `tofu state pull` does.
func (f *folder) pulled() (state stateFile) {
	f.t.Helper()
	r := f.tofu("state", "pull")
	require.Equal(f.t, 0, r.code, r.said)
	require.NoError(f.t, json.Unmarshal([]byte(r.stdout), &state))
	return state
}

// errored gives the state that tofu could not upload.
func (f *folder) errored() (state stateFile) {
	f.t.Helper()
	text, err := os.ReadFile(filepath.Join(f.dir, "errored.tfstate"))
	require.NoError(f.t, err)
	require.NoError(f.t, json.Unmarshal(text, &state))
	return state
}

func TestStateCommands(t *testing.T) {
	t.Parallel()
	inBothModes(t, three, func(t *testing.T, d *desk, f *folder) {
		before := f.pulled()
		assert.Contains(t, f.ok("state", "show", "terraform_data.a"), `output = "a"`)
		assert.Contains(t, f.ok("show"), `# terraform_data.b:`)
		assert.Contains(t, f.ok("state", "mv", "terraform_data.b", "terraform_data.c"), "Successfully moved 1 object(s).")
		assert.Equal(t, "terraform_data.a\nterraform_data.c\n", f.ok("state", "list"))
		after := f.pulled()
		assert.Equal(t, before.Lineage, after.Lineage)
		assert.Equal(t, before.Serial+1, after.Serial)
		assert.Contains(t, f.ok("state", "rm", "terraform_data.c"), "Successfully removed 1 resource instance(s).")
		assert.Equal(t, "terraform_data.a\n", f.ok("state", "list"))
		assert.Contains(t, f.ok("plan"), "Plan: 1 to add, 0 to change, 0 to destroy.", "the next run sees it")

		said := f.ok("state", "replace-provider", "-auto-approve", "terraform.io/builtin/terraform", "example.test/made/up")
		assert.Contains(t, said, "Successfully replaced provider for 1 resources.")
		assert.Equal(t, `provider["example.test/made/up"]`, f.pulled().Resources[0].Provider)
		f.ok("state", "replace-provider", "-auto-approve", "example.test/made/up", "terraform.io/builtin/terraform")
		assert.Equal(t, after.Serial+3, f.pulled().Serial)
		assert.Equal(t, "a", f.output("a"))
	})
}

func TestStatePush(t *testing.T) {
	t.Parallel()
	inBothModes(t, three, func(t *testing.T, d *desk, f *folder) {
		first, text := f.pulled(), f.tofu("state", "pull").stdout
		f.write("first.tfstate", text)
		f.ok("state", "rm", "terraform_data.b")
		f.fails([]string{"cannot import state with serial"}, "state", "push", "first.tfstate")
		forced := f.tofu("state", "push", "-force", "first.tfstate")
		assert.Equal(t, 1, forced.code, "the server does not forget what came later")
		assert.Contains(t, flat(forced.said), "stale_serial")
		assert.Contains(t, flat(forced.said), "to go back to an earlier state use a rollback of its state version", "ST-22")
		assert.Equal(t, "terraform_data.a\n", f.ok("state", "list"))
		f.ok("force-unlock", "-force", d.organization+"/w") // the client keeps its lock when an upload fails

		now := f.pulled()
		f.write("next.tfstate", strings.Replace(text, fmt.Sprintf(`"serial":%d,`, first.Serial), fmt.Sprintf(`"serial":%d,`, now.Serial+5), 1))
		f.ok("state", "push", "next.tfstate")
		assert.Equal(t, "terraform_data.a\nterraform_data.b\n", f.ok("state", "list"))
		assert.Greater(t, f.pulled().Serial, now.Serial)
		f.write("foreign.tfstate", strings.Replace(text, now.Lineage, "another-lineage", 1))
		f.fails([]string{"lineage"}, "state", "push", "foreign.tfstate")
	})
}

func TestTaint(t *testing.T) {
	t.Parallel()
	inBothModes(t, three, func(t *testing.T, d *desk, f *folder) {
		assert.Contains(t, f.ok("taint", "terraform_data.a"), "has been marked as tainted")
		assert.Equal(t, "tainted", f.pulled().Resources[0].Instances[0].Status)
		assert.Contains(t, f.ok("plan"), "terraform_data.a is tainted, so it must be replaced")
		assert.Contains(t, f.ok("untaint", "terraform_data.a"), "has been successfully untainted")
		assert.Contains(t, f.ok("plan"), "No changes.")
	})
}

func TestImport(t *testing.T) {
	t.Parallel()
	inBothModes(t, three, func(t *testing.T, d *desk, f *folder) {
		for name, v := range map[string]tfe.VariableCreateOptions{
			"plain":  {Value: tfe.String("seen"), Category: tfe.Category(tfe.CategoryTerraform)},
			"list":   {Value: tfe.String(`["x"]`), Category: tfe.Category(tfe.CategoryTerraform), HCL: tfe.Bool(true)},
			"hidden": {Value: tfe.String("secret"), Category: tfe.Category(tfe.CategoryTerraform), Sensitive: tfe.Bool(true)},
			"OTHER":  {Value: tfe.String("x"), Category: tfe.Category(tfe.CategoryEnv)},
		} {
			v.Key = &name
			_, err := shared.api.Variables.Create(ctx, d.workspace("w").ID, v)
			require.NoError(t, err)
		}
		f.write("more.tf", `
			variable "plain" { default = "" }
			variable "list" { default = [] }
			variable "hidden" { default = "" }
			resource "terraform_data" "imported" { input = "${var.plain}${var.hidden}${length(var.list)}" }`)
		assert.Contains(t, f.ok("import", "terraform_data.imported", "an-id"), "Import successful!")
		assert.Equal(t, "terraform_data.a\nterraform_data.b\nterraform_data.imported\n", f.ok("state", "list"))
		assert.Contains(t, f.ok("state", "show", "terraform_data.imported"), `"an-id"`)
		f.fails([]string{"Resource already managed by OpenTofu"}, "import", "terraform_data.imported", "an-id")
	})
}

func TestConsoleAndOutput(t *testing.T) {
	t.Parallel()
	inBothModes(t, three, func(t *testing.T, d *desk, f *folder) {
		r := f.talk([]turn{{"", "terraform_data.a.output\nterraform.workspace\nexit"}}, "console")
		require.Equal(t, 0, r.code, r.said)
		assert.Equal(t, "\"a\"\n\"w\"\n", r.stdout)
		assert.Equal(t, "a = \"a\"\n", f.ok("output"))
		assert.JSONEq(t, `{"a":{"sensitive":false,"type":"string","value":"a"}}`, f.tofu("output", "-json").stdout)
		f.fails([]string{`The output variable requested could not be found`}, "output", "missing")
		assert.Contains(t, f.ok("graph"), "terraform_data.a")
		assert.Contains(t, f.ok("providers"), "terraform.io/builtin/terraform")
		assert.Contains(t, f.ok("providers", "schema", "-json"), "terraform_data")
		assert.Contains(t, f.ok("validate"), "The configuration is valid.")
	})
}

func TestForceUnlock(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	w := d.newWorkspace("w", tfe.WorkspaceCreateOptions{})
	f := d.folder(d.inCloud(`name = "w"`), three)
	f.ok("init")
	lock(t, w.ID)
	f.fails([]string{"Error acquiring the state lock", "workspace already locked"}, "apply", "-auto-approve")
	f.fails([]string{"workspace already locked"}, "state", "rm", "terraform_data.a")
	f.fails([]string{"workspace already locked"}, "apply", "-auto-approve", "-lock-timeout=1s")
	f.fails([]string{"does not match"}, "force-unlock", "-force", "another-id")
	assert.True(t, d.workspace("w").Locked)
	assert.Contains(t, f.ok("force-unlock", "-force", d.organization+"/w"), "has been successfully unlocked")
	assert.False(t, d.workspace("w").Locked)
	f.fails([]string{"workspace already unlocked"}, "force-unlock", "-force", d.organization+"/w")
	f.ok("apply", "-auto-approve")
}

// A lock that goes while the client is patient is taken over.
func TestLockTimeout(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	w := d.newWorkspace("w", tfe.WorkspaceCreateOptions{})
	f := d.folder(d.inCloud(`name = "w"`), three)
	f.ok("init")
	lock(t, w.ID)
	s := f.start("apply", "-auto-approve", "-lock-timeout=60s")
	s.await("Acquiring state lock.")
	unlock(t, w.ID)
	r := s.end()
	require.Equal(t, 0, r.code, r.said)
	assert.Contains(t, r.said, "Apply complete! Resources: 2 added")
}

// A command that may rewrite the state compares versions first; a plan does not.
func TestVersionsThatDiffer(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	options := remote(t)
	w := d.newWorkspace("w", options)
	f := d.folder(d.inCloud(`name = "w"`), three)
	f.ok("init")
	f.ok("apply", "-auto-approve")
	set := func(version string) {
		t.Helper()
		_, err := shared.api.Workspaces.UpdateByID(ctx, w.ID, tfe.WorkspaceUpdateOptions{TerraformVersion: &version})
		require.NoError(t, err)
	}
	set("1.3.0")
	f.fails([]string{"Incompatible TF version", "(~> 1.3.0)"}, "taint", "terraform_data.a")
	f.fails([]string{"Incompatible TF version"}, "state", "rm", "terraform_data.a")
	f.ok("state", "rm", "-ignore-remote-version", "terraform_data.b") // taint of tofu 1.12.6 forgets this flag
	assert.Equal(t, "terraform_data.a\n", f.ok("state", "list"))
	run := f.tofu("plan")
	assert.Equal(t, 1, run.code)
	assert.Contains(t, flat(run.said), "The workspace wants OpenTofu 1.3.0, but the runners have "+*options.TerraformVersion)
	lock(t, w.ID)
	assert.Contains(t, f.ok("force-unlock", "-force", d.organization+"/w"), "has been successfully unlocked", "case 23")
	assert.False(t, d.workspace("w").Locked)
	set("latest")
	f.ok("taint", "terraform_data.a")
	assert.Contains(t, f.ok("plan"), "Plan: 2 to add, 0 to change, 1 to destroy.")
	set("1.12.6-dev")
	assert.Equal(t, "1.12.6-dev", d.workspace("w").TerraformVersion, "a build from source is kept as it is")
	assert.False(t, d.workspace("w").Locked)
}

func TestStatePullOfNothing(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	f := d.folder(d.inCloud(`name = "empty"`), three)
	f.ok("init")
	assert.Empty(t, f.pulled().Resources)
	assert.Contains(t, f.ok("show"), "No resources are represented.")
	f.fails([]string{"No state file was found"}, "state", "list")
	assert.Contains(t, f.ok("output"), "No outputs found")
	assert.NoFileExists(t, filepath.Join(f.dir, "terraform.tfstate"))
}
