package workspaces

import (
	"context"

	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// PurgeVariables deletes all variables of a workspace that is being torn down, in the
// caller's transaction. Whether that may be done is the caller's to know.
func PurgeVariables(ctx context.Context, tx postgres.Tx, actor authz.Actor, id ids.Workspace) error {
	w, err := Load(ctx, tx, id)
	if err != nil {
		return err
	}
	n, err := postgres.Exec(ctx, tx, queries.Get("VariablesPurge"), postgres.Args{"organization_id": w.Organization, "workspace_id": id})
	if err != nil {
		return err
	}
	return record(ctx, tx, actor, w, "workspace.variables-purged", map[string]any{"variables": n})
}
