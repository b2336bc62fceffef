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
	c, err := s.claim(ctx, id, artifacts.KindState)
	if err != nil {
		return Version{}, err
	}
	if !c.stored {
		return s.repeated(ctx, c.Version, body)
	}
	p, err := s.store(ctx, c, body)
	if err != nil {
		return Version{}, err
	}
	failpoint.Here("state.upload.after-put")
	if p.object.MD5 != c.DeclaredMD5 {
		s.objects.GiveUp(ctx, c.intent)
		return Version{}, fault.New(fault.Invalid, "digest_mismatch", "The uploaded bytes have the MD5 %s, but %s was announced. Nothing was changed; upload the file again.", p.object.MD5, c.DeclaredMD5)
	}
	published, err := s.finalize(context.WithoutCancel(ctx), c.Version, p)
	if err != nil {
		s.objects.GiveUp(ctx, c.intent) // unless a row points to it
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

// store seals the bytes while reading serial, lineage, outputs and resources out of them,
// and seals these as well while the store takes the bytes. Bytes that are no state file come
// back with malformed set.
func (s *Service) store(ctx context.Context, c *claimed, body io.Reader) (publication, error) {
	pr, pw := io.Pipe()
	p := publication{sealer: c.intent.Sealer()}
	var unread error
	ready := make(chan struct{})
	go func() {
		defer close(ready)
		defer func() { _ = pr.Close() }() // whoever writes waits for no reader that has gone
		defer fault.Caught(&unread)
		p.File, unread = ReadFile(pr)
		_, _ = io.Copy(io.Discard, pr) // what follows a syntax error is still hashed and kept
		if unread == nil || errors.As(unread, &p.malformed) {
			p.File = p.completed(c.Version)
			unread = p.seal(c.ID)
		}
	}()
	object, err := s.objects.Store(ctx, c.intent, body, s.limit, pw)
	_ = pw.CloseWithError(err) // without one it is closed already
	<-ready
	if err == nil && unread != nil {
		s.objects.GiveUp(ctx, c.intent)
		err = unread
	}
	p.object = object
	return p, err
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
func (s *Service) finalize(ctx context.Context, begun Version, p publication) (v Version, err error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	var refused *fault.Error
	err = postgres.InTx(ctx, s.db, "state.finalize", func(tx postgres.Tx) error {
		var status fence.Status
		if err := errors.Join(fence.LockLater(ctx, tx, begun.Workspace, &status), lockLater(ctx, tx, begun.ID, &v)); err != nil {
			return err
		}
		current, err := current(ctx, tx, begun.Workspace)
		if err != nil {
			return err
		}
		if err := s.objects.Confirm(ctx, tx, v.Organization, p.object); err != nil {
			return err
		}
		switch v.Status {
		case Finalized: // by another request with the same version
			if refused = again(v, p.object.SHA256); refused == nil {
				if v, err = s.withResources(ctx, tx, v); err != nil {
					return err
				}
			}
			return s.objects.Discard(ctx, tx, v.Organization, p.object.ID)
		case Discarded:
			refused = discarded(v)
			return s.objects.Discard(ctx, tx, v.Organization, p.object.ID)
		}
		if refused = refusal(v, status, current, p.File, p.object); refused != nil {
			return s.keepRefused(ctx, tx, v, p.File, p.object, refused)
		}
		return s.publish(ctx, tx, &v, status, current, p)
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

// publication is what becomes current. All but object is read from the bytes and sealed
// before they are all stored.
type publication struct {
	File
	object    artifacts.Object
	sealer    artifacts.Sealer
	resources []byte
	outputs   sealedOutputs
}

// seal seals what the file shows for the rows of version id.
func (p *publication) seal(id ids.StateVersion) (err error) {
	if p.resources, err = sealResources(p.sealer, id, p.Resources); err == nil {
		p.outputs, err = sealOutputs(p.sealer, p.shownOutputs())
	}
	return err
}

// publish makes v current. It writes without waiting for answers: v is as published once
// the transaction has committed.
func (s *Service) publish(ctx context.Context, tx postgres.Tx, v *Version, status fence.Status, base Version, p publication) error {
	if p.Encrypted { // before Finalize, which drops the declared ones
		declared, err := s.declaredOutputs(ctx, tx, *v)
		if err != nil {
			return err
		}
		if p.outputs, err = sealOutputs(p.sealer, declared); err != nil {
			return err
		}
	}
	begun := *v
	err := postgres.LaterOne(ctx, tx, Queries.Get("Finalize"), postgres.Args{
		"id": begun.ID, "epoch": begun.Epoch, "serial": p.Serial, "lineage": p.Lineage, "size": p.object.Size, "sha256": p.object.SHA256,
		"client_encrypted": p.Encrypted, "terraform_version": p.TerraformVersion, "resource_count": p.ResourceCount, "resources_sealed": p.resources, "object_id": p.object.ID,
	}, func(row versionRow, found bool) error {
		if !found {
			return fmt.Errorf("finalize %s: it is not pending", begun.ID) // its row is locked: this cannot be
		}
		*v = row.version()
		v.Resources = p.Resources
		return nil
	})
	if err != nil {
		return err
	}
	if err := p.outputs.insert(ctx, tx, begun); err != nil {
		return err
	}
	if err := s.movePointer(ctx, tx, begun.Organization, begun.Workspace, begun.ID, begun.Base); err != nil {
		return err
	}
	details := map[string]any{
		"workspace": begun.Workspace, "serial": p.Serial, "lineage": p.Lineage, "sha256": p.object.SHA256, "epoch": begun.Epoch, "base": begun.Base, "run": begun.Run,
		"declared_serial": begun.DeclaredSerial, "declared_lineage": begun.DeclaredLineage,
		"emptied": base.ResourceCount > 0 && p.ResourceCount == 0 && !p.Encrypted,
	}
	if skipped := p.Serial - base.Serial - 1; begun.Base != "" && skipped > 0 {
		details["skipped_serials"] = skipped // case 8: somebody may have set the serial by hand
	}
	action := "state.published"
	if begun.Forced {
		if _, err := fence.Grow(ctx, tx, status.Token()); err != nil {
			return err
		}
		action = "state.forced"
	}
	return audit.Append(ctx, tx, audit.Entry{
		Organization: begun.Organization, Actor: begun.actor(), Action: action, ObjectKind: "state-version", ObjectID: string(begun.ID), Details: details,
	})
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
	c, err := s.claim(ctx, id, artifacts.KindStateJSON)
	if err != nil {
		return err
	}
	if !c.stored {
		_, err := io.Copy(io.Discard, body)
		return err
	}
	v := c.Version
	object, err := s.objects.Store(ctx, c.intent, body, s.limit, io.Discard)
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
		s.objects.GiveUp(ctx, c.intent) // unless a row points to it
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
