package scim_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/scim"
)

func TestEveryQueryFitsTheSchema(t *testing.T) {
	w := newWorld(t)
	require.NotEmpty(t, scim.Queries)
	for name, sql := range scim.Queries {
		assert.NoError(t, postgres.Prepare(ctx, w.db, name, sql), name)
	}
}

func TestADeactivatedPersonIsOutAtOnce(t *testing.T) {
	w := newWorld(t)
	const password = "a long enough password"
	p, org := w.person("ada"), w.organization("acme")
	require.NoError(t, w.who.AddMember(ctx, system, org.ID, p.ID, authz.Owner))
	require.NoError(t, w.who.SetPassword(ctx, system, "ada", password))
	token := w.userToken(p.ID)
	session, err := w.who.SignIn(ctx, "ada", password, "192.0.2.1")
	require.NoError(t, err)
	login := accounts.LoginRequest{Client: accounts.LoginClient, RedirectURI: "http://localhost:10000/login", Challenge: "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"}
	code, err := w.who.CreateLoginCode(ctx, session, login, "here")
	require.NoError(t, err)
	isOut := func(when string) {
		t.Helper()
		_, err := w.who.Authenticate(ctx, token)
		assert.True(t, fault.Is(err, fault.Unauthenticated), when+": its token")
		_, err = w.who.AuthenticateSession(ctx, session)
		assert.True(t, fault.Is(err, fault.Unauthenticated), when+": its session")
	}

	w.setActive(p.ID, false)
	isOut("deactivated")
	_, err = w.who.SignIn(ctx, "ada", password, "192.0.2.1")
	assert.True(t, fault.HasCode(err, "wrong_password"), "nor does it sign in: %v", err)
	_, _, err = w.who.RedeemLoginCode(ctx, accounts.LoginExchange{Code: code, Client: login.Client, RedirectURI: login.RedirectURI, Verifier: "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"})
	assert.True(t, fault.HasCode(err, "invalid_grant"), "nor does a login that it had begun end: %v", err)
	meanwhile := w.userToken(p.ID)
	_, err = w.who.Authenticate(ctx, meanwhile)
	assert.True(t, fault.Is(err, fault.Unauthenticated), "nor does a token that a site admin makes for it count")
	require.NoError(t, postgres.InTx(ctx, w.db, "test", func(tx postgres.Tx) error {
		later, err := accounts.ActorOf(ctx, tx, p.ID)
		assert.False(t, authz.Can(later, authz.WorkspaceRead, authz.Object{Organization: org.ID}), "what it asked for earlier has no right")
		return err
	}))

	w.setActive(p.ID, true)
	isOut("active again")
	_, err = w.who.Authenticate(ctx, meanwhile)
	assert.True(t, fault.Is(err, fault.Unauthenticated), "nor one of the time in between")
	assert.True(t, w.actor(p.ID).IsOwner(org.ID), "with a new token it is what it was")
	_, err = w.who.SignIn(ctx, "ada", password, "192.0.2.1")
	require.NoError(t, err)
	assert.Equal(t, []int{1, 1}, []int{w.audited("user.deactivated"), w.audited("user.reactivated")})
}

// A membership of the last owner is kept by nobody who could act as one: who is deactivated does not count.
func TestADeactivatedOwnerIsNoOwnerWhoStays(t *testing.T) {
	w := newWorld(t)
	ada, bob, org := w.person("ada"), w.person("bob"), w.organization("acme")
	for _, p := range []scim.Person{ada, bob} {
		require.NoError(t, w.who.AddMember(ctx, system, org.ID, p.ID, authz.Owner))
	}
	w.setActive(ada.ID, false)
	list, _, err := w.who.Memberships(ctx, system, "acme", accounts.MembershipFilter{Query: "bob"})
	require.NoError(t, err)
	require.Len(t, list, 1)
	assert.True(t, fault.HasCode(w.who.RemoveMembership(ctx, system, list[0].ID), "last_owner"))
}

