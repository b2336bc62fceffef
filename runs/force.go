package runs

import (
	"context"
	"fmt"

	"github.com/holdfast-run/holdfast/audit"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/dispatch"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/fence"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// ForceCanceled is the durable reason of a plan that was ended by force.
const ForceCanceled = "FORCE_CANCELED"

const forceExecuted = "FORCE_EXECUTED"

// ForceExecute gives a waiting run its turn now (amendment 10): the run that holds the
// workspace and waits for a decision is rejected, the runs waiting longer are canceled,
// and the workspace is handed over in the same transaction.
// Errors: Conflict "invalid_transition" when the run does not wait, or the holder does
// more than wait for a decision; Locked when a person holds the workspace; RecoveryHeld.
func (s *Service) ForceExecute(ctx context.Context, actor authz.Actor, id ids.Run) error {
	return postgres.InTx(ctx, s.db, "runs.force-execute", func(tx postgres.Tx) error {
		r, err := load(ctx, tx, id)
		if err != nil {
			return err
		}
		if err := authz.Allow(actor, authz.RunApply, r.Object()); err != nil {
			return err
		}
		r, status, err := lock(ctx, tx, id)
		if err != nil {
			return err
		}
		ahead, err := blocking(ctx, tx, r, status)
		if err != nil {
			return err
		}
		earlier, err := postgres.Values[ids.Run](ctx, tx, Queries.Get("WaitingBefore"), postgres.Args{"workspace_id": r.WorkspaceID, "queue_seq": r.QueueSeq})
		if err != nil {
			return err
		}
		why := fmt.Sprintf("%s was executed by force.", id)
		if err := endWaiting(ctx, tx, earlier, move{To: Canceled, Actor: actor, Reason: forceExecuted, Message: why}); err != nil {
			return err
		}
		err = audit.Append(ctx, tx, audit.Entry{
			Organization: r.OrganizationID, Actor: actor, Action: "run.force-executed", ObjectKind: "run", ObjectID: string(id),
			Details: map[string]any{"workspace": r.WorkspaceID, "instead_of": ahead.ID, "canceled": earlier},
		})
		if err != nil {
			return err
		}
		return step(ctx, tx, &ahead, move{To: Rejected, Actor: actor, Reason: forceExecuted, Message: why, Next: id})
	})
}

// blocking gives the run that stands before r in its workspace and can be put aside.
func blocking(ctx context.Context, tx postgres.Tx, r Run, status fence.Status) (Run, error) {
	refuse := func(text string, args ...any) error {
		return fault.New(fault.Conflict, "invalid_transition", text, args...)
	}
	if r.DurableStatus != Queued || r.AdmittedAt != nil {
		return Run{}, refuse("%s is %s and does not wait for its workspace.", r.ID, describe(r))
	}
	if err := status.CheckRecovery(); err != nil {
		return Run{}, err
	}
	if status.Holder.Kind != fence.Run {
		return Run{}, fault.New(fault.Locked, "workspace_locked", "Workspace %q %s. %s", r.WorkspaceName, status.Describe(), wayOut(status))
	}
	ahead, _, err := lock(ctx, tx, ids.Run(status.Holder.ID))
	if err != nil {
		return Run{}, err
	}
	if ahead.CancelRequestedAt != nil {
		return Run{}, refuse("%s is being canceled; %s gets its turn when that has ended.", ahead.ID, r.ID)
	}
	if ahead.DurableStatus != AwaitingApproval || ahead.ConfirmedAt != nil {
		return Run{}, refuse("%s is %s, so it cannot be put aside. Cancel it, or wait for its end.", ahead.ID, describe(ahead))
	}
	return ahead, nil
}

// endWaiting ends runs that hold nothing and that no runner works on, in the order given.
func endWaiting(ctx context.Context, tx postgres.Tx, list []ids.Run, m move) error {
	for _, id := range list {
		r, _, err := lock(ctx, tx, id)
		if err != nil {
			return err
		}
		if err := step(ctx, tx, &r, m); err != nil {
			return err
		}
	}
	return nil
}

// ForceCancel ends a plan whose runner does not stop: its attempt has no authority from
// now on, and the workspace is free. It takes a cancel before, and the time that the run
// names in force-cancel-available-at. An apply is never ended by force: what it has
// written must be looked at before the workspace is free (G-44). It is for those who
// administrate the workspace, as taking a lock away by force is.
// Errors: Conflict "invalid_transition" when the run is not planning, with the way out,
// and Conflict "force_cancel_unavailable" before its time.
func (s *Service) ForceCancel(ctx context.Context, actor authz.Actor, id ids.Run, comment string) error {
	return postgres.InTx(ctx, s.db, "runs.force-cancel", func(tx postgres.Tx) error {
		r, err := lockAllowed(ctx, tx, actor, authz.RunForceCancel, id)
		if err != nil {
			return err
		}
		if err := checkForceCancel(r); err != nil {
			return err
		}
		return endPlan(ctx, tx, actor, r, comment)
	})
}

// ForceCancelNow cancels a run for a site admin without the time that ForceCancel gives its
// runner: a plan is ended by force, whatever is done with it, and what no runner works on ends
// as by Cancel. An apply is never ended by force (G-44). To others than site admins it is
// NotFound.
func (s *Service) ForceCancelNow(ctx context.Context, actor authz.Actor, id ids.Run, comment string) error {
	if err := onlySiteAdmins(actor); err != nil {
		return err
	}
	return postgres.InTx(ctx, s.db, "runs.force-cancel-now", func(tx postgres.Tx) error {
		r, err := lockAllowed(ctx, tx, actor, authz.RunForceCancel, id)
		if err != nil {
			return err
		}
		switch {
		case r.DurableStatus == Planning:
			return endPlan(ctx, tx, actor, r, comment)
		case r.DurableStatus == Applying, r.DurableStatus.Final():
			return checkForceCancel(r)
		}
		return s.cancel(ctx, tx, actor, r, comment)
	})
}

// onlySiteAdmins refuses everybody else as if there were nothing.
func onlySiteAdmins(actor authz.Actor) error {
	if authz.Can(actor, authz.OrganizationCreate, authz.Object{}) {
		return nil
	}
	return fault.New(fault.NotFound, "not_found", "There is nothing at this address for you. It is for site admins.")
}

// endPlan takes all authority from the attempt that plans, and ends its run.
func endPlan(ctx context.Context, tx postgres.Tx, actor authz.Actor, r Run, comment string) error {
	a, found, err := dispatch.OfRun(ctx, tx, r.ID, authz.Plan)
	if err != nil {
		return err
	}
	if found {
		if a, err = dispatch.Lock(ctx, tx, a.ID); err == nil {
			err = dispatch.Finish(ctx, tx, a, dispatch.End{Status: dispatch.Canceled, Outcome: "force_canceled"})
		}
		if err != nil {
			return err
		}
	}
	err = audit.Append(ctx, tx, audit.Entry{
		Organization: r.OrganizationID, Actor: actor, Action: "run.force-canceled", ObjectKind: "run", ObjectID: string(r.ID), Reason: comment,
		Details: map[string]any{"workspace": r.WorkspaceID, "attempt": a.ID},
	})
	if err != nil {
		return err
	}
	return step(ctx, tx, &r, move{To: Canceled, Actor: actor, Reason: ForceCanceled, Message: join("The plan was ended by force.", comment)})
}

// ForceCancelable tells whether the run can be ended by force now.
func (r Run) ForceCancelable() bool {
	return r.DurableStatus == Planning && r.CancelRequestedAt != nil && r.ForceCancelDue
}

// checkForceCancel judges the run as it was read under its lock.
func checkForceCancel(r Run) error {
	refuse := func(code, way string, args ...any) error {
		return fault.New(fault.Conflict, code, "%s is %s and cannot be force-canceled. %s", r.ID, describe(r), fmt.Sprintf(way, args...))
	}
	switch {
	case r.DurableStatus.Final():
		return refuse("invalid_transition", "It has ended.")
	case r.DurableStatus == Applying:
		return refuse("invalid_transition", "What it has written must be looked at before the workspace is free. Cancel it; if its runner does not answer, the run is held, and an operator recovers it with: holdfast admin recover %s --apply", r.ID)
	case r.DurableStatus != Planning:
		return refuse("invalid_transition", "No runner plans it. Cancel it.")
	case r.CancelRequestedAt == nil:
		return refuse("force_cancel_unavailable", "Cancel it first, and give its runner the time to stop.")
	case !r.ForceCancelDue:
		return refuse("force_cancel_unavailable", "Its runner has until %s to stop.", r.ForceCancelAvailableAt.UTC().Format("2006-01-02 15:04:05 UTC"))
	}
	return nil
}
