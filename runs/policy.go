package runs

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/artifacts"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/policies"
	"github.com/holdfast-run/holdfast/postgres"
)

// PolicyChannel wakes evaluators at the commit that reserves a check.
const PolicyChannel = "holdfast_policy"

// PolicyCheck is the check of a plan. Its row is reserved by the transaction that finishes the
// plan (PO-01), running and without an input (PO-03, PO-05).
type PolicyCheck struct {
	ID            string
	RunID         ids.Run
	DurableStatus CheckStatus
	InputDigest   string // of the derivative that is judged; empty until it is bound
	InputObjectID ids.Object
	ResultDigest  string // of the input's digest and the evaluation, to the byte
	Evaluation    string // JSON of a policies.Evaluation; empty until it is recorded
	CreatedAt     time.Time
	EvaluatingAt  *time.Time
	CompletedAt   *time.Time
}

// CheckStatus is how far a policy check has come.
type CheckStatus string

// The statuses.
const (
	CheckRunning CheckStatus = "running"
	CheckPassed  CheckStatus = "passed"
	CheckFailed  CheckStatus = "failed"
	CheckErrored CheckStatus = "errored"
)

// Result reads the evaluation. A check that was never asked, because no set was in scope, has
// an empty one.
func (c PolicyCheck) Result() (e policies.Evaluation, err error) {
	if c.Evaluation == "" {
		return e, nil
	}
	if err := json.Unmarshal([]byte(c.Evaluation), &e); err != nil {
		return e, fmt.Errorf("read the evaluation of %s: %w", c.ID, err)
	}
	return e, nil
}

// PolicyCheckID is known before the check exists (PO-02). Each round of a requeued run
// has a check of its own (G-04).
func (r Run) PolicyCheckID() string {
	id := "polchk-" + strings.TrimPrefix(string(r.ID), "run-")
	if r.Round > 1 {
		id = fmt.Sprintf("%s-%d", id, r.Round)
	}
	return id
}

// bindPolicies fixes what has a say about the plan that is about to be made.
func (s *Service) bindPolicies(ctx context.Context, tx postgres.Tx, r *Run) error {
	scope, err := policies.Bind(ctx, tx, s.objects, r.OrganizationID, r.WorkspaceID, r.ID, r.Round)
	if err != nil || scope.Sets == 0 {
		return err
	}
	n, err := postgres.Exec(ctx, tx, Queries.Get("PolicyScope"), postgres.Args{"id": r.ID, "sets": scope.Sets, "scope": scope.Digest})
	if err == nil && n != 1 {
		err = fmt.Errorf("bind the policies of %s: %d rows", r.ID, n)
	}
	if err == nil {
		*r, err = load(ctx, tx, r.ID)
	}
	return err
}

// reservePolicyCheck makes the check's row, in the transaction that finishes the plan (PO-01).
func (s *Service) reservePolicyCheck(ctx context.Context, tx postgres.Tx, r Run) error {
	if _, err := postgres.Exec(ctx, tx, Queries.Get("PolicyReserve"), postgres.Args{"id": r.PolicyCheckID(), "run_id": r.ID, "round": r.Round}); err != nil {
		return fmt.Errorf("reserve the policy check: %w", err)
	}
	return nil
}

// passPolicy walks the policy statuses of a run with no policy set in scope: the check passes
// over the very plan that reserved it, and history and row are kept (amendment 1).
func (s *Service) passPolicy(ctx context.Context, tx postgres.Tx, r *Run) error {
	plan, err := s.objects.Info(ctx, tx, r.OrganizationID, r.PlanJSONObjectID)
	if err != nil {
		return err
	}
	if _, err := s.bindInput(ctx, tx, r, plan.SHA256, ""); err != nil {
		return err
	}
	if err := s.writeResult(ctx, tx, *r, plan.SHA256, CheckPassed, `{"policy_sets":0}`, `{"policy_sets":0}`); err != nil {
		return err
	}
	if err := step(ctx, tx, r, move{To: PolicyPassed, Actor: authz.System()}); err != nil {
		return err
	}
	return s.awaitApproval(ctx, tx, r)
}

// passAtOnce is passPolicy for a plan that has just ended and whose check is not reserved yet.
// plan is the digest of its JSON.
func (s *Service) passAtOnce(ctx context.Context, tx postgres.Tx, r *Run, plan string) error {
	args := postgres.Args{"id": r.PolicyCheckID(), "run_id": r.ID, "round": r.Round, "input_digest": plan, "evaluation": `{"policy_sets":0}`}
	if err := postgres.Later(ctx, tx, Queries.Get("PolicyPassedAtOnce"), args, nil); err != nil {
		return err
	}
	for _, to := range []Status{PolicyEvaluating, PolicyPassed} {
		if err := step(ctx, tx, r, move{To: to, Actor: authz.System()}); err != nil {
			return err
		}
	}
	return s.awaitApproval(ctx, tx, r)
}

