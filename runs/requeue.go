package runs

import (
	"context"
	"fmt"
	"slices"

	"github.com/holdfast-run/holdfast/audit"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/gates"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/workspaces"
)

// requeueable are the ends from which a run may be tried once more (OP-18).
var requeueable = []Status{PlanFailed, PlanCredentialsRequired, PolicyFailed, Canceled}

// Requeue tries an ended run once more under its id (OP-17): it goes to the back of
// the queue with the inputs it was made with (OP-21), and what it had come to is
// cleared (OP-20). Its history, attempts, policy results and decisions are kept.
// Errors: Conflict "not_requeueable" from any other end, once an apply has begun (G-04),
// for a promoted run, or when no runner has its OpenTofu version; RecoveryHeld; Invalid
// "execution_mode_local".
func (s *Service) Requeue(ctx context.Context, actor authz.Actor, id ids.Run) (d Detail, err error) {
	err = postgres.InTx(ctx, s.db, "runs.requeue", func(tx postgres.Tx) error {
		r, _, err := lockToGoOn(ctx, tx, actor, id)
		if err != nil {
			return err
		}
		if r.AutoApply { // it will be applied as its requester wished, but by whoever asks now
			if err := authz.Allow(actor, authz.RunApply, r.Object()); err != nil {
				return err
			}
		}
		if err := checkRequeue(ctx, tx, r); err != nil {
			return err
		}
		version, err := requeueVersion(ctx, tx, r)
		if err != nil {
			return err
		}
		n, err := postgres.Exec(ctx, tx, Queries.Get("RequeueClear"), postgres.Args{
			"id": id, "from_status": string(r.DurableStatus), "round": r.Round, "terraform_version": version,
		})
		if err != nil || n != 1 {
			return fmt.Errorf("requeue %s: %d rows: %w", id, n, err)
		}
		before := r
		if r, err = load(ctx, tx, id); err != nil {
			return err
		}
		if err := fixTasks(ctx, tx, r); err != nil {
			return err
		}
		if err := step(ctx, tx, &r, move{To: Queued, Actor: actor}); err != nil {
			return err
		}
		if err := s.bindPolicies(ctx, tx, &r); err != nil { // those of now: what it failed by may have been put right
			return err
		}
		err = audit.Append(ctx, tx, audit.Entry{
			Organization: r.OrganizationID, Actor: actor, Action: "run.requeued", ObjectKind: "run", ObjectID: string(id),
			Details: map[string]any{"workspace": r.WorkspaceID, "from": before.DurableStatus, "reason": before.DurableReason, "round": r.Round},
		})
		if err != nil {
			return err
		}
		if err := enter(ctx, tx, r); err != nil {
			return err
		}
		d, err = detail(ctx, tx, id)
		return err
	})
	return d, err
}

// enter lets a queued run go on: at once when it does not need the workspace, else by
// its turn.
func enter(ctx context.Context, tx postgres.Tx, r Run) error {
	if !r.waitsForWorkspace() {
		return admit(ctx, tx, r, nil)
	}
	return PromoteNext(ctx, tx, r.WorkspaceID)
}

// lockToGoOn locks the workspace and the run for something that makes work for
// runners: the actor may queue runs, no gate is closed, and the workspace lives,
// executes them and is not held for recovery.
func lockToGoOn(ctx context.Context, tx postgres.Tx, actor authz.Actor, id ids.Run) (Run, workspaces.Workspace, error) {
	r, err := load(ctx, tx, id)
	if err != nil {
		return Run{}, workspaces.Workspace{}, err
	}
	if err := authz.Allow(actor, authz.RunQueue, r.Object()); err != nil {
		return Run{}, workspaces.Workspace{}, err
	}
	denial, err := gates.Check(ctx, tx, r.OrganizationID)
	if err != nil {
		return Run{}, workspaces.Workspace{}, err
	}
	if denial.Closed() {
		return Run{}, workspaces.Workspace{}, denial.AtCreation()
	}
	r, status, err := lock(ctx, tx, id)
	if err != nil {
		return Run{}, workspaces.Workspace{}, err
	}
	w, err := workspaces.Load(ctx, tx, r.WorkspaceID) // under its lock: it may have been deleted before
	if err == nil {
		err = checkExecutable(w)
	}
	if err == nil {
		err = status.CheckRecovery()
	}
	return r, w, err
}

func checkRequeue(ctx context.Context, tx postgres.Tx, r Run) error {
	refuse := func(text string, args ...any) error {
		return fault.New(fault.Conflict, "not_requeueable", text, args...)
	}
	if !slices.Contains(requeueable, r.DurableStatus) {
		return refuse("%s is %s. Only a run that failed or was canceled before its apply can be requeued; make a new run.", r.ID, r.DurableStatus)
	}
	if r.SourceRunID != "" {
		return refuse("%s applies the plan of %s and has none of its own. Promote that plan once more.", r.ID, r.SourceRunID)
	}
	began, err := postgres.Value[bool](ctx, tx, Queries.Get("ApplyBegan"), postgres.Args{"id": r.ID})
	if err == nil && began {
		err = refuse("The apply of %s has begun, so it is never tried again. Make a new run.", r.ID)
	}
	return err
}

// requeueVersion gives the exact OpenTofu version to plan with: the one that was
// pinned. A run that failed before any runner was known has not pinned one yet.
func requeueVersion(ctx context.Context, tx postgres.Tx, r Run) (string, error) {
	wanted, err := workspaces.Load(ctx, tx, r.WorkspaceID)
	if err != nil {
		return "", err
	}
	wanted.TerraformVersion = r.TerraformVersion
	exact, unavailable, err := resolveVersion(ctx, tx, wanted)
	if err == nil && unavailable != "" {
		err = fault.New(fault.Conflict, "not_requeueable", "%s cannot be executed once more: %s Then make a new run.", r.ID, unavailable)
	}
	return exact, err
}

// detail reads a run with its history as a change leaves it.
func detail(ctx context.Context, tx postgres.Tx, id ids.Run) (Detail, error) {
	r, err := load(ctx, tx, id)
	if err != nil {
		return Detail{}, err
	}
	details, err := withHistory(ctx, tx, []Run{r})
	if err != nil {
		return Detail{}, err
	}
	return details[0], nil
}
