package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/hashicorp/go-tfe"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// slowPlan keeps tofu busy for a second or two while it plans.
const slowPlan = `
	locals { many = length(flatten([for i in range(300) : [for j in range(1000) : i * j]])) }
	resource "terraform_data" "a" { input = local.many }
	output "many" { value = terraform_data.a.output }`

func TestTheServerIsKilledDuringAnApply(t *testing.T) {
	t.Parallel()
	s := privateStack(t, t.TempDir())
	at := newGate(t)
	w := s.newWorkspace(t, "w")
	r := s.newRun(t, w.ID, resource("slow", at.command())+`output "a" { value = terraform_data.slow.output }`)
	at.reached()
	s.killAndAwaitRestart(t, "server")
	assert.Equal(t, "applying", s.runFacts(t, r.ID).Status)
	at.open()
	facts := s.ended(t, r.ID)
	assert.Equal(t, "applied", facts.Status, facts.StatusMessage)
	assert.Equal(t, "slow", s.outputs(t, w.ID)["a"])
	assertWholeApplyLog(t, s, r.ID)

	// The same with the database.
	at = newGate(t)
	r = s.newRun(t, w.ID, resource("slower", at.command())+`output "a" { value = terraform_data.slower.output }`)
	at.reached()
	s.killAndAwaitRestart(t, "postgres")
	at.open()
	facts = s.ended(t, r.ID)
	assert.Equal(t, "applied", facts.Status, facts.StatusMessage)
	assert.Equal(t, "slower", s.outputs(t, w.ID)["a"])
	assertWholeApplyLog(t, s, r.ID)

	// And with the object store, which the state goes to.
	at = newGate(t)
	r = s.newRun(t, w.ID, resource("slowest", at.command()))
	at.reached()
	s.killAndAwaitRestart(t, "s3")
	at.open()
	facts = s.ended(t, r.ID)
	assert.Equal(t, "applied", facts.Status, facts.StatusMessage)
	assertWholeApplyLog(t, s, r.ID)
}

func assertWholeApplyLog(t *testing.T, s *stack, run string) {
	t.Helper()
	read, err := s.api.Runs.Read(ctx, run)
	require.NoError(t, err)
	apply, err := s.api.Applies.Read(ctx, read.Apply.ID)
	require.NoError(t, err)
	log := s.as(t, "", http.MethodGet, apply.LogReadURL, nil).body
	assert.Contains(t, log, "Apply complete!")
	assert.True(t, strings.HasSuffix(log, "\x03"))
	assert.Equal(t, 1, strings.Count(log, "\x03"))
}

func TestTheDatabaseIsKilledDuringAPlan(t *testing.T) {
	t.Parallel()
	s := privateStack(t, t.TempDir())
	w := s.newWorkspace(t, "w")
	r := s.newRun(t, w.ID, slowPlan)
	// On a quick machine the plan may be over before it is seen.
	eventually(t, "the plan to begin", func() bool { return s.runFacts(t, r.ID).DurableStatus != "queued" })
	s.killAndAwaitRestart(t, "postgres")
	facts := s.ended(t, r.ID)
	assert.Contains(t, []string{"succeeded", "plan_failed", "apply_failed"}, facts.DurableStatus, facts.StatusMessage)
	next := s.newRun(t, w.ID, slowPlan)
	facts = s.ended(t, next.ID)
	assert.Contains(t, []string{"applied", "planned_and_finished"}, facts.Status, facts.StatusMessage)
	assert.EqualValues(t, 300_000, s.outputs(t, w.ID)["many"])
}

// Cases 20 and 26, and the dozen's 3. The server waits ten minutes before it calls the runner
// lost; until then, and after that, the workspace is nobody else's.
func TestTheRunnerIsKilledDuringAnApply(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := privateStack(t, dir)
	at := newGate(t)
	w := s.newWorkspace(t, "w")
	r := s.newRun(t, w.ID, resource("slow", at.command()))
	at.reached()
	before := s.pid(t, "runner")
	s.signal(t, "runner", syscall.SIGKILL)
	eventually(t, "another runner", func() bool {
		content, err := os.ReadFile(filepath.Join(dir, "pids", "runner"))
		return err == nil && strings.TrimSpace(string(content)) != strconv.Itoa(before)
	})
	waiting := s.newRun(t, w.ID, `resource "terraform_data" "other" {}`)

	assertOccupied := func(s *stack) {
		t.Helper()
		facts := s.runFacts(t, r.ID)
		assert.Equal(t, "applying", facts.DurableStatus)
		require.NotNil(t, facts.Fence)
		assert.False(t, facts.Fence.Released)
		assert.Equal(t, "pending", s.runFacts(t, waiting.ID).Status, "it does not overtake")
		w, err := s.api.Workspaces.ReadByID(ctx, w.ID)
		require.NoError(t, err)
		assert.True(t, w.Locked)
		s.post(t, "/api/v2/workspaces/"+w.ID+"/actions/lock", "{}").refusal(t, http.StatusConflict)
		assert.Contains(t, s.post(t, "/api/v2/workspaces/"+w.ID+"/actions/force-unlock", "{}").refusal(t, http.StatusConflict).Detail, "is locked by Run")
	}
	assertOccupied(s)
	// The other runner is at work for others.
	elsewhere := s.newRun(t, s.newWorkspace(t, "elsewhere").ID, `resource "terraform_data" "a" {}`)
	assert.Equal(t, "applied", s.ended(t, elsewhere.ID).Status)
	token := s.token()

	require.NoError(t, s.Stop(), s.Said())
	s = privateStack(t, dir)
	assert.Equal(t, token, s.token(), "the second start finds the data of the first")
	assert.Equal(t, "applied", s.runFacts(t, elsewhere.ID).Status)
	assertOccupied(s)
}

