package recovery

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-run/holdfast/audit"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/runs"
	"github.com/holdfast-run/holdfast/state"
)

// Status of a recovery.
type Status string

// The statuses.
const (
	Prepared  Status = "prepared"  // recorded, and leased to its principal
	Committed Status = "committed" // the workspace is free
	Abandoned Status = "abandoned" // given up for another one; it is never read as a run's own
)

// Operation is one recovery of a run. What it makes current is fixed when it is prepared,
// whoever completes it.
type Operation struct {
	ID                    ids.Recovery
	OrganizationID        ids.Organization
	WorkspaceID           ids.Workspace
	RunID                 ids.Run
	Status                Status
	Resolution            Resolution
	PrincipalID           ids.User // or PolicyPrincipal
	OwnerEpoch            int
	LeaseExpiresAt        time.Time
	LeaseRemainingSeconds int // 0…900, by the database's clock (RC-52)
	LeaseLive             bool
	Takeovers             []TakeOver
	RequestDigest         string
	Reason                string
	FenceEpoch            int64
	FromStatus            runs.Status
	CurrentVersionID      ids.StateVersion // empty: there was no state
	CurrentSHA256         string           `db:"current_sha256"`
	Publications          int
	EmergencyID           ids.EmergencyState
	EmergencySHA256       string `db:"emergency_sha256"`
	EmergencySize         int64
	EmergencyCount        int // all that there were
	WriterProven          bool
	Overrides             []Override
	TargetVersionID       ids.StateVersion // empty: there is no state
	TargetSHA256          string           `db:"target_sha256"`
	TargetSize            int64
	TargetObjectID        ids.Object
	PreparedAt            time.Time
	AuthorityLost         bool `db:"-"` // of a run that the database had lost: it was never prepared
	CommittedAt           *time.Time
	ReservationEpoch      int64 // of the fence while it was committed
}

// TakeOver is one change of hands.
type TakeOver struct {
	From ids.User  `json:"from"`
	To   ids.User  `json:"to"`
	At   time.Time `json:"at"`
}

// mostTakeOvers bounds the history that a recovery keeps; all are in the audit log.
const mostTakeOvers = 20

// operationOf gives the recovery of a run that is prepared or committed.
func operationOf(ctx context.Context, tx postgres.Tx, run ids.Run) (op Operation, found bool, err error) {
	op, err = postgres.One[Operation](ctx, tx, Queries.Get("OperationOfRun"), postgres.Args{"run_id": run})
	if postgres.NoRow(err) {
		return op, false, nil
	}
	if err != nil {
		return op, false, fmt.Errorf("read the recovery of %s: %w", run, err)
	}
	return op, true, nil
}

// Recover frees the workspace of a held run: it records what will be done, copies the
// state where one is imported, reads it to its end, and then does it in one transaction
// (RC-37…RC-61). Nothing is applied again. The exact repeat goes on where the first one
// stopped, and after the end gives its result, without the object store (RC-38, RC-39).
//
// Errors: NotFound; Forbidden without both rights or a recent step-up; Conflict
// "not_held", "authority_lost"; Invalid "evidence_required", "invalid_resolution", "reason_required",
// "confirmation_required", "emergency_state_missing", "emergency_state_ambiguous",
// "emergency_state_not_successor"; Conflict "provenance_mismatch",
// "publication_chain_invalid", "predecessor_moved", "authority_not_active",
// "evidence_mismatch", "upload_not_expired", "claimed_upload_unresolved",
// "override_mismatch", "recovery_in_progress", "recovery_lease_held",
// "takeover_confirmation_required", "recovery_fenced", "recovery_target_corrupt",
// "recovery_source_corrupt"; Unavailable while the object store is down: the recovery
// stays prepared.
func (s *Service) Recover(ctx context.Context, actor authz.Actor, run ids.Run, in Request) (Operation, error) {
	op, found, err := s.recoverLost(ctx, actor, run, in)
	if err != nil || found {
		return op, err
	}
	digest := in.digest()
	err = postgres.InTx(ctx, s.db, "recovery.open", func(tx postgres.Tx) error {
		held, err := s.allowed(ctx, tx, actor, run)
		if err != nil {
			return err
		}
		op, found, err = s.open(ctx, tx, actor, held, in, digest)
		return err
	})
	if err != nil || found && op.Status == Committed {
		return op, err
	}
	if !found {
		if err := s.settleUploads(ctx, run); err != nil {
			return op, err
		}
		if op, err = s.prepare(ctx, actor, run, in, digest); err != nil || op.Status == Committed {
			return op, err
		}
	}
	checked, err := s.target(ctx, &op)
	if err != nil || in.PrepareOnly {
		return op, err
	}
	return s.commit(ctx, actor, op, checked)
}

