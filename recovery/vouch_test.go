package recovery_test

import (
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
	"github.com/holdfast-run/holdfast/recovery"
	"github.com/holdfast-run/holdfast/runs"
)

// lose holds a workspace for a session of the run that the database does not know.
func (w *world) lose(workspace ids.Workspace, run ids.Run) ids.Run {
	w.Helper()
	epoch, expires := int64(41), time.Now().Add(time.Hour)
	token := w.disp.Token(dispatch.Attempt{
		ID: ids.New[ids.Attempt](), RunID: run, OrganizationID: w.organization(), WorkspaceID: workspace, Phase: authz.Apply, SandboxID: "box", FenceEpoch: &epoch, JTI: "j", TokenExpiresAt: &expires,
	})
	_, err := w.runs.Authenticate(ctx, token)
	wantCode(w.T, err, fault.RecoveryHeld, "authority_lost")
	return run
}

// An operator vouches over the API for the workspace of a run that the database has lost:
// with both rights and a step-up, by naming the exact state, and by confirming all that is
// missing. It is one transaction, and the exact repeat answers what it did.
func TestVouchingForALostRun(t *testing.T) {
	t.Parallel()
	for name, known := range map[string]bool{"unknown": false, "known": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			now := w.succeeded(3)
			run := ids.New[ids.Run]()
			if known {
				run = w.run()
				w.take(run).plan()
				require.NoError(t, w.runs.Discard(ctx, w.owner, run, runs.Decision{}))
			}
			w.lose(w.ws, run)
			held := w.fence()
			waits := w.waiting()

			e := w.evidence(run)
			assert.Equal(t, []any{true, true, now.ID, known, w.ws}, []any{e.AuthorityLost, e.Held, e.Current.ID, e.Run.DurableStatus != "", e.Run.WorkspaceID})
			assert.Nil(t, e.VerifyRefused)
			assert.Equal(t, "authority_lost", e.ImportRefused.Code)
			assert.False(t, e.Writer.Proven)
			_, err := w.Evidence(ctx, w.member, run)
			assert.True(t, fault.Is(err, fault.Forbidden), "%v", err)
			_, err = w.Evidence(ctx, w.foreign, run)
			assert.True(t, fault.Is(err, fault.NotFound), "%v", err)

			good := verify()
			good.Evidence = recovery.Cited{CurrentState: &now.ID, CurrentChecksum: &now.SHA256}
			good.ConfirmAuthorityLost, good.ConfirmWriterNotProven = true, true
			none, other := ids.StateVersion(""), "0123"
			for _, c := range []struct {
				kind   fault.Kind
				code   string
				change func(*recovery.Request)
			}{
				{fault.Invalid, "reason_required", func(r *recovery.Request) { r.Reason = " " }},
				{fault.Invalid, "confirmation_required", func(r *recovery.Request) { r.ConfirmRevokeAuthority = false }},
				{fault.Invalid, "confirmation_required", func(r *recovery.Request) { r.ConfirmAdvanceFence = false }},
				{fault.Invalid, "confirmation_required", func(r *recovery.Request) { r.ConfirmAuthorityLost = false }},
				{fault.Invalid, "confirmation_required", func(r *recovery.Request) { r.ConfirmWriterNotProven = false }},
				{fault.Invalid, "evidence_required", func(r *recovery.Request) { r.Evidence.CurrentState = nil }},
				{fault.Invalid, "evidence_required", func(r *recovery.Request) { r.Evidence.CurrentChecksum = nil }},
				{fault.Conflict, "evidence_mismatch", func(r *recovery.Request) { r.Evidence.CurrentState = &none }},
				{fault.Conflict, "evidence_mismatch", func(r *recovery.Request) { r.Evidence.CurrentChecksum = &other }},
				{fault.Conflict, "authority_lost", func(r *recovery.Request) { r.Resolution = recovery.ImportEmergencyState }},
				{fault.Conflict, "authority_lost", func(r *recovery.Request) { r.PrepareOnly = true }},
			} {
				in := good
				c.change(&in)
				_, err := w.Recover(ctx, w.owner, run, in)
				wantCode(t, err, c.kind, c.code)
			}
			_, err = w.Recover(ctx, w.member, run, good)
			assert.True(t, fault.Is(err, fault.Forbidden), "%v", err)
			_, err = w.Recover(ctx, w.foreign, run, good)
			assert.True(t, fault.Is(err, fault.NotFound), "%v", err)
			w.stale.Store(true)
			_, err = w.Recover(ctx, w.owner, run, good)
			wantCode(t, err, fault.Forbidden, "step_up_required")
			w.stale.Store(false)
			assert.Equal(t, held, w.fence(), "nothing has changed")

			op, err := w.Recover(ctx, w.owner, run, good)
			require.NoError(t, err)
			assert.Equal(t, []any{recovery.Committed, now.ID, now.SHA256, held.Epoch + 1, true}, []any{op.Status, op.TargetVersionID, op.TargetSHA256, op.ReservationEpoch, op.AuthorityLost})
			assert.True(t, w.fence().HeldBy(fence.Run, string(waits)), "%+v", w.fence())
			assert.Equal(t, now.ID, w.current())
			assert.Equal(t, []string{"run.recovered true", "state.recovered true"}, values[string](w, "select action || ' ' || (details->>'authority_lost') from audit_entries where action like '%.recovered' order by action", nil))
			assert.Len(t, values[string](w, "select distinct xmin::text from audit_entries where action like '%.recovered'", nil), 1, "in one transaction")

			w.stale.Store(true) // the repeat answers what was done, as any other (RC-39)
			again, err := w.Recover(ctx, w.owner, run, good)
			require.NoError(t, err)
			assert.Equal(t, op, again)
			w.stale.Store(false)
			different := good
			different.Reason = "another"
			_, err = w.Recover(ctx, w.owner, run, different)
			require.Error(t, err)
			after := w.evidence(run)
			assert.Equal(t, []any{false, op.ID}, []any{after.Held, after.Operation.ID})

			w.lose(w.ws, run) // it comes again: that is another hold
			_, err = w.Recover(ctx, w.owner, run, good)
			require.NoError(t, err)
			assert.Len(t, values[string](w, "select id from lost_recoveries", nil), 2)
		})
	}
}

