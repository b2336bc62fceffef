package chaos

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-tfe"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// newCluster is a stack for one test, with a calm network.
func newCluster(t *testing.T, have size) *stack {
	t.Helper()
	needsSeed(t)
	t.Parallel()
	dir, err := os.MkdirTemp("", "holdfast-cluster-")
	require.NoError(t, err)
	h, err := newHistory(dir)
	require.NoError(t, err)
	s, err := startStack(dir, h, have, faults{})
	require.NoError(t, err)
	t.Cleanup(func() {
		s.stop()
		if t.Failed() {
			t.Logf("All logs and all data stay in %s", dir)
			return
		}
		_ = os.RemoveAll(dir)
	})
	return s
}

func readTrimmed(file string) (string, error) {
	text, err := os.ReadFile(file)
	return strings.TrimSpace(string(text)), err
}

// mustPlace is a workspace for runs.
func (s *stack) mustPlace(t *testing.T, name string) place {
	t.Helper()
	p, err := s.newPlace(name, "remote")
	require.NoError(t, err)
	return p
}

// mustRun asks for a run in calm.
func (s *stack) mustRun(t *testing.T, p place, configuration string, auto bool) string {
	t.Helper()
	api, err := s.api(s.proxy.calm())
	require.NoError(t, err)
	run, err := s.newRun(api, p, configuration, "a run", auto)
	require.NoError(t, err)
	return run.ID
}

// status is a run's durable status.
func (s *stack) status(run string) string {
	type row struct{ Status string }
	rows, err := query[row](s, "select durable_status as status from runs where id = $1", run)
	if err != nil || len(rows) != 1 {
		return ""
	}
	return rows[0].Status
}

func (s *stack) reaches(t *testing.T, run, want string) {
	t.Helper()
	if err := await(run+" in "+want, func() bool { return s.status(run) == want }); err != nil {
		type row struct{ Text string }
		why, _ := query[row](s, "select durable_status || ' ' || durable_reason || ': ' || status_message as text from runs where id = $1", run)
		require.Fail(t, err.Error(), "%v", why)
	}
}

// healthy checks what is left of these places against the model.
func (s *stack) healthy(t *testing.T, places ...place) {
	t.Helper()
	o, err := s.collect(places)
	require.NoError(t, err)
	assert.Empty(t, violations(o))
}

// Of 20 runs that 20 clients ask three servers for at the same time, one has the workspace and the
// others wait. Then each gets it in turn.
func TestTwentyRunsAtOnceFromThreeServers(t *testing.T) {
	s := newCluster(t, size{servers: 3})
	player := newPlayer(t, s)
	p := s.mustPlace(t, "popular")
	api, err := s.api(s.proxy.calm())
	require.NoError(t, err)
	packed, err := archive(`resource "terraform_data" "a" {}`)
	require.NoError(t, err)
	versions := make([]*tfe.ConfigurationVersion, 20)
	for i := range versions {
		versions[i], err = api.ConfigurationVersions.Create(ctx, p.id, tfe.ConfigurationVersionCreateOptions{AutoQueueRuns: tfe.Bool(false)})
		require.NoError(t, err)
		copied := *packed
		require.NoError(t, api.ConfigurationVersions.UploadTarGzip(ctx, versions[i].UploadURL, &copied))
	}
	var asking sync.WaitGroup
	gun := make(chan struct{})
	for i, version := range versions {
		direct, err := s.api("https://" + s.servers[i%len(s.servers)].address())
		require.NoError(t, err)
		asking.Go(func() {
			<-gun
			_, err := direct.Runs.Create(ctx, tfe.RunCreateOptions{Workspace: &tfe.Workspace{ID: p.id}, ConfigurationVersion: version, AutoApply: tfe.Bool(true)})
			assert.NoError(t, err)
		})
	}
	close(gun)
	asking.Wait()

	var order []string // as the API lists them, the oldest first
	list, err := api.Runs.List(ctx, p.id, &tfe.RunListOptions{ListOptions: tfe.ListOptions{PageSize: 100}})
	require.NoError(t, err)
	require.Len(t, list.Items, 20)
	for _, r := range list.Items {
		order = append([]string{r.ID}, order...)
	}
	lineage := "11111111-0000-4000-8000-000000000000"
	for i, want := range order {
		var past []string
		list, err := api.Runs.List(ctx, p.id, &tfe.RunListOptions{ListOptions: tfe.ListOptions{PageSize: 100}})
		require.NoError(t, err)
		for _, r := range list.Items {
			if r.Status != tfe.RunPending && !slices.Contains([]tfe.RunStatus{tfe.RunApplied, tfe.RunPlannedAndFinished}, r.Status) {
				past = append(past, r.ID)
			}
		}
		require.Equal(t, []string{want}, past, "one run is past pending, the oldest")
		plan := player.next()
		require.Equal(t, want, plan.RunID)
		plan.accept().planned(i%2 == 0)
		if i%2 == 0 { // every other run applies
			apply := player.next()
			require.Equal(t, want, apply.RunID)
			apply.accept().applyStart()
			apply.publish(p.id, int64(i+1), lineage)
			apply.applied()
		}
		require.Equal(t, "succeeded", s.status(want))
	}
	require.Nil(t, player.poll())
	o, err := s.collect([]place{p})
	require.NoError(t, err)
	assert.Empty(t, violations(o))
	require.Len(t, o.places[0].versions, 10)
}

