package chaos

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The cluster of `make chaos`.
var cluster = size{servers: 3, runners: 8}

const (
	steadyPlaces = 10 // workspaces of the first phase, used again in the third
	gatedPlaces  = 4  // of the second phase
	stormPlaces  = 13 // more for the third
	clients      = 3  // people with a real tofu, each with a workspace
	writers      = 2  // state writers, each with a workspace besides the thirty
	makeDelay    = 1500 * time.Millisecond
)

// campaign is one run of `make chaos`.
type campaign struct {
	*testing.T
	*stack
	seed     uint64
	random   *rand.Rand
	places   []place
	tofus    [2]int // applies of people's tofu: tried, ended well
	reported []row
}

type row struct{ what, value string }

func (c *campaign) report(what, format string, args ...any) {
	c.reported = append(c.reported, row{what, fmt.Sprintf(format, args...)})
}

// TestChaos breaks everything that can break under traffic, and then checks the history.
func TestChaos(t *testing.T) {
	needsSeed(t)
	dir, err := os.MkdirTemp("", fmt.Sprintf("holdfast-chaos-%d-", seed))
	require.NoError(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("The history, all logs and all data of seed %d stay in %s", seed, dir)
			return
		}
		_ = os.RemoveAll(dir)
	})
	h, err := newHistory(dir)
	require.NoError(t, err)
	s, err := startStack(dir, h, cluster, storm(seed))
	require.NoError(t, err)
	c := &campaign{T: t, stack: s, seed: seed, random: rand.New(rand.NewPCG(seed, 1))}
	stopped := false
	t.Cleanup(func() {
		if !stopped {
			s.stop()
		}
	})
	writersStop := make(chan struct{})
	var writing sync.WaitGroup
	stopWriting := sync.OnceFunc(func() { close(writersStop); writing.Wait() })
	t.Cleanup(stopWriting)
	for i := range writers {
		p := c.place(fmt.Sprintf("writer-%d", i), "local")
		writing.Go(func() { assert.NoError(t, s.stateWriter(p, seed+uint64(i), writersStop)) })
	}
	t.Logf("seed %d; what happens is written to %s", seed, dir)
	began := time.Now()
	c.faultsWithoutLoss()
	c.runnersLostInApply()
	c.storm()
	stopWriting()

	o, err := s.collect(c.places)
	require.NoError(t, err)
	s.stop()
	stopped = true
	c.summarize(o, time.Since(began))
	if wrong := violations(o); len(wrong) > 0 {
		sort.Strings(wrong)
		t.Errorf("the history breaks %d rules:\n%s", len(wrong), bulleted(wrong))
	}
	for what, least := range map[string]int{"kill": 20, "database restart": 3, "http fault": 200} {
		assert.GreaterOrEqual(t, h.count(what), least, "the storm was too weak: %s", what)
	}
}

func (c *campaign) place(name, mode string) place {
	c.Helper()
	p, err := c.newPlace(name, mode)
	require.NoError(c, err)
	c.places = append(c.places, p)
	return p
}

// scale picks the value of the long form, or of the usual one.
func scale(usual, longer time.Duration) time.Duration {
	if long {
		return longer
	}
	return usual
}

// traffic asks for runs in all places, in each one after the other, spread over the time; runs
// beyond what the configuration of a place had before make one thing more each.
func (c *campaign) traffic(group *sync.WaitGroup, places []place, first, count int, over time.Duration, manual int) {
	api, err := c.api(c.proxy.url())
	require.NoError(c, err)
	calm, err := c.api(c.proxy.calm())
	require.NoError(c, err)
	for _, p := range places {
		pauses := make([]time.Duration, count)
		byHand := make([]bool, count)
		for i := range pauses {
			pauses[i] = time.Duration(c.random.Int64N(int64(over) / int64(count)))
			byHand[i] = c.random.IntN(100) < manual
		}
		group.Go(func() {
			for i := range pauses {
				time.Sleep(pauses[i])
				run, err := c.newRun(api, p, p.configuration(first+i, makeDelay), fmt.Sprintf("run %d of %s", first+i, p.name), !byHand[i])
				if errors.Is(err, errHeld) || !assert.NoError(c, err, p.name) {
					return
				}
				if byHand[i] {
					group.Go(func() { assert.NoError(c, c.confirm(calm, run.ID)) })
				}
			}
		})
	}
}

