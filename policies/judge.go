package policies

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/gates"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/policies/evaluator"
	"github.com/holdfast-run/holdfast/postgres"
)

// Status is what the sets of a run come to together.
type Status string

// The statuses.
const (
	Allowed Status = "passed"  // no mandatory policy failed or could not be asked
	Denied  Status = "failed"  // a mandatory policy forbids the plan
	Unclear Status = "errored" // a mandatory policy, or a whole set, could not be asked: never an approval
)

// Evaluation is what the sets in the scope of a run said of its plan.
type Evaluation struct {
	Scope   string        `json:"scope"` // the digest of the sets
	Runtime gates.Release `json:"runtime"`
	Status  Status        `json:"status"`
	Reason  string        `json:"reason,omitempty"` // a stable code, unless it is Allowed
	Counts  Counts        `json:"counts"`
	Sets    []SetOutcome  `json:"sets"`
}

// Counts are of policies.
type Counts struct {
	Passed          int `json:"passed"`
	AdvisoryFailed  int `json:"advisory-failed"`
	MandatoryFailed int `json:"mandatory-failed"`
	Errored         int `json:"errored"`
}

// SetOutcome is what one set said.
type SetOutcome struct {
	Set         ids.PolicySet        `json:"set"`
	Version     ids.PolicySetVersion `json:"version"`
	Digest      string               `json:"digest"`
	Name        string               `json:"name"`
	Description string               `json:"description"`
	Kind        Kind                 `json:"kind"`
	Overridable bool                 `json:"overridable"`
	Error       string               `json:"error,omitempty"` // why none of it could be asked
	Outcomes    []evaluator.Outcome  `json:"outcomes"`
}

// The reasons of an evaluation that does not allow.
const (
	ReasonDenied      = "policy_denied"
	ReasonErrored     = "policy_errored"
	ReasonUnsupported = "unsupported_policy_kind"
)

// Counts of one set.
func (s SetOutcome) Counts() (c Counts) {
	for _, o := range s.Outcomes {
		switch {
		case o.Status == evaluator.Passed:
			c.Passed++
		case o.Status == evaluator.Errored:
			c.Errored++
		case o.Level == evaluator.Advisory:
			c.AdvisoryFailed++
		default:
			c.MandatoryFailed++
		}
	}
	if s.Error != "" {
		c.Errored++
	}
	return c
}

// conclude sums up. Only what was asked and found good is allowed.
func (e *Evaluation) conclude() {
	e.Status, e.Reason, e.Counts = Allowed, "", Counts{}
	unclear := func(reason string) {
		if e.Status != Denied && e.Reason != ReasonUnsupported {
			e.Status, e.Reason = Unclear, reason
		}
	}
	for _, s := range e.Sets {
		c := s.Counts()
		e.Counts.Passed += c.Passed
		e.Counts.AdvisoryFailed += c.AdvisoryFailed
		e.Counts.MandatoryFailed += c.MandatoryFailed
		e.Counts.Errored += c.Errored
		switch {
		case s.Error != "" && s.Kind != OPA:
			unclear(ReasonUnsupported)
		case s.Error != "":
			unclear(ReasonErrored)
		}
		for _, o := range s.Outcomes {
			switch {
			case o.Level == evaluator.Advisory || o.Status == evaluator.Passed:
			case o.Status == evaluator.Failed:
				e.Status, e.Reason = Denied, ReasonDenied
			default:
				unclear(ReasonErrored)
			}
		}
	}
}

// Judge asks every set that is bound to a round of a run. open gives the derivative, once for
// each set. Errors are those that a repeat may not have: of database and store, of a
// policy-runner that crashed or took too long. What a repeat would not change is part of the
// evaluation, which does not allow then.
func (s *Service) Judge(ctx context.Context, org ids.Organization, run ids.Run, round int, open func() (io.ReadCloser, error)) (e Evaluation, err error) {
	bound, err := s.bundles(ctx, org, run, round)
	if err != nil {
		return e, err
	}
	e = Evaluation{Runtime: s.runtime.Release(), Sets: make([]SetOutcome, 0, len(bound))}
	var scope []scoped
	for _, b := range bound {
		scope = append(scope, scoped{Set: b.Set, Kind: b.Kind, Version: b.Version, Digest: b.Digest, ParametersRevision: b.ParametersRevision})
		o := SetOutcome{
			Set: b.Set, Version: b.Version, Digest: b.Digest, Name: b.Name, Description: b.Description, Kind: b.Kind, Overridable: b.Overridable, Outcomes: []evaluator.Outcome{},
		}
		if b.Kind != OPA {
			o.Error = fmt.Sprintf("The policies of set %q are written in %s, which this server keeps and does not evaluate. Nothing in its scope is applied: write them in Rego, or exclude the workspace.", b.Name, b.Kind)
		} else if err := s.ask(ctx, b, open, &o); err != nil {
			return e, err
		}
		e.Sets = append(e.Sets, o)
	}
	e.Scope = scopeOf(scope).Digest
	e.conclude()
	return e, nil
}

func (s *Service) ask(ctx context.Context, b boundBundle, open func() (io.ReadCloser, error), o *SetOutcome) error {
	derivative, err := open()
	if err != nil {
		return err
	}
	defer func() { _ = derivative.Close() }() // it was read, or the policy-runner gave up
	o.Outcomes, err = s.runtime.Evaluate(ctx, b.bundle, b.parameters, derivative)
	if fault.HasCode(err, codeMemory) || fault.HasCode(err, codeInput) {
		var why *fault.Error
		errors.As(err, &why)
		o.Outcomes, o.Error = []evaluator.Outcome{}, why.Message
		return nil
	}
	return err
}

