package state

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/holdfast-run/holdfast/artifacts"
	"github.com/holdfast-run/holdfast/audit"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/fence"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/internal/failpoint"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/workspaces"
)

//go:embed queries.sql
var queriesSQL string

// Queries are the package's statements; tests check them against the schema.
var Queries = postgres.ParseQueries(queriesSQL)

// UploadLifetime is how long an announced upload may begin (G-28).
const UploadLifetime = 15 * time.Minute

// Service publishes and reads state versions.
type Service struct {
	db      *postgres.DB
	objects *artifacts.Service
}

// New makes the service.
func New(db *postgres.DB, objects *artifacts.Service) *Service {
	return &Service{db: db, objects: objects}
}

// Create announces an upload. Serial, Lineage and MD5 (lower hex of the raw bytes)
// are what the client says; Lineage may be empty. Outputs is the JSON object that
// the client sends beside a state (name → {value, type, sensitive}); it serves only
// for a state that the client encrypted.
type Create struct {
	Serial  int64
	Lineage string
	MD5     string
	Force   bool
	Outputs []byte
}

// Begin announces a state version under the lock that the actor holds (ST-02,
// ST-15). The exact repeat under the same lock answers the same version and
// created=false (amendment 15).
// Errors: Conflict "workspace_not_locked", "stale_fence", "stale_serial",
// "lineage_mismatch"; RecoveryHeld.
func (s *Service) Begin(ctx context.Context, actor authz.Actor, workspace ids.Workspace, in Create) (v Version, created bool, err error) {
	err = postgres.InTx(ctx, s.db, "state.begin", func(tx postgres.Tx) error {
		w, err := workspaces.Allowed(ctx, tx, actor, authz.StateWrite, workspace)
		if err != nil {
			return err
		}
		status, err := fence.Lock(ctx, tx, workspace)
		if err != nil {
			return err
		}
		if err := mayPublish(actor, status); err != nil {
			return err
		}
		if again, err := s.retry(ctx, tx, status, in); err != nil || again.ID != "" {
			v, created = again, false
			return err
		}
		current, err := s.current(ctx, tx, workspace)
		if err != nil {
			return err
		}
		if in.Force && current.ID != "" {
			if err := mayForce(actor, w); err != nil {
				return err
			}
		} else if err := succeeds(current, in.Serial, in.Lineage); err != nil {
			return err
		}
		v, err = s.insert(ctx, tx, actor, w, status, current.ID, in)
		created = true
		return err
	})
	return v, created, err
}

// mayPublish demands that the actor holds the fence now: a user by its own lock, an
// attempt by its run's, with the epoch it was given.
func mayPublish(actor authz.Actor, status fence.Status) error {
	if actor.Kind == authz.AttemptActor {
		if status.RecoveryHeld || !status.HeldBy(fence.Run, string(actor.Run)) || status.Epoch != actor.Epoch {
			return fault.New(fault.Conflict, "stale_fence", "This run no longer holds the workspace: its lock (epoch %d) has been taken away. The state was not accepted; it is left in errored.tfstate.", actor.Epoch)
		}
		return nil
	}
	if err := status.CheckRecovery(); err != nil {
		return err
	}
	if !status.Held() {
		return fault.New(fault.Conflict, "workspace_not_locked", "The workspace is not locked. Lock it, read the current state, and upload the new one while you hold the lock.")
	}
	if !status.HeldBy(fence.User, string(actor.User)) {
		return fault.New(fault.Conflict, "workspace_locked", "The workspace %s, and only the holder of the lock may write its state.", status.Describe())
	}
	return nil
}

// mayForce holds ST-22: replacing history takes an admin's right and a user's lock.
func mayForce(actor authz.Actor, w workspaces.Workspace) error {
	if actor.Kind != authz.UserActor {
		return fault.New(fault.Forbidden, "forbidden", "A run may not force a state. Lock the workspace as its admin and push the state yourself.")
	}
	return authz.Allow(actor, authz.StateForce, workspaces.Object(w))
}

// succeeds holds ST-16: the same lineage, and a serial above the current one. An
// empty lineage is not compared (it was not declared).
func succeeds(current Version, serial int64, lineage string) error {
	if current.ID == "" {
		return nil
	}
	if lineage != "" && current.Lineage != lineage {
		return fault.New(fault.Conflict, "lineage_mismatch",
			"The workspace holds a state of lineage %q (serial %d), and the uploaded one is of lineage %q (serial %d): they describe different infrastructure. "+
				"To go back to an earlier state use a rollback of its state version.", current.Lineage, current.Serial, lineage, serial)
	}
	if serial <= current.Serial {
		return fault.New(fault.Conflict, "stale_serial",
			"The current state has serial %d and the uploaded one has serial %d, which is not newer. Read the current state and repeat the change on top of it; "+
				"to go back to an earlier state use a rollback of its state version.", current.Serial, serial)
	}
	return nil
}

