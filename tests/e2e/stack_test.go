package e2e

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
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
)

// ctx has no end of its own: go test's -timeout is the last word.
var ctx = context.Background()

// stack is a running `holdfast dev` with its services.
type stack struct {
	dir     string
	environ map[string]string // what the command inside sees
	api     *tfe.Client       // as the site admin
	http    *http.Client

	supervisor *exec.Cmd
	leash      io.Closer // the command's stdin: when it closes, the command and with it the stack ends
	stderr     *lockedBuffer
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

// startStack starts everything in dir and returns when the command inside runs. The
// command tells its environment and then waits until our end of its pipe closes, which
// also happens when this process is killed.
//
// isolation is how its runner keeps runs apart. It is "external" for most tests: their runs
// touch files outside of their folders, by which a test knows how far they are.
func startStack(dir, isolation string) (*stack, error) {
	s := &stack{dir: dir, environ: map[string]string{}, stderr: &lockedBuffer{}}
	s.supervisor = exec.Command(filepath.Join(binDir, "holdfast"), "dev", "--data", dir, "--",
		"sh", "-c", `env -0; printf 'ready\0'; exec cat >/dev/null`)
	s.supervisor.Env = append(plainEnviron(), "HOLDFAST_RUNNER_ISOLATION="+isolation, "HOLDFAST_OUTBOUND_ALLOW=127.0.0.0/8") // receivers of tests are on this machine
	s.supervisor.Stderr = s.stderr
	stdin, err := s.supervisor.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := s.supervisor.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.supervisor.Start(); err != nil {
		return nil, err
	}
	s.leash = stdin
	for told := bufio.NewReader(stdout); ; {
		entry, err := told.ReadString(0)
		if err != nil {
			_ = s.stop()
			return nil, fmt.Errorf("holdfast dev did not start:\n%s", s.log())
		}
		entry = strings.TrimSuffix(entry, "\x00")
		if entry == "ready" {
			break
		}
		name, value, _ := strings.Cut(entry, "=")
		s.environ[name] = value
	}
	if err := s.connect(); err != nil {
		_ = s.stop()
		return nil, err
	}
	return s, nil
}

func (s *stack) connect() error {
	pool := x509.NewCertPool()
	bundle, err := os.ReadFile(s.environ["SSL_CERT_FILE"])
	if err != nil {
		return err
	}
	pool.AppendCertsFromPEM(bundle)
	s.http = &http.Client{Timeout: 2 * time.Minute, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true,
	}}
	s.api, err = s.client(s.token())
	return err
}

// client is a go-tfe client for one token.
func (s *stack) client(token string) (*tfe.Client, error) {
	return tfe.NewClient(&tfe.Config{Address: s.address(), Token: token, HTTPClient: s.http})
}

func (s *stack) address() string { return s.environ["TFE_ADDRESS"] }
func (s *stack) token() string   { return s.environ["TFE_TOKEN"] }
func (s *stack) log() string     { return s.stderr.String() }

// stop ends the command, and with it the stack. The error is that of `holdfast dev`.
func (s *stack) stop() error {
	_ = s.leash.Close()
	return s.supervisor.Wait()
}

// privateStack starts a stack for this test alone, in dir.
func privateStack(t *testing.T, dir string) *stack {
	t.Helper()
	return isolatingStack(t, dir, "external")
}

func isolatingStack(t *testing.T, dir, isolation string) *stack {
	t.Helper()
	s, err := startStack(dir, isolation)
	require.NoError(t, err)
	stopped := false
	t.Cleanup(func() {
		if s.supervisor.ProcessState == nil {
			_ = s.stop()
			stopped = true
		}
		if t.Failed() {
			t.Logf("the stack was stopped at the end: %v. It said:\n%s\nThe server's log ends:\n%s", stopped, s.log(), s.logOf("server"))
		}
	})
	return s
}

// logOf gives the end of a service's log.
func (s *stack) logOf(service string) string {
	content, _ := os.ReadFile(filepath.Join(s.dir, "logs", service+".log"))
	return string(content[max(0, len(content)-4000):])
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
func plainEnviron() []string {
	var environ []string
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, "TF_") && !strings.HasPrefix(entry, "TFE_") && !strings.HasPrefix(entry, "HOLDFAST_") {
			environ = append(environ, entry)
		}
	}
	return environ
}

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
