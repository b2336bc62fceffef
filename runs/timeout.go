package runs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// cancelOverlong asks the runs to stop whose plan or apply has taken longer than their
// organization, or else the site, gives it. It is an ordinary cancel: tofu is interrupted and
// ends what it does, and a workspace that was written to is not freed by the time that passed.
func (s *Service) cancelOverlong(ctx context.Context) error {
	type overlong struct {
		ID           ids.Run
		Phase        authz.Phase
		LimitSeconds int
	}
	var list []overlong
	err := postgres.InOneStatement(ctx, s.db, "runs.overlong", func(tx postgres.Tx) (err error) {
		list, err = postgres.All[overlong](ctx, tx, Queries.Get("Overlong"), postgres.Args{"limit": sweepBatch})
		return err
	})
	errs := []error{err}
	for _, r := range list {
		err := s.Cancel(ctx, authz.System(), r.ID, fmt.Sprintf("The %s took longer than the %s that it is given.", r.Phase, time.Duration(r.LimitSeconds)*time.Second))
		if !fault.Is(err, fault.Conflict) { // it has ended, or somebody canceled it
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
