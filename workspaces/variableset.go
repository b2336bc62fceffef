package workspaces

import (
	"context"
	"time"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/audit"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// VariableSet is a group of variables for many workspaces: those it is applied to, those
// of the projects it is applied to, and, when it is global, all of whoever owns it.
type VariableSet struct {
	ID               ids.VariableSet
	Organization     ids.Organization
	OrganizationName string
	Project          ids.Project // whose it is; empty: the organization's
	Name             string
	Description      string
	Global           bool
	Priority         bool // goes before what is said more specifically, runs included
	CreatedAt        time.Time
	UpdatedAt        time.Time
	Workspaces       []ids.Workspace
	Projects         []ids.Project
	Variables        []ids.Variable
}

func (v VariableSet) object() authz.Object {
	return authz.Object{Organization: v.Organization, Project: v.Project, Noun: "variable set", Name: string(v.ID)}
}

func variablesOfSet(v VariableSet) variableOwner {
	return variableOwner{statements: "Set", kind: "variable-set", organization: v.Organization, set: v.ID}
}

const maxSetName = 90

func checkSet(name, description *string) error {
	if name != nil {
		if *name == "" {
			return accounts.Invalid("name", "Name can't be blank")
		}
		if err := accounts.CheckText("name", "Name", *name, maxSetName); err != nil {
			return err
		}
	}
	if description == nil {
		return nil
	}
	return accounts.CheckText("description", "Description", *description, maxVariableDescription)
}

// SetFilter selects sets. What is empty selects nothing away.
type SetFilter struct {
	Search string // a part of the name, in any case
	Global *bool  // only those that are, or are not
	Scope  SetScope
	Page   Page
}

// SetScope says whose sets are wanted. Empty is everybody's.
type SetScope string

// The scopes: those of the organization or project whose list it is, and those that a project
// has from its organization.
const (
	SetsOwned  SetScope = "owned"
	SetsShared SetScope = "shared"
)

// VariableSets gives the sets of the organization and its projects that the actor sees, by
// name, and how many match in all.
func (s *Service) VariableSets(ctx context.Context, actor authz.Actor, organization string, f SetFilter) (list []VariableSet, total int, err error) {
	err = postgres.InSnapshot(ctx, s.db, "workspaces.variable-sets", func(tx postgres.Tx) error {
		org, err := accounts.AllowedOrganization(ctx, tx, actor, authz.OrganizationRead, organization)
		if err != nil {
			return err
		}
		list, total, err = selectSets(ctx, tx, org.ID, "", "", authz.Where(actor, authz.VariableSetsRead, org.ID), f)
		return err
	})
	return list, total, err
}

// WorkspaceVariableSets gives the sets that the workspace's runs get.
func (s *Service) WorkspaceVariableSets(ctx context.Context, actor authz.Actor, id ids.Workspace, f SetFilter) (list []VariableSet, total int, err error) {
	err = postgres.InSnapshot(ctx, s.db, "workspaces.workspace-variable-sets", func(tx postgres.Tx) error {
		w, err := Allowed(ctx, tx, actor, authz.VariablesRead, id)
		if err != nil {
			return err
		}
		list, total, err = selectSets(ctx, tx, w.Organization, id, "", authz.Everywhere(), f)
		return err
	})
	return list, total, err
}

// ProjectVariableSets gives the sets of a project: its own, those applied to it, and the
// global ones.
func (s *Service) ProjectVariableSets(ctx context.Context, actor authz.Actor, id ids.Project, f SetFilter) (list []VariableSet, total int, err error) {
	err = postgres.InSnapshot(ctx, s.db, "workspaces.project-variable-sets", func(tx postgres.Tx) error {
		p, err := AllowedProject(ctx, tx, actor, authz.VariableSetsRead, id)
		if err != nil {
			return err
		}
		list, total, err = selectSets(ctx, tx, p.Organization, "", id, authz.Everywhere(), f)
		return err
	})
	return list, total, err
}

func selectSets(ctx context.Context, tx postgres.Tx, org ids.Organization, workspace ids.Workspace, project ids.Project, seen authz.Scope, f SetFilter) (list []VariableSet, total int, err error) {
	args := postgres.Args{"organization_id": org, "workspace_id": workspace, "project_id": project, "all": seen.All, "visible": seen.Projects, "search": f.Search, "global": f.Global, "scope": f.Scope}
	if total, err = postgres.Value[int](ctx, tx, queries.Get("VariableSetsCount"), args); err != nil {
		return nil, 0, err
	}
	args["limit"], args["offset"] = f.Page.Limit(), f.Page.Offset()
	list, err = postgres.All[VariableSet](ctx, tx, queries.Get("VariableSets"), args)
	return list, total, err
}

// VariableSet gives a set by id.
func (s *Service) VariableSet(ctx context.Context, actor authz.Actor, id ids.VariableSet) (found VariableSet, err error) {
	err = postgres.InSnapshot(ctx, s.db, "workspaces.variable-set", func(tx postgres.Tx) error {
		found, err = allowedSet(ctx, tx, actor, authz.VariableSetsRead, id)
		return err
	})
	return found, err
}

func allowedSet(ctx context.Context, tx postgres.Tx, actor authz.Actor, action authz.Action, id ids.VariableSet) (VariableSet, error) {
	found, err := loadSet(ctx, tx, id)
	if err != nil {
		return VariableSet{}, err
	}
	if err := authz.Allow(actor, action, found.object()); err != nil {
		return VariableSet{}, err
	}
	return found, nil
}

func loadSet(ctx context.Context, tx postgres.Tx, id ids.VariableSet) (VariableSet, error) {
	found, err := postgres.One[VariableSet](ctx, tx, queries.Get("VariableSetByID"), postgres.Args{"id": id})
	if postgres.NoRow(err) {
		return VariableSet{}, fault.Missing("variable set", string(id))
	}
	return found, err
}

// SetChanges are what is said about a set; what is nil stays, or is as by default. The
// lists replace what was there.
type SetChanges struct {
	Name, Description *string
	Global, Priority  *bool
	Workspaces        *[]ids.Workspace
	Projects          *[]ids.Project
}

// CreateVariableSet makes a set of the organization, or of the project when that is not
// empty. A name in use or against its rule is Invalid.
func (s *Service) CreateVariableSet(ctx context.Context, actor authz.Actor, organization string, project ids.Project, c SetChanges) (made VariableSet, err error) {
	err = postgres.InTx(ctx, s.db, "workspaces.create-variable-set", func(tx postgres.Tx) error {
		org, err := accounts.AllowedOrganization(ctx, tx, actor, authz.OrganizationRead, organization)
		if err != nil {
			return err
		}
		object := authz.Object{Organization: org.ID, Noun: "organization", Name: organization}
		if project != "" {
			owner, err := heldProject(ctx, tx, org.ID, project)
			if err != nil {
				return err
			}
			object = owner.object()
		}
		if err := authz.Allow(actor, authz.VariableSetsWrite, object); err != nil {
			return err
		}
		name := ""
		set(&name, c.Name)
		if err := checkSet(&name, c.Description); err != nil {
			return err
		}
		id, description, global, priority, owner := ids.New[ids.VariableSet](), "", false, false, (*ids.Project)(nil)
		set(&description, c.Description)
		set(&global, c.Global)
		set(&priority, c.Priority)
		if project != "" {
			owner = &project
		}
		_, err = postgres.Exec(ctx, tx, queries.Get("VariableSetInsert"), postgres.Args{
			"id": id, "organization_id": org.ID, "project_id": owner, "name": name, "description": description, "global": global, "priority": priority,
		})
		if err != nil {
			return setTaken(err)
		}
		if made, err = applySet(ctx, tx, VariableSet{ID: id, Organization: org.ID, Project: project}, c); err != nil {
			return err
		}
		return recordSet(ctx, tx, actor, made, "variable-set.created")
	})
	return made, err
}

// UpdateVariableSet changes what is said. It is refused like CreateVariableSet.
func (s *Service) UpdateVariableSet(ctx context.Context, actor authz.Actor, id ids.VariableSet, c SetChanges) (VariableSet, error) {
	return s.changeSet(ctx, "workspaces.update-variable-set", actor, id, func(tx postgres.Tx, before VariableSet) (VariableSet, error) {
		if err := checkSet(c.Name, c.Description); err != nil {
			return VariableSet{}, err
		}
		_, err := postgres.Exec(ctx, tx, queries.Get("VariableSetUpdate"), postgres.Args{
			"id": id, "name": c.Name, "description": c.Description, "global": c.Global, "priority": c.Priority,
		})
		if err != nil {
			return VariableSet{}, setTaken(err)
		}
		return applySet(ctx, tx, before, c)
	})
}

// changeSet runs change on a set that the actor may change, and writes down what came of it.
func (s *Service) changeSet(ctx context.Context, name string, actor authz.Actor, id ids.VariableSet, change func(tx postgres.Tx, before VariableSet) (VariableSet, error)) (after VariableSet, err error) {
	err = postgres.InTx(ctx, s.db, name, func(tx postgres.Tx) error {
		before, err := allowedSet(ctx, tx, actor, authz.VariableSetsWrite, id)
		if err != nil {
			return err
		}
		if after, err = change(tx, before); err != nil {
			return err
		}
		return recordSet(ctx, tx, actor, after, "variable-set.updated")
	})
	return after, err
}

// applySet replaces the lists that are given, and reads the set.
func applySet(ctx context.Context, tx postgres.Tx, v VariableSet, c SetChanges) (VariableSet, error) {
	if c.Workspaces != nil {
		if err := removeFrom(ctx, tx, v, "VariableSetWorkspaces", nil, true); err != nil {
			return VariableSet{}, err
		}
		if err := applyTo(ctx, tx, v, "VariableSetWorkspaces", texts(*c.Workspaces)); err != nil {
			return VariableSet{}, err
		}
	}
	if c.Projects != nil {
		if err := removeFrom(ctx, tx, v, "VariableSetProjects", nil, true); err != nil {
			return VariableSet{}, err
		}
		if err := applyTo(ctx, tx, v, "VariableSetProjects", texts(*c.Projects)); err != nil {
			return VariableSet{}, err
		}
	}
	return loadSet(ctx, tx, v.ID)
}

// ApplyToWorkspaces, RemoveFromWorkspaces, ApplyToProjects and RemoveFromProjects change
// one list of a set. What the set cannot be applied to is NotFound.
func (s *Service) ApplyToWorkspaces(ctx context.Context, actor authz.Actor, id ids.VariableSet, list []ids.Workspace) error {
	return s.changeList(ctx, actor, id, "VariableSetWorkspaces", texts(list), true)
}

// RemoveFromWorkspaces takes workspaces out of the list.
func (s *Service) RemoveFromWorkspaces(ctx context.Context, actor authz.Actor, id ids.VariableSet, list []ids.Workspace) error {
	return s.changeList(ctx, actor, id, "VariableSetWorkspaces", texts(list), false)
}

// ApplyToProjects adds projects to the list.
func (s *Service) ApplyToProjects(ctx context.Context, actor authz.Actor, id ids.VariableSet, list []ids.Project) error {
	return s.changeList(ctx, actor, id, "VariableSetProjects", texts(list), true)
}

// RemoveFromProjects takes projects out of the list.
func (s *Service) RemoveFromProjects(ctx context.Context, actor authz.Actor, id ids.VariableSet, list []ids.Project) error {
	return s.changeList(ctx, actor, id, "VariableSetProjects", texts(list), false)
}

func (s *Service) changeList(ctx context.Context, actor authz.Actor, id ids.VariableSet, statements string, list []string, add bool) error {
	_, err := s.changeSet(ctx, "workspaces.apply-variable-set", actor, id, func(tx postgres.Tx, before VariableSet) (VariableSet, error) {
		if add {
			return before, applyTo(ctx, tx, before, statements, list)
		}
		return before, removeFrom(ctx, tx, before, statements, list, false)
	})
	return err
}

func texts[T ~string](list []T) []string {
	out := make([]string, 0, len(list))
	for _, one := range list {
		out = append(out, string(one))
	}
	return distinct(out)
}

func applyTo(ctx context.Context, tx postgres.Tx, v VariableSet, statements string, list []string) error {
	n, err := postgres.Value[int](ctx, tx, queries.Get(statements+"Add"), postgres.Args{
		"id": v.ID, "organization_id": v.Organization, "project_id": v.Project, "ids": list,
	})
	if err == nil && n != len(list) {
		err = fault.New(fault.NotFound, "not_found", "One of those that the variable set is to be applied to is not there, or not in the organization or project that owns it.")
	}
	return err
}

func removeFrom(ctx context.Context, tx postgres.Tx, v VariableSet, statements string, list []string, all bool) error {
	_, err := postgres.Exec(ctx, tx, queries.Get(statements+"Remove"), postgres.Args{"id": v.ID, "ids": append([]string{}, list...), "all": all})
	return err
}

// DeleteVariableSet removes a set with its variables. Runs that have begun keep what they
// were given.
func (s *Service) DeleteVariableSet(ctx context.Context, actor authz.Actor, id ids.VariableSet) error {
	return postgres.InTx(ctx, s.db, "workspaces.delete-variable-set", func(tx postgres.Tx) error {
		before, err := allowedSet(ctx, tx, actor, authz.VariableSetsWrite, id)
		if err != nil {
			return err
		}
		n, err := postgres.Exec(ctx, tx, queries.Get("VariableSetDelete"), postgres.Args{"id": id})
		if err != nil {
			return err
		}
		if n == 0 {
			return fault.Missing("variable set", string(id))
		}
		return recordSet(ctx, tx, actor, before, "variable-set.deleted")
	})
}

func setTaken(err error) error {
	if violates(err, "variable_sets_name") {
		return accounts.Taken("name", "Name")
	}
	return err
}

func recordSet(ctx context.Context, tx postgres.Tx, actor authz.Actor, v VariableSet, action string) error {
	return audit.Append(ctx, tx, audit.Entry{
		Organization: v.Organization, Actor: actor, Action: action, ObjectKind: "variable-set", ObjectID: string(v.ID),
		Details: map[string]any{"name": v.Name, "global": v.Global, "priority": v.Priority},
	})
}
