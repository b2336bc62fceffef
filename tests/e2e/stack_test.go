package e2e

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-tfe"
	"github.com/stretchr/testify/require"

	started "github.com/holdfast-run/holdfast/tests/stack"
)

// ctx has no end of its own: go test's -timeout is the last word.
var ctx = context.Background()

// stack is a running `holdfast dev` with its services.
type stack struct {
	*started.Stack
	dir     string
	environ map[string]string // what the command inside sees
	api     *tfe.Client       // as the site admin
	http    *http.Client
}

// lockedBuffer collects what a process says while it runs.
type lockedBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}

// startStack starts everything in dir and returns when the command inside runs.
//
// isolation is how its runners keep runs apart. It is "external" for most tests: their runs
// touch files outside of their folders, by which a test knows how far they are.
func startStack(dir, isolation string, runners int) (*stack, error) {
	running, err := started.Start(started.Options{
		Executable: filepath.Join(binDir, "holdfast"), Dir: dir, Runners: runners,
		Environ: []string{"HOLDFAST_RUNNER_ISOLATION=" + isolation, "HOLDFAST_OUTBOUND_ALLOW=127.0.0.0/8"}, // receivers of tests are on this machine
	})
	if err != nil {
		return nil, err
	}
	s := &stack{Stack: running, dir: dir, environ: running.Environ, http: running.HTTP}
	if s.api, err = s.client(s.token()); err != nil {
		_ = s.Stop()
		return nil, err
	}
	return s, nil
}

// client is a go-tfe client for one token.
func (s *stack) client(token string) (*tfe.Client, error) {
	return tfe.NewClient(&tfe.Config{Address: s.address(), Token: token, HTTPClient: s.http})
}

func (s *stack) address() string { return s.environ["TFE_ADDRESS"] }
func (s *stack) token() string   { return s.environ["TFE_TOKEN"] }

// privateStack starts a stack for this test alone, in dir.
func privateStack(t *testing.T, dir string) *stack {
	t.Helper()
	return isolatingStack(t, dir, "external")
}

func isolatingStack(t *testing.T, dir, isolation string) *stack {
	t.Helper()
	s, err := startStack(dir, isolation, 1)
	require.NoError(t, err)
	stopped := false
	t.Cleanup(func() {
		if !s.Ended() {
			_ = s.Stop()
			stopped = true
		}
		if t.Failed() {
			t.Logf("the stack was stopped at the end: %v. It said:\n%s\nThe server's log ends:\n%s", stopped, s.Said(), s.Log("server"))
		}
	})
	return s
}

// pid gives the process id of a service.
func (s *stack) pid(t *testing.T, service string) int {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(s.dir, "pids", service))
	require.NoError(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(content)))
	require.NoError(t, err)
	return pid
}

// signal sends a signal to a service's process.
func (s *stack) signal(t *testing.T, service string, sig syscall.Signal) {
	t.Helper()
	require.NoError(t, syscall.Kill(s.pid(t, service), sig))
}

// killAndAwaitRestart kills a service with SIGKILL and returns when another process serves.
func (s *stack) killAndAwaitRestart(t *testing.T, service string) {
	t.Helper()
	before := s.pid(t, service)
	require.NoError(t, syscall.Kill(before, syscall.SIGKILL))
	eventually(t, "a new "+service+" and a healthy server", func() bool {
		content, err := os.ReadFile(filepath.Join(s.dir, "pids", service))
		return err == nil && strings.TrimSpace(string(content)) != strconv.Itoa(before) && s.healthy()
	})
}

func (s *stack) healthy() bool {
	resp, err := s.http.Get(s.address() + "/readyz")
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// plainEnviron is our environment without what would change how tofu or Holdfast work.
func plainEnviron() []string { return started.PlainEnviron() }

// commandEnviron is the environment of a command inside the stack.
func (s *stack) commandEnviron(more ...string) []string {
	environ := plainEnviron()
	for name, value := range s.environ {
		if name != "PWD" && name != "OLDPWD" {
			environ = append(environ, name+"="+value)
		}
	}
	return append(environ, more...)
}

// holdfast runs the host's command with the stack's environment.
func (s *stack) holdfast(args ...string) result {
	cmd := exec.Command(filepath.Join(binDir, "holdfast"), args...)
	cmd.Env = s.commandEnviron()
	return finish(cmd)
}

// patience is how long anything may take on a busy machine.
const patience = 3 * time.Minute

// eventually waits until the condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	require.Eventually(t, holds, patience, 100*time.Millisecond, "waited in vain for %s", what)
}
