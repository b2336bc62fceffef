package runs

import (
	"context"
	"fmt"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/approvals"
	"github.com/holdfast-run/holdfast/audit"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/dispatch"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/gates"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/policies"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/runtasks"
	"github.com/holdfast-run/holdfast/state"
)

// Decision is what somebody decides about a plan.
type Decision struct {
	Comment       string
	BindingDigest string // where given, that of what was looked at: another one is refused
}

// Confirm approves a finished plan and, where it is the last approval that its rule asks for, has
// it applied (AR-07, AR-08). The approval covers the digests as they stand now. Until the others have come
// the run waits on.
// Errors: Conflict "invalid_transition" when there is nothing to confirm, Conflict
// "APPROVAL_EXPIRED" at or after the persisted deadline (AP-12, AP-14), Conflict "already_decided",
// Conflict "binding_mismatch", and those of approvals.Rule.MayApprove. A saved plan
// takes the workspace only when it is approved by all: it is Locked or RecoveryHeld while somebody
// has it, and may be confirmed later; once the state has moved it is Conflict
// "APPROVAL_BINDING_STALE", and discarded.
func (s *Service) Confirm(ctx context.Context, actor authz.Actor, id ids.Run, d Decision) error {
	var stale error
	err := s.decide(ctx, "runs.confirm", actor, id, d, func(tx postgres.Tx, r *Run, actor authz.Actor) (err error) {
		if stale, err = discardStale(ctx, tx, r); err != nil || stale != nil {
			return err // without an error the discard stays
		}
		if _, err := s.comment(ctx, tx, actor, *r, d.Comment); err != nil {
			return err
		}
		return s.approve(ctx, tx, r, ballot{actor: actor, source: approvals.Native, comment: d.Comment, digest: d.BindingDigest})
	})
	if err == nil {
		err = stale
	}
	return err
}

// discardStale rejects a saved or promoted plan whose state is not current any more: it can never
// be applied. stale says so to whoever wants to apply it; it is nil otherwise. A run
// that holds the workspace keeps its state current.
func discardStale(ctx context.Context, tx postgres.Tx, r *Run) (stale, err error) {
	if r.Occupies() {
		return nil, nil
	}
	current, err := state.CurrentID(ctx, tx, r.WorkspaceID)
	if err != nil || current == r.PredecessorVersionID {
		return nil, err
	}
	stale = fault.New(fault.Conflict, "APPROVAL_BINDING_STALE", "The state of workspace %q has changed since this plan was made, so the plan of %s is discarded. Make a new one.", r.WorkspaceName, r.ID)
	return stale, step(ctx, tx, r, move{To: Rejected, Actor: authz.System(), Reason: "APPROVAL_BINDING_STALE", Message: stale.Error()})
}

// Discard rejects a finished plan; one rejection ends the run. Its Conflicts are those of Confirm, and who
// may is said by approvals.Rule.MayReject.
func (s *Service) Discard(ctx context.Context, actor authz.Actor, id ids.Run, d Decision) error {
	return s.decide(ctx, "runs.discard", actor, id, d, func(tx postgres.Tx, r *Run, actor authz.Actor) error {
		rule, err := ruleNow(ctx, tx, *r)
		if err != nil {
			return err
		}
		vote, err := voteOf(ctx, tx, *r, actor, approvals.Native)
		if err != nil {
			return err
		}
		if err := rule.MayReject(actor, r.Object(), vote); err != nil {
			return err
		}
		if _, err := s.record(ctx, tx, *r, approvals.Rejected, ballot{actor: actor, source: approvals.Native, comment: d.Comment, digest: d.BindingDigest}); err != nil {
			return err
		}
		if _, err := s.comment(ctx, tx, actor, *r, d.Comment); err != nil {
			return err
		}
		return step(ctx, tx, r, move{To: Rejected, Actor: actor})
	})
}

const maxDecisionComment = 2000 // bytes