// allowed demands both rights (RC-10, RC-11), locks workspace and run and reads the run.
func (s *Service) allowed(ctx context.Context, tx postgres.Tx, actor authz.Actor, run ids.Run) (held heldRun, err error) {
	r, err := runs.Load(ctx, tx, run)
	if err != nil {
		return held, err
	}
	for _, action := range []authz.Action{authz.RunRecover, authz.StateRecover} {
		if err := authz.Allow(actor, action, r.Object()); err != nil {
			return held, err
		}
	}
	held.run, held.status, err = runs.Lock(ctx, tx, run)
	return held, err
}

// open finds the recovery that the request is about: found is false when it is to be
// prepared. One that is prepared goes on with its principal, or changes hands.
func (s *Service) open(ctx context.Context, tx postgres.Tx, actor authz.Actor, held heldRun, in Request, digest string) (op Operation, found bool, err error) {
	op, found, err = operationOf(ctx, tx, held.run.ID)
	if err != nil {
		return op, false, err
	}
	if found && op.Status == Committed && op.PrincipalID == principal(actor) && op.RequestDigest == digest {
		return op, true, nil
	}
	if err := s.steppedUp(ctx, tx, actor); err != nil {
		return op, false, err
	}
	if err := in.check(); err != nil {
		return op, false, err
	}
	switch {
	case found && op.Status == Committed && op.heldBefore(principal(actor)):
		return op, false, fenced(op)
	case !found || op.Status == Committed:
		return op, false, checkHeld(held.run, held.status)
	case op.PrincipalID == principal(actor):
		return s.resume(ctx, tx, actor, op, in, digest)
	default:
		return s.takeOver(ctx, tx, actor, op, in, digest)
	}
}

// PolicyPrincipal is whose a recovery is that a workspace's settings allow without a person.
const PolicyPrincipal ids.User = "policy"

// principal is whose a recovery of the actor's is.
func principal(actor authz.Actor) ids.User {
	if actor.Kind == authz.PolicyActor {
		return PolicyPrincipal
	}
	return actor.User
}

// steppedUp demands it of persons; the policy is none (RC-12).
func (s *Service) steppedUp(ctx context.Context, tx postgres.Tx, actor authz.Actor) error {
	if actor.Kind == authz.PolicyActor {
		return nil
	}
	return s.settings.StepUp(ctx, tx, actor)
}

func (op Operation) heldBefore(user ids.User) bool {
	for _, t := range op.Takeovers {
		if t.From == user {
			return op.PrincipalID != user
		}
	}
	return false
}

func fenced(op Operation) error {
	return fault.New(fault.Conflict, "recovery_fenced", "The recovery %s was taken over by %s and is not yours any more.", op.ID, op.PrincipalID)
}

// resume goes on with the principal's own recovery, and grants its lease anew when it has
// run out without anybody taking over.
func (s *Service) resume(ctx context.Context, tx postgres.Tx, actor authz.Actor, op Operation, in Request, digest string) (Operation, bool, error) {
	if op.RequestDigest != digest {
		if in.Abandon == op.ID {
			return op, false, s.abandon(ctx, tx, actor, op, in.Reason)
		}
		return op, false, fault.New(fault.Conflict, "recovery_in_progress", "The recovery %s (%s) is prepared. Repeat its very request to complete it, or name it as abandon-operation to give it up for this one.", op.ID, op.Resolution)
	}
	if op.LeaseLive {
		return op, true, nil
	}
	granted, err := postgres.One[Operation](ctx, tx, Queries.Get("Regrant"), postgres.Args{"id": op.ID, "owner_epoch": op.OwnerEpoch, "lease_seconds": s.settings.Lease.Seconds()})
	return granted, err == nil, err
}

// takeOver hands a prepared recovery to another operator, once its lease has run out
// (RC-43…RC-50).
func (s *Service) takeOver(ctx context.Context, tx postgres.Tx, actor authz.Actor, op Operation, in Request, digest string) (Operation, bool, error) {
	live := op.LeaseLive && op.PrincipalID != PolicyPrincipal // a person never waits for the policy
	switch {
	case live && op.heldBefore(actor.User):
		return op, false, fenced(op)
	case live:
		return op, false, fault.New(fault.Conflict, "recovery_lease_held", "%s has prepared the recovery %s. Its lease expires at %s, in %d seconds; then it can be taken over.",
			op.PrincipalID, op.ID, op.LeaseExpiresAt.UTC().Format(time.RFC3339), op.LeaseRemainingSeconds).
			With("lease-expires-at", op.LeaseExpiresAt.UTC().Format(time.RFC3339Nano)).With("lease-remaining-seconds", op.LeaseRemainingSeconds)
	case !in.TakeOver:
		return op, false, fault.New(fault.Conflict, "takeover_confirmation_required", "%s has prepared the recovery %s and did not complete it; the lease expired at %s. Confirm with takeover: true that you take it over, and send the same resolution and all of the evidence.",
			op.PrincipalID, op.ID, op.LeaseExpiresAt.UTC().Format(time.RFC3339))
	}
	if in.Abandon == op.ID {
		return op, false, s.abandon(ctx, tx, actor, op, in.Reason)
	}
	if err := op.sameEvidence(in); err != nil {
		return op, false, err
	}
	taken, err := postgres.One[Operation](ctx, tx, Queries.Get("TakeOver"), postgres.Args{
		"id": op.ID, "owner_epoch": op.OwnerEpoch, "principal_id": principal(actor), "lease_seconds": s.settings.Lease.Seconds(), "request_digest": digest, "reason": in.Reason, "most": mostTakeOvers,
	})
	if err != nil {
		return op, false, err
	}
	err = audit.Append(ctx, tx, audit.Entry{
		Organization: op.OrganizationID, Actor: actor, Action: "run.recovery_takeover", ObjectKind: "run", ObjectID: string(op.RunID), Reason: in.Reason,
		Details: map[string]any{
			"workspace": op.WorkspaceID, "recovery": op.ID, "from": op.PrincipalID, "resolution": op.Resolution, "target": op.TargetVersionID, "owner_epoch": taken.OwnerEpoch,
			"current": op.CurrentVersionID, "current_sha256": op.CurrentSHA256, "emergency_sha256": op.EmergencySHA256, "emergency_size": op.EmergencySize,
		},
	})
	return taken, err == nil, err
}