func (s *Service) retry(ctx context.Context, tx postgres.Tx, status fence.Status, in Create) (Version, error) {
	id, err := postgres.Value[ids.StateVersion](ctx, tx, Queries.Get("Retry"), postgres.Args{
		"workspace_id": status.Workspace, "epoch": status.Epoch, "declared_serial": in.Serial, "declared_md5": in.MD5,
	})
	if postgres.NoRow(err) {
		return Version{}, nil
	}
	if err != nil {
		return Version{}, fmt.Errorf("look for an earlier create: %w", err)
	}
	return s.load(ctx, tx, id)
}

func (s *Service) insert(ctx context.Context, tx postgres.Tx, actor authz.Actor, w workspaces.Workspace, status fence.Status, base ids.StateVersion, in Create) (Version, error) {
	id := ids.New[ids.StateVersion]()
	var sealed []byte
	if len(in.Outputs) > 0 {
		var err error
		if sealed, err = s.objects.SealValue(ctx, tx, w.Organization, outputsLabel(id), in.Outputs); err != nil {
			return Version{}, err
		}
	}
	args := postgres.Args{
		"id": id, "organization_id": w.Organization, "workspace_id": w.ID, "epoch": status.Epoch,
		"holder_kind": string(status.Holder.Kind), "holder_id": status.Holder.ID,
		"declared_serial": in.Serial, "declared_lineage": in.Lineage, "declared_md5": in.MD5, "declared_outputs_sealed": sealed, "forced": in.Force && base != "",
		"base_version_id": base, "run_id": actor.Run, "attempt_id": actor.Attempt, "sandbox_id": actor.Sandbox, "created_by": actor.User,
		"lifetime_seconds": UploadLifetime.Seconds(),
	}
	if _, err := postgres.Exec(ctx, tx, Queries.Get("Insert"), args); err != nil {
		return Version{}, fmt.Errorf("insert the state version: %w", err)
	}
	return s.load(ctx, tx, id)
}

// Upload takes the raw bytes of an announced version and makes it current. The
// caller has proved by a link that it may upload; whether it still may publish is
// decided here, by the fence (ST-17, ST-19). Bytes that are refused are kept.
// The same bytes again answer the finalized version; other bytes are a Conflict.
func (s *Service) Upload(ctx context.Context, id ids.StateVersion, body io.Reader) (Version, error) {
	v, err := s.claim(ctx, id, "ClaimRaw")
	if err != nil {
		return Version{}, err
	}
	if v.Status == Finalized {
		return repeated(v, body)
	}
	file, object, err := s.store(ctx, v, body)
	if err != nil {
		return Version{}, err
	}
	failpoint.Here("state.upload.after-put")
	if object.MD5 != v.DeclaredMD5 {
		return Version{}, fault.New(fault.Invalid, "digest_mismatch", "The uploaded bytes have the MD5 %s, but %s was announced. Nothing was changed; upload the file again.", object.MD5, v.DeclaredMD5)
	}
	return s.finalize(context.WithoutCancel(ctx), id, file, object)
}

// repeated answers an upload of a version that is final: the same bytes are a
// lost answer asked for again, others are refused.
func repeated(v Version, body io.Reader) (Version, error) {
	hash := sha256.New()
	if _, err := io.Copy(hash, body); err != nil {
		return Version{}, err
	}
	return again(v, hex.EncodeToString(hash.Sum(nil)))
}

func (s *Service) claim(ctx context.Context, id ids.StateVersion, query string) (v Version, err error) {
	err = postgres.InTx(ctx, s.db, "state.claim", func(tx postgres.Tx) error {
		if _, err := postgres.Exec(ctx, tx, Queries.Get(query), postgres.Args{"id": id}); err != nil {
			return err
		}
		v, err = s.load(ctx, tx, id)
		return err
	})
	if err == nil && v.Status == Discarded {
		return v, fault.New(fault.Conflict, "upload_discarded", "This upload was refused before (%s). Lock the workspace, read the current state and upload again.", v.DiscardReason)
	}
	return v, err
}

