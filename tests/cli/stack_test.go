package cli

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
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-tfe"
	"github.com/stretchr/testify/require"
)

// ctx has no end of its own: go test's -timeout is the last word.
var ctx = context.Background()

// patience is how long anything may take on a busy machine.
const patience = 5 * time.Minute

// stack is a running `holdfast dev`.
type stack struct {
	environ map[string]string // what the command inside sees
	api     *tfe.Client       // as the site admin
	process *exec.Cmd
	leash   io.Closer // when it closes, the command inside ends, and with it the stack
	said    *transcript
	http    *http.Client // trusts it
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

// mirror makes a folder with the providers of package tests/provider.
func mirror(dir string) error {
	build, err := filepath.Abs(filepath.Join("..", "provider", "build.sh"))
	if err != nil {
		return err
	}
	if said, err := exec.Command(build, dir).CombinedOutput(); err != nil {
		return fmt.Errorf("make the providers: %w\n%s", err, said)
	}
	return nil
}

// startStack returns when everything runs. The command inside tells its environment and
// then reads our pipe, which also closes when this process is killed.
func startStack(dir string) (*stack, error) {
	s := &stack{environ: map[string]string{}, said: &transcript{}}
	providers := dir + "-providers"
	if err := mirror(providers); err != nil {
		return nil, err
	}
	s.process = exec.Command(program("holdfast"), "dev", "--data", dir, "--provider-mirror", providers, "--", "sh", "-c", `env -0; printf 'ready\0'; exec cat >/dev/null`)
	// Providers keep their ledgers outside of the folders of runs, and one runner serves many organizations.
	s.process.Env, s.process.Stderr = append(plainEnviron(), "HOLDFAST_RUNNER_ISOLATION=external"), s.said
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
	for told := bufio.NewReader(stdout); ; {
		entry, err := told.ReadString(0)
		if err != nil {
			_ = s.stop()
			return nil, fmt.Errorf("holdfast dev did not start:\n%s", s.said)
		}
		if entry = strings.TrimSuffix(entry, "\x00"); entry == "ready" {
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
	s.http = &http.Client{Timeout: patience, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}}
	s.api, err = tfe.NewClient(&tfe.Config{Address: s.environ["TFE_ADDRESS"], Token: s.environ["TFE_TOKEN"], HTTPClient: s.http})
	return err
}

func (s *stack) stop() error {
	_ = s.leash.Close()
	return s.process.Wait()
}

// plainEnviron is our environment without what would change how tofu or Holdfast work.
func plainEnviron() (environ []string) {
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, "TF_") && !strings.HasPrefix(entry, "TFE_") && !strings.HasPrefix(entry, "HOLDFAST_") {
			environ = append(environ, entry)
		}
	}
	return environ
}

// desk is an organization of its own, and the environment in which tofu works for it.
type desk struct {
	t            *testing.T
	organization string
	environ      []string
}

// newDesk makes the organization. It is deleted after the test, with what it contains.
func newDesk(t *testing.T) *desk {
	t.Helper()
	name := "cli-" + strings.ToLower(rand())
	o, err := shared.api.Organizations.Create(ctx, tfe.OrganizationCreateOptions{Name: &name, Email: tfe.String("cli@holdfast.test"), CostEstimationEnabled: tfe.Bool(false)})
	require.NoError(t, err)
	require.Equal(t, name, o.Name)
	t.Cleanup(func() {
		if !t.Failed() {
			require.NoError(t, shared.api.Organizations.Delete(ctx, name))
		}
	})
	return &desk{t: t, organization: name, environ: append(plainEnviron(),
		"SSL_CERT_FILE="+shared.environ["SSL_CERT_FILE"], "TF_CLI_CONFIG_FILE="+shared.environ["TF_CLI_CONFIG_FILE"],
		"TF_CLI_ARGS=-no-color", "CHECKPOINT_DISABLE=1")}
}

func host() string { return shared.environ["TFE_HOSTNAME"] }

// workspaces gives the names in the desk's organization, sorted: the list has what was used last in front.
func (d *desk) workspaces() []string {
	d.t.Helper()
	list, err := shared.api.Workspaces.List(ctx, d.organization, nil)
	require.NoError(d.t, err)
	names := []string{}
	for _, w := range list.Items {
		names = append(names, w.Name)
	}
	slices.Sort(names)
	return names
}

func (d *desk) workspace(name string) *tfe.Workspace {
	d.t.Helper()
	w, err := shared.api.Workspaces.ReadWithOptions(ctx, d.organization, name, &tfe.WorkspaceReadOptions{Include: []tfe.WSIncludeOpt{tfe.WSCurrentRun}})
	require.NoError(d.t, err)
	return w
}

// newWorkspace makes a workspace whose operations happen on this machine, unless the
// options say otherwise.
func (d *desk) newWorkspace(name string, o tfe.WorkspaceCreateOptions) *tfe.Workspace {
	d.t.Helper()
	o.Name = &name
	if o.ExecutionMode == nil {
		o.ExecutionMode = tfe.String("local")
	}
	w, err := shared.api.Workspaces.Create(ctx, d.organization, o)
	require.NoError(d.t, err)
	return w
}

// release frees the workspace that a failed run holds, as an operator does who has looked at
// what the run left.
func release(t *testing.T, run *tfe.Run) {
	t.Helper()
	cmd := exec.Command(program("holdfast"), "admin", "break-glass", run.ID, "--reason", "a test has looked", "--apply")
	cmd.Env = plainEnviron()
	for name, value := range shared.environ {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	said, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", said)
	w, err := shared.api.Workspaces.ReadByID(ctx, run.Workspace.ID)
	require.NoError(t, err)
	require.False(t, w.Locked)
}
