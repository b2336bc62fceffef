package recovery

import (
	"context"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/runs"
	"github.com/holdfast-run/holdfast/workspaces"
)

// Held is a workspace that waits for a recovery.
type Held struct {
	Workspace   workspaces.Workspace
	Run         runs.Run  // with its id only, where the database has lost the run
	Evidence    *Evidence // without the log; nil for who may see the run and not recover it
	MayRecover  bool      // the actor has both rights
	WaitingRuns int       // that get the workspace afterwards
}

type heldRow struct {
	ProjectID   ids.Project
	WorkspaceID ids.Workspace
	RunID       ids.Run
	Waiting     int
}

// List gives the workspaces of an organization that wait for a recovery, by name, as far
// as the actor may see the runs that hold them, and how many they are.
func (s *Service) List(ctx context.Context, actor authz.Actor, organization string, page accounts.Page) (list []Held, total int, err error) {
	err = postgres.InSnapshot(ctx, s.db, "recovery.list", func(tx postgres.Tx) error {
		org, err := accounts.AllowedOrganization(ctx, tx, actor, authz.OrganizationRead, organization)
		if err != nil {
			return err
		}
		rows, err := postgres.All[heldRow](ctx, tx, Queries.Get("HeldOf"), postgres.Args{"organization_id": org.ID})
		if err != nil {
			return err
		}
		for _, row := range rows {
			object := authz.Object{Organization: org.ID, Project: row.ProjectID, Workspace: row.WorkspaceID, Noun: "workspace", Name: string(row.WorkspaceID)}
			if !authz.Can(actor, authz.WorkspaceRead, object) || !authz.Can(actor, authz.RunRead, object) {
				continue
			}
			total++
			if int64(total) <= page.Offset() || int64(len(list)) == page.Limit() {
				continue
			}
			held, err := s.heldBy(ctx, tx, actor, row)
			if err != nil {
				return err
			}
			list = append(list, held)
		}
		return nil
	})
	return list, total, err
}

func (s *Service) heldBy(ctx context.Context, tx postgres.Tx, actor authz.Actor, row heldRow) (h Held, err error) {
	h.WaitingRuns = row.Waiting
	if h.Workspace, err = workspaces.Load(ctx, tx, row.WorkspaceID); err != nil {
		return h, err
	}
	object := workspaces.Object(h.Workspace)
	if authz.Can(actor, authz.RunRecover, object) {
		e, err := s.evidence(ctx, tx, actor, row.RunID)
		if err != nil {
			return h, err
		}
		h.Evidence, h.Run, h.MayRecover = &e, e.Run, authz.Can(actor, authz.StateRecover, object)
		return h, nil
	}
	h.Run, err = runs.Load(ctx, tx, row.RunID)
	if fault.Is(err, fault.NotFound) {
		h.Run, err = runs.Run{ID: row.RunID}, nil
	}
	return h, err
}
