package runs

import (
	"context"
	"time"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/dispatch"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/gates"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// Session is what accept hands to a runner: the credential of the attempt and what to
// do, or the capability to redeem for them.
type Session struct {
	Token          string
	Manifest       []byte
	ManifestDigest string
	ExpiresAt      time.Time

	Emergency dispatch.Emergency // of an apply

	Bootstrap        string // in place of all others
	BootstrapExpires time.Time
}

// Accept opens the session of an assigned attempt (RP-07…RP-10): credentials exist
// from here on, the manifest is fixed, and a plan's run begins planning and is bound to
// the runner's release. Whether clients draw the run is settled with that, before its
// logs have a first byte. render writes the manifest. The exact repeat, after a lost
// answer, gets the same answer, also when a gate has closed since (AU-14, AU-16).
// Errors: Conflict "capability_replayed" for a repeat that is not exact, "launch_denied"
// and "release_not_allowed" when a gate is closed (AU-08): the run goes on waiting;
// "evidence_incomplete"; those of dispatch.Accept.
func (s *Service) Accept(ctx context.Context, group accounts.RunnerGroup, id ids.Attempt, by dispatch.Acceptance, render func(Facts) ([]byte, error)) (session Session, err error) {
	if by.Sandbox == "" || len(by.Sandbox) > 200 {
		return Session{}, fault.New(fault.Invalid, "sandbox_required", "Name the sandbox with 1 to 200 characters.")
	}
	by.Lifetime = s.settings.BootstrapLifetime
	var refused error // with what it left behind: the transaction commits
	err = postgres.InTx(ctx, s.db, "runs.accept", func(tx postgres.Tx) error {
		refused = nil
		if err := postgres.PlanOnce(ctx, tx); err != nil {
			return err
		}
		a, r, err := lockAttempt(ctx, tx, id)
		if err != nil {
			return err
		}
		mine := a.RunnerID == by.Runner && a.GroupID == group.ID
		if mine && a.Status == dispatch.Running {
			session, refused, err = s.acceptedBefore(ctx, tx, a, r, by)
			return err
		}
		if mine && a.Status == dispatch.Assigned {
			denial, err := gates.Check(ctx, tx, r.OrganizationID, releases(r, by.Release)...)
			if err != nil {
				return err
			}
			if denial.Closed() {
				refused = denial.AtStart()
				return s.sendBack(ctx, tx, a, r, denial)
			}
		}
		session, err = s.accept(ctx, tx, group, a, r, by, render)
		return err
	})
	if err == nil {
		err = refused
	}
	return session, err
}

func (s *Service) accept(ctx context.Context, tx postgres.Tx, group accounts.RunnerGroup, a dispatch.Attempt, r Run, by dispatch.Acceptance, render func(Facts) ([]byte, error)) (Session, error) {
	if err := dispatch.Accept(ctx, tx, group, a, by, s.settings.Authority); err != nil {
		return Session{}, err
	}
	if a.Phase == authz.Plan {
		if err := s.beginPlanning(ctx, tx, a, &r, by); err != nil {
			return Session{}, err
		}
	} else if r.DurableStatus != AwaitingApproval {
		return Session{}, fault.New(fault.Conflict, "invalid_transition", "%s is %s and cannot be applied.", r.ID, r.DurableStatus)
	}
	if err := s.waits(ctx, tx, r.ID, ""); err != nil {
		return Session{}, err
	}
	a, err := s.fixManifest(ctx, tx, a.ID, r, render)
	if err != nil {
		return Session{}, err
	}
	return s.session(ctx, tx, a, by.Bootstrap)
}

func (s *Service) beginPlanning(ctx context.Context, tx postgres.Tx, a dispatch.Attempt, r *Run, by dispatch.Acceptance) error {
	return step(ctx, tx, r, move{
		To: Planning, Actor: runnerActor(a), query: "StepToPlanning",
		also: postgres.Args{"version": by.Release.Version, "digest": by.Release.Digest, "json_log": by.JSONLog},
	})
}

// acceptedBefore answers the repeat of an accept from what the first one left (AU-14).
func (s *Service) acceptedBefore(ctx context.Context, tx postgres.Tx, a dispatch.Attempt, r Run, by dispatch.Acceptance) (session Session, refused, err error) {
	if a.AcceptDigest != by.Digest() {
		return session, nil, fault.New(fault.Conflict, "capability_replayed", "Attempt %s was accepted by this runner before, with something else.", a.ID)
	}
	if missing := unproven(a, r); missing != "" {
		refused, err = s.failClosed(ctx, tx, a, r, missing)
		return session, refused, err
	}
	session, err = s.session(ctx, tx, a, by.Bootstrap)
	return session, nil, err
}

func (s *Service) session(ctx context.Context, tx postgres.Tx, a dispatch.Attempt, bootstrap bool) (session Session, err error) {
	if bootstrap {
		session.Bootstrap, session.BootstrapExpires, err = s.dispatch.Bootstrap(ctx, tx, a)
		return session, err
	}
	return Session{Token: s.dispatch.Token(a), Manifest: a.Manifest, ManifestDigest: a.ManifestDigest, ExpiresAt: *a.TokenExpiresAt, Emergency: s.dispatch.Emergency(a)}, nil
}

// mayExecute asks the allow-list about a runner that wants work (AU-07).
func mayExecute(ctx context.Context, tx postgres.Tx, release gates.Release) error {
	denial, err := gates.CheckRelease(ctx, tx, release.As(gates.Runner))
	if err == nil && denial.Closed() {
		err = denial.AtStart()
	}
	return err
}

// releases are those that must be allowed for a start: the runner's own, and those that the run
// is bound to.
func releases(r Run, own gates.Release) []gates.Claim {
	return append([]gates.Claim{own.As(gates.Runner)}, r.pinned()...)
}

// pinned are the releases that a finished plan is bound to: the runner's that made it, and the
// policy-runner's that judged it. What it came to does not stand for either (AU-07, PO-17).
func (r Run) pinned() (claims []gates.Claim) {
	if r.PlanFinishedAt == nil {
		return nil
	}
	claims = append(claims, r.release().As(gates.Runner))
	if judged := (gates.Release{Version: r.PolicyVersion, Digest: r.PolicyDigest}); judged != (gates.Release{}) {
		claims = append(claims, judged.As(gates.PolicyRuntime))
	}
	return claims
}

func (r Run) release() gates.Release {
	return gates.Release{Version: r.RunnerVersion, Digest: r.RunnerDigest}
}

// sendBack withdraws an offer that a gate does not let through. A plan is offered again
// when the gate is open; an apply is prepared again by then.
func (s *Service) sendBack(ctx context.Context, tx postgres.Tx, a dispatch.Attempt, r Run, denial gates.Denial) error {
	var err error
	if a.Phase == authz.Apply {
		err = dispatch.Finish(ctx, tx, a, dispatch.End{Status: dispatch.Canceled, Outcome: "launch_denied"})
	} else {
		err = dispatch.Return(ctx, tx, a)
	}
	if err != nil {
		return err
	}
	return s.waits(ctx, tx, r.ID, denial.Reason)
}

// waits notes why a run does not start; empty when it does.
func (s *Service) waits(ctx context.Context, tx postgres.Tx, run ids.Run, reason string) error {
	return postgres.Later(ctx, tx, Queries.Get("WaitsFor"), postgres.Args{"id": run, "reason": reason}, nil)
}

// prepareWaiting prepares the applies that a gate had kept from starting (AU-03).
func (s *Service) prepareWaiting(ctx context.Context) error {
	return eachWaiting(ctx, s, "runs.prepare-waiting", "KeptAtGate", func(tx postgres.Tx, id ids.Run) error {
		r, _, err := lock(ctx, tx, id)
		if err != nil || r.DurableStatus != AwaitingApproval || r.ConfirmedAt == nil || r.CancelRequestedAt != nil || open(r.ApplyAttempt) {
			return err
		}
		return s.prepareApply(ctx, tx, &r)
	})
}

func open(status dispatch.Status) bool {
	return status == dispatch.Pending || status == dispatch.Assigned || status == dispatch.Running
}
