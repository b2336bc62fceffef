package artifacts

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

const (
	uploadWithin = 24 * time.Hour      // how long an upload may take before it counts as forgotten
	keepFor      = 30 * 24 * time.Hour // how long the bytes of a discarded object stay
	sweepBatch   = 100                 // objects between two looks at the table
)

// SweepEvery sweeps at once and then every interval until ctx ends. Several servers
// may do so side by side.
func (s *Service) SweepEvery(ctx context.Context, interval time.Duration) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		if removed, err := s.Sweep(ctx); err != nil && ctx.Err() == nil {
			slog.WarnContext(ctx, "discarded objects stay in the store for now", "removed", removed, "error", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// Sweep gives up the uploads that were forgotten and removes from the store the bytes
// of objects that were discarded 30 days ago. It goes by the rows alone: what has none
// in the store is left there, for after a restore of the database that may be the
// newest state. removed counts the objects whose bytes are gone.
func (s *Service) Sweep(ctx context.Context) (removed int, err error) {
	err = postgres.InTx(ctx, s.db, "artifacts.forget", func(tx postgres.Tx) error {
		_, err := postgres.Exec(ctx, tx, queries.Get("ObjectsForgotten"), postgres.Args{"seconds": uploadWithin.Seconds()})
		return err
	})
	if err != nil {
		return 0, err
	}
	for {
		batch, err := s.toRemove(ctx)
		if err != nil || len(batch) == 0 {
			return removed, err
		}
		for _, o := range batch {
			if err := s.remove(ctx, o); err != nil {
				return removed, fmt.Errorf("remove object %s: %w", o.ID, err)
			}
			removed++
		}
	}
}

// discardedRow is what of a row is needed to remove its bytes.
type discardedRow struct {
	ID             ids.Object
	OrganizationID ids.Organization
	WorkspaceID    ids.Workspace
	Kind           Kind
	KeyVersion     int
}

func (s *Service) toRemove(ctx context.Context) (batch []discardedRow, err error) {
	err = postgres.InSnapshot(ctx, s.db, "artifacts.to-remove", func(tx postgres.Tx) (err error) {
		batch, err = postgres.All[discardedRow](ctx, tx, queries.Get("ObjectsToRemove"), postgres.Args{"seconds": keepFor.Seconds(), "limit": sweepBatch})
		return err
	})
	return batch, err
}

// remove deletes the bytes before the row says so: what fails half-way is repeated.
func (s *Service) remove(ctx context.Context, o discardedRow) error {
	place := Spec{Organization: o.OrganizationID, Workspace: o.WorkspaceID, Kind: o.Kind}
	for _, key := range []string{place.bodyKey(o.ID), place.sidecarKey(o.ID, o.KeyVersion)} {
		if err := s.store.Delete(ctx, key); err != nil {
			return err
		}
	}
	return postgres.InTx(ctx, s.db, "artifacts.removed", func(tx postgres.Tx) error {
		_, err := postgres.Exec(ctx, tx, queries.Get("ObjectRemoved"), postgres.Args{"id": o.ID, "organization": o.OrganizationID})
		return err // zero rows: another server was faster
	})
}
