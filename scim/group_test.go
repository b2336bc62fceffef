package scim_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/scim"
)

func sorted(users ...ids.User) []ids.User {
	slices.Sort(users)
	return users
}

func TestATeamFollowsItsGroupFromTheSameCommit(t *testing.T) {
	w := newWorld(t)
	ada, bob, eve, org := w.person("ada"), w.person("bob"), w.person("eve"), w.organization("acme")
	require.NoError(t, w.who.AddMember(ctx, system, org.ID, bob.ID, authz.Member)) // by hand
	g, devs, ops := w.group("devs", ada.ID), w.team("acme", "devs"), w.team("acme", "ops")
	require.NoError(t, w.who.AddTeamMembers(ctx, system, devs.ID, accounts.TeamMembers{Usernames: []string{"bob"}}))
	belongs := func(p scim.Person) bool { return w.actor(p.ID).Roles[org.ID] != "" }

	require.NoError(t, w.LinkTeam(ctx, system, devs.ID, g.ID))
	assert.Equal(t, []ids.User{ada.ID}, w.in(devs), "it has the group's members, and no others")
	assert.True(t, belongs(ada), "who comes for the team belongs to the organization")
	assert.True(t, w.actor(ada.ID).InTeam(org.ID, devs.ID))
	assert.True(t, belongs(bob), "who was there by hand stays")

	w.members(g, ada.ID, bob.ID, eve.ID)
	assert.Equal(t, sorted(ada.ID, bob.ID, eve.ID), w.in(devs))
	require.NoError(t, w.LinkTeam(ctx, system, ops.ID, g.ID))
	assert.Len(t, w.in(ops), 3, "a group leads as many teams as are linked")
	w.members(g, eve.ID)
	assert.Equal(t, []ids.User{eve.ID}, w.in(devs))
	assert.Equal(t, []ids.User{eve.ID}, w.in(ops))
	assert.False(t, belongs(ada), "who came for a team leaves with the last one")
	assert.True(t, belongs(bob))

	require.NoError(t, w.DeletePerson(ctx, w.idp, eve.ID))
	assert.Empty(t, w.in(devs))
	w.members(g, ada.ID)
	require.NoError(t, w.DeleteGroup(ctx, w.idp, g.ID))
	assert.Empty(t, w.in(devs), "a group that is gone has no members")
	assert.False(t, belongs(ada))
	require.NoError(t, w.who.AddTeamMembers(ctx, system, devs.ID, accounts.TeamMembers{Usernames: []string{"bob"}}), "and leads nobody")
}

func TestTheMembersOfALinkedTeamAreNotChangedByHand(t *testing.T) {
	w := newWorld(t)
	ada, bob, org := w.person("ada"), w.person("bob"), w.organization("acme")
	require.NoError(t, w.who.AddMember(ctx, system, org.ID, bob.ID, authz.Owner))
	g, team := w.group("devs", ada.ID), w.team("acme", "devs")
	require.NoError(t, w.LinkTeam(ctx, system, team.ID, g.ID))
	add := func() error {
		return w.who.AddTeamMembers(ctx, system, team.ID, accounts.TeamMembers{Usernames: []string{"bob"}})
	}
	refused := func(err error) {
		t.Helper()
		assert.True(t, fault.HasCode(err, "team_provisioned"), "%v", err)
	}
	refused(add())
	refused(w.who.RemoveTeamMembers(ctx, system, team.ID, accounts.TeamMembers{Usernames: []string{"ada"}}))
	_, err := w.who.Invite(ctx, system, "acme", "new@corp.test", []ids.Team{team.ID})
	refused(err)
	memberships, _, err := w.who.Memberships(ctx, system, "acme", accounts.MembershipFilter{Query: "ada"})
	require.NoError(t, err)
	refused(w.who.RemoveMembership(ctx, system, memberships[0].ID))
	assert.Equal(t, []ids.User{ada.ID}, w.in(team))

	require.NoError(t, w.PauseLink(ctx, system, team.ID, true))
	require.NoError(t, add())
	w.members(g)
	assert.Equal(t, sorted(ada.ID, bob.ID), w.in(team), "a paused link changes nothing")
	require.NoError(t, w.PauseLink(ctx, system, team.ID, false))
	assert.Empty(t, w.in(team), "and then brings the team up to date")
	refused(add())

	by := false
	_, err = w.ChangeSAML(ctx, system, scim.SAMLChange{TeamManagement: &by})
	require.NoError(t, err)
	require.NoError(t, add(), "where teams are not the identity provider's alone")
	assert.Equal(t, []ids.User{bob.ID}, w.in(team))
	w.members(g, ada.ID)
	assert.Equal(t, []ids.User{ada.ID}, w.in(team), "the group's next change sets it right")
	by = true
	_, err = w.ChangeSAML(ctx, system, scim.SAMLChange{TeamManagement: &by})
	require.NoError(t, err)
	refused(add())

	paused := true
	_, err = w.ChangeSettings(ctx, system, scim.SettingsChange{Paused: &paused})
	require.NoError(t, err)
	require.NoError(t, add(), "a site that is paused leaves teams to hands")
	paused = false
	_, err = w.ChangeSettings(ctx, system, scim.SettingsChange{Paused: &paused})
	require.NoError(t, err)
	assert.Equal(t, []ids.User{ada.ID}, w.in(team))
	require.NoError(t, w.UnlinkTeam(ctx, system, team.ID))
	assert.Equal(t, []ids.User{ada.ID}, w.in(team), "a team that is let go keeps its members")
	require.NoError(t, add())
}

