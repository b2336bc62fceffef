package authz

import "github.com/holdfast-run/holdfast/ids"

// Scope is where in an organization something is allowed. It is made for statements,
// which select by it: everything, or what is in one of the projects or is one of the workspaces.
type Scope struct {
	All        bool
	Projects   []ids.Project // never nil, which would be NULL
	Workspaces []ids.Workspace
}

// Everywhere is for a list whose reader has been asked about already.
func Everywhere() Scope {
	return Scope{All: true, Projects: []ids.Project{}, Workspaces: []ids.Workspace{}}
}

// Where gives the workspaces of the organization to which actor may do action, so that a
// list needs one statement however long it is. It says the same as Can does for each.
func Where(actor Actor, action Action, org ids.Organization) Scope {
	scope := Scope{Projects: []ids.Project{}, Workspaces: []ids.Workspace{}}
	if actor.Kind == AttemptActor { // its own workspace only
		if Can(actor, action, Object{Organization: org, Workspace: actor.Workspace}) {
			scope.Workspaces = append(scope.Workspaces, actor.Workspace)
		}
		return scope
	}
	if Can(actor, action, Object{Organization: org}) {
		scope.All = true
		return scope
	}
	if actor.Barred[org] || (actor.Kind == TeamActor && personal[action]) {
		return scope
	}
	for project, levels := range actor.Grants[org].Projects {
		if anyGives(levels, action) {
			scope.Projects = append(scope.Projects, project)
		}
	}
	for workspace, levels := range actor.Grants[org].Workspaces {
		if anyGives(levels, action) {
			scope.Workspaces = append(scope.Workspaces, workspace)
		}
	}
	return scope
}

// Beyond gives the first action that the levels would give on object and that the actor may
// not do there itself: nobody gives more than it has. Owners lack nothing. None is "".
func Beyond(actor Actor, levels []Level, object Object) Action {
	for _, action := range Actions {
		if anyGives(levels, action) && !Can(actor, action, object) {
			return action
		}
	}
	return ""
}
