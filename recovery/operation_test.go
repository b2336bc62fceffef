package recovery_test

import (
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/fence"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/recovery"
	"github.com/holdfast-run/holdfast/runs"
)

// The ordinary case: the current state is verified, the workspace is free, the next run
// begins, and nothing is applied again (RC-54…RC-61).
func TestVerifyingTheCurrentState(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	before := w.succeeded(1)
	run := w.run()
	e := w.applying(run)
	waits := w.run()
	last := e.publish(2)
	e.failed()
	epoch := w.fence().Epoch
	attempts := values[int](w, "select count(*) from attempts where run_id = @run", postgres.Args{"run": run})

	op, err := w.Recover(ctx, w.owner, run, verify())
	require.NoError(t, err)
	assert.Equal(t, []any{recovery.Committed, last.ID, last.SHA256, epoch + 1, runs.ApplyFailed, true, 1},
		[]any{op.Status, op.TargetVersionID, op.TargetSHA256, op.ReservationEpoch, op.FromStatus, op.WriterProven, op.Publications})
	assert.Equal(t, last.ID, w.current())
	d := w.get(run)
	assert.Equal(t, runs.NeedsRecovery, d.DurableStatus)
	assert.NotNil(t, d.RecoveredAt)
	assert.Equal(t, []runs.Status{runs.ApplyFailed, runs.NeedsRecovery}, []runs.Status{d.History[len(d.History)-1].FromStatus, d.History[len(d.History)-1].ToStatus})
	assert.Equal(t, attempts, values[int](w, "select count(*) from attempts where run_id = @run", postgres.Args{"run": run}), "nothing is applied again")
	after := w.fence()
	assert.True(t, after.HeldBy(fence.Run, string(waits)), "the next run has the workspace")
	assert.Equal(t, epoch+2, after.Epoch)
	assert.Equal(t, last.ID, w.get(waits).PredecessorVersionID)

	rows := values[string](w, `select action || ' ' || xmin::text || ' ' || (details->'reservation'->>'kind') || ' ' || reason from audit_entries where action in ('run.recovered', 'state.recovered') order by action`, nil)
	require.Len(t, rows, 2)
	parts := strings.Fields(rows[0])
	assert.Equal(t, "run.recovered", parts[0])
	assert.Equal(t, "state.recovered "+strings.Join(parts[1:], " "), rows[1], "both in one transaction, with the reservation and the reason")
	assert.Equal(t, values[string](w, "select xmin::text from recovery_operations", nil)[0], parts[1], "which is that of the commit")

	_, err = w.disp.Authenticate(ctx, e.session.Token)
	assert.True(t, fault.Is(err, fault.Unauthenticated))
	_, _, err = w.runs.Create(ctx, w.owner, runs.NewRun{Workspace: w.ws, Source: "tfe-api"})
	require.NoError(t, err, "runs are taken again")
	_, err = w.runs.Requeue(ctx, w.owner, run)
	assert.True(t, fault.Is(err, fault.Conflict), "the run itself is never begun again")

	done := w.evidence(run)
	assert.False(t, done.Held)
	assert.Equal(t, op.ID, done.Operation.ID)
	assert.NotEqual(t, before.ID, w.current())
	_, err = w.Recover(ctx, w.operator("cy"), run, verify())
	wantCode(t, err, fault.Conflict, "not_held")
}

// A session that is still open when its run is recovered is revoked (RC-54).
func TestOpenSessionsAreRevoked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run, _ := w.held(1)
	attempt := values[ids.Attempt](w, "select id from attempts where run_id = @run and phase = 'apply'", postgres.Args{"run": run})[0]
	w.change("update attempts set status = 'running', finished_at = null where id = @id", postgres.Args{"id": attempt})
	in := verify()
	w.refused(run, in, fault.Invalid, "confirmation_required")
	in.ConfirmWriterNotProven = true
	op, err := w.Recover(ctx, w.owner, run, in)
	require.NoError(t, err)
	assert.False(t, op.WriterProven)
	assert.Equal(t, []string{"lost recovered"}, values[string](w, "select status || ' ' || outcome from attempts where id = @id and authority_revoked_at is not null", postgres.Args{"id": attempt}))
	assert.Equal(t, []bool{false}, values[bool](w, "select (details->>'writer_proven')::boolean from audit_entries where action = 'run.recovered'", nil))
}

