package workspaces_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/artifacts"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/envelope"
	"github.com/holdfast-run/holdfast/internal/testdb"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/workspaces"
)

var (
	ctx    = context.Background()
	system = authz.System()
)

// newSealer is a real one with a key ring of its own; values need no object store.
func newSealer(t *testing.T, db *postgres.DB) *artifacts.Service {
	path := filepath.Join(t.TempDir(), "keyring")
	require.NoError(t, envelope.CreateKeyring(path))
	ring, err := envelope.OpenKeyring(path)
	require.NoError(t, err)
	return artifacts.New(db, nil, ring)
}

// world is a database with two organizations and people in the first.
type world struct {
	*testing.T
	db *postgres.DB
	*workspaces.Service
	acme, other           accounts.Organization
	owner, member, nobody authz.Actor
}

func newWorld(t *testing.T) world {
	db := testdb.New(t)
	t.Cleanup(func() { assertListed(t, db) })
	sealer := newSealer(t, db)
	who := accounts.New(db, sealer)
	w := world{T: t, db: db, Service: workspaces.New(db, who, sealer)}
	w.acme, w.other = w.organization("acme"), w.organization("other")
	actor := func(name string, role authz.Role) authz.Actor {
		u, err := who.CreateUser(ctx, system, accounts.NewUser{Username: name})
		require.NoError(t, err)
		if role != "" {
			require.NoError(t, who.AddMember(ctx, system, w.acme.ID, u.ID, role))
		}
		if role == authz.Member { // who reads everything, by a team
			team, err := who.CreateTeam(ctx, system, "acme", accounts.TeamSettings{Name: ptr("readers"), Access: map[string]bool{"read-workspaces": true, "read-projects": true}})
			require.NoError(t, err)
			require.NoError(t, who.AddTeamMembers(ctx, system, team.ID, accounts.TeamMembers{Usernames: []string{name}}))
		}
		token, _, err := who.CreateUserToken(ctx, system, u.ID, "", 0)
		require.NoError(t, err)
		a, err := who.Authenticate(ctx, token)
		require.NoError(t, err)
		return a
	}
	w.owner, w.member, w.nobody = actor("ada", authz.Owner), actor("bob", authz.Member), actor("eve", "")
	return w
}

// assertListed finds every workspace in the lists as it is, and as many as there are.
func assertListed(t *testing.T, db *postgres.DB) {
	t.Helper()
	const unlike = `select id from workspaces w full join listed_workspaces l using (id)
        where (w.organization_id, w.project_id, w.name, lower(w.name), w.last_run_at, w.deleted_at)
              is distinct from (l.organization_id, l.project_id, l.name, l.lower_name, l.last_run_at, l.deleted_at)`
	const miscounted = `select project_id from (select organization_id, project_id, count(*) as living from workspaces where deleted_at is null group by 1, 2) w
        full join (select organization_id, project_id, sum(living) as living from workspace_counts group by 1, 2) c using (organization_id, project_id)
        where coalesce(w.living, 0) <> coalesce(c.living, 0)`
	assert.NoError(t, postgres.InTx(ctx, db, "test.listed", func(tx postgres.Tx) error {
		wrong, err := postgres.Values[string](ctx, tx, unlike, nil)
		assert.Empty(t, wrong, "these are not listed as they are")
		if err != nil {
			return err
		}
		wrong, err = postgres.Values[string](ctx, tx, miscounted, nil)
		assert.Empty(t, wrong, "these projects are not counted as they are")
		return err
	}))
}

func (w world) organization(name string) accounts.Organization {
	w.Helper()
	org, err := w.CreateOrganization(ctx, system, accounts.NewOrganization{Name: name})
	require.NoError(w, err)
	return org
}

func (w world) workspace(organization, name string) workspaces.Workspace {
	w.Helper()
	ws, err := w.Create(ctx, system, organization, workspaces.NewWorkspace{Name: name})
	require.NoError(w, err)
	return ws
}

func (w world) tx(fn func(tx postgres.Tx) error) error {
	return postgres.InTx(ctx, w.db, "test", fn)
}

func (w world) audited(action string) (n int) {
	w.Helper()
	require.NoError(w, w.tx(func(tx postgres.Tx) (err error) {
		n, err = postgres.Value[int](ctx, tx, "select count(*) from audit_entries where action = @action", postgres.Args{"action": action})
		return err
	}))
	return n
}

func ptr[T any](v T) *T { return &v }
