package runs

import (
	"context"

	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/fence"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// Load reads a run without asking who wants it, for the packages above.
func Load(ctx context.Context, tx postgres.Tx, id ids.Run) (Run, error) { return load(ctx, tx, id) }

// Lock takes the workspace's fence row and the run's, and reads both as they stand.
func Lock(ctx context.Context, tx postgres.Tx, id ids.Run) (Run, fence.Status, error) {
	return lock(ctx, tx, id)
}

// BeginRecovery brings a held run to needs_recovery, from whatever uncertain end it had
// (G-21); its workspace stays held. The caller holds the run's row.
func BeginRecovery(ctx context.Context, tx postgres.Tx, actor authz.Actor, r *Run) error {
	if r.DurableStatus == NeedsRecovery {
		return nil
	}
	return step(ctx, tx, r, move{To: NeedsRecovery, Actor: actor, Reason: r.DurableReason, Message: r.StatusMessage})
}

// Recover marks a held run as recovered: it stays in history as needs_recovery, from
// whatever uncertain end it had (G-21, RC-60). The caller holds the run's row, and
// frees the fence and promotes the next run in the same transaction.
func Recover(ctx context.Context, tx postgres.Tx, actor authz.Actor, r Run, reason string) error {
	if err := BeginRecovery(ctx, tx, actor, &r); err != nil {
		return err
	}
	n, err := postgres.Exec(ctx, tx, Queries.Get("MarkRecovered"), postgres.Args{"id": r.ID, "reason": reason})
	if err != nil {
		return err
	}
	if n == 0 {
		return fault.New(fault.Conflict, "already_recovered", "%s has been recovered before.", r.ID)
	}
	_, err = postgres.Exec(ctx, tx, Queries.Get("FenceReleased"), postgres.Args{"id": r.ID})
	return err
}
