package artifacts

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"log/slog"
	"time"

	"github.com/holdfast-run/holdfast/envelope"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// Service seals, keeps and opens objects.
type Service struct {
	db    *postgres.DB
	store ObjectStore
	ring  envelope.Keyring
	cache keyCache
}

// New makes the service. It has no effect until it is used.
func New(db *postgres.DB, store ObjectStore, ring envelope.Keyring) *Service {
	return &Service{db: db, store: store, ring: ring, cache: keyCache{keys: map[keyName]organizationKey{}, copied: map[keyName]bool{}}}
}

// outcomeLimit is how long the outcome of an upload may take to write. It does not
// depend on the caller, who may have gone.
const outcomeLimit = 10 * time.Second

// Put seals and stores what body gives: the intent as a row, then the bytes with
// their sidecar, then the outcome. With a positive limit a longer body is
// fault.TooLarge with code artifact_too_large as soon as it passes the limit. An
// error of body is returned as it is; a store or database that is down is
// fault.Unavailable. After an error nothing counts as stored. Put repeated makes
// another object. The memory used is constant.
func (s *Service) Put(ctx context.Context, spec Spec, body io.Reader, limit int64) (Object, error) {
	return s.PutWith(ctx, spec, body, limit, func(postgres.Tx, Object) error { return nil })
}

// PutWith is Put for a caller whose own rows change in the transaction that makes the object
// count: with its error the object is given up.
func (s *Service) PutWith(ctx context.Context, spec Spec, body io.Reader, limit int64, with func(tx postgres.Tx, object Object) error) (Object, error) {
	var in Intent
	err := postgres.InTx(ctx, s.db, "artifacts.intend", func(tx postgres.Tx) (err error) {
		in, err = s.Intend(ctx, tx, spec)
		return err
	})
	if err != nil {
		return Object{}, err
	}
	object, err := s.Store(ctx, in, body, limit, io.Discard)
	if err != nil {
		return Object{}, err
	}
	outcome, cancel := context.WithTimeout(context.WithoutCancel(ctx), outcomeLimit)
	defer cancel()
	err = postgres.InTx(outcome, s.db, "artifacts.stored", func(tx postgres.Tx) error {
		if err := with(tx, object); err != nil {
			return err
		}
		return s.Confirm(outcome, tx, spec.Organization, object)
	})
	if err != nil {
		s.GiveUp(ctx, in) // unless it was stored after all: nobody points to it
		return Object{}, err
	}
	return object, nil
}

// Intent is an object that has a row and no bytes yet.
type Intent struct {
	committed  func() error // see CommittedBy
	id         ids.Object
	spec       Spec
	dek        envelope.Key
	key        organizationKey
	wrappedDEK []byte
}

// Sealer gives the sealer of values under the key that the object is sealed under.
func (in Intent) Sealer() Sealer { return Sealer{in.spec.Organization, in.key} }

// CommittedBy gives the intent for a transaction that is being committed meanwhile: its
// bytes are read and sealed already, and the store gets the end of them, without which it
// has no object, once wait has answered nil.
func (in Intent) CommittedBy(wait func() error) Intent {
	in.committed = wait
	return in
}

func (in Intent) waitForCommit() error {
	if in.committed == nil {
		return nil
	}
	return in.committed()
}

// Intend, Store and Confirm are the steps of Put for a caller whose own rows change
// with them. Intend announces the object; its bytes may come once tx is committed, or with
// CommittedBy.
func (s *Service) Intend(ctx context.Context, tx postgres.Tx, spec Spec) (Intent, error) {
	spec, err := spec.normalized()
	if err != nil {
		return Intent{}, err
	}
	in := Intent{id: ids.New[ids.Object](), spec: spec, dek: envelope.NewKey()}
	if in.key, err = s.currentKey(ctx, tx, spec.Organization); err != nil {
		return Intent{}, err
	}
	in.wrappedDEK = envelope.SealValue(in.key.key, dekAAD(spec.Organization, in.id), in.dek[:])
	return in, insertIntent(ctx, tx, in.id, spec, in.key.row.Version, in.wrappedDEK)
}

// Store seals the body of an intended object and stores it with its sidecar; the
// object counts once Confirm has been committed. Limit and errors are those of Put,
// and after an error the intent is given up. What is read of body is written to
// beside as well; its errors do not count. If it can be closed it is when it has all of the
// body, which may be long before the store has.
func (s *Service) Store(ctx context.Context, in Intent, body io.Reader, limit int64, beside io.Writer) (Object, error) {
	object, err := s.upload(ctx, in, body, limit, beside)
	if err != nil && in.waitForCommit() == nil {
		s.GiveUp(ctx, in)
	}
	return object, err
}

// Confirm makes a stored object count; it goes with the transaction's next statement.
// Conflict "object_not_pending" when the object was given up in the meantime.
func (s *Service) Confirm(ctx context.Context, tx postgres.Tx, org ids.Organization, object Object) error {
	return markStored(ctx, tx, org, object)
}

