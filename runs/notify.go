package runs

import (
	"context"

	"github.com/holdfast-run/holdfast/notifications"
	"github.com/holdfast-run/holdfast/postgres"
)

// tell writes the notifications of a step in its transaction: told is what happened, and
// nothing else (EV-08). r is the run as it was before.
func tell(ctx context.Context, tx postgres.Tx, r Run, to Status) error {
	return notifications.RunStepped(ctx, tx, r.ID, string(r.DurableStatus), string(to), r.DurableStatus.Final() && to == NeedsRecovery)
}
