package runs

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// ST-23: only a site admin with a recent step-up deletes past an apply or a hold. What the
// apply had is gone with it, and the evidence stays.
func TestASiteAdminDeletesPastAHold(t *testing.T) {
	t.Parallel()
	steppedUp := false
	settings := Defaults()
	settings.StepUp = func(context.Context, postgres.Tx, authz.Actor) error {
		if !steppedUp {
			return fault.New(fault.Forbidden, "step_up_required", "Step up.")
		}
		return nil
	}
	w := newWorldWith(t, settings)
	admin := w.owner
	admin.SiteAdmin = true
	for code, holds := range map[string]bool{"workspace_applying": false, "workspace_recovery_pending": true} {
		t.Run(code, func(t *testing.T) {
			steppedUp = false
			e := w.applying(w.workspace())
			v := e.publish(1)
			if holds {
				e.done(failed())
			}
			epoch := *w.get(e.RunID).FenceEpoch
			err := w.runs.DeleteWorkspace(ctx, admin, e.WorkspaceID, false)
			wantCode(t, err, fault.RecoveryHeld, code)
			assert.ErrorContains(t, err, "step-up")
			steppedUp = true
			wantCode(t, w.runs.DeleteWorkspace(ctx, w.owner, e.WorkspaceID, false), fault.RecoveryHeld, code)
			wantCode(t, w.runs.DeleteWorkspace(ctx, admin, e.WorkspaceID, true), fault.RecoveryHeld, code)

			require.NoError(t, w.runs.DeleteWorkspace(ctx, admin, e.WorkspaceID, false))
			_, err = w.spaces.Get(ctx, admin, e.WorkspaceID)
			assert.True(t, fault.Is(err, fault.NotFound), "%v", err)
			_, err = w.disp.Authenticate(ctx, e.session.Token)
			assert.True(t, fault.Is(err, fault.Unauthenticated), "%v", err)
			var fence struct {
				Epoch int64
				Held  bool
			}
			require.NoError(t, postgres.InSnapshot(ctx, w.db, "test", func(tx postgres.Tx) (err error) {
				fence.Epoch, err = postgres.Value[int64](ctx, tx, "select epoch from workspace_fences where workspace_id = @id", postgres.Args{"id": e.WorkspaceID})
				if err != nil {
					return err
				}
				fence.Held, err = postgres.Value[bool](ctx, tx, "select recovery_held or holder_kind is not null from workspace_fences where workspace_id = @id", postgres.Args{"id": e.WorkspaceID})
				return err
			}))
			assert.Equal(t, []any{epoch + 1, false}, []any{fence.Epoch, fence.Held})
			var kept []string
			require.NoError(t, postgres.InSnapshot(ctx, w.db, "test", func(tx postgres.Tx) (err error) {
				kept, err = postgres.Values[string](ctx, tx, "select status from state_versions where id = @id union all select details->>'run' from audit_entries where action = 'workspace.deleted-past-hold' and object_id = @ws order by 1",
					postgres.Args{"id": v, "ws": e.WorkspaceID})
				return err
			}))
			assert.ElementsMatch(t, []string{"finalized", string(e.RunID)}, kept)
			status := map[bool]Status{true: ApplyFailed, false: NeedsRecovery}[holds]
			assert.Equal(t, status, w.durable(e.RunID))
		})
	}
}

// durable reads the status of a run whose workspace is gone.
func (w *world) durable(id ids.Run) (status Status) {
	w.Helper()
	require.NoError(w, postgres.InSnapshot(ctx, w.db, "test", func(tx postgres.Tx) (err error) {
		status, err = postgres.Value[Status](ctx, tx, "select durable_status from runs where id = @id", postgres.Args{"id": id})
		return err
	}))
	return status
}
