package cli

import (
	"bytes"
	"context"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-tfe"
	"github.com/stretchr/testify/require"

	started "github.com/holdfast-run/holdfast/tests/stack"
)

// ctx has no end of its own: go test's -timeout is the last word.
var ctx = context.Background()

// patience is how long anything may take on a busy machine.
const patience = 5 * time.Minute

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

// plainEnviron is our environment without what would change how tofu or Holdfast work.
func plainEnviron() []string { return started.PlainEnviron() }

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
