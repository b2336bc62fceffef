package runs

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/clock"
	"github.com/holdfast-run/holdfast/dispatch"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

func TestAnOfferThatNobodyTakesUpIsMadeAgainAndThenFailsItsRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspace()
	run, next := w.run(ws), w.run(ws)
	for range 2 {
		e, found := w.poll()
		require.True(t, found)
		require.Equal(t, run.ID, e.RunID)
		w.sweep()
		assert.Equal(t, dispatch.Assigned, w.wantStatus(run.ID, Queued).PlanAttempt)
		e.expireOffer()
		_, err := e.tryAccept()
		wantCode(t, err, fault.Conflict, "assignment_expired")
		w.wantStatus(run.ID, Queued)
		w.sweep()
		assert.Equal(t, dispatch.Pending, w.wantStatus(run.ID, Queued).PlanAttempt, "others may take it")
		_, err = e.tryAccept()
		wantCode(t, err, fault.Conflict, "assignment_lost")
	}
	e, found := w.poll()
	require.True(t, found)
	e.expireOffer()
	w.sweep()
	d := w.wantStatus(run.ID, PlanFailed)
	assert.Equal(t, "runner_lost", d.DurableReason)
	assert.Equal(t, dispatch.Lost, d.PlanAttempt)
	w.wantReleased(run.ID)
	w.wantAdmitted(next.ID)
	_, err := e.tryAccept()
	wantCode(t, err, fault.Conflict, "assignment_lost")
}

// An outage of two minutes may swallow an offer: the run goes on with the next.
func TestAnOfferThatWasLostCostsNoRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := w.run(w.workspace())
	first, found := w.poll()
	require.True(t, found)
	first.expireOffer()
	w.sweep()
	e := w.take(run.ID)
	assert.Equal(t, first.ID, e.ID, "nothing had begun, so it is the same attempt")
	e.plan(true)
	w.wantStatus(run.ID, AwaitingApproval)
}

func TestAnApplyOfferThatNobodyTakesUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := w.waiting(w.workspace())
	require.NoError(t, w.runs.Confirm(ctx, w.owner, run, Decision{}))
	w.leaveLying()
	assert.Equal(t, "runner_lost", w.wantStatus(run, ApplyFailed).DurableReason)
	w.wantReleased(run)
}

func TestASilentRunnerIsLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	plan, apply := w.longestOutage(), w.runs.settings.ApplyLiveness
	for _, c := range []struct {
		name    string
		prepare func(ws ids.Workspace) *executor
		after   time.Duration
		want    Status
		held    bool
	}{
		{"while planning", func(ws ids.Workspace) *executor { return w.take(w.run(ws).ID) }, plan, PlanFailed, false},
		{"before apply-start", w.confirmed, plan, ApplyFailed, false},
		{"after apply-start", w.applying, apply, ApplyStartUncertain, true},
		{"after an announced upload", func(ws ids.Workspace) *executor {
			e := w.applying(ws)
			require.NoError(t, second(e.begin(e.actor, ws, stateFile(1), 1)))
			return e
		}, apply, NeedsRecovery, true},
		{"after a publication", func(ws ids.Workspace) *executor { e := w.applying(ws); e.publish(1); return e }, apply, NeedsRecovery, true},
		{"after the confirmation", func(ws ids.Workspace) *executor { e := w.applying(ws); e.publish(1); e.confirm(); return e }, apply, NeedsRecovery, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := c.prepare(w.workspace())
			next := w.run(e.WorkspaceID)
			before := w.get(e.RunID).DurableStatus
			e.silence(c.after / 2)
			require.NoError(t, w.runs.ReapSilent(ctx))
			w.wantStatus(e.RunID, before)
			e.silence(c.after)
			require.NoError(t, w.runs.ReapSilent(ctx))
			assert.Equal(t, "runner_lost", w.wantStatus(e.RunID, c.want).DurableReason)
			wantCode(t, e.tryDone(Done{Outcome: OutcomeFinished}), fault.Conflict, "attempt_ended")
			_, err := w.disp.Authenticate(ctx, e.session.Token)
			assert.True(t, fault.Is(err, fault.Unauthenticated), "%v", err)
			if c.held {
				w.wantHeld(e.RunID)
				w.wantWaits(next.ID)
				return
			}
			w.wantReleased(e.RunID)
			w.wantAdmitted(next.ID)
			require.NoError(t, w.runs.Cancel(ctx, w.owner, next.ID, ""))
		})
	}
}

// heard lets another runner of the group poll.
func (w *world) heard() ids.Runner {
	w.Helper()
	id, _, found, err := w.runs.Poll(ctx, w.group, dispatch.RunnerHello{Name: w.unique("runner"), TofuVersions: []string{tofu}})
	require.NoError(w, err)
	require.False(w, found)
	return id
}

