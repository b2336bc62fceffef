package tfeapi

import (
	"io"
	"net/http"
	"strings"

	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/gates"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/policies"
	"github.com/holdfast-run/holdfast/runs"
)

// policyCheckView is the check of a plan as native clients see it. It is there from the run's
// creation, before it has a row; durable-status and the digests are the row's.
type policyCheckView struct {
	ID               string                 `jsonapi:"primary,policy-checks"`
	Status           string                 `jsonapi:"attr,status"`
	Scope            string                 `jsonapi:"attr,scope"`
	Actions          policyCheckActions     `jsonapi:"attr,actions"`
	Permissions      policyCheckPermissions `jsonapi:"attr,permissions"`
	Result           policyCheckResult      `jsonapi:"attr,result"`
	StatusTimestamps map[string]string      `jsonapi:"attr,status-timestamps"`
	DurableStatus    *string                `jsonapi:"attr,durable-status"`
	InputDigest      *string                `jsonapi:"attr,input-digest"`
	ResultDigest     *string                `jsonapi:"attr,result-digest"`
	RuntimeRelease   string                 `jsonapi:"attr,policy-runtime-release"`
	run              string
}

type policyCheckActions struct {
	IsOverridable bool `json:"is-overridable"`
}

type policyCheckPermissions struct {
	CanOverride bool `json:"can-override"`
}

type policyCheckResult struct {
	Result         bool `json:"result"`
	Passed         int  `json:"passed"`
	TotalFailed    int  `json:"total-failed"`
	HardFailed     int  `json:"hard-failed"`
	SoftFailed     int  `json:"soft-failed"`
	AdvisoryFailed int  `json:"advisory-failed"`
	Errored        int  `json:"errored"`
	Duration       int  `json:"duration"` // milliseconds
}

func (v *policyCheckView) relations() relations { return relations{"run": ref{"runs", v.run}} }

func policyCheckRef(r runs.Run) ref { return ref{"policy-checks", r.PolicyCheckID()} }

// checkState is a policy check with the run it belongs to, read at one instant.
type checkState struct {
	id         string
	detail     runs.Detail
	check      *runs.PolicyCheck // nil before the plan has reserved it
	evaluation policies.Evaluation
}

// wire is the status that native clients know. They know no running, and a check that is
// canceled makes them fail (NC-13). One that came to its result shows it only together with the
// run that has taken it in, which commits with it.
func (c checkState) wire() string {
	if c.check != nil {
		switch c.check.DurableStatus {
		case runs.CheckPassed:
			return "passed"
		case runs.CheckFailed:
			return "hard_failed"
		case runs.CheckErrored:
			return "errored"
		}
	}
	if c.id != c.detail.PolicyCheckID() {
		return "unreachable" // of an earlier round, which ended without it
	}
	switch c.detail.DurableStatus {
	case runs.DispatchPending, runs.Queued, runs.Planning:
		return "pending"
	case runs.PlanComplete, runs.PolicyEvaluating, runs.PolicyPassed:
		return "queued"
	case runs.PolicyFailed:
		return "errored"
	}
	return "unreachable"
}

// abandoned tells that the run has ended, or begun another round, before anything was judged: it was
// canceled, a run task was against it, or the input could not be made. The row stays as it
// was reserved, which is not running any more (docs/policies.md).
func (c checkState) abandoned() bool {
	return c.check != nil && c.check.DurableStatus == runs.CheckRunning && (c.detail.DurableStatus.Final() || c.id != c.detail.PolicyCheckID())
}

func newPolicyCheckView(c checkState) *policyCheckView {
	counts := c.evaluation.Counts
	view := &policyCheckView{
		ID: c.id, Status: c.wire(), Scope: "organization", StatusTimestamps: map[string]string{}, run: string(c.detail.ID),
		Permissions: policyCheckPermissions{CanOverride: false}, // a mandatory policy is not overridden (decision 26)
		Result: policyCheckResult{
			Result: c.check != nil && c.check.DurableStatus == runs.CheckPassed, Passed: counts.Passed, TotalFailed: counts.MandatoryFailed + counts.AdvisoryFailed,
			HardFailed: counts.MandatoryFailed, AdvisoryFailed: counts.AdvisoryFailed, Errored: counts.Errored,
		},
		RuntimeRelease: releaseID(c.evaluation.Runtime),
	}
	if c.check == nil {
		return view
	}
	view.InputDigest, view.ResultDigest = orNull(c.check.InputDigest), orNull(c.check.ResultDigest)
	if !c.abandoned() {
		view.DurableStatus = orNull(string(c.check.DurableStatus))
	}
	view.StatusTimestamps["queued-at"] = rfc3339(c.check.CreatedAt)
	if c.check.CompletedAt != nil {
		view.StatusTimestamps[strings.ReplaceAll(view.Status, "_", "-")+"-at"] = rfc3339(*c.check.CompletedAt)
		if c.check.EvaluatingAt != nil {
			view.Result.Duration = int(c.check.CompletedAt.Sub(*c.check.EvaluatingAt).Milliseconds())
		}
	}
	return view
}