// store seals the bytes while reading serial, lineage, outputs and resources out
// of them. Bytes that are no state file come back with file.malformed set.
func (s *Service) store(ctx context.Context, v Version, body io.Reader) (File, artifacts.Object, error) {
	pr, pw := io.Pipe()
	var file File
	parsed := make(chan struct{})
	go func() {
		defer close(parsed)
		var err error
		if file, err = ReadFile(pr); err != nil {
			file = File{malformed: err}
		}
		_, _ = io.Copy(io.Discard, pr) // what follows a syntax error is still hashed and kept
	}()
	object, err := s.objects.Put(ctx, artifacts.Spec{
		Organization: v.Organization, Workspace: v.Workspace, Kind: artifacts.KindState, Run: v.Run,
		Serial: v.DeclaredSerial, Lineage: v.DeclaredLineage, Epoch: v.Epoch,
	}, io.TeeReader(body, pw), 0)
	_ = pw.CloseWithError(closing(err))
	<-parsed
	if err != nil {
		return File{}, artifacts.Object{}, err
	}
	if !file.HasSerial && file.Encrypted {
		file.Serial, file.HasSerial = v.DeclaredSerial, true // early OpenTofu left both out of the envelope
	}
	if !file.HasLineage && file.Encrypted {
		file.Lineage, file.HasLineage = v.DeclaredLineage, true
	}
	if file.malformed == nil && (!file.HasSerial || !file.HasLineage) {
		file.malformed = fault.New(fault.Invalid, "state_malformed", "The uploaded file names no serial or no lineage, so it is not a state file. Upload the file as `tofu` wrote it.")
	}
	return file, object, nil
}

func closing(err error) error {
	if err != nil {
		return err
	}
	return io.EOF
}

func again(v Version, sha256 string) (Version, error) {
	if sha256 == v.SHA256 {
		return v, nil
	}
	return Version{}, fault.New(fault.Conflict, "already_finalized", "This state version was already uploaded with other bytes; it does not change. Announce a new one.")
}

// finalize moves the pointer, or refuses and keeps the bytes. Everything that
// decides is read under the lineage lock.
func (s *Service) finalize(ctx context.Context, id ids.StateVersion, file File, object artifacts.Object) (v Version, err error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	var refused error
	err = postgres.InTx(ctx, s.db, "state.finalize", func(tx postgres.Tx) error {
		refused = nil
		if v, err = s.load(ctx, tx, id); err != nil {
			return err
		}
		status, err := fence.Lock(ctx, tx, v.Workspace)
		if err != nil {
			return err
		}
		if v, err = s.lockVersion(ctx, tx, id); err != nil {
			return err
		}
		switch v.Status {
		case Finalized:
			v, refused = again(v, object.SHA256)
			return nil
		case Discarded:
			refused = fault.New(fault.Conflict, "upload_discarded", "This upload was refused before (%s).", v.DiscardReason)
			return nil
		}
		if refused = s.check(ctx, tx, v, status, file); refused != nil {
			return s.keepRefused(ctx, tx, v, file, object, refused)
		}
		return s.publish(ctx, tx, &v, status, file, object)
	})
	if err == nil {
		err = refused
	}
	return v, err
}

// check answers why v may not become current, or nil.
func (s *Service) check(ctx context.Context, tx postgres.Tx, v Version, status fence.Status, file File) error {
	if file.malformed != nil {
		return file.malformed
	}
	if status.RecoveryHeld {
		return fault.New(fault.RecoveryHeld, "workspace_recovery_pending", "%s ended before this upload was complete, and the workspace is held until it is recovered. The uploaded bytes are kept for the recovery.", status.Holder.ID)
	}
	if status.Epoch != v.Epoch || !status.HeldBy(v.HolderKind, v.HolderID) {
		return fault.New(fault.Conflict, "stale_fence", "The lock under which this upload was begun (epoch %d) is gone; the workspace is at epoch %d. The uploaded bytes are kept but are not the current state.", v.Epoch, status.Epoch)
	}
	if v.Attempt != "" && (file.Serial != v.DeclaredSerial || (v.DeclaredLineage != "" && file.Lineage != v.DeclaredLineage)) {
		return fault.New(fault.Invalid, "state_attribute_mismatch", "The file says serial %d and lineage %q, but serial %d and lineage %q were announced.", file.Serial, file.Lineage, v.DeclaredSerial, v.DeclaredLineage)
	}
	current, err := s.current(ctx, tx, v.Workspace)
	if err != nil {
		return err
	}
	if current.ID != v.Base {
		return fault.New(fault.Conflict, "state_moved", "Another state (serial %d) became current while this one was being uploaded. Read it and repeat the change on top of it.", current.Serial)
	}
	if v.Forced {
		return nil
	}
	return succeeds(current, file.Serial, file.Lineage)
}

