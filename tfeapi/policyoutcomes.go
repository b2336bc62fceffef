package tfeapi

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/policies"
	"github.com/holdfast-run/holdfast/policies/evaluator"
)

// A policy check once more, as clients of OPA read it: a task stage after the plan, with a policy
// evaluation in it, with an outcome for each policy set. A run does not link the stage, because a
// client that sees both would wait for both (amendment 2).

type evaluationView struct {
	ID               string            `jsonapi:"primary,policy-evaluations"`
	Status           string            `jsonapi:"attr,status"`
	PolicyKind       string            `jsonapi:"attr,policy-kind"`
	StatusTimestamps map[string]string `jsonapi:"attr,status-timestamps"`
	ResultCount      policies.Counts   `jsonapi:"attr,result-count"`
	CreatedAt        time.Time         `jsonapi:"attr,created-at,iso8601"`
	UpdatedAt        time.Time         `jsonapi:"attr,updated-at,iso8601"`
	RuntimeRelease   string            `jsonapi:"attr,policy-runtime-release"`
	related          relations
}

func (v *evaluationView) relations() relations { return v.related }

type setOutcomeView struct {
	ID                   string          `jsonapi:"primary,policy-set-outcomes"`
	Outcomes             []outcomeView   `jsonapi:"attr,outcomes"`
	Error                string          `jsonapi:"attr,error"`
	Overridable          bool            `jsonapi:"attr,overridable"`
	PolicySetName        string          `jsonapi:"attr,policy-set-name"`
	PolicySetDescription string          `jsonapi:"attr,policy-set-description"`
	ResultCount          policies.Counts `jsonapi:"attr,result_count"`
	related              relations
}

// outcomeView has the names that clients of OPA read, which are in another style.
type outcomeView struct {
	EnforcementLevel string                `json:"enforcement_level"`
	Query            string                `json:"query"`
	Status           string                `json:"status"`
	PolicyName       string                `json:"policy_name"`
	Description      string                `json:"description"`
	Output           []printView           `json:"output"`
	Violations       []evaluator.Violation `json:"violations"`
}

type printView struct {
	Print string `json:"print"`
}

func (v *setOutcomeView) relations() relations { return v.related }

// key is the part of the ids that a check, its stage and its evaluation have in common.
func (c checkState) key() string { return strings.TrimPrefix(c.id, "polchk-") }

// asTask is the status in the words of stages and evaluations.
func (c checkState) asTask() string {
	switch wire := c.wire(); wire {
	case "queued":
		return "running"
	case "hard_failed":
		return "failed"
	default: // pending, passed, errored, unreachable
		return wire
	}
}

func (c checkState) stamps() map[string]string {
	stamps := map[string]string{}
	if c.check != nil {
		stamps["running-at"] = rfc3339(c.check.CreatedAt)
		if c.check.CompletedAt != nil {
			stamps[c.asTask()+"-at"] = rfc3339(*c.check.CompletedAt)
		}
	}
	return stamps
}

func (c checkState) updatedAt() time.Time {
	switch {
	case c.check == nil:
		return c.detail.CreatedAt
	case c.check.CompletedAt != nil:
		return *c.check.CompletedAt
	case c.check.EvaluatingAt != nil:
		return *c.check.EvaluatingAt
	}
	return c.check.CreatedAt
}

func newPolicyStageView(c checkState) *taskStageView {
	return &taskStageView{
		ID: "ts-" + c.key(), Stage: "post_plan", Status: c.asTask(), StatusTimestamps: c.stamps(), CreatedAt: c.detail.CreatedAt, UpdatedAt: c.updatedAt(),
		related: relations{"run": ref{"runs", string(c.detail.ID)}, "task-results": []ref{}, "policy-evaluations": []ref{{"policy-evaluations", "poleval-" + c.key()}}},
	}
}

func newEvaluationView(c checkState) *evaluationView {
	return &evaluationView{
		ID: "poleval-" + c.key(), Status: c.asTask(), PolicyKind: string(policies.OPA), StatusTimestamps: c.stamps(), ResultCount: c.evaluation.Counts,
		CreatedAt: c.detail.CreatedAt, UpdatedAt: c.updatedAt(), RuntimeRelease: releaseID(c.evaluation.Runtime),
		related: relations{"policy-attachable": ref{"task-stages", "ts-" + c.key()}, "policy-set-outcomes": outcomeRefs(c)},
	}
}

func outcomeID(c checkState, index int) string { return fmt.Sprintf("psout-%s.%d", c.key(), index) }

