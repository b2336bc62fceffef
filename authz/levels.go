package authz

import "strings"

// Level is a name in the table of rights: what a role, a team's access or a kind of token gives. Where
// it holds is said by the Grants it stands in.
type Level string

// Levels that code names. The others come from the database, as what a team was given.
const (
	OrganizationOwner  Level = "organization:owner"
	OrganizationMember Level = "organization:member"
	OrganizationToken  Level = "token:organization"
	AuditToken         Level = "token:audit-trails"
	AttemptPlanLevel   Level = "attempt:plan"
	AttemptApplyLevel  Level = "attempt:apply"
	PolicyLevel        Level = "policy"
)

// The bricks of the table. Each contains the one before it where the levels of Terraform Cloud do.
var (
	seeWorkspace  = set(WorkspaceRead)
	runsRead      = set(WorkspaceRead, RunRead, ConfigurationRead)
	runsPlan      = union(runsRead, set(RunQueue, ConfigurationUpload))
	runsApply     = union(runsPlan, set(RunApply))
	variablesRead = set(WorkspaceRead, VariablesRead)
	outputsRead   = set(WorkspaceRead, StateReadOutputs)
	stateRead     = union(outputsRead, set(StateRead))

	workspaceRead  = union(runsRead, variablesRead, stateRead)
	workspacePlan  = union(workspaceRead, runsPlan)
	workspaceWrite = union(workspacePlan, set(RunApply, VariablesWrite, StateWrite, WorkspaceLock, SentinelMocksRead))
	workspaceAdmin = union(workspaceWrite, set(
		WorkspaceUpdate, WorkspaceMove, WorkspaceDelete, WorkspaceForceUnlock, WorkspaceTeamsRead, WorkspaceTeamsManage, WorkspaceRunTasks,
		RunForceCancel, StateForce, RunRecover, StateRecover, ProductionAct,
	))

	projectRead     = union(workspaceRead, set(ProjectRead, VariableSetsRead))
	projectWrite    = union(workspaceWrite, projectRead)
	projectMaintain = union(workspaceAdmin, projectWrite, set(WorkspaceCreate, VariableSetsWrite)).without(WorkspaceTeamsManage)
	projectAdmin    = union(projectMaintain, set(WorkspaceTeamsManage, ProjectUpdate, ProjectDelete, ProjectTeamsRead, ProjectTeamsManage))

	runsEverywhere = union(set(OrganizationRead), runsRead) // what policies are written for must be seen
)

