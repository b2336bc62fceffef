package runs

import (
	"context"

	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/gates"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// waitsForIntake tells whether a run stays dispatch_pending (RL-12): while the intake is
// paused, and after that behind an older run of its workspace that the sweep has not
// taken in yet, or it would overtake it. The caller holds the workspace.
func waitsForIntake(ctx context.Context, tx postgres.Tx, r Run) (bool, error) {
	paused, err := gates.IntakePaused(ctx, tx)
	if err != nil || paused {
		return paused, err
	}
	return postgres.Value[bool](ctx, tx, Queries.Get("PendingBefore"), postgres.Args{"workspace_id": r.WorkspaceID, "queue_seq": r.QueueSeq})
}

// takeIn queues, in their order, the runs that were created while the intake was paused.
func (s *Service) takeIn(ctx context.Context) error {
	return each(ctx, s, "runs.take-in", Queries, "Pending", postgres.Args{}, func(tx postgres.Tx, id ids.Run) error {
		r, _, err := lock(ctx, tx, id)
		if err != nil || r.DurableStatus != DispatchPending {
			return err
		}
		if waits, err := waitsForIntake(ctx, tx, r); err != nil || waits {
			return err
		}
		if err := step(ctx, tx, &r, move{To: Queued, Actor: authz.System()}); err != nil {
			return err
		}
		return enter(ctx, tx, r)
	})
}
