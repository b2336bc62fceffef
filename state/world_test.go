package state_test

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/hex"
	"fmt"
	"io"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/artifacts"
	"github.com/holdfast-run/holdfast/artifacts/storetest"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/envelope"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/fence"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/internal/testdb"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/state"
	"github.com/holdfast-run/holdfast/workspaces"
)

var (
	ctx    = context.Background()
	system = authz.System()
)

const (
	lineage = "4ec1f0b5-9a1c-1e0a-7a5e-6b8a1d6f0c11"
	other   = "99999999-9a1c-1e0a-7a5e-6b8a1d6f0c11"
)

// world is a database with two organizations, people in the first, and two workspaces.
type world struct {
	*testing.T
	db *postgres.DB
	*state.Service
	store              *storetest.Memory
	ring               envelope.Keyring
	acme               accounts.Organization
	ada, bob, eve, mia authz.Actor // owners ada and bob; eve of another organization; mia a member
	ws, neighbour      ids.Workspace
}

func newWorld(t *testing.T) world {
	memory := storetest.NewMemory()
	w := newWorldOn(t, memory)
	w.store = memory
	return w
}

func newWorldOn(t *testing.T, store artifacts.ObjectStore) world {
	db := testdb.New(t)
	path := filepath.Join(t.TempDir(), "keyring")
	require.NoError(t, envelope.CreateKeyring(path))
	ring, err := envelope.OpenKeyring(path)
	require.NoError(t, err)
	objects := artifacts.New(db, store, ring)
	who := accounts.New(db, objects)
	places := workspaces.New(db, who, objects)
	w := world{T: t, db: db, ring: ring, Service: state.New(db, objects)}
	organization := func(name string) accounts.Organization {
		org, err := places.CreateOrganization(ctx, system, accounts.NewOrganization{Name: name})
		require.NoError(t, err)
		return org
	}
	w.acme = organization("acme")
	foreign := organization("other")
	person := func(name string, org accounts.Organization, role authz.Role) authz.Actor {
		u, err := who.CreateUser(ctx, system, accounts.NewUser{Username: name})
		require.NoError(t, err)
		require.NoError(t, who.AddMember(ctx, system, org.ID, u.ID, role))
		return authz.Actor{
			Kind: authz.UserActor, User: u.ID, Name: name, Roles: map[ids.Organization]authz.Role{org.ID: role},
			Grants: map[ids.Organization]authz.Grants{org.ID: {Levels: []authz.Level{"organization:read-workspaces"}}}, // as a team would give it
		}
	}
	w.ada, w.bob = person("ada", w.acme, authz.Owner), person("bob", w.acme, authz.Owner)
	w.mia, w.eve = person("mia", w.acme, authz.Member), person("eve", foreign, authz.Owner)
	for name, id := range map[string]*ids.Workspace{"net": &w.ws, "web": &w.neighbour} {
		ws, err := places.Create(ctx, system, "acme", workspaces.NewWorkspace{Name: name})
		require.NoError(t, err)
		*id = ws.ID
	}
	return w
}

func (w world) tx(fn func(tx postgres.Tx) error) error {
	return postgres.InTx(ctx, w.db, "test", fn)
}

// exec runs a statement past the code, and gives the database's refusal.
func (w world) exec(sql string, args postgres.Args) error {
	return w.tx(func(tx postgres.Tx) error {
		_, err := postgres.Exec(ctx, tx, sql, args)
		return err
	})
}

func value[T any](w world, sql string, args postgres.Args) (v T) {
	w.Helper()
	require.NoError(w, w.tx(func(tx postgres.Tx) (err error) {
		v, err = postgres.Value[T](ctx, tx, sql, args)
		return err
	}))
	return v
}

// lock takes the workspace for a user.
func (w world) lock(who authz.Actor) fence.Token {
	w.Helper()
	return w.acquire(fence.Holder{Kind: fence.User, ID: string(who.User), Name: who.Name})
}

func (w world) acquire(h fence.Holder) (tok fence.Token) {
	w.Helper()
	require.NoError(w, w.tx(func(tx postgres.Tx) (err error) {
		tok, err = fence.Acquire(ctx, tx, w.ws, h, "test")
		return err
	}))
	return tok
}

