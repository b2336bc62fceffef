package runs

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"time"

	"github.com/holdfast-run/holdfast/artifacts"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/gates"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/policies"
	"github.com/holdfast-run/holdfast/policies/evaluator"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/workspaces"
)

// How an evaluator works.
const (
	policyTries = 3                // of one check, before it fails closed
	policyLease = 30 * time.Second // how long a check is left alone when its evaluator says nothing
	policyPause = 2 * time.Second  // after a try that failed
	gatePause   = 10 * time.Second // while the runtime's release is not allowed
)

// Evaluator judges the plans that have reserved a policy check. Each server runs one or more;
// two that judge the same check do no harm, because its input and its result are written once.
type Evaluator struct {
	runs     *Service
	policies *policies.Service
}

// NewEvaluator makes an evaluator.
func NewEvaluator(s *Service, p *policies.Service) *Evaluator {
	return &Evaluator{runs: s, policies: p}
}

// Run evaluates until ctx ends: at every wake-up of PolicyChannel, and every interval, because a
// wake-up may be lost.
func (e *Evaluator) Run(ctx context.Context, wake *postgres.Listener, interval time.Duration) {
	woken, cancel := wake.Wait(PolicyChannel, "")
	defer cancel()
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		if err := e.Evaluate(ctx); err != nil && ctx.Err() == nil {
			slog.Error("the evaluation of policies failed and is repeated", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-woken:
		case <-ticker.C:
		}
	}
}

// claim is a check that this evaluator is at.
type claim struct {
	ID    string
	RunID ids.Run
	Tries int
}