// All servers are killed in each status that a run can rest in. After they are back the run is
// where it was, and goes on.
func TestTheServersAreKilledInEachStatus(t *testing.T) {
	s := newCluster(t, size{servers: 3})
	player := newPlayer(t, s)
	p := s.mustPlace(t, "w")
	run := s.mustRun(t, p, `resource "terraform_data" "a" {}`, false)
	behind := s.mustRun(t, p, `resource "terraform_data" "a" {}`, false)
	restart := func(status string) {
		t.Helper()
		require.Equal(t, status, s.status(run))
		for i := range s.servers {
			s.killServer(i)
		}
		var starting sync.WaitGroup
		for _, server := range s.servers {
			starting.Go(func() { assert.NoError(t, s.startServer(server)) })
		}
		starting.Wait()
		require.Equal(t, status, s.status(run), "it is where it was")
	}
	killed := func(status string) {
		t.Helper()
		restart(status)
		if status != "succeeded" {
			require.Equal(t, "queued", s.status(behind))
			require.Nil(t, player.poll(), "the other one waits still")
		}
	}
	plan := player.next()
	require.Equal(t, run, plan.RunID)
	restart("queued")
	require.Equal(t, plan.AttemptID, player.next().AttemptID, "what was offered and not accepted is offered again, to the same runner")
	plan.accept()
	plan.log("Planning…\n")
	killed("planning")
	plan.log("More\n")
	plan.planned(true)
	killed("awaiting_approval")
	api, err := s.api(s.proxy.calm())
	require.NoError(t, err)
	require.NoError(t, api.Runs.Apply(ctx, run, tfe.RunApplyOptions{}))
	apply := player.next()
	apply.accept()
	killed("awaiting_approval") // accepted, not started
	apply.applyStart()
	killed("applying")
	apply.publish(p.id, 1, "11111111-0000-4000-8000-000000000000")
	killed("applying")
	apply.applied()
	killed("succeeded")
	other := player.next()
	require.Equal(t, behind, other.RunID)
	other.accept().planned(false)
	require.Equal(t, "succeeded", s.status(behind))
	s.healthy(t, p)
}

