package runs

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/dispatch"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/gates"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

var allowed = gates.Release{Version: "1.0", Digest: strings.Repeat("ab", 32)}

func (w *world) gates() *gates.Service { return gates.New(w.db) }

func (w *world) setControls(c gates.Controls) {
	w.Helper()
	_, err := w.gates().SetControls(ctx, authz.System(), c)
	require.NoError(w, err)
}

func (w *world) deny(deny bool) { w.setControls(gates.Controls{Deny: deny, Reason: "maintenance"}) }

func (w *world) suspend(suspended bool) {
	w.Helper()
	_, err := w.gates().SetSuspension(ctx, authz.System(), "acme", suspended, "unpaid")
	require.NoError(w, err)
}

func (w *world) allow(list gates.List, releases ...gates.Release) {
	w.Helper()
	_, err := w.gates().SetReleases(ctx, authz.System(), list, releases)
	require.NoError(w, err)
}

func (w *world) runCount() int { return count(w, "select count(*) from runs", nil) }

// TestLaunchControlsCreateNoRun: neither a run nor a trace of one.
func TestLaunchControlsCreateNoRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspace()
	before := w.runCount()
	w.deny(true)
	for _, o := range []func(*NewRun){func(*NewRun) {}, planOnly, savePlan} {
		_, err := w.tryRun(ws, o)
		wantCode(t, err, fault.Unavailable, "service_unavailable")
		assert.ErrorContains(t, err, "maintenance")
	}
	assert.Equal(t, before, w.runCount())
	assert.Zero(t, count(w, "select count(*) from attempts where workspace_id = @w", postgres.Args{"w": ws}))
	w.wantFree(ws)
	w.deny(false)
	w.wantAdmitted(w.run(ws).ID)
}

// TestLaunchControlsThatCannotBeReadCreateNoRun: whatever is wrong with them.
func TestLaunchControlsThatCannotBeReadCreateNoRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspace()
	w.exec("delete from launch_controls", nil)
	_, err := w.tryRun(ws)
	wantCode(t, err, fault.Unavailable, "service_unavailable")
	require.NoError(t, w.tryExec("alter table launch_controls rename to elsewhere", nil))
	_, err = w.tryRun(ws)
	wantCode(t, err, fault.Unavailable, "service_unavailable")
	assert.Zero(t, w.runCount())
}

func TestLaunchControlsLeaveWhatIsThereAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	applying := w.applying(w.workspace())
	waiting := w.waiting(w.workspace())
	planning := w.take(w.run(w.workspace()).ID)
	w.deny(true)

	planning.plan(true) // what has started goes on
	applying.log("applying\n")
	applying.publish(1)
	applying.done(Done{Outcome: OutcomeFinished, TofuStarted: true, Confirmed: applying.confirm()})
	w.wantStatus(applying.RunID, Succeeded)
	_, err := w.state.Current(ctx, w.member, applying.WorkspaceID)
	require.NoError(t, err)
	require.NoError(t, w.runs.Confirm(ctx, w.owner, waiting, Decision{}))
	require.NoError(t, w.runs.Discard(ctx, w.owner, planning.RunID, Decision{}))
	require.NoError(t, w.runs.Cancel(ctx, w.owner, waiting, ""))
	w.wantStatus(waiting, Canceled)
}

func TestASuspendedOrganizationCreatesNoRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspace()
	w.suspend(true)
	_, err := w.tryRun(ws)
	wantCode(t, err, fault.Forbidden, "organization_suspended")
	assert.Zero(t, w.runCount())
}

// keptWaiting demands that an approved run does not come to its apply behind a closed
// gate, says why, and is applied when the gate is open again.
func (w *world) keptWaiting(t *testing.T, set func(closed bool), why string) {
	t.Helper()
	run := w.waiting(w.workspace())
	set(true)
	require.NoError(t, w.runs.Confirm(ctx, w.owner, run, Decision{}))
	for range 2 {
		d := w.wantStatus(run, AwaitingApproval)
		require.NotNil(t, d.ConfirmedAt)
		assert.Empty(t, d.ApplyAttempt)
		assert.Contains(t, d.GateReason, why)
		assert.True(t, d.Occupies(), "it has its place")
		w.sweep()
	}
	set(false)
	w.sweep()
	d := w.get(run)
	assert.Equal(t, dispatch.Pending, d.ApplyAttempt)
	assert.Empty(t, d.GateReason)
	w.takeAs(run, allowed).apply(1)
	w.wantStatus(run, Succeeded)
}

