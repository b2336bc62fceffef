package authz_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
)

const (
	org, otherOrg = ids.Organization("org-1"), ids.Organization("org-2")
	ws, otherWS   = ids.Workspace("ws-1"), ids.Workspace("ws-2")
)

func user(role authz.Role) authz.Actor {
	a := authz.Actor{Kind: authz.UserActor, User: "user-1", Roles: map[ids.Organization]authz.Role{}}
	if role != "" {
		a.Roles[org] = role
	}
	return a
}

func attempt(phase authz.Phase) authz.Actor {
	return authz.Actor{Kind: authz.AttemptActor, Attempt: "att-1", Organization: org, Workspace: ws, Phase: phase}
}

// The whole table, written once more by hand: a row changed by mistake shows here.
func TestEveryActorTimesEveryAction(t *testing.T) {
	reads := []authz.Action{authz.OrganizationRead, authz.WorkspaceRead, authz.VariablesRead, authz.ConfigurationRead, authz.RunRead, authz.StateReadOutputs, authz.StateRead, authz.PolicyRead}
	want := map[string][]authz.Action{
		"nobody":        {},
		"member":        reads,
		"attempt plan":  {authz.OrganizationRead, authz.WorkspaceRead, authz.StateRead, authz.StateReadOutputs},
		"attempt apply": {authz.OrganizationRead, authz.WorkspaceRead, authz.WorkspaceLock, authz.StateRead, authz.StateReadOutputs, authz.StateWrite},
	}
	actors := map[string]authz.Actor{"nobody": user(""), "member": user(authz.Member), "attempt plan": attempt(authz.Plan), "attempt apply": attempt(authz.Apply)}
	object := authz.Object{Organization: org, Workspace: ws, Noun: "workspace", Name: "w"}
	for name, actor := range actors {
		for _, action := range authz.Actions {
			assert.Equalf(t, contains(want[name], action), authz.Can(actor, action, object), "%s %s", name, action)
		}
	}
	for _, action := range authz.Actions {
		assert.Equalf(t, action != authz.OrganizationCreate, authz.Can(user(authz.Owner), action, object), "owner %s", action)
		admin := user("")
		admin.SiteAdmin = true
		assert.Truef(t, authz.Can(admin, action, object), "site admin %s", action)
	}
}

func TestForeignThingsAreNotFound(t *testing.T) {
	foreign := authz.Object{Organization: otherOrg, Workspace: otherWS, Noun: "workspace", Name: "w"}
	neighbour := authz.Object{Organization: org, Workspace: otherWS, Noun: "workspace", Name: "w"}
	for _, action := range authz.Actions {
		for _, actor := range []authz.Actor{user(authz.Owner), user(authz.Member), attempt(authz.Plan), attempt(authz.Apply)} {
			assert.Truef(t, fault.Is(authz.Allow(actor, action, foreign), fault.NotFound), "%s", action)
		}
		assert.Truef(t, fault.Is(authz.Allow(attempt(authz.Apply), action, neighbour), fault.NotFound), "an attempt does not see another workspace: %s", action)
	}
}

func TestVisibleButNotAllowedIsForbiddenAndNamesTheAction(t *testing.T) {
	err := authz.Allow(user(authz.Member), authz.RunApply, authz.Object{Organization: org, Workspace: ws, Noun: "run", Name: "run-1"})
	assert.True(t, fault.Is(err, fault.Forbidden))
	assert.Contains(t, err.Error(), "run:apply")
}

func contains(list []authz.Action, a authz.Action) bool {
	for _, x := range list {
		if x == a {
			return true
		}
	}
	return false
}
