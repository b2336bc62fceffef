package recovery

import (
	"crypto/md5"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// onSmallDisk starts a command in a mount namespace of its own, in which dir is a small disk.
func onSmallDisk(dir string) func(*exec.Cmd) *exec.Cmd {
	return func(cmd *exec.Cmd) *exec.Cmd {
		return exec.Command("unshare", "--user", "--map-root-user", "--mount", "sh", "-c",
			`mount -t tmpfs -o size=128m tmpfs "$0" && exec "$@"`, dir, cmd.Path)
	}
}

// fill leaves no byte on the disk that a process sees at dir, until the answer is called.
func fill(t *testing.T, pid int, dir string) (empty func()) {
	t.Helper()
	name := fmt.Sprintf("/proc/%d/root%s", pid, filepath.Join(dir, "filler"))
	file, err := os.Create(name)
	require.NoError(t, err)
	defer file.Close()
	for size := 1 << 20; size > 0; {
		if _, err = file.Write(make([]byte, size)); err != nil {
			require.ErrorIs(t, err, syscall.ENOSPC)
			size /= 2
		}
	}
	return func() { require.NoError(t, os.Remove(name)) }
}

// Neither the state nor errored.tfstate can be written. tofu prints the state then: the operator
// recovers with what is current, and pushes what stands in the log.
func TestTheDiskIsFullAndTheNetworkLost(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "runner")
	require.NoError(t, os.Mkdir(dir, 0o755))
	if said, err := onSmallDisk(dir)(exec.Command("true")).CombinedOutput(); err != nil {
		t.Skipf("this system gives no mount namespaces: %v: %s", err, said)
	}
	p := newPlant(t, needs{network: true, disk: dir})
	configuration := chained("a", "b")
	run := p.apply(configuration)
	p.open("a")
	p.awaitDeed("creating", "b")
	p.network.obey(func(r *http.Request) fate {
		if publishes(r) {
			return refused
		}
		return passes
	})
	empty := fill(t, p.runner.process.Pid(), dir)
	p.open("b")
	p.held(run, "apply_failed")
	p.network.calm()
	empty()
	evidence := p.evidence(run)
	assert.Equal(t, "", possible(evidence)["current_state_verified"])
	assert.NotEqual(t, "", possible(evidence)["import_emergency_state"], "there is none, or an empty one")
	p.recover(run, "current_state_verified")
	assert.Empty(t, p.known())

	log := p.applyLog(run)
	require.Contains(t, log, "Failed to create local state file")
	printed := regexp.MustCompile(`(?m)^\{"version":4,.*\}$`).FindString(strings.ReplaceAll(log, "\r", ""))
	require.NotEmpty(t, printed, log)
	p.push(printed)
	assert.Equal(t, p.made(), p.known())
	assert.Empty(t, p.planned(configuration))
}

// push makes a state current under a lock, as `tofu state push` does.
func (p *plant) push(state string) {
	p.Helper()
	var file struct {
		Serial  int64
		Lineage string
	}
	require.NoError(p, json.Unmarshal([]byte(state), &file))
	at := "/api/v2/workspaces/" + p.workspace
	p.call("POST", at+"/actions/lock", nil).one(p.T, 200)
	sum := md5.Sum([]byte(state))
	version := p.call("POST", at+"/state-versions", map[string]any{"serial": file.Serial, "lineage": file.Lineage, "md5": hex.EncodeToString(sum[:])}).one(p.T, 201)
	require.Equal(p, 200, p.ask("", "PUT", version.Attributes["hosted-state-upload-url"].(string), []byte(state)).status)
	p.call("POST", at+"/actions/unlock", nil).one(p.T, 200)
}