// settle waits until all runs of these places have ended, or wait behind a held workspace.
func (c *campaign) settle(places []place) {
	c.Helper()
	err := await("the end of all runs", func() bool {
		time.Sleep(300 * time.Millisecond)
		n, err := c.openRuns(idsOf(places))
		return err == nil && n == 0
	})
	if err != nil {
		counts, countErr := c.tally(idsOf(places))
		c.Errorf("%v: %v %v", err, counts, countErr)
	}
}

func idsOf(places []place) (ids []string) {
	for _, p := range places {
		ids = append(ids, p.id)
	}
	return ids
}

// faultsWithoutLoss is the first phase: servers, database, store and network break, and no
// runner is lost. Every run must succeed: to hold a workspace is not the cheap way out.
func (c *campaign) faultsWithoutLoss() {
	var places []place
	for i := range steadyPlaces {
		places = append(places, c.place(fmt.Sprintf("steady-%d", i), "remote"))
	}
	over := scale(70*time.Second, 10*time.Minute)
	m := mix{over: over, servers: 10, postgres: 1, stores: 2, networks: 1, longest: scale(8*time.Second, 2*time.Minute)}
	if long {
		m.servers, m.postgres, m.stores, m.networks = 40, 4, 4, 4
	}
	var traffic sync.WaitGroup
	c.proxy.on.Store(true)
	c.traffic(&traffic, places, 1, 2, over, 30)
	assert.NoError(c, c.deliver(schedule(c.seed, 10, m, cluster)))
	traffic.Wait()
	c.settle(places)
	c.proxy.on.Store(false)
	counts, err := c.tally(idsOf(places))
	require.NoError(c, err)
	c.report("faults without loss of a runner", "%s", summary(counts))
	if len(counts) != 1 || counts["succeeded"] == 0 {
		c.Errorf("no runner was lost, and yet runs did not succeed:\n%s", c.reasons(places))
	}
}

// reasons says why runs did not succeed, with what their logs say of it.
func (c *campaign) reasons(places []place) string {
	type why struct{ Text string }
	rows, err := query[why](c.stack, `select id || ' ' || durable_status || ' ' || durable_reason || ': ' || status_message as text from runs
		where workspace_id = any($1) and durable_status <> 'succeeded' order by queue_seq`, idsOf(places))
	lines := []string{}
	for _, r := range rows {
		lines = append(lines, r.Text)
	}
	for _, p := range places {
		logs, logErr := c.runLogs(p)
		err = errors.Join(err, logErr)
		for _, found := range errorIn.FindAllString(string(logs), -1) {
			lines = append(lines, p.name+": "+strings.Join(strings.Fields(found), " "))
		}
	}
	if err != nil {
		lines = append(lines, err.Error())
	}
	return strings.Join(lines, "\n")
}

// errorIn finds the errors in what tofu prints.
var errorIn = regexp.MustCompile(`(?s)\nError: .{1,600}`)

func summary(counts map[string]int) string {
	statuses := []string{}
	for status := range counts {
		statuses = append(statuses, status)
	}
	slices.Sort(statuses)
	for i, status := range statuses {
		statuses[i] = fmt.Sprintf("%d %s", counts[status], status)
	}
	return strings.Join(statuses, ", ")
}

// runnersLostInApply is the second phase: runners are killed while tofu makes things. Nobody can
// know what it made, so every run must hold its workspace.
func (c *campaign) runnersLostInApply() {
	api, err := c.api(c.proxy.calm())
	require.NoError(c, err)
	var places []place
	var runs []string
	for i := range gatedPlaces {
		p := c.place(fmt.Sprintf("gated-%d", i), "remote")
		p.gate = filepath.Join(c.dir, "gate-of-"+p.name) // it never opens
		run, err := c.newRun(api, p, p.configuration(1, 0), "to be lost", true)
		require.NoError(c, err)
		_, err = c.newRun(api, p, p.configuration(2, 0), "to wait behind it", true)
		require.NoError(c, err)
		places, runs = append(places, p), append(runs, run.ID)
	}
	for _, p := range places {
		require.NoError(c, await("tofu at work in "+p.name, func() bool {
			deeds, err := readLedger(p.ledger)
			return err == nil && slices.ContainsFunc(deeds, func(d deed) bool { return d.Event == "creating" })
		}))
	}
	type executor struct{ Name string }
	busy, err := query[executor](c.stack, "select r.name from attempts a join runners r on r.id = a.runner_id where a.run_id = any($1) and a.status = 'running'", runs)
	require.NoError(c, err)
	require.Len(c, busy, len(runs))
	var losing sync.WaitGroup
	for _, b := range busy {
		i := slices.IndexFunc(c.runners, func(w *worker) bool { return w.label == b.Name })
		losing.Go(func() { assert.NoError(c, c.loseRunner(i, time.Second)) })
	}
	losing.Wait()
	c.settle(places)
	counts, err := c.tally(idsOf(places))
	require.NoError(c, err)
	c.report("runners killed after apply-start", "%s", summary(counts))
	type fate struct {
		ID, Status string
		Held       bool
	}
	fates, err := query[fate](c.stack, `select r.id, r.durable_status as status, f.recovery_held and f.holder_id = r.id as held
		from runs r join workspace_fences f on f.workspace_id = r.workspace_id where r.id = any($1)`, runs)
	require.NoError(c, err)
	require.Len(c, fates, len(runs))
	for _, f := range fates {
		assert.True(c, f.Held, "run %s holds its workspace (%s)", f.ID, f.Status)
		assert.Contains(c, []string{"apply_start_uncertain", "needs_recovery"}, f.Status, f.ID)
	}
}

