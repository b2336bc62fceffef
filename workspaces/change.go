package workspaces

import (
	"context"
	"time"

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
	InheritMode                *bool            // true takes mode and pool of the project, whatever else is said of them
	RunnerSelector             *[]string        // labels that a runner must have
	TerraformVersion           *string
	WorkingDirectory           *string
	AutoApply                  *bool
	AllowDestroyPlan           *bool
	StructuredRunOutputEnabled *bool
	GlobalRemoteState          *bool
	ProjectRemoteState         *bool
	ClientEncrypted            *bool
	EnvironmentClass           *EnvironmentClass
	FailedApply                *FailedApply
	AutoApplyRunTrigger        *bool
	QueueAllRuns               *bool
	AssessmentsEnabled         *bool
	AutoDestroyAt              *time.Time
	NoAutoDestroy              bool // takes the instant back
	FileTriggersEnabled        *bool
	TriggerPrefixes            *[]string
	TriggerPatterns            *[]string
	SourceName                 *string
	SourceURL                  *string
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
		if err := n.checkVersion(ctx, tx, ""); err != nil {
			return err
		}
		if err := roomFor(ctx, tx, org.ID); err != nil {
			return err
		}
		id := ids.New[ids.Workspace]()
		if err := n.mayAutomate(actor, Object(Workspace{ID: id, Organization: org.ID, Project: project.ID})); err != nil {
			return err
		}
		where, inherits, err := n.place(Workspace{ExecutionMode: project.ExecutionMode, AgentPool: project.AgentPool, InheritsMode: true}, project)
		if err != nil {
			return err
		}
		args := n.args(id, org.ID, where, inherits)
		args["name"], args["project_id"], args["automated_by"] = n.Name, project.ID, n.automatedBy(actor)
		if _, err := postgres.Exec(ctx, tx, queries.Get("WorkspaceInsert"), args); err != nil {
			return refusedRow(err)
		}
		if err := checkPool(ctx, tx, id, where); err != nil {
			return err
		}
		if err := fence.Create(ctx, tx, org.ID, id); err != nil {
			return err
		}
		made := Workspace{ID: id, Organization: org.ID, Project: project.ID}
		if err := record(ctx, tx, actor, made, "workspace.created", map[string]any{"name": n.Name}); err != nil {
			return err
		}
		if err := addTags(ctx, tx, actor, made, n.Tags); err != nil {
			return err
		}
		if _, err := setBindings(ctx, tx, actor, bindingsOf(made), n.Bindings); err != nil {
			return err
		}
		w, err = LoadShown(ctx, tx, id)
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
		if err := c.checkVersion(ctx, tx, before.TerraformVersion); err != nil {
			return err
		}
		if err := c.mayAutomate(actor, Object(before)); err != nil {
			return err
		}
		project, err := movedTo(ctx, tx, actor, before, c.Project)
		if err != nil {
			return err
		}
		where, inherits, err := c.place(before, project)
		if err != nil {
			return err
		}
		args := c.args(id, before.Organization, where, inherits)
		placed := c.places() || project.ID != before.Project
		args["placed"], args["name"], args["project_id"], args["automated_by"] = placed, c.Name, c.Project, c.automatedBy(actor)
		n, err := postgres.Exec(ctx, tx, queries.Get("WorkspaceUpdate"), args)
		if err != nil {
			return refusedRow(err)
		}
		if n == 0 {
			return fault.Missing("workspace", string(id)) // deleted since it was read
		}
		if placed && where != before.Placement() {
			if err := checkPool(ctx, tx, id, where); err != nil {
				return err
			}
		}
		if c.Bindings != nil {
			if err := replaceBindings(ctx, tx, actor, bindingsOf(before), *c.Bindings); err != nil {
				return err
			}
		}
		if w, err = LoadShown(ctx, tx, id); err != nil {
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
// What it settles stays until the transaction ends.
func projectFor(ctx context.Context, tx postgres.Tx, actor authz.Actor, org ids.Organization, organization string, wanted *ids.Project) (Project, error) {
	if wanted == nil {
		project, err := defaultProject(ctx, tx, org)
		if err != nil {
			return Project{}, err
		}
		if !authz.Can(actor, authz.WorkspaceCreate, project.object()) {
			return Project{}, authz.Allow(actor, authz.WorkspaceCreate, authz.Object{Organization: org, Noun: "organization", Name: organization})
		}
		return heldProject(ctx, tx, org, project.ID)
	}
	project, err := heldProject(ctx, tx, org, *wanted)
	if err != nil || authz.Can(actor, authz.WorkspaceCreate, project.object()) {
		return project, err
	}
	if seen := seesProject(ctx, tx, actor, project); fault.Is(seen, fault.NotFound) {
		return Project{}, missingProject(*wanted)
	} else if seen != nil {
		return Project{}, seen
	}
	return Project{}, authz.Forbidden(authz.WorkspaceCreate, project.object())
}

// movedTo gives the project of a workspace after a change that wants it in one, or says
// nothing about it. To take it out of its project is a right of its own.
func movedTo(ctx context.Context, tx postgres.Tx, actor authz.Actor, before Workspace, wanted *ids.Project) (Project, error) {
	if wanted == nil || *wanted == before.Project {
		return heldProject(ctx, tx, before.Organization, before.Project)
	}
	if err := authz.Allow(actor, authz.WorkspaceMove, Object(before)); err != nil {
		return Project{}, err
	}
	return projectFor(ctx, tx, actor, before.Organization, before.OrganizationName, wanted)
}

// heldProject gives a project of the organization. What is inherited from it stays until
// the transaction ends.
func heldProject(ctx context.Context, tx postgres.Tx, org ids.Organization, id ids.Project) (Project, error) {
	if _, err := postgres.Value[ids.Project](ctx, tx, queries.Get("ProjectHold"), postgres.Args{"id": id}); postgres.NoRow(err) {
		return Project{}, missingProject(id)
	} else if err != nil {
		return Project{}, err
	}
	project, err := postgres.One[Project](ctx, tx, queries.Get("ProjectByID"), postgres.Args{"id": id})
	if postgres.NoRow(err) || (err == nil && project.Organization != org) {
		return Project{}, missingProject(id)
	}
	return project, err
}

func missingProject(id ids.Project) error {
	return fault.Missing("project", string(id)).At("/data/relationships/project")
}

// args are the arguments that creating and updating have in common; an absent
// setting is NULL.
func (s Settings) args(id ids.Workspace, org ids.Organization, where accounts.Placement, inherits bool) postgres.Args {
	prefixes, patterns := s.triggers()
	return postgres.Args{
		"id": id, "organization_id": org, "description": s.Description,
		"execution_mode": string(where.Mode), "agent_pool_id": where.PoolOrNull(), "execution_mode_inherited": inherits,
		"terraform_version": s.TerraformVersion, "working_directory": s.WorkingDirectory, "auto_apply": s.AutoApply,
		"allow_destroy_plan": s.AllowDestroyPlan, "structured_run_output_enabled": s.StructuredRunOutputEnabled,
		"client_encrypted": s.ClientEncrypted, "runner_selector": s.RunnerSelector,
		"environment_class": (*string)(s.EnvironmentClass), "failed_apply": (*string)(s.FailedApply),
		"global_remote_state": s.GlobalRemoteState, "project_remote_state": s.ProjectRemoteState,
		"auto_apply_run_trigger": s.AutoApplyRunTrigger, "queue_all_runs": s.QueueAllRuns, "assessments_enabled": s.AssessmentsEnabled,
		"auto_destroy_at": s.AutoDestroyAt, "clear_auto_destroy": s.NoAutoDestroy,
		"file_triggers_enabled": s.FileTriggersEnabled, "trigger_prefixes": prefixes, "trigger_patterns": patterns,
		"source_name": s.SourceName, "source_url": s.SourceURL,
	}
}

// mayAutomate demands from who lets something happen without a person what he would need to
// do it himself: both rights of a recovery where failed applies are released, and those to
// queue and apply runs where the clock starts them, which they do with his rights.
func (s Settings) mayAutomate(actor authz.Actor, object authz.Object) error {
	var wanted []authz.Action
	if s.FailedApply != nil && *s.FailedApply == ReleaseWhenProven {
		wanted = append(wanted, authz.RunRecover, authz.StateRecover)
	}
	if s.AssessmentsEnabled != nil && *s.AssessmentsEnabled {
		wanted = append(wanted, authz.RunQueue)
	}
	if s.AutoDestroyAt != nil {
		wanted = append(wanted, authz.RunQueue, authz.RunApply)
	}
	for _, action := range wanted {
		if err := authz.Allow(actor, action, object); err != nil {
			return err
		}
	}
	return nil
}

// automatedBy is whose rights runs have that are started by the clock: those of whoever
// set what starts them. Empty when these settings start none.
func (s Settings) automatedBy(actor authz.Actor) ids.User {
	if s.AutoDestroyAt == nil && (s.AssessmentsEnabled == nil || !*s.AssessmentsEnabled) {
		return ""
	}
	return actor.User
}

// triggers gives the two lists: entries of one clear the other.
func (s Settings) triggers() (prefixes, patterns *[]string) {
	filled := func(list *[]string) bool { return list != nil && len(*list) > 0 }
	prefixes, patterns = s.TriggerPrefixes, s.TriggerPatterns
	switch {
	case filled(patterns):
		prefixes = &[]string{}
	case filled(prefixes):
		patterns = &[]string{}
	}
	return prefixes, patterns
}

// places tells whether the settings say where runs are executed.
func (s Settings) places() bool {
	return s.ExecutionMode != nil || s.AgentPool != nil || s.InheritMode != nil
}

// place gives where runs are executed after these settings, and whether that is the
// project's. Who names a mode or a pool has one of his own from then on.
func (s Settings) place(before Workspace, project Project) (where accounts.Placement, inherits bool, err error) {
	inherits = before.InheritsMode && s.ExecutionMode == nil && s.AgentPool == nil
	if s.InheritMode != nil {
		inherits = *s.InheritMode
	}
	if inherits {
		return project.Placement(), true, nil
	}
	where, err = before.Placement().Changed("", "Agent pool", s.ExecutionMode, s.AgentPool)
	return where, false, err
}

// checkPool refuses a pool that the workspace may not use. It is called once the
// workspace is there, because a pool's scope may name its project.
func checkPool(ctx context.Context, tx postgres.Tx, workspace ids.Workspace, where accounts.Placement) error {
	if where.Pool == "" {
		return nil
	}
	return accounts.CheckPool(ctx, tx, workspace, where.Pool)
}

// refusedRow says why the database refused a workspace.
func refusedRow(err error) error {
	switch {
	case violates(err, "workspaces_name"):
		return accounts.Taken("name", "Name")
	case violates(err, "workspaces_remote_state"):
		return accounts.Invalid("project-remote-state", "Project remote state cannot be enabled when global remote state sharing is enabled")
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
