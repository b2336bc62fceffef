package notifications

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/artifacts"
	"github.com/holdfast-run/holdfast/artifacts/storetest"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/envelope"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/internal/testdb"
	"github.com/holdfast-run/holdfast/outbound"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/workspaces"
)

// world is an organization with a workspace, its owner ada and its member bob, and a receiver
// on this machine that the operator has allowed.
type world struct {
	*testing.T
	*Service
	objects  *artifacts.Service
	spaces   *workspaces.Service
	org      accounts.Organization
	project  ids.Project
	ws       ids.Workspace
	ada, bob authz.Actor
	receiver *receiver
	runs     int
}

func newWorld(t *testing.T, change ...func(*Settings)) *world {
	t.Helper()
	t.Parallel()
	ctx, db := t.Context(), testdb.New(t)
	path := filepath.Join(t.TempDir(), "keyring")
	require.NoError(t, envelope.CreateKeyring(path))
	ring, err := envelope.OpenKeyring(path)
	require.NoError(t, err)
	objects := artifacts.New(db, storetest.NewMemory(), ring)
	who := accounts.New(db, objects)
	w := &world{T: t, objects: objects, spaces: workspaces.New(db, who, objects), receiver: receive(t)}
	w.org, err = w.spaces.CreateOrganization(ctx, authz.System(), accounts.NewOrganization{Name: "acme"})
	require.NoError(t, err)
	actor := func(name string, role authz.Role) authz.Actor {
		u, err := who.CreateUser(ctx, authz.System(), accounts.NewUser{Username: name, Email: name + "@acme.test"})
		require.NoError(t, err)
		require.NoError(t, who.AddMember(ctx, authz.System(), w.org.ID, u.ID, role))
		return authz.Actor{Kind: authz.UserActor, User: u.ID, Name: name, Roles: map[ids.Organization]authz.Role{w.org.ID: role}}
	}
	w.ada, w.bob = actor("ada", authz.Owner), actor("bob", authz.Member)
	w.bob.Grants = map[ids.Organization]authz.Grants{w.org.ID: {Levels: []authz.Level{"organization:read-workspaces", "organization:read-projects"}}}
	project, err := w.spaces.DefaultProject(ctx, w.ada, "acme")
	require.NoError(t, err)
	w.project = project.ID
	ws, err := w.spaces.Create(ctx, w.ada, "acme", workspaces.NewWorkspace{Name: "shop"})
	require.NoError(t, err)
	w.ws = ws.ID
	settings := Defaults()
	settings.Address = "https://tofu.test"
	settings.Document = func(e Event) ([]byte, error) {
		return json.Marshal(map[string]string{"run": string(e.RunID), "event": e.Name(), "url": e.URL, "by": e.By})
	}
	for _, one := range change {
		one(&settings)
	}
	client := outbound.New(outbound.Settings{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	w.Service = New(db, objects, client, settings)
	return w
}

// receiver is a server of somebody else's. It answers with the statuses that it was told, the last one again
// and again.
type receiver struct {
	url string

	mu       sync.Mutex
	statuses []int
	body     string
	got      []received
	arrived  chan received
}

type received struct {
	event, run, url, by string
	signature           string
	raw                 []byte
}

func receive(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{statuses: []int{http.StatusOK}, body: "thanks", arrived: make(chan received, 100)}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		raw, _ := io.ReadAll(req.Body)
		var doc map[string]any
		_ = json.Unmarshal(raw, &doc)
		text := func(name string) string { s, _ := doc[name].(string); return s }
		one := received{event: text("event"), run: text("run"), url: text("url"), by: text("by"), signature: req.Header.Get(SignatureHeader), raw: raw}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.got = append(r.got, one)
		status := r.statuses[0]
		if len(r.statuses) > 1 {
			r.statuses = r.statuses[1:]
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, r.body)
		r.arrived <- one
	}))
	t.Cleanup(server.Close)
	r.url = server.URL
	return r
}

func (r *receiver) answer(body string, statuses ...int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.body, r.statuses = body, statuses
}

// events are those that have come, in order, since the last call.
func (r *receiver) events() (names []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, one := range r.got {
		names = append(names, one.event)
		<-r.arrived
	}
	r.got = nil
	return names
}

var everything = []string{"run:created", "run:planning", "run:needs_attention", "run:applying", "run:completed", "run:errored"}

