package workspaces

import (
	"context"
	"slices"
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
	ID               ids.Project
	Organization     ids.Organization
	OrganizationName string
	Name             string
	Description      string
	IsDefault        bool // where workspaces go when nothing else is said
	CreatedAt        time.Time
	ExecutionMode    ExecutionMode   // of workspaces that say none
	AgentPool        ids.RunnerGroup // of mode Agent, else empty
	Inherits         bool            // the two above are those of the organization, and change with it
}

// object is the project as authz is asked about it.
func (p Project) object() authz.Object {
	return authz.Object{Organization: p.Organization, Project: p.ID, Noun: "project", Name: string(p.ID)}
}

// Placement is where runs of its workspaces are executed when they say nothing else.
func (p Project) Placement() accounts.Placement {
	return accounts.Placement{Mode: p.ExecutionMode, Pool: p.AgentPool}
}

// ProjectFilter selects projects. What is empty selects nothing away.
type ProjectFilter struct {
	Names    []string     // one of them, exactly
	Search   string       // a part of the name, in any case
	Bindings []TagBinding // each of them; an empty Value means any
	// May leaves those in which the actor may do each of these.
	May  []authz.Action
	Sort string // name or -name; empty is the first of them
}

func (f ProjectFilter) args(org ids.Organization) postgres.Args {
	keys, values := splitBindings(f.Bindings)
	return postgres.Args{
		"organization_id": org, "filtered": len(f.Names) > 0, "names": slices.DeleteFunc(append([]string{}, f.Names...), func(name string) bool { return !accounts.Storable(name) }),
		"search": f.Search, "keys": keys, "values": values, "sort": f.Sort,
	}
}

// where gives the projects in which the actor may do all that May names, unless it may everywhere.
func (f ProjectFilter) where(actor authz.Actor, org ids.Organization) (anywhere bool, projects []ids.Project) {
	anywhere, projects = true, []ids.Project{}
	for _, action := range f.May {
		scope := authz.Where(actor, action, org)
		switch {
		case scope.All:
		case anywhere:
			anywhere, projects = false, scope.Projects
		default:
			projects = slices.DeleteFunc(projects, func(p ids.Project) bool { return !slices.Contains(scope.Projects, p) })
		}
	}
	return anywhere, projects
}

// Projects gives the organization's projects by name, and how many match in all. A
// name nobody uses matches nothing: the answer is an empty list, never NotFound.
func (s *Service) Projects(ctx context.Context, actor authz.Actor, organization string, filter ProjectFilter, page Page) ([]Project, int, error) {
	var projects []Project
	var total int
	err := postgres.InSnapshot(ctx, s.db, "workspaces.projects", func(tx postgres.Tx) error {
		org, err := accounts.AllowedOrganization(ctx, tx, actor, authz.OrganizationRead, organization)
		if err != nil {
			return err
		}
		scope, places := authz.Where(actor, authz.ProjectRead, org.ID), authz.Where(actor, authz.WorkspaceRead, org.ID) // see seesProject
		args := filter.args(org.ID)
		args["all"], args["visible"], args["workspaces"] = scope.All || places.All, scope.Projects, places.Workspaces
		args["anywhere"], args["may"] = filter.where(actor, org.ID)
		if total, err = postgres.Value[int](ctx, tx, queries.Get("ProjectsCount"), args); err != nil {
			return err
		}
		args["limit"], args["offset"] = page.Limit(), page.Offset()
		projects, err = postgres.All[Project](ctx, tx, queries.Get("Projects"), args)
		return err
	})
	return projects, total, err
}

// AllowedProject loads a project for an actor who wants to do action: NotFound also when the
// actor does not see the project, Forbidden when it sees it but may not.
func AllowedProject(ctx context.Context, tx postgres.Tx, actor authz.Actor, action authz.Action, id ids.Project) (Project, error) {
	project, err := loadProject(ctx, tx, id)
	if err != nil {
		return Project{}, err
	}
	return project, authz.Allow(actor, action, project.object())
}

