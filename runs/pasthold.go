package runs

import (
	"context"
	"errors"

	"github.com/holdfast-run/holdfast/audit"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/dispatch"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/fence"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/workspaces"
)

// A workspace in which a run applies, or which one holds, is not deleted: what exists would
// be forgotten. A site admin may do it all the same, with a recent step-up (ST-23). Evidence
// stays: the run, its publications and its emergency state are as they were.

// obstacle is what stands against deleting a workspace: the run that applies in it, or that
// holds it. nil: nothing does.
func obstacle(ctx context.Context, tx postgres.Tx, status fence.Status) (ids.Run, *fault.Error, error) {
	var held *fault.Error
	if errors.As(status.CheckRecovery(), &held) {
		return ids.Run(status.Holder.ID), held, nil
	}
	applying, err := postgres.Value[ids.Run](ctx, tx, Queries.Get("ApplyingRun"), postgres.Args{"workspace_id": status.Workspace})
	if err != nil || applying == "" {
		return "", nil, err
	}
	return applying, fault.New(fault.RecoveryHeld, "workspace_applying", "%s is applying in this workspace. Cancel it or wait for its end, then delete the workspace.", applying), nil
}

// pastHold answers nil when the actor may delete past the obstacle, else the refusal.
func (s *Service) pastHold(ctx context.Context, tx postgres.Tx, actor authz.Actor, safe bool, refused *fault.Error) error {
	if safe || !actor.SiteAdmin || s.settings.StepUp == nil {
		return refused
	}
	if err := s.settings.StepUp(ctx, tx, actor); err != nil {
		if !fault.Is(err, fault.Forbidden) {
			return err
		}
		told := *refused
		told.Message += " A site admin may delete the workspace all the same, within a recent step-up: what the apply has made is then in no state that anybody can plan on."
		return &told
	}
	return nil
}

// endPastHold takes every authority from the run that is in the way, and the fence with it.
func endPastHold(ctx context.Context, tx postgres.Tx, actor authz.Actor, w workspaces.Workspace, run ids.Run, code string) error {
	details := map[string]any{"run": run, "obstacle": code, "epoch": w.Fence.Epoch, "current_run": w.CurrentRun}
	r, _, err := lock(ctx, tx, run)
	switch {
	case fault.Is(err, fault.NotFound): // the database has lost it
	case err != nil:
		return err
	default:
		if r.DurableStatus == Applying {
			if err := step(ctx, tx, &r, move{To: NeedsRecovery, Actor: actor, Reason: "workspace_deleted", Message: "The workspace was deleted by a site admin while the run applied."}); err != nil {
				return err
			}
		}
		if _, err := postgres.Exec(ctx, tx, Queries.Get("FenceReleased"), postgres.Args{"id": run}); err != nil {
			return err
		}
		details["status"] = r.DurableStatus
	}
	if err := dispatch.RevokeAuthority(ctx, tx, run); err != nil {
		return err
	}
	return audit.Append(ctx, tx, audit.Entry{
		Organization: w.Organization, Actor: actor, Action: "workspace.deleted-past-hold", ObjectKind: "workspace", ObjectID: string(w.ID), Details: details,
	})
}
