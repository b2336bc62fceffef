package policies

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/policies/evaluator"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/site"
)

// Set is a policy set with what belongs to it.
type Set struct {
	ID                ids.PolicySet
	Organization      ids.Organization
	OrganizationName  string
	Name              string
	Description       string
	Kind              Kind
	Global            bool // it is in the scope of every workspace that is not excluded
	Overridable       bool
	AgentEnabled      bool
	PolicyToolVersion string
	Rego              evaluator.RegoVersion
	PoliciesPath      string
	UpdatePatterns    []string
	CreatedAt         time.Time
	UpdatedAt         time.Time

	Policies            []ids.Policy
	Workspaces          []ids.Workspace
	WorkspaceExclusions []ids.Workspace
	Projects            []ids.Project
	ProjectExclusions   []ids.Project
	Versioned           bool                 // its policies are uploaded with it, and not put into it one by one
	NewestVersion       ids.PolicySetVersion // whatever became of it; empty when there is none
	CurrentVersion      ids.PolicySetVersion // the one in force
	CurrentPolicies     int                  // how many are in it
}

// NewSet is what a client asks for.
type NewSet struct {
	Name, Description string
	Kind              Kind
	Global            bool
	Overridable       bool
	AgentEnabled      bool
	PolicyToolVersion string
	Rego              evaluator.RegoVersion // empty: v1
	PoliciesPath      string
	UpdatePatterns    []string
	Members           map[Relation][]string
}

// SetChanges are what an update says; what is absent stays. Members that are named are
// replaced as a whole.
type SetChanges struct {
	Name, Description *string
	Global            *bool
	Overridable       *bool
	AgentEnabled      *bool
	PolicyToolVersion *string
	Rego              *evaluator.RegoVersion
	PoliciesPath      *string
	UpdatePatterns    *[]string
	Members           map[Relation][]string
}

// Relation is what a set can have members of.
type Relation string

// The relations.
const (
	Policies            Relation = "policies"
	Workspaces          Relation = "workspaces"
	WorkspaceExclusions Relation = "workspace-exclusions"
	Projects            Relation = "projects"
	ProjectExclusions   Relation = "project-exclusions"
)

// relation says how its rows are written.
type relation struct {
	add, remove, clear string
	excluded           bool
	noun               string
}

var relations = map[Relation]relation{
	Policies:            {add: "PolicyAdd", remove: "PolicyRemove", clear: "PoliciesClear", noun: "policy"},
	Workspaces:          {add: "WorkspaceAdd", remove: "WorkspaceRemove", clear: "WorkspacesClear", noun: "workspace"},
	WorkspaceExclusions: {add: "WorkspaceAdd", remove: "WorkspaceRemove", clear: "WorkspacesClear", excluded: true, noun: "workspace"},
	Projects:            {add: "ProjectAdd", remove: "ProjectRemove", clear: "ProjectsClear", noun: "project"},
	ProjectExclusions:   {add: "ProjectAdd", remove: "ProjectRemove", clear: "ProjectsClear", excluded: true, noun: "project"},
}

// Agented tells whether the set is of those that agents evaluate where Terraform Cloud does
// it: all of OPA, and those of Sentinel that say so. Only these have a version of the tool
// and can be overridable as a whole.
func (s Set) Agented() bool { return s.Kind == OPA || s.AgentEnabled }

// settle takes back what a set of another kind does not have.
func (s *Set) settle() {
	if !s.Agented() {
		s.Overridable, s.PolicyToolVersion = false, ""
	}
}

func (s Set) check() error {
	if err := checkName(s.Name); err != nil {
		return err
	}
	if err := checkKind(s.Kind); err != nil {
		return err
	}
	if s.Rego != evaluator.V0 && s.Rego != evaluator.V1 {
		return accounts.Invalid("rego-version", "Rego version must be v0 or v1")
	}
	for _, pattern := range s.UpdatePatterns {
		if err := accounts.CheckText("policy-update-patterns", "Policy update patterns", pattern, maxDescription); err != nil {
			return err
		}
	}
	if err := accounts.CheckText("policies-path", "Policies path", s.PoliciesPath, maxDescription); err != nil {
		return err
	}
	if err := accounts.CheckText("policy-tool-version", "Policy tool version", s.PolicyToolVersion, maxName); err != nil {
		return err
	}
	return accounts.CheckText("description", "Description", s.Description, maxDescription)
}

// checkTool refuses a version that the catalogue of the site lets nobody choose. before is
// the one the set has.
func (s Set) checkTool(ctx context.Context, tx postgres.Tx, before string) error {
	if s.PolicyToolVersion == before {
		return nil
	}
	return site.CheckChoice(ctx, tx, map[Kind]site.Tool{OPA: site.OPA, Sentinel: site.Sentinel}[s.Kind], "policy-tool-version", s.PolicyToolVersion, before)
}