// Project gives a project by id.
func (s *Service) Project(ctx context.Context, actor authz.Actor, id ids.Project) (Project, error) {
	var project Project
	err := postgres.InSnapshot(ctx, s.db, "workspaces.project", func(tx postgres.Tx) (err error) {
		if project, err = loadProject(ctx, tx, id); err != nil {
			return err
		}
		return seesProject(ctx, tx, actor, project)
	})
	return project, err
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

func loadProject(ctx context.Context, tx postgres.Tx, id ids.Project) (Project, error) {
	project, err := postgres.One[Project](ctx, tx, queries.Get("ProjectByID"), postgres.Args{"id": id})
	if postgres.NoRow(err) {
		return Project{}, fault.Missing("project", string(id))
	}
	return project, err
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

// ProjectSettings are what a project can be told; what is nil stays, or is as by default:
// with the execution mode of the organization.
type ProjectSettings struct {
	ExecutionMode *ExecutionMode
	AgentPool     *ids.RunnerGroup // empty is none
	InheritMode   *bool            // true takes mode and pool of the organization, whatever else is said of them
	Bindings      *[]TagBinding    // replaces all of them
}

// places tells whether the settings say where runs are executed.
func (c ProjectSettings) places() bool {
	return c.ExecutionMode != nil || c.AgentPool != nil || c.InheritMode != nil
}

// own gives what the project says itself after these settings, nil when it inherits.
func (c ProjectSettings) own(before Project) (*accounts.Placement, error) {
	inherits := before.Inherits && c.ExecutionMode == nil && c.AgentPool == nil
	if c.InheritMode != nil {
		inherits = *c.InheritMode
	}
	if inherits {
		return nil, nil
	}
	where, err := before.Placement().Changed("default-", "Default agent pool", c.ExecutionMode, c.AgentPool)
	return &where, err
}

// NewProject is what a project is made from.
type NewProject struct {
	Name, Description string
	ProjectSettings
}

// CreateProject makes a project. A name in use or against the rule is Invalid.
func (s *Service) CreateProject(ctx context.Context, actor authz.Actor, organization string, n NewProject) (Project, error) {
	var project Project
	err := postgres.InTx(ctx, s.db, "workspaces.create-project", func(tx postgres.Tx) error {
		org, err := accounts.AllowedOrganization(ctx, tx, actor, authz.ProjectCreate, organization)
		if err != nil {
			return err
		}
		if err := checkProject(&n.Name, &n.Description); err != nil {
			return err
		}
		where, err := n.own(Project{ExecutionMode: org.DefaultExecutionMode, AgentPool: org.DefaultAgentPool, Inherits: true})
		if err != nil {
			return err
		}
		if project, err = insertProject(ctx, tx, actor, Project{Organization: org.ID, Name: n.Name, Description: n.Description}, where); err != nil {
			return err
		}
		if n.Bindings != nil {
			_, err = setBindings(ctx, tx, actor, bindingsOfProject(project), *n.Bindings)
		}
		return err
	})
	return project, err
}

func checkProject(name, description *string) error {
	if name != nil {
		if err := checkProjectName(*name); err != nil {
			return err
		}
	}
	if description == nil {
		return nil
	}
	return accounts.CheckText("description", "Description", *description, maxDescription)
}

// insertProject adds a project; where is nil for one that inherits.
func insertProject(ctx context.Context, tx postgres.Tx, actor authz.Actor, p Project, where *accounts.Placement) (Project, error) {
	p.ID = ids.New[ids.Project]()
	args, err := projectArgs(ctx, tx, p, where)
	if err != nil {
		return Project{}, err
	}
	args["name"], args["description"], args["organization_id"], args["is_default"] = p.Name, p.Description, p.Organization, p.IsDefault
	if _, err := postgres.Exec(ctx, tx, queries.Get("ProjectInsert"), args); err != nil {
		return Project{}, projectTaken(err)
	}
	project, err := loadProject(ctx, tx, p.ID)
	if err != nil {
		return Project{}, err
	}
	return project, recordProject(ctx, tx, actor, project, "project.created")
}

func projectArgs(ctx context.Context, tx postgres.Tx, p Project, where *accounts.Placement) (postgres.Args, error) {
	args := postgres.Args{"id": p.ID, "execution_mode": nil, "agent_pool_id": nil}
	if where == nil {
		return args, nil
	}
	args["execution_mode"], args["agent_pool_id"] = string(where.Mode), where.PoolOrNull()
	return args, accounts.HoldPool(ctx, tx, p.Organization, *where)
}

func projectTaken(err error) error {
	if violates(err, "projects_name") {
		return accounts.Taken("name", "Name")
	}
	return err
}

// ProjectChanges are what an update says; what is nil stays.
type ProjectChanges struct {
	Name, Description *string
	ProjectSettings
}

// UpdateProject changes what is said, and with it what the project's workspaces inherit.
// It is refused like CreateProject.
func (s *Service) UpdateProject(ctx context.Context, actor authz.Actor, id ids.Project, c ProjectChanges) (Project, error) {
	var project Project
	err := postgres.InTx(ctx, s.db, "workspaces.update-project", func(tx postgres.Tx) error {
		before, err := AllowedProject(ctx, tx, actor, authz.ProjectUpdate, id)
		if err != nil {
			return err
		}
		if err := checkProject(c.Name, c.Description); err != nil {
			return err
		}
		where, err := c.own(before)
		if err != nil {
			return err
		}
		args, err := projectArgs(ctx, tx, before, where)
		if err != nil {
			return err
		}
		args["placed"], args["name"], args["description"] = c.places(), c.Name, c.Description
		n, err := postgres.Exec(ctx, tx, queries.Get("ProjectUpdate"), args)
		if err != nil {
			return projectTaken(err)
		}
		if n == 0 {
			return fault.Missing("project", string(id)) // deleted since it was read
		}
		if project, err = loadProject(ctx, tx, id); err != nil {
			return err
		}
		if err := inherit(ctx, tx, project.Organization, id, project.Placement()); err != nil {
			return err
		}
		if c.Bindings != nil {
			if err := replaceBindings(ctx, tx, actor, bindingsOfProject(project), *c.Bindings); err != nil {
				return err
			}
		}
		return recordProject(ctx, tx, actor, project, "project.updated")
	})
	return project, err
}

// DeleteProject makes a tombstone of a project. The default one, and one that still has
// workspaces, is a Conflict.
func (s *Service) DeleteProject(ctx context.Context, actor authz.Actor, id ids.Project) error {
	return postgres.InTx(ctx, s.db, "workspaces.delete-project", func(tx postgres.Tx) error {
		project, err := AllowedProject(ctx, tx, actor, authz.ProjectDelete, id)
		if err != nil {
			return err
		}
		if project.IsDefault {
			return fault.New(fault.Conflict, "project_is_default", "Project %q is where workspaces go when nothing else is said, so it cannot be deleted.", project.Name)
		}
		if _, err := postgres.Value[ids.Project](ctx, tx, queries.Get("ProjectLock"), postgres.Args{"id": id}); postgres.NoRow(err) {
			return fault.Missing("project", string(id))
		} else if err != nil {
			return err
		}
		n, err := postgres.Exec(ctx, tx, queries.Get("ProjectEnd"), postgres.Args{"id": id})
		if err != nil {
			return err
		}
		if n == 0 {
			return fault.New(fault.Conflict, "project_not_empty", "Project %q still has workspaces. Move or delete them first.", project.Name)
		}
		return recordProject(ctx, tx, actor, project, "project.deleted")
	})
}

func recordProject(ctx context.Context, tx postgres.Tx, actor authz.Actor, p Project, action string) error {
	return audit.Append(ctx, tx, audit.Entry{
		Organization: p.Organization, Actor: actor, Action: action, ObjectKind: "project", ObjectID: string(p.ID), Details: map[string]any{"name": p.Name},
	})
}

// violates tells whether err is the database's refusal by the named constraint.
func violates(err error, constraint string) bool {
	_, got := postgres.Violation(err)
	return got == constraint
}