// decide runs fn on a run that waits for a decision whose deadline has not passed.
// The deadline is compared in a statement of its own after the row was locked, and fn gets the
// actor with the rights and teams that it has then: the row may have been waited for.
func (s *Service) decide(ctx context.Context, name string, actor authz.Actor, id ids.Run, d Decision, fn func(tx postgres.Tx, r *Run, actor authz.Actor) error) error {
	return postgres.InTx(ctx, s.db, name, func(tx postgres.Tx) error {
		r, err := lockAllowed(ctx, tx, actor, authz.RunApply, id)
		if err != nil {
			return err
		}
		if actor.IsPerson() {
			now, err := accounts.ActorOf(ctx, tx, actor.User)
			if err != nil {
				return err
			}
			actor.SiteAdmin, actor.Roles, actor.Grants = now.SiteAdmin, now.Roles, now.Grants
			if err := authz.Allow(actor, authz.RunApply, r.Object()); err != nil {
				return err
			}
		}
		if err := checkUndecided(ctx, tx, r); err != nil {
			return err
		}
		if err := accounts.CheckText("comment", "Comment", d.Comment, maxDecisionComment); err != nil {
			return err
		}
		return fn(tx, &r, actor)
	})
}

// checkUndecided demands that the run, whose row is locked, waits for a decision in time.
func checkUndecided(ctx context.Context, tx postgres.Tx, r Run) error {
	if r.DurableStatus == Expired {
		return expired(r)
	}
	if r.DurableStatus != AwaitingApproval || r.ConfirmedAt != nil {
		return fault.New(fault.Conflict, "invalid_transition", "%s is %s and waits for no decision.", r.ID, describe(r))
	}
	open, err := postgres.Value[bool](ctx, tx, Queries.Get("ApprovalOpen"), postgres.Args{"id": r.ID})
	if err == nil && !open {
		err = expired(r)
	}
	return err
}

func lockAllowed(ctx context.Context, tx postgres.Tx, actor authz.Actor, action authz.Action, id ids.Run) (Run, error) {
	r, err := load(ctx, tx, id)
	if err != nil {
		return Run{}, err
	}
	if err := authz.Allow(actor, action, r.Object()); err != nil {
		return Run{}, err
	}
	r, _, err = lock(ctx, tx, id)
	return r, err
}

func expired(r Run) error {
	return fault.New(fault.Conflict, "APPROVAL_EXPIRED", "The plan of %s could be decided about until %s. Start a new run.", r.ID, r.ApprovalExpiresAt.UTC().Format("2006-01-02 15:04:05 UTC"))
}

func describe(r Run) string {
	if r.DurableStatus == AwaitingApproval && r.ConfirmedAt != nil {
		return "confirmed already"
	}
	return string(r.DurableStatus)
}

// confirm marks the run confirmed and prepares its apply.
func (s *Service) confirm(ctx context.Context, tx postgres.Tx, r *Run, b ballot, binding approvals.Binding) error {
	n, err := postgres.Exec(ctx, tx, Queries.Get("Confirm"), postgres.Args{"id": r.ID})
	if err != nil {
		return err
	}
	if n == 0 {
		return expired(*r)
	}
	if err := stageConfirmed(ctx, tx, *r); err != nil {
		return err
	}
	err = audit.Append(ctx, tx, audit.Entry{
		Organization: r.OrganizationID, Actor: b.actor, Action: "run.confirmed", ObjectKind: "run", ObjectID: string(r.ID), Reason: b.comment,
		Details: map[string]any{"source": b.source, "plan": binding.Plan, "predecessor": binding.Predecessor},
	})
	if err != nil {
		return err
	}
	if r.FenceEpoch == nil {
		if err := takeFence(ctx, tx, *r); err != nil {
			return err
		}
	}
	if *r, err = load(ctx, tx, r.ID); err != nil {
		return err
	}
	return s.prepareApply(ctx, tx, r)
}