func (s Set) args() postgres.Args {
	patterns := s.UpdatePatterns
	if patterns == nil {
		patterns = []string{}
	}
	return postgres.Args{
		"id": s.ID, "organization_id": s.Organization, "name": s.Name, "description": s.Description, "kind": string(s.Kind), "global": s.Global,
		"overridable": s.Overridable, "agent_enabled": s.AgentEnabled, "policy_tool_version": s.PolicyToolVersion, "rego": string(s.Rego),
		"policies_path": s.PoliciesPath, "update_patterns": patterns,
	}
}

// CreateSet makes a policy set. Errors: Invalid; NotFound for a member that is not there.
func (s *Service) CreateSet(ctx context.Context, actor authz.Actor, organization string, n NewSet) (set Set, err error) {
	if n.Rego == "" {
		n.Rego = evaluator.V1
	}
	if err := s.checkMembers(ctx, actor, n.Rego, n.Members[Policies]); err != nil {
		return set, err
	}
	err = postgres.InTx(ctx, s.db, "policies.create-set", func(tx postgres.Tx) error {
		org, err := accounts.AllowedOrganization(ctx, tx, actor, authz.PoliciesManage, organization)
		if err != nil {
			return err
		}
		set = Set{
			ID: ids.New[ids.PolicySet](), Organization: org.ID, Name: n.Name, Description: n.Description, Kind: n.Kind, Global: n.Global, Overridable: n.Overridable,
			AgentEnabled: n.AgentEnabled, PolicyToolVersion: n.PolicyToolVersion, Rego: n.Rego, PoliciesPath: n.PoliciesPath, UpdatePatterns: n.UpdatePatterns,
		}
		if set.Kind == "" {
			set.Kind = Sentinel // as clients of Terraform Cloud expect
		}
		set.settle()
		if err := set.check(); err != nil {
			return err
		}
		if err := set.checkTool(ctx, tx, ""); err != nil {
			return err
		}
		if _, err := postgres.Exec(ctx, tx, Queries.Get("SetInsert"), set.args()); err != nil {
			return nameTaken(err, "policy_sets_name")
		}
		if err := s.replaceMembers(ctx, tx, set, n.Members); err != nil {
			return err
		}
		err = record(ctx, tx, actor, org.ID, "policy-set.created", "policy-set", string(set.ID), map[string]any{"name": set.Name, "kind": set.Kind, "global": set.Global, "members": n.Members})
		if err != nil {
			return err
		}
		set, err = postgres.One[Set](ctx, tx, Queries.Get("SetGet"), postgres.Args{"id": set.ID})
		return err
	})
	return set, err
}

// Sets gives a page of an organization's policy sets by name, and counts all that match.
func (s *Service) Sets(ctx context.Context, actor authz.Actor, organization string, f Filter) (page []Set, total int, err error) {
	err = postgres.InSnapshot(ctx, s.db, "policies.sets", func(tx postgres.Tx) error {
		org, err := accounts.AllowedOrganization(ctx, tx, actor, authz.PoliciesRead, organization)
		if err != nil {
			return err
		}
		page, total, err = list[Set](ctx, tx, "SetList", "SetCount", f.args(org.ID))
		return err
	})
	return page, total, err
}

// UpdateSet changes what is said. A change of the Rego version counts from the next version on.
func (s *Service) UpdateSet(ctx context.Context, actor authz.Actor, id ids.PolicySet, c SetChanges) (Set, error) {
	if err := s.checkNewMembers(ctx, actor, id, c.Members[Policies]); err != nil {
		return Set{}, err
	}
	return s.changeSet(ctx, "policies.update-set", actor, id, func(tx postgres.Tx, set Set) error {
		before, tool := set.Rego, set.PolicyToolVersion
		assign(&set.Name, c.Name)
		assign(&set.Description, c.Description)
		assign(&set.Global, c.Global)
		assign(&set.Overridable, c.Overridable)
		assign(&set.AgentEnabled, c.AgentEnabled)
		assign(&set.PolicyToolVersion, c.PolicyToolVersion)
		assign(&set.Rego, c.Rego)
		assign(&set.PoliciesPath, c.PoliciesPath)
		assign(&set.UpdatePatterns, c.UpdatePatterns)
		set.settle()
		if err := set.check(); err != nil {
			return err
		}
		if err := set.checkTool(ctx, tx, tool); err != nil {
			return err
		}
		if set.Rego != before && len(set.Policies) > 0 {
			return accounts.Invalid("rego-version", "The Rego version of a set with policies does not change: make another set for policies in the other syntax")
		}
		if _, err := postgres.Exec(ctx, tx, Queries.Get("SetUpdate"), set.args()); err != nil {
			return nameTaken(err, "policy_sets_name")
		}
		if err := s.replaceMembers(ctx, tx, set, c.Members); err != nil {
			return err
		}
		return record(ctx, tx, actor, set.Organization, "policy-set.updated", "policy-set", string(id), map[string]any{"name": set.Name, "global": set.Global, "members": c.Members})
	})
}

