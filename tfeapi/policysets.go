package tfeapi

import (
	"context"
	"net/http"
	"time"

	"github.com/google/jsonapi"

	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/policies"
	"github.com/holdfast-run/holdfast/policies/evaluator"
)

// policySetView is a policy set on the wire. rego-version is an extension.
type policySetView struct {
	ID                   string    `jsonapi:"primary,policy-sets"`
	Name                 string    `jsonapi:"attr,name"`
	Description          string    `jsonapi:"attr,description"`
	Kind                 string    `jsonapi:"attr,kind"`
	Overridable          *bool     `jsonapi:"attr,overridable"`
	Global               bool      `jsonapi:"attr,global"`
	PoliciesPath         string    `jsonapi:"attr,policies-path"`
	PolicyCount          int       `jsonapi:"attr,policy-count"`
	WorkspaceCount       int       `jsonapi:"attr,workspace-count"`
	ProjectCount         int       `jsonapi:"attr,project-count"`
	Versioned            bool      `jsonapi:"attr,versioned"`
	AgentEnabled         bool      `jsonapi:"attr,agent-enabled"`
	PolicyToolVersion    string    `jsonapi:"attr,policy-tool-version"`
	PolicyUpdatePatterns []string  `jsonapi:"attr,policy-update-patterns"`
	RegoVersion          string    `jsonapi:"attr,rego-version"`
	CreatedAt            time.Time `jsonapi:"attr,created-at,iso8601"`
	UpdatedAt            time.Time `jsonapi:"attr,updated-at,iso8601"`
	related              relations
}

func (v *policySetView) relations() relations { return v.related }

func newPolicySetView(set policies.Set) *policySetView {
	count := set.CurrentPolicies
	if len(set.Policies) > 0 {
		count = len(set.Policies)
	}
	var overridable *bool
	if set.Agented() {
		overridable = &set.Overridable
	}
	return &policySetView{
		ID: string(set.ID), Name: set.Name, Description: set.Description, Kind: string(set.Kind), Overridable: overridable, Global: set.Global,
		PoliciesPath: set.PoliciesPath, PolicyCount: count, WorkspaceCount: len(set.Workspaces), ProjectCount: len(set.Projects), Versioned: set.Versioned,
		AgentEnabled: set.AgentEnabled, PolicyToolVersion: set.PolicyToolVersion, PolicyUpdatePatterns: list(set.UpdatePatterns), RegoVersion: string(set.Rego),
		CreatedAt: set.CreatedAt, UpdatedAt: set.UpdatedAt,
		related: relations{
			"organization": ref{"organizations", set.OrganizationName},
			"policies":     memberRefs("policies", set.Policies), "workspaces": memberRefs("workspaces", set.Workspaces), "projects": memberRefs("projects", set.Projects),
			"workspace-exclusions": memberRefs("workspaces", set.WorkspaceExclusions), "project-exclusions": memberRefs("projects", set.ProjectExclusions),
			"newest-version": versionRef(set.NewestVersion), "current-version": versionRef(set.CurrentVersion),
		},
	}
}

func memberRefs[T ~string](kind string, members []T) []ref {
	return refsTo(members, func(id T) ref { return ref{kind, string(id)} })
}

func versionRef(id ids.PolicySetVersion) any {
	if id == "" {
		return nil
	}
	return ref{"policy-set-versions", string(id)}
}

// setIncludes gives what a request for sets asked for with them. How many statements that takes
// does not depend on how many there are.
func (s *server) setIncludes(r *request, sets ...policies.Set) (included []view, err error) {
	asked := r.includes()
	var inWorkspaces []ids.Workspace
	var inProjects []ids.Project
	var members []ids.Policy
	var versions []ids.PolicySetVersion
	for _, set := range sets {
		inWorkspaces = append(inWorkspaces, when(asked["workspaces"], set.Workspaces...)...)
		inWorkspaces = append(inWorkspaces, when(asked["workspace-exclusions"], set.WorkspaceExclusions...)...)
		inProjects = append(inProjects, when(asked["projects"], set.Projects...)...)
		inProjects = append(inProjects, when(asked["project-exclusions"], set.ProjectExclusions...)...)
		members = append(members, when(asked["policies"], set.Policies...)...)
		versions = append(versions, when(asked["current-version"] && set.CurrentVersion != "", set.CurrentVersion)...)
		versions = append(versions, when(asked["newest-version"] && set.NewestVersion != "", set.NewestVersion)...)
	}
	foundWorkspaces, err := s.Workspaces.Some(r.ctx, r.actor, inWorkspaces)
	for _, w := range foundWorkspaces {
		included = append(included, s.newWorkspaceView(r.actor, w))
	}
	if err != nil {
		return nil, err
	}
	foundProjects, err := s.Workspaces.SomeProjects(r.ctx, r.actor, inProjects)
	for _, p := range foundProjects {
		included = append(included, newProjectView(r.actor, p))
	}
	if err != nil {
		return nil, err
	}
	foundPolicies, err := s.Policies.SomePolicies(r.ctx, r.actor, members)
	for _, p := range foundPolicies {
		included = append(included, newPolicyView(p))
	}
	if err != nil {
		return nil, err
	}
	foundVersions, err := s.Policies.SomeVersions(r.ctx, r.actor, versions)
	for _, v := range foundVersions {
		included = append(included, s.newSetVersionView(v))
	}
	return included, err
}

