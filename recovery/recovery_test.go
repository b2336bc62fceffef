package recovery_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/dispatch"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/fence"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/runs"
	"github.com/holdfast-run/holdfast/state"
)

func TestOnlyAHeldRunCanBeReleased(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	refused := func(run ids.Run, status runs.Status) {
		t.Helper()
		require.Equal(t, status, w.get(run).DurableStatus)
		before := w.fence()
		_, err := w.Inspect(ctx, run)
		wantCode(t, err, fault.Conflict, "not_held")
		_, err = w.Release(ctx, system, run, "looked at it")
		wantCode(t, err, fault.Conflict, "not_held")
		assert.ErrorContains(t, err, string(status), "it says what the run is")
		assert.Equal(t, before, w.fence())
		assert.Equal(t, status, w.get(run).DurableStatus)
	}
	run, waits := w.run(), w.run()
	refused(run, runs.Queued)
	refused(waits, runs.Queued)
	plan := w.take(run)
	refused(run, runs.Planning)
	plan.plan()
	refused(run, runs.AwaitingApproval)
	require.NoError(t, w.runs.Confirm(ctx, w.owner, run, runs.Decision{}))
	e := w.take(run)
	_, err := w.runs.StartApply(ctx, e.actor, e.session.ManifestDigest, sandbox, tofuDigest)
	require.NoError(t, err)
	refused(run, runs.Applying)
	e.done(runs.Done{Outcome: runs.OutcomeErrored, ExitCode: 1, TofuStarted: true})
	refused(run, runs.ApplyFailed) // it wrote nothing, so it released the workspace

	nobody := ids.New[ids.Run]()
	_, err = w.Inspect(ctx, nobody)
	wantCode(t, err, fault.NotFound, "not_found")
	_, err = w.Release(ctx, system, nobody, "looked at it")
	wantCode(t, err, fault.NotFound, "not_found")
}

func TestTheReport(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	t.Log("the first apply of a workspace: there is no state before it")
	run := w.run()
	e := w.applying(run)
	e.done(runs.Done{Outcome: runs.OutcomeUnknown, TofuStarted: true})
	r, err := w.Inspect(ctx, run)
	require.NoError(t, err)
	assert.Nil(t, r.Before)
	assert.Nil(t, r.Now)
	assert.Equal(t, []any{runs.NeedsRecovery, 0, 0}, []any{r.Status, r.Publication, r.OpenUploads})
	_, err = w.Release(ctx, system, run, "nothing was made")
	require.NoError(t, err)

	t.Log("an apply that published twice, began a third time and failed")
	before := w.succeeded(1)
	run = w.run()
	e = w.applying(run)
	e.publish(2)
	now := e.publish(3)
	e.begin(4)
	e.done(runs.Done{Outcome: runs.OutcomeErrored, ExitCode: 1, TofuStarted: true, Message: "exit status 1"})
	r, err = w.Inspect(ctx, run)
	require.NoError(t, err)
	held, d := w.fence(), w.get(run)
	assert.Equal(t, []any{run, "acme/app", runs.ApplyFailed, "apply_failed", held.Epoch, *d.FinishedAt, 2, 1},
		[]any{r.Run, r.Workspace, r.Status, r.Reason, r.Epoch, r.HeldSince, r.Publication, r.OpenUploads})
	assert.Contains(t, r.Message, "exit status 1")
	assert.Equal(t, []ids.StateVersion{before.ID, now.ID}, []ids.StateVersion{r.Before.ID, r.Now.ID})
	assert.Equal(t, []int64{1, 3}, []int64{r.Before.Serial, r.Now.Serial})
	assert.Equal(t, held, w.fence(), "looking changes nothing")
	assert.Equal(t, d, w.get(run))

	released, err := w.Release(ctx, system, run, "looked at it")
	require.NoError(t, err)
	assert.Equal(t, r, released, "what was released is what was reported")
}

