package scim_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/artifacts"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/envelope"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/internal/testdb"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/scim"
)

var (
	ctx    = context.Background()
	system = authz.System()
)

// world is a database on which SCIM is on, with an identity provider.
type world struct {
	*testing.T
	*scim.Service
	db        *postgres.DB
	who       *accounts.Service
	token     string
	idp       authz.Actor
	steppedUp *bool // whether the site admin has proved itself lately
}

func newWorld(t *testing.T) world {
	t.Helper()
	t.Parallel()
	path := t.TempDir() + "/keyring"
	require.NoError(t, envelope.CreateKeyring(path))
	ring, err := envelope.OpenKeyring(path)
	require.NoError(t, err)
	db := testdb.New(t)
	w := world{T: t, db: db, who: accounts.New(db, artifacts.New(db, nil, ring)), steppedUp: new(bool)}
	w.Service = scim.New(db, func(context.Context, postgres.Tx, authz.Actor) error {
		if *w.steppedUp {
			return nil
		}
		return fault.New(fault.Forbidden, "step_up_required", "Prove who you are.")
	})
	w.turnOn()
	return w
}

func (w *world) turnOn() {
	w.Helper()
	on := true
	_, err := w.ChangeSettings(ctx, system, scim.SettingsChange{Enabled: &on})
	require.NoError(w, err)
	w.token, _, err = w.CreateToken(ctx, system, accounts.NewToken{Description: "idp"})
	require.NoError(w, err)
	w.idp, err = w.who.AuthenticateSCIM(ctx, w.token)
	require.NoError(w, err)
}

func (w world) person(name string) scim.Person {
	w.Helper()
	p, err := w.CreatePerson(ctx, w.idp, scim.Person{UserName: name + "@corp.test", Email: name + "@corp.test", Active: true, Attributes: json.RawMessage(`{"displayName":"` + name + `"}`)})
	require.NoError(w, err)
	return p
}

func (w world) group(name string, members ...ids.User) scim.Group {
	w.Helper()
	g, err := w.CreateGroup(ctx, w.idp, scim.Group{DisplayName: name, Members: members})
	require.NoError(w, err)
	return g
}

// members makes the users the group's.
func (w world) members(g scim.Group, users ...ids.User) {
	w.Helper()
	_, err := w.ChangeGroup(ctx, w.idp, g.ID, func(before scim.Group) (scim.Group, error) {
		before.Members = users
		return before, nil
	})
	require.NoError(w, err)
}

func (w world) organization(name string) accounts.Organization {
	w.Helper()
	var org accounts.Organization
	require.NoError(w, postgres.InTx(ctx, w.db, "test", func(tx postgres.Tx) (err error) {
		org, err = w.who.CreateOrganization(ctx, tx, system, accounts.NewOrganization{Name: name})
		return err
	}))
	return org
}

func (w world) team(org, name string) accounts.Team {
	w.Helper()
	team, err := w.who.CreateTeam(ctx, system, org, accounts.TeamSettings{Name: &name})
	require.NoError(w, err)
	return team
}

// in gives the members of the team.
func (w world) in(team accounts.Team) []ids.User {
	w.Helper()
	t, err := w.who.Team(ctx, system, team.ID)
	require.NoError(w, err)
	return t.Users
}

// userToken makes a token of the user.
func (w world) userToken(user ids.User) string {
	w.Helper()
	token, _, err := w.who.CreateUserToken(ctx, system, user, "", 0)
	require.NoError(w, err)
	return token
}

// actor is the user by a fresh token.
func (w world) actor(user ids.User) authz.Actor {
	w.Helper()
	actor, err := w.who.Authenticate(ctx, w.userToken(user))
	require.NoError(w, err)
	return actor
}

func (w world) setActive(user ids.User, active bool) {
	w.Helper()
	_, err := w.ChangePerson(ctx, w.idp, user, func(p scim.Person) (scim.Person, error) {
		p.Active = active
		return p, nil
	})
	require.NoError(w, err)
}

// audited counts entries of the audit log.
func (w world) audited(action string) (n int) {
	w.Helper()
	require.NoError(w, postgres.InSnapshot(ctx, w.db, "test", func(tx postgres.Tx) (err error) {
		n, err = postgres.Value[int](ctx, tx, "select count(*) from audit_entries where action = @action", postgres.Args{"action": action})
		return err
	}))
	return n
}
