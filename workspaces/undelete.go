package workspaces

import (
	"context"

	"github.com/holdfast-run/holdfast/audit"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// Undelete makes a workspace of a tombstone again, with its states, runs and settings
// (ST-23). It is for site admins. What its deletion ended stays ended: runs that waited,
// access of teams, and what held the workspace. Where its project is gone it comes into
// the default one.
// Errors: NotFound for anybody else, for a workspace that is not deleted, and for one of a
// deleted organization; Conflict "name_taken" when another workspace has its name by now.
func (s *Service) Undelete(ctx context.Context, actor authz.Actor, id ids.Workspace) error {
	missing := fault.Missing("deleted workspace", string(id))
	if !authz.Can(actor, authz.OrganizationCreate, authz.Object{}) {
		return missing
	}
	return postgres.InTx(ctx, s.db, "workspaces.undelete", func(tx postgres.Tx) error {
		was, err := postgres.One[tombstone](ctx, tx, queries.Get("WorkspaceBuried"), postgres.Args{"id": id})
		if postgres.NoRow(err) {
			return missing
		}
		if err != nil {
			return err
		}
		project, err := heldProject(ctx, tx, was.OrganizationID, was.ProjectID)
		if fault.Is(err, fault.NotFound) {
			project, err = defaultProject(ctx, tx, was.OrganizationID)
		}
		if err != nil {
			return err
		}
		n, err := postgres.Exec(ctx, tx, queries.Get("WorkspaceUndelete"), postgres.Args{"id": id, "project_id": project.ID})
		if violates(err, "workspaces_name") {
			return fault.New(fault.Conflict, "name_taken", "Another workspace of the organization is called %q by now. Rename it, then try again.", was.Name)
		}
		if err != nil {
			return err
		}
		if n == 0 {
			return missing // somebody else was quicker
		}
		return audit.Append(ctx, tx, audit.Entry{
			Organization: was.OrganizationID, Actor: actor, Action: "workspace.undeleted", ObjectKind: "workspace", ObjectID: string(id),
			Details: map[string]any{"project": project.ID},
		})
	})
}

// tombstone is a deleted workspace.
type tombstone struct {
	OrganizationID ids.Organization
	ProjectID      ids.Project
	Name           string
}
