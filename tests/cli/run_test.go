package cli

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRefresh(t *testing.T) {
	t.Parallel()
	inBothModes(t, three, func(t *testing.T, d *desk, f *folder) {
		f.write("more.tf", `output "more" { value = "${terraform_data.b.output}!" }`)
		assert.Contains(t, f.ok("plan", "-refresh-only"), `+ more = "b!"`)
		f.fails([]string{`Output "more" not found`}, "output", "more")
		f.ok("refresh")
		assert.Equal(t, "b!", f.output("more"))
		f.write("more.tf", `output "less" { value = "${terraform_data.b.output}?" }`)
		f.ok("apply", "-refresh-only", "-auto-approve")
		assert.Equal(t, "b?", f.output("less"))
		assert.Contains(t, f.ok("plan", "-refresh=false"), "No changes.")
	})
}

func TestReplaceTargetAndDestroy(t *testing.T) {
	t.Parallel()
	inBothModes(t, three, func(t *testing.T, d *desk, f *folder) {
		id := func(name string) string {
			t.Helper()
			r := f.tofu("state", "show", "terraform_data."+name)
			require.Equal(t, 0, r.code, r.said)
			return r.stdout
		}
		a, b := id("a"), id("b")
		assert.Contains(t, f.ok("apply", "-auto-approve", "-replace=terraform_data.a"), "Resources: 1 added, 0 changed, 1 destroyed.")
		assert.NotEqual(t, a, id("a"))
		assert.Equal(t, b, id("b"))

		f.write("file-1.tf", `
			resource "terraform_data" "a" { input = "new a" }
			resource "terraform_data" "b" { input = "new b" }`)
		said := f.ok("apply", "-auto-approve", "-target=terraform_data.b")
		assert.Contains(t, said, "Resources: 0 added, 1 changed, 0 destroyed.")
		assert.Contains(t, said, "Applied changes may be incomplete")
		assert.Contains(t, id("b"), `"new b"`)
		assert.NotContains(t, id("a"), "new a")

		assert.Contains(t, f.ok("plan", "-destroy"), "Plan: 0 to add, 0 to change, 2 to destroy.")
		assert.Contains(t, f.ok("destroy", "-auto-approve", "-target=terraform_data.b"), "1 destroyed")
		assert.Equal(t, "terraform_data.a\n", f.ok("state", "list"))
		f.okTalk([]turn{{"Do you really want to destroy all resources", "yes"}}, "destroy")
		assert.Empty(t, f.ok("state", "list"))
	})
}

func TestSavedPlan(t *testing.T) {
	t.Parallel()
	inBothModes(t, three, func(t *testing.T, d *desk, f *folder) {
		f.write("file-1.tf", `resource "terraform_data" "c" { input = "c" }`)
		f.ok("plan", "-out=saved")
		assert.Contains(t, f.ok("show", "saved"), "terraform_data.c")
		assert.Contains(t, f.tofu("show", "-json", "saved").stdout, `"terraform_data.c"`)
		assert.Contains(t, f.ok("apply", "saved"), "Resources: 1 added, 0 changed, 2 destroyed.")
		assert.Equal(t, "terraform_data.c\n", f.ok("state", "list"))
		f.fails(nil, "apply", "saved")
	})
}

func TestDetailedExitCode(t *testing.T) {
	t.Parallel()
	inBothModes(t, three, func(t *testing.T, d *desk, f *folder) {
		assert.Equal(t, 0, f.tofu("plan", "-detailed-exitcode").code)
		f.write("more.tf", `resource "terraform_data" "more" {}`)
		assert.Equal(t, 2, f.tofu("plan", "-detailed-exitcode").code)
		f.write("more.tf", `resource "terraform_data" "more" { input = terraform_data.unknown.id }`)
		assert.Equal(t, 1, f.tofu("plan", "-detailed-exitcode").code)
	})
}

func TestGenerateConfig(t *testing.T) {
	t.Parallel()
	inBothModes(t, three, func(t *testing.T, d *desk, f *folder) {
		f.write("import.tf", "import {\n  to = terraform_data.found\n  id = \"an-id\"\n}\n")
		f.ok("plan", "-generate-config-out=generated.tf")
		written, err := os.ReadFile(filepath.Join(f.dir, "generated.tf"))
		require.NoError(t, err)
		assert.Contains(t, string(written), `resource "terraform_data" "found"`)
		f.ok("apply", "-auto-approve")
		assert.Contains(t, f.ok("state", "list"), "terraform_data.found")
	})
}
