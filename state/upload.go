package state

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/holdfast-run/holdfast/artifacts"
	"github.com/holdfast-run/holdfast/audit"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/fence"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/internal/failpoint"
	"github.com/holdfast-run/holdfast/postgres"
)

// Upload takes the raw bytes of an announced version and makes it current. The
// caller has proved by a link that it may upload; whether it still may publish is
// decided here, by the fence (ST-17, ST-19). Bytes that are refused are kept as
// evidence, except those that are not the announced ones.
// The same bytes again answer the finalized version; other bytes are a Conflict.
// Errors: TooLarge "artifact_too_large" and Invalid "digest_mismatch" (nothing
// changed, the upload may be repeated), Invalid "state_malformed",
// "state_attribute_mismatch", "state_not_encrypted"; Conflict "stale_fence",
// "state_moved", "stale_serial", "lineage_mismatch", "already_finalized",
// "upload_discarded", "upload_expired"; RecoveryHeld.
func (s *Service) Upload(ctx context.Context, id ids.StateVersion, body io.Reader) (Version, error) {
	v, intent, err := s.claim(ctx, id, artifacts.KindState)
	if err != nil {
		return Version{}, err
	}
	if v.Status == Finalized {
		return s.repeated(ctx, v, body)
	}
	failpoint.Here("state.upload.after-claim")
	file, object, err := s.store(ctx, v, intent, body)
	if err != nil {
		return Version{}, err
	}
	failpoint.Here("state.upload.after-put")
	if object.MD5 != v.DeclaredMD5 {
		s.objects.GiveUp(ctx, intent)
		return Version{}, fault.New(fault.Invalid, "digest_mismatch", "The uploaded bytes have the MD5 %s, but %s was announced. Nothing was changed; upload the file again.", object.MD5, v.DeclaredMD5)
	}
	published, err := s.finalize(context.WithoutCancel(ctx), v, intent, file, object)
	if err != nil {
		s.objects.GiveUp(ctx, intent) // unless a row points to it
	}
	return published, err
}

// repeated answers an upload of a version that is final: the same bytes are a
// lost answer asked for again, others are refused.
func (s *Service) repeated(ctx context.Context, v Version, body io.Reader) (Version, error) {
	hash := sha256.New()
	if _, err := io.Copy(hash, io.LimitReader(body, v.Size+1)); err != nil { // more are other bytes
		return Version{}, err
	}
	if refused := again(v, hex.EncodeToString(hash.Sum(nil))); refused != nil {
		return Version{}, refused
	}
	err := postgres.InSnapshot(ctx, s.db, "state.repeated", func(tx postgres.Tx) (err error) {
		v, err = s.withResources(ctx, tx, v)
		return err
	})
	return v, err
}

func again(v Version, sha256 string) *fault.Error {
	if sha256 == v.SHA256 {
		return nil
	}
	return fault.New(fault.Conflict, "already_finalized", "This state version was already uploaded with other bytes; it does not change. Announce a new one.")
}

func discarded(v Version) *fault.Error {
	return fault.New(fault.Conflict, "upload_discarded", "This upload was refused before (%s). Lock the workspace, read the current state and upload again.", v.DiscardReason)
}

// claims are the statements that claim an upload.
var claims = map[artifacts.Kind]string{artifacts.KindState: "ClaimRaw", artifacts.KindStateJSON: "ClaimJSON"}

