package runs

import (
	"context"
	"time"

	"github.com/holdfast-run/holdfast/dispatch"
	"github.com/holdfast-run/holdfast/postgres"
)

// Figures are what an operator watches. They are read from the database and so are the same
// at every server.
type Figures struct {
	Waiting       int           // runs that wait for their workspace
	OldestWaiting time.Duration // since the oldest of them was created
	Held          int           // workspaces held by a run that ended without proof
	OldestHeld    time.Duration // since the oldest of them ended
	// Promotion is for how long, in the last quarter of an hour, a workspace stood free while a
	// run waited for it. Whatever frees a workspace admits the next run, so it is close to nothing.
	Promotion dispatch.Waits
	Attempts  []dispatch.OpenAttempts
	Dispatch  dispatch.Waits // from the order to execute to the runner that took it
}

// Figures reads them in one snapshot.
func (s *Service) Figures(ctx context.Context) (f Figures, err error) {
	err = postgres.InSnapshot(ctx, s.db, "runs.figures", func(tx postgres.Tx) error {
		row, err := postgres.One[struct {
			Waiting, Held                                            int
			OldestWaiting, OldestHeld, PromotionMedian, PromotionP99 float64
		}](ctx, tx, Queries.Get("Figures"), nil)
		if err != nil {
			return err
		}
		f = Figures{
			Waiting: row.Waiting, OldestWaiting: seconds(row.OldestWaiting), Held: row.Held, OldestHeld: seconds(row.OldestHeld),
			Promotion: dispatch.Waits{Median: seconds(row.PromotionMedian), P99: seconds(row.PromotionP99)},
		}
		f.Attempts, f.Dispatch, err = dispatch.Figures(ctx, tx)
		return err
	})
	return f, err
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