// GiveUp is the evaluation of a run whose policies could not be asked, however often it was tried.
func (s *Service) GiveUp(ctx context.Context, tx postgres.Tx, run ids.Run, round int, why string) (Evaluation, error) {
	bound, err := BoundTo(ctx, tx, run, round)
	e := Evaluation{Runtime: s.runtime.Release(), Sets: []SetOutcome{}}
	var scope []scoped
	for _, b := range bound {
		scope = append(scope, scoped{Set: b.Set, Kind: b.Kind, Version: b.Version, Digest: b.Digest, ParametersRevision: b.ParametersRevision})
		e.Sets = append(e.Sets, SetOutcome{
			Set: b.Set, Version: b.Version, Digest: b.Digest, Name: b.Name, Description: b.Description, Kind: b.Kind, Overridable: b.Overridable, Error: why, Outcomes: []evaluator.Outcome{},
		})
	}
	e.Scope = scopeOf(scope).Digest
	e.conclude()
	return e, err
}

// boundBundle is a bound set with what it consists of.
type boundBundle struct {
	Bound
	bundle     evaluator.Bundle
	parameters map[string]string
}

func (s *Service) bundles(ctx context.Context, org ids.Organization, run ids.Run, round int) (list []boundBundle, err error) {
	err = postgres.InSnapshot(ctx, s.db, "policies.bundles", func(tx postgres.Tx) error {
		bound, err := BoundTo(ctx, tx, run, round)
		if err != nil {
			return err
		}
		for _, b := range bound {
			full := boundBundle{Bound: b, parameters: map[string]string{}}
			if b.Kind == OPA {
				if full.bundle, err = s.openBundle(ctx, tx, org, b); err != nil {
					return err
				}
			}
			if b.ParametersSealed != nil {
				plain, err := s.objects.OpenValue(ctx, tx, org, boundLabel(run, round, b.Set), b.ParametersSealed)
				if err != nil {
					return err
				}
				if err := json.Unmarshal(plain, &full.parameters); err != nil {
					return fmt.Errorf("read the parameters of %s: %w", b.Set, err)
				}
			}
			list = append(list, full)
		}
		return nil
	})
	return list, err
}

// openBundle gives the bundle of a bound version, which must be the very one that was bound.
func (s *Service) openBundle(ctx context.Context, tx postgres.Tx, org ids.Organization, b Bound) (bundle evaluator.Bundle, err error) {
	v, err := loadVersion(ctx, tx, b.Version)
	if err != nil {
		return bundle, err
	}
	plain, err := s.objects.OpenValue(ctx, tx, org, bundleLabel(v.ID), v.BundleSealed)
	if err != nil {
		return bundle, err
	}
	if err := json.Unmarshal(plain, &bundle); err != nil {
		return bundle, fmt.Errorf("read the bundle of %s: %w", v.ID, err)
	}
	_, digest, err := encodeBundle(bundle)
	if err == nil && digest != b.Digest {
		err = fault.New(fault.Internal, codeDamaged, "Version %s of policy set %q is not what was bound to the run.", v.ID, b.Name)
	}
	return bundle, err
}

// Summary says in one line why an evaluation does not allow; empty when it does.
func (e Evaluation) Summary() string {
	if e.Status == Allowed {
		return ""
	}
	for _, s := range e.Sets {
		if e.Status == Unclear && s.Error != "" {
			return s.Error
		}
		for _, o := range s.Outcomes {
			switch {
			case o.Level == evaluator.Advisory:
			case e.Status == Denied && o.Status == evaluator.Failed:
				text := fmt.Sprintf("Policy %s of set %s forbids the plan", o.Policy, s.Name)
				if len(o.Violations) > 0 {
					text += ": " + o.Violations[0].Line()
				}
				if more := e.Counts.MandatoryFailed - 1; more > 0 {
					text += fmt.Sprintf(" (%d more mandatory policies failed)", more)
				}
				return text
			case e.Status == Unclear && o.Status == evaluator.Errored:
				return fmt.Sprintf("Policy %s of set %s could not be evaluated: %s", o.Policy, s.Name, o.Error)
			}
		}
	}
	return "The policies could not be evaluated."
}

// Text is the evaluation as people read it in a terminal (PO-19): what was asked, and of each
// violation the rule, the address of the resource and the message.
func (e Evaluation) Text() string {
	var b strings.Builder
	c := e.Counts
	fmt.Fprintf(&b, "%d policies evaluated: %d passed, %d failed mandatory, %d failed advisory, %d errored.\n",
		c.Passed+c.MandatoryFailed+c.AdvisoryFailed+c.Errored, c.Passed, c.MandatoryFailed, c.AdvisoryFailed, c.Errored)
	for _, s := range e.Sets {
		fmt.Fprintf(&b, "\nPolicy set %s\n", s.Name)
		if s.Error != "" {
			fmt.Fprintf(&b, "  ERRORED  %s\n", s.Error)
		}
		for _, o := range s.Outcomes {
			fmt.Fprintf(&b, "  %-7s  %s (%s)\n", strings.ToUpper(string(o.Status)), o.Policy, o.Level)
			if o.Error != "" {
				fmt.Fprintf(&b, "           %s\n", o.Error)
			}
			for _, v := range o.Violations {
				fmt.Fprintf(&b, "           %s\n", v.Line())
			}
			if o.More > 0 {
				fmt.Fprintf(&b, "           and %d more\n", o.More)
			}
		}
	}
	switch {
	case e.Status != Allowed:
		fmt.Fprintf(&b, "\nThe plan is not applied. %s\n", e.Summary())
	case c.AdvisoryFailed > 0:
		fmt.Fprintf(&b, "\nThe plan may be applied: what failed is advisory.\n")
	}
	return b.String()
}
