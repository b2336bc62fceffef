package recovery_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/recovery"
)

const slack = 60 // seconds that may pass between two lines of a test on a busy machine

// prepared leaves a recovery that imports, and the request with all of its evidence.
func (w *world) prepared() (ids.Run, *executor, recovery.Operation, recovery.Request) {
	w.Helper()
	w.succeeded(4)
	run := w.run()
	e := w.applying(run)
	kept := e.handOver(errored(6, lineage))
	e.failed()
	current := w.evidence(run).Current
	in := imports()
	in.Evidence = recovery.Cited{CurrentState: &current.ID, CurrentChecksum: &current.SHA256, EmergencyDigest: &kept.SHA256, EmergencySize: &kept.Size}
	only := in
	only.PrepareOnly = true
	op, err := w.Recover(ctx, w.owner, run, only)
	require.NoError(w, err)
	return run, e, op, in
}

// A prepared recovery is its principal's for 15 minutes by the database's clock; what is
// shown of that is between 0 and 900 seconds (RC-42, RC-43, RC-51, RC-52, ER-16).
func TestALease(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run, _, op, in := w.prepared()
	assert.Equal(t, 15*time.Minute, op.LeaseExpiresAt.Sub(op.PreparedAt).Round(time.Second))
	assert.InDelta(t, 900, op.LeaseRemainingSeconds, slack)
	second := w.operator("cy")
	in.TakeOver = true
	_, err := w.Recover(ctx, second, run, in)
	wantCode(t, err, fault.Conflict, "recovery_lease_held")

	for interval, want := range map[string]int{"2 hours": 900, "400 seconds": 400, "-1 second": 0, "-2 hours": 0} {
		w.change("update recovery_operations set lease_expires_at = clock_timestamp() + @i::interval", postgres.Args{"i": interval})
		got := w.evidence(run).Operation
		assert.InDelta(t, want, got.LeaseRemainingSeconds, slack, interval)
	}
	w.lapse(run)
	again := in
	again.TakeOver, again.PrepareOnly = false, true
	granted, err := w.Recover(ctx, w.owner, run, again)
	require.NoError(t, err, "nobody took over: it is granted again")
	assert.InDelta(t, 900, granted.LeaseRemainingSeconds, slack)
	assert.Equal(t, []any{op.ID, op.TargetVersionID, 1}, []any{granted.ID, granted.TargetVersionID, granted.OwnerEpoch})
	other := in
	other.Reason = "thought again"
	_, err = w.Recover(ctx, w.owner, run, other)
	wantCode(t, err, fault.Conflict, "recovery_in_progress")
}