func TestRelease(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	before := w.succeeded(1)
	run := w.run()
	e := w.applying(run)
	waits := w.run()
	now, late := e.publish(2), e.begin(3)
	e.done(runs.Done{Outcome: runs.OutcomeErrored, ExitCode: 1, TofuStarted: true})
	held := w.fence()
	require.True(t, held.RecoveryHeld)
	require.Nil(t, w.get(waits).AdmittedAt)
	const attempts = "select id || ' ' || status || ' ' || xmin from attempts where run_id = @run order by id"
	ended := values[string](w, attempts, postgres.Args{"run": run})

	_, err := w.Release(ctx, system, run, "  the bucket is there; I looked  ")
	require.NoError(t, err)

	d := w.get(run)
	assert.Equal(t, runs.NeedsRecovery, d.DurableStatus, "it stays in history")
	assert.NotNil(t, d.RecoveredAt)
	assert.False(t, d.Occupies())
	last := d.History[len(d.History)-1]
	assert.Equal(t, []any{runs.ApplyFailed, runs.NeedsRecovery}, []any{last.FromStatus, last.ToStatus})
	assert.Equal(t, now.ID, w.current(), "the current state stays what it is")
	assert.Equal(t, ended, values[string](w, attempts, postgres.Args{"run": run}), "nothing is applied again (RC-59)")

	t.Log("one transaction does it all")
	type entry struct{ Xmin, Action, Actor, Reason, Details string }
	var entries []entry
	require.NoError(t, postgres.InSnapshot(ctx, w.db, "test", func(tx postgres.Tx) (err error) {
		entries, err = postgres.All[entry](ctx, tx, `select xmin::text, action, actor_kind as actor, reason, details::text as details from audit_entries
			where object_id = @run and action in ('run.recovered', 'state.recovered', 'recovery.break-glass') order by action`, postgres.Args{"run": run})
		return err
	}))
	require.Len(t, entries, 3)
	for i, action := range []string{"recovery.break-glass", "run.recovered", "state.recovered"} {
		assert.Equal(t, []string{action, "system", "the bucket is there; I looked"}, []string{entries[i].Action, entries[i].Actor, entries[i].Reason})
		var details map[string]any
		require.NoError(t, json.Unmarshal([]byte(entries[i].Details), &details))
		assert.Equal(t, map[string]any{
			"workspace": string(w.ws), "resolution": "current_state_verified", "host_local": true, "from_status": "apply_failed",
			"before": string(before.ID), "current": string(now.ID), "epoch": float64(held.Epoch + 1), "open_uploads": 1.0,
		}, details)
	}
	transactions := values[string](w, `
		select xmin::text from audit_entries where object_id = @run and action in ('run.recovered', 'state.recovered', 'run.needs_recovery', 'recovery.break-glass')
		union select xmin::text from runs where id in (@run, @waits)
		union select xmin::text from workspace_fences where workspace_id = @ws
		union select xmin::text from attempts where run_id = @waits`, postgres.Args{"run": run, "waits": waits, "ws": w.ws})
	assert.Equal(t, []string{entries[0].Xmin}, transactions)

	t.Log("the next run has the workspace, on the state that was vouched for")
	next := w.get(waits)
	assert.NotNil(t, next.AdmittedAt)
	assert.Equal(t, []any{now.ID, dispatch.Pending}, []any{next.PredecessorVersionID, next.PlanAttempt})
	free := w.fence()
	assert.True(t, free.HeldBy(fence.Run, string(waits)) && !free.RecoveryHeld, "%+v", free)
	assert.Greater(t, *next.FenceEpoch, held.Epoch+1, "recovery and the next run each have an epoch of their own")

	t.Log("a writer that still lives")
	_, err = w.state.Upload(ctx, late.ID, strings.NewReader(stateFile(3)))
	wantCode(t, err, fault.Conflict, "stale_fence")
	assert.Equal(t, now.ID, w.current())
	_, _, err = w.state.Begin(ctx, e.actor, w.ws, state.Create{Serial: 3, Lineage: lineage, MD5: "0123456789abcdef0123456789abcdef"})
	require.Error(t, err)
	_, err = w.disp.Authenticate(ctx, e.session.Token)
	wantCode(t, err, fault.Unauthenticated, "session_ended")

	t.Log("once")
	_, err = w.Release(ctx, system, run, "again")
	wantCode(t, err, fault.Conflict, "not_held")
	assert.Equal(t, free, w.fence())
	assert.Len(t, values[string](w, "select id from audit_entries where action = 'run.recovered'", nil), 1)
}

// TestEveryUncertainEndHasAWayOut releases a run from each status that holds a workspace.
func TestEveryUncertainEndHasAWayOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for status, end := range map[runs.Status]runs.Done{
		runs.ApplyFailed:         {Outcome: runs.OutcomeErrored, ExitCode: 1, TofuStarted: true, ErroredState: true},
		runs.ApplyInterrupted:    {Outcome: runs.OutcomeCanceled, ExitCode: 1, TofuStarted: true},
		runs.ApplyStartUncertain: {Outcome: runs.OutcomeUnknown},
		runs.NeedsRecovery:       {Outcome: runs.OutcomeUnknown, TofuStarted: true},
	} {
		run := w.run()
		e := w.applying(run)
		e.done(end)
		require.Equal(t, status, w.get(run).DurableStatus)
		reason := w.get(run).DurableReason
		_, err := w.Release(ctx, system, run, "looked at it")
		require.NoError(t, err, status)
		d := w.get(run)
		assert.Equal(t, []any{runs.NeedsRecovery, reason}, []any{d.DurableStatus, d.DurableReason}, "why it was uncertain stays")
		assert.NotNil(t, d.RecoveredAt)
		assert.False(t, w.fence().Held())
	}
	assert.Empty(t, w.current())
}

func TestAReasonIsRequired(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run, _ := w.held(1)
	before := w.fence()
	for _, reason := range []string{"", " \n\t", strings.Repeat("x", 2001)} {
		_, err := w.Release(ctx, system, run, reason)
		wantCode(t, err, fault.Invalid, "reason_required")
	}
	assert.Equal(t, before, w.fence())
	_, err := w.Release(ctx, system, run, strings.Repeat("x", 2000))
	require.NoError(t, err)
}