func TestASiteAdminGroupCountsOnceConfirmed(t *testing.T) {
	w := newWorld(t)
	ada, bob := w.person("ada"), w.person("bob")
	root, err := w.who.CreateUser(ctx, system, accounts.NewUser{Username: "root", SiteAdmin: true})
	require.NoError(t, err)
	admin, g := w.actor(root.ID), w.group("admins", ada.ID)
	is := func(p scim.Person) bool { return w.actor(p.ID).SiteAdmin }
	say := func(group ids.SCIMGroup) scim.Settings {
		t.Helper()
		settings, err := w.ChangeSettings(ctx, admin, scim.SettingsChange{SiteAdminGroup: &group})
		require.NoError(t, err)
		return settings
	}

	settings := say(g.ID)
	assert.Equal(t, []any{g.ID, "admins", false}, []any{settings.SiteAdminGroup, settings.SiteAdminGroupName, settings.Confirmed})
	assert.False(t, is(ada), "a token alone makes no site admins")
	w.members(g, ada.ID, bob.ID)
	assert.False(t, is(bob))

	*w.steppedUp = true
	assert.True(t, say(g.ID).Confirmed)
	assert.True(t, is(ada))
	w.members(g, bob.ID)
	assert.Equal(t, []bool{false, true}, []bool{is(ada), is(bob)}, "in the same commit")
	assert.True(t, fault.HasCode(w.DeleteGroup(ctx, w.idp, g.ID), "site_admin_group"))
	team := w.team(w.organization("acme").Name, "devs")
	assert.True(t, fault.Is(w.LinkTeam(ctx, system, team.ID, g.ID), fault.Invalid))

	*w.steppedUp = false
	other := w.group("others", ada.ID)
	assert.False(t, say(other.ID).Confirmed, "another group is another thing to confirm")
	assert.Equal(t, []bool{false, false}, []bool{is(ada), is(bob)})
	*w.steppedUp = true
	say(other.ID)
	require.NoError(t, w.DeletePerson(ctx, w.idp, ada.ID))
	w.person("ada")
	assert.False(t, is(ada), "who comes back is in no group")
	say("")
	assert.True(t, w.actor(root.ID).SiteAdmin, "who was made by hand is not touched")
	assert.Positive(t, w.audited("user.made-site-admin")*w.audited("user.no-site-admin"))
}

