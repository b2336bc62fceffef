package runnerapi

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/artifacts"
	"github.com/holdfast-run/holdfast/artifacts/storetest"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/dispatch"
	"github.com/holdfast-run/holdfast/envelope"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/internal/testdb"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/recovery"
	"github.com/holdfast-run/holdfast/runnerapi/wire"
	"github.com/holdfast-run/holdfast/runs"
	"github.com/holdfast-run/holdfast/state"
	"github.com/holdfast-run/holdfast/workspaces"
)

const (
	tofu       = "1.12.6"
	tofuDigest = "the-digest-of-the-binary"
	lineage    = "4f6c2f3e-5d0e-7c1b-9a40-0d5a1c7c9e11"
	secret     = "hunter2-the-value-of-a-variable"
)

var (
	ctx    = context.Background()
	system = authz.System()
)

// patience is how long anything that comes may take on a busy machine.
const patience = time.Minute

// TestMain puts the lobby's own look at the table far off: whoever is offered something was
// woken for it, however slow the machine is.
func TestMain(m *testing.M) {
	lookEvery = time.Hour
	os.Exit(m.Run())
}

// world is a whole server, of which the test sees what a runner sees: HTTP. It plays
// the people through the services.
type world struct {
	*testing.T
	db     *postgres.DB
	store  *storetest.Memory
	who    *accounts.Service
	spaces *workspaces.Service
	state  *state.Service
	disp   *dispatch.Service
	runs   *runs.Service
	owner  authz.Actor
	ws     ids.Workspace
	config []byte // the configuration's bytes as they were uploaded

	url      string
	group    string // the group's token
	log      *logs
	stopping chan struct{} // closed by a test: the server is about to end
	settled  chan struct{} // one value for each request that the server has left
}

// logs is what the server logged.
type logs struct {
	mu  sync.Mutex
	out strings.Builder
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.String()
}

func newWorld(t *testing.T) *world {
	t.Helper()
	db, store := testdb.New(t), storetest.NewMemory()
	path := filepath.Join(t.TempDir(), "keyring")
	require.NoError(t, envelope.CreateKeyring(path))
	ring, err := envelope.OpenKeyring(path)
	require.NoError(t, err)
	links, err := envelope.NewLinks(ctx, ring)
	require.NoError(t, err)
	objects := artifacts.New(db, store, ring)
	who := accounts.New(db, objects)
	w := &world{T: t, db: db, store: store, who: who, spaces: workspaces.New(db, who, objects), state: state.New(db, objects), disp: dispatch.New(db, objects, links), log: &logs{}, stopping: make(chan struct{}), settled: make(chan struct{}, 1000)}
	w.runs = runs.New(db, objects, w.spaces, w.state, w.disp, runs.Defaults())

	org, err := w.spaces.CreateOrganization(ctx, system, accounts.NewOrganization{Name: "acme"})
	require.NoError(t, err)
	ada, err := who.CreateUser(ctx, system, accounts.NewUser{Username: "ada"})
	require.NoError(t, err)
	require.NoError(t, who.AddMember(ctx, system, org.ID, ada.ID, authz.Owner))
	token, _, err := who.CreateUserToken(ctx, system, ada.ID, "", 0)
	require.NoError(t, err)
	w.owner, err = who.Authenticate(ctx, token)
	require.NoError(t, err)
	w.ws = w.workspace("app")
	_, err = w.spaces.CreateVariable(ctx, w.owner, w.ws, workspaces.Variable{Key: "password", Value: secret, Category: workspaces.Terraform, Sensitive: true})
	require.NoError(t, err)
	w.config = tarball(t, `resource "terraform_data" "x" {}`)
	w.group, _, err = who.CreateRunnerGroup(ctx, system, org.ID, "runners")
	require.NoError(t, err)

	listening, stop := context.WithCancel(ctx)
	wake := postgres.Listen(listening, db, dispatch.Channel)
	require.Eventually(t, func() bool {
		return value[bool](w, "select exists (select from pg_stat_activity where datname = current_database() and query = 'listen '||@channel::text and state = 'idle')", postgres.Args{"channel": dispatch.Channel})
	}, patience, 5*time.Millisecond, "the LISTEN connection stands")
	handler := New(Deps{Accounts: who, Dispatch: w.disp, Runs: w.runs, Recovery: recovery.New(db, objects, w.state, w.disp, w.runs, recovery.Defaults()), Wake: wake, Stopping: w.stopping, Log: slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		defer func() { w.settled <- struct{}{} }()
		handler.ServeHTTP(rw, r)
	}))
	server.Config.ErrorLog = slog.NewLogLogger(slog.NewTextHandler(t.Output(), nil), slog.LevelInfo)
	t.Cleanup(func() {
		server.Close()
		stop()
		assert.NotContains(t, w.log.String(), secret)
		assert.NotContains(t, w.log.String(), "hfa_", "a credential in the log")
		assert.NotContains(t, w.log.String(), "hfe_", "a credential in the log")
		assert.NotContains(t, w.log.String(), w.group, "a credential in the log")
	})
	w.url = server.URL
	w.poll(0).want(http.StatusNoContent) // makes the version known
	return w
}

