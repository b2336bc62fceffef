package runs

import (
	"context"
	"errors"
	"log/slog"

	"github.com/holdfast-run/holdfast/audit"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/dispatch"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/fence"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/workspaces"
)

// Authenticate gives the actor a session token stands for. A token that was minted here
// for a session the database does not know is not refused like a wrong one: it holds its
// workspace, because somebody may be writing with authority that nobody remembers.
// Errors: those of dispatch.Identify; RecoveryHeld "authority_lost".
func (s *Service) Authenticate(ctx context.Context, token string) (authz.Actor, error) {
	actor, lost, err := s.dispatch.Identify(ctx, token)
	if lost != nil {
		return authz.Actor{}, s.holdLost(ctx, *lost)
	}
	return actor, err
}

// AuthenticateEnded is Authenticate for a repeated report, whose attempt may have ended.
func (s *Service) AuthenticateEnded(ctx context.Context, token string) (dispatch.Claims, error) {
	known, lost, err := s.dispatch.IdentifyEnded(ctx, token)
	if lost != nil {
		return dispatch.Claims{}, s.holdLost(ctx, *lost)
	}
	return known, err
}

// holdLost holds the workspace of a session that the database does not know, and always
// answers an error: Claims.Refusal when the workspace is held.
func (s *Service) holdLost(ctx context.Context, c dispatch.Claims) error {
	err := s.hold(ctx, c)
	if fault.Is(err, fault.NotFound) { // the workspace is deleted: there is nothing to hold
		return fault.New(fault.Unauthenticated, "session_ended", "The workspace of this attempt is gone.")
	}
	return errors.Join(err, c.Refusal())
}

// hold holds the workspace for the recovery of a run that has authority nobody remembers.
// NotFound when there is no such workspace.
func (s *Service) hold(ctx context.Context, c dispatch.Claims) error {
	const reason = "A session of a run is in use that the database does not know: it has lost what it had acknowledged."
	return postgres.InTx(ctx, s.db, "runs.hold-lost", func(tx postgres.Tx) error {
		if _, err := workspaces.Load(ctx, tx, c.Workspace); err != nil {
			return err
		}
		status, err := fence.Lock(ctx, tx, c.Workspace)
		if err != nil || status.RecoveryHeld {
			return err
		}
		if err := s.endLost(ctx, tx, c.Run, reason); err != nil {
			return err
		}
		if status, err = fence.Lock(ctx, tx, c.Workspace); err != nil {
			return err
		}
		if !status.RecoveryHeld {
			if _, err := fence.HoldLost(ctx, tx, status, c.Run, c.Epoch, reason); err != nil {
				return err
			}
		}
		slog.ErrorContext(ctx, "a session is in use that the database does not know; its workspace is held", "run", c.Run, "attempt", c.Attempt, "workspace", c.Workspace, "epoch", c.Epoch)
		return audit.Append(ctx, tx, audit.Entry{
			Organization: c.Organization, Actor: authz.System(), Action: "workspace.authority-lost", ObjectKind: "workspace", ObjectID: string(c.Workspace),
			Details: map[string]any{"run": c.Run, "attempt": c.Attempt, "phase": c.Phase, "sandbox": c.Sandbox, "epoch": c.Epoch},
		})
	})
}

// endLost ends the run that the session was for, as far as the database knows it. What
// the table lets end with the workspace held is held by the run itself.
func (s *Service) endLost(ctx context.Context, tx postgres.Tx, id ids.Run, reason string) error {
	r, _, err := lock(ctx, tx, id)
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	if err != nil || r.DurableStatus.Final() {
		return err
	}
	if r.DurableStatus != AwaitingApproval && r.DurableStatus != Applying {
		// Its end would free the workspace: what comes after holds it first.
		status, err := fence.Lock(ctx, tx, r.WorkspaceID)
		if err != nil {
			return err
		}
		if _, err := fence.HoldLost(ctx, tx, status, id, status.Epoch, reason); err != nil {
			return err
		}
	}
	if _, err := s.withdraw(ctx, tx, r); err != nil {
		return err
	}
	return s.endUncertain(ctx, tx, r, move{Actor: authz.System(), Reason: "authority_lost", Message: reason})
}
