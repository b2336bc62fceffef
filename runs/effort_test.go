package runs

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/artifacts"
	"github.com/holdfast-run/holdfast/dispatch"
	"github.com/holdfast-run/holdfast/internal/testdb"
)

// TestWhatARunnersTurnCosts bounds what PostgreSQL is asked for between a runner's report and
// its next attempt, and for the attempt itself: where there are many runners, that is what they
// wait for. The bounds are near to what it was when they were written; before statements were
// sent together, the end of a plan took 53 exchanges and an offer 11.
func TestWhatARunnersTurnCosts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for range 2 {
		ws := w.workspace()
		w.run(ws)
		w.run(ws) // waits for the first
	}
	within := func(what string, statements, exchanges int, fn func()) {
		t.Helper()
		work := testdb.Watch(w.db, fn)
		said := strings.Join(work.Statements, "\n")
		assert.LessOrEqual(t, work.Named(), statements, "statements of %s:\n%s", what, said)
		assert.LessOrEqual(t, work.Exchanges, exchanges, "exchanges of %s:\n%s", what, said)
	}
	hello := dispatch.RunnerHello{Name: "runner", TofuVersions: []string{tofu}}
	turn := func(changes bool, statements int) {
		e := &executor{world: w, sandbox: w.unique("sandbox")}
		// Notifications are sent beside it; they may add an exchange.
		within("an offer", 10, 9, func() {
			runner, a, found, err := w.runs.Poll(ctx, w.group, hello)
			require.NoError(t, err)
			require.True(t, found)
			e.runner, e.Attempt, hello.ID = runner, a, runner
		})
		require.NoError(t, w.runs.Ready(ctx, w.group, e.runner))
		within("an accept", 21, 17, func() {
			var err error
			e.session, err = w.runs.Accept(ctx, w.group, e.ID, dispatch.Acceptance{Runner: e.runner, Sandbox: e.sandbox}, render)
			require.NoError(t, err)
		})
		var err error
		e.actor, err = w.disp.Authenticate(ctx, e.session.Token)
		require.NoError(t, err)
		within("an artifact", 6, 10, func() { e.handOver(artifacts.KindPlanJSON, `{}`) })
		e.handOver(artifacts.KindPlan, "plan")
		within("the end of a plan", statements, 13, func() { e.done(planned(changes)) })
	}
	turn(false, 34) // its workspace goes to the next run
	turn(false, 34)
	turn(true, 32)
}
