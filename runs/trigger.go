package runs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/audit"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/workspaces"
)

// Trigger starts a run of a workspace when an apply of another one, its source, has ended
// well.
type Trigger struct {
	ID            ids.RunTrigger
	Organization  ids.Organization
	Project       ids.Project // of the workspace
	Workspace     ids.Workspace
	WorkspaceName string
	Source        ids.Workspace
	SourceName    string
	CreatedBy     ids.User // whose right to queue runs it uses
	CreatedAt     time.Time
}

const maxSources = 20 // of one workspace

// SourceOfTriggers and SourceOfSchedules are the sources of runs that nobody asked for.
const (
	SourceOfTriggers  = "tfe-run-trigger"
	SourceOfSchedules = "holdfast-schedule"
)

// Triggers gives those that start runs of the workspace, or with outbound those that its
// own applies serve in workspaces that the actor sees; the newest first, and how many there are.
func (s *Service) Triggers(ctx context.Context, actor authz.Actor, workspace ids.Workspace, outbound bool, limit, offset int) (list []Trigger, total int, err error) {
	err = postgres.InSnapshot(ctx, s.db, "runs.triggers", func(tx postgres.Tx) error {
		w, err := workspaces.Allowed(ctx, tx, actor, authz.WorkspaceRead, workspace)
		if err != nil {
			return err
		}
		seen := authz.Where(actor, authz.WorkspaceRead, w.Organization)
		args := postgres.Args{
			"workspace_id": workspace, "outbound": outbound, "all": seen.All || !outbound, "projects": seen.Projects, "visible": seen.Workspaces, "limit": limit, "offset": offset,
		}
		if list, err = postgres.All[Trigger](ctx, tx, Queries.Get("Triggers"), args); err != nil {
			return err
		}
		total, err = postgres.Value[int](ctx, tx, Queries.Get("TriggersCount"), args)
		return err
	})
	return list, total, err
}

// Trigger gives one.
func (s *Service) Trigger(ctx context.Context, actor authz.Actor, id ids.RunTrigger) (t Trigger, err error) {
	err = postgres.InSnapshot(ctx, s.db, "runs.trigger", func(tx postgres.Tx) error {
		t, err = allowedTrigger(ctx, tx, actor, authz.WorkspaceRead, id)
		return err
	})
	return t, err
}

func allowedTrigger(ctx context.Context, tx postgres.Tx, actor authz.Actor, action authz.Action, id ids.RunTrigger) (Trigger, error) {
	t, err := postgres.One[Trigger](ctx, tx, Queries.Get("TriggerByID"), postgres.Args{"id": id})
	if postgres.NoRow(err) {
		return Trigger{}, fault.Missing("run trigger", string(id))
	}
	if err != nil {
		return Trigger{}, err
	}
	if err := authz.Allow(actor, action, authz.Object{Organization: t.Organization, Project: t.Project, Workspace: t.Workspace, Noun: "run trigger", Name: string(id)}); err != nil {
		return Trigger{}, err
	}
	return t, nil
}

// CreateTrigger lets applies of source start runs of workspace. For those who may change
// the workspace and see the runs of the source, in the same organization. The workspace
// itself, a source that is there already and too many of them are Invalid.
func (s *Service) CreateTrigger(ctx context.Context, actor authz.Actor, workspace, source ids.Workspace) (t Trigger, err error) {
	invalid := func(text string, args ...any) error {
		return fault.New(fault.Invalid, "invalid_attribute", text, args...).At("/data/relationships/sourceable")
	}
	err = postgres.InTx(ctx, s.db, "runs.create-trigger", func(tx postgres.Tx) error {
		w, err := workspaces.Allowed(ctx, tx, actor, authz.WorkspaceUpdate, workspace)
		if err != nil {
			return err
		}
		if workspace == source {
			return invalid("Sourceable cannot be the workspace itself")
		}
		from, err := workspaces.Allowed(ctx, tx, actor, authz.RunRead, source)
		if err == nil && from.Organization != w.Organization {
			err = fault.Missing("workspace", string(source))
		}
		if err != nil {
			return err
		}
		had, err := postgres.Value[int](ctx, tx, Queries.Get("TriggersCount"), postgres.Args{
			"workspace_id": workspace, "outbound": false, "all": true, "projects": []ids.Project{}, "visible": []ids.Workspace{},
		})
		if err != nil {
			return err
		}
		if had >= maxSources {
			return invalid("A workspace can have at most %d sources", maxSources)
		}
		id := ids.New[ids.RunTrigger]()
		n, err := postgres.Exec(ctx, tx, Queries.Get("TriggerInsert"), postgres.Args{
			"id": id, "organization_id": w.Organization, "workspace_id": workspace, "source_id": source, "created_by": actor.User,
		})
		if err != nil {
			return err
		}
		if n == 0 {
			return invalid("Sourceable has already been taken")
		}
		if t, err = postgres.One[Trigger](ctx, tx, Queries.Get("TriggerByID"), postgres.Args{"id": id}); err != nil {
			return err
		}
		return auditTrigger(ctx, tx, actor, t, "run-trigger.created")
	})
	return t, err
}

