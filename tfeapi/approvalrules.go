package tfeapi

import (
	"net/http"

	"github.com/holdfast-run/holdfast/approvals"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/workspaces"
)

// approvalRuleView is what is said about approvals at one place, and what holds there. Its id is that
// of the place; what is null is not said there.
type approvalRuleView struct {
	ID                string        `jsonapi:"primary,approval-rules"`
	Mode              *string       `jsonapi:"attr,mode"`
	RequiredApprovals *int          `jsonapi:"attr,required-approvals"`
	ExcludeRequester  *bool         `jsonapi:"attr,exclude-requester"`
	ReviewerTeams     []string      `jsonapi:"attr,reviewer-teams"`
	EnvironmentClass  *string       `jsonapi:"attr,environment-class"`
	Effective         effectiveRule `jsonapi:"attr,effective"`
}

func (*approvalRuleView) relations() relations { return nil }

// effectiveRule is what all places around say together. A reviewer is in one team of each list.
type effectiveRule struct {
	Mode              string     `json:"mode"`
	RequiredApprovals int        `json:"required-approvals"`
	ExcludeRequester  bool       `json:"exclude-requester"`
	ReviewerTeams     [][]string `json:"reviewer-teams"`
	EnvironmentClass  string     `json:"environment-class"`
}

func newEffectiveRule(r approvals.Rule) effectiveRule {
	r = r.Settled()
	e := effectiveRule{
		Mode: string(r.Mode), RequiredApprovals: r.Required, ExcludeRequester: r.ExcludeRequester, ReviewerTeams: [][]string{}, EnvironmentClass: string(workspaces.Other),
	}
	for _, list := range r.Reviewers {
		e.ReviewerTeams = append(e.ReviewerTeams, texts(list))
	}
	if r.Production {
		e.EnvironmentClass = string(workspaces.Production)
	}
	return e
}

func newApprovalRuleView(said approvals.Said) *approvalRuleView {
	view := &approvalRuleView{
		ID: said.ID(), Mode: (*string)(said.Mode), RequiredApprovals: said.Required, ExcludeRequester: said.ExcludeRequester,
		EnvironmentClass: (*string)(said.Class), Effective: newEffectiveRule(said.Effective),
	}
	if said.Reviewers != nil {
		view.ReviewerTeams = texts(said.Reviewers)
	}
	return view
}

// place makes the handlers of a kind of place.
type placeOf func(r *request) (approvals.Target, error)

func organizationPlace(r *request) (approvals.Target, error) {
	return approvals.Target{Organization: r.vars["organization"]}, nil
}

func projectPlace(r *request) (t approvals.Target, err error) {
	t.Project, err = id[ids.Project](r)
	return t, err
}

func workspacePlace(r *request) (t approvals.Target, err error) {
	t.Workspace, err = id[ids.Workspace](r)
	return t, err
}

func (s *server) readApprovalRule(at placeOf) func(r *request) (answer, error) {
	return func(r *request) (answer, error) {
		t, err := at(r)
		if err != nil {
			return answer{}, err
		}
		said, err := s.Approvals.Rule(r.ctx, r.actor, t)
		return ok(newApprovalRuleView(said)), err
	}
}

type approvalRuleAttributes struct {
	Mode              Opt[string]   `json:"mode"`
	RequiredApprovals Opt[int]      `json:"required-approvals"`
	ExcludeRequester  Opt[bool]     `json:"exclude-requester"`
	ReviewerTeams     Opt[[]string] `json:"reviewer-teams"`
	EnvironmentClass  Opt[string]   `json:"environment-class"`
}

func (s *server) changeApprovalRule(at placeOf) func(r *request) (answer, error) {
	return func(r *request) (answer, error) {
		t, err := at(r)
		if err != nil {
			return answer{}, err
		}
		body, err := r.body()
		if err != nil {
			return answer{}, err
		}
		in, err := decode[approvalRuleAttributes](body, "approval-rules")
		if err != nil {
			return answer{}, err
		}
		teams, err := teamIDs(in.Attributes.ReviewerTeams)
		if err != nil {
			return answer{}, err
		}
		said, err := s.Approvals.Change(r.ctx, r.actor, t, func(setting *approvals.Setting) { in.Attributes.changes(setting, teams) })
		return ok(newApprovalRuleView(said)), err
	}
}

func teamIDs(said Opt[[]string]) (list []ids.Team, err error) {
	for _, text := range said.Value {
		team, err := ids.Parse[ids.Team](text)
		if err != nil {
			return nil, err
		}
		list = append(list, team)
	}
	return list, nil
}

// changes sets what is there, and takes away what is null.
func (a approvalRuleAttributes) changes(s *approvals.Setting, teams []ids.Team) {
	if a.Mode.Present {
		s.Mode = (*approvals.Mode)(a.Mode.Pointer())
	}
	if a.RequiredApprovals.Present {
		s.Required = a.RequiredApprovals.Pointer()
	}
	if a.ExcludeRequester.Present {
		s.ExcludeRequester = a.ExcludeRequester.Pointer()
	}
	if a.ReviewerTeams.Present {
		s.Reviewers = teams // none is the same as null
	}
	if a.EnvironmentClass.Present {
		s.Class = (*workspaces.EnvironmentClass)(a.EnvironmentClass.Pointer())
	}
}

// approvalRoutes is all about approvals.
func (s *server) approvalRoutes() []route {
	const (
		api          = "/api/v2/"
		organization = api + "organizations/{organization}/approval-rule"
		project      = api + "projects/{id}/approval-rule"
		workspace    = api + "workspaces/{id}/approval-rule"
		run          = api + "runs/{id}/"
	)
	return []route{
		{method: http.MethodGet, path: organization, handle: s.readApprovalRule(organizationPlace)},
		{method: http.MethodPatch, path: organization, handle: s.changeApprovalRule(organizationPlace)},
		{method: http.MethodGet, path: project, handle: s.readApprovalRule(projectPlace)},
		{method: http.MethodPatch, path: project, handle: s.changeApprovalRule(projectPlace)},
		{method: http.MethodGet, path: workspace, handle: s.readApprovalRule(workspacePlace)},
		{method: http.MethodPatch, path: workspace, handle: s.changeApprovalRule(workspacePlace)},
		{method: http.MethodGet, path: run + "approvals", handle: s.listApprovals},
		{method: http.MethodPost, path: run + "approvals", handle: s.createApproval},
		{method: http.MethodPost, path: run + "actions/approve", handle: s.approveRun},
		{method: http.MethodPost, path: run + "actions/reject", handle: s.rejectRun},
	}
}
