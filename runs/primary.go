package runs

import (
	"context"
	"log/slog"

	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/dispatch"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// A database failover may lose what was acknowledged. The primary that the installation
// trusts is noted by its cluster and timeline. On another one nothing is dispatched until
// every run that applies was heard of on it, or is held, and no run has a witness of an
// apply that its row does not tell of.

// primaryTrusted tells whether this is the primary that was noted.
func primaryTrusted(ctx context.Context, tx postgres.Tx) (bool, error) {
	return postgres.Value[bool](ctx, tx, Queries.Get("PrimaryTrusted"), nil)
}

// checkPrimary notes the first primary, and brings another one to trust.
func (s *Service) checkPrimary(ctx context.Context) error {
	trusted := false
	err := postgres.InTx(ctx, s.db, "runs.note-primary", func(tx postgres.Tx) (err error) {
		if _, err := postgres.Exec(ctx, tx, Queries.Get("NotePrimary"), nil); err != nil {
			return err
		}
		if trusted, err = primaryTrusted(ctx, tx); err != nil || trusted {
			return err
		}
		n, err := postgres.Exec(ctx, tx, Queries.Get("SuspectPrimary"), nil)
		if n == 1 {
			slog.ErrorContext(ctx, "the database is another primary than before; nothing is dispatched until what applies is proved again or held")
		}
		return err
	})
	if err != nil || trusted {
		return err
	}
	if err := s.holdWitnessed(ctx); err != nil {
		return err
	}
	return postgres.InTx(ctx, s.db, "runs.trust-primary", func(tx postgres.Tx) error {
		n, err := postgres.Exec(ctx, tx, Queries.Get("TrustPrimary"), nil)
		if n == 1 {
			slog.WarnContext(ctx, "the new primary is trusted; dispatch goes on")
		}
		return err
	})
}

// holdWitnessed holds the workspaces of runs whose apply has a witness in the store and
// no row in the database.
func (s *Service) holdWitnessed(ctx context.Context) error {
	for after := ids.Run(""); ; {
		var list []Run
		err := postgres.InSnapshot(ctx, s.db, "runs.admitted", func(tx postgres.Tx) error {
			found, err := postgres.Values[ids.Run](ctx, tx, Queries.Get("Admitted"), postgres.Args{"after": after, "limit": sweepBatch})
			if err != nil {
				return err
			}
			for _, id := range found {
				r, err := load(ctx, tx, id)
				if err != nil {
					return err
				}
				list = append(list, r)
			}
			return nil
		})
		if err != nil || len(list) == 0 {
			return err
		}
		for _, r := range list {
			if err := s.holdIfWitnessed(ctx, r); err != nil {
				return err
			}
		}
		after = list[len(list)-1].ID
	}
}

func (s *Service) holdIfWitnessed(ctx context.Context, r Run) error {
	witness, found, err := s.objects.Witnessed(ctx, r.OrganizationID, r.WorkspaceID, r.ID)
	if err != nil || !found {
		return err
	}
	return s.hold(ctx, dispatch.Claims{
		Attempt: witness.Attempt, Run: r.ID, Organization: r.OrganizationID, Workspace: r.WorkspaceID, Phase: authz.Apply, Sandbox: witness.Sandbox, Epoch: witness.Epoch,
	})
}