// A runner is killed with SIGKILL while tofu plans, then another one while tofu applies.
func TestRunnersAreKilledInPlanAndInApply(t *testing.T) {
	s := newCluster(t, size{servers: 2, runners: 2})
	of := func(run string) int {
		t.Helper()
		type executor struct{ Name string }
		var rows []executor
		require.NoError(t, await("a runner at work", func() bool {
			var err error
			rows, err = query[executor](s, "select r.name from attempts a join runners r on r.id = a.runner_id where a.run_id = $1 and a.status = 'running'", run)
			return err == nil && len(rows) == 1
		}))
		return slices.IndexFunc(s.runners, func(w *worker) bool { return w.label == rows[0].Name })
	}
	p := s.mustPlace(t, "planned")
	slow := strings.Replace(p.configuration(1, 0), "output \"things\"", "data \"fault_lookup\" \"a\" {\n  value = \"a\"\n  delay = \"10m\"\n}\noutput \"things\"", 1)
	run, behind := s.mustRun(t, p, slow, true), s.mustRun(t, p, p.configuration(1, 0), true)
	require.NoError(t, await("tofu to plan", func() bool {
		deeds, err := readLedger(p.ledger)
		return err == nil && slices.ContainsFunc(deeds, func(d deed) bool { return d.Event == "looked_up" })
	}))
	require.Equal(t, "planning", s.status(run))
	require.NoError(t, s.loseRunner(of(run), 0))
	s.reaches(t, run, "plan_failed")
	s.reaches(t, behind, "succeeded")

	q := s.mustPlace(t, "applied")
	q.gate = filepath.Join(s.dir, "never")
	held, waits := s.mustRun(t, q, q.configuration(1, 0), true), s.mustRun(t, q, q.configuration(1, 0), true)
	require.NoError(t, await("tofu to make things", func() bool {
		deeds, err := readLedger(q.ledger)
		return err == nil && slices.ContainsFunc(deeds, func(d deed) bool { return d.Event == "creating" })
	}))
	require.NoError(t, s.loseRunner(of(held), 0))
	s.reaches(t, held, "apply_start_uncertain")
	require.Equal(t, "queued", s.status(waits), "nobody overtakes a held workspace")
	api, err := s.api(s.proxy.calm())
	require.NoError(t, err)
	_, err = api.Workspaces.Lock(ctx, q.id, tfe.WorkspaceLockOptions{})
	require.Error(t, err)
	s.healthy(t, p, q)
	require.NoError(t, s.recover(held))
	require.NoError(t, os.WriteFile(q.gate, nil, 0o600))
	s.reaches(t, waits, "succeeded")
	s.healthy(t, p)
}

// recover vouches for the state of a held workspace, as an operator on the server's host does.
func (s *stack) recover(run string) error {
	cmd := s.servers[0].command()
	cmd.Args = []string{"holdfast", "admin", "break-glass", run, "--reason", "checked by the test", "--apply"}
	said, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, said)
	}
	return nil
}

// The database is away for a minute and all servers are killed while tofu applies. It finishes its
// work meanwhile, and its state arrives.
func TestADatabaseOutageOfAMinuteDuringAnApply(t *testing.T) {
	s := newCluster(t, size{servers: 2, runners: 1})
	p := s.mustPlace(t, "w")
	p.gate = filepath.Join(s.dir, "gate")
	run := s.mustRun(t, p, p.configuration(2, 0), true)
	require.NoError(t, await("tofu at work", func() bool {
		deeds, err := readLedger(p.ledger)
		return err == nil && len(deeds) == 2
	}))
	require.NoError(t, s.crashPostgres())
	down := time.Now()
	for i := range s.servers {
		s.killServer(i)
	}
	starting := make(chan error, 2)
	for _, server := range s.servers {
		go func() { starting <- s.startServer(server) }()
	}
	time.Sleep(10 * time.Second)
	require.NoError(t, os.WriteFile(p.gate, nil, 0o600)) // tofu now wants to save what it has made
	time.Sleep(time.Until(down.Add(time.Minute)))
	require.NoError(t, await("PostgreSQL", func() bool { return s.startPostgres() == nil }))
	require.NoError(t, <-starting)
	require.NoError(t, <-starting)
	s.reaches(t, run, "succeeded")
	deeds, err := readLedger(p.ledger)
	require.NoError(t, err)
	assert.Len(t, deeds, 4, "tofu was not disturbed: two things begun and made")
	var log strings.Builder
	api, err := s.api(s.proxy.calm())
	require.NoError(t, err)
	r, err := api.Runs.Read(ctx, run)
	require.NoError(t, err)
	apply, err := api.Applies.Read(ctx, r.Apply.ID)
	require.NoError(t, err)
	require.NoError(t, s.readLog(&log, apply.LogReadURL))
	assert.Contains(t, log.String(), "Apply complete!")
	s.healthy(t, p)
}