func TestTurningSCIMOffEndsWhatItGave(t *testing.T) {
	w := newWorld(t)
	ada := w.person("ada")
	w.organization("acme")
	g, admins, team := w.group("devs", ada.ID), w.group("admins", ada.ID), w.team("acme", "devs")
	require.NoError(t, w.LinkTeam(ctx, system, team.ID, g.ID))
	_, err := w.ChangeSettings(ctx, system, scim.SettingsChange{SiteAdminGroup: &admins.ID})
	require.NoError(t, err)
	require.True(t, w.actor(ada.ID).SiteAdmin)

	require.NoError(t, w.TurnOff(ctx, system))
	require.NoError(t, w.TurnOff(ctx, system), "again is no error")
	_, err = w.who.AuthenticateSCIM(ctx, w.token)
	assert.True(t, fault.Is(err, fault.Unauthenticated), "its tokens count no more")
	assert.False(t, w.actor(ada.ID).SiteAdmin)
	assert.Equal(t, []ids.User{ada.ID}, w.in(team), "teams keep their members")
	require.NoError(t, w.who.RemoveTeamMembers(ctx, system, team.ID, accounts.TeamMembers{Usernames: []string{"ada"}}))
	_, _, err = w.CreateToken(ctx, system, accounts.NewToken{Description: "x"})
	assert.True(t, fault.HasCode(err, "scim_off"))

	w.turnOn()
	_, total, err := w.GroupNames(ctx, system, "", scim.Page{Limit: 10})
	require.NoError(t, err)
	assert.Zero(t, total)
	_, err = w.Person(ctx, w.idp, ada.ID)
	require.NoError(t, err, "the identity provider finds the people again")
}

// Identity providers send many changes at once.
func TestChangesOfOneGroupAtOnceAllCount(t *testing.T) {
	w := newWorld(t)
	w.organization("acme")
	g, team := w.group("devs"), w.team("acme", "devs")
	require.NoError(t, w.LinkTeam(ctx, system, team.ID, g.ID))
	const n = 6
	var everybody []ids.User
	for i := range n {
		everybody = append(everybody, w.person(fmt.Sprint("p", i)).ID)
	}
	var adding sync.WaitGroup
	failures := make([]error, n)
	for i := range n {
		adding.Go(func() {
			_, failures[i] = w.ChangeGroup(ctx, w.idp, g.ID, func(before scim.Group) (scim.Group, error) {
				before.Members = append(before.Members, everybody[i])
				return before, nil
			})
		})
	}
	adding.Wait()
	for _, err := range failures {
		require.NoError(t, err)
	}
	assert.Equal(t, sorted(everybody...), w.in(team))
}

func TestLinksAreRefused(t *testing.T) {
	w := newWorld(t)
	w.organization("acme")
	g, team := w.group("devs"), w.team("acme", "devs")
	owners, _, err := w.who.Teams(ctx, system, "acme", accounts.TeamFilter{Names: []string{"owners"}})
	require.NoError(t, err)
	assert.True(t, fault.HasCode(w.LinkTeam(ctx, system, owners[0].ID, g.ID), "owners_team"))
	assert.True(t, fault.Is(w.LinkTeam(ctx, system, "team-nothing", g.ID), fault.NotFound))
	assert.True(t, fault.Is(w.LinkTeam(ctx, system, team.ID, "no\x00group"), fault.NotFound))
	assert.True(t, fault.Is(w.PauseLink(ctx, system, team.ID, true), fault.Conflict))
	assert.True(t, fault.Is(w.UnlinkTeam(ctx, system, team.ID), fault.Conflict))
	require.NoError(t, w.LinkTeam(ctx, system, team.ID, g.ID))
	assert.True(t, fault.Is(w.LinkTeam(ctx, system, team.ID, g.ID), fault.Conflict))
	_, err = w.ChangeSettings(ctx, system, scim.SettingsChange{SiteAdminGroup: &g.ID})
	assert.True(t, fault.Is(err, fault.Invalid), "a group that leads a team makes no site admins")
	_, err = w.ChangeGroup(ctx, w.idp, g.ID, func(before scim.Group) (scim.Group, error) {
		before.DisplayName, before.Members = "other", []ids.User{"user-nobody"}
		return before, nil
	})
	assert.True(t, fault.Is(err, fault.Invalid))
	now, err := w.Group(ctx, w.idp, g.ID)
	require.NoError(t, err)
	assert.Equal(t, "devs", now.DisplayName, "all or nothing")
}
