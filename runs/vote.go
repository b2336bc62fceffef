package runs

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/approvals"
	"github.com/holdfast-run/holdfast/audit"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// pinRule writes down the rule that holds when the plan comes to its decision, so that nobody
// can make it laxer for a run under way (docs/decisions/0014), and when the wait for it ends.
func (s *Service) pinRule(ctx context.Context, tx postgres.Tx, r Run) error {
	rule, err := approvals.RuleOf(ctx, tx, r.OrganizationID, r.ProjectID, r.WorkspaceID)
	if err != nil {
		return err
	}
	pinned, err := json.Marshal(rule)
	if err != nil {
		return err
	}
	args := postgres.Args{"id": r.ID, "rule": string(pinned), "lifetime_seconds": s.settings.ApprovalLifetime.Seconds()}
	return postgres.Later(ctx, tx, Queries.Get("PinApprovalRule"), args, func(rows int64) error {
		if rows != 1 {
			return fmt.Errorf("pin the approval rule of %s: %d rows", r.ID, rows)
		}
		return nil
	})
}

// planNote says at the end of a plan's log what the plan waits for, where there is a rule: a client shows
// no more of that before it asks whether to go on.
func (s *Service) planNote(ctx context.Context, tx postgres.Tx, r Run, changes bool) (string, error) {
	if !changes || r.endsPlanned() {
		return "", nil
	}
	rule, err := approvals.RuleOf(ctx, tx, r.OrganizationID, r.ProjectID, r.WorkspaceID)
	if err != nil || !rule.Asks() || (rule.TakesPolicy() && r.PolicySets > 0) {
		return "", err
	}
	if rule, err = rule.Named(ctx, tx); err != nil {
		return "", err
	}
	return fmt.Sprintf("This plan waits for %s, for %s at most.", rule.Words(), days(s.settings.ApprovalLifetime)), nil
}

// days is a time in words.
func days(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d == day:
		return "a day"
	case d%day == 0:
		return fmt.Sprintf("%d days", d/day)
	}
	return d.String()
}

// ruleNow is what must be fulfilled now: the rule that was pinned, and what has been asked for since.
func ruleNow(ctx context.Context, tx postgres.Tx, r Run) (approvals.Rule, error) {
	now, err := approvals.RuleOf(ctx, tx, r.OrganizationID, r.ProjectID, r.WorkspaceID)
	if err != nil {
		return now, err
	}
	return r.ApprovalRule.And(now).Named(ctx, tx)
}

// voteOf is what an actor's decision would be to the rule.
func voteOf(ctx context.Context, tx postgres.Tx, r Run, actor authz.Actor, source approvals.Source) (approvals.Vote, error) {
	team, err := approvals.TeamOf(ctx, tx, r.CreatedBy)
	return approvals.Vote{
		Reviewer: actor.User, Requester: r.CreatedBy, RequesterTeam: team, Source: source, Teams: actor.Grants[r.OrganizationID].Teams,
	}, err
}

// ballot is one decision that somebody wants to make. Digest, where it is given, is of the binding that
// it is about.
type ballot struct {
	actor   authz.Actor
	source  approvals.Source
	comment string
	digest  string
}

// record writes a decision down with what it covers.
func (s *Service) record(ctx context.Context, tx postgres.Tx, r Run, d approvals.Decision, b ballot) (approvals.Binding, error) {
	binding, err := s.binding(ctx, tx, r)
	if err != nil {
		return binding, err
	}
	if b.digest != "" && b.digest != binding.Digest() {
		return binding, fault.New(fault.Conflict, "binding_mismatch", "What you have decided about is not what %s would apply: its binding digest is %s. Look at its review again.", r.ID, binding.Digest())
	}
	return binding, approvals.Decide(ctx, tx, approvals.Record{
		Run: r.ID, Reviewer: b.actor.User, Teams: b.actor.Grants[r.OrganizationID].Teams, Requester: r.CreatedBy, Decision: d, Source: b.source, Comment: b.comment, Binding: binding,
	})
}

