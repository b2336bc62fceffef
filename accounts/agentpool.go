package accounts

import (
	"context"

	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// Pool is a runner group as the people of its organization see and change it.
type Pool struct {
	RunnerGroup
	OrganizationName   string // "" for a group of all organizations
	AgentCount         int    // runners that were heard of lately, or are at work
	Workspaces         []ids.Workspace
	AllowedWorkspaces  []ids.Workspace
	ExcludedWorkspaces []ids.Workspace
	AllowedProjects    []ids.Project
}

func poolObject(p Pool) authz.Object {
	return authz.Object{Organization: p.Organization, Noun: "agent pool", Name: string(p.ID)}
}

// PoolChanges are what is said about a pool; what is nil stays, or is as by default:
// scoped to its organization, for workspaces that name it only, launcher local.
type PoolChanges struct {
	Name               *string
	OrganizationScoped *bool
	TakesRemote        *bool
	Launcher           *Launcher
	Labels             *[]string
	AllowedWorkspaces  *[]ids.Workspace
	ExcludedWorkspaces *[]ids.Workspace
	AllowedProjects    *[]ids.Project
}

func (c PoolChanges) check() error {
	if c.Name != nil {
		if err := checkRunnerGroupName(*c.Name); err != nil {
			return err
		}
	}
	if c.Launcher != nil {
		switch *c.Launcher {
		case LaunchLocal, LaunchDocker, LaunchKubernetes, LaunchGitHubActions:
		default:
			return Invalid("launcher", "Launcher must be %s, %s, %s or %s", LaunchLocal, LaunchDocker, LaunchKubernetes, LaunchGitHubActions)
		}
	}
	if c.Labels != nil {
		return CheckLabels("labels", "Labels", *c.Labels)
	}
	return nil
}

func (c PoolChanges) args(id ids.RunnerGroup) postgres.Args {
	args := postgres.Args{
		"id": id, "name": c.Name, "organization_scoped": c.OrganizationScoped, "takes_remote": c.TakesRemote, "launcher": (*string)(c.Launcher), "labels": nil,
	}
	if c.Labels != nil {
		args["labels"] = append([]string{}, *c.Labels...)
	}
	return args
}

// PoolFilter selects pools. What is empty selects nothing away.
type PoolFilter struct {
	Search    string // a part of the name, in any case
	Workspace string // pools that the workspace of this name may use
	Project   string // pools that workspaces of the project of this name may use
	Sort      string // created-at, -created-at, name or -name
	Page      Page
}

// Pools gives the pools of an organization, the oldest first unless it is said
// otherwise, and how many match in all.
func (s *Service) Pools(ctx context.Context, actor authz.Actor, organization string, filter PoolFilter) (pools []Pool, total int, err error) {
	err = postgres.InSnapshot(ctx, s.db, "accounts.pools", func(tx postgres.Tx) error {
		org, err := AllowedOrganization(ctx, tx, actor, authz.OrganizationRead, organization)
		if err != nil {
			return err
		}
		args := postgres.Args{
			"organization_id": org.ID, "search": filter.Search, "workspace": filter.Workspace, "project": filter.Project,
			"sort": filter.Sort, "limit": filter.Page.Limit(), "offset": filter.Page.Offset(),
		}
		if pools, err = postgres.All[Pool](ctx, tx, queries.Get("Pools"), args); err != nil {
			return err
		}
		total, err = postgres.Value[int](ctx, tx, queries.Get("PoolsCount"), args)
		return err
	})
	return pools, total, err
}

// Pool gives a pool by id. A group of all organizations is seen by site admins only.
func (s *Service) Pool(ctx context.Context, actor authz.Actor, id ids.RunnerGroup) (p Pool, err error) {
	err = postgres.InSnapshot(ctx, s.db, "accounts.pool", func(tx postgres.Tx) (err error) {
		p, err = AllowedPool(ctx, tx, actor, authz.OrganizationRead, id)
		return err
	})
	return p, err
}

// AllowedPool gives a pool when actor may do action to its organization: NotFound
// when there is none or the actor does not see it, Forbidden when it may not.
func AllowedPool(ctx context.Context, tx postgres.Tx, actor authz.Actor, action authz.Action, id ids.RunnerGroup) (Pool, error) {
	p, err := postgres.One[Pool](ctx, tx, queries.Get("PoolByID"), postgres.Args{"id": id})
	if postgres.NoRow(err) {
		return Pool{}, fault.Missing("agent pool", string(id))
	}
	if err != nil {
		return Pool{}, err
	}
	if err := authz.Allow(actor, action, poolObject(p)); err != nil {
		return Pool{}, err
	}
	return p, nil
}

// CreatePool makes a pool without tokens. For owners. A name in use, a label or a
// launcher against the rule is Invalid, an unknown workspace or project NotFound.
func (s *Service) CreatePool(ctx context.Context, actor authz.Actor, organization string, c PoolChanges) (p Pool, err error) {
	err = postgres.InTx(ctx, s.db, "accounts.create-pool", func(tx postgres.Tx) error {
		org, err := AllowedOrganization(ctx, tx, actor, authz.AgentPoolsManage, organization)
		if err != nil {
			return err
		}
		if c.Name == nil {
			return Invalid("name", "Name can't be blank")
		}
		if err := c.check(); err != nil {
			return err
		}
		id := ids.New[ids.RunnerGroup]()
		args := c.args(id)
		args["organization_id"] = org.ID
		if _, err := postgres.Exec(ctx, tx, queries.Get("RunnerGroupInsert"), args); err != nil {
			return poolNameTaken(err)
		}
		if err := setScope(ctx, tx, org.ID, id, c); err != nil {
			return err
		}
		if p, err = AllowedPool(ctx, tx, actor, authz.AgentPoolsManage, id); err != nil {
			return err
		}
		return recordPool(ctx, tx, actor, org.ID, id, "runner-group.created", poolDetails(p))
	})
	if err != nil {
		return Pool{}, err
	}
	return p, nil
}

// UpdatePool changes what is said and leaves the rest. It is refused like CreatePool.
func UpdatePool(ctx context.Context, tx postgres.Tx, actor authz.Actor, id ids.RunnerGroup, c PoolChanges) (Pool, error) {
	before, err := AllowedPool(ctx, tx, actor, authz.AgentPoolsManage, id)
	if err != nil {
		return Pool{}, err
	}
	if err := c.check(); err != nil {
		return Pool{}, err
	}
	n, err := postgres.Exec(ctx, tx, queries.Get("RunnerGroupUpdate"), c.args(id))
	if err != nil {
		return Pool{}, poolNameTaken(err)
	}
	if n == 0 {
		return Pool{}, fault.Missing("agent pool", string(id)) // deleted since it was read
	}
	if err := setScope(ctx, tx, before.Organization, id, c); err != nil {
		return Pool{}, err
	}
	after, err := AllowedPool(ctx, tx, actor, authz.AgentPoolsManage, id)
	if err != nil {
		return Pool{}, err
	}
	return after, recordPool(ctx, tx, actor, after.Organization, id, "runner-group.updated", poolDetails(after))
}

func poolDetails(p Pool) map[string]any {
	return map[string]any{
		"name": p.Name, "organization_scoped": p.OrganizationScoped, "takes_remote": p.TakesRemote, "launcher": p.Launcher, "labels": p.Labels,
		"allowed_workspaces": p.AllowedWorkspaces, "excluded_workspaces": p.ExcludedWorkspaces, "allowed_projects": p.AllowedProjects,
	}
}