// DeleteTrigger ends a trigger. Runs that it has started go on.
func (s *Service) DeleteTrigger(ctx context.Context, actor authz.Actor, id ids.RunTrigger) error {
	return postgres.InTx(ctx, s.db, "runs.delete-trigger", func(tx postgres.Tx) error {
		t, err := allowedTrigger(ctx, tx, actor, authz.WorkspaceUpdate, id)
		if err != nil {
			return err
		}
		n, err := postgres.Exec(ctx, tx, Queries.Get("TriggerDelete"), postgres.Args{"id": id})
		if err == nil && n == 0 {
			err = fault.Missing("run trigger", string(id))
		}
		if err != nil {
			return err
		}
		return auditTrigger(ctx, tx, actor, t, "run-trigger.deleted")
	})
}

func auditTrigger(ctx context.Context, tx postgres.Tx, actor authz.Actor, t Trigger, action string) error {
	return audit.Append(ctx, tx, audit.Entry{
		Organization: t.Organization, Actor: actor, Action: action, ObjectKind: "workspace", ObjectID: string(t.Workspace),
		Details: map[string]any{"source": t.Source, "trigger": t.ID},
	})
}

// noteApplied writes down which triggers an apply that ended well is to serve, in the
// transaction that ends it. The sweep starts the runs, each in a transaction of its own:
// what keeps another workspace from a run must not touch the end of this one.
func noteApplied(ctx context.Context, tx postgres.Tx, r Run) error {
	_, err := postgres.Exec(ctx, tx, Queries.Get("TriggersNote"), postgres.Args{"run_id": r.ID, "workspace_id": r.WorkspaceID, "organization_id": r.OrganizationID})
	return err
}

// startTriggered starts the runs that applies have asked for.
func (s *Service) startTriggered(ctx context.Context) error {
	type due struct {
		SourceRunID ids.Run
		TriggerID   ids.RunTrigger
	}
	var list []due
	err := postgres.InSnapshot(ctx, s.db, "runs.triggered", func(tx postgres.Tx) (err error) {
		list, err = postgres.All[due](ctx, tx, Queries.Get("TriggeredDue"), postgres.Args{"limit": sweepBatch})
		return err
	})
	if err != nil {
		return err
	}
	var errs []error
	for _, d := range list {
		err := postgres.InTx(ctx, s.db, "runs.start-triggered", func(tx postgres.Tx) error {
			n, err := postgres.Exec(ctx, tx, Queries.Get("TriggeredTake"), postgres.Args{"run_id": d.SourceRunID, "trigger_id": d.TriggerID})
			if err != nil || n == 0 {
				return err // another server was there first, or the trigger is gone
			}
			return s.startFor(ctx, tx, d.SourceRunID, d.TriggerID)
		})
		errs = append(errs, unlessClosed(err))
	}
	return errors.Join(errs...)
}

// startFor starts the run of one trigger. What refuses the run is written down and ends the matter.
func (s *Service) startFor(ctx context.Context, tx postgres.Tx, source ids.Run, id ids.RunTrigger) error {
	t, err := postgres.One[Trigger](ctx, tx, Queries.Get("TriggerByID"), postgres.Args{"id": id})
	if postgres.NoRow(err) {
		return nil
	}
	if err != nil {
		return err
	}
	w, err := workspaces.LoadShown(ctx, tx, t.Workspace)
	if err != nil || (!w.QueueAllRuns && w.Shown.RunsCount == 0) { // the first run is a person's
		return ignoreMissing(err)
	}
	auto := w.AutoApplyRunTrigger
	return s.startUnasked(ctx, tx, t.CreatedBy, NewRun{
		Workspace: t.Workspace, Source: SourceOfTriggers, AutoApply: &auto,
		Message: fmt.Sprintf("Started by the apply of %s in workspace %s", source, t.SourceName),
	})
}

func ignoreMissing(err error) error {
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	return err
}

// startUnasked makes a run that nobody asks for now, with the rights that user has now.
// A refusal is written down and is no error.
func (s *Service) startUnasked(ctx context.Context, tx postgres.Tx, user ids.User, n NewRun) error {
	actor, err := accounts.ActorOf(ctx, tx, user)
	if err == nil {
		_, _, err = s.createIn(ctx, tx, actor, n)
	}
	switch fault.KindOf(err) {
	case fault.Invalid, fault.Conflict, fault.Locked, fault.RecoveryHeld, fault.Forbidden, fault.NotFound, fault.TooLarge, fault.Exhausted:
		slog.WarnContext(ctx, "a run that nobody asked for was refused", "workspace", n.Workspace, "source", n.Source, "error", err)
		w, loadErr := workspaces.Load(ctx, tx, n.Workspace)
		if loadErr != nil {
			return ignoreMissing(loadErr)
		}
		return audit.Append(ctx, tx, audit.Entry{
			Organization: w.Organization, Actor: authz.System(), Action: "run.not-started", ObjectKind: "workspace", ObjectID: string(w.ID), Reason: err.Error(),
			Details: map[string]any{"source": n.Source},
		})
	}
	return err
}
