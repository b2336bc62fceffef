package workspaces

import (
	"context"

	"github.com/holdfast-run/holdfast/authz"
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
		seen, asked, within := map[ids.Project]bool{}, []ids.Project{}, []ids.Workspace{}
		scopes := map[ids.Organization]authz.Scope{}
		for _, p := range rows {
			if _, known := scopes[p.Organization]; !known {
				scopes[p.Organization] = authz.Where(actor, authz.WorkspaceRead, p.Organization)
				within = append(within, scopes[p.Organization].Workspaces...)
			}
			if seen[p.ID] = scopes[p.Organization].All || authz.Can(actor, authz.ProjectRead, p.object()); !seen[p.ID] {
				asked = append(asked, p.ID)
			}
		}
		if len(asked) > 0 && len(within) > 0 {
			with, err := postgres.Values[ids.Project](ctx, tx, queries.Get("ProjectsWithSome"), postgres.Args{"ids": texts(asked), "workspaces": texts(within)})
			if err != nil {
				return err
			}
			for _, id := range with {
				seen[id] = true
			}
		}
		for _, p := range rows {
			if seen[p.ID] {
				found = append(found, p)
			}
		}
		return nil
	})
	return found, err
}
