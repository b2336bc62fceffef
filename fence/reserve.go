package fence

import (
	"context"
	"fmt"

	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/postgres"
)

// Reserve takes a held fence from its run for the recovery of that run, and advances the
// epoch: what the run began can never be published any more (RC-55). The token passes
// Guard and Release. It must follow Lock in the same transaction.
func Reserve(ctx context.Context, tx postgres.Tx, locked Status, recovery, name, reason string) (Token, error) {
	holder := Holder{Kind: Recovery, ID: recovery, Name: name}
	epoch, err := postgres.Value[int64](ctx, tx, Queries.Get("Reserve"), postgres.Args{
		"workspace_id": locked.Workspace, "epoch": locked.Epoch, "holder_id": holder.ID, "holder_name": holder.Name, "reason": reason,
	})
	if postgres.NoRow(err) {
		return Token{}, fault.New(fault.Conflict, "not_held", "The workspace is not held for recovery any more.")
	}
	if err != nil {
		return Token{}, fmt.Errorf("reserve the fence: %w", err)
	}
	return Token{Workspace: locked.Workspace, Epoch: epoch, Holder: holder}, nil
}
