package dispatch

import (
	"context"
	"fmt"

	"github.com/holdfast-run/holdfast/artifacts"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// Artifact is something an attempt handed over.
type Artifact struct {
	Kind     string
	ObjectID ids.Object
	SHA256   string `db:"sha256"`
}

// HandOver records an artifact of a running attempt. The same bytes again are
// fine; other bytes of a kind are a Conflict "artifact_fixed" (RL-15).
func HandOver(ctx context.Context, tx postgres.Tx, a Attempt, kind string, object artifacts.Object) error {
	if a.Status != Running {
		return fault.New(fault.Conflict, "attempt_ended", "Attempt %s has ended; it takes no artifacts any more.", a.ID)
	}
	n, err := postgres.Exec(ctx, tx, Queries.Get("InsertArtifact"), postgres.Args{
		"attempt_id": a.ID, "organization_id": a.OrganizationID, "kind": kind, "object_id": object.ID, "sha256": object.SHA256,
	})
	if err != nil {
		return fmt.Errorf("record the artifact: %w", err)
	}
	if n == 1 {
		return nil
	}
	had, found, err := HandedOver(ctx, tx, a.ID, kind)
	if err != nil {
		return err
	}
	if !found || had.SHA256 != object.SHA256 {
		return fault.New(fault.Conflict, "artifact_fixed", "The %s of attempt %s was handed over before with other bytes, and it does not change.", kind, a.ID)
	}
	return nil
}

// HandedOver gives the artifact of a kind; found is false when there is none.
func HandedOver(ctx context.Context, tx postgres.Tx, attempt ids.Attempt, kind string) (art Artifact, found bool, err error) {
	art, err = postgres.One[Artifact](ctx, tx, Queries.Get("Artifact"), postgres.Args{"attempt_id": attempt, "kind": kind})
	if postgres.NoRow(err) {
		return Artifact{}, false, nil
	}
	return art, err == nil, err
}

// Artifacts gives everything that an attempt has handed over.
func Artifacts(ctx context.Context, tx postgres.Tx, attempt ids.Attempt) (map[artifacts.Kind]Artifact, error) {
	list, err := postgres.All[Artifact](ctx, tx, Queries.Get("Artifacts"), postgres.Args{"attempt_id": attempt})
	if err != nil {
		return nil, fmt.Errorf("read the artifacts: %w", err)
	}
	handed := map[artifacts.Kind]Artifact{}
	for _, one := range list {
		handed[artifacts.Kind(one.Kind)] = one
	}
	return handed, nil
}
