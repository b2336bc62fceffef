package runs

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/approvals"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

func (w *world) waits(run ids.Run) []Arbitration {
	w.Helper()
	v, err := w.runs.Review(ctx, w.owner, run)
	require.NoError(w, err)
	return v.Waits
}

func (w *world) arbitrate(run ids.Run) {
	w.Helper()
	require.NoError(w, w.tx(func(tx postgres.Tx) error { return arbitrate(ctx, tx, run) }))
}

// An arbitration is asked for in a transaction of its own: a server that is killed after it leaves
// the rest to another (AP-02).
func TestAnArbitrationIsAskedForBeforeItIsDecided(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := w.waiting(w.workspace())
	w.overdue(run)
	require.NoError(t, w.runs.requestArbitration(ctx, run, deadlinePassed)) // and here it is killed
	w.wantStatus(run, AwaitingApproval)
	list := w.waits(run)
	require.Len(t, list, 1)
	assert.Equal(t, []any{deadlinePassed, WaitOutcome("")}, []any{list[0].WaitError, list[0].Outcome})

	w.with(w.runs.settings).sweep()
	w.wantStatus(run, Expired)
	list = w.waits(run)
	require.Len(t, list, 1)
	assert.Equal(t, WaitExpired, list[0].Outcome)
	assert.NotNil(t, list[0].ArbitratedAt)
}

// A timer that goes off early, by a clock that is not the database's, ends nothing (AP-04).
func TestAnEarlyTimerLeavesTheRunWaiting(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := w.waiting(w.workspace())
	require.NoError(t, w.runs.requestArbitration(ctx, run, deadlinePassed))
	w.sweep()
	w.wantStatus(run, AwaitingApproval)
	assert.Equal(t, WaitPending, w.waits(run)[0].Outcome)
	require.NoError(t, w.runs.Confirm(ctx, w.owner, run, Decision{}))

	require.NoError(t, w.runs.requestArbitration(ctx, run, deadlinePassed))
	w.overdue(run)
	w.arbitrate(run)
	w.wantStatus(run, AwaitingApproval)
	assert.Equal(t, WaitDecided, w.waits(run)[0].Outcome, "what was decided before the deadline stands (AP-03)")
}

// A wait that fails before the deadline goes on, and what it failed by is kept: it is never called
// an expiry (AP-09).
func TestAFailedWaitKeepsItsFailure(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspace()
	run := w.waiting(ws, savePlan)
	w.confirmed(ws).apply(1) // the saved plan is stale now, and a sweep wants to discard it
	require.NoError(t, w.tryExec(`create function break() returns trigger language plpgsql as $$ begin raise exception 'the audit log is full'; end $$`, nil))
	require.NoError(t, w.tryExec("create trigger break before insert on audit_entries for each row execute function break()", nil))
	require.ErrorContains(t, NewSweeper(w.runs).Sweep(ctx), "the audit log is full")
	d := w.wantStatus(run, AwaitingApproval)
	assert.Empty(t, d.DurableReason)
	list := w.waits(run)
	require.Len(t, list, 1)
	assert.Contains(t, list[0].WaitError, "the audit log is full")

	require.NoError(t, w.tryExec("drop trigger break on audit_entries", nil))
	w.arbitrate(run)
	list = w.waits(run)
	require.Len(t, list, 1)
	assert.Equal(t, WaitPending, list[0].Outcome)
	assert.Contains(t, list[0].WaitError, "the audit log is full", "the failure stays")
	w.sweep()
	assert.Equal(t, "APPROVAL_BINDING_STALE", w.wantStatus(run, Rejected).DurableReason)
}

func TestTheFailureOfAWaitIsBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := w.waiting(w.workspace())
	for range 3 {
		require.NoError(t, w.runs.waitFailed(ctx, run, errors.New(strings.Repeat("ä", 2*maxWaitError))))
	}
	list := w.waits(run)
	require.Len(t, list, 1, "the same failure is one")
	assert.Equal(t, strings.Repeat("ä", maxWaitError), list[0].WaitError)
}

