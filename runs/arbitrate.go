package runs

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// The wait for a decision is the sweep's: it looks after every run that waits. When a wait ends without
// a decision, by the deadline or because looking after the run failed, the database arbitrates (AP-02): the request
// is committed first, and then decided under the run's lock, by whichever server comes to it.

// WaitOutcome is what an arbitration came to.
type WaitOutcome string

// The outcomes.
const (
	WaitDecided WaitOutcome = "decided" // a decision had committed before the deadline, and stands (AP-03)
	WaitPending WaitOutcome = "pending" // the deadline has not come: nothing changes (AP-04)
	WaitExpired WaitOutcome = "expired" // it has, and the run has ended (AP-05)
)

// deadlinePassed is why most waits end.
const deadlinePassed = "the deadline has passed"

const maxWaitError = 500

// Arbitration is one, as a review shows it. WaitError stays what it was, also where the wait goes on: a
// failure is never called an expiry (AP-09).
type Arbitration struct {
	WaitError    string
	RequestedAt  time.Time
	Outcome      WaitOutcome // empty: it is still to be decided
	ArbitratedAt *time.Time
}

// requestArbitration asks for one, in a transaction of its own.
func (s *Service) requestArbitration(ctx context.Context, run ids.Run, waitError string) error {
	return postgres.InTx(ctx, s.db, "runs.request-arbitration", func(tx postgres.Tx) error {
		return requestArbitration(ctx, tx, run, waitError)
	})
}

func requestArbitration(ctx context.Context, tx postgres.Tx, run ids.Run, waitError string) error {
	if runes := []rune(waitError); len(runes) > maxWaitError {
		waitError = string(runes[:maxWaitError])
	}
	if _, err := postgres.Exec(ctx, tx, Queries.Get("RequestArbitration"), postgres.Args{"run_id": run, "wait_error": waitError}); err != nil {
		return fmt.Errorf("ask for the arbitration of %s: %w", run, err)
	}
	return nil
}

// waitFailed asks what has become of a run that could not be looked after. While the database is
// away nothing can be asked, and the next sweep looks after the run again.
func (s *Service) waitFailed(ctx context.Context, run ids.Run, cause error) error {
	if ctx.Err() != nil {
		return nil
	}
	return s.requestArbitration(ctx, run, cause.Error())
}

// expireApprovals asks for the arbitration of every wait whose deadline has passed, and decides all
// that have been asked for (AP-05…AP-07).
func (s *Service) expireApprovals(ctx context.Context) error {
	err := each(ctx, s, "runs.expire-approvals", Queries, "ExpiredApprovals", postgres.Args{}, func(tx postgres.Tx, id ids.Run) error {
		return requestArbitration(ctx, tx, id, deadlinePassed)
	})
	if err != nil {
		return err
	}
	return each(ctx, s, "runs.arbitrate", Queries, "OpenArbitrations", postgres.Args{}, func(tx postgres.Tx, id ids.Run) error {
		return arbitrate(ctx, tx, id)
	})
}

// arbitrate decides what has become of a run's wait, by the database's clock and under the run's lock.
func arbitrate(ctx context.Context, tx postgres.Tx, id ids.Run) error {
	r, _, err := lock(ctx, tx, id)
	if err != nil {
		return err
	}
	outcome := WaitDecided
	if r.DurableStatus == AwaitingApproval && r.ConfirmedAt == nil {
		over, err := postgres.Value[bool](ctx, tx, Queries.Get("ApprovalExpired"), postgres.Args{"id": id})
		if err != nil {
			return err
		}
		outcome = WaitPending
		if over {
			outcome = WaitExpired
			err = step(ctx, tx, &r, move{To: Expired, Actor: authz.System(), Reason: "APPROVAL_EXPIRED", Message: "The plan was not approved in time. Start a new run."})
		}
		if err != nil {
			return err
		}
	}
	_, err = postgres.Exec(ctx, tx, Queries.Get("Arbitrated"), postgres.Args{"run_id": id, "outcome": string(outcome)})
	return err
}

func arbitrations(ctx context.Context, tx postgres.Tx, run ids.Run) ([]Arbitration, error) {
	return postgres.All[Arbitration](ctx, tx, Queries.Get("Arbitrations"), postgres.Args{"run_id": run})
}
