package state

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/holdfast-run/holdfast/artifacts"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/fence"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// What the recovery of an interrupted apply needs of states. Its caller decides; here it
// is only done, under the lineage lock that the caller holds or that is taken here.

// Chain gives the versions from one back to another, which is not among them, by what
// each was based on: newest first, and at most as many as asked for. It may end before
// it comes to the other one.
func Chain(ctx context.Context, tx postgres.Tx, from, until ids.StateVersion, most int) ([]Version, error) {
	rows, err := postgres.All[versionRow](ctx, tx, Queries.Get("Chain"), postgres.Args{"from": from, "until": until, "most": most})
	if err != nil {
		return nil, fmt.Errorf("read the chain of %s: %w", from, err)
	}
	list := make([]Version, 0, len(rows))
	for _, r := range rows {
		list = append(list, r.version())
	}
	return list, nil
}

// PendingUpload is an announced version that is neither published nor refused. ClaimedAt
// is when its bytes began to arrive; nil when they never did.
type PendingUpload struct {
	Version
	ClaimedAt *time.Time
	ExpiresAt time.Time
	Expired   bool
}

// PendingUploads lists those of a run, oldest first.
func PendingUploads(ctx context.Context, tx postgres.Tx, run ids.Run) ([]PendingUpload, error) {
	type pendingRow struct {
		versionRow
		ClaimedAt *time.Time
		ExpiresAt time.Time
		Expired   bool
	}
	rows, err := postgres.All[pendingRow](ctx, tx, Queries.Get("PendingUploads"), postgres.Args{"run_id": run})
	if err != nil {
		return nil, fmt.Errorf("read the pending uploads of %s: %w", run, err)
	}
	list := make([]PendingUpload, 0, len(rows))
	for _, r := range rows {
		list = append(list, PendingUpload{Version: r.version(), ClaimedAt: r.ClaimedAt, ExpiresAt: r.ExpiresAt, Expired: r.Expired})
	}
	return list, nil
}

// DiscardUnclaimed gives up the uploads of a run that expired without a byte (RC-28). An
// upload that begins at the same moment wins or loses as a whole (RC-29).
func DiscardUnclaimed(ctx context.Context, tx postgres.Tx, run ids.Run) (int64, error) {
	return postgres.Exec(ctx, tx, Queries.Get("DiscardUnclaimed"), postgres.Args{"run_id": run})
}

// DiscardClaimed gives up one pending upload of a run whose bytes began to arrive at that
// very time, and are not to be had (RC-35). done is false when it is not so any more.
func DiscardClaimed(ctx context.Context, tx postgres.Tx, run ids.Run, id ids.StateVersion, claimedAt time.Time) (done bool, err error) {
	n, err := postgres.Exec(ctx, tx, Queries.Get("DiscardClaimed"), postgres.Args{"id": id, "run_id": run, "claimed_at": claimedAt})
	return n == 1, err
}

// Checked is a state that was read to its end.
type Checked struct {
	File   File
	Object artifacts.Object
}

// Check reads an object to its end and reads the state in it. Beside the errors of
// artifacts.Check it is Invalid "state_malformed" for what is no state.
func (s *Service) Check(ctx context.Context, org ids.Organization, id ids.Object) (Checked, error) {
	pr, pw := io.Pipe()
	var file File
	var unread error
	parsed := make(chan struct{})
	go func() {
		defer close(parsed)
		defer func() { _ = pr.Close() }()
		defer fault.Caught(&unread)
		file, unread = Inspect(pr)
		_, _ = io.Copy(io.Discard, pr)
	}()
	object, err := s.objects.Check(ctx, org, id, pw)
	_ = pw.CloseWithError(err)
	<-parsed
	if err != nil {
		return Checked{}, err
	}
	return Checked{File: file, Object: object}, unread
}

// FinalizeClaimed does for a claimed upload of a held run what its own request could not
// do any more (RC-27): when all of its bytes lie in the store it becomes current, or is
// refused for the reason that its request would have been. It stays pending when they do
// not; then it is for a person to decide (RC-30). Errors are those of the store.
func (s *Service) FinalizeClaimed(ctx context.Context, id ids.StateVersion) error {
	v, candidates, err := s.candidates(ctx, id)
	if err != nil || v.Status != Pending {
		return err
	}
	for _, object := range candidates {
		checked, err := s.Check(ctx, v.Organization, object)
		var malformed *fault.Error
		switch {
		case fault.HasCode(err, "state_malformed") && errors.As(err, &malformed):
			checked.File.malformed = malformed
		case fault.HasCode(err, "object_missing"), fault.HasCode(err, "sealed_object_corrupt"), fault.Is(err, fault.NotFound):
			continue // these bytes are not all there
		case err != nil:
			return err
		}
		if checked.Object.MD5 == v.DeclaredMD5 {
			return s.finalizeHeld(ctx, v, checked)
		}
	}
	return nil
}

