package state

import (
	"context"

	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/workspaces"
)

// outside tells whether the actor is a run of another workspace.
func outside(actor authz.Actor, workspace ids.Workspace) bool {
	return actor.Kind == authz.AttemptActor && actor.Workspace != workspace
}

// consumable tells whether a version of another workspace is one that the run may read: the
// workspace shares its state with the run's, and the version is current, or was until the
// last publication, which may have come since the run asked which one is.
func consumable(ctx context.Context, tx postgres.Tx, actor authz.Actor, v Version) (bool, error) {
	shared, err := workspaces.SharesState(ctx, tx, v.Workspace, actor.Workspace)
	if err != nil || !shared {
		return false, err
	}
	return postgres.Value[bool](ctx, tx, Queries.Get("CurrentOrReplaced"), postgres.Args{"workspace_id": v.Workspace, "id": v.ID})
}
