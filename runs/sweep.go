package runs

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/clock"
	"github.com/holdfast-run/holdfast/dispatch"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

const sweepBatch = 100

// retentionInterval is how often old versions are looked for: policies count in days.
const retentionInterval = 10 * time.Minute

// Sweeper finds every deadline that has passed. Each server runs one; two of them
// do no harm, since each item is decided once more under its row's lock.
type Sweeper struct {
	runs *Service
	// steadySince is when this server's unbroken contact with the database began.
	// Silence counts only in time in which a heartbeat could have been recorded.
	steadySince time.Time
	steady      bool
	last        time.Time // when the last sweep ended, by the wall clock: the monotonic one stands still while a machine sleeps
}

// NewSweeper makes a sweeper.
func NewSweeper(s *Service) *Sweeper { return &Sweeper{runs: s} }

// Run sweeps every interval until ctx ends. Logs are folded beside it: that takes the
// object store, and a store that hangs must not keep a deadline from acting.
func (w *Sweeper) Run(ctx context.Context, interval time.Duration) {
	go repeat(ctx, interval, "fold the logs", w.runs.foldLogs)
	go repeat(ctx, retentionInterval, "give up old versions", w.runs.Retain)
	repeat(ctx, interval, "sweep", w.Sweep)
}

func repeat(ctx context.Context, interval time.Duration, what string, do func(context.Context) error) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		if err := do(ctx); err != nil && ctx.Err() == nil {
			slog.Error("a background task failed and is repeated", "task", what, "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// Sweep acts once on every deadline that has passed. Runners are only called lost
// after two heartbeats of unbroken contact with the database (amendment 25).
func (w *Sweeper) Sweep(ctx context.Context) error {
	if err := w.runs.db.Ping(ctx); err != nil {
		w.steady = false
		return err
	}
	s, now := w.runs, clock.Now().Round(0)
	late := now.Sub(w.last) > s.settings.PlanLiveness/2 // this process stood still and recorded no heartbeats
	if !w.steady || late {
		w.steady, w.steadySince = true, clock.Now()
	}
	defer func() { w.last = clock.Now().Round(0) }()
	steps := []func(context.Context) error{s.checkPrimary, s.takeIn, s.expireAssignments, s.discardStalePlans, s.promoteWaiting, s.prepareWaiting, s.startTriggered, s.startDestroys, s.startAssessments, s.expireTasks, s.expireApprovals, s.cancelOverlong}
	if clock.Since(w.steadySince) >= 2*s.settings.Heartbeat {
		steps = append(steps, s.ReapSilent)
	}
	var errs []error
	for _, one := range steps {
		if err := one(ctx); err != nil {
			errs = append(errs, err)
		}
	}
	err := errors.Join(errs...)
	if fault.HasCode(err, "database_unavailable") {
		w.steady = false
	}
	return err
}

// each runs fn in a transaction of its own for every id that the query finds.
func each[T ~string](ctx context.Context, s *Service, name string, queries postgres.Queries, query string, args postgres.Args, fn func(tx postgres.Tx, id T) error) error {
	return eachOr(ctx, s, name, queries, query, args, fn, func(T, error) error { return nil })
}

// eachWaiting is each for runs that wait for a decision, or have it and wait for their apply: where one
// could not be looked after, its arbitration is asked for.
func eachWaiting(ctx context.Context, s *Service, name, query string, fn func(tx postgres.Tx, id ids.Run) error) error {
	return eachOr(ctx, s, name, Queries, query, postgres.Args{}, fn, func(id ids.Run, cause error) error { return s.waitFailed(ctx, id, cause) })
}

// eachOr is each with something to do about an id whose transaction has failed.
func eachOr[T ~string](ctx context.Context, s *Service, name string, queries postgres.Queries, query string, args postgres.Args, fn func(tx postgres.Tx, id T) error, failed func(T, error) error) error {
	var found []T
	args["limit"] = sweepBatch
	err := postgres.InSnapshot(ctx, s.db, name, func(tx postgres.Tx) (err error) {
		found, err = postgres.Values[T](ctx, tx, queries.Get(query), args)
		return err
	})
	var errs []error
	for _, id := range found {
		if e := postgres.InTx(ctx, s.db, name, func(tx postgres.Tx) error { return fn(tx, id) }); e != nil {
			errs = append(errs, e, failed(id, e))
		}
	}
	return errors.Join(append(errs, err)...)
}

// expireAssignments offers again what was offered and never accepted (RP-10): the runner may
// have been cut off before it heard of it, and no credential exists yet. A run that
// several runners in turn have left lying fails (G-46, decision 12).
func (s *Service) expireAssignments(ctx context.Context) error {
	return each(ctx, s, "runs.expire-assignments", dispatch.Queries, "ExpiredAssignments", postgres.Args{}, func(tx postgres.Tx, id ids.Attempt) error {
		a, r, err := lockAttempt(ctx, tx, id)
		if err != nil || a.Status != dispatch.Assigned {
			return err
		}
		open, err := postgres.Value[bool](ctx, tx, dispatch.Queries.Get("AssignmentOpen"), postgres.Args{"id": id})
		if err != nil || open {
			return err
		}
		if again, err := dispatch.OfferAgain(ctx, tx, id); err != nil || again {
			return err
		}
		return s.lose(ctx, tx, a, r, "Several runners took the run, one after the other, and none began it.")
	})
}

// ReapSilent ends the attempts whose runner has not been heard of for too long
// (RP-12). An apply whose authority was redeemed keeps its fence (G-06). Before that,
// silence alone is not enough: nobody may have been able to reach the servers. The
// attempt must be missed, too, that is, be silent while others of its group are heard,
// for half the liveness; or be silent for longer than an outage may last (decision 12).
func (s *Service) ReapSilent(ctx context.Context) error {
	if err := s.noteMissed(ctx); err != nil {
		return err
	}
	return each(ctx, s, "runs.reap-silent", dispatch.Queries, "Silent", s.silences(), func(tx postgres.Tx, id ids.Attempt) error {
		a, r, err := lockAttempt(ctx, tx, id)
		if err != nil {
			return err
		}
		still := s.silences()
		still["id"] = id
		silent, err := postgres.Value[bool](ctx, tx, dispatch.Queries.Get("StillSilent"), still)
		if err != nil || !silent {
			return err
		}
		return s.lose(ctx, tx, a, r, "The runner was lost: nothing was heard of it for too long.")
	})
}

func (s *Service) noteMissed(ctx context.Context) error {
	quiet := func() postgres.Args { return postgres.Args{"quiet_seconds": s.quiet().Seconds()} }
	return each(ctx, s, "runs.note-missed", dispatch.Queries, "Missing", quiet(), func(tx postgres.Tx, id ids.Attempt) error {
		args := quiet()
		args["id"] = id
		_, err := postgres.Exec(ctx, tx, dispatch.Queries.Get("NoteMissed"), args)
		return err
	})
}

// quiet is how long an attempt must be silent beside others that are heard.
func (s *Service) quiet() time.Duration { return s.settings.PlanLiveness / 2 }

func (s *Service) silences() postgres.Args {
	return postgres.Args{
		"plan_seconds": s.settings.PlanLiveness.Seconds(), "apply_seconds": s.settings.ApplyLiveness.Seconds(),
		"outage_seconds": s.settings.OutageAllowance.Seconds(), "quiet_seconds": s.quiet().Seconds(),
	}
}

// lose ends an attempt that nobody will report about, and its run with it.
func (s *Service) lose(ctx context.Context, tx postgres.Tx, a dispatch.Attempt, r Run, message string) error {
	if err := dispatch.Finish(ctx, tx, a, dispatch.End{Status: dispatch.Lost, Outcome: "runner_lost"}); err != nil {
		return err
	}
	m := move{Actor: authz.System(), Reason: "runner_lost", Message: message}
	switch r.DurableStatus {
	case Queued, Planning:
		m.To = PlanFailed
		if r.CancelRequestedAt != nil {
			m.To = Canceled
		}
	case AwaitingApproval, Applying:
		announced, err := announcements(ctx, tx, a)
		if err != nil {
			return err
		}
		switch {
		case r.DurableStatus == Applying && announced > 0:
			m.To = NeedsRecovery
		case r.DurableStatus == Applying:
			m.To = ApplyStartUncertain
		case announced > 0:
			m.To, m.Hold, m.Message = ApplyFailed, true, message+" It has sent state without authority to apply."
		case r.CancelRequestedAt != nil:
			m.To = Canceled
		default:
			m.To, m.Message = ApplyFailed, message+" The apply had not started."
		}
	default:
		return nil // the run has ended already
	}
	return step(ctx, tx, &r, m)
}

// discardStalePlans ends the saved plans that can never be applied, because the state
// they were made from has moved.
func (s *Service) discardStalePlans(ctx context.Context) error {
	return eachWaiting(ctx, s, "runs.discard-stale-plans", "StaleSavedPlans", func(tx postgres.Tx, id ids.Run) error {
		r, _, err := lock(ctx, tx, id)
		if err != nil || r.DurableStatus != AwaitingApproval || r.ConfirmedAt != nil {
			return err
		}
		_, err = discardStale(ctx, tx, &r)
		return err
	})
}

// promoteWaiting finds a free workspace with a waiting run. There is none unless a
// path forgot to promote, which would be a defect: it is logged.
func (s *Service) promoteWaiting(ctx context.Context) error {
	return each(ctx, s, "runs.promote-waiting", Queries, "WaitingWorkspaces", postgres.Args{}, func(tx postgres.Tx, workspace ids.Workspace) error {
		slog.Warn("a free workspace had a waiting run; it is promoted by the sweep", "workspace", workspace)
		return PromoteNext(ctx, tx, workspace)
	})
}

func (s *Service) foldLogs(ctx context.Context) error {
	_, err := s.dispatch.Fold(ctx, sweepBatch)
	return err
}
