package tfeapi

import (
	"slices"
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/workspaces"
)

// variableSetView is a group of variables on the wire.
type variableSetView struct {
	ID             string                 `jsonapi:"primary,varsets"`
	Name           string                 `jsonapi:"attr,name"`
	Description    string                 `jsonapi:"attr,description"`
	Global         bool                   `jsonapi:"attr,global"`
	Priority       bool                   `jsonapi:"attr,priority"`
	CreatedAt      time.Time              `jsonapi:"attr,created-at,iso8601"`
	UpdatedAt      time.Time              `jsonapi:"attr,updated-at,iso8601"`
	VarCount       int                    `jsonapi:"attr,var-count"`
	WorkspaceCount int                    `jsonapi:"attr,workspace-count"`
	ProjectCount   int                    `jsonapi:"attr,project-count"`
	Permissions    variableSetPermissions `jsonapi:"attr,permissions"`
	related        relations
}

type variableSetPermissions struct {
	CanUpdate bool `json:"can-update"`
}

func (v *variableSetView) relations() relations { return v.related }

func newVariableSetView(actor authz.Actor, v workspaces.VariableSet) *variableSetView {
	parent := ref{"organizations", v.OrganizationName}
	if v.Project != "" {
		parent = ref{"projects", string(v.Project)}
	}
	return &variableSetView{
		ID: string(v.ID), Name: v.Name, Description: v.Description, Global: v.Global, Priority: v.Priority, CreatedAt: v.CreatedAt, UpdatedAt: v.UpdatedAt,
		VarCount: len(v.Variables), WorkspaceCount: len(v.Workspaces), ProjectCount: len(v.Projects),
		Permissions: variableSetPermissions{CanUpdate: authz.Can(actor, authz.VariableSetsWrite, authz.Object{Organization: v.Organization, Project: v.Project})},
		related: relations{
			"organization": ref{"organizations", v.OrganizationName}, "parent": parent,
			"workspaces": refs("workspaces", v.Workspaces), "projects": refs("projects", v.Projects), "vars": refs("vars", v.Variables),
		},
	}
}

// setFilter reads what narrows a list of sets, and its page.
func setFilter(r *request) (workspaces.SetFilter, paging, error) {
	p, err := parsePaging(r.query)
	filter := workspaces.SetFilter{Search: r.query.Get("q"), Page: p.page()}
	if err == nil {
		filter.Global, err = r.choice("filter[global]")
	}
	return filter, p, err
}

// setScope reads which of the sets in an organization or project are asked for. All that are
// listed are applied.
func setScope(r *request, known ...string) (workspaces.SetScope, error) {
	switch scope := r.query.Get("scope"); {
	case scope == "":
		return "", nil
	case !slices.Contains(known, scope):
		return "", fault.New(fault.Malformed, "invalid_parameter", "No variable set has the scope %q here. The query parameter scope must be %s.", scope, strings.Join(known, " or "))
	case scope == "applied", scope == "all":
		return "", nil
	default:
		return workspaces.SetScope(scope), nil
	}
}

func setPage(r *request, p paging, list []workspaces.VariableSet, total int, err error) (answer, error) {
	if err != nil {
		return answer{}, err
	}
	items := make([]*variableSetView, 0, len(list))
	for _, v := range list {
		items = append(items, newVariableSetView(r.actor, v))
	}
	return page(items, p, total), nil
}

func (s *server) listVariableSets(r *request) (answer, error) {
	f, p, err := setFilter(r)
	if err != nil {
		return answer{}, err
	}
	if f.Scope, err = setScope(r, "owned"); err != nil {
		return answer{}, err
	}
	list, total, err := s.Workspaces.VariableSets(r.ctx, r.actor, r.vars["organization"], f)
	return setPage(r, p, list, total, err)
}

func (s *server) listWorkspaceVariableSets(r *request) (answer, error) {
	workspace, err := id[ids.Workspace](r)
	if err != nil {
		return answer{}, err
	}
	f, p, err := setFilter(r)
	if err != nil {
		return answer{}, err
	}
	list, total, err := s.Workspaces.WorkspaceVariableSets(r.ctx, r.actor, workspace, f)
	return setPage(r, p, list, total, err)
}