// policyRow is what deciding about a check takes.
type policyRow struct {
	ID            string
	DurableStatus CheckStatus
	InputDigest   string
	InputObjectID ids.Object
	Tries         int
}

// reserved gives the check that the run's successful plan reserved and that is still to be
// decided. The run is locked.
func reserved(ctx context.Context, tx postgres.Tx, r Run) (policyRow, error) {
	row, err := postgres.One[policyRow](ctx, tx, Queries.Get("PolicyRow"), postgres.Args{"run_id": r.ID})
	if err != nil && !postgres.NoRow(err) {
		return row, fmt.Errorf("read the policy check of %s: %w", r.ID, err)
	}
	if err != nil || row.DurableStatus != CheckRunning || (r.DurableStatus != PlanComplete && r.DurableStatus != PolicyEvaluating) {
		return row, fault.New(fault.Conflict, "policy_not_reserved", "%s is %s and has no policy check that waits.", r.ID, r.DurableStatus)
	}
	return row, nil
}

// BindPolicyInput binds the exact derivative that is going to be judged, once (PO-05): the same
// again is fine, another is Conflict "policy_input_rebind" (PO-14). Conflict
// "policy_not_reserved" for a run whose plan has not reserved a check (PO-13).
func (s *Service) BindPolicyInput(ctx context.Context, run ids.Run, digest string, object ids.Object) (bound ids.Object, err error) {
	err = postgres.InTx(ctx, s.db, "runs.bind-policy-input", func(tx postgres.Tx) error {
		r, _, err := lock(ctx, tx, run)
		if err != nil {
			return err
		}
		bound, err = s.bindInput(ctx, tx, &r, digest, object)
		return err
	})
	return bound, err
}

func (s *Service) bindInput(ctx context.Context, tx postgres.Tx, r *Run, digest string, object ids.Object) (ids.Object, error) {
	row, err := reserved(ctx, tx, *r)
	if err != nil {
		return "", err
	}
	if row.InputDigest == digest {
		return row.InputObjectID, nil
	}
	n, err := postgres.Exec(ctx, tx, Queries.Get("PolicyBind"), postgres.Args{"id": row.ID, "input_digest": digest, "input_object_id": object})
	if err != nil {
		return "", err
	}
	if n == 0 {
		return "", fault.New(fault.Conflict, "policy_input_rebind", "The policy check of %s is bound to another input, and that does not change.", r.ID)
	}
	return object, step(ctx, tx, r, move{To: PolicyEvaluating, Actor: authz.System()})
}

// RecordPolicy records what the policies said of a bound input, and moves the run by it: to the
// wait for a decision, to its end without changes, or to policy_failed. All of it commits
// together (PO-12, §3.3). Errors: Conflict "policy_not_reserved", "policy_input_unbound"
// (PO-15, PO-16), "policy_input_rebind" for a result over another input, and
// "policy_scope_differs" for one of other sets than those that are bound.
func (s *Service) RecordPolicy(ctx context.Context, run ids.Run, input string, e policies.Evaluation) error {
	return postgres.InTx(ctx, s.db, "runs.record-policy", func(tx postgres.Tx) error {
		r, _, err := lock(ctx, tx, run)
		if err != nil {
			return err
		}
		row, err := reserved(ctx, tx, r)
		switch {
		case err != nil:
			return err
		case row.InputDigest == "" || input == "":
			return fault.New(fault.Conflict, "policy_input_unbound", "The policy check of %s is bound to no input, so there is nothing that a result could be about.", r.ID)
		case row.InputDigest != input:
			return fault.New(fault.Conflict, "policy_input_rebind", "The policy check of %s is bound to another input than the one this result is about.", r.ID)
		case e.Scope != r.PolicyScope:
			return fault.New(fault.Conflict, "policy_scope_differs", "The result is not of the policy sets that are bound to %s.", r.ID)
		}
		return s.recordPolicy(ctx, tx, &r, input, e)
	})
}

