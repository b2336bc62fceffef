package dispatch

import (
	"context"
	"time"

	"github.com/holdfast-run/holdfast/postgres"
)

// OpenAttempts counts the attempts of one phase in one status that are not at an end.
type OpenAttempts struct {
	Phase, Status string
	Count         int
	Oldest        time.Duration // age of the oldest
	Silent        time.Duration // of those that run: the longest time without a heartbeat
}

// Waits are the median and the 99th percentile of a waiting time.
type Waits struct{ Median, P99 time.Duration }

// Figures gives what an operator watches of the attempts: those that are open, and how long
// those begun in the last quarter of an hour had waited for a runner.
func Figures(ctx context.Context, tx postgres.Tx) (open []OpenAttempts, waits Waits, err error) {
	type row struct {
		Phase, Status                string
		Count                        int
		OldestSeconds, SilentSeconds float64
	}
	rows, err := postgres.All[row](ctx, tx, Queries.Get("OpenAttempts"), nil)
	if err != nil {
		return nil, Waits{}, err
	}
	for _, r := range rows {
		open = append(open, OpenAttempts{r.Phase, r.Status, r.Count, seconds(r.OldestSeconds), seconds(r.SilentSeconds)})
	}
	waited, err := postgres.One[struct{ Median, P99 float64 }](ctx, tx, Queries.Get("WaitsForRunners"), nil)
	return open, Waits{seconds(waited.Median), seconds(waited.P99)}, err
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
