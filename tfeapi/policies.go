package tfeapi

import (
	"bytes"
	"io"
	"net/http"
	"time"

	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/policies"
)

// policyView is a policy that is managed by itself. enforce says the level in the older way, once there
// is a file that it is about. query-in-force is what plans are judged by, and null where nothing is yet.
type policyView struct {
	ID               string        `jsonapi:"primary,policies"`
	Name             string        `jsonapi:"attr,name"`
	Description      string        `jsonapi:"attr,description"`
	Kind             string        `jsonapi:"attr,kind"`
	Query            *string       `jsonapi:"attr,query"`
	QueryInForce     *string       `jsonapi:"attr,query-in-force"`
	Enforce          []enforcement `jsonapi:"attr,enforce"`
	EnforcementLevel string        `jsonapi:"attr,enforcement-level"`
	PolicySetCount   int           `jsonapi:"attr,policy-set-count"`
	UpdatedAt        *time.Time    `jsonapi:"attr,updated-at,iso8601"`
	related          relations
}

type enforcement struct {
	Path string `json:"path"`
	Mode string `json:"mode"`
}

func (v *policyView) relations() relations { return v.related }

func newPolicyView(p policies.Policy) *policyView {
	at := p.UpdatedAt
	view := &policyView{
		ID: string(p.ID), Name: p.Name, Description: p.Description, Kind: string(p.Kind), Enforce: []enforcement{}, EnforcementLevel: p.Level,
		PolicySetCount: p.Sets, UpdatedAt: &at, related: relations{"organization": ref{"organizations", p.OrganizationName}},
	}
	if p.ContentSealed != nil {
		view.Enforce = []enforcement{{Path: p.Path, Mode: p.Level}}
	}
	if p.Kind == policies.OPA {
		wanted := p.Wanted()
		if view.Query = &wanted; p.InForce() != "" {
			view.QueryInForce = &p.Query
		}
	}
	return view
}

func (s *server) listPolicies(r *request) (answer, error) {
	p, err := parsePaging(r.query)
	if err != nil {
		return answer{}, err
	}
	filter := policyFilter(r, p)
	if filter.Sort, err = r.sorted("Policies", "name", "updated-at"); err != nil {
		return answer{}, err
	}
	list, total, err := s.Policies.PolicyList(r.ctx, r.actor, r.vars["organization"], filter)
	if err != nil {
		return answer{}, err
	}
	items := make([]*policyView, 0, len(list))
	for _, policy := range list {
		items = append(items, newPolicyView(policy))
	}
	return page(items, p, total), nil
}

type policyAttributes struct {
	Name             Opt[string]        `json:"name"`
	Description      Opt[string]        `json:"description"`
	Kind             Opt[string]        `json:"kind"`
	Query            Opt[string]        `json:"query"`
	EnforcementLevel Opt[string]        `json:"enforcement-level"`
	Enforce          Opt[[]enforcement] `json:"enforce"`
}

// level gives the enforcement level, in whichever way it is said, and the path beside it.
func (a policyAttributes) level() (level *string, path string) {
	if a.EnforcementLevel.Set() {
		return a.EnforcementLevel.Pointer(), ""
	}
	if enforce := a.Enforce.Or(nil); len(enforce) > 0 {
		return &enforce[0].Mode, enforce[0].Path
	}
	return nil, ""
}

func policyInput(r *request) (policyAttributes, error) {
	body, err := r.body()
	if err != nil {
		return policyAttributes{}, err
	}
	in, err := decode[policyAttributes](body, "policies")
	return in.Attributes, err
}

func (s *server) createPolicy(r *request) (answer, error) {
	a, err := policyInput(r)
	if err != nil {
		return answer{}, err
	}
	n := policies.NewPolicy{Name: a.Name.Or(""), Description: a.Description.Or(""), Kind: policies.Kind(a.Kind.Or("")), Query: a.Query.Or("")}
	level, path := a.level()
	if n.Path = path; level != nil {
		n.Level = *level
	}
	p, err := s.Policies.CreatePolicy(r.ctx, r.actor, r.vars["organization"], n)
	if err != nil {
		return answer{}, err
	}
	return created(newPolicyView(p)), nil
}

func (s *server) readPolicy(r *request) (answer, error) {
	policy, err := id[ids.Policy](r)
	if err != nil {
		return answer{}, err
	}
	p, err := s.Policies.Policy(r.ctx, r.actor, policy)
	if err != nil {
		return answer{}, err
	}
	return ok(newPolicyView(p)), nil
}

func (s *server) updatePolicy(r *request) (answer, error) {
	policy, err := id[ids.Policy](r)
	if err != nil {
		return answer{}, err
	}
	a, err := policyInput(r)
	if err != nil {
		return answer{}, err
	}
	level, _ := a.level()
	p, err := s.Policies.UpdatePolicy(r.ctx, r.actor, policy, policies.PolicyChanges{Description: textOrEmpty(a.Description), Query: a.Query.Pointer(), Level: level})
	if err != nil {
		return answer{}, err
	}
	return ok(newPolicyView(p)), nil
}

