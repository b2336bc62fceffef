package authz_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
)

const (
	org, otherOrg = ids.Organization("org-1"), ids.Organization("org-2")
	prj, otherPrj = ids.Project("prj-1"), ids.Project("prj-2")
	ws, otherWS   = ids.Workspace("ws-1"), ids.Workspace("ws-2")
)

var workspace = authz.Object{Organization: org, Project: prj, Workspace: ws, Noun: "workspace", Name: "w"}

func user(role authz.Role) authz.Actor {
	a := authz.Actor{Kind: authz.UserActor, User: "user-1", Roles: map[ids.Organization]authz.Role{}}
	if role != "" {
		a.Roles[org] = role
	}
	return a
}

func with(g authz.Grants) authz.Actor {
	a := user(authz.Member)
	a.Grants = map[ids.Organization]authz.Grants{org: g}
	return a
}

func attempt(phase authz.Phase) authz.Actor {
	return authz.Actor{Kind: authz.AttemptActor, Attempt: "att-1", Organization: org, Workspace: ws, Phase: phase}
}

func TestRolesSiteAdminsAndAttempts(t *testing.T) {
	admin := user("")
	admin.SiteAdmin = true
	for _, action := range authz.Actions {
		assert.Falsef(t, authz.Can(user(""), action, workspace), "nobody %s", action)
		assert.Equalf(t, action == authz.OrganizationRead, authz.Can(user(authz.Member), action, workspace), "a member has only what its teams give: %s", action)
		assert.Equalf(t, action != authz.OrganizationCreate, authz.Can(user(authz.Owner), action, workspace), "owner %s", action)
		assert.Truef(t, authz.Can(admin, action, workspace), "site admin %s", action)
		assert.Equalf(t, authz.AttemptPlanLevel.Gives(action), authz.Can(attempt(authz.Plan), action, workspace), "attempt plan %s", action)
		assert.Equalf(t, authz.AttemptApplyLevel.Gives(action), authz.Can(attempt(authz.Apply), action, workspace), "attempt apply %s", action)
		assert.Equalf(t, authz.PolicyLevel.Gives(action), authz.Can(authz.Policy(), action, workspace), "policy %s", action)
	}
}

// Each level is tried at each place where a team can have it, and each action against
// what it covers and what it does not.
func TestALevelHoldsWhereItWasGiven(t *testing.T) {
	neighbour := authz.Object{Organization: org, Project: prj, Workspace: otherWS}
	elsewhere := authz.Object{Organization: org, Project: otherPrj, Workspace: otherWS}
	abroad := authz.Object{Organization: otherOrg, Project: prj, Workspace: ws}
	for _, level := range authz.Levels() {
		everywhere := with(authz.Grants{Levels: []authz.Level{level}})
		inProject := with(authz.Grants{Projects: map[ids.Project][]authz.Level{prj: {level}}})
		inWorkspace := with(authz.Grants{Workspaces: map[ids.Workspace][]authz.Level{ws: {level}}})
		for _, action := range authz.Actions {
			gives := level.Gives(action)
			base := action == authz.OrganizationRead // of any member
			for name, got := range map[string][2]bool{
				"organization, here":       {gives, authz.Can(everywhere, action, workspace)},
				"organization, elsewhere":  {gives, authz.Can(everywhere, action, elsewhere)},
				"project, here":            {gives, authz.Can(inProject, action, workspace)},
				"project, neighbour":       {gives, authz.Can(inProject, action, neighbour)},
				"project, other project":   {false, authz.Can(inProject, action, elsewhere)},
				"project, organization":    {false, authz.Can(inProject, action, authz.Object{Organization: org})},
				"workspace, here":          {gives, authz.Can(inWorkspace, action, workspace)},
				"workspace, neighbour":     {false, authz.Can(inWorkspace, action, neighbour)},
				"workspace, its project":   {false, authz.Can(inWorkspace, action, authz.Object{Organization: org, Project: prj})},
				"workspace, organization":  {false, authz.Can(inWorkspace, action, authz.Object{Organization: org})},
				"another team's workspace": {false, authz.Can(inWorkspace, action, elsewhere)},
			} {
				assert.Equalf(t, got[0] || base, got[1], "%s %s: %s", level, name, action)
			}
			for _, actor := range []authz.Actor{everywhere, inProject, inWorkspace} {
				assert.Falsef(t, authz.Can(actor, action, abroad), "%s in another organization: %s", level, action)
			}
		}
	}
}