func (w *world) workspace(name string) ids.Workspace {
	w.Helper()
	ws, err := w.spaces.Create(ctx, w.owner, "acme", workspaces.NewWorkspace{Name: name})
	require.NoError(w, err)
	return ws.ID
}

func tarball(t *testing.T, text string) []byte {
	t.Helper()
	var out bytes.Buffer
	zipped := gzip.NewWriter(&out)
	archive := tar.NewWriter(zipped)
	content := []byte(text)
	require.NoError(t, archive.WriteHeader(&tar.Header{Name: "main.tf", Mode: 0o644, Size: int64(len(content))}))
	_, err := archive.Write(content)
	require.NoError(t, err)
	require.NoError(t, archive.Close())
	require.NoError(t, zipped.Close())
	return out.Bytes()
}

func (w *world) run(options ...func(*runs.NewRun)) runs.Detail {
	w.Helper()
	c, err := w.runs.CreateConfiguration(ctx, w.owner, w.ws, runs.NewConfiguration{})
	require.NoError(w, err)
	require.NoError(w, w.runs.UploadConfiguration(ctx, c.ID, bytes.NewReader(w.config)))
	n := runs.NewRun{Workspace: w.ws, Configuration: c.ID, Source: "tfe-api"}
	for _, o := range options {
		o(&n)
	}
	d, _, err := w.runs.Create(ctx, w.owner, n)
	require.NoError(w, err)
	return d
}

func (w *world) wantStatus(run ids.Run, want runs.Status) runs.Detail {
	w.Helper()
	d, err := w.runs.Get(ctx, w.owner, run)
	require.NoError(w, err)
	require.Equal(w, want, d.DurableStatus, "%s: %s", d.DurableReason, d.StatusMessage)
	return d
}

func (w *world) exec(sql string, args postgres.Args) {
	w.Helper()
	require.NoError(w, postgres.InTx(ctx, w.db, "test", func(tx postgres.Tx) error {
		n, err := postgres.Exec(ctx, tx, sql, args)
		if err == nil && n == 0 {
			err = fmt.Errorf("nothing was touched by %s", sql)
		}
		return err
	}))
}

func value[T any](w *world, sql string, args postgres.Args) (v T) {
	w.Helper()
	require.NoError(w, postgres.InSnapshot(ctx, w.db, "test", func(tx postgres.Tx) (err error) {
		v, err = postgres.Value[T](ctx, tx, sql, args)
		return err
	}))
	return v
}

// answer is what the server said.
type answer struct {
	w      *world
	what   string
	status int
	header http.Header
	body   []byte
	err    error // of reading the body
}

func (a answer) want(status int) answer {
	a.w.Helper()
	require.Equal(a.w, status, a.status, "%s: %s", a.what, a.body)
	return a
}

// refused demands a refusal in the form that all of them have.
func (a answer) refused(status int, code string) {
	a.w.Helper()
	a.want(status)
	var p wire.Problem
	require.NoError(a.w, json.Unmarshal(a.body, &p), "%s", a.body)
	assert.Equal(a.w, code, p.Code, p.Detail)
	assert.NotEmpty(a.w, p.Detail)
	assert.Equal(a.w, "application/json", a.header.Get("Content-Type"))
}

func into[T any](a answer) (v T) {
	a.w.Helper()
	a.want(http.StatusOK)
	require.NoError(a.w, json.Unmarshal(a.body, &v), "%s", a.body)
	return v
}

// call sends one request. body is bytes, or a value that becomes JSON; headers are pairs.
func (w *world) call(method, path, token string, body any, headers ...string) answer {
	w.Helper()
	request := w.request(ctx, method, path, token, body, headers...)
	response, err := http.DefaultClient.Do(request)
	require.NoError(w, err)
	defer func() { _ = response.Body.Close() }()
	a := answer{w: w, what: method + " " + path, status: response.StatusCode, header: response.Header}
	a.body, a.err = io.ReadAll(response.Body)
	assert.Equal(w, "no-store", a.header.Get("Cache-Control"))
	return a
}

func (w *world) request(ctx context.Context, method, path, token string, body any, headers ...string) *http.Request {
	w.Helper()
	raw, ok := body.([]byte)
	if !ok && body != nil {
		var err error
		raw, err = json.Marshal(body)
		require.NoError(w, err)
	}
	request, err := http.NewRequestWithContext(ctx, method, w.url+path, bytes.NewReader(raw))
	require.NoError(w, err)
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	return request
}

func hello(wait int) wire.Poll {
	return wire.Poll{ProtocolVersion: wire.Version, RunnerName: "r", WaitSeconds: wait, TofuVersions: []string{tofu}}
}

func (w *world) poll(wait int) answer {
	w.Helper()
	return w.call(http.MethodPost, wire.PathPoll, w.group, hello(wait))
}