func outcomeRefs(c checkState) []ref {
	refs := make([]ref, len(c.evaluation.Sets))
	for i := range c.evaluation.Sets {
		refs[i] = ref{"policy-set-outcomes", outcomeID(c, i)}
	}
	return refs
}

func newSetOutcomeView(c checkState, index int) *setOutcomeView {
	set := c.evaluation.Sets[index]
	view := &setOutcomeView{
		ID: outcomeID(c, index), Outcomes: make([]outcomeView, 0, len(set.Outcomes)), Error: set.Error, Overridable: false, PolicySetName: set.Name,
		PolicySetDescription: set.Description, ResultCount: set.Counts(), related: relations{"policy-evaluation": ref{"policy-evaluations", "poleval-" + c.key()}},
	}
	for _, o := range set.Outcomes {
		view.Outcomes = append(view.Outcomes, newOutcomeView(o))
	}
	return view
}

// newOutcomeView says what clients show of a policy: the violations, an error, what was printed.
func newOutcomeView(o evaluator.Outcome) outcomeView {
	view := outcomeView{
		EnforcementLevel: string(o.Level), Query: o.Query, Status: string(o.Status), PolicyName: o.Policy, Description: o.Description,
		Output: []printView{}, Violations: o.Violations,
	}
	if view.Violations == nil {
		view.Violations = []evaluator.Violation{}
	}
	for _, v := range o.Violations {
		view.Output = append(view.Output, printView{v.Line()})
	}
	if o.Error != "" {
		view.Output = append(view.Output, printView{o.Error})
	}
	for _, text := range o.Prints {
		view.Output = append(view.Output, printView{text})
	}
	return view
}

func (s *server) listPolicyEvaluations(r *request) (answer, error) {
	c, err := s.policyCheckOf(r, "ts-")
	if err != nil {
		return answer{}, err
	}
	return pageOf(r, []*evaluationView{newEvaluationView(c)})
}

func (s *server) readPolicyEvaluation(r *request) (answer, error) {
	c, err := s.policyCheckOf(r, "poleval-")
	if err != nil {
		return answer{}, err
	}
	return ok(newEvaluationView(c)), nil
}

// listPolicySetOutcomes can be narrowed to outcomes of a status or level, each filter with a
// number of its own: filter[0][status], filter[0][enforcement_level].
func (s *server) listPolicySetOutcomes(r *request) (answer, error) {
	c, err := s.policyCheckOf(r, "poleval-")
	if err != nil {
		return answer{}, err
	}
	items := []*setOutcomeView{}
	for i := range c.evaluation.Sets {
		view := newSetOutcomeView(c, i)
		if view.narrow(r.query) {
			items = append(items, view)
		}
	}
	return pageOf(r, items)
}

// narrow leaves the outcomes that any filter asks for; false when there were filters and nothing is left.
func (v *setOutcomeView) narrow(query map[string][]string) bool {
	type filter struct{ status, level string }
	filters := map[string]filter{}
	for name, values := range query {
		number, rest, found := strings.Cut(strings.TrimPrefix(name, "filter["), "][")
		if !strings.HasPrefix(name, "filter[") || !found || len(values) == 0 || values[0] == "" {
			continue
		}
		f := filters[number]
		switch strings.TrimSuffix(rest, "]") {
		case "status":
			f.status = values[0]
		case "enforcement_level", "enforcement-level", "enforcementLevel":
			f.level = values[0]
		}
		filters[number] = f
	}
	if len(filters) == 0 {
		return true
	}
	left := v.Outcomes[:0]
	for _, o := range v.Outcomes {
		for _, f := range filters {
			if (f.status == "" || f.status == o.Status) && (f.level == "" || f.level == o.EnforcementLevel) {
				left = append(left, o)
				break
			}
		}
	}
	v.Outcomes = left
	return len(left) > 0
}

func (s *server) readPolicySetOutcome(r *request) (answer, error) {
	whole := r.vars["id"]
	key, number, _ := strings.Cut(whole, ".")
	index, err := strconv.Atoi(number)
	if err != nil {
		return answer{}, fault.Missing("policy set outcome", whole)
	}
	r.vars["id"] = key
	c, err := s.policyCheckOf(r, "psout-")
	if err != nil {
		return answer{}, err
	}
	if index < 0 || index >= len(c.evaluation.Sets) {
		return answer{}, fault.Missing("policy set outcome", whole)
	}
	return ok(newSetOutcomeView(c, index)), nil
}
