package runtasks_test

import (
	"crypto/hmac"
	"crypto/sha512"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/artifacts"
	"github.com/holdfast-run/holdfast/artifacts/storetest"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/envelope"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/internal/testdb"
	"github.com/holdfast-run/holdfast/outbound"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/runtasks"
	"github.com/holdfast-run/holdfast/workspaces"
)

// world is an organization with a workspace, its owner ada and its member bob, and a service on this machine.
type world struct {
	*runtasks.Service
	db       *postgres.DB
	ws       ids.Workspace
	ada, bob authz.Actor
	url      string
	status   int
	asked    []*http.Request
	bodies   []string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	t.Parallel()
	ctx, db := t.Context(), testdb.New(t)
	path := filepath.Join(t.TempDir(), "keyring")
	require.NoError(t, envelope.CreateKeyring(path))
	ring, err := envelope.OpenKeyring(path)
	require.NoError(t, err)
	objects := artifacts.New(db, storetest.NewMemory(), ring)
	who := accounts.New(db, objects)
	spaces := workspaces.New(db, who, objects)
	org, err := spaces.CreateOrganization(ctx, authz.System(), accounts.NewOrganization{Name: "acme"})
	require.NoError(t, err)
	w := &world{db: db, status: http.StatusOK}
	actor := func(name string, role authz.Role) authz.Actor {
		u, err := who.CreateUser(ctx, authz.System(), accounts.NewUser{Username: name})
		require.NoError(t, err)
		return authz.Actor{Kind: authz.UserActor, User: u.ID, Name: name, Roles: map[ids.Organization]authz.Role{org.ID: role}}
	}
	w.ada, w.bob = actor("ada", authz.Owner), actor("bob", authz.Member)
	w.bob.Grants = map[ids.Organization]authz.Grants{org.ID: {Levels: []authz.Level{"organization:read-workspaces"}}}
	ws, err := spaces.Create(ctx, w.ada, "acme", workspaces.NewWorkspace{Name: "shop"})
	require.NoError(t, err)
	w.ws = ws.ID
	server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.asked, w.bodies = append(w.asked, r), append(w.bodies, string(body))
		out.WriteHeader(w.status)
	}))
	t.Cleanup(server.Close)
	w.url = server.URL + "/hunter2"
	settings := runtasks.Defaults()
	settings.Document = func(r runtasks.Request) ([]byte, error) { return []byte(map[bool]string{true: "test"}[r.Test]), nil }
	w.Service = runtasks.New(db, objects, outbound.New(outbound.Settings{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}), settings)
	return w
}

func ptr[T any](v T) *T { return &v }

func (w *world) changes() runtasks.TaskChanges {
	return runtasks.TaskChanges{Name: ptr("checker"), URL: &w.url, HMACKey: ptr("the key")}
}

func TestEveryQueryFitsTheSchema(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	assert.NotEmpty(t, runtasks.Queries)
	for name, sql := range runtasks.Queries {
		assert.NoError(t, postgres.Prepare(t.Context(), db, name, sql), name)
	}
}

// TestATaskIsTestedAndSealed: its service must answer a signed test, and neither address nor key stands in a row in plain.
func TestATaskIsTestedAndSealed(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	w.status = http.StatusNotFound
	_, err := w.Create(ctx, w.ada, "acme", w.changes())
	require.True(t, fault.HasCode(err, "verification_failed"), err)
	assert.NotContains(t, err.Error(), "hunter2")
	w.status = http.StatusOK
	task, err := w.Create(ctx, w.ada, "acme", w.changes())
	require.NoError(t, err)
	require.Len(t, w.bodies, 2)
	mac := hmac.New(sha512.New, []byte("the key"))
	mac.Write([]byte(w.bodies[1]))
	assert.Equal(t, "test", w.bodies[1])
	assert.Equal(t, hex.EncodeToString(mac.Sum(nil)), w.asked[1].Header.Get("X-TFC-Task-Signature"))

	_, err = w.Update(ctx, w.ada, task.ID, runtasks.TaskChanges{Description: ptr("new")})
	require.NoError(t, err)
	assert.Len(t, w.bodies, 2, "a description needs no test")
	w.status = http.StatusTeapot
	_, err = w.Update(ctx, w.ada, task.ID, runtasks.TaskChanges{URL: ptr(w.url + "/other")})
	require.True(t, fault.HasCode(err, "verification_failed"), err)
	task, err = w.Get(ctx, w.ada, task.ID)
	require.NoError(t, err)
	assert.Equal(t, []string{w.url, "new", "the key"}, []string{task.URL, task.Description, task.HMACKey})

	for _, table := range []string{"run_tasks", "audit_entries"} {
		require.NoError(t, postgres.InSnapshot(ctx, w.db, "test", func(tx postgres.Tx) error {
			n, err := postgres.Value[int](ctx, tx, "select count(*) from "+table+" t where t::text like '%hunter2%' or t::text like '%the key%'", nil)
			assert.Zero(t, n, table)
			return err
		}))
	}
}

