// Package stack runs `holdfast dev` for tests that see the product from outside.
//
// Owns: the start, the environment and the end of a stack, and of the tests that share one (Main).
// Words: stack (one `holdfast dev` with all its services, and more runners where wanted), leash
// (the pipe that the command inside reads: it closes when the test ends, however that is, and
// the stack ends with it).
// Invariants: no stack outlives its test process; processes are ended by the ids that the
// stack itself wrote down.
// Refuses: looking into the services.
// Tested by: the packages that use it.
package stack

import (
	"bufio"
	"bytes"
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
	"time"

	"github.com/holdfast-run/holdfast/internal/child"
)

// Options say which stack to run.
type Options struct {
	Executable string   // the holdfast binary; holdfast-runner and tofu stand beside it or on PATH
	Dir        string   // of the data
	Args       []string // further arguments of `holdfast dev`
	Providers  string   // a mirror of providers for runners and commands; empty: none
	Runners    int      // how many there are; 0 and 1 are the stack's own
	Environ    []string // NAME=value, on top of PlainEnviron
}

// Stack is a running `holdfast dev`.
type Stack struct {
	Dir     string
	Environ map[string]string // what the command inside sees
	HTTP    *http.Client      // trusts the stack's own authority
	process *exec.Cmd
	leash   io.Closer
	said    transcript
	runners []*child.Process // beside the stack's own
}

// Start returns when everything serves.
func Start(o Options) (*Stack, error) {
	s := &Stack{Dir: o.Dir, Environ: map[string]string{}}
	args := append([]string{"dev", "--data", o.Dir}, o.Args...)
	if o.Providers != "" {
		args = append(args, "--provider-mirror", o.Providers)
	}
	s.process = exec.Command(o.Executable, append(args, "--", "sh", "-c", `env -0; printf 'ready\0'; exec cat >/dev/null`)...)
	s.process.Env, s.process.Stderr = append(PlainEnviron(), o.Environ...), &s.said
	stdin, err := s.process.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := s.process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.process.Start(); err != nil {
		return nil, err
	}
	s.leash = stdin
	if err := s.complete(stdout, o); err != nil {
		_ = s.Stop()
		return nil, fmt.Errorf("holdfast dev did not start: %w\n%s", err, s.Said())
	}
	return s, nil
}

func (s *Stack) complete(stdout io.Reader, o Options) error {
	if err := s.readEnviron(stdout); err != nil {
		return err
	}
	if err := s.trust(); err != nil {
		return err
	}
	return s.moreRunners(o)
}

func (s *Stack) readEnviron(stdout io.Reader) error {
	for told := bufio.NewReader(stdout); ; {
		entry, err := told.ReadString(0)
		if err != nil {
			return err
		}
		if entry = strings.TrimSuffix(entry, "\x00"); entry == "ready" {
			return nil
		}
		name, value, _ := strings.Cut(entry, "=")
		s.Environ[name] = value
	}
}

func (s *Stack) trust() error {
	bundle, err := os.ReadFile(s.Environ["SSL_CERT_FILE"])
	if err != nil {
		return err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(bundle)
	s.HTTP = &http.Client{Timeout: 2 * time.Minute, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 100,
	}}
	return nil
}

// Address is where the API is, without a slash at its end.
func (s *Stack) Address() string { return s.Environ["TFE_ADDRESS"] }

// Token is that of the site admin.
func (s *Stack) Token() string { return s.Environ["TFE_TOKEN"] }

// Said is what `holdfast dev` has printed.
func (s *Stack) Said() string { return s.said.String() }

// Stop ends the command inside, and with it the stack. The error is that of `holdfast dev`.
func (s *Stack) Stop() error {
	s.stopRunners()
	_ = s.leash.Close()
	return s.process.Wait()
}

// Log is the end of a service's log.
func (s *Stack) Log(service string) string {
	content, _ := os.ReadFile(filepath.Join(s.Dir, "logs", service+".log"))
	return string(content[max(0, len(content)-4000):])
}

// Pid is the process id of a service as it runs now.
func (s *Stack) Pid(service string) (int, error) {
	content, err := os.ReadFile(filepath.Join(s.Dir, "pids", service))
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(content)))
}

// Terminate asks `holdfast dev` itself to end, as a service manager does, and waits for it.
func (s *Stack) Terminate() error {
	_ = s.process.Process.Signal(syscall.SIGTERM)
	return s.process.Wait()
}

// Ended tells whether Stop or Terminate have been.
func (s *Stack) Ended() bool { return s.process.ProcessState != nil }

// Signal sends a signal to a service.
func (s *Stack) Signal(service string, signal syscall.Signal) error {
	pid, err := s.Pid(service)
	if err != nil {
		return err
	}
	return syscall.Kill(pid, signal)
}

// Ready tells whether the server takes requests.
func (s *Stack) Ready() bool {
	response, err := s.HTTP.Get(s.Address() + "/readyz")
	if err != nil {
		return false
	}
	defer response.Body.Close()
	return response.StatusCode == http.StatusOK
}

// PlainEnviron is our environment without what would change how tofu or Holdfast work.
func PlainEnviron() (environ []string) {
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, "TF_") && !strings.HasPrefix(entry, "TFE_") && !strings.HasPrefix(entry, "HOLDFAST_") {
			environ = append(environ, entry)
		}
	}
	return environ
}

// transcript collects what a process says while it runs.
type transcript struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *transcript) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *transcript) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
