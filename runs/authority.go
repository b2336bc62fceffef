package runs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/holdfast-run/holdfast/approvals"
	"github.com/holdfast-run/holdfast/artifacts"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/dispatch"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/fence"
	"github.com/holdfast-run/holdfast/gates"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/internal/failpoint"
	"github.com/holdfast-run/holdfast/postgres"
)

// RedeemBootstrap gives the session of an accepted attempt for its bootstrap capability,
// once; the exact repeat within the capability's expiry gets the same session (AU-10…AU-12).
// Errors: Unauthenticated "unauthenticated", "capability_expired"; Forbidden
// "capability_mismatch"; Conflict "capability_replayed", "evidence_incomplete";
// RecoveryHeld "authority_lost".
func (s *Service) RedeemBootstrap(ctx context.Context, id ids.Attempt, capability string, with dispatch.Redemption) (session Session, err error) {
	c, err := s.dispatch.BootstrapOf(capability)
	if err != nil {
		return Session{}, err
	}
	if c.Attempt != id {
		return Session{}, fault.New(fault.Forbidden, "capability_mismatch", "This bootstrap capability is for attempt %s.", c.Attempt)
	}
	var refused error
	lost := false
	err = postgres.InTx(ctx, s.db, "runs.redeem-bootstrap", func(tx postgres.Tx) error {
		refused, lost = nil, false
		a, r, err := lockAttempt(ctx, tx, id)
		if fault.Is(err, fault.NotFound) || (err == nil && a.JTI != "" && a.JTI != c.JTI) {
			lost = true
			return nil
		}
		if err != nil {
			return err
		}
		if missing := unproven(a, r); a.Status == dispatch.Running && missing != "" {
			refused, err = s.failClosed(ctx, tx, a, r, missing)
			return err
		}
		if err := dispatch.Redeem(ctx, tx, a, c, with); err != nil {
			return err
		}
		session, err = s.session(ctx, tx, a, false)
		return err
	})
	switch {
	case err != nil:
		return Session{}, err
	case lost:
		return Session{}, s.holdLost(ctx, c)
	}
	return session, refused
}

// redemption is what the authority to apply is redeemed with. The manifest's digest is
// the server's own, echoed: it is compared and never computed (AU-18, AU-19).
type redemption struct{ manifestDigest, sandbox, tofuDigest string }

func (in redemption) digest() string {
	return dispatch.InputDigest(in.manifestDigest, in.sandbox, in.tofuDigest)
}

// StartApply redeems the authority to apply, once (AU-13, AU-18): everything the
// approval covers is compared with the facts, the approval is spent, and the run is
// applying. The exact repeat gets the same answer. Only after this answer may tofu
// apply start. Before it is given, a witness of it lies in the object store.
// Errors: Forbidden "capability_mismatch"; Conflict "manifest_mismatch",
// "tofu_digest_mismatch", "capability_replayed", "launch_denied", "release_not_allowed",
// "evidence_incomplete", "canceled" and those of approvals; RecoveryHeld "authority_lost";
// Unavailable when the store does not take the witness: repeat the call.
func (s *Service) StartApply(ctx context.Context, actor authz.Actor, manifestDigest, sandbox, tofuDigest string) (at time.Time, err error) {
	in := redemption{manifestDigest: manifestDigest, sandbox: sandbox, tofuDigest: tofuDigest}
	// Read before the row: a witness is put after its row was committed, so one without
	// its row is no matter of order.
	_, witnessed, err := s.objects.Witnessed(ctx, actor.Organization, actor.Workspace, actor.Run)
	if err != nil {
		return at, err
	}
	var refused error
	var witness artifacts.Witness
	lost := false
	err = postgres.InTx(ctx, s.db, "runs.start-apply", func(tx postgres.Tx) error {
		refused, lost = nil, false
		a, r, err := lockAttempt(ctx, tx, actor.Attempt)
		if err != nil {
			return err
		}
		if err := mayStart(a, r, in); err != nil {
			return err
		}
		if missing := unproven(a, r); missing != "" {
			refused, err = s.failClosed(ctx, tx, a, r, missing)
			return err
		}
		if a.ApplyStartedAt == nil {
			if lost = witnessed; lost {
				return nil
			}
			if refused, err = s.start(ctx, tx, &a, &r, in); err != nil || refused != nil {
				return err
			}
		}
		at = *a.ApplyStartedAt
		witness = artifacts.Witness{
			Organization: a.OrganizationID, Workspace: a.WorkspaceID, Run: a.RunID, Attempt: a.ID, Epoch: *a.FenceEpoch, Sandbox: a.SandboxID, Nonce: a.ExecutionNonce, StartedAt: at.UTC(),
		}
		return nil
	})
	switch {
	case err != nil:
		return time.Time{}, err
	case lost:
		return time.Time{}, s.holdLost(ctx, dispatch.Claims{
			Attempt: actor.Attempt, Run: actor.Run, Organization: actor.Organization, Workspace: actor.Workspace, Phase: actor.Phase, Sandbox: actor.Sandbox, Epoch: actor.Epoch,
		})
	case refused != nil:
		return time.Time{}, refused
	}
	failpoint.Here("runs.start-apply.after-commit")
	return at, s.objects.PutWitness(ctx, witness)
}