// when gives the list if it is asked for.
func when[T any](asked bool, list ...T) []T {
	if !asked {
		return nil
	}
	return list
}

func policyFilter(r *request, p paging) policies.Filter {
	return policies.Filter{
		Search: r.query.Get("search[name]"), Kind: policies.Kind(r.query.Get("filter[kind]")), Page: policies.Page{Limit: p.limit(), Offset: p.offset()},
	}
}

func (s *server) listPolicySets(r *request) (answer, error) {
	p, err := parsePaging(r.query)
	if err != nil {
		return answer{}, err
	}
	filter := policyFilter(r, p)
	if filter.Versioned, err = r.choice("filter[versioned]"); err != nil {
		return answer{}, err
	}
	list, total, err := s.Policies.Sets(r.ctx, r.actor, r.vars["organization"], filter)
	if err != nil {
		return answer{}, err
	}
	items := make([]*policySetView, 0, len(list))
	for _, set := range list {
		items = append(items, newPolicySetView(set))
	}
	included, err := s.setIncludes(r, list...)
	return page(items, p, total, included...), err
}

type policySetAttributes struct {
	Name                 Opt[string]   `json:"name"`
	Description          Opt[string]   `json:"description"`
	Kind                 Opt[string]   `json:"kind"`
	Global               Opt[bool]     `json:"global"`
	Overridable          Opt[bool]     `json:"overridable"`
	AgentEnabled         Opt[bool]     `json:"agent-enabled"`
	PolicyToolVersion    Opt[string]   `json:"policy-tool-version"`
	PolicyUpdatePatterns Opt[[]string] `json:"policy-update-patterns"`
	PoliciesPath         Opt[string]   `json:"policies-path"`
	RegoVersion          Opt[string]   `json:"rego-version"`
}

// policySetInput reads a set in a request, with the members that it names.
func policySetInput(r *request) (a policySetAttributes, members map[policies.Relation][]string, err error) {
	body, err := r.body()
	if err != nil {
		return a, nil, err
	}
	in, err := decode[policySetAttributes](body, "policy-sets")
	if err != nil {
		return a, nil, err
	}
	members = map[policies.Relation][]string{}
	for name, kind := range memberKinds {
		listed, given, err := relatedMany[struct{}](in, string(name), kind)
		if err != nil {
			return a, nil, err
		}
		if given {
			members[name] = idsOf(listed)
		}
	}
	return in.Attributes, members, nil
}

func idsOf(listed []listed[struct{}]) []string {
	out := make([]string, len(listed))
	for i, item := range listed {
		out[i] = item.ID
	}
	return out
}

func (s *server) createPolicySet(r *request) (answer, error) {
	a, members, err := policySetInput(r)
	if err != nil {
		return answer{}, err
	}
	set, err := s.Policies.CreateSet(r.ctx, r.actor, r.vars["organization"], policies.NewSet{
		Name: a.Name.Or(""), Description: a.Description.Or(""), Kind: policies.Kind(a.Kind.Or("")), Global: a.Global.Or(false), Overridable: a.Overridable.Or(false),
		AgentEnabled: a.AgentEnabled.Or(false), PolicyToolVersion: a.PolicyToolVersion.Or(""), Rego: evaluator.RegoVersion(a.RegoVersion.Or("")), PoliciesPath: a.PoliciesPath.Or(""),
		UpdatePatterns: a.PolicyUpdatePatterns.Or(nil), Members: members,
	})
	if err != nil {
		return answer{}, err
	}
	return created(newPolicySetView(set)), nil
}

func (s *server) readPolicySet(r *request) (answer, error) {
	set, err := id[ids.PolicySet](r)
	if err != nil {
		return answer{}, err
	}
	found, err := s.Policies.Set(r.ctx, r.actor, set)
	if err != nil {
		return answer{}, err
	}
	included, err := s.setIncludes(r, found)
	if err != nil {
		return answer{}, err
	}
	return ok(newPolicySetView(found), included...), nil
}

func (s *server) updatePolicySet(r *request) (answer, error) {
	set, err := id[ids.PolicySet](r)
	if err != nil {
		return answer{}, err
	}
	a, members, err := policySetInput(r)
	if err != nil {
		return answer{}, err
	}
	changes := policies.SetChanges{
		Name: a.Name.Pointer(), Description: textOrEmpty(a.Description), Global: a.Global.Pointer(), Overridable: a.Overridable.Pointer(), AgentEnabled: a.AgentEnabled.Pointer(),
		PolicyToolVersion: textOrEmpty(a.PolicyToolVersion), PoliciesPath: textOrEmpty(a.PoliciesPath), UpdatePatterns: a.PolicyUpdatePatterns.Pointer(), Members: members,
	}
	if a.RegoVersion.Set() {
		version := evaluator.RegoVersion(a.RegoVersion.Value)
		changes.Rego = &version
	}
	updated, err := s.Policies.UpdateSet(r.ctx, r.actor, set, changes)
	if err != nil {
		return answer{}, err
	}
	return ok(newPolicySetView(updated)), nil
}

