package state

import (
	"context"
	"time"

	"github.com/holdfast-run/holdfast/artifacts"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/internal/failpoint"
	"github.com/holdfast-run/holdfast/postgres"
)

// claims are the statements that claim an upload.
var claims = map[artifacts.Kind]string{artifacts.KindState: "ClaimRaw", artifacts.KindStateJSON: "ClaimJSON"}

// claimLimit bounds the transaction that claims an upload.
const claimLimit = 30 * time.Second

// claimed is a version whose bytes begin to arrive.
type claimed struct {
	Version
	intent artifacts.Intent // which object they become
	stored bool             // whether they become one at all; else there is no intent

	chosen chan struct{} // closed when all of the above is known
	ended  chan struct{} // closed when err is
	err    error         // of the transaction
}

// claim notes that bytes begin to arrive, and which object they become. That is on disk
// before the store has the whole of them, but where an object is made of them not yet when
// claim returns: meanwhile they are received and sealed, which takes about as long.
// A sender who goes away takes nothing back: that bytes began to arrive stays true.
func (s *Service) claim(ctx context.Context, id ids.StateVersion, kind artifacts.Kind) (*claimed, error) {
	c := &claimed{chosen: make(chan struct{}), ended: make(chan struct{})}
	go func() {
		defer close(c.ended)
		defer fault.Caught(&c.err)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), claimLimit)
		defer cancel()
		c.err = postgres.InTx(ctx, s.db, "state.claim", func(tx postgres.Tx) error { return s.choose(ctx, tx, c, id, kind) })
	}()
	select {
	case <-c.chosen:
		if c.stored {
			return c, nil
		}
		return c, c.committed()
	case <-c.ended:
		return c, c.err
	}
}

// committed waits until the claim is on disk.
func (c *claimed) committed() error {
	<-c.ended
	if c.err == nil {
		failpoint.Here("state.upload.after-claim")
	}
	return c.err
}

// choose claims the version and says what becomes of its bytes.
func (s *Service) choose(ctx context.Context, tx postgres.Tx, c *claimed, id ids.StateVersion, kind artifacts.Kind) error {
	if c.ID != "" { // the transaction is tried again, and the bytes are being sealed for what was chosen before
		return fault.New(fault.Unavailable, "database_busy", "Others were changing the same thing, and nothing was stored. Try again in a moment.")
	}
	v, err := readVersion(ctx, tx, claims[kind], postgres.Args{"id": id}, nil)
	if err != nil {
		return err
	}
	if v.ID == "" {
		if v, err = s.unclaimed(ctx, tx, id); err != nil {
			return err
		}
	}
	if stored := kind == artifacts.KindState && v.Status != Finalized || kind == artifacts.KindStateJSON && !v.mustBeEncrypted; stored {
		intent, err := s.objects.Intend(ctx, tx, artifacts.Spec{
			Organization: v.Organization, Workspace: v.Workspace, Kind: kind, Run: v.Run,
			Serial: v.DeclaredSerial, Lineage: v.DeclaredLineage, Epoch: v.Epoch,
		})
		if err != nil {
			return err
		}
		c.intent, c.stored = intent.CommittedBy(c.committed), true
	}
	c.Version = v
	close(c.chosen)
	return nil
}

// unclaimed gives a version whose bytes are there already, for the caller to compare;
// one that takes none is an error.
func (s *Service) unclaimed(ctx context.Context, tx postgres.Tx, id ids.StateVersion) (Version, error) {
	v, err := s.load(ctx, tx, id)
	switch {
	case err != nil:
		return v, err
	case v.Status == Discarded:
		return v, discarded(v)
	case v.Status == Pending && v.JSONObject == "":
		return v, fault.New(fault.Conflict, "upload_expired", "This upload was announced more than %s ago and never begun. Announce the state again.", UploadLifetime)
	}
	return v, nil
}
