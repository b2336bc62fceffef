package runs

import (
	"context"

	"github.com/holdfast-run/holdfast/audit"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/fence"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/state"
	"github.com/holdfast-run/holdfast/workspaces"
)

// Lock gives the workspace to the user. For the attempt of the run that holds it,
// which tofu lets lock once more, it changes nothing (NC-24).
// Errors: Locked "workspace_locked"; RecoveryHeld.
func (s *Service) Lock(ctx context.Context, actor authz.Actor, workspace ids.Workspace, reason string) (w workspaces.Workspace, err error) {
	return s.onFence(ctx, "runs.lock", actor, authz.WorkspaceLock, workspace, func(tx postgres.Tx, w workspaces.Workspace, status fence.Status) error {
		if actor.Kind == authz.AttemptActor {
			return holdsAsAttempt(actor, status)
		}
		if _, err := fence.Acquire(ctx, tx, workspace, fence.HolderOf(actor), reason); err != nil {
			return err
		}
		return auditWorkspace(ctx, tx, actor, w, "workspace.locked", reason)
	})
}

func holdsAsAttempt(actor authz.Actor, status fence.Status) error {
	if status.HeldBy(fence.Run, string(actor.Run)) && status.Epoch == actor.Epoch {
		return nil
	}
	return fault.New(fault.Locked, "workspace_locked", "This run no longer holds the workspace, which %s.", status.Describe())
}

// Unlock gives the workspace back and promotes the next run. For an attempt it
// changes nothing: only the run's result frees its fence (ST-08, G-22).
// Errors: Conflict "workspace_unlocked"; Locked when somebody else holds it, in the
// words clients look for; Conflict "state_pending" while an upload is unfinished.
func (s *Service) Unlock(ctx context.Context, actor authz.Actor, workspace ids.Workspace) (w workspaces.Workspace, err error) {
	return s.onFence(ctx, "runs.unlock", actor, authz.WorkspaceLock, workspace, func(tx postgres.Tx, w workspaces.Workspace, status fence.Status) error {
		if actor.Kind == authz.AttemptActor {
			return nil
		}
		if !status.Held() {
			return notLocked(w)
		}
		if !status.HeldByActor(actor) {
			return fault.New(fault.Locked, "workspace_locked", "Workspace %q %s, and only the holder can unlock it. %s", w.Name, status.Describe(), wayOut(status))
		}
		open, err := state.OpenUploads(ctx, tx, workspace, status.Epoch)
		if err != nil {
			return err
		}
		if open > 0 {
			return fault.New(fault.Conflict, "state_pending", "The latest state version is still pending: an upload was begun and has not finished. Repeat the upload, or force-unlock to give it up.")
		}
		if err := fence.Release(ctx, tx, status.Token()); err != nil {
			return err
		}
		if err := auditWorkspace(ctx, tx, actor, w, "workspace.unlocked", ""); err != nil {
			return err
		}
		return PromoteNext(ctx, tx, workspace)
	})
}

func notLocked(w workspaces.Workspace) error {
	return fault.New(fault.Conflict, "workspace_unlocked", "Workspace %q is not locked.", w.Name)
}

func wayOut(status fence.Status) string {
	switch {
	case status.RecoveryHeld:
		return status.CheckRecovery().Error()
	case status.Holder.Kind == fence.Run:
		return "Cancel that run, or wait for its end."
	default:
		return "An owner of the organization can force-unlock it."
	}
}

// ForceUnlock takes a user's lock away and advances the epoch: what the old holder
// still uploads will be refused. A run's fence is not taken: the run is canceled or
// recovered instead (G-22).
func (s *Service) ForceUnlock(ctx context.Context, actor authz.Actor, workspace ids.Workspace) (w workspaces.Workspace, err error) {
	return s.onFence(ctx, "runs.force-unlock", actor, authz.WorkspaceForceUnlock, workspace, func(tx postgres.Tx, w workspaces.Workspace, status fence.Status) error {
		if !status.Held() {
			return notLocked(w)
		}
		if err := status.CheckRecovery(); err != nil {
			return err
		}
		if status.Holder.Kind != fence.User && status.Holder.Kind != fence.Team {
			return fault.New(fault.Locked, "workspace_locked", "Workspace %q %s. %s", w.Name, status.Describe(), wayOut(status))
		}
		if _, err := fence.Revoke(ctx, tx, status); err != nil {
			return err
		}
		if err := auditWorkspace(ctx, tx, actor, w, "workspace.force-unlocked", ""); err != nil {
			return err
		}
		return PromoteNext(ctx, tx, workspace)
	})
}

// onFence runs fn under the workspace's fence row and gives the workspace as it is
// afterwards.
func (s *Service) onFence(ctx context.Context, name string, actor authz.Actor, action authz.Action, workspace ids.Workspace,
	fn func(tx postgres.Tx, w workspaces.Workspace, status fence.Status) error,
) (w workspaces.Workspace, err error) {
	err = postgres.InTx(ctx, s.db, name, func(tx postgres.Tx) error {
		if w, err = workspaces.Allowed(ctx, tx, actor, action, workspace); err != nil {
			return err
		}
		status, err := fence.Lock(ctx, tx, workspace)
		if err != nil {
			return err
		}
		if err := fn(tx, w, status); err != nil {
			return err
		}
		w, err = workspaces.Load(ctx, tx, workspace)
		return err
	})
	return w, err
}