func (s *server) deletePolicySet(r *request) (answer, error) {
	set, err := id[ids.PolicySet](r)
	if err != nil {
		return answer{}, err
	}
	return noContent(), s.Policies.DeleteSet(r.ctx, r.actor, set)
}

type memberChange func(ctx context.Context, actor authz.Actor, id ids.PolicySet, r policies.Relation, members []string) error

// changeMembers adds to a relation of a set, or takes away from it.
func (s *server) changeMembers(name policies.Relation, kind string, change memberChange) func(r *request) (answer, error) {
	return func(r *request) (answer, error) {
		set, err := id[ids.PolicySet](r)
		if err != nil {
			return answer{}, err
		}
		body, err := r.body()
		if err != nil {
			return answer{}, err
		}
		listed, err := decodeMany[struct{}](body, kind, "")
		if err != nil {
			return answer{}, err
		}
		return noContent(), change(r.ctx, r.actor, set, name, idsOf(listed))
	}
}

// setVersionView is a version of a policy set. policy-runtime-release is an extension (PO-07).
type setVersionView struct {
	ID               string            `jsonapi:"primary,policy-set-versions"`
	Source           string            `jsonapi:"attr,source"`
	Status           string            `jsonapi:"attr,status"`
	StatusTimestamps map[string]string `jsonapi:"attr,status-timestamps"`
	Error            string            `jsonapi:"attr,error"`
	ErrorMessage     string            `jsonapi:"attr,error-message"`
	Digest           string            `jsonapi:"attr,digest"`
	PolicyCount      int               `jsonapi:"attr,policy-count"`
	TestCount        int               `jsonapi:"attr,test-count"`
	RuntimeRelease   string            `jsonapi:"attr,policy-runtime-release"`
	CreatedAt        time.Time         `jsonapi:"attr,created-at,iso8601"`
	UpdatedAt        time.Time         `jsonapi:"attr,updated-at,iso8601"`
	upload           string
	related          relations
}

func (v *setVersionView) relations() relations { return v.related }

// JSONAPILinks has the address for the bytes while they are to come, for whoever may send them.
func (v *setVersionView) JSONAPILinks() *jsonapi.Links {
	links := &jsonapi.Links{"self": "/api/v2/policy-set-versions/" + v.ID}
	if v.upload != "" {
		(*links)["upload"] = v.upload
	}
	return links
}

func (s *server) newSetVersionView(v policies.Version) *setVersionView {
	view := &setVersionView{
		ID: string(v.ID), Source: v.Source, Status: v.Status, StatusTimestamps: map[string]string{"pending-at": rfc3339(v.CreatedAt)}, Digest: v.Digest, PolicyCount: v.Policies,
		TestCount: v.Tests, RuntimeRelease: releaseID(v.Release()), CreatedAt: v.CreatedAt, UpdatedAt: v.UpdatedAt, related: relations{"policy-set": ref{"policy-sets", string(v.Set)}},
	}
	if v.Error != "" {
		view.Error, view.ErrorMessage = "policy_refused", v.Error
	}
	if v.Status != policies.VersionPending {
		view.StatusTimestamps[v.Status+"-at"] = rfc3339(v.UpdatedAt)
	}
	return view
}

func (s *server) createPolicySetVersion(r *request) (answer, error) {
	set, err := id[ids.PolicySet](r)
	if err != nil {
		return answer{}, err
	}
	v, err := s.Policies.CreateVersion(r.ctx, r.actor, set)
	if err != nil {
		return answer{}, err
	}
	view := s.newSetVersionView(v)
	view.upload = s.link(uploadPolicySetLink, view.ID, v.CreatedAt.Add(uploadLinkLifetime))
	return created(view), nil
}

func (s *server) readPolicySetVersion(r *request) (answer, error) {
	version, err := id[ids.PolicySetVersion](r)
	if err != nil {
		return answer{}, err
	}
	v, err := s.Policies.Version(r.ctx, r.actor, version)
	if err != nil {
		return answer{}, err
	}
	view := s.newSetVersionView(v)
	// The address lets anybody upload, so it is for those who may.
	if v.Status == policies.VersionPending && authz.Can(r.actor, authz.PoliciesManage, authz.Object{Organization: v.Organization}) {
		view.upload = s.link(uploadPolicySetLink, view.ID, v.CreatedAt.Add(uploadLinkLifetime))
	}
	return ok(view), nil
}

func (s *server) uploadPolicySetVersion(r *request) (answer, error) {
	if err := s.checkLink(uploadPolicySetLink, r); err != nil {
		return answer{}, err
	}
	version, err := id[ids.PolicySetVersion](r)
	if err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusOK}, s.Policies.UploadVersion(r.ctx, version, r.upload())
}