// start spends the approval, unless a gate is closed: then refused says so, and what
// waits goes on waiting.
func (s *Service) start(ctx context.Context, tx postgres.Tx, a *dispatch.Attempt, r *Run, in redemption) (refused, err error) {
	own := gates.Release{Version: a.RunnerVersion, Digest: a.RunnerDigest}
	denial, err := gates.Check(ctx, tx, r.OrganizationID, releases(*r, own)...)
	if err != nil {
		return nil, err
	}
	if denial.Closed() {
		if err := dispatch.DenyStart(ctx, tx, a.ID); err != nil {
			return nil, err
		}
		return denial.AtStart(), s.waits(ctx, tx, r.ID, denial.Reason)
	}
	if _, err := fence.Guard(ctx, tx, r.token()); err != nil {
		return nil, err
	}
	now, err := s.facts(ctx, tx, *r)
	if err != nil {
		return nil, err
	}
	if err := approvals.Redeem(ctx, tx, r.ID, now); err != nil {
		return nil, err
	}
	if err := step(ctx, tx, r, move{To: Applying, Actor: runnerActor(*a)}); err != nil {
		return nil, err
	}
	if _, _, err = dispatch.StartApply(ctx, tx, a.ID, in.digest()); err != nil {
		return nil, err
	}
	*a, err = dispatch.Get(ctx, tx, a.ID)
	return nil, err
}

func mayStart(a dispatch.Attempt, r Run, in redemption) error {
	switch {
	case a.Phase != authz.Apply || a.SandboxID != in.sandbox:
		return fault.New(fault.Forbidden, "capability_mismatch", "This session is not for applying, or not from this sandbox.")
	case a.Status != dispatch.Running:
		return fault.New(fault.Conflict, "not_applying", "Attempt %s has ended and cannot start an apply.", a.ID)
	case a.ApplyStartedAt != nil && a.StartDigest != in.digest():
		return fault.New(fault.Conflict, "capability_replayed", "The authority of %s was redeemed before, with something else. It is good once.", a.ID)
	case a.ManifestDigest != in.manifestDigest:
		return fault.New(fault.Conflict, "manifest_mismatch", "The manifest is not the one that was accepted.")
	case r.PlanTofuDigest != in.tofuDigest:
		return fault.New(fault.Conflict, "tofu_digest_mismatch", "The tofu binary is not the one that made the plan, so it may not apply it.")
	case a.ApplyStartedAt == nil && (a.StopRequestedAt != nil || r.CancelRequestedAt != nil):
		return fault.New(fault.Conflict, "canceled", "%s is being canceled.", r.ID)
	}
	return nil
}

// unproven names what is missing or does not fit in the evidence that an accepted
// attempt left; empty when all of it is there (AU-15, AU-17).
func unproven(a dispatch.Attempt, r Run) string {
	sum := sha256.Sum256(a.Manifest)
	switch {
	case a.ExecutionNonce != dispatch.Nonce(a.RunID, a.ID):
		return "execution nonce"
	case a.JTI == "":
		return "session"
	case a.ManifestDigest == "" || a.ManifestDigest != hex.EncodeToString(sum[:]):
		return "manifest"
	case a.SandboxID == "" || a.AcceptDigest == "" || a.AcceptedAt == nil || a.TokenExpiresAt == nil:
		return "acceptance"
	case a.Phase == authz.Plan && r.DurableStatus != Planning:
		return "start of the plan"
	case a.Phase == authz.Apply && (a.ApplyStartedAt != nil) != (r.DurableStatus == Applying), (a.ApplyStartedAt != nil) != (a.StartDigest != ""):
		return "start of the apply"
	}
	return ""
}

// failClosed ends an attempt whose evidence is damaged, and its run: of an apply nobody
// can say that it did not start. refused is the answer.
func (s *Service) failClosed(ctx context.Context, tx postgres.Tx, a dispatch.Attempt, r Run, missing string) (refused, err error) {
	refused = fault.New(fault.Conflict, "evidence_incomplete", "What is known of attempt %s is not whole: its %s is missing or does not fit. It is ended.", a.ID, missing)
	if err := dispatch.Finish(ctx, tx, a, dispatch.End{Status: dispatch.Lost, Outcome: "evidence_incomplete"}); err != nil {
		return nil, err
	}
	return refused, s.endUncertain(ctx, tx, r, move{Actor: authz.System(), Reason: "evidence_incomplete", Message: refused.Error()})
}

// endUncertain ends a run of which nobody can say what its writer does. One that never
// came to an apply has none.
func (s *Service) endUncertain(ctx context.Context, tx postgres.Tx, r Run, m move) error {
	switch r.DurableStatus {
	case Queued, Planning:
		m.To = PlanFailed
	case AwaitingApproval:
		m.To, m.Hold = ApplyFailed, true
	case Applying:
		m.To = ApplyStartUncertain
	default:
		return nil
	}
	return step(ctx, tx, &r, m)
}
