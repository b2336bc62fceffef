package tfeapi

import (
	"net/url"
	"time"

	"github.com/google/jsonapi"

	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fence"
	"github.com/holdfast-run/holdfast/workspaces"
)

// workspaceView is a workspace on the wire. Permissions must always be there: the
// client crashes without them.
type workspaceView struct {
	ID                         string               `jsonapi:"primary,workspaces"`
	Name                       string               `jsonapi:"attr,name"`
	Description                string               `jsonapi:"attr,description"`
	CreatedAt                  time.Time            `jsonapi:"attr,created-at,iso8601"`
	UpdatedAt                  time.Time            `jsonapi:"attr,updated-at,iso8601"`
	ExecutionMode              string               `jsonapi:"attr,execution-mode"`
	Operations                 bool                 `jsonapi:"attr,operations"`
	AgentPoolID                *string              `jsonapi:"attr,agent-pool-id"`
	RunnerSelector             []string             `jsonapi:"attr,runner-selector"`
	TerraformVersion           string               `jsonapi:"attr,terraform-version"`
	WorkingDirectory           string               `jsonapi:"attr,working-directory"`
	AutoApply                  bool                 `jsonapi:"attr,auto-apply"`
	AllowDestroyPlan           bool                 `jsonapi:"attr,allow-destroy-plan"`
	StructuredRunOutputEnabled bool                 `jsonapi:"attr,structured-run-output-enabled"`
	ClientEncrypted            bool                 `jsonapi:"attr,client-encrypted"`
	EnvironmentClass           string               `jsonapi:"attr,environment-class"`
	FailedApply                string               `jsonapi:"attr,failed-apply"`
	GlobalRemoteState          bool                 `jsonapi:"attr,global-remote-state"`
	ProjectRemoteState         bool                 `jsonapi:"attr,project-remote-state"`
	SpeculativeEnabled         bool                 `jsonapi:"attr,speculative-enabled"`
	QueueAllRuns               bool                 `jsonapi:"attr,queue-all-runs"`
	FileTriggersEnabled        bool                 `jsonapi:"attr,file-triggers-enabled"`
	AssessmentsEnabled         bool                 `jsonapi:"attr,assessments-enabled"`
	CanQueueDestroyPlan        bool                 `jsonapi:"attr,can-queue-destroy-plan"`
	Source                     string               `jsonapi:"attr,source"`
	Environment                string               `jsonapi:"attr,environment"`
	TagNames                   []string             `jsonapi:"attr,tag-names"`
	TriggerPrefixes            []string             `jsonapi:"attr,trigger-prefixes"`
	TriggerPatterns            []string             `jsonapi:"attr,trigger-patterns"`
	VCSRepo                    *struct{}            `jsonapi:"attr,vcs-repo"` // any object here makes the client refuse to apply
	Locked                     bool                 `jsonapi:"attr,locked"`
	LockedReason               string               `jsonapi:"attr,locked-reason"`
	RecoveryHeld               bool                 `jsonapi:"attr,recovery-held"`
	LockEpoch                  int64                `jsonapi:"attr,lock-epoch"`
	AutoApplyRunTrigger        bool                 `jsonapi:"attr,auto-apply-run-trigger"`
	AutoDestroyAt              *time.Time           `jsonapi:"attr,auto-destroy-at,iso8601"`
	AutoDestroyAfter           *string              `jsonapi:"attr,auto-destroy-activity-duration"`
	InheritsAutoDestroy        bool                 `jsonapi:"attr,inherits-project-auto-destroy"`
	VCSRepoIdentifier          *string              `jsonapi:"attr,vcs-repo-identifier"`
	NoCodeUpgradeAvailable     bool                 `jsonapi:"attr,no-code-upgrade-available"`
	SourceName                 string               `jsonapi:"attr,source-name"`
	SourceURL                  string               `jsonapi:"attr,source-url"`
	ResourceCount              int                  `jsonapi:"attr,resource-count"`
	RunsCount                  int                  `jsonapi:"attr,workspace-kpis-runs-count"`
	SettingOverwrites          settingOverwrites    `jsonapi:"attr,setting-overwrites"`
	Actions                    workspaceActions     `jsonapi:"attr,actions"`
	Permissions                workspacePermissions `jsonapi:"attr,permissions"`
	related                    relations
	self, selfHTML             string
}

type settingOverwrites struct {
	ExecutionMode bool `json:"execution-mode"`
	AgentPool     bool `json:"agent-pool"`
}

type workspaceActions struct {
	IsDestroyable bool `json:"is-destroyable"`
}

type workspacePermissions struct {
	CanCreateStateVersions bool `json:"can-create-state-versions"`
	CanDestroy             bool `json:"can-destroy"`
	CanForceDelete         bool `json:"can-force-delete"` // that it is there tells clients that safe-delete exists
	CanForceUnlock         bool `json:"can-force-unlock"`
	CanLock                bool `json:"can-lock"`
	CanManageRunTasks      bool `json:"can-manage-run-tasks"`
	CanManageTags          bool `json:"can-manage-tags"`
	CanQueueApply          bool `json:"can-queue-apply"`
	CanQueueDestroy        bool `json:"can-queue-destroy"`
	CanQueueRun            bool `json:"can-queue-run"`
	CanReadRun             bool `json:"can-read-run"`
	CanReadSettings        bool `json:"can-read-settings"`
	CanReadStateOutputs    bool `json:"can-read-state-outputs"`
	CanReadStateVersions   bool `json:"can-read-state-versions"`
	CanReadVariable        bool `json:"can-read-variable"`
	CanUnlock              bool `json:"can-unlock"`
	CanUpdate              bool `json:"can-update"`
	CanUpdateVariable      bool `json:"can-update-variable"`
}