// After the lease another operator takes over: with both rights, a step-up, a
// confirmation, the same resolution and all of the evidence (RC-44…RC-50, ER-17).
func TestTakingOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run, _, op, in := w.prepared()
	w.lapse(run)
	second := w.operator("cy")
	refuse := func(actor authz.Actor, in recovery.Request, kind fault.Kind, code string) {
		t.Helper()
		_, err := w.Recover(ctx, actor, run, in)
		wantCode(t, err, kind, code)
		assert.Equal(t, w.owner.User, w.evidence(run).Operation.PrincipalID)
	}
	refuse(second, in, fault.Conflict, "takeover_confirmation_required")
	in.TakeOver = true
	refuse(w.member, in, fault.Forbidden, "forbidden")
	w.stale.Store(true)
	refuse(second, in, fault.Forbidden, "step_up_required")
	w.stale.Store(false)
	wrong, id, size := "0123", ids.New[ids.StateVersion](), int64(1)
	for name, spoil := range map[string]func(*recovery.Request){
		"resolution":       func(r *recovery.Request) { r.Resolution = recovery.CurrentStateVerified },
		"no state":         func(r *recovery.Request) { r.Evidence.CurrentState = nil },
		"another state":    func(r *recovery.Request) { r.Evidence.CurrentState = &id },
		"no checksum":      func(r *recovery.Request) { r.Evidence.CurrentChecksum = nil },
		"another checksum": func(r *recovery.Request) { r.Evidence.CurrentChecksum = &wrong },
		"no digest":        func(r *recovery.Request) { r.Evidence.EmergencyDigest = nil },
		"another digest":   func(r *recovery.Request) { r.Evidence.EmergencyDigest = &wrong },
		"no size":          func(r *recovery.Request) { r.Evidence.EmergencySize = nil },
		"another size":     func(r *recovery.Request) { r.Evidence.EmergencySize = &size },
	} {
		spoiled := in
		spoil(&spoiled)
		_, err := w.Recover(ctx, second, run, spoiled)
		require.Error(t, err, name)
		assert.True(t, fault.HasCode(err, "evidence_mismatch"), "%s: %v", name, err)
	}
	only := in
	only.PrepareOnly, only.Reason = true, "the first one left"
	taken, err := w.Recover(ctx, second, run, only)
	require.NoError(t, err)
	assert.Equal(t, []any{op.ID, op.TargetVersionID, op.TargetObjectID, second.User, 2}, []any{taken.ID, taken.TargetVersionID, taken.TargetObjectID, taken.PrincipalID, taken.OwnerEpoch})
	require.Len(t, taken.Takeovers, 1)
	assert.Equal(t, []ids.User{w.owner.User, second.User}, []ids.User{taken.Takeovers[0].From, taken.Takeovers[0].To})
	assert.WithinDuration(t, taken.LeaseExpiresAt.Add(-15*time.Minute), taken.Takeovers[0].At, slack*time.Second)
	assert.Equal(t, []string{string(second.User) + " the first one left"}, values[string](w, "select actor_id || ' ' || reason from audit_entries where action = 'run.recovery_takeover'", nil))

	_, err = w.Recover(ctx, w.owner, run, in)
	wantCode(t, err, fault.Conflict, "recovery_fenced")
	only.PrepareOnly, only.TakeOver = false, false
	after, err := w.Recover(ctx, second, run, only)
	require.NoError(t, err)
	assert.Equal(t, []any{recovery.Committed, op.TargetVersionID}, []any{after.Status, w.current()})
	_, err = w.Recover(ctx, w.owner, run, in)
	wantCode(t, err, fault.Conflict, "recovery_fenced")
}

// What changes hands many times keeps the last of it (RC-50).
func TestTheHistoryOfTakeoversIsBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run, _, _, in := w.prepared()
	in.TakeOver, in.PrepareOnly = true, true
	second := w.operator("cy")
	for i := range 23 {
		w.lapse(run)
		actor := second
		if i%2 == 1 {
			actor = w.owner
		}
		in.Reason = fmt.Sprintf("hand %d", i)
		_, err := w.Recover(ctx, actor, run, in)
		require.NoError(t, err)
	}
	got := w.evidence(run).Operation
	assert.Equal(t, []int{20, 24}, []int{len(got.Takeovers), got.OwnerEpoch})
	assert.Len(t, values[string](w, "select id from audit_entries where action = 'run.recovery_takeover'", nil), 23)
}

// Whoever was taken over from while its request was under way commits nothing (RC-49).
func TestAnOldPrincipalIsFencedWhileItCommits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run, _, op, in := w.prepared()
	second := w.operator("cy")
	took := false
	between := func(string) { // the owner has found its recovery in order, and reads the target
		w.lapse(run)
		theirs := in
		theirs.TakeOver, theirs.PrepareOnly = true, true
		taken, err := w.Recover(ctx, second, run, theirs)
		require.NoError(t, err)
		took = taken.PrincipalID == second.User
	}
	w.watched.before.Store(&between)
	_, err := w.Recover(ctx, w.owner, run, in)
	wantCode(t, err, fault.Conflict, "recovery_fenced")
	assert.True(t, took)
	assert.True(t, w.fence().RecoveryHeld)
	got := w.evidence(run).Operation
	assert.Equal(t, []any{op.ID, recovery.Prepared, second.User}, []any{got.ID, got.Status, got.PrincipalID})
}
