package recovery

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// A workspace may say that a failed apply is recovered without a person where nothing is in
// doubt (Evidence.Doubt). It is the very recovery that an operator would ask for, by the
// principal "policy", with the same proof and the same audit rows. This goes beyond the
// rules for operators, is off unless it is set, and production workspaces cannot set it.

// ReleaseProven recovers a run that holds its workspace, where the workspace's settings
// allow it and nothing is in doubt. done tells whether it did; whatever is in doubt stays
// held, and that is no error.
// Errors: NotFound; Unavailable while the object store is down.
func (s *Service) ReleaseProven(ctx context.Context, run ids.Run) (done bool, err error) {
	var e Evidence
	err = postgres.InSnapshot(ctx, s.db, "recovery.policy", func(tx postgres.Tx) error {
		allowed, err := postgres.Value[bool](ctx, tx, Queries.Get("PolicyAllows"), postgres.Args{"run_id": run})
		if err != nil || !allowed {
			return err
		}
		e, err = s.evidence(ctx, tx, authz.Policy(), run)
		if fault.HasCode(err, "not_held") {
			err = nil
		}
		if op := e.Operation; op != nil && op.Status == Prepared && op.PrincipalID == PolicyPrincipal {
			e.Operation = nil // it goes on
		}
		done = err == nil && e.Held && e.Doubt() == nil
		return err
	})
	if err != nil || !done {
		return false, err
	}
	// Looked at before anything is recorded: what is damaged is for a person.
	op := Operation{OrganizationID: e.Run.OrganizationID, Resolution: CurrentStateVerified}
	if e.Current != nil {
		op.TargetVersionID, op.TargetSHA256, op.TargetSize = e.Current.ID, e.Current.SHA256, e.Current.Size
	}
	if _, err = s.target(ctx, &op); err == nil {
		op, err = s.Recover(ctx, authz.Policy(), run, policyRequest(e))
	}
	if fault.Is(err, fault.Conflict) { // a person, or another server, was there first; or it is damaged
		slog.WarnContext(ctx, "a failed apply was not released by policy", "run", run, "reason", err)
		return false, nil
	}
	return err == nil && op.Status == Committed, err
}

// policyRequest depends on nothing but the evidence, so that a repeat is the same request.
func policyRequest(e Evidence) Request {
	in := Request{
		Resolution: CurrentStateVerified, Reason: fmt.Sprintf("The workspace is set to release failed applies of which nothing is in doubt (states published and proven: %d).", len(e.Publications)),
		ConfirmRevokeAuthority: true, ConfirmAdvanceFence: true,
	}
	current, checksum := versionID(e.Current), ""
	if e.Current != nil {
		checksum = e.Current.SHA256
	}
	in.Evidence.CurrentState, in.Evidence.CurrentChecksum = &current, &checksum
	return in
}

// SweepProven does ReleaseProven for every run that it is for: what was set, or became
// proven, after the run had ended, and what the server could not do then.
func (s *Service) SweepProven(ctx context.Context) error {
	var found []ids.Run
	err := postgres.InSnapshot(ctx, s.db, "recovery.sweep-proven", func(tx postgres.Tx) (err error) {
		found, err = postgres.Values[ids.Run](ctx, tx, Queries.Get("PolicyRuns"), nil)
		return err
	})
	errs := []error{err}
	for _, run := range found {
		_, err := s.ReleaseProven(ctx, run)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// AfterReport does ReleaseProven when the report of an apply has ended its run. What goes
// wrong is logged: the sweep does it later.
func (s *Service) AfterReport(ctx context.Context, attempt ids.Attempt) {
	var run ids.Run
	err := postgres.InOneStatement(ctx, s.db, "recovery.policy-run", func(tx postgres.Tx) (err error) {
		run, err = postgres.Value[ids.Run](ctx, tx, Queries.Get("PolicyRunOf"), postgres.Args{"attempt_id": attempt})
		return err
	})
	if postgres.NoRow(err) {
		return
	}
	if err == nil {
		_, err = s.ReleaseProven(ctx, run)
	}
	if err != nil {
		slog.ErrorContext(ctx, "a failed apply was not released by policy yet; the sweep tries again", "attempt", attempt, "error", err)
	}
}

// RunPolicy sweeps every interval until ctx ends.
func (s *Service) RunPolicy(ctx context.Context, interval time.Duration) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		if err := s.SweepProven(ctx); err != nil && ctx.Err() == nil {
			slog.Error("a background task failed and is repeated", "task", "release what is proven", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
