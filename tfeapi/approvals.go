package tfeapi

import (
	"time"

	"github.com/holdfast-run/holdfast/approvals"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/runs"
)

// Decisions about a plan. The native actions apply and discard, and approve and reject beside them,
// are the same decisions (AR-07).

// approvalView is one decision on the wire (AR-01…AR-06).
type approvalView struct {
	ID            string      `jsonapi:"primary,run-approvals"`
	Decision      string      `jsonapi:"attr,decision"`
	Source        string      `jsonapi:"attr,source"`
	Comment       string      `jsonapi:"attr,comment"`
	Round         int         `jsonapi:"attr,round"`
	DecidedAt     time.Time   `jsonapi:"attr,decided-at,iso8601"`
	SpentAt       *time.Time  `jsonapi:"attr,spent-at,iso8601"`
	ReviewerTeams []string    `jsonapi:"attr,reviewer-teams"`
	Binding       coveredView `jsonapi:"attr,binding"`
	BindingDigest string      `jsonapi:"attr,binding-digest"`
	related       relations
}

func (v *approvalView) relations() relations { return v.related }

// coveredView is what a decision covers (AP-16).
type coveredView struct {
	PlanDigest                string `json:"plan-digest"`
	ConfigurationDigest       string `json:"configuration-digest"`
	DependencyBundleDigest    string `json:"dependency-bundle-digest"` // of the lock file
	PredecessorStateVersionID string `json:"predecessor-state-version-id"`
	PredecessorStateChecksum  string `json:"predecessor-state-checksum"`
	PolicyResultDigest        string `json:"policy-result-digest"`
}

func newApprovalView(e approvals.Entry) *approvalView {
	view := &approvalView{
		ID: string(e.ID), Decision: string(e.Decision), Source: string(e.Source), Comment: e.Comment, Round: e.Round, DecidedAt: e.DecidedAt, SpentAt: e.SpentAt,
		ReviewerTeams: texts(e.ReviewerTeams), BindingDigest: e.BindingDigest,
		Binding: coveredView{
			PlanDigest: e.PlanDigest, ConfigurationDigest: e.ConfigurationDigest, DependencyBundleDigest: e.LockFileDigest,
			PredecessorStateVersionID: string(e.PredecessorVersionID), PredecessorStateChecksum: e.PredecessorSHA256, PolicyResultDigest: e.PolicyResultDigest,
		},
		related: relations{
			"run": ref{"runs", string(e.RunID)}, "plan": ref{"plans", string(e.PlanID)}, "requester": ref{"users", string(e.RequesterID)}, "reviewer": nil,
		},
	}
	if e.ReviewerID != "" {
		view.related["reviewer"] = ref{"users", string(e.ReviewerID)}
	}
	return view
}

func texts[T ~string](of []T) []string {
	list := make([]string, len(of))
	for i, one := range of {
		list[i] = string(one)
	}
	return list
}

func (s *server) listApprovals(r *request) (answer, error) {
	run, p, err := pageOfRun(r)
	if err != nil {
		return answer{}, err
	}
	list, err := s.Runs.Decisions(r.ctx, r.actor, run)
	if err != nil {
		return answer{}, err
	}
	items := []*approvalView{}
	for i := p.offset(); i < min(len(list), p.offset()+p.limit()); i++ {
		items = append(items, newApprovalView(list[i]))
	}
	return page(items, p, len(list)), nil
}

type decisionAttributes struct {
	Decision      Opt[string] `json:"decision"`
	Comment       Opt[string] `json:"comment"`
	BindingDigest Opt[string] `json:"binding-digest"`
}

func (a decisionAttributes) decision() runs.Decision {
	return runs.Decision{Comment: a.Comment.Or(""), BindingDigest: a.BindingDigest.Or("")}
}

// applyRun and discardRun are for native clients, which send "{}" or nothing and do not read the answer.
func (s *server) applyRun(r *request) (answer, error) {
	run, a, err := actionInput[decisionAttributes](r)
	if err != nil {
		return answer{}, err
	}
	return accepted(), s.Runs.Confirm(r.ctx, r.actor, run, a.decision())
}

func (s *server) discardRun(r *request) (answer, error) {
	run, a, err := actionInput[decisionAttributes](r)
	if err != nil {
		return answer{}, err
	}
	return accepted(), s.Runs.Discard(r.ctx, r.actor, run, a.decision())
}

