package accounts_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

func (w world) team(org accounts.Organization, name string, access ...string) accounts.Team {
	w.Helper()
	said := map[string]bool{}
	for _, a := range access {
		said[a] = true
	}
	team, err := w.CreateTeam(ctx, system, org.Name, accounts.TeamSettings{Name: &name, Access: said})
	require.NoError(w, err)
	return team
}

func TestATokenBringsWhatTheTeamsGive(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	org, other := w.organization("acme"), w.organization("other")
	ops, dev := w.team(org, "ops", "read-workspaces"), w.team(org, "dev", "manage-policies")
	ada := w.member("ada", org, authz.Member)
	for _, team := range []accounts.Team{ops, dev} {
		require.NoError(t, w.AddTeamMembers(ctx, system, team.ID, accounts.TeamMembers{Usernames: []string{"ada"}}))
	}
	w.exec("insert into projects (id, organization_id, name) values ('prj-1', @org, 'p')", postgres.Args{"org": org.ID})
	w.exec("insert into workspaces (id, organization_id, project_id, name) values ('ws-1', @org, 'prj-1', 'w')", postgres.Args{"org": org.ID})
	w.exec("insert into team_projects (id, organization_id, team_id, project_id, levels) values ('tprj-1', @org, @team, 'prj-1', '{project:write}')", postgres.Args{"org": org.ID, "team": ops.ID})
	w.exec("insert into team_workspaces (id, organization_id, team_id, workspace_id, levels) values ('tws-1', @org, @team, 'ws-1', '{workspace:runs=plan,workspace:locking}')", postgres.Args{"org": org.ID, "team": dev.ID})

	grants := w.again(ada).Grants
	require.Contains(t, grants, org.ID)
	require.NotContains(t, grants, other.ID)
	g := grants[org.ID]
	assert.ElementsMatch(t, []ids.Team{ops.ID, dev.ID}, g.Teams)
	assert.ElementsMatch(t, []authz.Level{"organization:read-workspaces", "organization:manage-policies"}, g.Levels)
	assert.Equal(t, map[ids.Project][]authz.Level{"prj-1": {"project:write"}}, g.Projects)
	assert.Equal(t, map[ids.Workspace][]authz.Level{"ws-1": {"workspace:runs=plan", "workspace:locking"}}, g.Workspaces)

	require.NoError(t, w.RemoveTeamMembers(ctx, system, dev.ID, accounts.TeamMembers{Usernames: []string{"ada"}}))
	assert.Equal(t, []ids.Team{ops.ID}, w.again(ada).Grants[org.ID].Teams, "with the next request")
	w.exec("update memberships set status = 'invited' where user_id = @user", postgres.Args{"user": ada.User})
	assert.Empty(t, w.again(ada).Grants, "who is only invited has nothing")
	assert.Empty(t, w.again(ada).Roles)
}

// again is the actor as a new request finds it.
func (w world) again(a authz.Actor) (actor authz.Actor) {
	w.Helper()
	require.NoError(w, postgres.InSnapshot(ctx, w.db, "test", func(tx postgres.Tx) (err error) {
		actor, err = accounts.ActorOf(ctx, tx, a.User)
		return err
	}))
	return actor
}

