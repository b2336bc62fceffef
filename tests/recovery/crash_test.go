package recovery

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/tests/stack"
)

// withFailpoints builds a server that can be told where to die.
func withFailpoints(t *testing.T) string {
	t.Helper()
	executable := filepath.Join(t.TempDir(), "holdfast")
	said, err := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-tags", "failpoint", "-o", executable, "../../cmd/holdfast").CombinedOutput()
	require.NoError(t, err, string(said))
	return executable
}

// failpoints finds the places of a recovery in the source, so that a new one is crashed at too.
func failpoints(t *testing.T) (names []string) {
	t.Helper()
	files, err := filepath.Glob("../../recovery/*.go")
	require.NoError(t, err)
	for _, file := range files {
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, found := range regexp.MustCompile(`failpoint\.Here\("([^"]+)"\)`).FindAllStringSubmatch(string(content), -1) {
			names = append(names, found[1])
		}
	}
	require.Len(t, names, 4)
	return names
}

// Wherever a server dies in a recovery, the repeat of the same request ends in the same target,
// once, and does nothing twice.
func TestAServerDiesDuringARecovery(t *testing.T) {
	t.Parallel()
	require.Empty(t, stepUp())
	places := failpoints(t)
	order := filepath.Join(t.TempDir(), "failpoint")
	p := newPlayer(newPlant(t, needs{network: true, played: true, program: withFailpoints(t), server: []string{"HOLDFAST_FAILPOINT=" + order}}))
	for _, resolution := range []string{"current_state_verified", "import_emergency_state", "import_emergency_successor"} {
		for _, place := range places {
			if resolution == "current_state_verified" && strings.HasPrefix(place, "recovery.copy.") {
				continue // nothing is copied
			}
			t.Run(resolution+" "+place, func(t *testing.T) { p.diesAt(t, order, resolution, place) })
		}
	}
}

func (p *player) diesAt(t *testing.T, order, resolution, place string) {
	run := p.prepare(resolution)
	recoverAt := "/api/v2/runs/" + run + "/actions/recover"
	body := document(ordinary(resolution))
	require.NoError(t, os.WriteFile(order, []byte(place), 0o600))
	require.Equal(t, 0, p.ask(p.network.address, "POST", recoverAt, body).status, "the server died")
	require.NoFileExists(t, order, "it died there")
	<-p.server.process.Done()
	p.server.start()
	p.awaitServer()

	evidence := p.evidence(run)
	before := evidence["operation"].(map[string]any)
	committed := place == "recovery.commit.after-commit"
	assert.Equal(t, map[bool]string{false: "prepared", true: "committed"}[committed], before["status"])
	assert.Equal(t, !committed, p.read("/api/v2/workspaces/" + p.workspace).Attributes["recovery-held"])
	for range 2 {
		op := p.ask(p.network.address, "POST", recoverAt, body).one(t, 200)
		assert.Equal(t, []any{before["id"], "committed", before["target-state-version-id"]}, []any{op.ID, op.Attributes["status"], op.Attributes["target-state-version-id"]})
	}
	current := p.read("/api/v2/workspaces/" + p.workspace + "/current-state-version").ID
	assert.Equal(t, before["target-state-version-id"], current)
	assert.Equal(t, false, p.read("/api/v2/workspaces/" + p.workspace).Attributes["locked"])
	assert.Equal(t, 1, p.count("select count(*) from recovery_operations where run_id = $1", run))
	assert.Equal(t, 2, p.count("select count(*) from audit_entries where object_id = $1 and action in ('run.recovered', 'state.recovered')", run))
	imported := map[bool]int{false: 0, true: 1}[resolution != "current_state_verified"]
	assert.Equal(t, imported, p.count("select count(*) from state_versions where run_id = $1 and holder_kind = 'recovery'", run))
	assert.Equal(t, 2, p.count("select count(*) from attempts where run_id = $1", run), "nothing is applied again")
}

// A store that is killed: what was prepared stays prepared and leased, and what is committed is
// answered without it.
func TestTheStoreIsKilled(t *testing.T) {
	t.Parallel()
	require.Empty(t, stepUp())
	listen := freeAddress(t)
	// The same objects as those of all, behind a store of the story's own.
	store := newDaemon(t, filepath.Join(t.TempDir(), "store.log"), func() *exec.Cmd {
		cmd := exec.Command(program("holdfast"), "dev-s3", "--dir", filepath.Join(shared.Dir, "s3"), "--listen", listen, "--bucket", shared.Environ["HOLDFAST_S3_BUCKET"])
		cmd.Env = append(stack.PlainEnviron(), "HOLDFAST_S3_ACCESS_KEY_ID="+shared.Environ["HOLDFAST_S3_ACCESS_KEY_ID"], "HOLDFAST_S3_SECRET_ACCESS_KEY="+shared.Environ["HOLDFAST_S3_SECRET_ACCESS_KEY"])
		return cmd
	})
	p := newPlayer(newPlant(t, needs{network: true, played: true, server: []string{"HOLDFAST_S3_ENDPOINT=http://" + listen}}))
	run := p.prepare("import_emergency_state")
	body := document(ordinary("import_emergency_state"))
	ask := func() reply { return p.ask(p.network.address, "POST", "/api/v2/runs/"+run+"/actions/recover", body) }

	store.kill()
	ask().refusal(t, 503, "store_unavailable")
	prepared := p.evidence(run)
	operation := prepared["operation"].(map[string]any)
	assert.Equal(t, "prepared", operation["status"])
	assert.Equal(t, true, p.read("/api/v2/workspaces/" + p.workspace).Attributes["recovery-held"])
	ask().refusal(t, 503, "store_unavailable")
	assert.Equal(t, pick(prepared, "lease-expires-at", "current-state-version-id"), pick(p.evidence(run), "lease-expires-at", "current-state-version-id"), "the lease is neither lost nor granted anew")

	store.start()
	p.awaitServer()
	var op resource
	eventually(t, "the repeated request", func() bool {
		answer := ask()
		if answer.status == 503 {
			return false
		}
		op = answer.one(t, 200)
		return true
	})
	assert.Equal(t, []any{operation["id"], operation["target-state-version-id"], "committed"}, []any{op.ID, op.Attributes["target-state-version-id"], op.Attributes["status"]})

	store.kill()
	assert.Equal(t, op, ask().one(t, 200), "what is done is answered without the store")
	require.ErrorIs(t, syscall.Kill(store.process.Pid(), 0), syscall.ESRCH)
}