// The stage of an expired approval is closed as that, and stays so (AP-06).
func TestAnExpiryClosesTheApprovalStage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspace()
	w.rule(ws, func(s *approvals.Setting) { s.Required = ptr(2) })
	run := w.waiting(ws)
	w.approves(w.owner, run)
	assert.Equal(t, "plan:succeeded policy:succeeded approval:pending", w.stages(run), "one of two is no decision")
	w.overdue(run)
	w.sweep()
	w.wantStatus(run, Expired)
	assert.Equal(t, "plan:succeeded policy:succeeded approval:expired", w.stages(run))
	list, _, err := w.runs.Stages(ctx, w.member, run, Page{Limit: 10})
	require.NoError(t, err)
	assert.NotNil(t, list[2].FinishedAt)
	wantCode(t, w.runs.Confirm(ctx, w.person("eve"), run, Decision{}), fault.Conflict, "APPROVAL_EXPIRED")
	w.wantReleased(run)
}

// Nothing of an expired run can act any more, and no apply comes after it (AP-10, AP-11).
func TestAnExpiryLeavesNothingToActWith(t *testing.T) {
	w := newWorld(t)
	ws := w.workspace()
	run := w.run(ws).ID
	planner := w.take(run)
	planner.plan(true)
	w.overdue(run)
	w.sweep()
	w.wantStatus(run, Expired)
	_, err := w.runs.Authenticate(ctx, planner.session.Token)
	require.ErrorContains(t, err, "has ended", "the session of its runner")
	assert.Zero(t, count(w, "select count(*) from attempts where run_id = @r and (phase = 'apply' or status in ('pending', 'assigned', 'running'))", postgres.Args{"r": run}))
	w.sweep()
	_, offered := w.poll()
	assert.False(t, offered)
	_, err = w.runs.Requeue(ctx, w.owner, run)
	wantCode(t, err, fault.Conflict, "not_requeueable")
}

// A request that came in time and waited for the run's row until after the deadline is late: the row's
// lock is taken first, and the clock looked at then (AP-14).
func TestARequestThatWaitedAcrossTheDeadlineIsLate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, decide := range map[string]func(run ids.Run) error{
		"approve": func(run ids.Run) error { return w.runs.Confirm(ctx, w.owner, run, Decision{}) },
		"reject":  func(run ids.Run) error { return w.runs.Discard(ctx, w.owner, run, Decision{}) },
	} {
		t.Run(name, func(t *testing.T) {
			run := w.waiting(w.workspace())
			answer := make(chan error, 1)
			require.NoError(t, w.tx(func(tx postgres.Tx) error {
				if _, err := postgres.Exec(ctx, tx, "select from runs where id = @r for update", postgres.Args{"r": run}); err != nil {
					return err
				}
				go func() { answer <- decide(run) }()
				require.Eventually(t, func() bool {
					return count(w, "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'", nil) > 0
				}, 30*time.Second, 10*time.Millisecond, "it does not wait for the row")
				_, err := postgres.Exec(ctx, tx, "update runs set approval_expires_at = clock_timestamp() where id = @r", postgres.Args{"r": run})
				return err
			}))
			wantCode(t, <-answer, fault.Conflict, "APPROVAL_EXPIRED")
			assert.Nil(t, w.wantStatus(run, AwaitingApproval).ConfirmedAt)
			assert.Zero(t, count(w, "select count(*) from approvals where run_id = @r", postgres.Args{"r": run}))
			require.NoError(t, w.runs.Cancel(ctx, w.owner, run, ""))
		})
	}
}

// Whoever is first wins, and the other says so: never both, never neither.
func TestAnApprovalAndTheExpiryRace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i := range 20 {
		run := w.waiting(w.workspace())
		w.exec("update runs set approval_expires_at = clock_timestamp() + make_interval(secs => @s::double precision) where id = @r", postgres.Args{"r": run, "s": float64(i) / 1000})
		answers, swept := make(chan error, 1), make(chan error, 1)
		go func() { answers <- w.runs.Confirm(ctx, w.owner, run, Decision{Comment: fmt.Sprint(i)}) }()
		go func() { swept <- w.runs.expireApprovals(ctx) }()
		err := <-answers
		require.NoError(t, <-swept)
		d := w.get(run)
		if err == nil {
			require.NotNil(t, d.ConfirmedAt)
			require.Equal(t, AwaitingApproval, d.DurableStatus)
			require.NotEmpty(t, d.ApplyAttempt)
			require.NoError(t, w.runs.Cancel(ctx, w.owner, run, ""))
			continue
		}
		wantCode(t, err, fault.Conflict, "APPROVAL_EXPIRED")
		require.Nil(t, d.ConfirmedAt)
		w.sweep()
		w.wantStatus(run, Expired)
		require.Empty(t, w.get(run).ApplyAttempt)
	}
}
