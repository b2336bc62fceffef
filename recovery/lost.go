package recovery

import (
	"context"
	"log/slog"

	"github.com/holdfast-run/holdfast/audit"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/fence"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/runs"
	"github.com/holdfast-run/holdfast/state"
	"github.com/holdfast-run/holdfast/workspaces"
)

// A run may hold a workspace that its own row does not tell of: a session of it was in
// use that the database did not know (fence.HoldLost). The run itself may be unknown.

// lost gives the fence that is held so, and what is known; found is false when the run
// holds none in that way. read is fence.Read or fence.Lock.
func (s *Service) lost(ctx context.Context, tx postgres.Tx, run ids.Run, read func(context.Context, postgres.Tx, ids.Workspace) (fence.Status, error)) (r Report, status fence.Status, w workspaces.Workspace, found bool, err error) {
	workspace, found, err := fence.LostBy(ctx, tx, run)
	if err != nil || !found {
		return r, status, w, false, err
	}
	if status, err = read(ctx, tx, workspace); err != nil {
		return r, status, w, false, err
	}
	if !status.RecoveryHeld || !status.HeldBy(fence.Recovery, string(run)) { // released since
		return r, status, w, false, nil
	}
	if w, err = workspaces.Load(ctx, tx, workspace); err != nil {
		return r, status, w, false, err
	}
	r = Report{Run: run, Workspace: w.OrganizationName + "/" + w.Name, Reason: "authority_lost", Message: status.Reason, Epoch: status.Epoch, HeldSince: *status.AcquiredAt}
	known, err := runs.Load(ctx, tx, run)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return r, status, w, false, err
	}
	r.Status = known.DurableStatus // empty for a run that the database does not know
	if r.Before, err = s.version(ctx, tx, known.PredecessorVersionID); err != nil {
		return r, status, w, false, err
	}
	current, err := state.CurrentID(ctx, tx, workspace)
	if err != nil {
		return r, status, w, false, err
	}
	if r.Now, err = s.version(ctx, tx, current); err != nil {
		return r, status, w, false, err
	}
	r.Publication, err = state.Publications(ctx, tx, run)
	return r, status, w, err == nil, err
}

func (s *Service) version(ctx context.Context, tx postgres.Tx, id ids.StateVersion) (*state.Version, error) {
	if id == "" {
		return nil, nil
	}
	v, err := s.state.Load(ctx, tx, id)
	return &v, err
}

// releaseLost frees a workspace that lost keeps, as Release does; found is as of lost.
func (s *Service) releaseLost(ctx context.Context, tx postgres.Tx, actor authz.Actor, run ids.Run, reason string) (r Report, found bool, err error) {
	r, status, w, found, err := s.lost(ctx, tx, run, fence.Lock)
	if err != nil || !found {
		return r, false, err
	}
	for _, action := range []authz.Action{authz.RunRecover, authz.StateRecover} {
		if err := authz.Allow(actor, action, workspaces.Object(w)); err != nil {
			return r, false, err
		}
	}
	epoch, err := fence.Revoke(ctx, tx, status)
	if err != nil {
		return r, false, err
	}
	slog.WarnContext(ctx, "a workspace held for a lost run is freed on the server's host, without proof of its state", "run", run, "workspace", w.ID, "reason", reason)
	for _, action := range []string{"state.recovered", "recovery.break-glass"} {
		err := audit.Append(ctx, tx, audit.Entry{
			Organization: w.Organization, Actor: actor, Action: action, ObjectKind: "run", ObjectID: string(run), Reason: reason,
			Details: map[string]any{
				"workspace": w.ID, "resolution": "current_state_verified", "host_local": true, "authority_lost": true, "from_status": r.Status,
				"before": versionID(r.Before), "current": versionID(r.Now), "epoch": epoch,
			},
		})
		if err != nil {
			return r, false, err
		}
	}
	return r, true, runs.PromoteNext(ctx, tx, w.ID)
}