// keepRefused marks the upload as refused with its bytes as evidence. While the
// workspace is held for recovery the row stays pending: recovery decides about it.
func (s *Service) keepRefused(ctx context.Context, tx postgres.Tx, v Version, file File, object artifacts.Object, refused error) error {
	var why *fault.Error
	if !errors.As(refused, &why) {
		return refused // not a refusal: the database failed
	}
	if why.Kind == fault.RecoveryHeld {
		_, err := postgres.Exec(ctx, tx, Queries.Get("KeepUnpublished"), postgres.Args{"id": v.ID, "object_id": object.ID})
		return err
	}
	_, err := postgres.Exec(ctx, tx, Queries.Get("Discard"), postgres.Args{
		"id": v.ID, "reason": why.Code, "object_id": object.ID, "size": object.Size, "sha256": object.SHA256, "serial": file.Serial, "lineage": file.Lineage,
	})
	if err != nil {
		return err
	}
	return audit.Append(ctx, tx, audit.Entry{
		Organization: v.Organization, Actor: v.actor(), Action: "state.refused", ObjectKind: "state-version", ObjectID: string(v.ID),
		Details: map[string]any{"workspace": v.Workspace, "code": why.Code, "serial": file.Serial, "lineage": file.Lineage, "sha256": object.SHA256, "epoch": v.Epoch},
	})
}

func (s *Service) publish(ctx context.Context, tx postgres.Tx, v *Version, status fence.Status, file File, object artifacts.Object) error {
	resources, err := s.sealResources(ctx, tx, v.Organization, v.ID, file.Resources)
	if err != nil {
		return err
	}
	previous, err := postgres.Value[int](ctx, tx, Queries.Get("ResourceCount"), postgres.Args{"id": v.Base})
	if err != nil {
		return err
	}
	outputs := outputsOf(*v, file)
	n, err := postgres.Exec(ctx, tx, Queries.Get("Finalize"), postgres.Args{
		"id": v.ID, "epoch": v.Epoch, "serial": file.Serial, "lineage": file.Lineage, "size": object.Size, "sha256": object.SHA256,
		"client_encrypted": file.Encrypted, "terraform_version": file.TerraformVersion, "resource_count": len(file.Resources), "resources_sealed": resources, "object_id": object.ID,
	})
	if err != nil || n != 1 {
		return fmt.Errorf("finalize %s: %d rows: %w", v.ID, n, err)
	}
	if err := s.sealOutputs(ctx, tx, *v, outputs); err != nil {
		return err
	}
	if err := s.movePointer(ctx, tx, v.Organization, v.Workspace, v.ID, v.Base); err != nil {
		return err
	}
	details := map[string]any{
		"workspace": v.Workspace, "serial": file.Serial, "lineage": file.Lineage, "sha256": object.SHA256, "epoch": v.Epoch, "base": v.Base, "run": v.Run,
		"declared_serial": v.DeclaredSerial, "declared_lineage": v.DeclaredLineage,
		"emptied": previous > 0 && len(file.Resources) == 0 && !file.Encrypted,
	}
	action := "state.published"
	if v.Forced {
		if _, err := fence.Grow(ctx, tx, status.Token()); err != nil {
			return err
		}
		action = "state.forced"
	}
	if err := audit.Append(ctx, tx, audit.Entry{Organization: v.Organization, Actor: v.actor(), Action: action, ObjectKind: "state-version", ObjectID: string(v.ID), Details: details}); err != nil {
		return err
	}
	*v, err = s.load(ctx, tx, v.ID)
	return err
}

func (s *Service) movePointer(ctx context.Context, tx postgres.Tx, organization ids.Organization, workspace ids.Workspace, id, base ids.StateVersion) error {
	n, err := postgres.Exec(ctx, tx, Queries.Get("MovePointer"), postgres.Args{
		"workspace_id": workspace, "organization_id": organization, "id": id, "base_version_id": base,
	})
	if err != nil {
		return fmt.Errorf("move the state pointer: %w", err)
	}
	if n != 1 {
		return fault.New(fault.Conflict, "state_moved", "Another state became current in the meantime. Read it and repeat the change on top of it.")
	}
	return nil
}

