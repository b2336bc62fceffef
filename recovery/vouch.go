package recovery

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-run/holdfast/audit"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/dispatch"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/fence"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/runs"
	"github.com/holdfast-run/holdfast/state"
	"github.com/holdfast-run/holdfast/workspaces"
)

// A workspace that is held for a run which the database has lost (lost.go) has no
// publications that could be proved. Over the API an operator vouches for the exact state
// that is current: it is named, read to its end, and what was lost is confirmed by itself.
// Nothing is copied, so there is nothing to prepare: it is one transaction.

// lostHold is such a hold as it stands in a transaction.
type lostHold struct {
	workspace workspaces.Workspace
	status    fence.Status
	current   *state.Version // nil: there is no state
}

// lostRow is a recovery of one.
type lostRow struct {
	ID               ids.Recovery
	OrganizationID   ids.Organization
	ProjectID        ids.Project // of the workspace
	WorkspaceID      ids.Workspace
	RunID            ids.Run
	PrincipalID      ids.User
	RequestDigest    string
	Reason           string
	FromEpoch        int64
	CurrentVersionID ids.StateVersion
	CurrentSHA256    string `db:"current_sha256"`
	CurrentSize      int64
	ReservationEpoch int64
	CommittedAt      time.Time
}

func (r lostRow) operation() Operation {
	return Operation{
		ID: r.ID, OrganizationID: r.OrganizationID, WorkspaceID: r.WorkspaceID, RunID: r.RunID, Status: Committed, Resolution: CurrentStateVerified,
		PrincipalID: r.PrincipalID, OwnerEpoch: 1, LeaseExpiresAt: r.CommittedAt, RequestDigest: r.RequestDigest, Reason: r.Reason, FenceEpoch: r.FromEpoch,
		CurrentVersionID: r.CurrentVersionID, CurrentSHA256: r.CurrentSHA256, TargetVersionID: r.CurrentVersionID, TargetSHA256: r.CurrentSHA256, TargetSize: r.CurrentSize,
		Overrides: []Override{}, PreparedAt: r.CommittedAt, CommittedAt: &r.CommittedAt, ReservationEpoch: r.ReservationEpoch, AuthorityLost: true,
	}
}

// recoverLost is Recover for such a hold; found is false when the run holds none so, and no
// recovery of one answers this very request.
func (s *Service) recoverLost(ctx context.Context, actor authz.Actor, run ids.Run, in Request) (op Operation, found bool, err error) {
	var hold lostHold
	err = postgres.InTx(ctx, s.db, "recovery.open-lost", func(tx postgres.Tx) error {
		if op, found, err = lostReplay(ctx, tx, actor, run, in); err != nil || found {
			return err
		}
		hold, found, err = s.mayVouch(ctx, tx, actor, run, in)
		return err
	})
	if err != nil || !found || op.Status == Committed {
		return op, found, err
	}
	if err := s.checkCurrent(ctx, hold); err != nil {
		return op, true, err
	}
	err = postgres.InTx(ctx, s.db, "recovery.commit-lost", func(tx postgres.Tx) error {
		again, still, err := s.mayVouch(ctx, tx, actor, run, in)
		switch {
		case err != nil:
			return err
		case !still || again.status.Epoch != hold.status.Epoch: // somebody was quicker
			var done bool
			if op, done, err = lostReplay(ctx, tx, actor, run, in); err == nil && !done {
				err = fault.New(fault.Conflict, "not_held", "The workspace is not held for %s any more.", run)
			}
			return err
		}
		op, err = s.vouch(ctx, tx, actor, run, in, again)
		return err
	})
	return op, true, err
}

// lostReplay finds what this very request has done before.
func lostReplay(ctx context.Context, tx postgres.Tx, actor authz.Actor, run ids.Run, in Request) (op Operation, found bool, err error) {
	row, err := postgres.One[lostRow](ctx, tx, Queries.Get("LostReplay"), postgres.Args{"run_id": run, "principal_id": actor.User, "request_digest": in.digest()})
	if postgres.NoRow(err) {
		return op, false, nil
	}
	if err != nil {
		return op, false, fmt.Errorf("read the recovery of the lost %s: %w", run, err)
	}
	for _, action := range []authz.Action{authz.RunRecover, authz.StateRecover} {
		if err := authz.Allow(actor, action, authz.Object{Organization: row.OrganizationID, Project: row.ProjectID, Workspace: row.WorkspaceID, Noun: "run", Name: string(run)}); err != nil {
			return op, false, err
		}
	}
	return row.operation(), true, nil
}

