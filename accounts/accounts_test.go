package accounts_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/artifacts"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/envelope"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/internal/testdb"
	"github.com/holdfast-run/holdfast/postgres"
)

var (
	ctx    = context.Background()
	system = authz.System()
)

// keys remembers for which organizations a key was made. What is a user's it really seals.
type keys struct {
	accounts.Sealer
	made []ids.Organization
}

func (k *keys) CreateOrganizationKey(_ context.Context, _ postgres.Tx, org ids.Organization) error {
	k.made = append(k.made, org)
	return nil
}

// world is a database with the service on it.
type world struct {
	*testing.T
	db   *postgres.DB
	keys *keys
	*accounts.Service
}

func newWorld(t *testing.T) world {
	path := t.TempDir() + "/keyring"
	require.NoError(t, envelope.CreateKeyring(path))
	ring, err := envelope.OpenKeyring(path)
	require.NoError(t, err)
	db := testdb.New(t)
	k := &keys{Sealer: artifacts.New(db, nil, ring)}
	return world{T: t, db: db, keys: k, Service: accounts.New(db, k)}
}

func (w world) user(name string) accounts.User {
	w.Helper()
	u, err := w.CreateUser(ctx, system, accounts.NewUser{Username: name})
	require.NoError(w, err)
	return u
}

func (w world) organization(name string) accounts.Organization {
	w.Helper()
	org, err := w.createOrganization(system, accounts.NewOrganization{Name: name})
	require.NoError(w, err)
	return org
}

func (w world) createOrganization(actor authz.Actor, n accounts.NewOrganization) (org accounts.Organization, err error) {
	err = postgres.InTx(ctx, w.db, "test", func(tx postgres.Tx) (err error) {
		org, err = w.CreateOrganization(ctx, tx, actor, n)
		return err
	})
	return org, err
}

// actor logs the user in by a fresh token.
func (w world) actor(u accounts.User) authz.Actor {
	w.Helper()
	token, _, err := w.CreateUserToken(ctx, system, u.ID, "", 0)
	require.NoError(w, err)
	actor, err := w.Authenticate(ctx, token)
	require.NoError(w, err)
	return actor
}

func (w world) member(name string, org accounts.Organization, role authz.Role) authz.Actor {
	w.Helper()
	u := w.user(name)
	require.NoError(w, w.AddMember(ctx, system, org.ID, u.ID, role))
	return w.actor(u)
}

// owners is the id of the team that every organization has.
func (w world) owners(org accounts.Organization) ids.Team {
	w.Helper()
	teams, _, err := w.Teams(ctx, system, org.Name, accounts.TeamFilter{Names: []string{"owners"}})
	require.NoError(w, err)
	require.Len(w, teams, 1)
	return teams[0].ID
}

func (w world) exec(sql string, args postgres.Args) {
	w.Helper()
	require.NoError(w, postgres.InTx(ctx, w.db, "test", func(tx postgres.Tx) error {
		_, err := postgres.Exec(ctx, tx, sql, args)
		return err
	}))
}

func (w world) count(sql string, args postgres.Args) (n int) {
	w.Helper()
	require.NoError(w, postgres.InTx(ctx, w.db, "test", func(tx postgres.Tx) (err error) {
		n, err = postgres.Value[int](ctx, tx, sql, args)
		return err
	}))
	return n
}

// dump is every text and byte the accounts' tables hold.
func (w world) dump() string {
	w.Helper()
	var rows []string
	for _, table := range []string{"users", "tokens", "runner_groups", "audit_entries", "sessions", "login_codes", "sign_in_attempts", "totp_factors", "recovery_codes"} {
		require.NoError(w, postgres.InTx(ctx, w.db, "test", func(tx postgres.Tx) error {
			found, err := postgres.Values[string](ctx, tx, "select row_to_json(t)::text from "+table+" t", postgres.Args{})
			rows = append(rows, found...)
			return err
		}))
	}
	return strings.Join(rows, "\n")
}

// noKeys is a sealer whose key ring is away.
type noKeys struct{ accounts.Sealer }

func (noKeys) CreateOrganizationKey(context.Context, postgres.Tx, ids.Organization) error {
	return errNoKeys
}