// claim notes durably that bytes begin to arrive, before the first is taken, and
// which object they become. There is no intent where no object is made of them.
func (s *Service) claim(ctx context.Context, id ids.StateVersion, kind artifacts.Kind) (v Version, intent artifacts.Intent, err error) {
	err = postgres.InTx(ctx, s.db, "state.claim", func(tx postgres.Tx) (err error) {
		v, err = readVersion(ctx, tx, claims[kind], postgres.Args{"id": id}, nil)
		if err != nil {
			return err
		}
		if v.ID == "" {
			if v, err = s.unclaimed(ctx, tx, id); err != nil {
				return err
			}
		}
		if kind == artifacts.KindState && v.Status == Finalized || kind == artifacts.KindStateJSON && v.mustBeEncrypted {
			return nil
		}
		intent, err = s.objects.Intend(ctx, tx, artifacts.Spec{
			Organization: v.Organization, Workspace: v.Workspace, Kind: kind, Run: v.Run,
			Serial: v.DeclaredSerial, Lineage: v.DeclaredLineage, Epoch: v.Epoch,
		})
		return err
	})
	return v, intent, err
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

// store seals the bytes while reading serial, lineage, outputs and resources out
// of them. Bytes that are no state file come back with file.malformed set.
func (s *Service) store(ctx context.Context, v Version, intent artifacts.Intent, body io.Reader) (File, artifacts.Object, error) {
	pr, pw := io.Pipe()
	var file File
	var unread error
	parsed := make(chan struct{})
	go func() {
		defer close(parsed)
		file, unread = ReadFile(pr)
		_, _ = io.Copy(io.Discard, pr) // what follows a syntax error is still hashed and kept
	}()
	object, err := s.objects.Store(ctx, intent, body, s.limit, pw)
	_ = pw.CloseWithError(err) // nil reads as the end
	<-parsed
	if err != nil {
		return File{}, artifacts.Object{}, err
	}
	if unread != nil && !errors.As(unread, &file.malformed) {
		return File{}, artifacts.Object{}, unread
	}
	return file.completed(v), object, nil
}

// completed fills in what an encrypted file leaves out: early OpenTofu wrote neither
// serial nor lineage beside the ciphertext.
func (f File) completed(v Version) File {
	if f.Encrypted && !f.HasSerial {
		f.Serial, f.HasSerial = v.DeclaredSerial, true
	}
	if f.Encrypted && !f.HasLineage {
		f.Lineage, f.HasLineage = v.DeclaredLineage, true
	}
	if f.malformed == nil && (!f.HasSerial || !f.HasLineage) {
		f.malformed = malformed("it names no serial or no lineage")
	}
	return f
}

// finalize makes the object count and moves the pointer to it, or refuses and keeps
// the bytes. Everything that decides is read under the lineage lock; what takes time
// is done before.
func (s *Service) finalize(ctx context.Context, begun Version, intent artifacts.Intent, file File, object artifacts.Object) (v Version, err error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	p := publication{File: file, object: object, sealer: intent.Sealer()}
	if p.resources, err = sealResources(p.sealer, begun.ID, file.Resources); err != nil {
		return Version{}, err
	}
	if p.outputs, err = sealOutputs(p.sealer, file.shownOutputs()); err != nil {
		return Version{}, err
	}
	var refused *fault.Error
	err = postgres.InTx(ctx, s.db, "state.finalize", func(tx postgres.Tx) error {
		status, err := fence.Lock(ctx, tx, begun.Workspace)
		if err != nil {
			return err
		}
		if v, err = readVersion(ctx, tx, "Lock", postgres.Args{"id": begun.ID}, fault.Missing("state version", string(begun.ID))); err != nil {
			return err
		}
		if err := s.objects.Confirm(ctx, tx, v.Organization, object); err != nil {
			return err
		}
		switch v.Status {
		case Finalized: // by another request with the same version
			if refused = again(v, object.SHA256); refused == nil {
				if v, err = s.withResources(ctx, tx, v); err != nil {
					return err
				}
			}
			return s.objects.Discard(ctx, tx, v.Organization, object.ID)
		case Discarded:
			refused = discarded(v)
			return s.objects.Discard(ctx, tx, v.Organization, object.ID)
		}
		current, err := current(ctx, tx, v.Workspace)
		if err != nil {
			return err
		}
		if refused = refusal(v, status, current, file, object); refused != nil {
			return s.keepRefused(ctx, tx, v, file, object, refused)
		}
		v, err = s.publish(ctx, tx, v, status, current, p)
		return err
	})
	if err != nil {
		return Version{}, err
	}
	if refused != nil {
		return Version{}, refused
	}
	return v, nil
}

// refusal says why v may not become current; nil when it may.
func refusal(v Version, status fence.Status, current Version, file File, object artifacts.Object) *fault.Error {
	switch {
	case file.malformed != nil:
		return file.malformed
	case status.Epoch != v.Epoch || !status.HeldBy(v.HolderKind, v.HolderID):
		return fault.New(fault.Conflict, "stale_fence", "The lock under which this upload was begun (epoch %d) is gone; the workspace is at epoch %d. The uploaded bytes are kept but are not the current state.", v.Epoch, status.Epoch)
	case status.RecoveryHeld:
		return fault.New(fault.RecoveryHeld, "workspace_recovery_pending", "%s ended before this upload was complete, and the workspace is held until it is recovered. The uploaded bytes are kept for the recovery.", status.Holder.ID)
	case v.Attempt != "" && (file.Serial != v.DeclaredSerial || (v.DeclaredLineage != "" && file.Lineage != v.DeclaredLineage)):
		return fault.New(fault.Invalid, "state_attribute_mismatch", "The file says serial %d and lineage %q, but serial %d and lineage %q were announced.", file.Serial, file.Lineage, v.DeclaredSerial, v.DeclaredLineage)
	case v.mustBeEncrypted && file.inPlain():
		return notEncrypted()
	case current.ID != v.Base:
		return fault.New(fault.Conflict, "state_moved", "Another state (serial %d) became current while this one was being uploaded. Read it and repeat the change on top of it.", current.Serial)
	case v.Forced:
		return nil
	}
	if refused := sameLineage(current, file.Serial, file.Lineage); refused != nil {
		return refused
	}
	return advances(current, file.Serial, object.SHA256 == current.SHA256)
}

// notEncrypted refuses a state in plain where the workspace insists on encryption:
// the setting client-encrypted of its owner, which workspaces keeps.
func notEncrypted() *fault.Error {
	return fault.New(fault.Invalid, "state_not_encrypted", "This workspace takes only a state that OpenTofu has encrypted, and this one is in plain. "+
		"Put an `encryption` block with a method for the state into the configuration and write the state again, or have the workspace's setting client-encrypted turned off.")
}

// keepRefused marks the upload as refused with its bytes as evidence. While the
// workspace is held for recovery the row stays pending: recovery decides about it.
func (s *Service) keepRefused(ctx context.Context, tx postgres.Tx, v Version, file File, object artifacts.Object, why *fault.Error) error {
	if why.Kind == fault.RecoveryHeld {
		kept, err := postgres.Exec(ctx, tx, Queries.Get("KeepUnpublished"), postgres.Args{"id": v.ID, "object_id": object.ID})
		if err != nil || kept == 1 {
			return err
		}
		return s.objects.Discard(ctx, tx, v.Organization, object.ID) // an earlier try left the same bytes
	}
	args := postgres.Args{
		"id": v.ID, "reason": why.Code, "object_id": object.ID, "size": object.Size, "sha256": object.SHA256, "serial": file.Serial, "lineage": file.Lineage,
	}
	details := map[string]any{"workspace": v.Workspace, "code": why.Code, "sha256": object.SHA256, "epoch": v.Epoch, "serial": file.Serial, "lineage": file.Lineage}
	if file.malformed != nil { // the bytes said nothing; what was declared stays
		args["serial"], args["lineage"] = nil, nil
		delete(details, "serial")
		delete(details, "lineage")
	}
	if _, err := postgres.Exec(ctx, tx, Queries.Get("Discard"), args); err != nil {
		return fmt.Errorf("discard %s: %w", v.ID, err)
	}
	return audit.Append(ctx, tx, audit.Entry{
		Organization: v.Organization, Actor: v.actor(), Action: "state.refused", ObjectKind: "state-version", ObjectID: string(v.ID), Details: details,
	})
}

// publication is what becomes current, sealed as far as the file alone decides.
type publication struct {
	File
	object    artifacts.Object
	sealer    artifacts.Sealer
	resources []byte
	outputs   sealedOutputs
}

func (s *Service) publish(ctx context.Context, tx postgres.Tx, v Version, status fence.Status, base Version, p publication) (Version, error) {
	if p.Encrypted { // before Finalize, which drops the declared ones
		declared, err := s.declaredOutputs(ctx, tx, v)
		if err != nil {
			return v, err
		}
		if p.outputs, err = sealOutputs(p.sealer, declared); err != nil {
			return v, err
		}
	}
	v, err := readVersion(ctx, tx, "Finalize", postgres.Args{
		"id": v.ID, "epoch": v.Epoch, "serial": p.Serial, "lineage": p.Lineage, "size": p.object.Size, "sha256": p.object.SHA256,
		"client_encrypted": p.Encrypted, "terraform_version": p.TerraformVersion, "resource_count": p.ResourceCount, "resources_sealed": p.resources, "object_id": p.object.ID,
	}, fmt.Errorf("finalize %s: it is not pending", v.ID)) // its row is locked: this cannot be
	if err != nil {
		return v, err
	}
	if err := p.outputs.insert(ctx, tx, v); err != nil {
		return v, err
	}
	if err := s.movePointer(ctx, tx, v.Organization, v.Workspace, v.ID, v.Base); err != nil {
		return v, err
	}
	details := map[string]any{
		"workspace": v.Workspace, "serial": v.Serial, "lineage": v.Lineage, "sha256": v.SHA256, "epoch": v.Epoch, "base": v.Base, "run": v.Run,
		"declared_serial": v.DeclaredSerial, "declared_lineage": v.DeclaredLineage,
		"emptied": base.ResourceCount > 0 && p.ResourceCount == 0 && !p.Encrypted,
	}
	if skipped := v.Serial - base.Serial - 1; v.Base != "" && skipped > 0 {
		details["skipped_serials"] = skipped // case 8: somebody may have set the serial by hand
	}
	action := "state.published"
	if v.Forced {
		if _, err := fence.Grow(ctx, tx, status.Token()); err != nil {
			return v, err
		}
		action = "state.forced"
	}
	v.Resources = p.Resources
	return v, audit.Append(ctx, tx, audit.Entry{Organization: v.Organization, Actor: v.actor(), Action: action, ObjectKind: "state-version", ObjectID: string(v.ID), Details: details})
}

func (s *Service) movePointer(ctx context.Context, tx postgres.Tx, organization ids.Organization, workspace ids.Workspace, id, base ids.StateVersion) error {
	return postgres.Later(ctx, tx, Queries.Get("MovePointer"), postgres.Args{
		"workspace_id": workspace, "organization_id": organization, "id": id, "base_version_id": base,
	}, func(rows int64) error {
		if rows != 1 {
			return fault.New(fault.Conflict, "state_moved", "Another state became current in the meantime. Read it and repeat the change on top of it.")
		}
		return nil
	})
}

// UploadJSON takes the JSON form of an announced version, which the client may
// send beside the raw one in any order; it is kept sealed and decides nothing (G-23).
// It is in plain also when the state is not: where the workspace insists on
// encryption it is taken, so that the client goes on, and not kept.
func (s *Service) UploadJSON(ctx context.Context, id ids.StateVersion, body io.Reader) error {
	v, intent, err := s.claim(ctx, id, artifacts.KindStateJSON)
	if err != nil {
		return err
	}
	if v.mustBeEncrypted {
		_, err := io.Copy(io.Discard, body)
		return err
	}
	object, err := s.objects.Store(ctx, intent, body, s.limit, io.Discard)
	if err != nil {
		return err
	}
	var refused *fault.Error
	err = postgres.InTx(context.WithoutCancel(ctx), s.db, "state.attach-json", func(tx postgres.Tx) (err error) {
		if err := s.objects.Confirm(ctx, tx, v.Organization, object); err != nil {
			return err
		}
		n, err := postgres.Exec(ctx, tx, Queries.Get("AttachJSON"), postgres.Args{"id": id, "json_object_id": object.ID})
		if err != nil || n == 1 {
			return err
		}
		if refused, err = s.keptJSON(ctx, tx, id, object); err != nil {
			return err
		}
		return s.objects.Discard(ctx, tx, v.Organization, object.ID)
	})
	if err != nil {
		s.objects.GiveUp(ctx, intent) // unless a row points to it
		return err
	}
	if refused != nil {
		return refused
	}
	return nil
}

// keptJSON says why a JSON form was not attached; nil when it need not be.
func (s *Service) keptJSON(ctx context.Context, tx postgres.Tx, id ids.StateVersion, object artifacts.Object) (*fault.Error, error) {
	v, err := s.load(ctx, tx, id)
	switch {
	case err != nil:
		return nil, err
	case v.Status == Discarded:
		return discarded(v), nil
	case v.mustBeEncrypted: // since the bytes began to arrive
		return nil, nil
	}
	had, err := s.objects.Info(ctx, tx, v.Organization, v.JSONObject)
	if err == nil && had.SHA256 != object.SHA256 {
		return fault.New(fault.Conflict, "already_uploaded", "The JSON form of this state version was already uploaded with other bytes."), nil
	}
	return nil, err
}