func ptr[T any](v T) *T { return &v }

// generic is a configuration with all triggers, whose receiver is the world's.
func (w *world) generic(change ...func(*Changes)) Changes {
	ch := Changes{Name: ptr("hook"), Destination: ptr(Generic), Enabled: ptr(true), URL: ptr(w.receiver.url + "/hunter2"), Token: ptr("the key"), Triggers: &everything}
	for _, one := range change {
		one(&ch)
	}
	return ch
}

// subscribed makes such a configuration of the workspace, and forgets its verification.
func (w *world) subscribed(change ...func(*Changes)) Configuration {
	w.Helper()
	c, err := w.Create(w.Context(), w.ada, Subscribable{Workspace: w.ws}, w.generic(change...))
	require.NoError(w, err)
	w.receiver.events()
	return c
}

// run writes the rows of a new run.
func (w *world) run() ids.Run {
	w.Helper()
	w.runs++
	id := ids.New[ids.Run]()
	w.inTx(func(ctx context.Context, tx postgres.Tx) error {
		for _, sql := range []string{
			`insert into objects (id, organization_id, workspace_id, kind, key_version, wrapped_dek)
			 select 'obj-' || @id, @org, @ws, 'configuration', max(version), '' from organization_keys where organization_id = @org`,
			"insert into configuration_versions (id, organization_id, workspace_id, status, object_id) values ('cv-' || @id, @org, @ws, 'uploaded', 'obj-' || @id)",
			`insert into runs (id, plan_id, apply_id, organization_id, workspace_id, queue_seq, message, created_by, configuration_version_id, configuration_object_id, run_variables_sealed, variables_sealed)
			 values (@id, 'plan-' || @id, 'apply-' || @id, @org, @ws, @seq, 'a <change>', @user, 'cv-' || @id, 'obj-' || @id, '', '')`,
		} {
			if _, err := postgres.Exec(ctx, tx, sql, postgres.Args{"id": id, "org": w.org.ID, "ws": w.ws, "seq": w.runs, "user": w.ada.User}); err != nil {
				return err
			}
		}
		return nil
	})
	return id
}

// step writes a step into the run's history, as package runs does.
func (w *world) step(run ids.Run, from, to string) {
	w.Helper()
	w.inTx(func(ctx context.Context, tx postgres.Tx) error {
		_, err := postgres.Exec(ctx, tx, `insert into run_history (run_id, position, from_status, to_status, actor_kind, actor_id)
			values (@id, (select count(*) from run_history where run_id = @id), @from, @to, 'user', @user)`, postgres.Args{"id": run, "from": from, "to": to, "user": w.ada.User})
		if err != nil {
			return err
		}
		return RunStepped(ctx, tx, run, from, to, false)
	})
}

// planned walks a run to its approval: three events.
func (w *world) planned(run ids.Run) {
	w.Helper()
	w.step(run, "dispatch_pending", "queued")
	w.step(run, "queued", "planning")
	w.step(run, "policy_passed", "awaiting_approval")
}

func (w *world) inTx(fn func(ctx context.Context, tx postgres.Tx) error) {
	w.Helper()
	require.NoError(w, postgres.InTx(w.Context(), w.db, "test", func(tx postgres.Tx) error { return fn(w.Context(), tx) }))
}

func (w *world) deliver() int {
	w.Helper()
	n, err := w.Deliver(w.Context())
	require.NoError(w, err)
	return n
}

// log is the configuration's, the oldest first, as status and trigger.
func (w *world) log(id ids.NotificationConfiguration) (lines []string) {
	w.Helper()
	list, _, err := w.Deliveries(w.Context(), w.ada, id, accounts.Page{Size: 100})
	require.NoError(w, err)
	for i := len(list) - 1; i >= 0; i-- {
		lines = append(lines, list[i].Status+" "+string(list[i].Trigger))
	}
	return lines
}

func (w *world) value(sql string, args postgres.Args) (n int) {
	w.Helper()
	w.inTx(func(ctx context.Context, tx postgres.Tx) (err error) {
		n, err = postgres.Value[int](ctx, tx, sql, args)
		return err
	})
	return n
}

func atOnce(pauses int) func(*Settings) {
	return func(s *Settings) { s.Pauses = make([]time.Duration, pauses) }
}