func TestTheRunnerIsToldToEndDuringAnApply(t *testing.T) {
	t.Parallel()
	s := privateStack(t, t.TempDir())
	at := newGate(t)
	w := s.newWorkspace(t, "w")
	r := s.newRun(t, w.ID, resource("slow", at.command()))
	at.reached()
	s.signal(t, "runner", syscall.SIGTERM)
	at.open()
	facts := s.ended(t, r.ID)
	assert.Equal(t, "applied", facts.Status, "it finishes what it has begun: %s", facts.StatusMessage)
	assertWholeApplyLog(t, s, r.ID)

	// When the whole stack stops there is no time for that: tofu is interrupted.
	at = newGate(t)
	r = s.newRun(t, w.ID, resource("endless", at.command()))
	at.reached()
	_ = s.Terminate()
	s = privateStack(t, s.dir)
	facts = s.runFacts(t, r.ID)
	assert.Equal(t, "apply_failed", facts.DurableStatus)
	assert.Contains(t, facts.StatusMessage, "The runner was told to end at once.")
	assert.Contains(t, facts.StatusMessage, "has published state", "tofu could save what it had made")
	assert.False(t, facts.Fence.Released)
	w, err := s.api.Workspaces.ReadByID(ctx, w.ID)
	require.NoError(t, err)
	assert.True(t, w.Locked)
}

// A database that does not answer is a 503 that asks to come again, and what was
// acknowledged before is there after.
func TestTheDatabaseIsDown(t *testing.T) {
	t.Parallel()
	s := privateStack(t, t.TempDir())
	w := s.newWorkspace(t, "acknowledged")
	postmaster := s.pid(t, "postgres")
	require.NoError(t, syscall.Kill(postmaster, syscall.SIGSTOP))
	stopped := true
	defer func() {
		if stopped {
			_ = syscall.Kill(postmaster, syscall.SIGCONT)
		}
	}()
	for _, backend := range children(t, postmaster) {
		require.NoError(t, syscall.Kill(backend, syscall.SIGKILL))
	}
	for name, r := range map[string]reply{
		"read":   s.get(t, "/api/v2/workspaces/"+w.ID),
		"create": s.post(t, "/api/v2/organizations/demo/workspaces", `{"data":{"type":"workspaces","attributes":{"name":"not-acknowledged"}}}`),
		"lock":   s.post(t, "/api/v2/workspaces/"+w.ID+"/actions/lock", "{}"),
		"whoami": s.get(t, "/api/v2/account/details"),
	} {
		refused := r.refusal(t, http.StatusServiceUnavailable)
		assert.NotEmpty(t, r.header.Get("Retry-After"), name)
		assert.NotContains(t, refused.Detail, "127.0.0.1", "%s tells nothing of the inside", name)
	}
	assert.False(t, s.healthy())
	require.NoError(t, syscall.Kill(postmaster, syscall.SIGCONT))
	stopped = false
	eventually(t, "a healthy server", s.healthy)
	back, err := s.api.Workspaces.Read(ctx, "demo", "acknowledged")
	require.NoError(t, err)
	assert.False(t, back.Locked)
	r := s.newRun(t, w.ID, `resource "terraform_data" "a" {}`)
	assert.Equal(t, "applied", s.ended(t, r.ID).Status)
}

// children lists the processes that a process has started.
func children(t *testing.T, parent int) (pids []int) {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	require.NoError(t, err)
	for _, path := range stats {
		content, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		// pid (name) state ppid …, and the name may hold anything
		fields := strings.Fields(string(content[strings.LastIndexByte(string(content), ')')+1:]))
		if fields[1] != fmt.Sprint(parent) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		require.NoError(t, err)
		pids = append(pids, pid)
	}
	require.NotEmpty(t, pids)
	return pids
}

func TestTheObjectStoreIsDown(t *testing.T) {
	t.Parallel()
	s := privateStack(t, t.TempDir())
	w := s.newWorkspace(t, "w")
	_, err := s.api.Workspaces.Lock(ctx, w.ID, tfe.WorkspaceLockOptions{})
	require.NoError(t, err)
	content := stateFile(1, "a")
	id, link := uploadURL(t, s.announce(t, w.ID, content))
	store := s.pid(t, "s3")
	require.NoError(t, syscall.Kill(store, syscall.SIGSTOP))
	defer func() { _ = syscall.Kill(store, syscall.SIGCONT) }() // for the case that the test fails before
	r := s.as(t, "", http.MethodPut, link, strings.NewReader(content))
	r.refusal(t, http.StatusServiceUnavailable)
	s.get(t, "/api/v2/workspaces/"+w.ID+"/current-state-version").refusal(t, http.StatusNotFound)
	require.NoError(t, syscall.Kill(store, syscall.SIGCONT))
	eventually(t, "the repeated upload", func() bool {
		return s.as(t, "", http.MethodPut, link, strings.NewReader(content)).status == http.StatusOK
	})
	current, err := s.api.StateVersions.ReadCurrent(ctx, w.ID)
	require.NoError(t, err)
	assert.Equal(t, id, current.ID)
}