// endStale cancels a run of which a fact has moved since it was approved: nothing is applied (G-39).
func (s *Service) endStale(ctx context.Context, tx postgres.Tx, r *Run) (ended bool, err error) {
	now, err := s.facts(ctx, tx, *r)
	if err != nil {
		return false, err
	}
	err = approvals.Check(ctx, tx, r.ID, now)
	if !fault.HasCode(err, "APPROVAL_BINDING_STALE") {
		return false, err
	}
	return true, step(ctx, tx, r, move{To: Canceled, Actor: authz.System(), Reason: "APPROVAL_BINDING_STALE", Message: err.Error()})
}

// prepareApply compares the approval with the facts once more, asks the gates, and asks
// for the apply. When a fact has moved nothing is applied: the run is canceled (G-39).
// Behind a closed gate the run stays approved and says why it waits (AU-03).
func (s *Service) prepareApply(ctx context.Context, tx postgres.Tx, r *Run) error {
	if ended, err := s.endStale(ctx, tx, r); err != nil || ended {
		return err
	}
	denial, err := gates.Check(ctx, tx, r.OrganizationID, r.pinned()...)
	if err != nil {
		return err
	}
	if err := s.waits(ctx, tx, r.ID, denial.Reason); err != nil {
		return err
	}
	if denial.Closed() {
		*r, err = load(ctx, tx, r.ID)
		return err
	}
	if wait, err := awaitTasks(ctx, tx, r, runtasks.PreApply); err != nil || wait {
		return err
	}
	attempt, err := dispatch.Create(ctx, tx, dispatch.NewAttempt{
		Organization: r.OrganizationID, Workspace: r.WorkspaceID, Run: r.ID, Phase: authz.Apply, Epoch: r.FenceEpoch, TofuVersion: r.TerraformVersion,
	})
	if err != nil {
		return err
	}
	if err := stageExecutedBy(ctx, tx, *r, ApplyStage, attempt); err != nil {
		return err
	}
	*r, err = load(ctx, tx, r.ID)
	return err
}

// binding is what a decision about the run covers: the evidence of its plan.
func (s *Service) binding(ctx context.Context, tx postgres.Tx, r Run) (approvals.Binding, error) {
	digest := func(id ids.Object) (string, error) {
		if id == "" {
			return "", nil
		}
		o, err := s.objects.Info(ctx, tx, r.OrganizationID, id)
		return o.SHA256, err
	}
	b := approvals.Binding{Predecessor: r.PredecessorVersionID}
	for _, part := range []struct {
		object ids.Object
		into   *string
	}{{r.PlanObjectID, &b.Plan}, {r.ConfigurationObjectID, &b.Configuration}, {r.LockFileObjectID, &b.LockFile}} {
		d, err := digest(part.object)
		if err != nil {
			return b, fmt.Errorf("read the evidence of %s: %w", r.ID, err)
		}
		*part.into = d
	}
	var err error
	if b.PredecessorSHA256, err = s.checksum(ctx, tx, b.Predecessor); err != nil {
		return b, err
	}
	b.PolicyResult, err = postgres.Value[string](ctx, tx, Queries.Get("PolicyResultDigest"), postgres.Args{"run_id": r.ID})
	return b, err
}

// facts are the same things as they are now: the state may have moved, and the policies that
// have a say may be others than those that were asked.
func (s *Service) facts(ctx context.Context, tx postgres.Tx, r Run) (approvals.Binding, error) {
	now, err := s.binding(ctx, tx, r)
	if err != nil {
		return now, err
	}
	scope, err := policies.ScopeOf(ctx, tx, r.WorkspaceID)
	if err != nil {
		return now, err
	}
	if scope.Digest != r.PolicyScope {
		now.PolicyResult = ""
	}
	if now.Predecessor, err = state.CurrentID(ctx, tx, r.WorkspaceID); err != nil {
		return now, err
	}
	now.PredecessorSHA256, err = s.checksum(ctx, tx, now.Predecessor)
	return now, err
}