func TestWhoMayRelease(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run, _ := w.held(1)
	before := w.fence()
	attempt := authz.Actor{Kind: authz.AttemptActor, Organization: w.get(run).OrganizationID, Workspace: w.ws, Run: run, Phase: authz.Apply}
	for name, tt := range map[string]struct {
		actor authz.Actor
		kind  fault.Kind
		code  string
	}{
		"a member":               {w.member, fault.Forbidden, "forbidden"},
		"an attempt":             {attempt, fault.Forbidden, "forbidden"},
		"another organization's": {w.foreign, fault.NotFound, "not_found"},
		"nobody":                 {authz.Actor{}, fault.NotFound, "not_found"},
	} {
		_, err := w.Release(ctx, tt.actor, run, "looked at it")
		require.Error(t, err, name)
		wantCode(t, err, tt.kind, tt.code)
		assert.Equal(t, before, w.fence(), name)
	}
	assert.Empty(t, values[string](w, "select id from audit_entries where action = 'run.recovered'", nil))

	_, err := w.Release(ctx, w.owner, run, "looked at it")
	require.NoError(t, err)
	assert.Equal(t, []string{string(w.owner.User)}, values[string](w, "select distinct actor_id from audit_entries where action in ('run.recovered', 'state.recovered')", nil))
}

func TestTwoOperatorsAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run, now := w.held(1)
	epoch := w.fence().Epoch
	answers := make(chan error, 4)
	for range cap(answers) {
		go func() {
			_, err := w.Release(ctx, system, run, "looked at it")
			answers <- err
		}()
	}
	won := 0
	for range cap(answers) {
		if err := <-answers; err == nil {
			won++
		} else {
			wantCode(t, err, fault.Conflict, "not_held")
		}
	}
	assert.Equal(t, 1, won)
	assert.Equal(t, epoch+1, w.fence().Epoch)
	assert.Equal(t, now.ID, w.current())
	assert.Len(t, values[string](w, "select id from audit_entries where action = 'state.recovered'", nil), 1)
}

// TestNothingHappensUnrecorded: an action whose audit row cannot be written does not happen.
func TestNothingHappensUnrecorded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run, _ := w.held(1)
	fenceBefore, runBefore := w.fence(), w.get(run)
	require.NoError(t, postgres.InTx(ctx, w.db, "test", func(tx postgres.Tx) error {
		_, err := postgres.Exec(ctx, tx, "alter table audit_entries add constraint full_disk check (action <> 'state.recovered')", nil)
		return err
	}))
	_, err := w.Release(ctx, system, run, "looked at it")
	_, constraint := postgres.Violation(err)
	assert.Equal(t, "full_disk", constraint)
	assert.Equal(t, fenceBefore, w.fence())
	assert.Equal(t, runBefore, w.get(run))
}

// TestAWorkspaceOfALostRunIsReleased: also one of a run that the database does not know.
func TestAWorkspaceOfALostRunIsReleased(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, known := range []bool{false, true} {
		run := ids.New[ids.Run]()
		if known {
			run = w.run()
			e := w.take(run)
			e.plan()
			require.NoError(t, w.runs.Discard(ctx, w.owner, run, runs.Decision{}))
		}
		epoch, expires := int64(41), time.Now().Add(time.Hour)
		token := w.disp.Token(dispatch.Attempt{
			ID: ids.New[ids.Attempt](), RunID: run, OrganizationID: w.organization(), WorkspaceID: w.ws, Phase: authz.Apply, SandboxID: "box", FenceEpoch: &epoch, JTI: "j", TokenExpiresAt: &expires,
		})
		_, err := w.runs.Authenticate(ctx, token)
		wantCode(t, err, fault.RecoveryHeld, "authority_lost")
		held := w.fence()
		require.True(t, held.RecoveryHeld)

		r, err := w.Inspect(ctx, run)
		require.NoError(t, err)
		assert.Equal(t, []any{run, "acme/app", "authority_lost", held.Epoch}, []any{r.Run, r.Workspace, r.Reason, r.Epoch})
		assert.Equal(t, known, r.Status != "")
		_, err = w.Release(ctx, w.member, run, "looked at it")
		assert.True(t, fault.Is(err, fault.Forbidden), "%v", err)
		_, err = w.Release(ctx, system, run, "")
		wantCode(t, err, fault.Invalid, "reason_required")
		assert.Equal(t, held, w.fence())
		_, err = w.Release(ctx, system, run, "looked at it")
		require.NoError(t, err)
		assert.False(t, w.fence().Held())
		assert.Len(t, values[string](w, "select id from audit_entries where action = 'recovery.break-glass' and object_id = @run", postgres.Args{"run": run}), 1)
		assert.Greater(t, w.fence().Epoch, held.Epoch)
		_, err = w.Release(ctx, system, run, "again")
		require.Error(t, err)
	}
}
