package dispatch

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// notifyDemand tells the lobbies of all servers what these attempts ask for.
func notifyDemand(ctx context.Context, tx postgres.Tx, attempts ...ids.Attempt) error {
	if len(attempts) == 0 {
		return nil
	}
	demands, err := postgres.Values[string](ctx, tx, Queries.Get("Demand"), postgres.Args{"ids": attempts})
	if err != nil {
		return fmt.Errorf("read what attempts ask for: %w", err)
	}
	for _, d := range demands {
		if err := postgres.Notify(ctx, tx, Channel, d); err != nil {
			return err
		}
	}
	return nil
}

// notifyLook tells the lobbies that work which did not fit may fit now.
func notifyLook(ctx context.Context, tx postgres.Tx) error {
	return postgres.Notify(ctx, tx, Channel, "")
}

// notifyDrain tells the lobbies that a runner shall end.
func notifyDrain(ctx context.Context, tx postgres.Tx, runner ids.Runner) error {
	said, err := json.Marshal(map[string]ids.Runner{"drain": runner})
	if err != nil {
		return err
	}
	return postgres.Notify(ctx, tx, Channel, string(said))
}
