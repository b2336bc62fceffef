package recovery

import (
	"context"
	"encoding/json"
	"time"

	"github.com/holdfast-run/holdfast/artifacts"
	"github.com/holdfast-run/holdfast/audit"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/fence"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/internal/failpoint"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/runs"
	"github.com/holdfast-run/holdfast/state"
)

// heldRun is a run and its workspace's fence, both locked.
type heldRun struct {
	run    runs.Run
	status fence.Status
}

// prepare records the recovery and leases it, before anything is copied (RC-37, RC-42).
func (s *Service) prepare(ctx context.Context, actor authz.Actor, run ids.Run, in Request, digest string) (op Operation, err error) {
	err = postgres.InTx(ctx, s.db, "recovery.prepare", func(tx postgres.Tx) error {
		held, err := s.allowed(ctx, tx, actor, run)
		if err != nil {
			return err
		}
		var found bool
		if op, found, err = s.open(ctx, tx, actor, held, in, digest); err != nil || found {
			return err // another request of the same kind was quicker
		}
		e, err := s.gather(ctx, tx, held.run, held.status)
		if err != nil {
			return err
		}
		if err := judge(e, in); err != nil {
			return err
		}
		if err := runs.BeginRecovery(ctx, tx, actor, &held.run); err != nil { // G-21
			return err
		}
		op, err = s.record(ctx, tx, actor, e, in, digest)
		return err
	})
	failpoint.Here("recovery.prepare.after-commit")
	return op, err
}

// judge compares what is asked for with the evidence.
func judge(e Evidence, in Request) error {
	if err := cited(e, in); err != nil {
		return err
	}
	if err := judgeUploads(e, in.Overrides); err != nil {
		return err
	}
	if refused := resolvable(e, in.Resolution, in.digestOfEmergency()); refused != nil {
		return refused
	}
	if !e.Writer.Proven && !in.ConfirmWriterNotProven {
		return confirm("confirm-writer-not-proven", "you have made sure that the writer has stopped, although its runner has not reported it")
	}
	return nil
}

func (r Request) digestOfEmergency() string {
	if r.Evidence.EmergencyDigest == nil {
		return ""
	}
	return *r.Evidence.EmergencyDigest
}

// resolvable tells whether the evidence allows the resolution; it is asked when the
// recovery is prepared and again when it is committed (RC-22).
func resolvable(e Evidence, resolution Resolution, emergency string) *fault.Error {
	if e.VerifyRefused != nil && e.VerifyRefused.Code == "authority_not_active" {
		return e.VerifyRefused
	}
	if resolution == CurrentStateVerified {
		return e.VerifyRefused
	}
	_, refused := importable(e, emergency)
	return refused
}

// cited refuses evidence that is not so.
func cited(e Evidence, in Request) error {
	mismatch := func(what, is string) error {
		return fault.New(fault.Conflict, "evidence_mismatch", "The %s is %q now. Read the evidence again.", what, is)
	}
	c := in.Evidence
	checksum := ""
	if e.Current != nil {
		checksum = e.Current.SHA256
	}
	switch {
	case c.CurrentState != nil && *c.CurrentState != versionID(e.Current):
		return mismatch("current state", string(versionID(e.Current)))
	case c.CurrentChecksum != nil && *c.CurrentChecksum != checksum:
		return mismatch("checksum of the current state", checksum)
	}
	if c.EmergencyDigest == nil && c.EmergencySize == nil {
		return nil
	}
	one, refused := choose(e, in.digestOfEmergency())
	switch {
	case refused != nil && in.Resolution == ImportEmergencyState:
		return refused
	case refused != nil:
		return mismatch("digest of the emergency state", "")
	case c.EmergencySize != nil && *c.EmergencySize != one.Size && *c.EmergencySize != one.NormalizedSize:
		return mismatch("size of the emergency state", itoa(one.Size))
	}
	return nil
}

// judgeUploads demands that no upload is on its way but those that are given up (RC-30…RC-33).
func judgeUploads(e Evidence, overrides []Override) error {
	open := unresolved(e)
	for _, o := range overrides {
		u, isOpen := open[o.Upload]
		switch {
		case isOpen && !u.ClaimedAt.Equal(o.ClaimedAt), !isOpen && len(open) > 0:
			return overrideMismatch(o, open)
		case !isOpen: // its bytes were found after all
			continue
		}
		delete(open, o.Upload)
	}
	for _, u := range e.Uploads {
		if _, isOpen := open[u.ID]; isOpen {
			return fault.New(fault.Conflict, "claimed_upload_unresolved", "The upload %s began at %s and its bytes are not in the object store. Bring them back, or give it up with claimed-upload-override (both values) and acknowledge-state-loss.",
				u.ID, u.ClaimedAt.UTC().Format(time.RFC3339Nano)).With("state-upload-id", u.ID).With("claimed-at", u.ClaimedAt.UTC().Format(time.RFC3339Nano))
		}
		if u.ClaimedAt == nil {
			return fault.New(fault.Conflict, "upload_not_expired", "The upload %s was announced and may still begin until %s. Repeat the request then.", u.ID, u.ExpiresAt.UTC().Format(time.RFC3339))
		}
	}
	return nil
}