// UploadJSON takes the JSON form of an announced version, which the client may
// send beside the raw one in any order; it is kept sealed and decides nothing (G-23).
func (s *Service) UploadJSON(ctx context.Context, id ids.StateVersion, body io.Reader) error {
	v, err := s.claim(ctx, id, "ClaimJSON")
	if err != nil {
		return err
	}
	object, err := s.objects.Put(ctx, artifacts.Spec{
		Organization: v.Organization, Workspace: v.Workspace, Kind: artifacts.KindStateJSON, Run: v.Run,
		Serial: v.DeclaredSerial, Lineage: v.DeclaredLineage, Epoch: v.Epoch,
	}, body, 0)
	if err != nil {
		return err
	}
	return postgres.InTx(ctx, s.db, "state.attach-json", func(tx postgres.Tx) error {
		n, err := postgres.Exec(ctx, tx, Queries.Get("AttachJSON"), postgres.Args{"id": id, "json_object_id": object.ID})
		if err != nil || n == 1 {
			return err
		}
		earlier, err := s.load(ctx, tx, id)
		if err != nil {
			return err
		}
		had, err := s.objects.Info(ctx, tx, earlier.Organization, earlier.JSONObject)
		if err != nil {
			return err
		}
		if had.SHA256 != object.SHA256 {
			return fault.New(fault.Conflict, "already_uploaded", "The JSON form of this state version was already uploaded with other bytes.")
		}
		return nil
	})
}

// Rollback makes an earlier version current again as a new version with the same
// bytes, under the user's lock. The earlier one and all others stay.
func (s *Service) Rollback(ctx context.Context, actor authz.Actor, workspace ids.Workspace, to ids.StateVersion) (v Version, err error) {
	err = postgres.InTx(ctx, s.db, "state.rollback", func(tx postgres.Tx) error {
		w, err := workspaces.Allowed(ctx, tx, actor, authz.StateWrite, workspace)
		if err != nil {
			return err
		}
		if actor.Kind != authz.UserActor {
			return fault.New(fault.Forbidden, "forbidden", "Only a user may roll a state back.")
		}
		status, err := fence.Lock(ctx, tx, workspace)
		if err != nil {
			return err
		}
		if err := mayPublish(actor, status); err != nil {
			return err
		}
		current, err := s.current(ctx, tx, workspace)
		if err != nil {
			return err
		}
		old, err := s.load(ctx, tx, to)
		if err != nil || old.Workspace != workspace {
			return fault.Missing("state version", string(to))
		}
		if old.Status != Finalized {
			return fault.New(fault.Conflict, "not_finalized", "State version %s was never current, so nothing can be rolled back to it.", to)
		}
		id := ids.New[ids.StateVersion]()
		resources, err := s.sealResources(ctx, tx, old.Organization, id, old.Resources)
		if err != nil {
			return err
		}
		n, err := postgres.Exec(ctx, tx, Queries.Get("InsertRollback"), postgres.Args{
			"resources_sealed": resources,
			"id":               id, "epoch": status.Epoch, "holder_kind": string(status.Holder.Kind), "holder_id": status.Holder.ID,
			"base_version_id": current.ID, "created_by": actor.User, "rollback_of_id": to, "workspace_id": workspace,
		})
		if err != nil || n != 1 {
			return fmt.Errorf("copy %s: %d rows: %w", to, n, err)
		}
		outputs, err := s.outputs(ctx, tx, old)
		if err != nil {
			return err
		}
		files := make([]FileOutput, len(outputs))
		for i, o := range outputs {
			files[i] = o.FileOutput
		}
		if v, err = s.load(ctx, tx, id); err != nil {
			return err
		}
		if err := s.sealOutputs(ctx, tx, v, files); err != nil {
			return err
		}
		if err := s.movePointer(ctx, tx, w.Organization, workspace, id, current.ID); err != nil {
			return err
		}
		return audit.Append(ctx, tx, audit.Entry{
			Organization: w.Organization, Actor: actor, Action: "state.rolled-back", ObjectKind: "state-version", ObjectID: string(id),
			Details: map[string]any{"workspace": workspace, "to": to, "from": current.ID, "serial": v.Serial, "lineage": v.Lineage},
		})
	})
	return v, err
}

func outputsLabel(id ids.StateVersion) string   { return "state-outputs/" + string(id) }
func resourcesLabel(id ids.StateVersion) string { return "state-resources/" + string(id) }

func (s *Service) sealResources(ctx context.Context, tx postgres.Tx, organization ids.Organization, id ids.StateVersion, resources []Resource) ([]byte, error) {
	encoded, err := json.Marshal(resources)
	if err != nil {
		return nil, err
	}
	return s.objects.SealValue(ctx, tx, organization, resourcesLabel(id), encoded)
}