// storm is the third phase: everything at once.
func (c *campaign) storm() {
	places := slices.Clone(c.places[writers : writers+steadyPlaces])
	for i := range stormPlaces {
		places = append(places, c.place(fmt.Sprintf("storm-%d", i), "remote"))
	}
	var people []place
	for i := range clients {
		people = append(people, c.place(fmt.Sprintf("client-%d", i), "remote"))
	}
	over := scale(80*time.Second, 30*time.Minute)
	m := mix{over: over, servers: 8, runners: 6, postgres: 2, stores: 2, networks: 1, longest: scale(6*time.Second, 2*time.Minute)}
	each := 1
	if long {
		m.servers, m.runners, m.postgres, m.stores, m.networks, each = 90, 60, 12, 12, 8, 6
	}
	var traffic sync.WaitGroup
	var counting sync.Mutex
	c.proxy.on.Store(true)
	c.traffic(&traffic, places, 3, each, over, 25)
	for _, p := range people {
		traffic.Go(func() {
			for n := range each {
				err := c.applyWithTofu(p, p.configuration(n+1, makeDelay), 6)
				counting.Lock()
				c.tofus[0]++
				if err == nil {
					c.tofus[1]++
				} else {
					c.Logf("%s: %v", p.name, err)
				}
				counting.Unlock()
			}
		})
	}
	assert.NoError(c, c.deliver(schedule(c.seed, 20, m, cluster)))
	c.proxy.on.Store(false) // what is left goes on in calm
	traffic.Wait()
	c.settle(append(places, people...))
}

// summarize prints the table.
func (c *campaign) summarize(o outcome, took time.Duration) {
	counts := map[string]int{}
	applies := 0
	for _, p := range o.places {
		for _, r := range p.runs {
			counts[r.status]++
			applies += r.applyStarts
		}
	}
	held, falsely := falseHolds(o.places)
	c.report("runs in all", "%s", summary(counts))
	c.report("applies started", "%d", applies)
	c.report("held", "%d", len(held))
	c.report("of these false holds, where nothing was lost", "%d (%.0f %% of the applies)", len(falsely), 100*float64(len(falsely))/float64(max(applies, 1)))
	c.report("states acknowledged", "%d", c.history.count("acknowledged"))
	c.report("applies of people's tofu that ended well", "%d of %d", c.tofus[1], c.tofus[0])
	killed := map[string]int{}
	for _, e := range c.history.of("kill") {
		killed[strings.TrimRight(e.What, "-0123456789")]++
	}
	c.report("processes killed", "%s", summary(killed))
	c.report("servers told to end", "%d", c.history.count("rolled"))
	c.report("database crashes", "%d", c.history.count("database restart"))
	c.report("outages of store, network", "%d, %d", c.history.count("store outage"), c.history.count("network outage"))
	byFate := map[string]int{}
	for _, e := range c.history.of("http fault") {
		fate, _, _ := strings.Cut(e.What, ":")
		byFate[fate]++
	}
	c.report("HTTP faults", "%d of %d requests: %s", c.history.count("http fault"), c.proxy.seen.Load(), summary(byFate))
	c.report("took", "%s", took.Round(time.Second))
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "\nchaos with seed %d\n", c.seed)
	for _, r := range c.reported {
		fmt.Fprintf(table, "  %s\t%s\n", r.what, r.value)
	}
	_ = table.Flush()
}
