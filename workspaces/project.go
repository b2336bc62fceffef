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

// Project is a named group of workspaces of one organization.
type Project struct {
	ID           ids.Project
	Organization ids.Organization
	Name         string
	Description  string
	IsDefault    bool // where workspaces go when nothing else is said
	CreatedAt    time.Time
}

// object is the project as authz is asked about it.
func (p Project) object() authz.Object {
	return authz.Object{Organization: p.Organization, Project: p.ID, Noun: "project", Name: string(p.ID)}
}

// ProjectFilter selects projects. Names are exact; none means all.
type ProjectFilter struct{ Names []string }

// Projects gives the organization's projects by name, and how many match in all. A
// name nobody uses matches nothing: the answer is an empty list, never NotFound.
func (s *Service) Projects(ctx context.Context, actor authz.Actor, organization string, filter ProjectFilter, page Page) ([]Project, int, error) {
	names := make([]string, 0, len(filter.Names))
	for _, name := range filter.Names {
		if accounts.Storable(name) {
			names = append(names, name)
		}
	}
	var projects []Project
	var total int
	err := postgres.InSnapshot(ctx, s.db, "workspaces.projects", func(tx postgres.Tx) error {
		org, err := accounts.AllowedOrganization(ctx, tx, actor, authz.OrganizationRead, organization)
		if err != nil {
			return err
		}
		scope, places := authz.Where(actor, authz.ProjectRead, org.ID), authz.Where(actor, authz.WorkspaceRead, org.ID) // see seesProject
		args := postgres.Args{"organization_id": org.ID, "all": scope.All || places.All, "visible": scope.Projects, "workspaces": places.Workspaces, "filtered": len(filter.Names) > 0, "names": names, "limit": page.Limit(), "offset": page.Offset()}
		if projects, err = postgres.All[Project](ctx, tx, queries.Get("Projects"), args); err != nil {
			return err
		}
		total, err = postgres.Value[int](ctx, tx, queries.Get("ProjectsCount"), args)
		return err
	})
	return projects, total, err
}

// AllowedProject loads a project for an actor who wants to do action: NotFound also when the
// actor does not see the project, Forbidden when it sees it but may not.
func AllowedProject(ctx context.Context, tx postgres.Tx, actor authz.Actor, action authz.Action, id ids.Project) (Project, error) {
	project, err := projectByID(ctx, tx, id)
	if err != nil {
		return Project{}, err
	}
	return project, authz.Allow(actor, action, project.object())
}

func projectByID(ctx context.Context, tx postgres.Tx, id ids.Project) (Project, error) {
	project, err := postgres.One[Project](ctx, tx, queries.Get("ProjectByID"), postgres.Args{"id": id})
	if postgres.NoRow(err) {
		err = fault.Missing("project", string(id))
	}
	return project, err
}

// Project gives a project by id.
func (s *Service) Project(ctx context.Context, actor authz.Actor, id ids.Project) (Project, error) {
	var project Project
	err := postgres.InSnapshot(ctx, s.db, "workspaces.project", func(tx postgres.Tx) (err error) {
		if project, err = projectByID(ctx, tx, id); err != nil {
			return err
		}
		return seesProject(ctx, tx, actor, project)
	})
	if err != nil {
		return Project{}, err
	}
	return project, nil
}

// seesProject answers nil for an actor who may read the project, or who sees some
// workspace of it and so may know where that is.
func seesProject(ctx context.Context, tx postgres.Tx, actor authz.Actor, project Project) error {
	refused := authz.Allow(actor, authz.ProjectRead, project.object())
	if refused == nil {
		return nil
	}
	scope := authz.Where(actor, authz.WorkspaceRead, project.Organization)
	if scope.All {
		return nil
	}
	known, err := postgres.Value[bool](ctx, tx, queries.Get("ProjectHasSome"), postgres.Args{"id": project.ID, "workspaces": scope.Workspaces})
	if err != nil || known {
		return err
	}
	return refused
}

// DefaultProject gives the project in which new workspaces of the organization go.
func (s *Service) DefaultProject(ctx context.Context, actor authz.Actor, organization string) (Project, error) {
	var project Project
	err := postgres.InSnapshot(ctx, s.db, "workspaces.default-project", func(tx postgres.Tx) error {
		org, err := accounts.AllowedOrganization(ctx, tx, actor, authz.OrganizationRead, organization)
		if err != nil {
			return err
		}
		project, err = defaultProject(ctx, tx, org.ID)
		return err
	})
	return project, err
}

func defaultProject(ctx context.Context, tx postgres.Tx, org ids.Organization) (Project, error) {
	return postgres.One[Project](ctx, tx, queries.Get("ProjectDefault"), postgres.Args{"organization_id": org})
}

// NewProject is what a project is made from.
type NewProject struct{ Name, Description string }

// CreateProject makes a project. A name in use or against the rule is Invalid.
func (s *Service) CreateProject(ctx context.Context, actor authz.Actor, organization string, n NewProject) (Project, error) {
	var project Project
	err := postgres.InTx(ctx, s.db, "workspaces.create-project", func(tx postgres.Tx) error {
		org, err := accounts.AllowedOrganization(ctx, tx, actor, authz.ProjectCreate, organization)
		if err != nil {
			return err
		}
		if err := checkProjectName(n.Name); err != nil {
			return err
		}
		if err := accounts.CheckText("description", "Description", n.Description, maxDescription); err != nil {
			return err
		}
		project, err = insertProject(ctx, tx, actor, Project{Organization: org.ID, Name: n.Name, Description: n.Description})
		return err
	})
	return project, err
}

func insertProject(ctx context.Context, tx postgres.Tx, actor authz.Actor, p Project) (Project, error) {
	project, err := postgres.One[Project](ctx, tx, queries.Get("ProjectInsert"), postgres.Args{
		"id": ids.New[ids.Project](), "organization_id": p.Organization, "name": p.Name, "description": p.Description, "is_default": p.IsDefault,
	})
	if violates(err, "projects_name") {
		return Project{}, accounts.Taken("name", "Name")
	}
	if err != nil {
		return Project{}, err
	}
	return project, audit.Append(ctx, tx, audit.Entry{
		Organization: project.Organization, Actor: actor, Action: "project.created", ObjectKind: "project", ObjectID: string(project.ID),
	})
}

// violates tells whether err is the database's refusal by the named constraint.
func violates(err error, constraint string) bool {
	_, got := postgres.Violation(err)
	return got == constraint
}
