package authz

import (
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
)

// Action is something that can be allowed. The names are those of the API documentation.
type Action string

// The actions.
const (
	OrganizationRead     Action = "organization:read"
	OrganizationCreate   Action = "organization:create"
	OrganizationUpdate   Action = "organization:update"
	OrganizationDelete   Action = "organization:delete"
	RunTasksManage       Action = "run-tasks:manage"
	ProjectCreate        Action = "project:create"
	ProjectUpdate        Action = "project:update"
	WorkspaceRead        Action = "workspace:read"
	WorkspaceCreate      Action = "workspace:create"
	WorkspaceUpdate      Action = "workspace:update"
	WorkspaceDelete      Action = "workspace:delete"
	WorkspaceLock        Action = "workspace:lock"
	WorkspaceForceUnlock Action = "workspace:force-unlock"
	WorkspaceRunTasks    Action = "workspace:run-tasks"
	VariablesRead        Action = "variables:read"
	VariablesWrite       Action = "variables:write"
	ConfigurationRead    Action = "configuration:read"
	ConfigurationUpload  Action = "configuration:upload"
	RunRead              Action = "run:read"
	RunQueue             Action = "run:queue"
	RunApply             Action = "run:apply"
	RunRecover           Action = "run:recover"
	StateReadOutputs     Action = "state:read-outputs"
	StateRead            Action = "state:read"
	StateWrite           Action = "state:write"
	StateForce           Action = "state:force"
	StateRecover         Action = "state:recover"
)

// Actions lists every action, for tests and for drawing permissions.
var Actions = []Action{
	OrganizationRead, OrganizationCreate, OrganizationUpdate, OrganizationDelete, RunTasksManage, ProjectCreate, ProjectUpdate,
	WorkspaceRead, WorkspaceCreate, WorkspaceUpdate, WorkspaceDelete, WorkspaceLock, WorkspaceForceUnlock, WorkspaceRunTasks,
	VariablesRead, VariablesWrite, ConfigurationRead, ConfigurationUpload,
	RunRead, RunQueue, RunApply, RunRecover, StateReadOutputs, StateRead, StateWrite, StateForce, StateRecover,
}

// Role is what a user is in an organization.
type Role string

// The roles.
const (
	Owner  Role = "owner"
	Member Role = "member"
)

// ActorKind says what sort of principal asks.
type ActorKind string

// The kinds of actors.
const (
	UserActor    ActorKind = "user"    // a person, by a user token
	AttemptActor ActorKind = "attempt" // a runner executing one attempt, by its attempt token
	SystemActor  ActorKind = "system"  // the server itself: a sweep or the host's operator
)

// Phase of the attempt an actor executes.
type Phase string

// The phases.
const (
	Plan  Phase = "plan"
	Apply Phase = "apply"
)

// Actor is who asks, with everything the table needs to know about it.
type Actor struct {
	Kind      ActorKind
	User      ids.User // of a UserActor
	Name      string   // for showing
	SiteAdmin bool
	Roles     map[ids.Organization]Role
	Token     ids.Token // of a UserActor that showed a user token
	Session   string    // of a UserActor signed in to the pages: the digest of the session's secret, in hex

	Attempt      ids.Attempt // of an AttemptActor, with what it is bound to
	Run          ids.Run
	Organization ids.Organization
	Workspace    ids.Workspace
	Phase        Phase
	Sandbox      string
	Epoch        int64            // the fence epoch of an apply attempt
	Predecessor  ids.StateVersion // the state the run was admitted on; empty when there was none
	Applying     bool             // its authority to apply was redeemed: only now may it publish state
}

// System is the server acting on its own behalf.
func System() Actor { return Actor{Kind: SystemActor, Name: "holdfast"} }

// ID gives the actor's identity as the audit log and the history write it.
func (a Actor) ID() string {
	switch a.Kind {
	case UserActor:
		return string(a.User)
	case AttemptActor:
		return string(a.Attempt)
	default:
		return a.Name
	}
}

// Object is what an action is about. Noun and Name only serve the error text.
type Object struct {
	Organization ids.Organization
	Workspace    ids.Workspace // empty for a thing of the organization itself
	Noun, Name   string
}

var readActions = set(OrganizationRead, WorkspaceRead, VariablesRead, ConfigurationRead, RunRead, StateReadOutputs, StateRead)

// rows is the table. A role or phase has exactly the actions of its row.
var rows = map[string]map[Action]bool{
	"member":        readActions,
	"owner":         without(set(Actions...), OrganizationCreate),
	"attempt:plan":  set(OrganizationRead, WorkspaceRead, StateRead, StateReadOutputs),
	"attempt:apply": set(OrganizationRead, WorkspaceRead, WorkspaceLock, StateRead, StateReadOutputs, StateWrite),
}

// Can tells whether actor may do action to object.
func Can(actor Actor, action Action, object Object) bool {
	switch actor.Kind {
	case SystemActor:
		return true
	case UserActor:
		if actor.SiteAdmin {
			return true
		}
		return rows[string(actor.Roles[object.Organization])][action]
	case AttemptActor:
		if actor.Organization != object.Organization || (object.Workspace != "" && actor.Workspace != object.Workspace) {
			return false
		}
		return rows["attempt:"+string(actor.Phase)][action]
	}
	return false
}

// Allow answers nil when actor may do action to object. Otherwise it answers
// NotFound when the actor may not even see the object, and Forbidden when it may.
func Allow(actor Actor, action Action, object Object) error {
	if Can(actor, action, object) {
		return nil
	}
	see := WorkspaceRead
	if object.Workspace == "" {
		see = OrganizationRead
	}
	if !Can(actor, see, object) {
		return fault.Missing(object.Noun, object.Name)
	}
	return fault.New(fault.Forbidden, "forbidden", "You need the permission %s on %s %q. Ask an owner of the organization for it.", action, object.Noun, object.Name)
}

func set(actions ...Action) map[Action]bool {
	m := make(map[Action]bool, len(actions))
	for _, a := range actions {
		m[a] = true
	}
	return m
}

func without(m map[Action]bool, actions ...Action) map[Action]bool {
	for _, a := range actions {
		delete(m, a)
	}
	return m
}