// An emergency state becomes current as the exact successor (RC-56).
func TestImportingTheEmergencyState(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	before := w.succeeded(4)
	run := w.run()
	e := w.applying(run)
	e.handOver(errored(6, lineage))
	e.failed()
	op, err := w.Recover(ctx, w.owner, run, imports())
	require.NoError(t, err)
	assert.Equal(t, op.TargetVersionID, w.current())
	body, v, err := w.state.Download(ctx, w.owner, op.TargetVersionID)
	require.NoError(t, err)
	text, err := io.ReadAll(body)
	require.NoError(t, err)
	assert.Equal(t, errored(5, lineage), string(text))
	assert.Equal(t, []any{before.ID, int64(5), lineage, run, e.ID, fence.Recovery, string(op.ID), op.ReservationEpoch, w.owner.User, 1},
		[]any{v.Base, v.Serial, v.Lineage, v.Run, v.Attempt, v.HolderKind, v.HolderID, v.Epoch, v.CreatedBy, v.ResourceCount})
	assert.False(t, w.fence().Held())
	next := w.run()
	assert.Equal(t, op.TargetVersionID, w.get(next).PredecessorVersionID, "the next action is a new plan, on it")
}

// The first state of a workspace may be an emergency state, too.
func TestImportingAFirstState(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := w.run()
	e := w.applying(run)
	e.handOver(errored(2, lineage))
	e.failed()
	op, err := w.Recover(ctx, w.owner, run, imports())
	require.NoError(t, err)
	v, err := w.state.Version(ctx, w.owner, op.TargetVersionID)
	require.NoError(t, err)
	assert.Equal(t, int64(1), v.Serial)
}

// What is asked of who recovers (RC-10…RC-15, ER-11, ER-12).
func TestWhatARecoveryAsksFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run, _ := w.held(1)
	for name, spoil := range map[string]func(*recovery.Request){
		"invalid_resolution": func(r *recovery.Request) { r.Resolution = "merge" },
		"reason_required":    func(r *recovery.Request) { r.Reason = " \n\t" },
	} {
		in := verify()
		spoil(&in)
		w.refused(run, in, fault.Invalid, name)
	}
	long := verify()
	long.Reason = strings.Repeat("x", 2001)
	w.refused(run, long, fault.Invalid, "reason_required")
	for _, spoil := range []func(*recovery.Request){
		func(r *recovery.Request) { r.ConfirmRevokeAuthority = false }, func(r *recovery.Request) { r.ConfirmAdvanceFence = false },
		func(r *recovery.Request) { r.Overrides = []recovery.Override{{}} },
	} {
		in := verify()
		spoil(&in)
		w.refused(run, in, fault.Invalid, "confirmation_required")
	}
	w.stale.Store(true)
	w.refused(run, verify(), fault.Forbidden, "step_up_required")
	w.stale.Store(false)
	for name, tt := range map[string]struct {
		actor authz.Actor
		kind  fault.Kind
	}{"a member": {w.member, fault.Forbidden}, "a stranger": {w.foreign, fault.NotFound}, "nobody": {authz.Actor{}, fault.NotFound}} {
		_, err := w.Recover(ctx, tt.actor, run, verify())
		assert.True(t, fault.Is(err, tt.kind), "%s: %v", name, err)
	}
	wrong, none := "0123", ids.StateVersion("")
	for _, cited := range []recovery.Cited{{CurrentState: &none}, {CurrentChecksum: &wrong}, {EmergencyDigest: &wrong}} {
		in := verify()
		in.Evidence = cited
		w.refused(run, in, fault.Conflict, "evidence_mismatch")
	}
	assert.Empty(t, values[string](w, "select id from recovery_operations", nil), "nothing was recorded")
}

// A server without a step-up recovers nothing.
func TestWithoutAStepUpNothingIsRecovered(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run, _ := w.held(1)
	s := recovery.New(w.db, nil, w.state, w.disp, w.runs, recovery.Defaults())
	_, err := s.Recover(ctx, w.owner, run, verify())
	wantCode(t, err, fault.Forbidden, "step_up_required")
}

// The operation is on record before anything is copied; while the store is down it stays
// prepared with its lease, and the repeat ends in the same target (RC-37…RC-39).
func TestARecoveryIsRecordedBeforeItCopies(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.succeeded(4)
	run := w.run()
	e := w.applying(run)
	e.handOver(errored(6, lineage))
	e.failed()
	w.store.SetDown(true)
	_, err := w.Recover(ctx, w.owner, run, imports())
	require.True(t, fault.Is(err, fault.Unavailable), "%v", err)
	prepared := w.evidence(run).Operation
	require.NotNil(t, prepared)
	assert.Equal(t, recovery.Prepared, prepared.Status)
	assert.True(t, prepared.LeaseLive)
	assert.True(t, w.fence().RecoveryHeld)
	_, err = w.Recover(ctx, w.owner, run, imports())
	require.True(t, fault.Is(err, fault.Unavailable))
	w.store.SetDown(false)
	op, err := w.Recover(ctx, w.owner, run, imports())
	require.NoError(t, err)
	assert.Equal(t, []any{prepared.ID, prepared.TargetVersionID}, []any{op.ID, op.TargetVersionID})
	assert.Equal(t, op.TargetVersionID, w.current())

	w.store.SetDown(true)
	w.stale.Store(true)
	again, err := w.Recover(ctx, w.owner, run, imports())
	require.NoError(t, err, "what is done is answered without the store")
	assert.Equal(t, op, again)
	other := imports()
	other.Reason = "another"
	w.stale.Store(false)
	_, err = w.Recover(ctx, w.owner, run, other)
	wantCode(t, err, fault.Conflict, "not_held")
	assert.Equal(t, []int{1}, values[int](w, "select count(*) from state_versions where holder_kind = 'recovery'", nil))
}