// table is who may do what: one row for each level. A level that has no row gives nothing.
var table = map[Level]actions{
	OrganizationOwner:  set(Actions...).without(OrganizationCreate),
	OrganizationMember: set(OrganizationRead),

	// What a team may do in its whole organization.
	"organization:read-workspaces":            union(workspaceRead),
	"organization:read-projects":              set(ProjectRead),
	"organization:manage-workspaces":          union(workspaceAdmin, set(ProjectRead, WorkspaceCreate, VariableSetsRead, VariableSetsWrite)),
	"organization:manage-projects":            union(projectAdmin, set(ProjectCreate)),
	"organization:manage-policies":            union(runsEverywhere, set(PoliciesRead, PoliciesManage)),
	"organization:manage-policy-overrides":    union(runsEverywhere, set(PoliciesRead, PoliciesOverride)),
	"organization:delegate-policy-overrides":  set(PoliciesRead, PoliciesDelegate),
	"organization:manage-vcs-settings":        set(VCSManage),
	"organization:manage-providers":           set(ProvidersManage),
	"organization:manage-modules":             set(ModulesManage),
	"organization:manage-run-tasks":           set(RunTasksManage),
	"organization:manage-membership":          set(MembershipManage),
	"organization:manage-teams":               set(MembershipManage, TeamsManage),
	"organization:manage-organization-access": set(TeamsAccess),
	"organization:access-secret-teams":        set(TeamsReadSecret),
	"organization:manage-agent-pools":         set(AgentPoolsManage),

	// What a team may do in a project, in all workspaces of it.
	"project:read":                 projectRead,
	"project:write":                projectWrite,
	"project:maintain":             projectMaintain,
	"project:admin":                projectAdmin,
	"project:settings=read":        set(ProjectRead),
	"project:settings=update":      set(ProjectRead, ProjectUpdate),
	"project:settings=delete":      set(ProjectRead, ProjectUpdate, ProjectDelete),
	"project:teams=read":           set(ProjectRead, ProjectTeamsRead),
	"project:teams=manage":         set(ProjectRead, ProjectTeamsRead, ProjectTeamsManage),
	"project:variable-sets=read":   set(ProjectRead, VariableSetsRead),
	"project:variable-sets=write":  set(ProjectRead, VariableSetsRead, VariableSetsWrite),
	"project:create":               set(ProjectRead, WorkspaceCreate),
	"workspace:move":               union(seeWorkspace, set(WorkspaceMove)),
	"workspace:delete":             union(seeWorkspace, set(WorkspaceDelete)),
	"workspace:read":               workspaceRead,
	"workspace:plan":               workspacePlan,
	"workspace:write":              workspaceWrite,
	"workspace:admin":              workspaceAdmin,
	"workspace:runs=read":          runsRead,
	"workspace:runs=plan":          runsPlan,
	"workspace:runs=apply":         runsApply,
	"workspace:variables=read":     variablesRead,
	"workspace:variables=write":    union(variablesRead, set(VariablesWrite)),
	"workspace:state=read-outputs": outputsRead,
	"workspace:state=read":         stateRead,
	"workspace:state=write":        union(stateRead, set(StateWrite)),
	"workspace:sentinel-mocks":     union(seeWorkspace, set(SentinelMocksRead)),
	"workspace:locking":            union(seeWorkspace, set(WorkspaceLock)),
	"workspace:run-tasks":          union(seeWorkspace, set(WorkspaceRunTasks)),
	"workspace:policy-overrides":   union(seeWorkspace, set(PoliciesOverride)),
	"workspace:run-recover":        union(seeWorkspace, set(RunRecover)),
	"workspace:state-recover":      union(seeWorkspace, set(StateRecover)),
	"workspace:production-act":     union(seeWorkspace, set(ProductionAct)),

	// What a kind of token may do. A team's has what the team has.
	OrganizationToken: set(
		OrganizationRead, ProjectRead, ProjectCreate, ProjectUpdate, ProjectDelete, ProjectTeamsRead, ProjectTeamsManage,
		WorkspaceRead, WorkspaceCreate, WorkspaceUpdate, WorkspaceMove, WorkspaceDelete, WorkspaceTeamsRead, WorkspaceTeamsManage, WorkspaceRunTasks,
		VariablesRead, VariablesWrite, VariableSetsRead, VariableSetsWrite, MembershipManage, TeamsManage, TeamsAccess, TeamsReadSecret,
		PoliciesRead, PoliciesManage, VCSManage, ProvidersManage, ModulesManage, RunTasksManage, AgentPoolsManage, AuditRead,
	),
	AuditToken: set(AuditRead),

	// What the execution of a run may do in its own workspace.
	AttemptPlanLevel:  set(OrganizationRead, ProjectRead, WorkspaceRead, StateRead, StateReadOutputs),
	AttemptApplyLevel: set(OrganizationRead, ProjectRead, WorkspaceRead, WorkspaceLock, StateRead, StateReadOutputs, StateWrite),

	// What the server does by a workspace's settings, without a person.
	PolicyLevel: set(WorkspaceRead, RunRead, RunRecover, StateRecover),
}

// personal is what only a person may do, however much its team may.
var personal = set(OrganizationCreate, OrganizationUpdate, OrganizationDelete, OrganizationTokens)

// Levels gives the names of all rows, for tests and for showing them.
func Levels() []Level {
	names := make([]Level, 0, len(table))
	for name := range table {
		names = append(names, name)
	}
	return names
}

// Gives tells whether the level contains the action.
func (l Level) Gives(action Action) bool { return table[l][action] }

// ParseLevels reads levels as the database writes them: names with spaces between. A
// custom access is several.
func ParseLevels(text string) []Level {
	if !strings.Contains(text, " ") {
		return []Level{Level(text)}
	}
	var levels []Level
	for _, name := range strings.Fields(text) {
		levels = append(levels, Level(name))
	}
	return levels
}

// actions is the content of a row.
type actions map[Action]bool

func set(list ...Action) actions {
	row := make(actions, len(list))
	for _, a := range list {
		row[a] = true
	}
	return row
}

func union(rows ...actions) actions {
	all := actions{}
	for _, row := range rows {
		for a := range row {
			all[a] = true
		}
	}
	return all
}

func (r actions) without(list ...Action) actions {
	for _, a := range list {
		delete(r, a)
	}
	return r
}