// approve records an approval that may be given, and confirms the run where it is the last one
// that was missing. Where what it covers has moved, the run ends instead (G-39).
func (s *Service) approve(ctx context.Context, tx postgres.Tx, r *Run, b ballot) error {
	rule, err := ruleNow(ctx, tx, *r)
	if err != nil {
		return err
	}
	if b.source != approvals.ByPolicy {
		vote, err := voteOf(ctx, tx, *r, b.actor, b.source)
		if err != nil {
			return err
		}
		if err := rule.MayApprove(b.actor, r.Object(), vote); err != nil {
			return err
		}
	}
	binding, err := s.record(ctx, tx, *r, approvals.Approved, b)
	if err != nil {
		return err
	}
	if binding.PolicyResult == "" {
		return fault.New(fault.Conflict, "policy_result_damaged", "The result of the policy check of %s is not the one that was recorded, so its plan is not applied. Discard it and make a new run.", r.ID)
	}
	votes, err := approvals.Votes(ctx, tx, r.ID)
	if err != nil {
		return err
	}
	missing := rule.Missing(votes)
	err = audit.Append(ctx, tx, audit.Entry{
		Organization: r.OrganizationID, Actor: b.actor, Action: "run.approved", ObjectKind: "run", ObjectID: string(r.ID), Reason: b.comment,
		Details: map[string]any{"source": b.source, "binding": binding.Digest(), "missing": missing},
	})
	if err != nil {
		return err
	}
	if missing > 0 {
		if ended, err := s.endStale(ctx, tx, r); err != nil || ended {
			return err
		}
		*r, err = load(ctx, tx, r.ID)
		return err
	}
	return s.confirm(ctx, tx, r, b, binding)
}

// decideAtOnce looks, when a plan has come to its decision, whether it is decided already: by its
// requester's auto-apply, or by what the policies said. Whoever has lost the right since it
// asked, or may not decide by the rule, leaves the decision to others.
func (s *Service) decideAtOnce(ctx context.Context, tx postgres.Tx, r *Run) error {
	rule, err := ruleNow(ctx, tx, *r)
	if err != nil {
		return err
	}
	if rule.TakesPolicy() && r.ResourceDestructions == 0 && !r.IsDestroy {
		allowed, err := postgres.Value[bool](ctx, tx, Queries.Get("PolicyAllowed"), postgres.Args{"run_id": r.ID})
		if err != nil {
			return err
		}
		if allowed {
			return s.approve(ctx, tx, r, ballot{actor: authz.Policy(), source: approvals.ByPolicy})
		}
	}
	if !r.AutoApply || !rule.TakesAutoApply() {
		return nil
	}
	requester, err := accounts.ActorOf(ctx, tx, r.CreatedBy)
	if err != nil {
		return err
	}
	if !authz.Can(requester, authz.RunApply, r.Object()) {
		return nil
	}
	vote, err := voteOf(ctx, tx, *r, requester, approvals.AutoApply)
	if err != nil || rule.MayApprove(requester, r.Object(), vote) != nil {
		return err
	}
	return s.approve(ctx, tx, r, ballot{actor: requester, source: approvals.AutoApply})
}

// Decisions gives what was decided about a run, in all its rounds, oldest first.
func (s *Service) Decisions(ctx context.Context, actor authz.Actor, id ids.Run) (list []approvals.Entry, err error) {
	err = s.ofRun(ctx, "runs.decisions", actor, id, func(tx postgres.Tx, _ Run) (err error) {
		list, err = approvals.List(ctx, tx, id)
		return err
	})
	return list, err
}

// Requirement is what a run's decision takes, and how far it has come.
type Requirement struct {
	Rule    approvals.Rule
	Given   int // approvals that count
	Missing int
	Binding approvals.Binding // what an approval would cover
}

// requirement is nil for a run whose plan has not come to a decision.
func (s *Service) requirement(ctx context.Context, tx postgres.Tx, r Run) (*Requirement, error) {
	if r.ApprovalExpiresAt == nil {
		return nil, nil
	}
	rule, err := r.ApprovalRule.Settled().Named(ctx, tx)
	if err != nil {
		return nil, err
	}
	q := &Requirement{Rule: rule}
	if r.DurableStatus == AwaitingApproval && r.ConfirmedAt == nil { // what has been decided was decided by the rule of then
		if q.Rule, err = ruleNow(ctx, tx, r); err != nil {
			return nil, err
		}
	}
	votes, err := approvals.Votes(ctx, tx, r.ID)
	if err != nil {
		return nil, err
	}
	q.Missing = q.Rule.Missing(votes)
	for _, v := range votes {
		if q.Rule.Counts(v) {
			q.Given++
		}
	}
	q.Binding, err = s.binding(ctx, tx, r)
	return q, err
}