func (v *workspaceView) relations() relations { return v.related }

// JSONAPILinks are the links of the resource.
func (v *workspaceView) JSONAPILinks() *jsonapi.Links {
	return &jsonapi.Links{"self": v.self, "self-html": v.selfHTML}
}

func newPermissions(actor authz.Actor, object authz.Object) workspacePermissions {
	can := func(action authz.Action) bool { return authz.Can(actor, action, object) }
	return workspacePermissions{
		CanCreateStateVersions: can(authz.StateWrite), CanDestroy: can(authz.WorkspaceDelete), CanForceDelete: can(authz.WorkspaceDelete),
		CanForceUnlock: can(authz.WorkspaceForceUnlock), CanManageTags: can(authz.WorkspaceUpdate), CanManageRunTasks: can(authz.WorkspaceRunTasks), CanLock: can(authz.WorkspaceLock), CanUnlock: can(authz.WorkspaceLock),
		CanQueueApply: can(authz.RunApply), CanQueueDestroy: can(authz.RunApply), CanQueueRun: can(authz.RunQueue), CanReadRun: can(authz.RunRead),
		CanReadSettings: can(authz.WorkspaceRead), CanReadStateOutputs: can(authz.StateReadOutputs), CanReadStateVersions: can(authz.StateRead),
		CanReadVariable: can(authz.VariablesRead), CanUpdate: can(authz.WorkspaceUpdate), CanUpdateVariable: can(authz.VariablesWrite),
	}
}

// listOf is never null on the wire.
func listOf(texts []string) []string {
	if texts == nil {
		return []string{}
	}
	return texts
}

// lockedBy names the holder of a workspace's lock: a user, team or run.
func lockedBy(status fence.Status) any {
	kind, known := map[fence.HolderKind]string{fence.User: "users", fence.Team: "teams", fence.Run: "runs"}[status.Holder.Kind]
	if !known {
		return nil
	}
	return ref{kind, status.Holder.ID}
}

// newWorkspaceView draws w.
func (s *server) newWorkspaceView(actor authz.Actor, w workspaces.Workspace) *workspaceView {
	permissions := newPermissions(actor, workspaces.Object(w))
	names := url.PathEscape(w.OrganizationName) + "/workspaces/" + url.PathEscape(w.Name)
	return &workspaceView{
		ID: string(w.ID), Name: w.Name, Description: w.Description, CreatedAt: w.CreatedAt, UpdatedAt: w.UpdatedAt,
		ExecutionMode: string(w.ExecutionMode), Operations: w.ExecutionMode != workspaces.Local, AgentPoolID: textOrNull(w.AgentPool), RunnerSelector: listOf(w.RunnerSelector), TerraformVersion: w.TerraformVersion,
		WorkingDirectory: w.WorkingDirectory, AutoApply: w.AutoApply, AllowDestroyPlan: w.AllowDestroyPlan,
		StructuredRunOutputEnabled: w.StructuredRunOutputEnabled, ClientEncrypted: w.ClientEncrypted, EnvironmentClass: string(w.EnvironmentClass), FailedApply: string(w.FailedApply), GlobalRemoteState: w.GlobalRemoteState, ProjectRemoteState: w.ProjectRemoteState,
		SpeculativeEnabled: true, CanQueueDestroyPlan: w.AllowDestroyPlan && permissions.CanQueueDestroy, Source: "tfe-api", Environment: "default",
		TagNames: listOf(w.TagNames), TriggerPrefixes: listOf(w.TriggerPrefixes), TriggerPatterns: listOf(w.TriggerPatterns),
		QueueAllRuns: w.QueueAllRuns, FileTriggersEnabled: w.FileTriggersEnabled, AssessmentsEnabled: w.AssessmentsEnabled, AutoApplyRunTrigger: w.AutoApplyRunTrigger,
		AutoDestroyAt: w.AutoDestroyAt, SourceName: w.SourceName, SourceURL: w.SourceURL, ResourceCount: w.Shown.ResourceCount, RunsCount: w.Shown.RunsCount,
		Locked: w.Fence.Held(), LockedReason: w.Fence.Reason, RecoveryHeld: w.Fence.RecoveryHeld, LockEpoch: w.Fence.Epoch,
		SettingOverwrites: settingOverwrites{ExecutionMode: !w.InheritsMode, AgentPool: !w.InheritsMode},
		Actions:           workspaceActions{IsDestroyable: permissions.CanDestroy}, Permissions: permissions,
		related: relations{
			"organization": ref{"organizations", w.OrganizationName}, "project": ref{"projects", string(w.Project)},
			"current-run": optional("runs", w.CurrentRun), "locked-by": lockedBy(w.Fence), "agent-pool": optional("agent-pools", w.AgentPool), "ssh-key": optional("ssh-keys", w.SSHKey),
			"current-configuration-version": optional("configuration-versions", w.Shown.CurrentConfiguration),
			"current-state-version":         optional("state-versions", w.Shown.CurrentState), "vars": refs("vars", w.Shown.Variables),
			"data-retention-policy": retentionRef(w.Shown.RetentionID, w.Shown.RetentionDays),
		},
		self: "/api/v2/organizations/" + names, selfHTML: "/app/" + names,
	}
}

// textOrNull is null on the wire when there is none.
func textOrNull[T ~string](text T) *string {
	if text == "" {
		return nil
	}
	plain := string(text)
	return &plain
}