func TestLevelsAddUp(t *testing.T) {
	actor := with(authz.Grants{
		Projects:   map[ids.Project][]authz.Level{prj: {"project:read"}},
		Workspaces: map[ids.Workspace][]authz.Level{ws: {"workspace:runs=plan", "workspace:state-recover"}},
	})
	for action, want := range map[authz.Action]bool{
		authz.StateRead: true, authz.RunQueue: true, authz.StateRecover: true, authz.RunRecover: false, authz.RunApply: false,
	} {
		assert.Equalf(t, want, authz.Can(actor, action, workspace), "%s", action)
	}
}

// RC-10 and RC-11: each of the two rights can be had without the other.
func TestRecoverIsGrantedInTwoParts(t *testing.T) {
	for level, want := range map[authz.Level][2]bool{
		"workspace:run-recover": {true, false}, "workspace:state-recover": {false, true},
		"workspace:admin": {true, true}, "project:admin": {true, true}, "workspace:write": {false, false}, "project:write": {false, false},
	} {
		assert.Equal(t, want, [2]bool{level.Gives(authz.RunRecover), level.Gives(authz.StateRecover)}, string(level))
	}
}

func TestForeignThingsAreNotFound(t *testing.T) {
	foreign := authz.Object{Organization: otherOrg, Project: otherPrj, Workspace: otherWS, Noun: "workspace", Name: "w"}
	neighbour := authz.Object{Organization: org, Project: otherPrj, Workspace: otherWS, Noun: "workspace", Name: "w"}
	for _, action := range authz.Actions {
		for _, actor := range []authz.Actor{user(authz.Owner), user(authz.Member), attempt(authz.Plan), attempt(authz.Apply)} {
			assert.Truef(t, fault.Is(authz.Allow(actor, action, foreign), fault.NotFound), "%s", action)
		}
		assert.Truef(t, fault.Is(authz.Allow(attempt(authz.Apply), action, neighbour), fault.NotFound), "an attempt does not see another workspace: %s", action)
		admin := with(authz.Grants{Workspaces: map[ids.Workspace][]authz.Level{ws: {"workspace:admin"}}})
		if action != authz.OrganizationRead {
			assert.Truef(t, fault.Is(authz.Allow(admin, action, neighbour), fault.NotFound), "nor does a team that has the one beside it: %s", action)
		}
	}
}

func TestVisibleButNotAllowedIsForbiddenAndNamesTheAction(t *testing.T) {
	reader := with(authz.Grants{Workspaces: map[ids.Workspace][]authz.Level{ws: {"workspace:read"}}})
	err := authz.Allow(reader, authz.RunApply, authz.Object{Organization: org, Workspace: ws, Noun: "run", Name: "run-1"})
	assert.True(t, fault.Is(err, fault.Forbidden))
	assert.Contains(t, err.Error(), "run:apply")
	err = authz.Allow(reader, authz.WorkspaceRead, authz.Object{Organization: org, Workspace: otherWS, Noun: "run", Name: "run-1"})
	assert.True(t, fault.Is(err, fault.NotFound))
}