// upload puts body and sidecar into the store, the sidecar as soon as all of the
// body was read: a body that broke off leaves none.
func (s *Service) upload(ctx context.Context, in Intent, body io.Reader, limit int64, beside io.Writer) (Object, error) {
	sidecar := make(chan error, 1)
	sealing, err := newSealingReader(body, limit, in.dek, in.spec.context(in.id), beside, func() error {
		if err := in.waitForCommit(); err != nil {
			return err
		}
		if err := s.copyKey(ctx, in.spec.Organization, in.key.row); err != nil {
			return err
		}
		go func() {
			sidecar <- s.store.Put(ctx, in.spec.sidecarKey(in.id, in.key.row.Version), bytes.NewReader(in.wrappedDEK))
		}()
		return nil
	})
	if err != nil {
		return Object{}, err
	}
	err = s.store.Put(ctx, in.spec.bodyKey(in.id), sealing)
	sealing.stop()
	var sidecarErr error
	if sealing.whole {
		sidecarErr = <-sidecar
	}
	switch {
	case sealing.err != nil:
		return Object{}, sealing.err // also when the store hid it or took it for its own
	case err != nil:
		return Object{}, err
	case !sealing.consumed():
		return Object{}, fault.New(fault.Internal, "store_incomplete", "The object store reported success before it had taken the whole object.")
	case sidecarErr != nil:
		return Object{}, sidecarErr
	}
	object := Object{ID: in.id, Kind: in.spec.Kind, Size: sealing.size}
	object.SHA256, object.MD5 = sealing.digests()
	return object, nil
}

// GiveUp discards the row of an upload that failed, unless it was confirmed; the
// error is already on its way to the caller. A row that stays pending is found by
// its age.
func (s *Service) GiveUp(ctx context.Context, in Intent) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), outcomeLimit)
	defer cancel()
	err := postgres.InTx(ctx, s.db, "artifacts.abandon", func(tx postgres.Tx) error { return abandon(ctx, tx, in.spec.Organization, in.id) })
	if err != nil {
		slog.WarnContext(ctx, "the row of a failed upload stays pending", "object", in.id, "error", err)
	}
}

// Open gives the plain bytes of a stored object, streaming. An object that is not
// visible to org, or was discarded, is fault.NotFound. Bytes that are missing from
// the store although the row counts are fault.Internal with code object_missing;
// bytes that were changed, cut or exchanged are sealed_object_corrupt, from Open or
// from a later Read. A store that is down is fault.Unavailable. Whoever sends the
// bytes on must treat an error of Read as a failure of the whole.
func (s *Service) Open(ctx context.Context, org ids.Organization, id ids.Object) (io.ReadCloser, Object, error) {
	var row objectRow
	err := postgres.InOneStatement(ctx, s.db, "artifacts.open", func(tx postgres.Tx) (err error) {
		row, err = readStored(ctx, tx, org, id)
		return err
	})
	if err != nil {
		return nil, Object{}, err
	}
	plain, err := s.openRow(ctx, row)
	return plain, row.object(), err
}

func (s *Service) openRow(ctx context.Context, row objectRow) (io.ReadCloser, error) {
	var key organizationKey
	org, id := row.OrganizationID, row.ID
	err := postgres.InOneStatement(ctx, s.db, "artifacts.key", func(tx postgres.Tx) (err error) {
		key, err = s.keyOf(ctx, tx, org, row.KeyVersion) // mostly without a statement; a key never changes
		return err
	})
	if err != nil {
		return nil, err
	}
	dek, err := unwrapDEK(key, org, row)
	if err != nil {
		return nil, err
	}
	sealed, err := s.store.Get(ctx, row.spec().bodyKey(id))
	if fault.Is(err, fault.NotFound) {
		return nil, fault.New(fault.Internal, "object_missing", "The %s %s is recorded, but its bytes are not in the object store. Restore them from a backup of the store.", row.Kind, id).Because(err)
	}
	if err != nil {
		return nil, err
	}
	plain, err := openVerified(sealed, dek, row.spec().context(id))
	if err != nil {
		return nil, closing(sealed, err)
	}
	return plain, nil
}

// openVerified opens the stream and authenticates its first chunk, so that most
// damage shows before a caller has begun to answer.
func openVerified(sealed io.ReadCloser, dek envelope.Key, c envelope.Context) (io.ReadCloser, error) {
	plain, err := envelope.Open(sealed, dek, c)
	if err != nil {
		return nil, err
	}
	ahead := bufio.NewReaderSize(plain, 64<<10)
	if _, err := ahead.Peek(1); err != nil && err != io.EOF {
		return nil, err
	}
	return struct {
		io.Reader
		io.Closer
	}{ahead, sealed}, nil
}

func closing(c io.Closer, err error) error {
	_ = c.Close() // err says more
	return err
}

func unwrapDEK(key organizationKey, org ids.Organization, row objectRow) (envelope.Key, error) {
	plain, err := envelope.OpenValue(key.key, dekAAD(org, row.ID), row.WrappedDEK)
	if err != nil {
		return envelope.Key{}, err
	}
	if len(plain) != envelope.KeySize {
		return envelope.Key{}, fault.New(fault.Internal, "sealed_value_corrupt", "The data key of object %s has a wrong size. Restore the database from a backup.", row.ID)
	}
	return envelope.Key(plain), nil
}

// Info gives size and digests of a stored object without touching the store. An
// object that is not visible to org, or was discarded, is fault.NotFound.
func (s *Service) Info(ctx context.Context, tx postgres.Tx, org ids.Organization, id ids.Object) (Object, error) {
	row, err := readStored(ctx, tx, org, id)
	return row.object(), err
}

// Discard gives up a stored object: it cannot be opened any more, and its bytes may
// be removed from the store later. Discarding it again succeeds; an object still
// being uploaded is fault.Conflict.
func (s *Service) Discard(ctx context.Context, tx postgres.Tx, org ids.Organization, id ids.Object) error {
	return discard(ctx, tx, org, id)
}
