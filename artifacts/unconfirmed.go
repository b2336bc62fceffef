package artifacts

import (
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/hex"
	"io"

	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// Unconfirmed lists the objects of spec whose bytes may lie in the store although no row
// counts them: their server went down between the two. The oldest is first.
func (s *Service) Unconfirmed(ctx context.Context, tx postgres.Tx, spec Spec) ([]ids.Object, error) {
	spec, err := spec.normalized()
	if err != nil {
		return nil, err
	}
	return postgres.Values[ids.Object](ctx, tx, queries.Get("ObjectsUnconfirmed"), postgres.Args{
		"organization": spec.Organization, "workspace": spec.Workspace, "kind": spec.Kind, "run": spec.Run, "serial": spec.Serial, "lineage": spec.Lineage, "epoch": spec.Epoch,
	})
}

// Check reads an object to its end, confirmed or not, writes what it reads to beside as
// well, and gives its size and digests; Confirm may then make it count. Missing bytes are
// fault.Internal "object_missing", bytes that were changed or cut "sealed_object_corrupt";
// a store that is down is fault.Unavailable.
func (s *Service) Check(ctx context.Context, org ids.Organization, id ids.Object, beside io.Writer) (Object, error) {
	var row objectRow
	err := postgres.InOneStatement(ctx, s.db, "artifacts.check", func(tx postgres.Tx) (err error) {
		row, err = readObject(ctx, tx, org, id)
		return err
	})
	if err != nil {
		return Object{}, err
	}
	if row.Status == statusDiscarded {
		return Object{}, fault.Missing("object", string(id))
	}
	body, err := s.openRow(ctx, row)
	if err != nil {
		return Object{}, err
	}
	defer func() { _ = body.Close() }()
	size, sha, sum := int64(0), sha256.New(), md5.New()
	if size, err = io.Copy(io.MultiWriter(sha, sum, beside), body); err != nil {
		return Object{}, err
	}
	return Object{ID: row.ID, Kind: row.Kind, Size: size, SHA256: hex.EncodeToString(sha.Sum(nil)), MD5: hex.EncodeToString(sum.Sum(nil))}, nil
}