// A program is no person: the token of the owners team does what the team may do in
// its workspaces, changes the organization's settings, and nothing else of the organization itself.
func TestTokensOfTeamsAndOrganizations(t *testing.T) {
	team := user(authz.Owner)
	team.Kind, team.Team = authz.TeamActor, "team-1"
	organization := authz.Actor{Kind: authz.OrganizationActor, Organization: org, Grants: map[ids.Organization]authz.Grants{org: {Levels: []authz.Level{authz.OrganizationToken}}}}
	trail := authz.Actor{Kind: authz.OrganizationActor, Organization: org, Grants: map[ids.Organization]authz.Grants{org: {Levels: []authz.Level{authz.AuditToken}}}}
	personal := []authz.Action{authz.OrganizationCreate, authz.OrganizationUpdate, authz.OrganizationDelete, authz.OrganizationTokens}
	never := []authz.Action{ // an organization's token starts no run and touches no state
		authz.RunRead, authz.RunQueue, authz.RunApply, authz.RunForceCancel, authz.RunRecover, authz.ConfigurationRead, authz.ConfigurationUpload, authz.WorkspaceLock, authz.WorkspaceForceUnlock,
		authz.StateRead, authz.StateReadOutputs, authz.StateWrite, authz.StateForce, authz.StateRecover, authz.PoliciesOverride,
	}
	for _, action := range authz.Actions {
		assert.Equalf(t, !slices.Contains(personal, action), authz.Can(team, action, workspace), "owners team's token: %s", action)
		assert.Equalf(t, action == authz.AuditRead, authz.Can(trail, action, workspace), "audit token: %s", action)
		if slices.Contains(never, action) || slices.Contains(personal, action) {
			assert.Falsef(t, authz.Can(organization, action, workspace), "organization's token: %s", action)
		}
		assert.Falsef(t, authz.Can(organization, action, authz.Object{Organization: otherOrg}), "another organization: %s", action)
	}
	for actor, id := range map[*authz.Actor]string{&team: "team-1", &organization: string(org)} {
		assert.Equal(t, id, actor.ID())
		assert.False(t, actor.IsPerson())
	}
}

// What Where selects is what Can allows, for every level wherever it is given.
func TestWhereSaysTheSameAsCan(t *testing.T) {
	places := []authz.Object{workspace, {Organization: org, Project: prj, Workspace: otherWS}, {Organization: org, Project: otherPrj, Workspace: "ws-3"}}
	actors := []authz.Actor{user(""), user(authz.Owner), user(authz.Member), attempt(authz.Plan), attempt(authz.Apply), authz.System()}
	for _, level := range authz.Levels() {
		actors = append(actors, with(authz.Grants{Levels: []authz.Level{level}}), with(authz.Grants{
			Projects: map[ids.Project][]authz.Level{prj: {level}}, Workspaces: map[ids.Workspace][]authz.Level{"ws-3": {level}},
		}))
	}
	barred := with(authz.Grants{Projects: map[ids.Project][]authz.Level{prj: {"project:admin"}}})
	barred.Barred = map[ids.Organization]bool{org: true}
	actors = append(actors, barred)
	for _, actor := range actors {
		for _, action := range authz.Actions {
			scope := authz.Where(actor, action, org)
			for _, place := range places {
				selected := scope.All || slices.Contains(scope.Projects, place.Project) || slices.Contains(scope.Workspaces, place.Workspace)
				assert.Equalf(t, authz.Can(actor, action, place), selected, "%+v %s %s", actor.Grants, action, place.Workspace)
			}
		}
	}
}

// Whatever an actor has in an organization that its token does not reach is nothing there, also what a later
// look at its rights brings.
func TestATokenThatDoesNotReachAnOrganization(t *testing.T) {
	actor := with(authz.Grants{Teams: []ids.Team{"team-1"}, Levels: []authz.Level{"workspace:admin"}})
	actor.SiteAdmin, actor.Roles[org], actor.Roles[otherOrg] = true, authz.Owner, authz.Member
	actor.Barred = map[ids.Organization]bool{org: true}
	for _, action := range authz.Actions {
		assert.Falsef(t, authz.Can(actor, action, workspace), "%s", action)
		assert.Truef(t, fault.Is(authz.Allow(actor, action, workspace), fault.Unauthenticated), "%s", action)
		assert.Truef(t, authz.Can(actor, action, authz.Object{Organization: otherOrg}), "%s elsewhere", action)
	}
	assert.False(t, actor.IsOwner(org) || actor.InTeam(org, "team-1"))
	assert.True(t, actor.IsOwner(otherOrg))
}

func TestWhoIsInATeam(t *testing.T) {
	actor := with(authz.Grants{Teams: []ids.Team{"team-1"}})
	assert.True(t, actor.InTeam(org, "team-1"))
	assert.False(t, actor.InTeam(org, "team-2"))
	assert.False(t, actor.InTeam(otherOrg, "team-1"), "a team is of one organization")
}