func (s *server) listProjectVariableSets(r *request) (answer, error) {
	project, err := id[ids.Project](r)
	if err != nil {
		return answer{}, err
	}
	f, p, err := setFilter(r)
	if err != nil {
		return answer{}, err
	}
	if f.Scope, err = setScope(r, "applied", "shared", "owned", "all"); err != nil {
		return answer{}, err
	}
	list, total, err := s.Workspaces.ProjectVariableSets(r.ctx, r.actor, project, f)
	return setPage(r, p, list, total, err)
}

// setAnswer answers with a set and, where the request asks for them, its workspaces,
// projects and variables in full.
func (s *server) setAnswer(r *request, draw func(view) answer, v workspaces.VariableSet, err error) (answer, error) {
	if err != nil {
		return answer{}, err
	}
	drawn, asked := draw(newVariableSetView(r.actor, v)), r.includes()
	if asked["workspaces"] {
		list, err := s.Workspaces.Some(r.ctx, r.actor, v.Workspaces)
		if err != nil {
			return answer{}, err
		}
		for _, w := range list {
			drawn.document.included = append(drawn.document.included, s.newWorkspaceView(r.actor, w))
		}
	}
	if asked["projects"] {
		list, err := s.Workspaces.SomeProjects(r.ctx, r.actor, v.Projects)
		if err != nil {
			return answer{}, err
		}
		for _, p := range list {
			drawn.document.included = append(drawn.document.included, newProjectView(r.actor, p))
		}
	}
	if asked["vars"] {
		list, err := s.Workspaces.SetVariables(r.ctx, r.actor, v.ID)
		if err != nil {
			return answer{}, err
		}
		for _, one := range list {
			drawn.document.included = append(drawn.document.included, newVariableView(one))
		}
	}
	return drawn, nil
}

func okView(v view) answer { return ok(v) }

func (s *server) readVariableSet(r *request) (answer, error) {
	set, err := id[ids.VariableSet](r)
	if err != nil {
		return answer{}, err
	}
	v, err := s.Workspaces.VariableSet(r.ctx, r.actor, set)
	return s.setAnswer(r, okView, v, err)
}

// setInput reads what a request says about a set, and the project that is to own it.
func setInput(r *request) (c workspaces.SetChanges, owner ids.Project, err error) {
	body, err := r.body()
	if err != nil {
		return c, "", err
	}
	in, err := decode[struct {
		Name        Opt[string] `json:"name"`
		Description Opt[string] `json:"description"`
		Global      Opt[bool]   `json:"global"`
		Priority    Opt[bool]   `json:"priority"`
	}](body, "varsets")
	if err != nil {
		return c, "", err
	}
	a := in.Attributes
	c = workspaces.SetChanges{Name: a.Name.Pointer(), Description: textOrEmpty(a.Description), Global: a.Global.Pointer(), Priority: a.Priority.Pointer()}
	if c.Workspaces, err = relatedIDs[ids.Workspace](in, "workspaces", "workspaces"); err != nil {
		return c, "", err
	}
	if c.Projects, err = relatedIDs[ids.Project](in, "projects", "projects"); err != nil {
		return c, "", err
	}
	kind, text, err := in.relatedAny("parent", "organizations", "projects")
	if err != nil {
		return c, "", err
	}
	if organization, given := r.vars["organization"]; kind == "organizations" && given && text != organization {
		return c, "", fault.Missing("organization", text) // a set belongs where it is made
	}
	if kind != "projects" {
		return c, "", err
	}
	owner, err = ids.Parse[ids.Project](text)
	return c, owner, err
}

func (s *server) createVariableSet(r *request) (answer, error) {
	c, owner, err := setInput(r)
	if err != nil {
		return answer{}, err
	}
	v, err := s.Workspaces.CreateVariableSet(r.ctx, r.actor, r.vars["organization"], owner, c)
	return s.setAnswer(r, created, v, err)
}

func (s *server) updateVariableSet(r *request) (answer, error) {
	set, err := id[ids.VariableSet](r)
	if err != nil {
		return answer{}, err
	}
	c, _, err := setInput(r)
	if err != nil {
		return answer{}, err
	}
	v, err := s.Workspaces.UpdateVariableSet(r.ctx, r.actor, set, c)
	return s.setAnswer(r, okView, v, err)
}

