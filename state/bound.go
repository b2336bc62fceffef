package state

import (
	"context"

	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/postgres"
)

// MaxPublications is how many versions one attempt may announce (G-37): recovery follows
// a chain of at most this length.
const MaxPublications = 1024

// announcedLater goes with the transaction's next statement: with that, into has the number of
// versions that the actor, if it is an attempt, has announced.
func announcedLater(ctx context.Context, tx postgres.Tx, actor authz.Actor, into *int) error {
	if actor.Kind != authz.AttemptActor {
		return nil
	}
	args := postgres.Args{"run_id": actor.Run, "attempt_id": actor.Attempt}
	return postgres.LaterOne(ctx, tx, Queries.Get("AnnouncedByAttempt"), args, func(announced struct{ Count int }, _ bool) error {
		*into = announced.Count
		return nil
	})
}

// withinBound refuses the next version of an attempt that has announced all it may.
func withinBound(announced int) error {
	if announced < MaxPublications {
		return nil
	}
	return fault.New(fault.Conflict, "publication_limit", "This apply has published state %d times, and no more are taken. What it goes on to change stands in errored.tfstate.", MaxPublications)
}