// takeAs takes an attempt as a runner of that release.
func (w *world) takeAs(run ids.Run, release gates.Release) *executor {
	w.Helper()
	e := w.offerTo(run, release)
	var err error
	e.session, err = e.acceptAs(release)
	require.NoError(w, err)
	e.actor, err = e.disp.Authenticate(ctx, e.session.Token)
	require.NoError(w, err)
	return e
}

func (w *world) offerTo(run ids.Run, release gates.Release) *executor {
	w.Helper()
	runner, a, found, err := w.runs.Poll(ctx, w.group, dispatch.RunnerHello{Name: w.unique("runner"), TofuVersions: []string{tofu}, Release: release})
	require.NoError(w, err)
	require.True(w, found, "nothing is offered")
	require.Equal(w, run, a.RunID)
	return &executor{world: w, Attempt: a, runner: runner, sandbox: w.unique("sandbox")}
}

func (e *executor) acceptAs(release gates.Release) (Session, error) {
	e.Helper()
	require.NoError(e, e.runs.Ready(ctx, e.group, e.runner))
	return e.runs.Accept(ctx, e.group, e.ID, dispatch.Acceptance{Runner: e.runner, Sandbox: e.sandbox, Release: release}, render)
}

func TestLaunchControlsAreAskedBeforeAnApply(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.keptWaiting(t, w.deny, "maintenance")
}

func TestSuspensionIsAskedBeforeAnApply(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.keptWaiting(t, w.suspend, "unpaid")
}

func TestTheRegionIsAskedBeforeAnApply(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, err := w.gates().SetRegion(ctx, authz.System(), "acme", "eu-north-1")
	require.NoError(t, err)
	w.keptWaiting(t, func(closed bool) {
		c := gates.Controls{}
		if closed {
			c.ClosedRegions = []string{"eu-north-1"}
		}
		w.setControls(c)
	}, "eu-north-1")
}

// TestTheReleaseThatPlannedIsAskedBeforeAnApply: what it planned is not applied by another one.
func TestTheReleaseThatPlannedIsAskedBeforeAnApply(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	withdrawn := gates.Release{Version: "0.9", Digest: strings.Repeat("cd", 32)}
	run := w.run(w.workspace()).ID
	w.takeAs(run, withdrawn).plan(true)
	d := w.wantStatus(run, AwaitingApproval)
	assert.Equal(t, withdrawn, d.release(), "pinned by the plan's accept")
	w.allow(gates.Runner, allowed)
	w.allow(gates.PolicyRuntime, allowed) // says nothing about a plan that no policy-runner has judged
	require.NoError(t, w.runs.Confirm(ctx, w.owner, run, Decision{}))
	w.sweep()
	d = w.wantStatus(run, AwaitingApproval)
	assert.Empty(t, d.ApplyAttempt)
	assert.Contains(t, d.GateReason, "0.9")
	assert.Contains(t, d.GateReason, "allow-list of runner releases")
	w.allow(gates.Runner, allowed, withdrawn)
	w.sweep()
	w.takeAs(run, allowed).apply(1)
	w.wantStatus(run, Succeeded)
}

