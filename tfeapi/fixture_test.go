package tfeapi

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"log/slog"
	"net/http/httptest"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/hashicorp/go-tfe"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/approvals"
	"github.com/holdfast-run/holdfast/artifacts"
	"github.com/holdfast-run/holdfast/artifacts/storetest"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/dispatch"
	"github.com/holdfast-run/holdfast/envelope"
	"github.com/holdfast-run/holdfast/gates"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/internal/testdb"
	"github.com/holdfast-run/holdfast/notifications"
	"github.com/holdfast-run/holdfast/outbound"
	"github.com/holdfast-run/holdfast/policies"
	"github.com/holdfast-run/holdfast/policies/evaluator"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/recovery"
	"github.com/holdfast-run/holdfast/registry"
	"github.com/holdfast-run/holdfast/runs"
	"github.com/holdfast-run/holdfast/runtasks"
	"github.com/holdfast-run/holdfast/scim"
	"github.com/holdfast-run/holdfast/site"
	"github.com/holdfast-run/holdfast/state"
	"github.com/holdfast-run/holdfast/throttle"
	"github.com/holdfast-run/holdfast/vcs"
	"github.com/holdfast-run/holdfast/workspaces"
)

// TestMain lets a read of a log be held for so long that whoever gets an answer was woken,
// however slow the machine is.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == evaluator.Command { // this program is the policy-runner, too
		os.Exit(evaluator.Main(os.Stdin, os.Stdout, os.Stderr))
	}
	logHold = time.Hour
	code := m.Run()
	if !closeOpenAPI() {
		code = 1
	}
	os.Exit(code)
}

// world is a whole server on a database of its own, with an organization "acme", its
// owner ann and its member bob, who reads everything by a team.
type world struct {
	*testing.T
	deps     Deps
	engine   func(build string) *runs.Service // another server's on the same database
	url      string
	db       *postgres.DB
	store    *storetest.Memory
	ann, bob string // tokens
	client   *tfe.Client
}