func TestWhoIsKeptByHandStaysSo(t *testing.T) {
	w := newWorld(t)
	root, err := w.who.CreateUser(ctx, system, accounts.NewUser{Username: "root", Email: "root@corp.test", SiteAdmin: true})
	require.NoError(t, err)
	_, err = w.CreatePerson(ctx, w.idp, scim.Person{UserName: "root", Email: "ROOT@corp.test", Active: false, Attributes: json.RawMessage("{}")})
	assert.True(t, fault.HasCode(err, "kept_by_hand"), "%v", err)
	p := w.person("ada")
	_, err = w.ChangePerson(ctx, w.idp, p.ID, func(p scim.Person) (scim.Person, error) {
		p.Email = "root@corp.test"
		return p, nil
	})
	assert.True(t, fault.HasCode(err, "taken"), "nor is it taken over by its address: %v", err)
	_, err = w.Person(ctx, w.idp, root.ID)
	assert.True(t, fault.Is(err, fault.NotFound))
	assert.True(t, w.actor(root.ID).SiteAdmin, "it is active and what it was")
}

func TestAnAccountWithTheAddressIsTakenUp(t *testing.T) {
	w := newWorld(t)
	w.organization("acme")
	ada, err := w.who.CreateUser(ctx, system, accounts.NewUser{Username: "ada", Email: "Ada@corp.test"})
	require.NoError(t, err)
	_, err = w.who.Invite(ctx, system, "acme", "bob@corp.test", nil)
	require.NoError(t, err)

	adopted := w.person("ada")
	assert.Equal(t, ada.ID, adopted.ID)
	invited := w.person("bob")
	user, err := w.who.User(ctx, system, invited.ID)
	require.NoError(t, err)
	assert.Equal(t, "bob", user.Username)
	assert.Len(t, w.actor(invited.ID).Roles, 1, "the invitation is taken")

	_, err = w.CreatePerson(ctx, w.idp, scim.Person{UserName: "other", Email: "ada@corp.test", Active: true, Attributes: json.RawMessage("{}")})
	assert.True(t, fault.HasCode(err, "taken"), "one account is one person: %v", err)
	_, err = w.CreatePerson(ctx, w.idp, scim.Person{UserName: "ADA@corp.test", Active: true, Attributes: json.RawMessage("{}")})
	assert.True(t, fault.HasCode(err, "taken"), "%v", err)
}

func TestUsernamesAreMadeFromWhatPeopleAreCalled(t *testing.T) {
	w := newWorld(t)
	for called, want := range map[string]string{"ada@corp.test": "ada", "Åsa Öberg@corp.test": "sa-berg", "@": "user"} {
		p, err := w.CreatePerson(ctx, w.idp, scim.Person{UserName: called, Active: true, Attributes: json.RawMessage("{}")})
		require.NoError(t, err)
		user, err := w.who.User(ctx, system, p.ID)
		require.NoError(t, err)
		assert.Equal(t, want, user.Username, called)
	}
	p, err := w.CreatePerson(ctx, w.idp, scim.Person{UserName: "ada@other.test", Active: true, Attributes: json.RawMessage("{}")})
	require.NoError(t, err)
	user, err := w.who.User(ctx, system, p.ID)
	require.NoError(t, err)
	assert.Equal(t, "ada-2", user.Username)
}

func TestADeletedPersonKeepsNoRight(t *testing.T) {
	w := newWorld(t)
	p, acme, solo := w.person("ada"), w.organization("acme"), w.organization("solo")
	other, err := w.who.CreateUser(ctx, system, accounts.NewUser{Username: "other"})
	require.NoError(t, err)
	require.NoError(t, w.who.AddMember(ctx, system, acme.ID, other.ID, authz.Owner))
	require.NoError(t, w.who.AddMember(ctx, system, acme.ID, p.ID, authz.Owner))
	require.NoError(t, w.who.AddMember(ctx, system, solo.ID, p.ID, authz.Owner))
	token := w.userToken(p.ID)

	require.NoError(t, w.DeletePerson(ctx, w.idp, p.ID))
	_, err = w.who.Authenticate(ctx, token)
	assert.True(t, fault.Is(err, fault.Unauthenticated))
	_, err = w.Person(ctx, w.idp, p.ID)
	assert.True(t, fault.Is(err, fault.NotFound))
	assert.True(t, fault.Is(w.DeletePerson(ctx, w.idp, p.ID), fault.NotFound))
	for organization, want := range map[string]int{"acme": 1, "solo": 1} { // of solo it is the last owner
		_, total, err := w.who.Memberships(ctx, system, organization, accounts.MembershipFilter{})
		require.NoError(t, err)
		assert.Equal(t, want, total, organization)
	}

	again := w.person("ada")
	assert.Equal(t, p.ID, again.ID, "the account is taken up again")
	roles := w.actor(again.ID).Roles
	assert.Equal(t, 1, len(roles), "with what it was left alone")
	assert.Equal(t, authz.Owner, roles[solo.ID])
}

