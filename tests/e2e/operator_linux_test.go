package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/go-tfe"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// operator is a user of the shared stack with both rights, and a second factor of its own,
// so that no test uses up the codes of another.
type operator struct {
	t        *testing.T
	name     string
	token    string
	password string
	codes    []string // recovery codes: they do not depend on the time
}

func newOperator(t *testing.T, name string) *operator {
	t.Helper()
	o := &operator{t: t, name: name, password: "correct horse battery staple"}
	made := shared.holdfast("admin", "users", "create", name, "--org", "demo", "--role", "owner")
	require.Equal(t, 0, made.code, made.said)
	o.token = strings.TrimSpace(made.stdout)
	set := exec.Command(filepath.Join(binDir, "holdfast"), "admin", "users", "set-password", name)
	set.Env, set.Stdin = shared.commandEnviron(), strings.NewReader(o.password+"\n")
	require.Equal(t, 0, finish(set).code)

	var begun, confirmed struct {
		Data struct {
			Attributes struct {
				Secret        string
				RecoveryCodes []string `json:"recovery-codes"`
			}
		}
	}
	answer := shared.as(t, o.token, http.MethodPost, "/api/v2/account/totp", strings.NewReader(fmt.Sprintf(`{"password":%q}`, o.password)))
	require.Equal(t, http.StatusCreated, answer.status, answer.body)
	require.NoError(t, json.Unmarshal([]byte(answer.body), &begun))
	secret := filepath.Join(t.TempDir(), "totp")
	require.NoError(t, os.WriteFile(secret, []byte(begun.Data.Attributes.Secret), 0o600))
	code := shared.holdfast("admin", "totp", "--file", secret)
	require.Equal(t, 0, code.code, code.said)
	answer = shared.as(t, o.token, http.MethodPost, "/api/v2/account/totp/actions/confirm", strings.NewReader(fmt.Sprintf(`{"code":%q}`, strings.TrimSpace(code.stdout))))
	require.Equal(t, http.StatusOK, answer.status, answer.body)
	require.NoError(t, json.Unmarshal([]byte(answer.body), &confirmed))
	o.codes = confirmed.Data.Attributes.RecoveryCodes
	return o
}

func (o *operator) environ() []string {
	return shared.commandEnviron("HOLDFAST_TOKEN="+o.token, "HOLDFAST_PASSWORD_FILE=")
}

// recover runs `holdfast admin recover` as the operator, with lines as standard input.
func (o *operator) recover(lines string, args ...string) result {
	o.t.Helper()
	cmd := exec.Command(filepath.Join(binDir, "holdfast"), append([]string{"admin", "recover"}, args...)...)
	cmd.Env, cmd.Stdin = o.environ(), strings.NewReader(lines)
	return finish(cmd)
}

