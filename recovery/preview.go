package recovery

import (
	"context"

	"github.com/holdfast-run/holdfast/audit"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/dispatch"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/runs"
)

// Preview is a drift preview: what a refresh-only plan of the held workspace found.
type Preview struct {
	Run runs.Run
	Log string // the end of what tofu printed
}

// Preview starts a run that compares the current state with the real infrastructure, for who
// holds the lease of a prepared recovery. It takes no fence, waits for nobody and is never
// applied. While one is at work the answer is that one; started is false then.
// Errors: those of Recover for the rights and the step-up; Conflict "recovery_not_prepared",
// "recovery_lease_held", "recovery_lease_expired"; those of runs.Preview.
func (s *Service) Preview(ctx context.Context, actor authz.Actor, run ids.Run) (preview ids.Run, started bool, err error) {
	err = postgres.InTx(ctx, s.db, "recovery.preview", func(tx postgres.Tx) error {
		started = false
		held, err := s.allowed(ctx, tx, actor, run)
		if err != nil {
			return err
		}
		if err := s.settings.StepUp(ctx, tx, actor); err != nil {
			return err
		}
		if err := checkHeld(held.run, held.status); err != nil {
			return err
		}
		op, err := leased(ctx, tx, actor, run)
		if err != nil {
			return err
		}
		if op.PreviewRunID != "" {
			last, err := runs.Load(ctx, tx, op.PreviewRunID)
			if err != nil {
				return err
			}
			if !last.DurableStatus.Final() {
				preview = last.ID
				return nil
			}
		}
		r, err := s.runs.Preview(ctx, tx, actor, held.run)
		if err != nil {
			return err
		}
		preview, started = r.ID, true
		if _, err := postgres.One[Operation](ctx, tx, Queries.Get("Previewed"), postgres.Args{"id": op.ID, "owner_epoch": op.OwnerEpoch, "preview_run_id": r.ID}); err != nil {
			return err
		}
		return audit.Append(ctx, tx, audit.Entry{
			Organization: op.OrganizationID, Actor: actor, Action: "run.recovery_preview", ObjectKind: "run", ObjectID: string(run),
			Details: map[string]any{"workspace": op.WorkspaceID, "recovery": op.ID, "preview": r.ID, "current": op.CurrentVersionID},
		})
	})
	return preview, started, err
}

// leased gives the prepared recovery of a run whose lease the actor holds.
func leased(ctx context.Context, tx postgres.Tx, actor authz.Actor, run ids.Run) (Operation, error) {
	op, found, err := operationOf(ctx, tx, run)
	switch {
	case err != nil:
		return op, err
	case !found || op.Status != Prepared:
		return op, fault.New(fault.Conflict, "recovery_not_prepared", "No recovery of %s is prepared. Prepare yours first: its request with prepare-only: true.", run)
	case op.PrincipalID != actor.User:
		return op, fault.New(fault.Conflict, "recovery_lease_held", "%s has prepared the recovery %s, and only who holds its lease may look for drift.", op.PrincipalID, op.ID)
	case !op.LeaseLive:
		return op, fault.New(fault.Conflict, "recovery_lease_expired", "The lease of your recovery %s has expired. Repeat its request with prepare-only: true; that grants it anew.", op.ID)
	}
	return op, nil
}

// previewOf reads the last drift preview of a recovery; nil when there is none.
func (s *Service) previewOf(ctx context.Context, op *Operation) (*Preview, error) {
	if op == nil || op.PreviewRunID == "" {
		return nil, nil
	}
	var p Preview
	var attempt *dispatch.Attempt
	err := postgres.InSnapshot(ctx, s.db, "recovery.preview-of", func(tx postgres.Tx) (err error) {
		if p.Run, err = runs.Load(ctx, tx, op.PreviewRunID); err != nil {
			return err
		}
		a, found, err := dispatch.OfRun(ctx, tx, p.Run.ID, authz.Plan)
		if found {
			attempt = &a
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	p.Log, err = s.tail(ctx, attempt)
	return &p, err
}