func (s *Service) checksum(ctx context.Context, tx postgres.Tx, id ids.StateVersion) (string, error) {
	if id == "" {
		return "", nil
	}
	v, err := s.state.Row(ctx, tx, id)
	return v.SHA256, err
}

// Cancel asks a run to stop. What no runner works on ends at once; a runner that
// works is told to interrupt tofu, and the run ends with what it reports (G-05,
// RL-41, RL-42), or by force once force-cancel-available-at has come. A run that has
// ended is a Conflict and does not change.
func (s *Service) Cancel(ctx context.Context, actor authz.Actor, id ids.Run, comment string) error {
	return postgres.InTx(ctx, s.db, "runs.cancel", func(tx postgres.Tx) error {
		r, err := lockAllowed(ctx, tx, actor, authz.RunRead, id)
		if err != nil {
			return err
		}
		if !MayCancel(actor, r) {
			return authz.Allow(actor, authz.RunApply, r.Object())
		}
		return s.cancel(ctx, tx, actor, r, comment)
	})
}

// cancel is Cancel for a run whose row is locked, by somebody who may.
func (s *Service) cancel(ctx context.Context, tx postgres.Tx, actor authz.Actor, r Run, comment string) error {
	if r.DurableStatus.Final() {
		return fault.New(fault.Conflict, "invalid_transition", "%s has ended as %s; there is nothing to cancel.", r.ID, r.DurableStatus)
	}
	if r.CancelRequestedAt != nil {
		return fault.New(fault.Conflict, "cancel_requested", "%s is being canceled already; it ends when its runner has stopped tofu.", r.ID)
	}
	working, err := s.withdraw(ctx, tx, r)
	if err != nil {
		return err
	}
	if _, err := postgres.Exec(ctx, tx, Queries.Get("ForceCancelFrom"), postgres.Args{"id": r.ID, "grace_seconds": s.settings.ForceCancelGrace.Seconds()}); err != nil {
		return err
	}
	if !working {
		return step(ctx, tx, &r, move{To: Canceled, Actor: actor, Message: comment})
	}
	if _, err := postgres.Exec(ctx, tx, Queries.Get("RequestCancel"), postgres.Args{"id": r.ID, "user_id": actor.User}); err != nil {
		return err
	}
	return audit.Append(ctx, tx, audit.Entry{
		Organization: r.OrganizationID, Actor: actor, Action: "run.cancel-requested", ObjectKind: "run", ObjectID: string(r.ID), Reason: comment,
	})
}

// MayCancel tells whether the actor may cancel the run: whoever may apply it, and, as
// long as nobody has confirmed it, the person who queued it and still may queue.
func MayCancel(actor authz.Actor, r Run) bool {
	if authz.Can(actor, authz.RunApply, r.Object()) {
		return true
	}
	own := actor.User != "" && actor.User == r.CreatedBy
	return own && r.ConfirmedAt == nil && authz.Can(actor, authz.RunQueue, r.Object())
}

// withdraw takes back an attempt that no runner has accepted. One that a runner
// works on is told to stop, and working is true.
func (s *Service) withdraw(ctx context.Context, tx postgres.Tx, r Run) (working bool, err error) {
	for _, phase := range []authz.Phase{authz.Plan, authz.Apply} {
		a, found, err := dispatch.OfRun(ctx, tx, r.ID, phase)
		if err != nil {
			return false, err
		}
		if !found {
			continue
		}
		if a, err = dispatch.Lock(ctx, tx, a.ID); err != nil {
			return false, err
		}
		switch a.Status {
		case dispatch.Pending, dispatch.Assigned:
			err = dispatch.Finish(ctx, tx, a, dispatch.End{Status: dispatch.Canceled, Outcome: "withdrawn"})
		case dispatch.Running:
			working = true
			err = dispatch.RequestStop(ctx, tx, a.ID)
		}
		if err != nil {
			return false, err
		}
	}
	return working, nil
}
