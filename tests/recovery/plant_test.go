package recovery

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/internal/child"
	"github.com/holdfast-run/holdfast/tests/stack"
)

// patience is how long anything may take on a busy machine.
const patience = 3 * time.Minute

// eventually waits until the condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	require.Eventually(t, holds, patience, 50*time.Millisecond, "waited in vain for %s", what)
}

// daemon is a program that a story kills and starts again.
type daemon struct {
	t       *testing.T
	log     string
	command func() *exec.Cmd
	process *child.Process
}

func newDaemon(t *testing.T, log string, command func() *exec.Cmd) *daemon {
	t.Helper()
	d := &daemon{t: t, log: log, command: command}
	t.Cleanup(func() {
		d.kill()
		if text, _ := os.ReadFile(log); t.Failed() {
			t.Logf("%s ends:\n%s", filepath.Base(log), text[max(0, len(text)-4000):])
		}
	})
	d.start()
	return d
}

func (d *daemon) start() {
	d.t.Helper()
	log, err := os.OpenFile(d.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	require.NoError(d.t, err)
	defer log.Close() // the child has its own descriptor
	cmd := d.command()
	cmd.Stdout, cmd.Stderr = log, log
	d.process, err = child.Start(cmd, syscall.SIGKILL)
	require.NoError(d.t, err)
}

// kill ends it like a power cut, and returns when it is gone.
func (d *daemon) kill() {
	d.process.Signal(syscall.SIGKILL)
	<-d.process.Done()
}

// plant is a workspace whose runs one runner executes, which is the story's own.
type plant struct {
	*testing.T
	dir       string // of ledger, gates and runner
	workspace string
	label     string
	runner    *daemon
	network   *network // nil: the runner speaks to the shared server
	server    *daemon  // behind the network
}

// needs are what a story has of its own beside a runner.
type needs struct {
	network bool
	server  []string // further environment of the server behind the network
	program string   // of that server; empty: the one of bin
	disk    string   // a folder that is a small disk to the runner, which works there
	played  bool     // the test plays the runner
}

func newPlant(t *testing.T, n needs) *plant {
	t.Helper()
	p := &plant{T: t, dir: t.TempDir(), label: "story-" + randomText(10)}
	p.workspace = p.call("POST", "/api/v2/organizations/demo/workspaces", map[string]any{"name": p.label, "runner-selector": []string{p.label}}).id(t, 201)
	server := shared.Address()
	if n.network {
		server = p.startServer(n)
	}
	if n.played {
		return p
	}
	folder := p.path("runner")
	p.runner = newDaemon(t, filepath.Join(p.dir, "runner.log"), func() *exec.Cmd {
		cmd := exec.Command(program("holdfast-runner"))
		if n.disk != "" {
			cmd, folder = onSmallDisk(n.disk)(cmd), n.disk
		}
		cmd.Env = append(stack.PlainEnviron(), "HOLDFAST_ADDRESS="+server, "HOLDFAST_RUNNER_TOKEN_FILE="+filepath.Join(shared.Dir, "runner-token"),
			"HOLDFAST_RUNNER_DIR="+folder, "HOLDFAST_TOFU="+program("tofu"), "HOLDFAST_PROVIDER_MIRROR="+providers, "HOLDFAST_RUNNER_ISOLATION=external",
			"HOLDFAST_RUNNER_ALLOW_METADATA=true", "HOLDFAST_RUNNER_NAME="+p.label, "HOLDFAST_RUNNER_LABELS="+p.label, "SSL_CERT_FILE="+shared.Environ["SSL_CERT_FILE"])
		return cmd
	})
	t.Cleanup(p.endProviders)
	return p
}

// startServer starts a server of the story's own, on the database and the store of all, and
// gives the address at which the network leads to it.
func (p *plant) startServer(n needs) (address string) {
	p.Helper()
	listen := freeAddress(p.T)
	p.network = newNetwork(p.T, "https://localhost"+listen[strings.LastIndexByte(listen, ':'):])
	executable := n.program
	if executable == "" {
		executable = program("holdfast")
	}
	p.server = newDaemon(p.T, filepath.Join(p.dir, "server.log"), func() *exec.Cmd {
		cmd := exec.Command(executable, "server")
		cmd.Env = stack.PlainEnviron()
		for _, name := range []string{"DATABASE_URL", "KEYRING", "S3_ENDPOINT", "S3_BUCKET", "S3_REGION", "S3_ACCESS_KEY_ID", "S3_SECRET_ACCESS_KEY"} {
			cmd.Env = append(cmd.Env, "HOLDFAST_"+name+"="+shared.Environ["HOLDFAST_"+name])
		}
		cmd.Env = append(cmd.Env, "HOLDFAST_HEARTBEAT=1s", "HOLDFAST_LISTEN="+listen, "HOLDFAST_ADDRESS="+p.network.address,
			"HOLDFAST_TLS_CERT="+filepath.Join(shared.Dir, "tls", "server.pem"), "HOLDFAST_TLS_KEY="+filepath.Join(shared.Dir, "tls", "server-key.pem"))
		cmd.Env = append(cmd.Env, n.server...)
		return cmd
	})
	p.awaitServer()
	return p.network.address
}

// freeAddress finds a port that the system gives to nobody who does not ask for it by number,
// so that what is killed finds it free again.
func freeAddress(t *testing.T) string {
	t.Helper()
	for range 1000 {
		n, err := rand.Int(rand.Reader, big.NewInt(20000))
		require.NoError(t, err)
		address := fmt.Sprintf("127.0.0.1:%d", 10000+n.Int64()) // below the range of outgoing connections
		if listener, err := net.Listen("tcp4", address); err == nil {
			require.NoError(t, listener.Close())
			return address
		}
	}
	require.FailNow(t, "no port is free between 10000 and 30000")
	return ""
}

func (p *plant) awaitServer() {
	p.Helper()
	eventually(p.T, "the story's own server", func() bool { return p.ask(p.network.address, "GET", "/readyz", nil).status == 200 })
}

func (p *plant) path(name string) string { return filepath.Join(p.dir, name) }

// configuration makes things with the fault provider; %[1]s in it is the plant's folder.
func (p *plant) configuration(text string) string {
	return strings.ReplaceAll(`
		terraform {
		  required_providers {
		    fault = { source = "holdfast-run/fault" }
		  }
		}
		provider "fault" { ledger = "%[1]s/ledger" }
		`+text, "%[1]s", p.dir)
}

// chained are slow things, each made after the one before, when its gate is open.
func chained(names ...string) string {
	var text strings.Builder
	for i, name := range names {
		after := ""
		if i > 0 {
			after = fmt.Sprintf("depends_on = [fault_slow.%s]", names[i-1])
		}
		fmt.Fprintf(&text, "resource \"fault_slow\" %[1]q {\n  name = %[1]q\n  gate = \"%%[1]s/gate-%[1]s\"\n  ignore_interrupts = true\n  %[2]s\n}\n", name, after)
	}
	return text.String()
}

func (p *plant) open(gates ...string) {
	p.Helper()
	for _, name := range gates {
		require.NoError(p, os.WriteFile(p.path("gate-"+name), nil, 0o644))
	}
}

// deed is a line of the ledger.
type deed struct {
	PID                   int
	Event, Type, ID, Name string
}

func (p *plant) ledger() (deeds []deed) {
	text, err := os.ReadFile(p.path("ledger"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	require.NoError(p, err)
	for line := range bytes.Lines(text) {
		var d deed
		if bytes.HasSuffix(line, []byte("\n")) { // else it is being written
			require.NoError(p, json.Unmarshal(line, &d))
			deeds = append(deeds, d)
		}
	}
	return deeds
}

// awaitDeed returns when the ledger has the event for the name.
func (p *plant) awaitDeed(event, name string) {
	p.Helper()
	eventually(p.T, event+" "+name+" in the ledger", func() bool {
		for _, d := range p.ledger() {
			if d.Event == event && d.Name == name {
				return true
			}
		}
		return false
	})
}

// made gives what exists by the ledger: name → id.
func (p *plant) made() map[string]string {
	there := map[string]string{}
	for _, d := range p.ledger() {
		switch d.Event {
		case "created":
			there[d.Name] = d.ID
		case "deleted":
			delete(there, d.Name)
		}
	}
	return there
}

// endProviders ends the providers that a killed tofu left waiting for a gate: nothing
// isolates this runner, so they are the story's to end.
func (p *plant) endProviders() {
	for _, d := range p.ledger() {
		name, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", d.PID))
		if err == nil && bytes.Contains(name, []byte("terraform-provider-fault")) {
			_ = syscall.Kill(d.PID, syscall.SIGKILL)
		}
	}
}

func packed(t *testing.T, configuration string) []byte {
	t.Helper()
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	tape := tar.NewWriter(zip)
	require.NoError(t, tape.WriteHeader(&tar.Header{Name: "main.tf", Mode: 0o644, Size: int64(len(configuration))}))
	_, err := tape.Write([]byte(configuration))
	require.NoError(t, errors.Join(err, tape.Close(), zip.Close()))
	return out.Bytes()
}

func randomText(n int) string {
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789"
	text := make([]byte, n)
	for i := range text {
		k, err := rand.Int(rand.Reader, big.NewInt(int64(len(letters))))
		if err != nil {
			panic(err)
		}
		text[i] = letters[k.Int64()]
	}
	return string(text)
}
