package artifacts

import (
	"context"
	_ "embed"

	"github.com/holdfast-run/holdfast/envelope"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

//go:embed queries.sql
var queriesSQL string

var queries = postgres.ParseQueries(queriesSQL)

// The states of an object's row.
const (
	statusPending   = "pending"
	statusStored    = "stored"
	statusDiscarded = "discarded"
)

// objectRow is a row of objects.
type objectRow struct {
	ID             ids.Object
	OrganizationID ids.Organization
	WorkspaceID    ids.Workspace
	Kind           Kind
	RunID          ids.Run
	Serial         int64
	Lineage        string
	Epoch          int64
	Status         string
	KeyVersion     int
	WrappedDEK     []byte
	Size           int64
	SHA256         string
	MD5            string
}

func (r objectRow) object() Object {
	return Object{ID: r.ID, Kind: r.Kind, Size: r.Size, SHA256: r.SHA256, MD5: r.MD5}
}

func (r objectRow) spec() Spec {
	return Spec{
		Organization: r.OrganizationID, Workspace: r.WorkspaceID, Kind: r.Kind,
		Run: r.RunID, Serial: r.Serial, Lineage: r.Lineage, Epoch: r.Epoch,
	}
}

// readObject reads a row in any state; none is NotFound.
func readObject(ctx context.Context, tx postgres.Tx, org ids.Organization, id ids.Object) (objectRow, error) {
	row, err := postgres.One[objectRow](ctx, tx, queries.Get("Object"), postgres.Args{"id": id, "organization": org})
	if postgres.NoRow(err) {
		return objectRow{}, fault.Missing("object", string(id))
	}
	return row, err
}

// readStored reads a row that counts; a pending or discarded one is NotFound too.
func readStored(ctx context.Context, tx postgres.Tx, org ids.Organization, id ids.Object) (objectRow, error) {
	row, err := readObject(ctx, tx, org, id)
	if err == nil && row.Status != statusStored {
		return objectRow{}, fault.Missing("object", string(id))
	}
	return row, err
}

func insertIntent(ctx context.Context, tx postgres.Tx, id ids.Object, s Spec, keyVersion int, wrappedDEK []byte) error {
	return postgres.Later(ctx, tx, queries.Get("ObjectInsert"), postgres.Args{
		"id": id, "organization": s.Organization, "workspace": s.Workspace, "kind": s.Kind, "run": s.Run, "serial": s.Serial,
		"lineage": s.Lineage, "epoch": s.Epoch, "key_version": keyVersion, "wrapped_dek": wrappedDEK,
	}, nil)
}

// markStored makes the object count. A row that is no longer pending was given up
// by somebody else in the meantime, and stays so.
func markStored(ctx context.Context, tx postgres.Tx, org ids.Organization, o Object) error {
	return postgres.Later(ctx, tx, queries.Get("ObjectStored"), postgres.Args{
		"id": o.ID, "organization": org, "size": o.Size, "sha256": o.SHA256, "md5": o.MD5,
	}, func(rows int64) error {
		if rows != 1 {
			return fault.New(fault.Conflict, "object_not_pending", "The upload of %s was given up before it ended. Upload it again.", o.ID)
		}
		return nil
	})
}

// abandon gives up an object whose upload failed. Zero rows means that it is not
// pending any more, which is as good.
func abandon(ctx context.Context, tx postgres.Tx, org ids.Organization, id ids.Object) error {
	_, err := postgres.Exec(ctx, tx, queries.Get("ObjectAbandoned"), postgres.Args{"id": id, "organization": org})
	return err
}

func discard(ctx context.Context, tx postgres.Tx, org ids.Organization, id ids.Object) error {
	n, err := postgres.Exec(ctx, tx, queries.Get("ObjectDiscarded"), postgres.Args{"id": id, "organization": org})
	if err != nil || n == 1 {
		return err
	}
	row, err := readObject(ctx, tx, org, id)
	switch {
	case err != nil:
		return err
	case row.Status == statusDiscarded:
		return nil
	default:
		return fault.New(fault.Conflict, "object_not_stored", "The object %s is %s and can only be discarded once it is stored.", id, row.Status)
	}
}

// keyRow is a row of organization_keys.
type keyRow struct {
	Version     int
	RootVersion int
	Wrapped     []byte
}

func (r keyRow) wrapped() envelope.Wrapped {
	return envelope.Wrapped{RootVersion: r.RootVersion, Bytes: r.Wrapped}
}

func insertKey(ctx context.Context, tx postgres.Tx, org ids.Organization, version int, w envelope.Wrapped) error {
	// Zero rows: the organization has its key already, and keeps it.
	_, err := postgres.Exec(ctx, tx, queries.Get("OrganizationKeyInsert"), postgres.Args{
		"organization": org, "version": version, "root_version": w.RootVersion, "wrapped": w.Bytes,
	})
	return err
}

func readCurrentKey(ctx context.Context, tx postgres.Tx, org ids.Organization) (keyRow, error) {
	row, err := postgres.One[keyRow](ctx, tx, queries.Get("OrganizationKeyCurrent"), postgres.Args{"organization": org})
	return row, missingKey(err, org)
}

func readKey(ctx context.Context, tx postgres.Tx, org ids.Organization, version int) (keyRow, error) {
	row, err := postgres.One[keyRow](ctx, tx, queries.Get("OrganizationKey"), postgres.Args{"organization": org, "version": version})
	return row, missingKey(err, org)
}

func missingKey(err error, org ids.Organization) error {
	if postgres.NoRow(err) {
		return fault.New(fault.Internal, "organization_key_missing", "The organization %s has no such encryption key; what it sealed cannot be read. Restore the database from a backup.", org)
	}
	return err
}
