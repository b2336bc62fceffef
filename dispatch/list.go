package dispatch

import (
	"context"
	"fmt"

	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// ListOfRun gives the attempts of a run, oldest first, and counts all of them.
func ListOfRun(ctx context.Context, tx postgres.Tx, run ids.Run, limit, offset int) (list []Attempt, total int, err error) {
	list, err = postgres.All[Attempt](ctx, tx, Queries.Get("ListOfRun"), postgres.Args{"run_id": run, "limit": limit, "offset": offset})
	if err != nil {
		return nil, 0, fmt.Errorf("list the attempts of %s: %w", run, err)
	}
	total, err = postgres.Value[int](ctx, tx, Queries.Get("CountOfRun"), postgres.Args{"run_id": run})
	return list, total, err
}