func overrideMismatch(o Override, open map[ids.StateVersion]state.PendingUpload) error {
	text := ""
	for _, u := range open {
		text += " " + string(u.ID) + " began at " + u.ClaimedAt.UTC().Format(time.RFC3339Nano) + "."
	}
	return fault.New(fault.Conflict, "override_mismatch", "No upload %s that began at %s waits.%s", o.Upload, o.ClaimedAt.UTC().Format(time.RFC3339Nano), text)
}

func (s *Service) record(ctx context.Context, tx postgres.Tx, actor authz.Actor, e Evidence, in Request, digest string) (op Operation, err error) {
	id := ids.New[ids.Recovery]()
	args := postgres.Args{
		"id": id, "organization_id": e.Run.OrganizationID, "workspace_id": e.Run.WorkspaceID, "run_id": e.Run.ID, "resolution": string(in.Resolution),
		"principal_id": principal(actor), "lease_seconds": s.settings.Lease.Seconds(), "request_digest": digest, "reason": in.Reason, "fence_epoch": e.Epoch,
		"from_status": string(e.Run.DurableStatus), "current_version_id": versionID(e.Current), "current_sha256": "", "publications": len(e.Publications),
		"emergency_id": ids.EmergencyState(""), "emergency_sha256": "", "emergency_size": 0, "emergency_count": len(e.Emergency), "writer_proven": e.Writer.Proven,
		"target_version_id": versionID(e.Current), "target_sha256": "", "target_size": 0,
	}
	if e.Current != nil {
		args["current_sha256"], args["target_sha256"], args["target_size"] = e.Current.SHA256, e.Current.SHA256, e.Current.Size
	}
	if one, refused := choose(e, in.digestOfEmergency()); refused == nil {
		args["emergency_id"], args["emergency_sha256"], args["emergency_size"] = one.ID, one.SHA256, one.Size
		if in.Resolution == ImportEmergencyState {
			args["target_version_id"], args["target_sha256"], args["target_size"] = ids.New[ids.StateVersion](), one.NormalizedSHA256, one.NormalizedSize
		}
	}
	overrides := in.Overrides
	if len(unresolved(e)) == 0 || overrides == nil {
		overrides = []Override{} // none is needed
	}
	encoded, err := json.Marshal(overrides)
	if err != nil {
		return op, err
	}
	args["overrides"] = string(encoded)
	if op, err = postgres.One[Operation](ctx, tx, Queries.Get("OperationInsert"), args); err != nil {
		return op, err
	}
	return op, audit.Append(ctx, tx, audit.Entry{
		Organization: op.OrganizationID, Actor: actor, Action: "run.recovery_prepared", ObjectKind: "run", ObjectID: string(op.RunID), Reason: op.Reason, Details: op.details(),
	})
}

// details are what the audit log keeps of a recovery.
func (op Operation) details() map[string]any {
	return map[string]any{
		"workspace": op.WorkspaceID, "recovery": op.ID, "resolution": op.Resolution, "from_status": op.FromStatus, "current": op.CurrentVersionID, "current_sha256": op.CurrentSHA256,
		"publications": op.Publications, "emergency": op.EmergencyID, "emergency_sha256": op.EmergencySHA256, "emergency_size": op.EmergencySize,
		"writer_proven": op.WriterProven, "superseded_uploads": op.Overrides, "target": op.TargetVersionID, "target_sha256": op.TargetSHA256,
	}
}