// waiting makes a run that waits for the held workspace, as one that was queued before.
func (w *world) waiting() ids.Run {
	w.Helper()
	w.change("update workspace_fences set recovery_held = false where workspace_id = @id", postgres.Args{"id": w.ws})
	run := w.run()
	w.change("update workspace_fences set recovery_held = true where workspace_id = @id", postgres.Args{"id": w.ws})
	require.Equal(w, runs.Queued, w.get(run).DurableStatus)
	return run
}

// A state whose bytes are damaged is nothing to vouch for.
func TestVouchingReadsTheState(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	now := w.succeeded(1)
	run := w.lose(w.ws, ids.New[ids.Run]())
	w.damage(now.ID)
	in := verify()
	in.Evidence = recovery.Cited{CurrentState: &now.ID, CurrentChecksum: &now.SHA256}
	in.ConfirmAuthorityLost, in.ConfirmWriterNotProven = true, true
	_, err := w.Recover(ctx, w.owner, run, in)
	wantCode(t, err, fault.Conflict, "recovery_target_corrupt")
	assert.True(t, w.fence().RecoveryHeld)
}

// damage cuts the stored bytes of a state.
func (w *world) damage(v ids.StateVersion) {
	w.Helper()
	object := values[string](w, "select object_id from state_versions where id = @id", postgres.Args{"id": v})[0]
	for _, key := range w.store.Keys() {
		if strings.HasSuffix(key, object) {
			whole := w.store.Bytes(key)
			w.store.Replace(key, whole[:len(whole)-1])
			return
		}
	}
	require.Fail(w, "the object is not stored", object)
}