// mayVouch locks such a hold and demands everything that a recovery of it takes.
func (s *Service) mayVouch(ctx context.Context, tx postgres.Tx, actor authz.Actor, run ids.Run, in Request) (hold lostHold, found bool, err error) {
	_, status, w, found, err := s.lost(ctx, tx, run, fence.Lock)
	if err != nil || !found {
		return hold, false, err
	}
	for _, action := range []authz.Action{authz.RunRecover, authz.StateRecover} {
		if err := authz.Allow(actor, action, workspaces.Object(w)); err != nil {
			return hold, true, err
		}
	}
	if err := s.steppedUp(ctx, tx, actor); err != nil {
		return hold, true, err
	}
	if err := in.check(); err != nil {
		return hold, true, err
	}
	current, err := state.CurrentID(ctx, tx, w.ID)
	if err != nil {
		return hold, true, err
	}
	hold = lostHold{workspace: w, status: status}
	if hold.current, err = s.row(ctx, tx, current); err != nil {
		return hold, true, err
	}
	return hold, true, in.vouches(run, hold.current)
}

// vouches demands what no evidence can give: the exact state, and that the operator knows
// what is missing.
func (r Request) vouches(run ids.Run, current *state.Version) error {
	c, checksum := r.Evidence, ""
	if current != nil {
		checksum = current.SHA256
	}
	switch {
	case r.Resolution != CurrentStateVerified || len(r.Overrides) > 0 || r.PrepareOnly:
		return fault.New(fault.Conflict, "authority_lost", "The database has lost what it knew of %s, so there is nothing to import, to give up or to prepare: only the current state can be verified, at once.", run)
	case c.CurrentState == nil || current != nil && c.CurrentChecksum == nil:
		return fault.New(fault.Invalid, "evidence_required", "Name the state that you vouch for, by current-state-version-id (null for none) and current-state-checksum: nothing else proves which it is.").
			At("/data/attributes/current-state-version-id")
	case *c.CurrentState != versionID(current) || c.CurrentChecksum != nil && *c.CurrentChecksum != checksum:
		return fault.New(fault.Conflict, "evidence_mismatch", "The current state is %q with the checksum %q now. Read the evidence again.", versionID(current), checksum)
	case !r.ConfirmAuthorityLost:
		return confirm("confirm-authority-lost", "nothing proves what this run has written, and you have compared the current state with the real infrastructure")
	case !r.ConfirmWriterNotProven:
		return confirm("confirm-writer-not-proven", "you have made sure that the writer has stopped: a session of it was in use when the workspace was held")
	}
	return nil
}

// checkCurrent reads what will stay current to its end (RC-40).
func (s *Service) checkCurrent(ctx context.Context, hold lostHold) error {
	if hold.current == nil {
		return nil
	}
	_, err := s.target(ctx, &Operation{
		OrganizationID: hold.workspace.Organization, Resolution: CurrentStateVerified,
		TargetVersionID: hold.current.ID, TargetSHA256: hold.current.SHA256, TargetSize: hold.current.Size,
	})
	return err
}

// vouch frees the workspace: what authority is left ends, the fence goes to a reservation
// of the recovery with a new epoch, the audit rows are written, and the next run gets it.
func (s *Service) vouch(ctx context.Context, tx postgres.Tx, actor authz.Actor, run ids.Run, in Request, hold lostHold) (op Operation, err error) {
	w := hold.workspace
	if err := dispatch.RevokeAuthority(ctx, tx, run); err != nil {
		return op, err
	}
	id := ids.New[ids.Recovery]()
	reserved, err := fence.Reserve(ctx, tx, hold.status, string(id), string(run), "the recovery of "+string(run))
	if err != nil {
		return op, err
	}
	args := postgres.Args{
		"id": id, "organization_id": w.Organization, "workspace_id": w.ID, "run_id": run, "principal_id": actor.User, "request_digest": in.digest(), "reason": in.Reason,
		"held_because": hold.status.Reason, "from_epoch": hold.status.Epoch, "current_version_id": versionID(hold.current), "current_sha256": "", "current_size": 0,
		"reservation_epoch": reserved.Epoch,
	}
	if hold.current != nil {
		args["current_sha256"], args["current_size"] = hold.current.SHA256, hold.current.Size
	}
	row, err := postgres.One[lostRow](ctx, tx, Queries.Get("LostInsert"), args)
	if err != nil {
		return op, err
	}
	op = row.operation()
	for _, action := range []string{"run.recovered", "state.recovered"} {
		details := op.details()
		details["authority_lost"], details["held_because"], details["epoch"] = true, hold.status.Reason, reserved.Epoch
		details["reservation"] = map[string]any{"kind": fence.Recovery, "id": op.ID}
		err := audit.Append(ctx, tx, audit.Entry{
			Organization: w.Organization, Actor: actor, Action: action, ObjectKind: "run", ObjectID: string(run), Reason: in.Reason, Details: details,
		})
		if err != nil {
			return op, err
		}
	}
	if err := fence.Release(ctx, tx, reserved); err != nil {
		return op, err
	}
	return op, runs.PromoteNext(ctx, tx, w.ID)
}

