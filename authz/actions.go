package authz

// Action is something that can be allowed. The names are those of the API documentation.
type Action string

// The actions. Those of an organization come first, then those of a project and of a workspace.
const (
	OrganizationRead     Action = "organization:read"
	OrganizationCreate   Action = "organization:create"
	OrganizationUpdate   Action = "organization:update"
	OrganizationSettings Action = "organization:settings" // change what PATCH of the organization itself changes
	OrganizationDelete   Action = "organization:delete"
	OrganizationTokens   Action = "organization:tokens" // make and take away the tokens of the organization itself
	AuditRead            Action = "audit:read"
	MembershipManage     Action = "membership:manage"
	TeamsManage          Action = "teams:manage"
	TeamsAccess          Action = "teams:organization-access" // say what a team may do in the whole organization
	TeamsReadSecret      Action = "teams:read-secret"
	PoliciesRead         Action = "policies:read"
	PoliciesManage       Action = "policies:manage"
	PoliciesOverride     Action = "policies:override"
	PoliciesDelegate     Action = "policies:delegate-override"
	VCSManage            Action = "vcs-settings:manage"
	ProvidersManage      Action = "providers:manage"
	ModulesManage        Action = "modules:manage"
	RunTasksManage       Action = "run-tasks:manage"
	AgentPoolsManage     Action = "agent-pools:manage"

	ProjectRead        Action = "project:read"
	ProjectCreate      Action = "project:create"
	ProjectUpdate      Action = "project:update"
	ProjectDelete      Action = "project:delete"
	ProjectTeamsRead   Action = "project:read-teams"
	ProjectTeamsManage Action = "project:manage-teams"
	VariableSetsRead   Action = "variable-sets:read"
	VariableSetsWrite  Action = "variable-sets:write"
	WorkspaceCreate    Action = "workspace:create" // in a project

	WorkspaceRead        Action = "workspace:read"
	WorkspaceUpdate      Action = "workspace:update"
	WorkspaceMove        Action = "workspace:move" // out of its project
	WorkspaceDelete      Action = "workspace:delete"
	WorkspaceLock        Action = "workspace:lock"
	WorkspaceForceUnlock Action = "workspace:force-unlock"
	WorkspaceTeamsRead   Action = "workspace:read-teams"
	WorkspaceTeamsManage Action = "workspace:manage-teams"
	WorkspaceRunTasks    Action = "workspace:run-tasks"
	VariablesRead        Action = "variables:read"
	VariablesWrite       Action = "variables:write"
	ConfigurationRead    Action = "configuration:read"
	ConfigurationUpload  Action = "configuration:upload"
	RunRead              Action = "run:read"
	RunQueue             Action = "run:queue"
	RunApply             Action = "run:apply"
	RunForceCancel       Action = "run:force-cancel"
	RunRecover           Action = "run:recover"
	ProductionAct        Action = "production:act" // approve what changes production
	SentinelMocksRead    Action = "sentinel-mocks:read"
	StateReadOutputs     Action = "state:read-outputs"
	StateRead            Action = "state:read"
	StateWrite           Action = "state:write"
	StateForce           Action = "state:force"
	StateRecover         Action = "state:recover"
)

// Provision is to say who there is and in which groups. It is no right in an organization:
// the token of an identity provider has it, and nothing else.
const Provision Action = "scim:provision"

// Actions lists every action in an organization, for tests and for drawing permissions.
var Actions = []Action{
	OrganizationRead, OrganizationCreate, OrganizationUpdate, OrganizationSettings, OrganizationDelete, OrganizationTokens, AuditRead,
	MembershipManage, TeamsManage, TeamsAccess, TeamsReadSecret, PoliciesRead, PoliciesManage, PoliciesOverride, PoliciesDelegate,
	VCSManage, ProvidersManage, ModulesManage, RunTasksManage, AgentPoolsManage,
	ProjectRead, ProjectCreate, ProjectUpdate, ProjectDelete, ProjectTeamsRead, ProjectTeamsManage, VariableSetsRead, VariableSetsWrite, WorkspaceCreate,
	WorkspaceRead, WorkspaceUpdate, WorkspaceMove, WorkspaceDelete, WorkspaceLock, WorkspaceForceUnlock, WorkspaceTeamsRead, WorkspaceTeamsManage, WorkspaceRunTasks,
	VariablesRead, VariablesWrite, ConfigurationRead, ConfigurationUpload,
	RunRead, RunQueue, RunApply, RunForceCancel, RunRecover, ProductionAct, SentinelMocksRead, StateReadOutputs, StateRead, StateWrite, StateForce, StateRecover,
}
