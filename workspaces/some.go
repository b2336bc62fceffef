package workspaces

import (
	"context"

	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// Some gives those of the workspaces that live and that the actor sees, by id and with one
// statement, for showing them beside what names them.
func (s *Service) Some(ctx context.Context, actor authz.Actor, list []ids.Workspace) (found []Workspace, err error) {
	if len(list) == 0 {
		return nil, nil
	}
	err = postgres.InOneStatement(ctx, s.db, "workspaces.some", func(tx postgres.Tx) error {
		rows, err := postgres.All[shownRow](ctx, tx, queries.Get("WorkspacesSome"), postgres.Args{"ids": texts(list)})
		for _, r := range rows {
			if w := r.workspace(); authz.Can(actor, authz.WorkspaceRead, Object(w)) {
				found = append(found, w)
			}
		}
		return err
	})
	return found, err
}

// SomeProjects is Some for projects, which one also sees where one sees a workspace of them.
func (s *Service) SomeProjects(ctx context.Context, actor authz.Actor, list []ids.Project) (found []Project, err error) {
	if len(list) == 0 {
		return nil, nil
	}
	err = postgres.InSnapshot(ctx, s.db, "workspaces.some-projects", func(tx postgres.Tx) error {
		rows, err := postgres.All[Project](ctx, tx, queries.Get("ProjectsSome"), postgres.Args{"ids": texts(list)})
		if err != nil {
			return err
		}
		for _, p := range rows {
			switch err := seesProject(ctx, tx, actor, p); {
			case err == nil:
				found = append(found, p)
			case !fault.Is(err, fault.NotFound) && !fault.Is(err, fault.Forbidden):
				return err
			}
		}
		return nil
	})
	return found, err
}