func TestWorkInATeamsNameEndsWithTheTeam(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	org := w.organization("acme")
	team := w.team(org, "ops", "manage-workspaces")
	plain, token, err := w.CreateTeamToken(ctx, system, team.ID, accounts.NewToken{})
	require.NoError(t, err)
	assert.Equal(t, accounts.TeamToken, token.Kind)
	actor, err := w.Authenticate(ctx, plain)
	require.NoError(t, err)
	assert.Equal(t, authz.TeamActor, actor.Kind)
	assert.Equal(t, team.ID, actor.Team)
	object := authz.Object{Organization: org.ID}
	assert.True(t, authz.Can(actor, authz.WorkspaceDelete, object))
	assert.True(t, authz.Can(w.again(actor), authz.WorkspaceDelete, object), "what was asked for earlier")
	assert.NotContains(t, w.dump(), plain)

	_, _, err = w.CreateUserToken(ctx, system, actor.User, "", 0)
	assert.True(t, fault.Is(err, fault.NotFound), "nobody is a team's account")
	assert.True(t, fault.HasCode(w.RequireStepUpOf(actor), "step_up_not_possible"))

	require.NoError(t, w.DeleteTeam(ctx, system, team.ID))
	_, err = w.Authenticate(ctx, plain)
	assert.True(t, fault.Is(err, fault.Unauthenticated))
	left := w.again(actor)
	assert.Equal(t, authz.TeamActor, left.Kind)
	assert.Empty(t, left.Roles)
	assert.Empty(t, left.Grants)
}

// RequireStepUpOf asks in a transaction of its own.
func (w world) RequireStepUpOf(actor authz.Actor) error {
	return postgres.InTx(ctx, w.db, "test", func(tx postgres.Tx) error { return w.RequireStepUp(ctx, tx, actor) })
}

// Each method is asked by somebody who may not, and by somebody who may not even know.
func TestEveryMethodOfTeamsRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	org, other := w.organization("acme"), w.organization("other")
	team := w.team(org, "ops")
	open := accounts.VisibleOrganization
	_, err := w.UpdateTeam(ctx, system, team.ID, accounts.TeamSettings{Visibility: &open})
	require.NoError(t, err)
	member, stranger := w.member("ada", org, authz.Member), w.member("eve", other, authz.Owner)
	_, token, err := w.CreateTeamToken(ctx, system, team.ID, accounts.NewToken{})
	require.NoError(t, err)
	memberships, _, err := w.Memberships(ctx, system, "acme", accounts.MembershipFilter{})
	require.NoError(t, err)
	require.Len(t, memberships, 1)
	bob := w.member("bob", org, authz.Member)
	name := "new"
	who := accounts.TeamMembers{Usernames: []string{"ada"}}
	only := func(_ any, err error) error { return err }
	for method, call := range map[string]func(authz.Actor) error{
		"CreateTeam": func(a authz.Actor) error {
			return only(w.CreateTeam(ctx, a, "acme", accounts.TeamSettings{Name: &name}))
		},
		"UpdateTeam": func(a authz.Actor) error {
			return only(w.UpdateTeam(ctx, a, team.ID, accounts.TeamSettings{Name: &name}))
		},
		"DeleteTeam":        func(a authz.Actor) error { return w.DeleteTeam(ctx, a, team.ID) },
		"AddTeamMembers":    func(a authz.Actor) error { return w.AddTeamMembers(ctx, a, team.ID, who) },
		"RemoveTeamMembers": func(a authz.Actor) error { return w.RemoveTeamMembers(ctx, a, team.ID, who) },
		"CreateTeamToken": func(a authz.Actor) error {
			_, _, err := w.CreateTeamToken(ctx, a, team.ID, accounts.NewToken{})
			return err
		},
		"TeamToken":       func(a authz.Actor) error { return only(w.TeamToken(ctx, a, team.ID)) },
		"RevokeTeamToken": func(a authz.Actor) error { return w.RevokeTeamToken(ctx, a, team.ID) },
		"TeamTokensOf": func(a authz.Actor) error {
			_, _, err := w.TeamTokensOf(ctx, a, team.ID, accounts.Page{})
			return err
		},
		"Invite":           func(a authz.Actor) error { return only(w.Invite(ctx, a, "acme", "x@acme.test", nil)) },
		"RemoveMembership": func(a authz.Actor) error { return w.RemoveMembership(ctx, a, memberships[0].ID) },
		"CreateOrganizationToken": func(a authz.Actor) error {
			_, _, err := w.CreateOrganizationToken(ctx, a, "acme", accounts.OrganizationToken, accounts.NewToken{})
			return err
		},
		"OrganizationToken": func(a authz.Actor) error {
			return only(w.OrganizationToken(ctx, a, "acme", accounts.OrganizationToken))
		},
		"RevokeOrganizationToken": func(a authz.Actor) error {
			return w.RevokeOrganizationToken(ctx, a, "acme", accounts.OrganizationToken)
		},
		"AddMember": func(a authz.Actor) error { return w.AddMember(ctx, a, org.ID, stranger.User, authz.Member) },
	} {
		assert.Truef(t, fault.Is(call(bob), fault.Forbidden), "%s by a member: %v", method, call(bob))
		assert.Truef(t, fault.Is(call(stranger), fault.NotFound), "%s by a stranger: %v", method, call(stranger))
	}
	for method, call := range map[string]func(authz.Actor) error{
		"Team":  func(a authz.Actor) error { return only(w.Team(ctx, a, team.ID)) },
		"Teams": func(a authz.Actor) error { _, _, err := w.Teams(ctx, a, "acme", accounts.TeamFilter{}); return err },
		"TeamTokens": func(a authz.Actor) error {
			_, _, err := w.TeamTokens(ctx, a, "acme", accounts.TeamTokenFilter{})
			return err
		},
		"Membership": func(a authz.Actor) error { return only(w.Membership(ctx, a, memberships[0].ID)) },
		"Memberships": func(a authz.Actor) error {
			_, _, err := w.Memberships(ctx, a, "acme", accounts.MembershipFilter{})
			return err
		},
	} {
		assert.NoErrorf(t, call(member), "%s by a member", method)
		assert.Truef(t, fault.Is(call(stranger), fault.NotFound), "%s by a stranger", method)
	}
	for method, call := range map[string]func(authz.Actor) error{
		"Token":       func(a authz.Actor) error { return only(w.Token(ctx, a, token.ID)) },
		"RevokeToken": func(a authz.Actor) error { return w.RevokeToken(ctx, a, token.ID) },
	} {
		for _, actor := range []authz.Actor{bob, stranger} {
			assert.Truef(t, fault.Is(call(actor), fault.NotFound), "%s: that there is such a token is nobody else's business", method)
		}
	}
	require.NoError(t, w.RemoveMembership(ctx, member, memberships[0].ID), "who belongs may leave")
}