func TestAPausedSiteChangesNothing(t *testing.T) {
	w := newWorld(t)
	p := w.person("ada")
	paused := true
	_, err := w.ChangeSettings(ctx, system, scim.SettingsChange{Paused: &paused})
	require.NoError(t, err)
	_, err = w.CreatePerson(ctx, w.idp, scim.Person{UserName: "bob", Active: true, Attributes: json.RawMessage("{}")})
	assert.True(t, fault.HasCode(err, "provisioning_paused"), "%v", err)
	assert.True(t, fault.HasCode(w.DeletePerson(ctx, w.idp, p.ID), "provisioning_paused"))
	_, err = w.CreateGroup(ctx, w.idp, scim.Group{DisplayName: "g"})
	assert.True(t, fault.HasCode(err, "provisioning_paused"))
	found, total, err := w.People(ctx, w.idp, scim.Match{}, scim.Page{Limit: 10})
	require.NoError(t, err)
	assert.Equal(t, 1, total, "it reads all the same")
	assert.Equal(t, "ada@corp.test", found[0].UserName)
}

func TestAChangeThatFailsChangesNothing(t *testing.T) {
	w := newWorld(t)
	p, broken := w.person("ada"), errors.New("broken")
	_, err := w.ChangePerson(ctx, w.idp, p.ID, func(scim.Person) (scim.Person, error) { return scim.Person{}, broken })
	assert.ErrorIs(t, err, broken)
	w.person("bob")
	_, err = w.ChangePerson(ctx, w.idp, p.ID, func(p scim.Person) (scim.Person, error) {
		p.UserName, p.Active = "BOB@corp.test", false
		return p, nil
	})
	assert.True(t, fault.HasCode(err, "taken"), "%v", err)
	now, err := w.Person(ctx, w.idp, p.ID)
	require.NoError(t, err)
	assert.True(t, now.Active)
	w.actor(p.ID) // is not out
}

// Only a SCIM token provisions, and only a site admin sets up.
func TestWhoMayWhat(t *testing.T) {
	w := newWorld(t)
	p, org := w.person("ada"), w.organization("acme")
	require.NoError(t, w.who.AddMember(ctx, system, org.ID, p.ID, authz.Owner))
	owner := w.actor(p.ID)
	_, err := w.CreatePerson(ctx, owner, scim.Person{UserName: "x", Attributes: json.RawMessage("{}")})
	assert.True(t, fault.Is(err, fault.Forbidden))
	_, _, err = w.People(ctx, owner, scim.Match{}, scim.Page{})
	assert.True(t, fault.Is(err, fault.Forbidden))
	_, err = w.ChangeGroup(ctx, owner, "scimgroup-x", nil)
	assert.True(t, fault.Is(err, fault.Forbidden))
	for _, actor := range []authz.Actor{owner, w.idp} {
		_, err = w.Settings(ctx, actor)
		assert.True(t, fault.Is(err, fault.NotFound))
		_, _, err = w.CreateToken(ctx, actor, accounts.NewToken{Description: "x"})
		assert.True(t, fault.Is(err, fault.NotFound))
		_, _, err = w.GroupNames(ctx, actor, "", scim.Page{})
		assert.True(t, fault.Is(err, fault.NotFound))
		assert.True(t, fault.Is(w.LinkTeam(ctx, actor, "team-x", "g"), fault.NotFound))
		assert.True(t, fault.Is(w.TurnOff(ctx, actor), fault.NotFound))
		_, err = w.SAML(ctx, actor)
		assert.True(t, fault.Is(err, fault.NotFound))
		_, err = w.ChangeSAML(ctx, actor, scim.SAMLChange{})
		assert.True(t, fault.Is(err, fault.NotFound))
	}
}