// A target that was damaged is never made anew from its source (RC-40, RC-41).
func TestADamagedTargetFailsClosed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.succeeded(4)
	run := w.run()
	e := w.applying(run)
	e.handOver(errored(6, lineage))
	e.failed()
	only := imports()
	only.PrepareOnly = true
	op, err := w.Recover(ctx, w.owner, run, only)
	require.NoError(t, err)
	var key string
	for _, k := range w.store.Keys() {
		if strings.HasSuffix(k, "/state/"+string(op.TargetObjectID)) {
			key = k
		}
	}
	whole := w.store.Bytes(key)
	require.NotEmpty(t, whole)
	for name, damaged := range map[string][]byte{"cut": whole[:len(whole)-1], "gone": nil, "changed": append(append([]byte{}, whole[:len(whole)-1]...), whole[len(whole)-1]^1)} {
		w.store.Replace(key, damaged)
		_, err = w.Recover(ctx, w.owner, run, imports())
		require.Error(t, err, name)
		assert.True(t, fault.HasCode(err, "recovery_target_corrupt"), "%s: %v", name, err)
		assert.Equal(t, damaged, w.store.Bytes(key), name)
		assert.True(t, w.fence().RecoveryHeld)
	}
	w.store.Replace(key, whole)
	recorded := op.TargetSHA256 // a whole object, but not the one that was recorded
	record := func(digest string) {
		w.change("update recovery_operations set target_sha256 = @d where id = @id", postgres.Args{"d": digest, "id": op.ID})
	}
	record(digestOf("another"))
	_, err = w.Recover(ctx, w.owner, run, imports())
	wantCode(t, err, fault.Conflict, "recovery_target_corrupt")
	record(recorded)
	after, err := w.Recover(ctx, w.owner, run, imports())
	require.NoError(t, err)
	assert.Equal(t, []any{op.TargetVersionID, op.TargetObjectID}, []any{after.TargetVersionID, after.TargetObjectID})
}

// Two requests at once end as one.
func TestTheSameRequestTwiceAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.succeeded(4)
	run := w.run()
	e := w.applying(run)
	e.handOver(errored(6, lineage))
	e.failed()
	type answer struct {
		op  recovery.Operation
		err error
	}
	answers := make(chan answer, 3)
	for range cap(answers) {
		go func() {
			op, err := w.Recover(ctx, w.owner, run, imports())
			answers <- answer{op, err}
		}()
	}
	for range cap(answers) {
		a := <-answers
		require.NoError(t, a.err)
		assert.Equal(t, []any{recovery.Committed, w.current()}, []any{a.op.Status, a.op.TargetVersionID})
	}
	assert.Len(t, values[string](w, "select id from audit_entries where action = 'run.recovered'", nil), 1)
	assert.Equal(t, []int{1}, values[int](w, "select count(*) from recovery_operations", nil))
}

// What cannot be recorded does not happen (RC-58).
func TestACommitThatCannotBeRecordedDoesNotHappen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run, _ := w.held(1)
	before := w.fence()
	require.NoError(t, postgres.InTx(ctx, w.db, "test", func(tx postgres.Tx) error {
		_, err := postgres.Exec(ctx, tx, "alter table audit_entries add constraint full_disk check (action <> 'state.recovered')", nil)
		return err
	}))
	_, err := w.Recover(ctx, w.owner, run, verify())
	_, constraint := postgres.Violation(err)
	assert.Equal(t, "full_disk", constraint)
	after := w.fence()
	assert.Equal(t, []any{before.Epoch, before.Holder, true}, []any{after.Epoch, after.Holder, after.RecoveryHeld})
	assert.Equal(t, []string{"prepared"}, values[string](w, "select status from recovery_operations", nil))
	assert.Nil(t, w.get(run).RecoveredAt)
}

// The way out on the server's host gives up what was prepared.
func TestTheHostsWayOutGivesUpWhatIsPrepared(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run, _ := w.held(1)
	only := verify()
	only.PrepareOnly = true
	op, err := w.Recover(ctx, w.owner, run, only)
	require.NoError(t, err)
	_, err = w.Release(ctx, system, run, "the API was down")
	require.NoError(t, err)
	assert.Equal(t, []string{"abandoned"}, values[string](w, "select status from recovery_operations where id = @id", postgres.Args{"id": op.ID}))
	_, err = w.Recover(ctx, w.owner, run, verify())
	wantCode(t, err, fault.Conflict, "not_held")
}