// sameEvidence demands that whoever takes over resends what was decided, and on what
// (RC-46, RC-47).
func (op Operation) sameEvidence(in Request) error {
	mismatch := func(what string) error {
		return fault.New(fault.Conflict, "evidence_mismatch", "The %s is not the one that recovery %s was prepared on. Read the evidence again and send all of it, or give the recovery up with abandon-operation.", what, op.ID)
	}
	c := in.Evidence
	switch {
	case in.Resolution != op.Resolution:
		return mismatch("resolution")
	case !sameOverrides(in.Overrides, op.Overrides):
		return mismatch("override of a claimed upload")
	case c.CurrentState == nil || *c.CurrentState != op.CurrentVersionID:
		return mismatch("current state")
	case op.CurrentVersionID != "" && (c.CurrentChecksum == nil || *c.CurrentChecksum != op.CurrentSHA256):
		return mismatch("checksum of the current state")
	case op.EmergencyID != "" && (c.EmergencyDigest == nil || *c.EmergencyDigest != op.EmergencySHA256):
		return mismatch("digest of the emergency state")
	case op.EmergencyID != "" && (c.EmergencySize == nil || *c.EmergencySize != op.EmergencySize):
		return mismatch("size of the emergency state")
	}
	return nil
}

func sameOverrides(a, b []Override) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].Upload != b[i].Upload || !a[i].ClaimedAt.Equal(b[i].ClaimedAt) {
			return false
		}
	}
	return true
}

// abandon gives up a prepared recovery for another one. Its target stays as evidence.
func (s *Service) abandon(ctx context.Context, tx postgres.Tx, actor authz.Actor, op Operation, reason string) error {
	n, err := postgres.Exec(ctx, tx, Queries.Get("Abandon"), postgres.Args{"id": op.ID, "owner_epoch": op.OwnerEpoch})
	if err == nil && n == 0 {
		err = fenced(op)
	}
	if err != nil {
		return err
	}
	return audit.Append(ctx, tx, audit.Entry{
		Organization: op.OrganizationID, Actor: actor, Action: "run.recovery_abandoned", ObjectKind: "run", ObjectID: string(op.RunID), Reason: reason,
		Details: map[string]any{"workspace": op.WorkspaceID, "recovery": op.ID, "resolution": op.Resolution, "target": op.TargetVersionID, "target_object": op.TargetObjectID},
	})
}

// breakPrepared gives up what is prepared when the workspace is freed on the host.
func (s *Service) breakPrepared(ctx context.Context, tx postgres.Tx, run ids.Run) error {
	op, found, err := operationOf(ctx, tx, run)
	if err != nil || !found || op.Status != Prepared {
		return err
	}
	return s.abandon(ctx, tx, authz.System(), op, "The workspace was freed on the server's host.")
}

// settleUploads ends the uploads of a run that were on their way when it was held: what
// never began and is too old is discarded (RC-28), what lies whole in the store becomes
// current (RC-27, RC-32). What stays pending is for prepare to judge.
func (s *Service) settleUploads(ctx context.Context, run ids.Run) error {
	var pending []state.PendingUpload
	err := postgres.InTx(ctx, s.db, "recovery.settle", func(tx postgres.Tx) error {
		if _, _, err := runs.Lock(ctx, tx, run); err != nil {
			return err
		}
		if _, err := state.DiscardUnclaimed(ctx, tx, run); err != nil {
			return err
		}
		var err error
		pending, err = state.PendingUploads(ctx, tx, run)
		return err
	})
	if err != nil {
		return err
	}
	for _, upload := range pending {
		if upload.ClaimedAt == nil {
			continue
		}
		if err := s.state.FinalizeClaimed(ctx, upload.ID); err != nil {
			return err
		}
	}
	return nil
}