func (w world) release(tok fence.Token) {
	w.Helper()
	require.NoError(w, w.tx(func(tx postgres.Tx) error { return fence.Release(ctx, tx, tok) }))
}

// forceUnlock takes the workspace from whoever holds it.
func (w world) forceUnlock() {
	w.Helper()
	require.NoError(w, w.tx(func(tx postgres.Tx) error {
		status, err := fence.Lock(ctx, tx, w.ws)
		if err != nil {
			return err
		}
		_, err = fence.Revoke(ctx, tx, status)
		return err
	}))
}

func (w world) epoch() int64 {
	w.Helper()
	return value[int64](w, "select epoch from workspace_fences where workspace_id = @ws", postgres.Args{"ws": w.ws})
}

// apply makes the actor of an apply attempt whose run holds the workspace.
func (w world) apply(predecessor ids.StateVersion) (authz.Actor, fence.Token) {
	w.Helper()
	run := ids.New[ids.Run]()
	tok := w.acquire(fence.Holder{Kind: fence.Run, ID: string(run)})
	return authz.Actor{
		Kind: authz.AttemptActor, Applying: true, Attempt: ids.New[ids.Attempt](), Run: run, Organization: w.acme.ID, Workspace: w.ws,
		Phase: authz.Apply, Sandbox: "box-1", Epoch: tok.Epoch, Predecessor: predecessor,
	}, tok
}

// current gives the pointer; empty when there is none.
func (w world) current() (id ids.StateVersion) {
	w.Helper()
	require.NoError(w, w.tx(func(tx postgres.Tx) (err error) {
		id, err = state.CurrentID(ctx, tx, w.ws)
		return err
	}))
	return id
}

func (w world) audited(action string) int {
	w.Helper()
	return value[int](w, "select count(*) from audit_entries where action = @action", postgres.Args{"action": action})
}

// file is a state as tofu writes it; mark makes its bytes different.
func file(serial int64, lineage, mark string) []byte {
	return fmt.Appendf(nil, `{
  "version": 4,
  "terraform_version": "1.10.6",
  "serial": %d,
  "lineage": %q,
  "outputs": {
    "greeting": {"value": %q, "type": "string"},
    "password": {"value": {"a":["hunter2-%s"]}, "type": ["object",{"a":["list","string"]}], "sensitive": true}
  },
  "resources": [
    {"module": "module.net[\"a\"]", "mode": "managed", "type": "terraform_data", "name": "one",
     "provider": "provider[\"terraform.io/builtin/terraform\"]", "instances": [{"index_key":0},{"index_key":1}]}
  ],
  "check_results": null
}
`, serial, lineage, mark, mark)
}

func md5of(content []byte) string {
	sum := md5.Sum(content)
	return hex.EncodeToString(sum[:])
}

func announce(serial int64, lineage string, content []byte) state.Create {
	return state.Create{Serial: serial, Lineage: lineage, MD5: md5of(content)}
}

func (w world) begin(who authz.Actor, serial int64, content []byte) state.Version {
	w.Helper()
	v, created, err := w.Begin(ctx, who, w.ws, announce(serial, lineage, content))
	require.NoError(w, err)
	require.True(w, created)
	return v
}

// publish announces and uploads; the workspace must be the actor's.
func (w world) publish(who authz.Actor, serial int64, content []byte) state.Version {
	w.Helper()
	v, err := w.Upload(ctx, w.begin(who, serial, content).ID, bytes.NewReader(content))
	require.NoError(w, err)
	return v
}

func (w world) download(who authz.Actor, id ids.StateVersion) []byte {
	w.Helper()
	body, _, err := w.Download(ctx, who, id)
	require.NoError(w, err)
	content, err := io.ReadAll(body)
	require.NoError(w, err)
	require.NoError(w, body.Close())
	return content
}

func (w world) version(id ids.StateVersion) state.Version {
	w.Helper()
	v, err := w.Version(ctx, w.ada, id)
	require.NoError(w, err)
	return v
}

func wantFault(t testing.TB, err error, kind fault.Kind, code string) {
	t.Helper()
	require.Error(t, err)
	assert.Truef(t, fault.Is(err, kind) && fault.HasCode(err, code), "want %s %s, got %s: %v", kind, code, fault.KindOf(err), err)
}