// target makes sure that what will be current is there and whole: an imported state is
// copied once, and then, as any other, read to its end (RC-40). What was copied is never
// copied again (RC-41).
func (s *Service) target(ctx context.Context, op *Operation) (checked state.Checked, err error) {
	if op.Resolution == ImportEmergencyState && op.TargetObjectID == "" {
		if err := s.copyTarget(ctx, op); err != nil {
			return checked, err
		}
		failpoint.Here("recovery.copy.after-commit")
	}
	object := op.TargetObjectID
	if op.Resolution == CurrentStateVerified {
		if op.TargetVersionID == "" {
			return checked, nil
		}
		if object, err = s.objectOf(ctx, op.TargetVersionID); err != nil {
			return checked, err
		}
	}
	checked, err = s.state.Check(ctx, op.OrganizationID, object)
	switch {
	case err != nil && (fault.HasCode(err, "object_missing") || fault.HasCode(err, "sealed_object_corrupt") || fault.HasCode(err, "state_malformed") || fault.Is(err, fault.NotFound)):
		return checked, corrupt(*op).Because(err)
	case err != nil:
		return checked, err
	case checked.Object.SHA256 != op.TargetSHA256 || checked.Object.Size != op.TargetSize:
		return checked, corrupt(*op)
	}
	return checked, nil
}

func corrupt(op Operation) *fault.Error {
	if op.ID == "" { // nothing is recorded yet
		return fault.New(fault.Conflict, "recovery_target_corrupt", "The stored bytes of %s, which is current, are not whole any more. Restore the object from a backup of the store and repeat the request.", op.TargetVersionID)
	}
	return fault.New(fault.Conflict, "recovery_target_corrupt", "The stored bytes of %s, which recovery %s would make current, are not whole any more, and they are not replaced. "+
		"Restore the object from a backup of the store and repeat the request, or give the recovery up with abandon-operation.", op.TargetVersionID, op.ID)
}

func (s *Service) objectOf(ctx context.Context, id ids.StateVersion) (object ids.Object, err error) {
	err = postgres.InSnapshot(ctx, s.db, "recovery.object-of", func(tx postgres.Tx) error {
		v, err := s.row(ctx, tx, id)
		if err == nil {
			object = v.Object
		}
		return err
	})
	return object, err
}

// copyTarget makes the exact successor of an emergency state, as its digest was recorded
// when it was handed over.
func (s *Service) copyTarget(ctx context.Context, op *Operation) error {
	e, err := s.emergency(ctx, *op)
	if err != nil {
		return err
	}
	source, err := s.state.Check(ctx, e.OrganizationID, e.ObjectID)
	if err == nil && source.Object.SHA256 != e.SHA256 {
		err = fault.New(fault.Internal, "sealed_object_corrupt", "The bytes are others.")
	}
	if fault.HasCode(err, "object_missing") || fault.HasCode(err, "sealed_object_corrupt") {
		return fault.New(fault.Conflict, "recovery_source_corrupt", "The stored bytes of emergency state %s are not whole any more. Restore the object from a backup of the store and repeat the request, or give the recovery up with abandon-operation.", e.ID).Because(err)
	}
	if err != nil {
		return err
	}
	body, _, err := s.objects.Open(ctx, e.OrganizationID, e.ObjectID)
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }()
	object, err := s.objects.Put(ctx, artifacts.Spec{
		Organization: e.OrganizationID, Workspace: e.WorkspaceID, Kind: artifacts.KindState, Run: e.RunID, Serial: *e.NormalizedSerial, Lineage: e.Lineage, Epoch: op.FenceEpoch,
	}, source.File.WithSerial(body, *e.NormalizedSerial), s.settings.StateLimit+32) // a serial may have more digits than it had
	if err != nil {
		return err
	}
	failpoint.Here("recovery.copy.after-put")
	err = postgres.InTx(ctx, s.db, "recovery.target-stored", func(tx postgres.Tx) error {
		stored, err := postgres.One[Operation](ctx, tx, Queries.Get("TargetStored"), postgres.Args{"id": op.ID, "owner_epoch": op.OwnerEpoch, "target_object_id": object.ID})
		if postgres.NoRow(err) { // somebody was quicker, or has taken over
			stored, err = postgres.One[Operation](ctx, tx, Queries.Get("OperationLock"), postgres.Args{"id": op.ID})
			if err == nil && (stored.Status == Abandoned || stored.OwnerEpoch != op.OwnerEpoch) {
				err = fenced(stored)
			}
		}
		if err == nil {
			*op = stored
		}
		return err
	})
	if err != nil || op.TargetObjectID != object.ID {
		s.discard(ctx, e.OrganizationID, object.ID)
	}
	return err
}

func (s *Service) emergency(ctx context.Context, op Operation) (e Emergency, err error) {
	err = postgres.InSnapshot(ctx, s.db, "recovery.emergency", func(tx postgres.Tx) error {
		list, err := emergencyOfRun(ctx, tx, op.RunID)
		for _, one := range list {
			if one.ID == op.EmergencyID {
				e = one
			}
		}
		return err
	})
	return e, err
}