// candidates gives the objects that may hold the bytes of an upload.
func (s *Service) candidates(ctx context.Context, id ids.StateVersion) (v Version, list []ids.Object, err error) {
	err = postgres.InSnapshot(ctx, s.db, "state.candidates", func(tx postgres.Tx) error {
		if v, err = s.load(ctx, tx, id); err != nil {
			return err
		}
		if v.Object != "" { // kept while the workspace was held already
			list = []ids.Object{v.Object}
			return nil
		}
		list, err = s.objects.Unconfirmed(ctx, tx, artifacts.Spec{
			Organization: v.Organization, Workspace: v.Workspace, Kind: artifacts.KindState, Run: v.Run, Serial: v.DeclaredSerial, Lineage: v.DeclaredLineage, Epoch: v.Epoch,
		})
		return err
	})
	return v, list, err
}

func (s *Service) finalizeHeld(ctx context.Context, begun Version, checked Checked) error {
	checked.File = checked.File.completed(begun)
	return postgres.InTx(ctx, s.db, "state.finalize-claimed", func(tx postgres.Tx) error {
		status, err := fence.Lock(ctx, tx, begun.Workspace)
		if err != nil {
			return err
		}
		v, err := readVersion(ctx, tx, "Lock", postgres.Args{"id": begun.ID}, fault.Missing("state version", string(begun.ID)))
		if err != nil || v.Status != Pending || !status.RecoveryHeld {
			return err // it was decided meanwhile
		}
		if v.Object == "" {
			if err := s.objects.Confirm(ctx, tx, v.Organization, checked.Object); err != nil {
				return err
			}
		}
		current, err := current(ctx, tx, v.Workspace)
		if err != nil {
			return err
		}
		asBefore := status
		asBefore.RecoveryHeld = false // the upload had begun under this very lock
		if refused := refusal(v, asBefore, current, checked.File, checked.Object); refused != nil {
			return s.keepRefused(ctx, tx, v, checked.File, checked.Object, refused)
		}
		p, err := s.prepared(ctx, tx, v, checked)
		if err != nil {
			return err
		}
		return s.publish(ctx, tx, &v, status, current, p)
	})
}

func (s *Service) prepared(ctx context.Context, tx postgres.Tx, v Version, checked Checked) (p publication, err error) {
	p = publication{File: checked.File, object: checked.Object}
	if p.sealer, err = s.objects.Sealer(ctx, tx, v.Organization); err != nil {
		return p, err
	}
	return p, p.seal(v.ID)
}

// Recovered is a state that a recovery makes current, under the fence that it holds.
type Recovered struct {
	ID           ids.StateVersion
	Organization ids.Organization
	Token        fence.Token
	Base         ids.StateVersion // current now; anything else is Conflict "state_moved"
	Run          ids.Run
	Attempt      ids.Attempt
	Sandbox      string
	By           ids.User
	Checked      Checked
}

// PublishRecovered makes a recovered state current (RC-56). The caller holds the fence row.
func (s *Service) PublishRecovered(ctx context.Context, tx postgres.Tx, in Recovered) error {
	status, err := fence.Guard(ctx, tx, in.Token)
	if err != nil {
		return err
	}
	v, err := readVersion(ctx, tx, "Insert", postgres.Args{
		"id": in.ID, "organization_id": in.Organization, "workspace_id": in.Token.Workspace, "epoch": in.Token.Epoch,
		"holder_kind": string(in.Token.Holder.Kind), "holder_id": in.Token.Holder.ID,
		"declared_serial": in.Checked.File.Serial, "declared_lineage": in.Checked.File.Lineage, "declared_md5": in.Checked.Object.MD5, "forced": false,
		"base_version_id": in.Base, "run_id": in.Run, "attempt_id": in.Attempt, "sandbox_id": in.Sandbox, "created_by": in.By, "lifetime_seconds": 0,
	}, nil)
	if err != nil {
		return err
	}
	base, err := current(ctx, tx, in.Token.Workspace)
	if err != nil {
		return err
	}
	p, err := s.prepared(ctx, tx, v, in.Checked)
	if err != nil {
		return err
	}
	return s.publish(ctx, tx, &v, status, base, p)
}