func TestTheLastOwnerStays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	org := w.organization("acme")
	w.member("ada", org, authz.Owner)
	w.member("bob", org, authz.Owner)
	owners := w.owners(org)
	require.NoError(t, w.RemoveTeamMembers(ctx, system, owners, accounts.TeamMembers{Usernames: []string{"ada"}}))
	err := w.RemoveTeamMembers(ctx, system, owners, accounts.TeamMembers{Usernames: []string{"bob"}})
	assert.True(t, fault.HasCode(err, "last_owner"), "%v", err)
	assert.Equal(t, authz.Member, w.again(authz.Actor{User: w.named("ada").ID}).Roles[org.ID], "a member still")
	assert.Equal(t, authz.Owner, w.again(authz.Actor{User: w.named("bob").ID}).Roles[org.ID])
}

func (w world) named(name string) accounts.User {
	w.Helper()
	u, err := w.UserByName(ctx, system, name)
	require.NoError(w, err)
	return u
}

func TestAnAddressOfSeveralUsersBindsNobody(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.organization("acme")
	for _, name := range []string{"ada", "bob"} {
		_, err := w.CreateUser(ctx, system, accounts.NewUser{Username: name, Email: "shared@acme.test"})
		require.NoError(t, err)
	}
	_, err := w.Invite(ctx, system, "acme", "shared@acme.test", nil)
	assert.ErrorContains(t, err, "several users")
	_, err = w.Invite(ctx, system, "acme", "nonsense", nil)
	assert.True(t, fault.Is(err, fault.Invalid))
}