// The ordinary failure, as people see it: tofu says in both of its execution modes that the
// workspace is held, by whom, and what to do; the operator does exactly that, with one code;
// and then the plan is right.
func TestAnOperatorRecoversTheOrdinaryFailure(t *testing.T) {
	t.Parallel()
	o := newOperator(t, "recovers-the-ordinary")
	cured := filepath.Join(t.TempDir(), "cured")
	// The client looks for the apply only a while after the plan: hence the sleep.
	f := newFolder(t, shared, `resource "terraform_data" "first" {}`+"\n"+resource("second", "sleep 3; test -e "+cured, "depends_on = [terraform_data.first]"))
	f.init()
	failed := f.tofu("apply", "-auto-approve")
	require.Equal(t, 1, failed.code, failed.said)
	id := runIn(t, failed.said)
	page := shared.address() + "/app/demo/" + f.workspace + "/runs/" + id
	assertHeld := func(command ...string) {
		t.Helper()
		r := f.tofu(command...)
		assert.Equal(t, 1, r.code, r.said)
		said := strings.Join(strings.Fields(strings.ReplaceAll(r.said, "│", " ")), " ") // tofu folds lines
		for _, part := range []string{"Workspace locked", "Complete recovery of " + id + " first", "`holdfast admin recover show " + id + "`", "`holdfast admin recover " + id + " --apply`", page} {
			assert.Contains(t, said, part, "%v", command)
		}
		assert.NotRegexp(t, "(?i)state (has )?moved|stale_|changed outside", said, "it is no ordinary movement of state")
	}
	assertHeld("plan")
	assertHeld("apply", "-auto-approve")
	_, err := shared.api.Workspaces.UpdateByID(ctx, f.current().ID, tfe.WorkspaceUpdateOptions{ExecutionMode: tfe.String("local")})
	require.NoError(t, err)
	assertHeld("apply", "-auto-approve")
	assertHeld("state", "rm", "terraform_data.first")
	assertHeld("force-unlock", "-force", "demo/"+f.workspace)
	_, err = shared.api.Workspaces.UpdateByID(ctx, f.current().ID, tfe.WorkspaceUpdateOptions{ExecutionMode: tfe.String("remote")})
	require.NoError(t, err)

	listed := o.recover("", "list", "--organization", "demo")
	require.Equal(t, 0, listed.code, listed.said)
	assert.Contains(t, listed.stdout, id+"  demo/"+f.workspace)
	before := shared.runFacts(t, id)
	for _, args := range [][]string{{"show", id}, {id}, {"propose", id}} {
		rehearsed := o.recover("", args...)
		require.Equal(t, 0, rehearsed.code, rehearsed.said)
		assert.Contains(t, rehearsed.stdout, "proven        yes, nothing is in doubt")
	}
	assert.Equal(t, before, shared.runFacts(t, id), "nothing was changed")
	refused := o.recover("wrong\n000000\n", id, "--apply")
	assert.Equal(t, 1, refused.code)
	assert.Contains(t, refused.said, "holdfast: step_up_failed: ")

	at := atTerminal(t, "holdfast", append(o.environ(), "TERM=dumb"), "admin", "recover", id, "--apply")
	at.awaits(t, "Password of "+o.name+": ")
	at.types(t, o.password)
	at.awaits(t, "Code of your second factor, or a recovery code: ")
	at.types(t, o.codes[0])
	require.Equal(t, 0, at.wait(t), at.said)
	assert.Contains(t, at.said.String(), "recovered     "+id)
	assert.NotContains(t, at.said.String(), o.password)
	assert.NotContains(t, at.said.String(), o.codes[0])
	facts := shared.runFacts(t, id)
	assert.Equal(t, []any{"needs_recovery", true}, []any{facts.DurableStatus, facts.Fence.Released})
	repeated := o.recover("", id, "--apply")
	assert.Equal(t, 0, repeated.code, repeated.said)
	assert.Contains(t, repeated.stdout, "recovered at ")

	require.NoError(t, os.WriteFile(cured, nil, 0o644))
	assert.Contains(t, f.ok("plan"), "Plan: 1 to add, 0 to change, 1 to destroy.")
	assert.Contains(t, f.ok("apply", "-auto-approve"), "Apply complete!")
	assert.Equal(t, 0, f.tofu("plan", "-detailed-exitcode").code)
}

// Where the workspace says so, the server recovers the ordinary failure by itself, and the
// run that waits goes on; an apply that was killed is left to people.
func TestAWorkspaceReleasesWhatIsProven(t *testing.T) {
	t.Parallel()
	w := shared.newWorkspace(t, workspaceName(t))
	patch := `{"data":{"type":"workspaces","attributes":{"failed-apply":"release-when-proven"}}}`
	answer := shared.as(t, shared.token(), http.MethodPatch, "/api/v2/workspaces/"+w.ID, strings.NewReader(patch))
	require.Equal(t, http.StatusOK, answer.status, answer.body)
	at := newGate(t)
	failing := shared.newRun(t, w.ID, `resource "terraform_data" "first" {}`+"\n"+resource("second", at.command()+" && exit 1", "depends_on = [terraform_data.first]"))
	at.reached()
	next := shared.newRun(t, w.ID, resource("deadly", "kill -9 $PPID")) // the shell's parent is tofu
	at.open()
	eventually(t, "the release of "+failing.ID, func() bool {
		facts := shared.runFacts(t, failing.ID)
		return facts.DurableStatus == "needs_recovery" && facts.Fence.Released
	})
	answer = shared.get(t, "/api/v2/runs/"+failing.ID+"/recovery")
	require.Equal(t, http.StatusOK, answer.status, answer.body)
	assert.Contains(t, answer.body, `"principal-id":"policy"`)
	assert.Contains(t, answer.body, `"required":false`)

	facts := shared.ended(t, next.ID)
	assert.Equal(t, "outcome_unknown", facts.DurableReason)
	held, err := shared.api.Workspaces.ReadByID(ctx, w.ID)
	require.NoError(t, err)
	assert.True(t, held.Locked)
	assert.Contains(t, shared.get(t, "/api/v2/runs/"+next.ID+"/recovery").body, `"code":"writer_not_proven"`)
	freed := shared.holdfast("admin", "break-glass", next.ID, "--reason", "the test is over", "--apply")
	require.Equal(t, 0, freed.code, freed.said)
}