func newWorld(t *testing.T) *world {
	t.Helper()
	t.Parallel()
	ctx, db, store := t.Context(), testdb.New(t), storetest.NewMemory()
	ring := testRing(t)
	links, err := envelope.NewLinks(ctx, ring)
	require.NoError(t, err)
	objects := artifacts.New(db, store, ring)
	who := accounts.New(db, objects)
	spaces := workspaces.New(db, who, objects)
	states := state.New(db, objects)
	attempts := dispatch.New(db, objects, links)
	engine := func(build string) *runs.Service {
		settings := runs.Defaults()
		settings.Build = build
		return runs.New(db, objects, spaces, states, attempts, settings)
	}

	serving := engine("aaa")
	recovered := recovery.Defaults()
	recovered.StepUp = who.RequireStepUp
	server := httptest.NewUnstartedServer(nil)
	w := &world{T: t, db: db, engine: engine, store: store, url: "http://" + server.Listener.Addr().String()}
	telling := notifications.Defaults()
	telling.Address, telling.Document = w.url, NotificationDocument
	callable := outbound.New(outbound.Settings{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	asking := runtasks.Defaults()
	asking.Document = RunTaskDocument(w.url, links)
	w.deps = Deps{
		Notifications: notifications.New(db, objects, callable, telling), RunTasks: runtasks.New(db, objects, callable, asking),
		Authenticate: func(ctx context.Context, token string) (authz.Actor, error) {
			if dispatch.IsToken(token) {
				return serving.Authenticate(ctx, token)
			}
			return who.Authenticate(ctx, token)
		},
		Accounts: who, Workspaces: spaces, State: states, Runs: serving, Gates: gates.New(db), Site: site.New(db), Identity: site.NewIdentity(db, objects), VCS: vcs.New(db, objects), Approvals: approvals.New(db), SCIM: scim.New(db, who.RequireStepUp), Policies: policies.New(db, objects, policyRuntime(t)), Registry: registry.New(db, objects, registry.DefaultLimits()), Dispatch: attempts, Recovery: recovery.New(db, objects, states, attempts, serving, recovered), Links: links, Wake: postgres.Listen(ctx, db, dispatch.LogChannel),
		Ready: store.Ping, Address: w.url, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	}
	w.deps.Limit = throttle.New(0, w.deps.Site.RequestLimit)
	server.Config.Handler = described(t, New(w.deps))
	server.Start()
	t.Cleanup(server.Close)

	ann, annToken := w.user(ctx, "ann")
	org, err := spaces.CreateOrganization(ctx, authz.System(), accounts.NewOrganization{Name: "acme", Email: "ops@acme.test"})
	require.NoError(t, err)
	require.NoError(t, who.AddMember(ctx, authz.System(), org.ID, ann, authz.Owner))
	bob, bobToken := w.user(ctx, "bob")
	require.NoError(t, who.AddMember(ctx, authz.System(), org.ID, bob, authz.Member))
	readers := "readers"
	team, err := who.CreateTeam(ctx, authz.System(), "acme", accounts.TeamSettings{Name: &readers, Access: map[string]bool{"read-workspaces": true, "read-projects": true}})
	require.NoError(t, err)
	require.NoError(t, who.AddTeamMembers(ctx, authz.System(), team.ID, accounts.TeamMembers{Usernames: []string{"bob"}}))
	w.ann, w.bob = annToken, bobToken
	w.client = w.as(annToken)
	return w
}

func testRing(t *testing.T) envelope.Keyring {
	t.Helper()
	path := t.TempDir() + "/keyring"
	require.NoError(t, envelope.CreateKeyring(path))
	ring, err := envelope.OpenKeyring(path)
	require.NoError(t, err)
	return ring
}

func (w *world) user(ctx context.Context, name string) (ids.User, string) {
	w.Helper()
	u, err := w.deps.Accounts.CreateUser(ctx, authz.System(), accounts.NewUser{Username: name, Email: name + "@acme.test"})
	require.NoError(w, err)
	token, _, err := w.deps.Accounts.CreateUserToken(ctx, authz.System(), u.ID, "test", 0)
	require.NoError(w, err)
	return u.ID, token
}

// as is the real client with that token.
func (w *world) as(token string) *tfe.Client {
	w.Helper()
	client, err := tfe.NewClient(&tfe.Config{Address: w.url, Token: token})
	require.NoError(w, err)
	return client
}

func (w *world) workspace(name string) *tfe.Workspace {
	w.Helper()
	ws, err := w.client.Workspaces.Create(w.Context(), "acme", tfe.WorkspaceCreateOptions{Name: &name})
	require.NoError(w, err)
	return ws
}

// runner makes a runner known, so that runs have an OpenTofu version to use.
func (w *world) runner() accounts.RunnerGroup {
	w.Helper()
	token, _, err := w.deps.Accounts.CreateRunnerGroup(w.Context(), authz.System(), "", "local")
	require.NoError(w, err)
	group, err := w.deps.Accounts.RunnerGroupByToken(w.Context(), token)
	require.NoError(w, err)
	_, _, _, err = w.deps.Runs.Poll(w.Context(), group, dispatch.RunnerHello{Name: "r", TofuVersions: []string{"1.12.6"}})
	require.NoError(w, err)
	return group
}

// configuration is a tar.gz with one file.
func configuration(t *testing.T) []byte {
	t.Helper()
	var out bytes.Buffer
	zipped := gzip.NewWriter(&out)
	archive := tar.NewWriter(zipped)
	content := []byte(`resource "terraform_data" "x" {}`)
	require.NoError(t, archive.WriteHeader(&tar.Header{Name: "main.tf", Mode: 0o644, Size: int64(len(content)), Typeflag: tar.TypeReg}))
	_, err := archive.Write(content)
	require.NoError(t, err)
	require.NoError(t, archive.Close())
	require.NoError(t, zipped.Close())
	return out.Bytes()
}