// DeleteWorkspace makes a tombstone of the workspace: its name is free again, its
// waiting runs are canceled, its epoch grows; state, evidence and audit stay (ST-23).
// With safe, a workspace that is locked or manages resources is refused.
// Errors: RecoveryHeld "workspace_applying" while a run applies and
// "workspace_recovery_pending" while one is held, except without safe for a site admin with
// a recent step-up; Conflict
// "workspace_locked", "workspace_not_empty".
func (s *Service) DeleteWorkspace(ctx context.Context, actor authz.Actor, workspace ids.Workspace, safe bool) error {
	return postgres.InTx(ctx, s.db, "runs.delete-workspace", func(tx postgres.Tx) error {
		return s.deleteWorkspace(ctx, tx, actor, workspace, safe)
	})
}

func (s *Service) deleteWorkspace(ctx context.Context, tx postgres.Tx, actor authz.Actor, workspace ids.Workspace, safe bool) error {
	w, err := workspaces.Allowed(ctx, tx, actor, authz.WorkspaceDelete, workspace)
	if err != nil {
		return err
	}
	status, err := fence.Lock(ctx, tx, workspace)
	if err != nil {
		return err
	}
	run, refused, err := obstacle(ctx, tx, status)
	if err != nil {
		return err
	}
	if refused != nil {
		if err := s.pastHold(ctx, tx, actor, safe, refused); err != nil {
			return err
		}
		if err := endPastHold(ctx, tx, actor, w, run, refused.Code); err != nil {
			return err
		}
	}
	if safe {
		if err := s.checkEmpty(ctx, tx, w, status); err != nil {
			return err
		}
	}
	if err := s.endRuns(ctx, tx, actor, workspace, ""); err != nil {
		return err
	}
	if status, err = fence.Lock(ctx, tx, workspace); err != nil {
		return err
	}
	if _, err := fence.Revoke(ctx, tx, status); err != nil {
		return err
	}
	return workspaces.Tombstone(ctx, tx, actor, workspace)
}

// checkEmpty counts only managed resources: data sources are nothing to lose (case 40).
func (s *Service) checkEmpty(ctx context.Context, tx postgres.Tx, w workspaces.Workspace, status fence.Status) error {
	if status.Held() {
		return fault.New(fault.Conflict, "workspace_locked", "Workspace %q is locked, so it cannot be safely deleted: it %s.", w.Name, status.Describe())
	}
	return s.checkUnmanaged(ctx, tx, w)
}

// checkUnmanaged refuses, with Conflict "workspace_not_empty", while the current state
// may still stand for something that exists.
func (s *Service) checkUnmanaged(ctx context.Context, tx postgres.Tx, w workspaces.Workspace) error {
	current, err := state.CurrentID(ctx, tx, w.ID)
	if err != nil || current == "" {
		return err
	}
	v, err := s.state.Load(ctx, tx, current)
	if err != nil {
		return err
	}
	managed := 0
	for _, r := range v.Resources {
		if r.Mode == "managed" {
			managed += r.Instances
		}
	}
	if v.ClientEncrypted {
		return fault.New(fault.Conflict, "workspace_not_empty", "Workspace %q cannot be safely deleted because its state is encrypted by the client, so the server cannot tell whether it is still managing resources. Destroy what there is, then delete it with force.", w.Name)
	}
	if managed == 0 && len(v.Resources) < v.ResourceCount { // too many to be listed
		managed = v.ResourceCount
	}
	if managed > 0 {
		return fault.New(fault.Conflict, "workspace_not_empty", "Workspace %q cannot be safely deleted because it is still managing resources (%d known). Destroy them first, or delete it with force.", w.Name, managed)
	}
	return nil
}

// endRuns cancels the runs, none of which applies, newest first, so that ending one
// does not promote another. The run named by except goes on.
func (s *Service) endRuns(ctx context.Context, tx postgres.Tx, actor authz.Actor, workspace ids.Workspace, except ids.Run) error {
	list, err := postgres.Values[ids.Run](ctx, tx, Queries.Get("Unfinished"), postgres.Args{"workspace_id": workspace})
	if err != nil {
		return err
	}
	for i := len(list) - 1; i >= 0; i-- {
		if list[i] == except {
			continue
		}
		r, _, err := lock(ctx, tx, list[i])
		if err != nil {
			return err
		}
		if _, err := s.withdraw(ctx, tx, r); err != nil {
			return err
		}
		if err := step(ctx, tx, &r, move{To: Canceled, Actor: actor, Reason: "workspace_deleted", Message: "The workspace was deleted."}); err != nil {
			return err
		}
	}
	return nil
}

func auditWorkspace(ctx context.Context, tx postgres.Tx, actor authz.Actor, w workspaces.Workspace, action, reason string) error {
	return audit.Append(ctx, tx, audit.Entry{
		Organization: w.Organization, Actor: actor, Action: action, ObjectKind: "workspace", ObjectID: string(w.ID), Reason: reason,
		Details: map[string]any{"epoch": w.Fence.Epoch},
	})
}