// TestARunnersStartRepeatsTheGates: at poll, at accept, and at apply-start. What is
// refused there goes on waiting.
func TestARunnersStartRepeatsTheGates(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	poll := func(release gates.Release) (found bool, err error) {
		_, _, found, err = w.runs.Poll(ctx, w.group, dispatch.RunnerHello{Name: "r", TofuVersions: []string{tofu}, Release: release})
		return found, err
	}
	run := w.run(w.workspace()).ID
	for _, set := range []func(bool){w.deny, w.suspend} {
		set(true)
		found, err := poll(allowed)
		require.NoError(t, err)
		assert.False(t, found, "nothing is offered behind a closed gate")
		assert.NotEmpty(t, w.get(run).GateReason)
		set(false)

		e := w.offerTo(run, allowed)
		set(true)
		_, err = e.acceptAs(allowed)
		wantCode(t, err, fault.Conflict, "launch_denied")
		d := w.wantStatus(run, Queued)
		assert.Equal(t, dispatch.Pending, d.PlanAttempt, "it is offered again later")
		set(false)
	}

	e := w.offerTo(run, allowed)
	w.allow(gates.Runner, gates.Release{Version: "2.0", Digest: allowed.Digest})
	_, err := e.acceptAs(allowed)
	wantCode(t, err, fault.Conflict, "release_not_allowed")
	_, err = poll(allowed)
	wantCode(t, err, fault.Conflict, "release_not_allowed")
	_, err = poll(gates.Release{})
	wantCode(t, err, fault.Conflict, "release_not_allowed")
	w.allow(gates.Runner, allowed)
	w.takeAs(run, allowed).plan(true)
	require.NoError(t, w.runs.Confirm(ctx, w.owner, run, Decision{}))

	e = w.offerTo(run, allowed)
	w.allow(gates.Runner, gates.Release{Version: "2.0", Digest: allowed.Digest})
	_, err = e.acceptAs(allowed)
	wantCode(t, err, fault.Conflict, "release_not_allowed")
	d := w.wantStatus(run, AwaitingApproval)
	assert.Equal(t, dispatch.Canceled, d.ApplyAttempt, "its apply is prepared anew")
	assert.NotEmpty(t, d.GateReason)
	w.allow(gates.Runner)
	w.sweep()

	e = w.takeAs(run, allowed)
	w.deny(true)
	wantCode(t, e.tryStart(), fault.Conflict, "launch_denied")
	e.done(Done{Outcome: OutcomeErrored, Message: "apply-start was refused"})
	d = w.wantStatus(run, AwaitingApproval)
	assert.NotEmpty(t, d.GateReason)
	assert.True(t, d.Occupies())
	w.deny(false)
	w.sweep()
	last := w.takeAs(run, allowed)
	last.apply(1)
	w.wantStatus(run, Succeeded)
	assert.Equal(t, 1, count(w, "select count(*) from run_stages where run_id = @r and kind = 'apply' and attempt_id = @a", postgres.Args{"r": run, "a": last.ID}), "its stage names the attempt that applied")
}

// TestADeniedStartThatLeftATraceIsNoWaitingRun: only what certainly did not start waits.
func TestADeniedStartThatLeftATraceIsNoWaitingRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.confirmed(w.workspace())
	w.deny(true)
	wantCode(t, e.tryStart(), fault.Conflict, "launch_denied")
	e.done(Done{Outcome: OutcomeErrored, TofuStarted: true})
	w.deny(false)
	w.wantStatus(e.RunID, ApplyFailed)
	w.wantHeld(e.RunID)
}

// TestAClosedGateDoesNotTouchWhatHasStarted: the repeats of what was proved succeed.
func TestAClosedGateDoesNotTouchWhatHasStarted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	plan := w.take(w.run(w.workspace()).ID)
	apply := w.applying(w.workspace())
	before := w.get(apply.RunID)
	w.deny(true)
	w.suspend(true)
	w.allow(gates.Runner, allowed)

	again, err := plan.tryAccept()
	require.NoError(t, err)
	assert.Equal(t, plan.session, again)
	again, err = apply.tryAccept()
	require.NoError(t, err)
	assert.Equal(t, apply.session, again)
	require.NoError(t, apply.tryStart())
	assert.Equal(t, before, w.get(apply.RunID))
	apply.publish(1)
	apply.done(Done{Outcome: OutcomeFinished, TofuStarted: true, Confirmed: apply.confirm()})
	w.wantStatus(apply.RunID, Succeeded)
}

// TestLaunchControlsLetNoEndedRunGoOn: a requeue, a replan and a promotion begin something new, too.
func TestLaunchControlsLetNoEndedRunGoOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspace()
	failed := w.run(ws).ID
	w.take(failed).done(Done{Outcome: OutcomeErrored, ExitCode: 1})
	undecided := w.waiting(ws)
	w.deny(true)
	for name, goOn := range map[string]func() error{
		"requeue": func() error { _, err := w.runs.Requeue(ctx, w.owner, failed); return err },
		"replan":  func() error { _, err := w.runs.Replan(ctx, w.owner, undecided, NewReplan{}); return err },
		"promote": func() error { _, _, err := w.runs.Promote(ctx, w.owner, undecided, NewPromotion{}); return err },
	} {
		err := goOn()
		require.Error(t, err, name)
		wantCode(t, err, fault.Unavailable, "service_unavailable")
	}
	w.wantStatus(failed, PlanFailed)
	w.wantStatus(undecided, AwaitingApproval)
	w.deny(false)
	_, err := w.runs.Requeue(ctx, w.owner, failed)
	require.NoError(t, err)
}
