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

// withinBound refuses the next version of an attempt that has announced all it may.
func withinBound(ctx context.Context, tx postgres.Tx, actor authz.Actor) error {
	if actor.Kind != authz.AttemptActor {
		return nil
	}
	announced, err := postgres.Value[int](ctx, tx, Queries.Get("AnnouncedByAttempt"), postgres.Args{"run_id": actor.Run, "attempt_id": actor.Attempt})
	if err == nil && announced >= MaxPublications {
		err = fault.New(fault.Conflict, "publication_limit", "This apply has published state %d times, and no more are taken. What it goes on to change stands in errored.tfstate.", MaxPublications)
	}
	return err
}