func assign[T any](field *T, value *T) {
	if value != nil {
		*field = *value
	}
}

// DeleteSet takes a set out of force. Runs that are bound to it are still judged by it.
func (s *Service) DeleteSet(ctx context.Context, actor authz.Actor, id ids.PolicySet) error {
	_, err := s.changeSet(ctx, "policies.delete-set", actor, id, func(tx postgres.Tx, set Set) error {
		if _, err := postgres.Exec(ctx, tx, Queries.Get("SetDelete"), postgres.Args{"id": id}); err != nil {
			return err
		}
		return record(ctx, tx, actor, set.Organization, "policy-set.deleted", "policy-set", string(id), map[string]any{"name": set.Name})
	})
	return err
}

// AddMembers puts policies, workspaces, projects or exclusions of them into a set; one that is
// there stays. Errors: NotFound naming the first that the organization does not have.
func (s *Service) AddMembers(ctx context.Context, actor authz.Actor, id ids.PolicySet, r Relation, members []string) error {
	if r == Policies {
		if err := s.checkNewMembers(ctx, actor, id, members); err != nil {
			return err
		}
	}
	return s.changeMembers(ctx, actor, id, r, "added", func(tx postgres.Tx, set Set) error { return s.addMembers(ctx, tx, set, r, members) }, members)
}

func (s *Service) checkNewMembers(ctx context.Context, actor authz.Actor, id ids.PolicySet, members []string) error {
	if len(members) == 0 {
		return nil
	}
	set, err := s.Set(ctx, actor, id)
	if err != nil {
		return err
	}
	return s.checkMembers(ctx, actor, set.Rego, members)
}

// RemoveMembers takes them out; one that is not there is out already.
func (s *Service) RemoveMembers(ctx context.Context, actor authz.Actor, id ids.PolicySet, r Relation, members []string) error {
	return s.changeMembers(ctx, actor, id, r, "removed", func(tx postgres.Tx, set Set) error {
		for _, member := range members {
			if _, err := postgres.Exec(ctx, tx, Queries.Get(relations[r].remove), memberArgs(set, r, member)); err != nil {
				return err
			}
		}
		return nil
	}, members)
}

func (s *Service) changeMembers(ctx context.Context, actor authz.Actor, id ids.PolicySet, r Relation, what string, fn func(tx postgres.Tx, set Set) error, members []string) error {
	_, err := s.changeSet(ctx, "policies.change-members", actor, id, func(tx postgres.Tx, set Set) error {
		if err := fn(tx, set); err != nil {
			return err
		}
		if r == Policies {
			if err := s.composeVersion(ctx, tx, set); err != nil {
				return err
			}
		}
		return record(ctx, tx, actor, set.Organization, "policy-set.members-"+what, "policy-set", string(id), map[string]any{"relation": r, "members": members})
	})
	return err
}

func memberArgs(set Set, r Relation, member string) postgres.Args {
	return postgres.Args{"organization_id": set.Organization, "policy_set_id": set.ID, "id": member, "excluded": relations[r].excluded}
}

func (s *Service) addMembers(ctx context.Context, tx postgres.Tx, set Set, r Relation, members []string) error {
	if r == Policies && len(members) > 0 {
		uploaded, err := postgres.Value[bool](ctx, tx, Queries.Get("VersionUploaded"), postgres.Args{"policy_set_id": set.ID})
		if err != nil {
			return err
		}
		if uploaded {
			return fault.New(fault.Invalid, "policy_set_has_versions", "Policy set %q consists of an uploaded version, so it cannot have policies of its own beside it.", set.Name)
		}
	}
	for _, member := range members {
		n, err := postgres.Exec(ctx, tx, Queries.Get(relations[r].add), memberArgs(set, r, member))
		if err != nil {
			return fmt.Errorf("add to the policy set: %w", err)
		}
		if n == 0 {
			return fault.Missing(relations[r].noun, member)
		}
	}
	return nil
}

func (s *Service) replaceMembers(ctx context.Context, tx postgres.Tx, set Set, members map[Relation][]string) error {
	for _, r := range []Relation{Policies, Workspaces, WorkspaceExclusions, Projects, ProjectExclusions} {
		wanted, given := members[r]
		if !given {
			continue
		}
		if _, err := postgres.Exec(ctx, tx, Queries.Get(relations[r].clear), memberArgs(set, r, "")); err != nil {
			return err
		}
		if err := s.addMembers(ctx, tx, set, r, wanted); err != nil {
			return err
		}
		if r == Policies {
			if err := s.composeVersion(ctx, tx, set); err != nil {
				return err
			}
		}
	}
	return nil
}
