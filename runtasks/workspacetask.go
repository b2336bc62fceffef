package runtasks

import (
	"context"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/audit"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/workspaces"
)

// WorkspaceTask says that the runs of a workspace ask a task.
type WorkspaceTask struct {
	ID             ids.WorkspaceTask
	OrganizationID ids.Organization
	ProjectID      ids.Project // of the workspace
	WorkspaceID    ids.Workspace
	TaskID         ids.RunTask
	Enforcement    Enforcement
	Stages         []Stage
}

// WorkspaceTasks gives what the runs of a workspace ask, by whoever sees the workspace, and how many
// there are. What is asked for the whole organization is not among them.
func (s *Service) WorkspaceTasks(ctx context.Context, actor authz.Actor, workspace ids.Workspace, page accounts.Page) (list []WorkspaceTask, total int, err error) {
	err = postgres.InSnapshot(ctx, s.db, "runtasks.workspace-tasks", func(tx postgres.Tx) error {
		if _, err := workspaces.Allowed(ctx, tx, actor, authz.WorkspaceRead, workspace); err != nil {
			return err
		}
		args := postgres.Args{"workspace_id": workspace, "limit": page.Limit(), "offset": page.Offset()}
		if total, err = postgres.Value[int](ctx, tx, Queries.Get("WorkspaceTaskCount"), args); err != nil {
			return err
		}
		list, err = postgres.All[WorkspaceTask](ctx, tx, Queries.Get("WorkspaceTaskList"), args)
		return err
	})
	return list, total, err
}

// WorkspaceTask gives one of them.
func (s *Service) WorkspaceTask(ctx context.Context, actor authz.Actor, workspace ids.Workspace, id ids.WorkspaceTask) (wt WorkspaceTask, err error) {
	err = postgres.InSnapshot(ctx, s.db, "runtasks.workspace-task", func(tx postgres.Tx) error {
		wt, err = workspaceTask(ctx, tx, actor, authz.WorkspaceRead, workspace, id)
		return err
	})
	return wt, err
}

func workspaceTask(ctx context.Context, tx postgres.Tx, actor authz.Actor, action authz.Action, workspace ids.Workspace, id ids.WorkspaceTask) (WorkspaceTask, error) {
	if _, err := workspaces.Allowed(ctx, tx, actor, action, workspace); err != nil {
		return WorkspaceTask{}, err
	}
	wt, err := postgres.One[WorkspaceTask](ctx, tx, Queries.Get("WorkspaceTaskGet"), postgres.Args{"id": id, "workspace_id": workspace})
	if postgres.NoRow(err) {
		return WorkspaceTask{}, fault.Missing("workspace run task", string(id))
	}
	return wt, err
}

// Attach lets the runs of a workspace ask a task of its organization, from the next run on.
func (s *Service) Attach(ctx context.Context, actor authz.Actor, wt WorkspaceTask) (made WorkspaceTask, err error) {
	if len(wt.Stages) == 0 {
		wt.Stages = []Stage{PostPlan}
	}
	if err := wt.check(); err != nil {
		return WorkspaceTask{}, err
	}
	err = postgres.InTx(ctx, s.db, "runtasks.attach", func(tx postgres.Tx) error {
		w, err := workspaces.Allowed(ctx, tx, actor, authz.WorkspaceRunTasks, wt.WorkspaceID)
		if err != nil {
			return err
		}
		t, err := s.load(ctx, tx, wt.TaskID)
		if err == nil && t.Organization != w.Organization {
			err = fault.Missing("run task", string(wt.TaskID))
		}
		if err != nil {
			return err
		}
		wt.ID, wt.OrganizationID = ids.New[ids.WorkspaceTask](), w.Organization
		_, err = postgres.Exec(ctx, tx, Queries.Get("WorkspaceTaskInsert"), wt.args())
		if _, constraint := postgres.Violation(err); constraint == "workspace_tasks_once" {
			return accounts.Invalid("task", "The workspace asks the run task %q already", t.Name)
		}
		if err != nil {
			return err
		}
		made, err = wt, wt.record(ctx, tx, actor, "workspace-task.created")
		return err
	})
	return made, err
}

func (wt WorkspaceTask) check() error {
	if err := checkStages("stages", wt.Stages); err != nil {
		return err
	}
	return checkEnforcement("enforcement-level", wt.Enforcement)
}

func (wt WorkspaceTask) args() postgres.Args {
	return postgres.Args{
		"id": wt.ID, "organization_id": wt.OrganizationID, "workspace_id": wt.WorkspaceID, "task_id": wt.TaskID, "enforcement": string(wt.Enforcement), "stages": wt.Stages,
	}
}

func (wt WorkspaceTask) record(ctx context.Context, tx postgres.Tx, actor authz.Actor, action string) error {
	return audit.Append(ctx, tx, audit.Entry{
		Organization: wt.OrganizationID, Actor: actor, Action: action, ObjectKind: "workspace", ObjectID: string(wt.WorkspaceID),
		Details: map[string]any{"task": wt.TaskID, "enforcement": wt.Enforcement, "stages": wt.Stages},
	})
}

// UpdateWorkspaceTask changes where or how strictly a workspace asks a task, from the next run on; nil
// leaves a thing as it is.
func (s *Service) UpdateWorkspaceTask(ctx context.Context, actor authz.Actor, workspace ids.Workspace, id ids.WorkspaceTask, enforcement *Enforcement, in *[]Stage) (wt WorkspaceTask, err error) {
	err = postgres.InTx(ctx, s.db, "runtasks.update-workspace-task", func(tx postgres.Tx) error {
		if wt, err = workspaceTask(ctx, tx, actor, authz.WorkspaceRunTasks, workspace, id); err != nil {
			return err
		}
		set(&wt.Enforcement, enforcement)
		set(&wt.Stages, in)
		if len(wt.Stages) == 0 {
			return accounts.Invalid("stages", "Stages can't be empty")
		}
		if err := wt.check(); err != nil {
			return err
		}
		if _, err := postgres.Exec(ctx, tx, Queries.Get("WorkspaceTaskUpdate"), wt.args()); err != nil {
			return err
		}
		return wt.record(ctx, tx, actor, "workspace-task.updated")
	})
	return wt, err
}

// Detach lets a workspace ask a task no more, from the next run on.
func (s *Service) Detach(ctx context.Context, actor authz.Actor, workspace ids.Workspace, id ids.WorkspaceTask) error {
	return postgres.InTx(ctx, s.db, "runtasks.detach", func(tx postgres.Tx) error {
		wt, err := workspaceTask(ctx, tx, actor, authz.WorkspaceRunTasks, workspace, id)
		if err != nil {
			return err
		}
		if _, err := postgres.Exec(ctx, tx, Queries.Get("WorkspaceTaskDelete"), postgres.Args{"id": id, "workspace_id": workspace}); err != nil {
			return err
		}
		return wt.record(ctx, tx, actor, "workspace-task.deleted")
	})
}
