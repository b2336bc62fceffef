package e2e

import (
	"encoding/json"
	"net/http"
	"os"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func readFile(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(content)
}

func TestALocalWorkspaceFromInitToDestroy(t *testing.T) {
	t.Parallel()
	f := newFolder(t, shared, `
		resource "terraform_data" "a" { input = "<a> & é" }
		output "a" { value = terraform_data.a.output }
		output "hidden" {
		  value     = "sesame"
		  sensitive = true
		}`)
	f.localWorkspace()
	f.init()
	assert.Contains(t, f.ok("plan"), "Plan: 1 to add")
	assert.NotRegexp(t, runURL, f.ok("apply", "-auto-approve"), "no run of the server")
	assert.Equal(t, "<a> & é", f.output("a"))
	assert.Equal(t, "sesame", f.output("hidden"))
	assert.JSONEq(t, string(f.stateBytes()), f.tofu("state", "pull").stdout)

	// A pushed file arrives as the very bytes that tofu made of it; the serial goes on.
	before := f.serial()
	f.ok("taint", "terraform_data.a")
	assert.Equal(t, before+1, f.serial())
	f.ok("apply", "-auto-approve")
	assert.Equal(t, 0, f.tofu("plan", "-detailed-exitcode").code)

	f.ok("destroy", "-auto-approve")
	assert.Empty(t, f.tofu("state", "list").stdout)
	assert.False(t, f.current().Locked)
}

// serial reads the serial in the current state file.
func (f *folder) serial() int {
	f.t.Helper()
	var file struct{ Serial int }
	require.NoError(f.t, json.Unmarshal(f.stateBytes(), &file))
	return file.Serial
}

func TestTwoLocalAppliesCannotBothHaveTheLock(t *testing.T) {
	t.Parallel()
	at := newGate(t)
	f := newFolder(t, shared, resource("slow", at.command()))
	f.localWorkspace()
	f.init()
	first := f.start("apply", "-auto-approve")
	at.reached()
	second := f.tofu("apply", "-auto-approve")
	assert.Equal(t, 1, second.code, second.said)
	assert.Contains(t, second.said, "Error acquiring the state lock")
	at.open()
	assert.Equal(t, 0, first.wait(t), first.said)
	assert.False(t, f.current().Locked)
}

// Case 16.
func TestAKilledLocalApplyIsUnlockedByForce(t *testing.T) {
	t.Parallel()
	at := newGate(t)
	f := newFolder(t, shared, resource("slow", at.command()))
	f.localWorkspace()
	f.init()
	apply := f.start("apply", "-auto-approve")
	at.reached()
	apply.signal(t, syscall.SIGKILL)
	assert.Equal(t, 128+int(syscall.SIGKILL), apply.wait(t))
	at.open()

	blocked := f.tofu("apply", "-auto-approve")
	assert.Equal(t, 1, blocked.code, blocked.said)
	assert.Contains(t, blocked.said, "Error acquiring the state lock")
	assert.Contains(t, f.ok("force-unlock", "-force", "demo/"+f.workspace), "successfully unlocked")
	assert.Contains(t, f.ok("apply", "-auto-approve"), "Apply complete! Resources: 1 added")
	assert.False(t, f.current().Locked)
}

func TestAnInterruptedLocalApplyKeepsWhatItMade(t *testing.T) {
	t.Parallel()
	at := newGate(t)
	f := newFolder(t, shared, `resource "terraform_data" "first" {}`+"\n"+resource("slow", at.command(), "depends_on = [terraform_data.first]"))
	f.localWorkspace()
	f.init()
	apply := f.start("apply", "-auto-approve")
	at.reached()
	apply.signal(t, syscall.SIGINT)
	assert.Equal(t, 1, apply.wait(t), apply.said)
	assert.False(t, f.current().Locked, "tofu gave the lock back: %s", apply.said)
	assert.Contains(t, f.tofu("state", "list").stdout, "terraform_data.first")
	at.open()
	said := f.ok("apply", "-auto-approve")
	assert.Contains(t, said, "Apply complete! Resources: 1 added", "only the interrupted resource is made again")
}

// RC-19: the header says how often an apply may save what it has so far. Without it on
// the very first answer, which is a 404, the first apply would save nothing before its end.
func TestTheSnapshotHeaderIsOnTheFirst404(t *testing.T) {
	t.Parallel()
	w := shared.newWorkspace(t, workspaceName(t))
	r := shared.get(t, "/api/v2/workspaces/"+w.ID+"/current-state-version")
	r.refusal(t, http.StatusNotFound)
	seconds, err := strconv.Atoi(r.header.Get("X-Terraform-Snapshot-Interval"))
	require.NoError(t, err)
	assert.Positive(t, seconds)
}