func (s *server) approveRun(r *request) (answer, error) {
	run, a, err := actionInput[decisionAttributes](r)
	if err != nil {
		return answer{}, err
	}
	a.Decision = Opt[string]{Value: string(approvals.Approved), Present: true}
	return s.decide(r, run, a, false)
}

func (s *server) rejectRun(r *request) (answer, error) {
	run, a, err := actionInput[decisionAttributes](r)
	if err != nil {
		return answer{}, err
	}
	a.Decision = Opt[string]{Value: string(approvals.Rejected), Present: true}
	return s.decide(r, run, a, false)
}

// createApproval is both in one, with the decision in the document.
func (s *server) createApproval(r *request) (answer, error) {
	run, err := id[ids.Run](r)
	if err != nil {
		return answer{}, err
	}
	body, err := r.body()
	if err != nil {
		return answer{}, err
	}
	in, err := decode[decisionAttributes](body, "run-approvals")
	if err != nil {
		return answer{}, err
	}
	return s.decide(r, run, in.Attributes, true)
}

// decide answers with the record of the decision.
func (s *server) decide(r *request, run ids.Run, a decisionAttributes, isNew bool) (answer, error) {
	var err error
	switch approvals.Decision(a.Decision.Or("")) {
	case approvals.Approved:
		err = s.Runs.Confirm(r.ctx, r.actor, run, a.decision())
	case approvals.Rejected:
		err = s.Runs.Discard(r.ctx, r.actor, run, a.decision())
	default:
		err = fault.New(fault.Invalid, "invalid_attribute", "Decision must be %s or %s", approvals.Approved, approvals.Rejected).At("/data/attributes/decision")
	}
	if err != nil {
		return answer{}, err
	}
	list, err := s.Runs.Decisions(r.ctx, r.actor, run)
	if err != nil {
		return answer{}, err
	}
	for i := len(list) - 1; i >= 0; i-- {
		if list[i].ReviewerID == r.actor.User {
			if isNew {
				return created(newApprovalView(list[i])), nil
			}
			return ok(newApprovalView(list[i])), nil
		}
	}
	return accepted(), nil
}

// requirementView is what the decision about a run takes and how far it has come.
type requirementView struct {
	Mode              string      `json:"mode"`
	RequiredApprovals int         `json:"required-approvals"`
	ExcludeRequester  bool        `json:"exclude-requester"`
	ReviewerTeams     [][]string  `json:"reviewer-teams"`
	EnvironmentClass  string      `json:"environment-class"`
	Given             int         `json:"given"`
	Missing           int         `json:"missing"`
	Binding           coveredView `json:"binding"`
	BindingDigest     string      `json:"binding-digest"`
}

func newRequirementView(q *runs.Requirement) *requirementView {
	if q == nil {
		return nil
	}
	e, b := newEffectiveRule(q.Rule), q.Binding
	return &requirementView{
		Mode: e.Mode, RequiredApprovals: e.RequiredApprovals, ExcludeRequester: e.ExcludeRequester, ReviewerTeams: e.ReviewerTeams, EnvironmentClass: e.EnvironmentClass,
		Given: q.Given, Missing: q.Missing, BindingDigest: b.Digest(),
		Binding: coveredView{
			PlanDigest: b.Plan, ConfigurationDigest: b.Configuration, DependencyBundleDigest: b.LockFile,
			PredecessorStateVersionID: string(b.Predecessor), PredecessorStateChecksum: b.PredecessorSHA256, PolicyResultDigest: b.PolicyResult,
		},
	}
}

// waitView is a wait for a decision that has ended, and what the database said to it (AP-02…AP-05, AP-09).
type waitView struct {
	WaitError    string  `json:"wait-error"`
	RequestedAt  string  `json:"requested-at"`
	Outcome      *string `json:"outcome"`
	ArbitratedAt *string `json:"arbitrated-at"`
}

func newWaitViews(list []runs.Arbitration) []waitView {
	views := make([]waitView, 0, len(list))
	for _, a := range list {
		views = append(views, waitView{WaitError: a.WaitError, RequestedAt: rfc3339(a.RequestedAt), Outcome: orNull(string(a.Outcome)), ArbitratedAt: stamp(a.ArbitratedAt)})
	}
	return views
}