func (s *server) deletePolicy(r *request) (answer, error) {
	policy, err := id[ids.Policy](r)
	if err != nil {
		return answer{}, err
	}
	return noContent(), s.Policies.DeletePolicy(r.ctx, r.actor, policy)
}

func (s *server) uploadPolicy(r *request) (answer, error) {
	policy, err := id[ids.Policy](r)
	if err != nil {
		return answer{}, err
	}
	const most = 1 << 20
	content, err := io.ReadAll(io.LimitReader(r.upload(), most+1))
	if err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusOK}, s.Policies.UploadPolicy(r.ctx, r.actor, policy, content)
}

func (s *server) downloadPolicy(r *request) (answer, error) {
	policy, err := id[ids.Policy](r)
	if err != nil {
		return answer{}, err
	}
	content, err := s.Policies.DownloadPolicy(r.ctx, r.actor, policy)
	if err != nil {
		return answer{}, err
	}
	return download(io.NopCloser(bytes.NewReader(content)), int64(len(content))), nil
}

// parameterView is a parameter of a policy set. A sensitive one has no value.
type parameterView struct {
	ID        string  `jsonapi:"primary,vars"`
	Key       string  `jsonapi:"attr,key"`
	Value     *string `jsonapi:"attr,value"`
	Category  string  `jsonapi:"attr,category"`
	Sensitive bool    `jsonapi:"attr,sensitive"`
	set       string
}

func (v *parameterView) relations() relations {
	return relations{"configurable": ref{"policy-sets", v.set}}
}

func newParameterView(p policies.Parameter) *parameterView {
	view := &parameterView{ID: string(p.ID), Key: p.Key, Category: parameterCategory, Sensitive: p.Sensitive, set: string(p.Set)}
	if !p.Sensitive {
		view.Value = &p.Value
	}
	return view
}

// parameterCategory is the only one that a parameter has.
const parameterCategory = "policy-set"

func (s *server) listParameters(r *request) (answer, error) {
	set, err := id[ids.PolicySet](r)
	if err != nil {
		return answer{}, err
	}
	list, err := s.Policies.Parameters(r.ctx, r.actor, set)
	if err != nil {
		return answer{}, err
	}
	items := make([]*parameterView, 0, len(list))
	for _, p := range list {
		items = append(items, newParameterView(p))
	}
	return pageOf(r, items)
}

// parameterOf reads set and parameter out of the path.
func parameterOf(r *request) (ids.PolicySet, ids.Variable, error) {
	set, err := id[ids.PolicySet](r)
	if err != nil {
		return "", "", err
	}
	parameter, err := ids.Parse[ids.Variable](r.vars["parameter"])
	return set, parameter, err
}

func (s *server) readParameter(r *request) (answer, error) {
	set, parameter, err := parameterOf(r)
	if err != nil {
		return answer{}, err
	}
	list, err := s.Policies.Parameters(r.ctx, r.actor, set)
	if err != nil {
		return answer{}, err
	}
	for _, p := range list {
		if p.ID == parameter {
			return ok(newParameterView(p)), nil
		}
	}
	return answer{}, fault.Missing("parameter", string(parameter))
}

type parameterAttributes struct {
	Key       Opt[string] `json:"key"`
	Value     Opt[string] `json:"value"`
	Category  Opt[string] `json:"category"`
	Sensitive Opt[bool]   `json:"sensitive"`
}

func parameterInput(r *request) (parameterAttributes, error) {
	body, err := r.body()
	if err != nil {
		return parameterAttributes{}, err
	}
	in, err := decode[parameterAttributes](body, "vars")
	if err == nil && in.Attributes.Category.Or(parameterCategory) != parameterCategory {
		err = fault.New(fault.Invalid, "invalid_attribute", "The category of a parameter is %s", parameterCategory).At("/data/attributes/category")
	}
	return in.Attributes, err
}

func (s *server) createParameter(r *request) (answer, error) {
	set, err := id[ids.PolicySet](r)
	if err != nil {
		return answer{}, err
	}
	a, err := parameterInput(r)
	if err != nil {
		return answer{}, err
	}
	p, err := s.Policies.CreateParameter(r.ctx, r.actor, set, policies.Parameter{Key: a.Key.Or(""), Value: a.Value.Or(""), Sensitive: a.Sensitive.Or(false)})
	if err != nil {
		return answer{}, err
	}
	return created(newParameterView(p)), nil
}

func (s *server) updateParameter(r *request) (answer, error) {
	set, parameter, err := parameterOf(r)
	if err != nil {
		return answer{}, err
	}
	a, err := parameterInput(r)
	if err != nil {
		return answer{}, err
	}
	p, err := s.Policies.UpdateParameter(r.ctx, r.actor, set, parameter, policies.ParameterChanges{Key: a.Key.Pointer(), Value: textOrEmpty(a.Value), Sensitive: a.Sensitive.Pointer()})
	if err != nil {
		return answer{}, err
	}
	return ok(newParameterView(p)), nil
}

func (s *server) deleteParameter(r *request) (answer, error) {
	set, parameter, err := parameterOf(r)
	if err != nil {
		return answer{}, err
	}
	return noContent(), s.Policies.DeleteParameter(r.ctx, r.actor, set, parameter)
}