// A machine stands still in the middle of an apply until its authority is over. Meanwhile the
// workspace is recovered, and another run changes its state. The machine wakes up and goes on: it
// publishes nothing.
func TestARunnerThatSleptPublishesNothing(t *testing.T) {
	s := newCluster(t, size{servers: 2, runners: 2})
	p := s.mustPlace(t, "w")
	p.gate = filepath.Join(s.dir, "gate")
	run := s.mustRun(t, p, p.configuration(1, 0), true)
	require.NoError(t, await("tofu at work", func() bool {
		deeds, err := readLedger(p.ledger)
		return err == nil && len(deeds) == 1
	}))
	type executor struct{ Name string }
	rows, err := query[executor](s, "select r.name from attempts a join runners r on r.id = a.runner_id where a.run_id = $1 and a.status = 'running'", run)
	require.NoError(t, err)
	require.Len(t, rows, 1)
	sleeper := s.runners[slices.IndexFunc(s.runners, func(w *worker) bool { return w.label == rows[0].Name })]
	machine := append(descendants(sleeper.running().Pid()), sleeper.running().Pid())
	require.GreaterOrEqual(t, len(machine), 3, "runner, tofu, provider")
	everybody := func(sig syscall.Signal) {
		for _, pid := range machine {
			_ = syscall.Kill(pid, sig) // one that has ended does not matter
		}
	}
	everybody(syscall.SIGSTOP)
	defer everybody(syscall.SIGCONT)
	type none struct{ One int }
	over, err := query[none](s, "update attempts set token_expires_at = clock_timestamp() - interval '15 minutes' where run_id = $1 and status = 'running' returning 1 as one", run)
	require.NoError(t, err)
	require.Len(t, over, 1)
	s.reaches(t, run, "apply_start_uncertain")
	require.NoError(t, s.recover(run))
	q := p
	q.gate = ""
	next := s.mustRun(t, q, strings.ReplaceAll(q.configuration(1, 0), "thing-1", "thing-of-the-next"), true)
	s.reaches(t, next, "succeeded")
	before, err := s.collect([]place{p})
	require.NoError(t, err)

	everybody(syscall.SIGCONT)
	require.NoError(t, os.WriteFile(p.gate, nil, 0o600))
	require.NoError(t, await("the sleeper to keep what it could not publish", func() bool {
		kept, err := filepath.Glob(s.path("runners", sleeper.label, "errored", "*.tfstate"))
		return err == nil && len(kept) == 1
	}), "its tofu went on and made the thing")
	require.NoError(t, await("the sleeper to take other work", func() bool {
		n, err := s.number("select count(*) from runners where name = $1 and last_seen_at > clock_timestamp() - interval '3 seconds'", sleeper.label)
		return err == nil && n > 0
	}))
	after, err := s.collect([]place{p})
	require.NoError(t, err)
	assert.Equal(t, before.places[0].versions, after.places[0].versions)
	assert.Equal(t, before.places[0].current, after.places[0].current)
	n, err := s.number("select count(*) from state_versions where run_id = $1", run)
	require.NoError(t, err)
	assert.Zero(t, n, "not even announced")
	assert.Equal(t, "needs_recovery", s.status(run))
}

// descendants are the processes that a process and its children have started.
func descendants(pid int) (all []int) {
	for _, child := range childrenOf(pid) {
		all = append(append(all, child), descendants(child)...)
	}
	return all
}