func (s *Service) recordPolicy(ctx context.Context, tx postgres.Tx, r *Run, input string, e policies.Evaluation) error {
	evaluation, err := json.Marshal(e)
	if err != nil {
		return err
	}
	summary, err := json.Marshal(map[string]any{"policy_sets": len(e.Sets), "status": e.Status, "counts": e.Counts})
	if err != nil {
		return err
	}
	if err := s.writeResult(ctx, tx, *r, input, CheckStatus(e.Status), string(evaluation), string(summary)); err != nil {
		return err
	}
	if _, err := postgres.Exec(ctx, tx, Queries.Get("PolicyRelease"), postgres.Args{"id": r.ID, "version": e.Runtime.Version, "digest": e.Runtime.Digest}); err != nil {
		return err
	}
	if err := s.waits(ctx, tx, r.ID, ""); err != nil {
		return err
	}
	if e.Status != policies.Allowed {
		return step(ctx, tx, r, move{To: PolicyFailed, Actor: authz.System(), Reason: e.Reason, Message: e.Summary()})
	}
	if err := step(ctx, tx, r, move{To: PolicyPassed, Actor: authz.System()}); err != nil {
		return err
	}
	return s.awaitApproval(ctx, tx, r)
}

func (s *Service) writeResult(ctx context.Context, tx postgres.Tx, r Run, input string, status CheckStatus, evaluation, summary string) error {
	n, err := postgres.Exec(ctx, tx, Queries.Get("PolicyRecord"), postgres.Args{
		"id": r.PolicyCheckID(), "status": string(status), "evaluation": evaluation, "result": summary, "input_digest": input,
	})
	if err != nil || n != 1 {
		return fmt.Errorf("record the policy result of %s: %d rows: %w", r.ID, n, err)
	}
	return nil
}

// PolicyCheckOf gives a check of a run, with the run at the same instant: the one with this id,
// or the one of the round that the run is in. check is nil when there is none yet.
func (s *Service) PolicyCheckOf(ctx context.Context, actor authz.Actor, run ids.Run, id string) (d Detail, check *PolicyCheck, err error) {
	err = s.ofRun(ctx, "runs.policy-check", actor, run, func(tx postgres.Tx, r Run) error {
		details, err := withHistory(ctx, tx, []Run{r})
		if err != nil {
			return err
		}
		d = details[0]
		if id == "" {
			id = r.PolicyCheckID()
		}
		check, err = checkByID(ctx, tx, run, id)
		return err
	})
	return d, check, err
}

func checkByID(ctx context.Context, tx postgres.Tx, run ids.Run, id string) (*PolicyCheck, error) {
	return oneCheck(postgres.One[PolicyCheck](ctx, tx, Queries.Get("PolicyCheckByID"), postgres.Args{"run_id": run, "id": id}))
}

// newestCheck gives the newest check of a run, or nil.
func newestCheck(ctx context.Context, tx postgres.Tx, run ids.Run) (*PolicyCheck, error) {
	return oneCheck(postgres.One[PolicyCheck](ctx, tx, Queries.Get("PolicyCheck"), postgres.Args{"run_id": run}))
}

func oneCheck(c PolicyCheck, err error) (*PolicyCheck, error) {
	if postgres.NoRow(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the policy check: %w", err)
	}
	return &c, nil
}

// PolicyInput gives the derivative that a check is bound to. It takes the right to read state,
// like the plan that it comes from. The caller closes the reader. NotFound before it is bound.
func (s *Service) PolicyInput(ctx context.Context, actor authz.Actor, run ids.Run, id string) (io.ReadCloser, artifacts.Object, error) {
	d, check, err := s.PolicyCheckOf(ctx, actor, run, id)
	if err != nil {
		return nil, artifacts.Object{}, err
	}
	if err := authz.Allow(actor, authz.StateRead, d.Object()); err != nil {
		return nil, artifacts.Object{}, err
	}
	if check == nil || check.InputObjectID == "" {
		return nil, artifacts.Object{}, fault.New(fault.NotFound, "no_policy_input", "The policy check of %s has no input yet.", run)
	}
	return s.objects.Open(ctx, d.OrganizationID, check.InputObjectID)
}

// OverridePolicy is refused, for everybody: a plan that a mandatory policy forbids has ended
// (RL-23, docs/decisions/0026). Conflict "policy_not_overridable" says what to do instead, to
// whoever might override in Terraform Cloud.
func (s *Service) OverridePolicy(ctx context.Context, actor authz.Actor, run ids.Run) error {
	d, err := s.Get(ctx, actor, run)
	if err != nil {
		return err
	}
	if err := authz.Allow(actor, authz.PoliciesOverride, d.Object()); err != nil {
		return err
	}
	return fault.New(fault.Conflict, "policy_not_overridable", "%s is %s, and what a mandatory policy says is not overridden. Change the configuration, or the policy set (make the policy advisory, or exclude the workspace), and requeue the run.", run, d.DurableStatus)
}