// Silence tells that a runner is gone only while others get through: else the servers may
// have been out of reach of everybody, and a run must not pay for that (amendment 25, decision 12).
func TestAPlanIsLostOnlyWhenOthersAreHeard(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.take(w.run(w.workspace()).ID)
	liveness := w.runs.settings.PlanLiveness
	reap := func(want Status) {
		t.Helper()
		require.NoError(t, w.runs.ReapSilent(ctx))
		w.wantStatus(e.RunID, want)
	}
	missed := func() int {
		return count(w, "select count(*) from attempts where id = @id and missed_since > heartbeat_at", postgres.Args{"id": e.ID})
	}
	other := w.heard()
	w.exec("update runners set last_seen_at = clock_timestamp() - interval '3 minutes'", nil)

	e.silence(w.longestOutage() - 20*time.Second)
	reap(Planning)
	assert.Zero(t, missed(), "the other was not heard in that time either")

	w.exec("update runners set last_seen_at = clock_timestamp() where id = @id", postgres.Args{"id": other})
	reap(Planning)
	assert.Equal(t, 1, missed(), "the outage is over, and the silent one has time to come back")
	require.NoError(t, second(e.runs.Heartbeat(ctx, e.actor)))
	assert.Zero(t, missed())
	reap(Planning)

	e.silence(liveness)
	reap(Planning)
	require.Equal(t, 1, missed())
	age := "update attempts set missed_since = clock_timestamp() - make_interval(secs => @s::double precision) where id = @id"
	w.exec(age, postgres.Args{"id": e.ID, "s": (liveness/2 - 10*time.Second).Seconds()})
	reap(Planning)
	w.exec(age, postgres.Args{"id": e.ID, "s": (liveness / 2).Seconds()})
	reap(PlanFailed)
	assert.Equal(t, "runner_lost", w.get(e.RunID).DurableReason)
}

func TestAnAttemptEndsWithItsAuthority(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.applying(w.workspace())
	w.exec("update attempts set token_expires_at = clock_timestamp() where id = @id", postgres.Args{"id": e.ID})
	require.NoError(t, w.runs.ReapSilent(ctx))
	w.wantStatus(e.RunID, ApplyStartUncertain)
	w.wantHeld(e.RunID)
}

// A runner is told to stop, and then kills, while its token still works (AU-20, RP-18).
func TestTheAuthorityOfAnAttemptLastsFourHours(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.take(w.run(w.workspace()).ID)
	assert.WithinDuration(t, clock.Now().Add(4*time.Hour), e.session.ExpiresAt, time.Minute)
	s := w.runs.settings
	assert.Less(t, s.RunTTL+s.InterruptGrace, s.Authority)
}

func TestAHeartbeatOrALogKeepsARunnerAlive(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.take(w.run(w.workspace()).ID)
	for _, sign := range []func(){
		func() { require.NoError(t, second(e.runs.Heartbeat(ctx, e.actor))) },
		func() { e.log("alive") },
	} {
		e.silence(time.Hour)
		sign()
		require.NoError(t, w.runs.ReapSilent(ctx))
		w.wantStatus(e.RunID, Planning)
	}
}

func TestTheReaperWaitsForTwoHeartbeatsOfContact(t *testing.T) {
	t.Parallel()
	settings := Defaults()
	settings.Heartbeat = time.Hour // so that what passes while the test runs is nothing to it
	w := newWorldWith(t, settings)
	e := w.take(w.run(w.workspace()).ID)
	e.silence(time.Hour)
	sweeper := NewSweeper(w.runs)
	wait := 2 * w.runs.settings.Heartbeat
	age := func(d time.Duration) { sweeper.steadySince = sweeper.steadySince.Add(-d) }

	require.NoError(t, sweeper.Sweep(ctx)) // the server has just started
	w.wantStatus(e.RunID, Planning)
	age(wait - wait/4)
	require.NoError(t, sweeper.Sweep(ctx))
	w.wantStatus(e.RunID, Planning)

	age(wait)
	canceled, cancel := context.WithCancel(ctx)
	cancel()
	require.Error(t, sweeper.Sweep(canceled)) // no contact
	require.NoError(t, sweeper.Sweep(ctx))
	w.wantStatus(e.RunID, Planning)

	age(wait)
	sweeper.last = sweeper.last.Add(-w.runs.settings.PlanLiveness) // the machine slept
	require.NoError(t, sweeper.Sweep(ctx))
	w.wantStatus(e.RunID, Planning)
	assert.WithinDuration(t, clock.Now(), sweeper.steadySince, time.Minute)

	age(wait)
	require.NoError(t, sweeper.Sweep(ctx))
	w.wantStatus(e.RunID, PlanFailed)
}

func TestTheSweepPromotesWhatWasLeftWaiting(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspace()
	_, err := w.runs.Lock(ctx, w.owner, ws, "")
	require.NoError(t, err)
	run := w.run(ws)
	w.exec("update workspace_fences set holder_kind = null, holder_id = null, acquired_at = null where workspace_id = @w", postgres.Args{"w": ws})
	w.wantWaits(run.ID)
	w.sweep()
	w.wantAdmitted(run.ID)
}

func TestTwoSweepersDoNoHarm(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := w.waiting(w.workspace())
	w.sweep() // folds the plan's log
	w.overdue(run)
	errs := make(chan error)
	for range 2 {
		go func() { errs <- NewSweeper(w.runs).Sweep(ctx) }()
	}
	require.NoError(t, <-errs)
	require.NoError(t, <-errs)
	assert.Equal(t, Expired, w.wantStatus(run, Expired).steps()[6])
	assert.Len(t, w.get(run).History, 7)
}
