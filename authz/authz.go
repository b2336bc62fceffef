package authz

import (
	"slices"

	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
)

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
	UserActor         ActorKind = "user"         // a person, by a user token or signed in to the pages
	TeamActor         ActorKind = "team"         // a program, by the token of a team
	OrganizationActor ActorKind = "organization" // a program, by the token of an organization
	AttemptActor      ActorKind = "attempt"      // a runner executing one attempt, by its attempt token
	SystemActor       ActorKind = "system"       // the server itself: a sweep or the host's operator
	PolicyActor       ActorKind = "policy"       // the server, by what a workspace's settings allow without a person
	SCIMActor         ActorKind = "scim"         // an identity provider, by a SCIM token
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
	User      ids.User // of a UserActor; of a TeamActor the account in whose name its work is written down
	Team      ids.Team // of a TeamActor
	Name      string   // for showing
	SiteAdmin bool
	Roles     map[ids.Organization]Role
	Grants    map[ids.Organization]Grants // beyond the role; none where no team gives any
	Barred    map[ids.Organization]bool   // those of the actor's that a token of a user does not reach, when it came with one
	Token     ids.Token                   // that was shown, of a UserActor, TeamActor, OrganizationActor or SCIMActor
	Session   string                      // of a UserActor signed in to the pages: the digest of the session's secret, in hex

	Attempt      ids.Attempt // of an AttemptActor, with what it is bound to
	Run          ids.Run
	Organization ids.Organization // also of an OrganizationActor
	Workspace    ids.Workspace
	Phase        Phase
	Sandbox      string
	Epoch        int64            // the fence epoch of an apply attempt
	Predecessor  ids.StateVersion // the state the run was admitted on; empty when there was none
	Applying     bool             // its authority to apply was redeemed: only now may it publish state
}

// Grants is what an actor has in one organization beyond its role.
type Grants struct {
	Teams      []ids.Team // it belongs to, or that it is
	Levels     []Level    // hold everywhere in the organization
	Projects   map[ids.Project][]Level
	Workspaces map[ids.Workspace][]Level
}

// System is the server acting on its own behalf.
func System() Actor { return Actor{Kind: SystemActor, Name: "holdfast"} }

// Policy is the server carrying out what a workspace's settings allow without a person. It
// may only recover.
func Policy() Actor { return Actor{Kind: PolicyActor, Name: "policy"} }

// ID gives the actor's identity as the audit log and the history write it.
func (a Actor) ID() string {
	switch a.Kind {
	case UserActor:
		return string(a.User)
	case TeamActor:
		return string(a.Team)
	case OrganizationActor:
		return string(a.Organization)
	case AttemptActor:
		return string(a.Attempt)
	case SCIMActor:
		return string(a.Token)
	default:
		return a.Name
	}
}

// IsPerson tells whether somebody acts who can answer for it, and not a program.
func (a Actor) IsPerson() bool { return a.Kind == UserActor }

// IsOwner tells whether the actor is an owner of the organization, or as good as one.
func (a Actor) IsOwner(org ids.Organization) bool {
	return a.Kind == SystemActor || (!a.Barred[org] && (a.SiteAdmin || a.Roles[org] == Owner))
}

// InTeam tells whether the actor belongs to the team now, or acts by the team's token.
func (a Actor) InTeam(org ids.Organization, team ids.Team) bool {
	return !a.Barred[org] && slices.Contains(a.Grants[org].Teams, team)
}

// Object is what an action is about. Noun and Name only serve the error text. An object
// without its project is not covered by what somebody may do in a project.
type Object struct {
	Organization ids.Organization
	Project      ids.Project   // empty for a thing of the organization itself
	Workspace    ids.Workspace // empty for a thing of the organization or project itself
	Noun, Name   string
	// SharesState: the workspace lets the runs of the actor's own workspace read its state.
	SharesState bool
}

// consumerActions are what a run may do with another workspace that shares its state with it.
var consumerActions = set(WorkspaceRead, StateRead, StateReadOutputs)

// Can tells whether actor may do action to object.
func Can(actor Actor, action Action, object Object) bool {
	switch actor.Kind {
	case SystemActor:
		return true
	case UserActor:
		return !actor.Barred[object.Organization] && (actor.SiteAdmin || granted(actor, action, object))
	case TeamActor:
		return !personal[action] && granted(actor, action, object)
	case OrganizationActor:
		return granted(actor, action, object)
	case PolicyActor:
		return PolicyLevel.Gives(action)
	case SCIMActor:
		return action == Provision
	case AttemptActor:
		if actor.Organization != object.Organization {
			return false
		}
		if object.Workspace != "" && actor.Workspace != object.Workspace {
			return object.SharesState && consumerActions[action]
		}
		return Level("attempt:" + string(actor.Phase)).Gives(action)
	}
	return false
}

// granted adds up the levels that cover the object: the role's, those for the whole
// organization, those for the project and those for the workspace. The highest wins.
func granted(actor Actor, action Action, object Object) bool {
	if actor.Roles[object.Organization].level().Gives(action) {
		return true
	}
	g := actor.Grants[object.Organization]
	return anyGives(g.Levels, action) ||
		(object.Project != "" && anyGives(g.Projects[object.Project], action)) ||
		(object.Workspace != "" && anyGives(g.Workspaces[object.Workspace], action))
}

func anyGives(levels []Level, action Action) bool {
	return slices.ContainsFunc(levels, func(l Level) bool { return l.Gives(action) })
}

func (r Role) level() Level { return Level("organization:" + string(r)) }

// Allow answers nil when actor may do action to object. Otherwise it answers
// NotFound when the actor may not even see the object, Forbidden when it may, and
// Unauthenticated when it belongs to the organization and came with a token that does not count there.
func Allow(actor Actor, action Action, object Object) error {
	if Can(actor, action, object) {
		return nil
	}
	if actor.Barred[object.Organization] {
		return fault.New(fault.Unauthenticated, "user_tokens_disabled", "This organization takes no tokens of users. Use the token of a team or of the organization, or sign in to the pages.")
	}
	see := OrganizationRead
	switch {
	case object.Workspace != "":
		see = WorkspaceRead
	case object.Project != "":
		see = ProjectRead
	}
	if !Can(actor, see, object) {
		return fault.Missing(object.Noun, object.Name)
	}
	return Forbidden(action, object)
}

// Forbidden is the answer for what an actor sees but may not do.
func Forbidden(action Action, object Object) error {
	return fault.New(fault.Forbidden, "forbidden", "You need the permission %s on %s %q. Ask an owner of the organization for it.", action, object.Noun, object.Name)
}
