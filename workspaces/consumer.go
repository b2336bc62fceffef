package workspaces

import (
	"context"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// SharesState tells whether the runs of the consumer may read the current state of
// another workspace: it shares its state with all of its organization, with its project,
// or with workspaces of which the consumer is one. False for workspaces that are not there.
func SharesState(ctx context.Context, tx postgres.Tx, source, consumer ids.Workspace) (bool, error) {
	return postgres.Value[bool](ctx, tx, queries.Get("SharesState"), postgres.Args{"workspace_id": source, "consumer_id": consumer})
}

// fromOutside tells whether the actor is a run of another workspace.
func fromOutside(actor authz.Actor, id ids.Workspace) bool {
	return actor.Kind == authz.AttemptActor && actor.Workspace != id
}

// objectFor is the workspace as authz is asked about it for this actor, who may be a run
// that the workspace shares its state with.
func objectFor(ctx context.Context, tx postgres.Tx, actor authz.Actor, w Workspace) (object authz.Object, err error) {
	object = Object(w)
	if fromOutside(actor, w.ID) {
		object.SharesState, err = SharesState(ctx, tx, w.ID, actor.Workspace)
	}
	return object, err
}

// reading is how a workspace is read for this actor: a run of another one takes a second
// statement.
func reading(outside bool) func(ctx context.Context, db *postgres.DB, name string, fn func(tx postgres.Tx) error) error {
	if outside {
		return postgres.InSnapshot
	}
	return postgres.InOneStatement
}

// Consumers lists, by name, the workspaces whose runs may read this one's state and that
// the actor sees, and how many those are.
func (s *Service) Consumers(ctx context.Context, actor authz.Actor, id ids.Workspace, named bool, page Page) (list []Workspace, total int, err error) {
	err = postgres.InSnapshot(ctx, s.db, "workspaces.consumers", func(tx postgres.Tx) error {
		w, err := Allowed(ctx, tx, actor, authz.WorkspaceRead, id)
		if err != nil {
			return err
		}
		seen := authz.Where(actor, authz.WorkspaceRead, w.Organization)
		args := postgres.Args{"workspace_id": id, "named": named, "all": seen.All, "projects": seen.Projects, "visible": seen.Workspaces, "limit": page.Limit(), "offset": page.Offset()}
		if total, err = postgres.Value[int](ctx, tx, queries.Get("ConsumersCount"), args); err != nil {
			return err
		}
		rows, err := postgres.All[shownRow](ctx, tx, queries.Get("Consumers"), args)
		for _, r := range rows {
			list = append(list, r.workspace())
		}
		return err
	})
	return list, total, err
}

// AddConsumers names workspaces of the same organization whose runs may read this one's
// state. It counts as long as the state is shared neither globally nor with the project.
// NotFound for one that the actor does not see; Invalid for the workspace itself.
func (s *Service) AddConsumers(ctx context.Context, actor authz.Actor, id ids.Workspace, consumers []ids.Workspace) error {
	return s.changeConsumers(ctx, actor, id, consumers, "added", "ConsumersAdd")
}

// RemoveConsumers takes workspaces from those named. One that is not among them is no error.
func (s *Service) RemoveConsumers(ctx context.Context, actor authz.Actor, id ids.Workspace, consumers []ids.Workspace) error {
	return s.changeConsumers(ctx, actor, id, consumers, "removed", "ConsumersRemove")
}

// SetConsumers names these workspaces in place of all others.
func (s *Service) SetConsumers(ctx context.Context, actor authz.Actor, id ids.Workspace, consumers []ids.Workspace) error {
	return s.changeConsumers(ctx, actor, id, consumers, "set", "ConsumersRemoveOthers", "ConsumersAdd")
}

func (s *Service) changeConsumers(ctx context.Context, actor authz.Actor, id ids.Workspace, consumers []ids.Workspace, how string, statements ...string) error {
	return postgres.InTx(ctx, s.db, "workspaces.change-consumers", func(tx postgres.Tx) error {
		w, err := Allowed(ctx, tx, actor, authz.WorkspaceUpdate, id)
		if err != nil {
			return err
		}
		for _, consumer := range consumers {
			if consumer == id {
				return accounts.Invalid("workspaces", "A workspace reads its own state anyway")
			}
			c, err := Allowed(ctx, tx, actor, authz.WorkspaceRead, consumer)
			if err == nil && c.Organization != w.Organization {
				err = fault.Missing("workspace", string(consumer))
			}
			if err != nil {
				return err
			}
		}
		args := postgres.Args{"organization_id": w.Organization, "workspace_id": id, "consumers": append([]ids.Workspace{}, consumers...)}
		var changed int64
		for _, statement := range statements {
			n, err := postgres.Exec(ctx, tx, queries.Get(statement), args)
			if err != nil {
				return err
			}
			changed += n
		}
		if changed == 0 {
			return nil
		}
		return record(ctx, tx, actor, w, "workspace.remote-state-consumers", map[string]any{"how": how, "consumers": consumers})
	})
}
