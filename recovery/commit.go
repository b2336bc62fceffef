package recovery

import (
	"context"

	"github.com/holdfast-run/holdfast/audit"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/dispatch"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/fence"
	"github.com/holdfast-run/holdfast/internal/failpoint"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/runs"
	"github.com/holdfast-run/holdfast/state"
)

// commit does what was prepared, in one transaction under the lineage lock: everything
// that was true is looked at again (RC-22), uploads that are given up are discarded
// (RC-35), sessions and authority are revoked (RC-54), the fence goes to a reservation of
// the recovery with a new epoch (RC-55), an imported state becomes current (RC-56), the
// audit rows are written (RC-58), and the workspace goes to whoever waits (RC-57).
func (s *Service) commit(ctx context.Context, actor authz.Actor, prepared Operation, checked state.Checked) (op Operation, err error) {
	err = postgres.InTx(ctx, s.db, "recovery.commit", func(tx postgres.Tx) error {
		held, err := s.allowed(ctx, tx, actor, prepared.RunID)
		if err != nil {
			return err
		}
		if op, err = postgres.One[Operation](ctx, tx, Queries.Get("OperationLock"), postgres.Args{"id": prepared.ID}); err != nil {
			return err
		}
		switch {
		case op.Status == Committed && op.PrincipalID == principal(actor) && op.RequestDigest == prepared.RequestDigest:
			return nil // the same request, twice at once
		case op.Status != Prepared || op.PrincipalID != principal(actor) || op.OwnerEpoch != prepared.OwnerEpoch:
			return fenced(op)
		}
		if err := checkHeld(held.run, held.status); err != nil {
			return err
		}
		e, err := s.gather(ctx, tx, held.run, held.status)
		if err != nil {
			return err
		}
		if err := op.stillSo(e); err != nil {
			return err
		}
		op, err = s.carryOut(ctx, tx, actor, op, held, e, checked)
		return err
	})
	failpoint.Here("recovery.commit.after-commit")
	return op, err
}

// stillSo demands that the evidence is what the recovery was prepared on.
func (op Operation) stillSo(e Evidence) error {
	if err := judgeUploads(e, op.Overrides); err != nil {
		return err
	}
	if refused := resolvable(e, op.Resolution, op.EmergencySHA256); refused != nil {
		return refused
	}
	if versionID(e.Current) != op.CurrentVersionID || len(e.Emergency) != op.EmergencyCount {
		return fault.New(fault.Conflict, "evidence_mismatch", "The evidence of %s has changed since recovery %s was prepared. Read it again; give the recovery up with abandon-operation to decide anew.", op.RunID, op.ID)
	}
	return nil
}

func (s *Service) carryOut(ctx context.Context, tx postgres.Tx, actor authz.Actor, op Operation, held heldRun, e Evidence, checked state.Checked) (Operation, error) {
	for _, o := range op.Overrides {
		done, err := state.DiscardClaimed(ctx, tx, op.RunID, o.Upload, o.ClaimedAt)
		if err != nil {
			return op, err
		}
		if !done {
			return op, overrideMismatch(o, unresolved(e))
		}
	}
	if err := dispatch.RevokeAuthority(ctx, tx, op.RunID); err != nil {
		return op, err
	}
	reserved, err := fence.Reserve(ctx, tx, held.status, string(op.ID), string(op.RunID), "the recovery of "+string(op.RunID))
	if err != nil {
		return op, err
	}
	if op.Resolution.imports() {
		err := s.state.PublishRecovered(ctx, tx, state.Recovered{
			ID: op.TargetVersionID, Organization: op.OrganizationID, Token: reserved, Base: op.CurrentVersionID,
			Run: op.RunID, Attempt: e.Attempt.ID, Sandbox: e.Attempt.SandboxID, By: actor.User, Checked: checked,
		})
		if err != nil {
			return op, err
		}
	}
	if err := runs.Recover(ctx, tx, actor, held.run, op.Reason); err != nil {
		return op, err
	}
	epoch := reserved.Epoch
	if op, err = postgres.One[Operation](ctx, tx, Queries.Get("Commit"), postgres.Args{"id": op.ID, "owner_epoch": op.OwnerEpoch, "reservation_epoch": epoch}); err != nil {
		return op, err
	}
	for _, action := range []string{"run.recovered", "state.recovered"} {
		details := op.details()
		details["epoch"], details["reservation"] = epoch, map[string]any{"kind": fence.Recovery, "id": op.ID}
		err := audit.Append(ctx, tx, audit.Entry{
			Organization: op.OrganizationID, Actor: actor, Action: action, ObjectKind: "run", ObjectID: string(op.RunID), Reason: op.Reason, Details: details,
		})
		if err != nil {
			return op, err
		}
	}
	if err := fence.Release(ctx, tx, reserved); err != nil {
		return op, err
	}
	return op, runs.PromoteNext(ctx, tx, op.WorkspaceID)
}
