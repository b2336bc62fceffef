package dispatch

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// Claim assigns to the runner the attempt whose turn it is among those that fit its
// group, labels and versions (RP-02…RP-06, RP-22); found is false when there is none.
// Applies come first; else the turn goes round the organizations, and within one the
// oldest plan is first and speculative plans are last (amendment 23). The run does not
// change. A runner whose token was revoked, whose group was deleted, or that has
// deregistered while it waited is Unauthenticated: the caller's transaction must end
// without effect then.
func Claim(ctx context.Context, tx postgres.Tx, group accounts.RunnerGroup, r RunnerHello, expiry time.Duration) (a Attempt, found bool, err error) {
	args := postgres.Args{"runner_id": r.ID, "group_id": group.ID}
	standing, err := postgres.One[struct {
		Organization                    ids.Organization
		TakesRemote, Scoped, Everywhere bool
		Labels                          []string
	}](ctx, tx, Queries.Get("Standing"), args)
	if postgres.NoRow(err) {
		return Attempt{}, false, nil
	}
	if err != nil {
		return Attempt{}, false, fmt.Errorf("read the runner's group: %w", err)
	}
	if r.Organization != "" && standing.Organization != "" && r.Organization != standing.Organization {
		return Attempt{}, false, nil
	}
	if standing.Organization == "" {
		standing.Organization = r.Organization
	}
	args["organization"], args["takes_remote"], args["scoped"], args["everywhere"] = standing.Organization, standing.TakesRemote, standing.Scoped, standing.Everywhere
	args["labels"], args["versions"], args["expiry_seconds"] = append(texts(standing.Labels), r.Labels...), texts(r.TofuVersions), expiry.Seconds()
	const mostTries = 20 // each means that others have taken all candidates of the one before
	for range mostTries {
		got, err := postgres.One[struct {
			ID        ids.Attempt
			Contended bool
		}](ctx, tx, Queries.Get("Claim"), args)
		if err != nil {
			return Attempt{}, false, fmt.Errorf("claim an attempt: %w", err)
		}
		if got.ID != "" {
			return confirmClaim(ctx, tx, group, r.ID, got.ID)
		}
		if !got.Contended {
			break
		}
	}
	return Attempt{}, false, nil
}

// confirmClaim gives the attempt just claimed, unless nothing may be offered to the
// runner any more. The check comes after the claim and locks what it reads: whoever
// revokes the token at this moment sees the claim, or is seen here.
func confirmClaim(ctx context.Context, tx postgres.Tx, group accounts.RunnerGroup, runner ids.Runner, id ids.Attempt) (Attempt, bool, error) {
	open := false
	args := postgres.Args{"token_id": group.Token, "group_id": group.ID, "runner_id": runner}
	err := postgres.LaterOne(ctx, tx, Queries.Get("StillOpen"), args, func(row struct{ Open bool }, found bool) error {
		if !found {
			return fault.New(fault.Unauthenticated, "unauthenticated", "The token of this runner was revoked or its pool deleted, or the runner has deregistered. Poll with a token that counts.")
		}
		open = row.Open
		return nil
	})
	if err != nil {
		return Attempt{}, false, err
	}
	a, err := Get(ctx, tx, id)
	if err != nil || open {
		return a, err == nil, err
	}
	if _, err := postgres.Exec(ctx, tx, Queries.Get("Unclaim"), postgres.Args{"id": id, "runner_id": runner}); err != nil {
		return Attempt{}, false, fmt.Errorf("take the claim back: %w", err)
	}
	return Attempt{}, false, notifyDemand(ctx, tx, id)
}

// Offered gives the attempt that is assigned to the runner and not accepted yet, so
// that a poll whose answer was lost is answered alike; found is false when there is
// none.
func Offered(ctx context.Context, tx postgres.Tx, group accounts.RunnerGroup, runner ids.Runner) (a Attempt, found bool, err error) {
	a, err = one(ctx, tx, "Offered", postgres.Args{"runner_id": runner, "group_id": group.ID}, string(runner))
	if fault.Is(err, fault.NotFound) {
		return Attempt{}, false, nil
	}
	return a, err == nil, err
}