func (s *server) deleteVariableSet(r *request) (answer, error) {
	set, err := id[ids.VariableSet](r)
	if err != nil {
		return answer{}, err
	}
	return noContent(), s.Workspaces.DeleteVariableSet(r.ctx, r.actor, set)
}

// onSetList reads the set of the path and the list of the body, and does something with them.
func onSetList[T ids.Any](r *request, kind string, do func(set ids.VariableSet, list []T) error) (answer, error) {
	set, err := id[ids.VariableSet](r)
	if err != nil {
		return answer{}, err
	}
	list, err := identifiers[T](r, kind)
	if err != nil {
		return answer{}, err
	}
	return noContent(), do(set, list)
}

func (s *server) applySetToWorkspaces(r *request) (answer, error) {
	return onSetList(r, "workspaces", func(set ids.VariableSet, list []ids.Workspace) error {
		return s.Workspaces.ApplyToWorkspaces(r.ctx, r.actor, set, list)
	})
}

func (s *server) removeSetFromWorkspaces(r *request) (answer, error) {
	return onSetList(r, "workspaces", func(set ids.VariableSet, list []ids.Workspace) error {
		return s.Workspaces.RemoveFromWorkspaces(r.ctx, r.actor, set, list)
	})
}

func (s *server) applySetToProjects(r *request) (answer, error) {
	return onSetList(r, "projects", func(set ids.VariableSet, list []ids.Project) error {
		return s.Workspaces.ApplyToProjects(r.ctx, r.actor, set, list)
	})
}

func (s *server) removeSetFromProjects(r *request) (answer, error) {
	return onSetList(r, "projects", func(set ids.VariableSet, list []ids.Project) error {
		return s.Workspaces.RemoveFromProjects(r.ctx, r.actor, set, list)
	})
}

// listSetVariables answers with all of them, as for a workspace.
func (s *server) listSetVariables(r *request) (answer, error) {
	set, err := id[ids.VariableSet](r)
	if err != nil {
		return answer{}, err
	}
	list, err := s.Workspaces.SetVariables(r.ctx, r.actor, set)
	if err != nil {
		return answer{}, err
	}
	return pageOf(r, variableViews(list))
}

// setVariableOf reads set and variable out of the path.
func setVariableOf(r *request) (ids.VariableSet, ids.Variable, error) {
	set, err := id[ids.VariableSet](r)
	if err != nil {
		return "", "", err
	}
	variable, err := ids.Parse[ids.Variable](r.vars["variable"])
	return set, variable, err
}

func (s *server) readSetVariable(r *request) (answer, error) {
	set, variable, err := setVariableOf(r)
	if err != nil {
		return answer{}, err
	}
	list, err := s.Workspaces.SetVariables(r.ctx, r.actor, set)
	if err != nil {
		return answer{}, err
	}
	return oneVariable(list, variable)
}

func (s *server) createSetVariable(r *request) (answer, error) {
	set, err := id[ids.VariableSet](r)
	if err != nil {
		return answer{}, err
	}
	a, err := variableInput(r)
	if err != nil {
		return answer{}, err
	}
	v, err := s.Workspaces.CreateSetVariable(r.ctx, r.actor, set, a.variable())
	if err != nil {
		return answer{}, err
	}
	return created(newVariableView(v)), nil
}

func (s *server) updateSetVariable(r *request) (answer, error) {
	set, variable, err := setVariableOf(r)
	if err != nil {
		return answer{}, err
	}
	a, err := variableInput(r)
	if err != nil {
		return answer{}, err
	}
	v, err := s.Workspaces.UpdateSetVariable(r.ctx, r.actor, set, variable, a.changes())
	if err != nil {
		return answer{}, err
	}
	return ok(newVariableView(v)), nil
}

func (s *server) deleteSetVariable(r *request) (answer, error) {
	set, variable, err := setVariableOf(r)
	if err != nil {
		return answer{}, err
	}
	return noContent(), s.Workspaces.DeleteSetVariable(r.ctx, r.actor, set, variable)
}