func TestWhatATaskMayBe(t *testing.T) {
	w := newWorld(t)
	for says, wrong := range map[string]func(*runtasks.TaskChanges){
		"Name can't be blank":   func(c *runtasks.TaskChanges) { c.Name = nil },
		"Name is too long":      func(c *runtasks.TaskChanges) { c.Name = ptr(strings.Repeat("x", 201)) },
		"Url can't be blank":    func(c *runtasks.TaskChanges) { c.URL = nil },
		"does not call":         func(c *runtasks.TaskChanges) { c.URL = ptr("http://169.254.169.254/") },
		"Hmac key is too long":  func(c *runtasks.TaskChanges) { c.HMACKey = ptr(strings.Repeat("x", 1001)) },
		"at least one stage":    func(c *runtasks.TaskChanges) { c.GlobalEnabled = ptr(true) },
		"each at most once":     func(c *runtasks.TaskChanges) { c.GlobalStages = &[]runtasks.Stage{"pre_plan", "pre_plan"} },
		"Stages are pre_plan":   func(c *runtasks.TaskChanges) { c.GlobalStages = &[]runtasks.Stage{"at_night"} },
		"run:completed":         func(c *runtasks.TaskChanges) { c.GlobalStages = &[]runtasks.Stage{"pre_plan", "post_apply"} },
		"advisory or mandatory": func(c *runtasks.TaskChanges) { c.GlobalEnforcement = ptr(runtasks.Enforcement("strict")) },
	} {
		c := w.changes()
		wrong(&c)
		_, err := w.Create(t.Context(), w.ada, "acme", c)
		require.True(t, fault.Is(err, fault.Invalid), "%s: %v", says, err)
		assert.Contains(t, err.Error(), says)
	}
	assert.Empty(t, w.asked, "nobody was called for these")
}

func TestWhoMayAdministerTasks(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	task, err := w.Create(ctx, w.ada, "acme", w.changes())
	require.NoError(t, err)
	wt, err := w.Attach(ctx, w.ada, runtasks.WorkspaceTask{WorkspaceID: w.ws, TaskID: task.ID, Enforcement: runtasks.Advisory})
	require.NoError(t, err)
	assert.Equal(t, []runtasks.Stage{runtasks.PostPlan}, wt.Stages)
	seen, err := w.Get(ctx, w.bob, task.ID)
	require.NoError(t, err)
	assert.Empty(t, seen.URL)
	list, _, err := w.List(ctx, w.bob, "acme", accounts.Page{})
	require.NoError(t, err)
	assert.Empty(t, list[0].URL)

	stranger := authz.Actor{Kind: authz.UserActor, User: ids.New[ids.User]()}
	for actor, kind := range map[*authz.Actor]fault.Kind{&w.bob: fault.Forbidden, &stranger: fault.NotFound} {
		_, err := w.Create(ctx, *actor, "acme", w.changes())
		assert.True(t, fault.Is(err, kind), err)
		_, err = w.Update(ctx, *actor, task.ID, runtasks.TaskChanges{Name: ptr("x")})
		assert.True(t, fault.Is(err, kind), err)
		assert.True(t, fault.Is(w.Delete(ctx, *actor, task.ID), kind))
		_, err = w.Attach(ctx, *actor, runtasks.WorkspaceTask{WorkspaceID: w.ws, TaskID: task.ID, Enforcement: runtasks.Advisory})
		assert.True(t, fault.Is(err, kind), err)
		_, err = w.UpdateWorkspaceTask(ctx, *actor, w.ws, wt.ID, ptr(runtasks.Mandatory), nil)
		assert.True(t, fault.Is(err, kind), err)
		assert.True(t, fault.Is(w.Detach(ctx, *actor, w.ws, wt.ID), kind))
	}
	_, err = w.Get(ctx, stranger, task.ID)
	assert.True(t, fault.Is(err, fault.NotFound))

	require.NoError(t, w.Delete(ctx, w.ada, task.ID))
	attached, _, err := w.WorkspaceTasks(ctx, w.ada, w.ws, accounts.Page{})
	require.NoError(t, err)
	assert.Empty(t, attached, "nobody asks what is gone")
}