// lostEvidence is what is known where a workspace is held, or was, for a run that the
// database has lost.
func (s *Service) lostEvidence(ctx context.Context, tx postgres.Tx, actor authz.Actor, run ids.Run) (e Evidence, found bool, err error) {
	report, status, w, found, err := s.lost(ctx, tx, run, fence.Read)
	if err != nil {
		return e, false, err
	}
	if !found {
		return s.lostBefore(ctx, tx, actor, run)
	}
	if err := mayLook(actor, workspaces.Object(w)); err != nil {
		return e, true, err
	}
	if e, err = s.lostFacts(ctx, tx, run, w); err != nil {
		return e, true, err
	}
	e.Held, e.Epoch = true, status.Epoch
	e.Run.DurableReason, e.Run.StatusMessage, e.Run.FinishedAt = report.Reason, status.Reason, &report.HeldSince
	e.ImportRefused = fault.New(fault.Conflict, "authority_lost", "The database has lost what it knew of %s: only the current state can be verified.", run)
	return e, true, nil
}

// lostBefore finds the last recovery of such a hold.
func (s *Service) lostBefore(ctx context.Context, tx postgres.Tx, actor authz.Actor, run ids.Run) (e Evidence, found bool, err error) {
	row, err := postgres.One[lostRow](ctx, tx, Queries.Get("LostOfRun"), postgres.Args{"run_id": run})
	if postgres.NoRow(err) {
		return e, false, nil
	}
	if err != nil {
		return e, false, err
	}
	w, err := workspaces.Load(ctx, tx, row.WorkspaceID)
	if fault.Is(err, fault.NotFound) {
		return e, false, nil
	}
	if err != nil {
		return e, true, err
	}
	if err := mayLook(actor, workspaces.Object(w)); err != nil {
		return e, true, err
	}
	if e, err = s.lostFacts(ctx, tx, run, w); err != nil {
		return e, true, err
	}
	op := row.operation()
	e.Operation, e.Epoch, e.Run.RecoveredAt = &op, w.Fence.Epoch, op.CommittedAt
	return e, true, nil
}

func (s *Service) lostFacts(ctx context.Context, tx postgres.Tx, run ids.Run, w workspaces.Workspace) (e Evidence, err error) {
	e = Evidence{AuthorityLost: true, Writer: Writer{How: "not-proven"}}
	e.Run, err = runs.Load(ctx, tx, run)
	if fault.Is(err, fault.NotFound) {
		e.Run, err = runs.Run{ID: run, OrganizationID: w.Organization, OrganizationName: w.OrganizationName, WorkspaceID: w.ID, WorkspaceName: w.Name}, nil
	}
	if err != nil {
		return e, err
	}
	current, err := state.CurrentID(ctx, tx, w.ID)
	if err != nil {
		return e, err
	}
	if e.Current, err = s.row(ctx, tx, current); err != nil {
		return e, err
	}
	e.Before, err = s.row(ctx, tx, e.Run.PredecessorVersionID)
	return e, err
}

// mayLook demands the rights to read a run and to recover it.
func mayLook(actor authz.Actor, object authz.Object) error {
	for _, action := range []authz.Action{authz.RunRead, authz.RunRecover} {
		if err := authz.Allow(actor, action, object); err != nil {
			return err
		}
	}
	return nil
}
