package workspaces

import (
	"context"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/audit"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/fence"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// Settings are what a workspace can be told. nil means: not said.
type Settings struct {
	Project                    *ids.Project
	Description                *string
	ExecutionMode              *ExecutionMode
	AgentPool                  *ids.RunnerGroup // of mode Agent; empty is none
	RunnerSelector             *[]string        // labels that a runner must have
	TerraformVersion           *string
	WorkingDirectory           *string
	AutoApply                  *bool
	AllowDestroyPlan           *bool
	StructuredRunOutputEnabled *bool
	ClientEncrypted            *bool
	EnvironmentClass           *EnvironmentClass
	FailedApply                *FailedApply
}

// NewWorkspace is what a workspace is made from.
type NewWorkspace struct {
	Name string
	Settings
	Tags     []TagRef
	Bindings []TagBinding
}

// Changes are what an update says; what is absent stays.
type Changes struct {
	Name *string
	Settings
	Bindings *[]TagBinding // replaces all of them
}

// Create makes a workspace with its fence and tags, in the default project unless
// another is named. A name in use or a value against its rule is Invalid, an unknown project
// NotFound.
func (s *Service) Create(ctx context.Context, actor authz.Actor, organization string, n NewWorkspace) (Workspace, error) {
	var w Workspace
	err := postgres.InTx(ctx, s.db, "workspaces.create", func(tx postgres.Tx) error {
		org, err := accounts.AllowedOrganization(ctx, tx, actor, authz.OrganizationRead, organization)
		if err != nil {
			return err
		}
		project, err := projectFor(ctx, tx, actor, org.ID, organization, n.Project)
		if err != nil {
			return err
		}
		if err := checkWorkspaceName(n.Name); err != nil {
			return err
		}
		if err := n.check(); err != nil {
			return err
		}
		id := ids.New[ids.Workspace]()
		if err := n.mayRelease(actor, Object(Workspace{ID: id, Organization: org.ID, Project: project})); err != nil {
			return err
		}
		args := n.args(id, org.ID)
		pool, err := n.pool(Workspace{ExecutionMode: Remote})
		if err != nil {
			return err
		}
		args["name"], args["project_id"], args["agent_pool_id"] = n.Name, project, pool
		if _, err := postgres.Exec(ctx, tx, queries.Get("WorkspaceInsert"), args); err != nil {
			return refusedRow(err)
		}
		if err := checkPool(ctx, tx, id, pool); err != nil {
			return err
		}
		if err := fence.Create(ctx, tx, org.ID, id); err != nil {
			return err
		}
		made := Workspace{ID: id, Organization: org.ID}
		if err := record(ctx, tx, actor, made, "workspace.created", map[string]any{"name": n.Name}); err != nil {
			return err
		}
		if err := addTags(ctx, tx, actor, made, n.Tags); err != nil {
			return err
		}
		if _, err := setBindings(ctx, tx, actor, made, n.Bindings); err != nil {
			return err
		}
		w, err = Load(ctx, tx, id)
		return err
	})
	if err != nil {
		return Workspace{}, err
	}
	return w, nil
}

// Update changes what is said and leaves the rest. It is refused like Create. A run
// in progress goes on with what it began with.
func (s *Service) Update(ctx context.Context, actor authz.Actor, id ids.Workspace, c Changes) (Workspace, error) {
	var w Workspace
	err := postgres.InTx(ctx, s.db, "workspaces.update", func(tx postgres.Tx) error {
		before, err := Allowed(ctx, tx, actor, authz.WorkspaceUpdate, id)
		if err != nil {
			return err
		}
		if c.Name != nil {
			if err := checkWorkspaceName(*c.Name); err != nil {
				return err
			}
		}
		if err := c.check(); err != nil {
			return err
		}
		if err := c.mayRelease(actor, Object(before)); err != nil {
			return err
		}
		if c.Project != nil && *c.Project != before.Project {
			if err := authz.Allow(actor, authz.WorkspaceMove, Object(before)); err != nil {
				return err
			}
			if _, err := projectFor(ctx, tx, actor, before.Organization, before.OrganizationName, c.Project); err != nil {
				return err
			}
		}
		args := c.args(id, before.Organization)
		pool, err := c.pool(before)
		if err != nil {
			return err
		}
		args["name"], args["project_id"], args["agent_pool_id"] = c.Name, c.Project, pool
		n, err := postgres.Exec(ctx, tx, queries.Get("WorkspaceUpdate"), args)
		if err != nil {
			return refusedRow(err)
		}
		if n == 0 {
			return fault.Missing("workspace", string(id)) // deleted since it was read
		}
		if c.AgentPool != nil {
			if err := checkPool(ctx, tx, id, pool); err != nil {
				return err
			}
		}
		if c.Bindings != nil {
			if err := replaceBindings(ctx, tx, actor, before, *c.Bindings); err != nil {
				return err
			}
		}
		if w, err = Load(ctx, tx, id); err != nil {
			return err
		}
		return record(ctx, tx, actor, w, "workspace.updated", map[string]any{"name_before": before.Name, "name": w.Name, "execution_mode": w.ExecutionMode, "auto_apply": w.AutoApply, "client_encrypted": w.ClientEncrypted,
			"environment_class": w.EnvironmentClass, "failed_apply": w.FailedApply})
	})
	if err != nil {
		return Workspace{}, err
	}
	return w, nil
}

// Tombstone deletes a living workspace in the caller's transaction: its name is
// free, its rows stay (ST-23). Whether it may be deleted now is the caller's to
// know. One that is deleted already is NotFound.
func Tombstone(ctx context.Context, tx postgres.Tx, actor authz.Actor, id ids.Workspace) error {
	org, err := postgres.Value[ids.Organization](ctx, tx, queries.Get("WorkspaceTombstone"), postgres.Args{"id": id})
	if postgres.NoRow(err) {
		return fault.Missing("workspace", string(id))
	}
	if err != nil {
		return err
	}
	if _, err := postgres.Exec(ctx, tx, queries.Get("TeamWorkspacesEnd"), postgres.Args{"workspace_id": id}); err != nil {
		return err
	}
	return audit.Append(ctx, tx, audit.Entry{
		Organization: org, Actor: actor, Action: "workspace.deleted", ObjectKind: "workspace", ObjectID: string(id),
	})
}

// projectFor gives the project a workspace goes into: the wanted one, if the
// organization has it, else the default. The actor must be allowed to make workspaces in it.
func projectFor(ctx context.Context, tx postgres.Tx, actor authz.Actor, org ids.Organization, organization string, wanted *ids.Project) (ids.Project, error) {
	if wanted == nil {
		project, err := defaultProject(ctx, tx, org)
		if err != nil || authz.Can(actor, authz.WorkspaceCreate, project.object()) {
			return project.ID, err
		}
		return "", authz.Allow(actor, authz.WorkspaceCreate, authz.Object{Organization: org, Noun: "organization", Name: organization})
	}
	project, err := postgres.One[Project](ctx, tx, queries.Get("ProjectByID"), postgres.Args{"id": *wanted})
	missing := fault.Missing("project", string(*wanted)).At("/data/relationships/project")
	if postgres.NoRow(err) || (err == nil && project.Organization != org) {
		return "", missing
	}
	if err != nil {
		return "", err
	}
	if authz.Can(actor, authz.WorkspaceCreate, project.object()) {
		return project.ID, nil
	}
	if seen := seesProject(ctx, tx, actor, project); seen != nil {
		if fault.Is(seen, fault.NotFound) {
			return "", missing
		}
		return "", seen
	}
	return "", authz.Forbidden(authz.WorkspaceCreate, project.object())
}

// args are the arguments that creating and updating have in common; an absent
// setting is NULL.
func (s Settings) args(id ids.Workspace, org ids.Organization) postgres.Args {
	return postgres.Args{
		"id": id, "organization_id": org, "description": s.Description, "execution_mode": (*string)(s.ExecutionMode),
		"terraform_version": s.TerraformVersion, "working_directory": s.WorkingDirectory, "auto_apply": s.AutoApply,
		"allow_destroy_plan": s.AllowDestroyPlan, "structured_run_output_enabled": s.StructuredRunOutputEnabled,
		"client_encrypted": s.ClientEncrypted, "runner_selector": s.RunnerSelector,
		"environment_class": (*string)(s.EnvironmentClass), "failed_apply": (*string)(s.FailedApply),
	}
}

// mayRelease demands both rights of a recovery from who lets failed applies be released
// without a person.
func (s Settings) mayRelease(actor authz.Actor, object authz.Object) error {
	if s.FailedApply == nil || *s.FailedApply != ReleaseWhenProven {
		return nil
	}
	for _, action := range []authz.Action{authz.RunRecover, authz.StateRecover} {
		if err := authz.Allow(actor, action, object); err != nil {
			return err
		}
	}
	return nil
}

// pool gives the pool that a workspace has after these settings, nil for none. The
// mode and the pool go together.
func (s Settings) pool(before Workspace) (*ids.RunnerGroup, error) {
	mode, pool := before.ExecutionMode, before.AgentPool
	if s.ExecutionMode != nil {
		mode = *s.ExecutionMode
	}
	if s.AgentPool != nil {
		pool = *s.AgentPool
	}
	switch {
	case mode == Agent && pool == "":
		return nil, accounts.Invalid("agent-pool-id", "Agent pool must be specified when using 'agent' execution mode")
	case mode == Agent:
		return &pool, nil
	case s.AgentPool != nil && pool != "":
		return nil, accounts.Invalid("agent-pool-id", "Agent pool must not be specified unless using 'agent' execution mode")
	}
	return nil, nil
}

// checkPool refuses a pool that the workspace may not use. It is called once the
// workspace is there, because a pool's scope may name its project.
func checkPool(ctx context.Context, tx postgres.Tx, workspace ids.Workspace, pool *ids.RunnerGroup) error {
	if pool == nil {
		return nil
	}
	return accounts.CheckPool(ctx, tx, workspace, *pool)
}

// refusedRow says why the database refused a workspace.
func refusedRow(err error) error {
	switch {
	case violates(err, "workspaces_name"):
		return accounts.Taken("name", "Name")
	case violates(err, "workspaces_organization_id_agent_pool_id_fkey"):
		return accounts.NoSuchPool()
	case violates(err, "workspaces_production_is_held"):
		return accounts.Invalid("failed-apply", "A failed apply of a %s workspace is always looked at by a person, so it cannot be %s", Production, ReleaseWhenProven)
	}
	return err
}

// record writes the audit entry of something done to a workspace or its variables.
func record(ctx context.Context, tx postgres.Tx, actor authz.Actor, w Workspace, action string, details map[string]any) error {
	return audit.Append(ctx, tx, audit.Entry{
		Organization: w.Organization, Actor: actor, Action: action, ObjectKind: "workspace", ObjectID: string(w.ID), Details: details,
	})
}