// releaseID names a release as the allow-lists do; empty when there is none.
func releaseID(r gates.Release) string {
	if r == (gates.Release{}) {
		return ""
	}
	return r.Version + "@" + r.Digest
}

// policyCheckOf finds a check by the part of its id that is the run's.
func (s *server) policyCheckOf(r *request, prefix string) (checkState, error) {
	key, found := strings.CutPrefix(r.vars["id"], prefix)
	const length = len("1111111111111111")
	missing := fault.Missing(nouns[prefix], r.vars["id"])
	if !found || len(key) < length {
		return checkState{}, missing
	}
	run, err := ids.Parse[ids.Run]("run-" + key[:length])
	if err != nil {
		return checkState{}, missing
	}
	c, err := s.checkOfRun(r, run, "polchk-"+key)
	if fault.Is(err, fault.NotFound) {
		err = missing
	}
	return c, err
}

var nouns = map[string]string{"polchk-": "policy check", "ts-": "task stage", "poleval-": "policy evaluation", "psout-": "policy set outcome"}

// checkOfRun reads a check of a run; its id may be empty for the one of the round it is in.
func (s *server) checkOfRun(r *request, run ids.Run, id string) (checkState, error) {
	d, check, err := s.Runs.PolicyCheckOf(r.ctx, r.actor, run, id)
	if err != nil {
		return checkState{}, err
	}
	c := checkState{id: id, detail: d, check: check}
	if id == "" {
		c.id = d.PolicyCheckID()
	}
	if check == nil && (c.id != d.PolicyCheckID() || d.PolicySets == 0) {
		return c, fault.Missing("policy check", c.id)
	}
	if check != nil {
		c.evaluation, err = check.Result()
	}
	return c, err
}

// checksOf are the checks of a run's round that clients can see: one, or none.
func (s *server) checksOf(r *request) ([]checkState, error) {
	run, err := id[ids.Run](r)
	if err != nil {
		return nil, err
	}
	d, err := s.Runs.Get(r.ctx, r.actor, run)
	if err != nil || d.PolicySets == 0 {
		return nil, err
	}
	c, err := s.checkOfRun(r, run, "")
	return []checkState{c}, err
}

func (s *server) listPolicyChecks(r *request) (answer, error) {
	checks, err := s.checksOf(r)
	if err != nil {
		return answer{}, err
	}
	items := []*policyCheckView{}
	for _, c := range checks {
		items = append(items, newPolicyCheckView(c))
	}
	return pageOf(r, items)
}

func (s *server) readPolicyCheck(r *request) (answer, error) {
	c, err := s.policyCheckOf(r, "polchk-")
	if err != nil {
		return answer{}, err
	}
	return ok(newPolicyCheckView(c)), nil
}

// policyCheckOutput is what the policies said, as text for a terminal (PO-19).
func (s *server) policyCheckOutput(r *request) (answer, error) {
	c, err := s.policyCheckOf(r, "polchk-")
	if err != nil {
		return answer{}, err
	}
	text := ""
	switch {
	case len(c.evaluation.Sets) > 0:
		text = c.evaluation.Text()
	case c.detail.DurableStatus.Final():
		text = c.detail.StatusMessage + "\n"
	}
	return answer{status: http.StatusOK, stream: io.NopCloser(strings.NewReader(text)), size: int64(len(text)), mediaType: "text/plain; charset=utf-8"}, nil
}

// policyCheckInput is the derivative that was judged, for whoever writes policies.
func (s *server) policyCheckInput(r *request) (answer, error) {
	c, err := s.policyCheckOf(r, "polchk-")
	if err != nil {
		return answer{}, err
	}
	body, object, err := s.Runs.PolicyInput(r.ctx, r.actor, c.detail.ID, c.id)
	if err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusOK, stream: body, size: object.Size, mediaType: "application/json"}, nil
}

func (s *server) overridePolicyCheck(r *request) (answer, error) {
	c, err := s.policyCheckOf(r, "polchk-")
	if err != nil {
		return answer{}, err
	}
	return answer{}, s.Runs.OverridePolicy(r.ctx, r.actor, c.detail.ID)
}