// executor is a stranger's runner at work on one attempt.
type executor struct {
	*world
	wire.Assignment
	session  wire.Session
	manifest wire.Manifest
	sandbox  string
	logged   int64
}

// assigned polls and must be offered the run.
func (w *world) assigned(run ids.Run) *executor {
	w.Helper()
	e := &executor{world: w, Assignment: into[wire.Assignment](w.poll(0)), sandbox: "sandbox-1"}
	require.Equal(w, string(run), e.RunID)
	return e
}

func at(template, id string, kind ...string) string {
	path := strings.ReplaceAll(template, "{id}", id)
	for _, k := range kind {
		path = strings.ReplaceAll(path, "{kind}", k)
	}
	return path
}

func (e *executor) ready() answer {
	e.Helper()
	return e.call(http.MethodPost, at(wire.PathReady, e.RunnerID), e.group, nil)
}

func (e *executor) tryAccept() answer {
	e.Helper()
	return e.call(http.MethodPost, at(wire.PathAccept, e.AttemptID), e.group, wire.Accept{RunnerID: e.RunnerID, SandboxID: e.sandbox})
}

func (e *executor) accept() *executor {
	e.Helper()
	e.ready().want(http.StatusNoContent)
	e.session = into[wire.Session](e.tryAccept())
	require.NoError(e, json.Unmarshal(e.session.Manifest, &e.manifest))
	return e
}

// mine sends a request of the attempt's session.
func (e *executor) mine(method, template string, body any, headers ...string) answer {
	e.Helper()
	return e.call(method, at(template, e.AttemptID), e.session.Token, body, headers...)
}

func sha(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

func (e *executor) input(kind string) answer {
	e.Helper()
	return e.mine(http.MethodGet, at(wire.PathInput, e.AttemptID, kind), nil)
}

func (e *executor) put(kind, content string) answer {
	e.Helper()
	return e.mine(http.MethodPut, at(wire.PathArtifact, e.AttemptID, kind), []byte(content), wire.HeaderSHA256, sha([]byte(content)))
}

func (e *executor) logAt(offset int64, text string) answer {
	e.Helper()
	return e.mine(http.MethodPost, wire.PathLogs, []byte(text), wire.HeaderOffset, strconv.FormatInt(offset, 10), wire.HeaderSHA256, sha([]byte(text)))
}

func (e *executor) write(text string) {
	e.Helper()
	e.logged = into[wire.LogPosition](e.logAt(e.logged, text)).Next
}

func (e *executor) done(d wire.Done) answer {
	e.Helper()
	d.LogSize, d.TofuVersion, d.TofuDigest = e.logged, tofu, tofuDigest
	return e.mine(http.MethodPost, wire.PathDone, d)
}

func planned() wire.Done {
	return wire.Done{Outcome: wire.OutcomeFinished, ExitCode: 2, TofuStarted: true, Plan: &wire.PlanSummary{HasChanges: true, Additions: 1}}
}

// plan works a whole plan phase through.
func (e *executor) plan() {
	e.Helper()
	e.put(wire.KindPlanJSON, `{"format_version":"1.2"}`).want(http.StatusNoContent)
	e.put(wire.KindLockFile, "# locked").want(http.StatusNoContent)
	e.put(wire.KindPlan, "the plan").want(http.StatusNoContent)
	e.done(planned()).want(http.StatusNoContent)
}

// confirmed brings a new run to an accepted apply that has not started.
func (w *world) confirmed() *executor {
	w.Helper()
	run := w.run().ID
	w.assigned(run).accept().plan()
	require.NoError(w, w.runs.Confirm(ctx, w.owner, run, runs.Decision{}))
	return w.assigned(run).accept()
}

func (e *executor) start() answer {
	e.Helper()
	return e.mine(http.MethodPost, wire.PathApplyStart, wire.ApplyStart{ManifestDigest: e.session.ManifestDigest, SandboxID: e.sandbox, TofuDigest: tofuDigest})
}

// publish sends state the way tofu does while it applies.
func (e *executor) publish(serial int64) state.Version {
	e.Helper()
	actor, err := e.disp.Authenticate(ctx, e.session.Token)
	require.NoError(e, err)
	content := fmt.Sprintf(`{"version":4,"terraform_version":"%s","serial":%d,"lineage":"%s","outputs":{},"resources":[]}`, tofu, serial, lineage)
	sum := md5.Sum([]byte(content))
	v, _, err := e.state.Begin(ctx, actor, e.ws, state.Create{Serial: serial, Lineage: lineage, MD5: hex.EncodeToString(sum[:])})
	require.NoError(e, err)
	v, err = e.state.Upload(ctx, v.ID, strings.NewReader(content))
	require.NoError(e, err)
	return v
}

func (e *executor) confirmation(sandbox string) answer {
	e.Helper()
	return e.mine(http.MethodPost, wire.PathStateConfirmation, wire.StateConfirmation{SandboxID: sandbox})
}
