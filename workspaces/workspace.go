package workspaces

import (
	"context"
	"time"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/fence"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// ExecutionMode says where tofu works.
type ExecutionMode = accounts.ExecutionMode

// The execution modes.
const (
	Remote = accounts.Remote
	Local  = accounts.Local
	Agent  = accounts.Agent
)

// EnvironmentClass says what depends on what a workspace makes.
type EnvironmentClass string

// The classes.
const (
	Production EnvironmentClass = "production" // nothing is released there without a person
	Other      EnvironmentClass = "other"
)

// FailedApply says what becomes of a workspace whose apply failed after it had published.
type FailedApply string

// What there is to choose.
const (
	Hold FailedApply = "hold" // a person recovers it
	// ReleaseWhenProven has the server recover it by itself, where nothing is in doubt.
	ReleaseWhenProven FailedApply = "release-when-proven"
)

// Workspace is one configuration with one state, and its fence as it stood when
// this was read.
type Workspace struct {
	ID                         ids.Workspace
	Organization               ids.Organization
	OrganizationName           string
	Project                    ids.Project
	ProjectName                string
	Name                       string
	Description                string
	ExecutionMode              ExecutionMode
	AgentPool                  ids.RunnerGroup // of mode Agent, else empty
	InheritsMode               bool            // the two above are those of the project, and change with it
	RunnerSelector             []string        // labels that a runner must have to execute its runs
	TerraformVersion           string          // "latest" or an exact version
	WorkingDirectory           string          // inside the configuration, with "/"; empty is its root
	AutoApply                  bool
	AllowDestroyPlan           bool
	StructuredRunOutputEnabled bool
	GlobalRemoteState          bool // the runs of all workspaces of the organization may read its state
	ProjectRemoteState         bool // those of all workspaces of its project may
	ClientEncrypted            bool // only a state that OpenTofu encrypted is taken
	EnvironmentClass           EnvironmentClass
	FailedApply                FailedApply
	AutoApplyRunTrigger        bool // a run that another workspace's apply started is applied by itself
	QueueAllRuns               bool // such a run is made also before the first one that a person made
	AssessmentsEnabled         bool // it is looked for drift each day
	AutoDestroyAt              *time.Time
	FileTriggersEnabled        bool     // this and the next two are kept for a connected repository
	TriggerPrefixes            []string // at most one of the two lists has entries
	TriggerPatterns            []string
	SourceName                 string // of the program that made it, for showing
	SourceURL                  string
	SSHKey                     ids.SSHKey // with which its runs fetch modules; empty: none
	ForceDeleteAllowed         bool       // by its organization, to others than owners
	TagNames                   []string   // in order
	CreatedAt                  time.Time
	UpdatedAt                  time.Time
	Fence                      fence.Status
	CurrentRun                 ids.Run // the one that has it, else the first that waits for it, else the last that had it; empty: none
	Shown                      Shown
}

// Shown is what is shown of a workspace besides. Load, which others decide by, does not
// fill it in.
type Shown struct {
	CurrentConfiguration ids.ConfigurationVersion // the newest that runs are for, uploaded or not; empty: none
	CurrentState         ids.StateVersion
	ResourceCount        int // in the current state
	RunsCount            int
	Variables            []ids.Variable
	RetentionID          ids.RetentionPolicy // of a policy of its own; empty: none
	RetentionDays        *int                // of that policy; nil: nothing is deleted
}

// Placement is where its runs are executed.
func (w Workspace) Placement() accounts.Placement {
	return accounts.Placement{Mode: w.ExecutionMode, Pool: w.AgentPool}
}

// Object is the workspace as authz is asked about it.
func Object(w Workspace) authz.Object {
	// Named by id: a refusal must not tell the name to somebody who guessed the id.
	return authz.Object{Organization: w.Organization, Project: w.Project, Workspace: w.ID, Noun: "workspace", Name: string(w.ID)}
}

// row is a workspace as the statements LivingWorkspaces give it.
type row struct {
	ID                         ids.Workspace
	OrganizationID             ids.Organization
	OrganizationName           string
	ProjectID                  ids.Project
	ProjectName                string
	Name                       string
	Description                string
	ExecutionMode              ExecutionMode
	AgentPoolID                ids.RunnerGroup
	RunnerSelector             []string
	TerraformVersion           string
	WorkingDirectory           string
	AutoApply                  bool
	AllowDestroyPlan           bool
	StructuredRunOutputEnabled bool
	GlobalRemoteState          bool
	ProjectRemoteState         bool
	ClientEncrypted            bool
	EnvironmentClass           EnvironmentClass
	FailedApply                FailedApply
	TagNames                   []string
	CreatedAt                  time.Time
	UpdatedAt                  time.Time
	Epoch                      int64
	HolderKind                 fence.HolderKind
	HolderID                   string
	HolderName                 string
	Reason                     string
	RecoveryHeld               bool
	AcquiredAt                 *time.Time
	ExecutionModeInherited     bool
	AutoApplyRunTrigger        bool
	QueueAllRuns               bool
	AssessmentsEnabled         bool
	AutoDestroyAt              *time.Time
	FileTriggersEnabled        bool
	TriggerPrefixes            []string
	TriggerPatterns            []string
	SourceName                 string
	SourceURL                  string     `db:"source_url"`
	SSHKeyID                   ids.SSHKey `db:"ssh_key_id"`
	CurrentRun                 ids.Run
	ForceDeleteAllowed         bool
}

// shownRow is a row with what is shown of it besides.
type shownRow struct {
	row
	CurrentConfiguration ids.ConfigurationVersion
	CurrentState         ids.StateVersion
	ResourceCount        int
	RunsCount            int
	Variables            []ids.Variable
	RetentionID          ids.RetentionPolicy
	RetentionDays        *int
}

func (r shownRow) workspace() Workspace {
	w := r.row.workspace()
	w.Shown = Shown{
		CurrentConfiguration: r.CurrentConfiguration, CurrentState: r.CurrentState, ResourceCount: r.ResourceCount, RunsCount: r.RunsCount,
		Variables: r.Variables, RetentionID: r.RetentionID, RetentionDays: r.RetentionDays,
	}
	return w
}

func (r row) workspace() Workspace {
	return Workspace{
		ID: r.ID, Organization: r.OrganizationID, OrganizationName: r.OrganizationName, Project: r.ProjectID, ProjectName: r.ProjectName,
		Name: r.Name, Description: r.Description, ExecutionMode: r.ExecutionMode, AgentPool: r.AgentPoolID, RunnerSelector: r.RunnerSelector, TerraformVersion: r.TerraformVersion,
		WorkingDirectory: r.WorkingDirectory, AutoApply: r.AutoApply, AllowDestroyPlan: r.AllowDestroyPlan,
		StructuredRunOutputEnabled: r.StructuredRunOutputEnabled, GlobalRemoteState: r.GlobalRemoteState, ProjectRemoteState: r.ProjectRemoteState,
		ClientEncrypted: r.ClientEncrypted, EnvironmentClass: r.EnvironmentClass, FailedApply: r.FailedApply, TagNames: r.TagNames, CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt,
		InheritsMode: r.ExecutionModeInherited, AutoApplyRunTrigger: r.AutoApplyRunTrigger, QueueAllRuns: r.QueueAllRuns, AssessmentsEnabled: r.AssessmentsEnabled,
		AutoDestroyAt: r.AutoDestroyAt, FileTriggersEnabled: r.FileTriggersEnabled, TriggerPrefixes: r.TriggerPrefixes, TriggerPatterns: r.TriggerPatterns,
		SourceName: r.SourceName, SourceURL: r.SourceURL, SSHKey: r.SSHKeyID, CurrentRun: r.CurrentRun, ForceDeleteAllowed: r.ForceDeleteAllowed,
		Fence: fence.Status{
			Workspace: r.ID, Epoch: r.Epoch, Holder: fence.Holder{Kind: r.HolderKind, ID: r.HolderID, Name: r.HolderName},
			Reason: r.Reason, RecoveryHeld: r.RecoveryHeld, AcquiredAt: r.AcquiredAt,
		},
	}
}

// Load gives a living workspace without asking who may see it: callers ask authz
// about its Object. A deleted or unknown one is NotFound.
func Load(ctx context.Context, tx postgres.Tx, id ids.Workspace) (Workspace, error) {
	r, err := postgres.One[row](ctx, tx, queries.Get("WorkspaceByID"), postgres.Args{"id": id})
	if postgres.NoRow(err) {
		return Workspace{}, fault.Missing("workspace", string(id))
	}
	return r.workspace(), err
}

// LoadShown is Load with what is shown besides.
func LoadShown(ctx context.Context, tx postgres.Tx, id ids.Workspace) (Workspace, error) {
	r, err := postgres.One[shownRow](ctx, tx, queries.Get("WorkspaceShown"), postgres.Args{"id": id})
	if postgres.NoRow(err) {
		return Workspace{}, fault.Missing("workspace", string(id))
	}
	return r.workspace(), err
}

// Allowed is Load for an actor who wants to do action: NotFound also when the actor
// does not see the workspace, Forbidden when it sees it but may not.
func Allowed(ctx context.Context, tx postgres.Tx, actor authz.Actor, action authz.Action, id ids.Workspace) (Workspace, error) {
	w, err := Load(ctx, tx, id)
	if err != nil {
		return Workspace{}, err
	}
	object, err := objectFor(ctx, tx, actor, w)
	if err != nil {
		return Workspace{}, err
	}
	if err := authz.Allow(actor, action, object); err != nil {
		return Workspace{}, err
	}
	return w, nil
}

// Get gives a workspace by id.
func (s *Service) Get(ctx context.Context, actor authz.Actor, id ids.Workspace) (Workspace, error) {
	var w Workspace
	err := reading(fromOutside(actor, id))(ctx, s.db, "workspaces.get", func(tx postgres.Tx) (err error) {
		if w, err = LoadShown(ctx, tx, id); err != nil {
			return err
		}
		object, err := objectFor(ctx, tx, actor, w)
		if err != nil {
			return err
		}
		return authz.Allow(actor, authz.WorkspaceRead, object)
	})
	if err != nil {
		return Workspace{}, err
	}
	return w, nil
}

// GetByName gives a workspace by the exact names of its organization and itself.
func (s *Service) GetByName(ctx context.Context, actor authz.Actor, organization, name string) (Workspace, error) {
	if !workspaceName.MatchString(name) || !accounts.Storable(organization) { // the database cannot be asked for all text
		return Workspace{}, s.missing(ctx, actor, organization, name)
	}
	var r shownRow
	var object authz.Object
	err := reading(actor.Kind == authz.AttemptActor)(ctx, s.db, "workspaces.get-by-name", func(tx postgres.Tx) (err error) {
		if r, err = postgres.One[shownRow](ctx, tx, queries.Get("WorkspaceByName"), postgres.Args{"organization": organization, "name": name}); err != nil {
			return err
		}
		object, err = objectFor(ctx, tx, actor, r.workspace())
		return err
	})
	if postgres.NoRow(err) {
		return Workspace{}, s.missing(ctx, actor, organization, name)
	}
	if err != nil {
		return Workspace{}, err
	}
	w := r.workspace()
	if err := authz.Allow(actor, authz.OrganizationRead, authz.Object{Organization: w.Organization, Noun: "organization", Name: organization}); err != nil {
		return Workspace{}, err
	}
	object.Name = name // which the actor knew
	if err := authz.Allow(actor, authz.WorkspaceRead, object); err != nil {
		return Workspace{}, err
	}
	return w, nil
}

// missing is the answer for a workspace that is not there: it names the organization
// when that is what the actor does not see.
func (s *Service) missing(ctx context.Context, actor authz.Actor, organization, name string) error {
	if _, err := s.accounts.Organization(ctx, actor, organization); err != nil {
		return err
	}
	return fault.Missing("workspace", name)
}

// Living gives the ids of the organization's workspaces, without asking who may see
// them.
func Living(ctx context.Context, tx postgres.Tx, org ids.Organization) ([]ids.Workspace, error) {
	return postgres.Values[ids.Workspace](ctx, tx, queries.Get("WorkspacesOf"), postgres.Args{"organization_id": org})
}