// Evaluate judges one check after the other until none waits.
func (e *Evaluator) Evaluate(ctx context.Context) error {
	for ctx.Err() == nil {
		var c claim
		err := postgres.InTx(ctx, e.runs.db, "runs.claim-policy-check", func(tx postgres.Tx) (err error) {
			c, err = postgres.One[claim](ctx, tx, Queries.Get("PolicyClaim"), postgres.Args{"lease_seconds": policyLease.Seconds()})
			return err
		})
		if postgres.NoRow(err) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := e.evaluate(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// evaluate judges a claimed check. A try that fails is repeated a few times, and then the check
// fails closed; what failed is no reason to stop with other checks.
func (e *Evaluator) evaluate(ctx context.Context, c claim) error {
	working, stop := context.WithCancel(ctx)
	defer stop()
	go e.renew(working, c)
	denial, err := e.gate(ctx)
	if err != nil {
		return err
	}
	if denial.Closed() {
		return e.giveBack(ctx, c, gatePause, false, denial.Reason)
	}
	if err = e.judge(ctx, c); err == nil {
		return nil
	}
	switch {
	case ctx.Err() != nil: // this server is about to stop: another one, or the next start, does it
		return e.giveBack(context.WithoutCancel(ctx), c, 0, false, "")
	case overtaken(err):
		return nil // canceled, or judged by somebody else
	case fault.Is(err, fault.Unavailable) && !policies.Fault(err): // the database or the store is down, and comes back
		slog.Warn("policies wait for what is down", "run", c.RunID, "error", err)
		return e.giveBack(ctx, c, policyPause, false, "")
	case fault.Is(err, fault.Invalid), c.Tries >= policyTries:
		slog.Error("policies could not be evaluated; the run fails closed", "run", c.RunID, "tries", c.Tries, "error", err)
		return e.failClosed(ctx, c, err)
	}
	slog.Warn("policies could not be evaluated; it is tried once more", "run", c.RunID, "tries", c.Tries, "error", err)
	return e.giveBack(ctx, c, policyPause, true, "")
}

// overtaken tells whether a check was decided about by somebody else in the meantime.
func overtaken(err error) bool {
	return fault.HasCode(err, "policy_not_reserved") || fault.HasCode(err, "policy_input_rebind")
}

// gate asks whether this policy-runner may judge (AU-07). Another server's may.
func (e *Evaluator) gate(ctx context.Context) (denial gates.Denial, err error) {
	err = postgres.InTx(ctx, e.runs.db, "runs.policy-gate", func(tx postgres.Tx) error {
		denial, err = gates.CheckRelease(ctx, tx, e.policies.Runtime().Release().As(gates.PolicyRuntime))
		return err
	})
	return denial, err
}

// renew keeps a check claimed while this evaluator lives.
func (e *Evaluator) renew(ctx context.Context, c claim) {
	ticker := time.NewTicker(policyLease / 3)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		err := postgres.InTx(ctx, e.runs.db, "runs.renew-policy-claim", func(tx postgres.Tx) error {
			_, err := postgres.Exec(ctx, tx, Queries.Get("PolicyRenew"), postgres.Args{"id": c.ID, "lease_seconds": policyLease.Seconds()})
			return err
		})
		if err != nil && ctx.Err() == nil {
			slog.Warn("the claim of a policy check could not be renewed", "run", c.RunID, "error", err)
		}
	}
}

func (e *Evaluator) giveBack(ctx context.Context, c claim, pause time.Duration, counted bool, waits string) error {
	return postgres.InTx(ctx, e.runs.db, "runs.return-policy-check", func(tx postgres.Tx) error {
		_, err := postgres.Exec(ctx, tx, Queries.Get("PolicyReturn"), postgres.Args{"id": c.ID, "pause_seconds": pause.Seconds(), "counted": counted, "last_error": waits})
		if err != nil {
			return err
		}
		return e.runs.waits(ctx, tx, c.RunID, waits)
	})
}

// judge derives and binds the input, unless an earlier try did, and has it judged.
func (e *Evaluator) judge(ctx context.Context, c claim) error {
	var r Run
	var row policyRow
	err := postgres.InSnapshot(ctx, e.runs.db, "runs.policy-input", func(tx postgres.Tx) (err error) {
		if r, err = load(ctx, tx, c.RunID); err != nil {
			return err
		}
		row, err = reserved(ctx, tx, r)
		return err
	})
	if err != nil {
		return err
	}
	if row.InputDigest == "" {
		if row, err = e.bind(ctx, r); err != nil {
			return err
		}
	}
	open := func() (io.ReadCloser, error) {
		body, object, err := e.runs.objects.Open(ctx, r.OrganizationID, row.InputObjectID)
		if err == nil && object.SHA256 != row.InputDigest {
			_ = body.Close()
			err = fault.New(fault.Invalid, policies.InputDamaged, "The derivative of the plan is not the one that is bound to the policy check of %s.", r.ID)
		}
		return body, err
	}
	evaluation, err := e.policies.Judge(ctx, r.OrganizationID, r.ID, r.Round, open)
	if err != nil {
		return err
	}
	return e.runs.RecordPolicy(ctx, r.ID, row.InputDigest, evaluation)
}

// bind makes the derivative of the plan, keeps it as an object, and binds it.
func (e *Evaluator) bind(ctx context.Context, r Run) (policyRow, error) {
	known, facts, err := e.runs.policyFacts(ctx, r)
	if err != nil {
		return policyRow{}, err
	}
	plan := func() (io.ReadCloser, error) {
		body, _, err := e.runs.objects.Open(ctx, r.OrganizationID, r.PlanJSONObjectID)
		return body, err
	}
	pr, pw := io.Pipe()
	go func() {
		var err error
		defer func() { _ = pw.CloseWithError(err) }()
		defer fault.Caught(&err)
		err = e.policies.Runtime().Derive(ctx, plan, known, facts, pw)
	}()
	object, err := e.runs.objects.Put(ctx, artifacts.Spec{Organization: r.OrganizationID, Workspace: r.WorkspaceID, Kind: artifacts.KindPolicyInput, Run: r.ID}, pr, 0)
	_ = pr.CloseWithError(errors.New("the derivative is not wanted any more"))
	if err != nil {
		return policyRow{}, err
	}
	bound, err := e.runs.BindPolicyInput(ctx, r.ID, object.SHA256, object.ID)
	return policyRow{InputDigest: object.SHA256, InputObjectID: bound}, err
}

// failClosed ends a run whose policies could not be asked. A check with an input is recorded as
// errored; one that never got that far stays as it is.
func (e *Evaluator) failClosed(ctx context.Context, c claim, cause error) error {
	why := "The policies could not be evaluated, so the plan is not applied. Look into the server's log, and requeue the run."
	var known *fault.Error
	if errors.As(cause, &known) && (known.Kind == fault.Invalid || known.Kind == fault.Unavailable) {
		why = known.Message
	}
	err := postgres.InTx(ctx, e.runs.db, "runs.policy-failed-closed", func(tx postgres.Tx) error {
		r, _, err := lock(ctx, tx, c.RunID)
		if err != nil {
			return err
		}
		row, err := reserved(ctx, tx, r)
		if err != nil {
			return err
		}
		if row.InputDigest != "" {
			evaluation, err := e.policies.GiveUp(ctx, tx, r.ID, r.Round, why)
			if err != nil {
				return err
			}
			return e.runs.recordPolicy(ctx, tx, &r, row.InputDigest, evaluation)
		}
		if err := step(ctx, tx, &r, move{To: PolicyEvaluating, Actor: authz.System()}); err != nil {
			return err
		}
		return step(ctx, tx, &r, move{To: PolicyFailed, Actor: authz.System(), Reason: policies.ReasonErrored, Message: why})
	})
	if overtaken(err) {
		return nil
	}
	return err
}

// policyFacts are what policies may know of a run beside its plan, and what is marked as sensitive
// outside of the configuration: variables of the workspace, and its key for fetching modules.
func (s *Service) policyFacts(ctx context.Context, r Run) (known evaluator.Secrets, facts json.RawMessage, err error) {
	err = postgres.InSnapshot(ctx, s.db, "runs.policy-facts", func(tx postgres.Tx) error {
		variables, err := s.openVariables(ctx, tx, r.OrganizationID, snapshotLabel(r.ID), r.VariablesSealed)
		if err != nil {
			return err
		}
		for _, v := range variables {
			if !v.Sensitive && !v.SSH { // older snapshots do not mark the key
				continue
			}
			known.Values = append(known.Values, v.Value)
			if !v.Env && !v.SSH {
				known.Variables = append(known.Variables, v.Key)
			}
		}
		w, err := workspaces.Load(ctx, tx, r.WorkspaceID)
		if err != nil {
			return err
		}
		tags := w.TagNames
		if tags == nil {
			tags = []string{}
		}
		facts, err = json.Marshal(map[string]any{
			"id": r.ID, "created_at": r.CreatedAt.UTC().Format(time.RFC3339), "message": r.Message, "is_destroy": r.IsDestroy, "refresh": r.Refresh, "refresh_only": r.RefreshOnly,
			"replace_addrs": r.ReplaceAddrs, "target_addrs": r.TargetAddrs, "speculative": r.PlanOnly, "operation": r.Operation,
			"organization": map[string]any{"name": r.OrganizationName}, "project": map[string]any{"id": w.Project, "name": w.ProjectName},
			"workspace": map[string]any{
				"id": w.ID, "name": w.Name, "description": w.Description, "auto_apply": w.AutoApply, "execution_mode": w.ExecutionMode, "working_directory": w.WorkingDirectory, "tags": tags,
			},
		})
		return err
	})
	return known, facts, err
}
