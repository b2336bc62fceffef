package runs

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/approvals"
	"github.com/holdfast-run/holdfast/dispatch"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
)

func (w *world) planLog(run ids.Run, offset, limit int64) LogSlice {
	w.Helper()
	s, err := w.runs.PlanLog(ctx, w.get(run).PlanID, dispatch.Human, offset, limit)
	require.NoError(w, err)
	return s
}

func (w *world) applyLog(run ids.Run, offset, limit int64) LogSlice {
	w.Helper()
	s, err := w.runs.ApplyLog(ctx, w.get(run).ApplyID, dispatch.Human, offset, limit)
	require.NoError(w, err)
	return s
}

// readable demands that each slice of the log is that part of the whole.
func readable(t *testing.T, whole string, read func(offset, limit int64) LogSlice) {
	t.Helper()
	n := int64(len(whole))
	for offset := int64(0); offset <= n+2; offset++ {
		for _, limit := range []int64{0, 1, 3, n, n + 5} {
			s := read(offset, limit)
			want := whole[min(offset, n):min(offset+limit, n)]
			require.Equal(t, want, string(s.Data), "from %d at most %d", offset, limit)
			require.Equal(t, n, s.Size)
		}
	}
}

func TestALogIsReadFromAnyOffset(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := w.run(w.workspace()).ID
	assert.Empty(t, w.planLog(run, 0, 100).Data)
	assert.False(t, w.planLog(run, 0, 100).Final)
	e := w.take(run)
	e.log("one\n")
	e.log("\x02two\x03\n")
	whole := "one\n two \n"
	read := func(offset, limit int64) LogSlice { return w.planLog(run, offset, limit) }
	readable(t, whole, read)
	assert.False(t, read(0, 100).Final)
	assert.Equal(t, Planning, read(0, 100).Run.DurableStatus)

	e.done(Done{Outcome: OutcomeErrored, Message: "boom"})
	whole += "\nboom\n"
	readable(t, whole, read)
	s := read(0, 100)
	assert.True(t, s.Final)
	assert.Equal(t, PlanFailed, s.Run.DurableStatus)
	w.sweep() // folds the log into one object
	readable(t, whole, read)
	assert.Empty(t, w.applyLog(run, 0, 100).Data)
	assert.True(t, w.applyLog(run, 0, 100).Final)
}

func TestAFinishedPlansLogNeverChanges(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := w.waiting(w.workspace())
	before := w.planLog(run, 0, 1000)
	assert.True(t, before.Final)
	assert.Equal(t, "planning\n", string(before.Data))
	assert.False(t, w.applyLog(run, 0, 1000).Final)

	w.overdue(run)
	w.sweep()
	after := w.planLog(run, 0, 1000)
	assert.Equal(t, before.Data, after.Data)
	assert.Equal(t, before.Size, after.Size)
	s := w.applyLog(run, 0, 1000)
	assert.True(t, s.Final)
	assert.Contains(t, string(s.Data), "The plan was not approved in time")
	readable(t, string(s.Data), func(offset, limit int64) LogSlice { return w.applyLog(run, offset, limit) })
}

// Where there is a rule, the end of the plan's log says what the plan waits for, and whatever becomes of the rule it stays as it was said.
func TestAPlansLogTellsWhoIsToApprove(t *testing.T) {
	w := newWorld(t)
	ws, team := w.workspace(), w.team("reviewers", "manage-workspaces")
	w.rule(ws, func(s *approvals.Setting) { quorumOfTwo(s); s.Reviewers = []ids.Team{team.ID} })
	run := w.waiting(ws)
	const whole = "planning\n\nThis plan waits for 2 approvals, none of them the requester's, by members of the team \"reviewers\", for 7 days at most.\n"
	w.rule(ws, func(s *approvals.Setting) { *s = approvals.Setting{} })
	readable(t, whole, func(offset, limit int64) LogSlice { return w.planLog(run, offset, limit) })
	require.NoError(t, w.runs.Cancel(ctx, w.owner, run, ""))
	readable(t, whole, func(offset, limit int64) LogSlice { return w.planLog(run, offset, limit) })

	_, err := w.runs.Requeue(ctx, w.owner, run)
	require.NoError(t, err)
	w.take(run).plan(true)
	assert.NotContains(t, string(w.planLog(run, 0, 1000).Data), "waits for", "there is no rule any more")
	speculative := w.run(ws, func(n *NewRun) { n.PlanOnly = true }).ID
	w.rule(ws, quorumOfTwo)
	w.take(speculative).plan(true)
	assert.NotContains(t, string(w.planLog(speculative, 0, 1000).Data), "waits for", "nobody approves it")
}

func TestAnApplysLogTellsWhyItIsHeld(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.applying(w.workspace())
	e.log("applying\n")
	e.publish(1)
	e.done(failed())
	s := w.applyLog(e.RunID, 0, 10_000)
	assert.True(t, s.Final)
	assert.Contains(t, string(s.Data), "applying\n\nboom The failed apply has published state")
	assert.NotContains(t, string(w.planLog(e.RunID, 0, 10_000).Data), "boom")
}

func TestALogThatDoesNotJoinOnIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.take(w.run(w.workspace()).ID)
	e.log("12345")
	_, err := e.runs.AppendLog(ctx, e.actor, dispatch.Human, 7, []byte("x"))
	wantCode(t, err, fault.Conflict, "log_offset")
	next, err := e.runs.AppendLog(ctx, e.actor, dispatch.Human, 0, []byte("12345"))
	require.NoError(t, err)
	assert.EqualValues(t, 5, next)
	settings := Defaults()
	settings.LogLimit = 8
	_, err = w.with(settings).runs.AppendLog(ctx, e.actor, dispatch.Human, 5, []byte("6789"))
	wantCode(t, err, fault.TooLarge, "log_too_large")
}
