package runs

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"strings"
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
	tofu       = "1.12.6"
	tofuDigest = "the-digest-of-the-binary"
	lineage    = "4f6c2f3e-5d0e-7c1b-9a40-0d5a1c7c9e11"
)

// tester is what testing.T and a walk of rapid have in common.
type tester interface {
	require.TestingT
	Helper()
}

// world is a whole server without HTTP. The test plays the runner.
type world struct {
	tester
	db     *postgres.DB
	store  *storetest.Memory
	spaces *workspaces.Service
	state  *state.Service
	disp   *dispatch.Service
	runs   *Service
	who    *accounts.Service
	group  accounts.RunnerGroup
	acme   accounts.Organization
	owner  authz.Actor
	member authz.Actor
	serial int // makes names unique
}

func newWorld(t *testing.T) *world { return newWorldWith(t, Defaults()) }

func newWorldWith(t *testing.T, settings Settings) *world {
	db, store := testdb.New(t), storetest.NewMemory()
	path := filepath.Join(t.TempDir(), "keyring")
	require.NoError(t, envelope.CreateKeyring(path))
	ring, err := envelope.OpenKeyring(path)
	require.NoError(t, err)
	links, err := envelope.NewLinks(ctx, ring)
	require.NoError(t, err)
	objects := artifacts.New(db, store, ring)
	who := accounts.New(db, objects)
	w := &world{tester: t, db: db, store: store, who: who, spaces: workspaces.New(db, who, objects), state: state.New(db, objects), disp: dispatch.New(db, objects, links)}
	w.runs = New(db, objects, w.spaces, w.state, w.disp, settings)
	w.acme, err = w.spaces.CreateOrganization(ctx, system, accounts.NewOrganization{Name: "acme"})
	require.NoError(t, err)
	actor := func(name string, role authz.Role) authz.Actor {
		u, err := who.CreateUser(ctx, system, accounts.NewUser{Username: name})
		require.NoError(t, err)
		require.NoError(t, who.AddMember(ctx, system, w.acme.ID, u.ID, role))
		if role == authz.Member {
			readsAll(t, who, "acme", name)
		}
		token, _, err := who.CreateUserToken(ctx, system, u.ID, "", 0)
		require.NoError(t, err)
		a, err := who.Authenticate(ctx, token)
		require.NoError(t, err)
		return a
	}
	w.owner, w.member = actor("ada", authz.Owner), actor("bob", authz.Member)
	_, w.group, err = who.CreateRunnerGroup(ctx, system, w.acme.ID, "runners")
	require.NoError(t, err)
	_, found := w.poll() // makes the version known
	require.False(t, found)
	return w
}

// with gives the same world with other settings.
func (w *world) with(settings Settings) *world {
	other := *w
	s := *w.runs
	s.settings = settings
	other.runs = &s
	return &other
}

func (w *world) unique(prefix string) string {
	w.serial++
	return fmt.Sprint(prefix, "-", w.serial)
}

func (w *world) workspace() ids.Workspace {
	w.Helper()
	return w.workspaceWith(workspaces.Settings{})
}

func (w *world) workspaceWith(s workspaces.Settings) ids.Workspace {
	w.Helper()
	ws, err := w.spaces.Create(ctx, w.owner, "acme", workspaces.NewWorkspace{Name: w.unique("ws"), Settings: s})
	require.NoError(w, err)
	return ws.ID
}

// tarball is a valid configuration archive whose bytes depend on text.
func tarball(text string) []byte {
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	archive := tar.NewWriter(zip)
	content := []byte("# " + text + "\n")
	if err := archive.WriteHeader(&tar.Header{Name: "main.tf", Mode: 0o644, Size: int64(len(content))}); err != nil {
		panic(err)
	}
	_, _ = archive.Write(content)
	_ = archive.Close()
	_ = zip.Close()
	return out.Bytes()
}

func (w *world) configurationWith(ws ids.Workspace, n NewConfiguration) ids.ConfigurationVersion {
	w.Helper()
	c, err := w.runs.CreateConfiguration(ctx, w.owner, ws, n)
	require.NoError(w, err)
	require.NoError(w, w.runs.UploadConfiguration(ctx, c.ID, bytes.NewReader(tarball(string(c.ID)))))
	return c.ID
}

func (w *world) configuration(ws ids.Workspace) ids.ConfigurationVersion {
	w.Helper()
	return w.configurationWith(ws, NewConfiguration{})
}

// run makes a run of a new configuration.
func (w *world) run(ws ids.Workspace, options ...func(*NewRun)) Detail {
	w.Helper()
	d, err := w.tryRun(ws, options...)
	require.NoError(w, err)
	return d
}

func (w *world) tryRun(ws ids.Workspace, options ...func(*NewRun)) (Detail, error) {
	w.Helper()
	n := NewRun{Workspace: ws, Configuration: w.configuration(ws), Source: "tfe-api"}
	for _, o := range options {
		o(&n)
	}
	d, _, err := w.runs.Create(ctx, w.owner, n)
	return d, err
}

func planOnly(n *NewRun)           { n.PlanOnly = true }
func savePlan(n *NewRun)           { n.SavePlan = true }
func as(o Operation) func(*NewRun) { return func(n *NewRun) { n.Operation = o } }

func autoApply(n *NewRun) { n.AutoApply = ptr(true) }

func ptr[T any](v T) *T { return &v }

// executor is a runner with one accepted attempt.
type executor struct {
	*world
	dispatch.Attempt
	runner  ids.Runner
	sandbox string
	session Session
	actor   authz.Actor
	logged  int64
}

// poll claims the next attempt for a new runner.
func (w *world) poll() (*executor, bool) {
	w.Helper()
	runner, a, found, err := w.runs.Poll(ctx, w.group, dispatch.RunnerHello{Name: w.unique("runner"), TofuVersions: []string{tofu}})
	require.NoError(w, err)
	return &executor{world: w, Attempt: a, runner: runner, sandbox: w.unique("sandbox")}, found
}

// take polls, and accepts what must be the attempt of this run.
func (w *world) take(run ids.Run) *executor {
	w.Helper()
	e, found := w.poll()
	require.True(w, found, "nothing is offered")
	require.Equal(w, run, e.RunID)
	e.accept()
	return e
}

func render(f Facts) ([]byte, error) { return []byte("manifest of " + string(f.Attempt.ID)), nil }

func (e *executor) tryAccept() (Session, error) {
	require.NoError(e, e.runs.Ready(ctx, e.group, e.runner))
	return e.runs.Accept(ctx, e.group, e.ID, dispatch.Acceptance{Runner: e.runner, Sandbox: e.sandbox}, render)
}

func (e *executor) accept() {
	e.Helper()
	var err error
	e.session, err = e.tryAccept()
	require.NoError(e, err)
	e.actor, err = e.disp.Authenticate(ctx, e.session.Token)
	require.NoError(e, err)
}

func (e *executor) log(text string) {
	e.Helper()
	next, err := e.runs.AppendLog(ctx, e.actor, dispatch.Human, e.logged, []byte(text))
	require.NoError(e, err)
	e.logged = next
}

func sha(content string) string {
	sum := sha256.Sum256([]byte(content))
	return hex.EncodeToString(sum[:])
}

func (e *executor) handOver(kind artifacts.Kind, content string) {
	e.Helper()
	require.NoError(e, e.runs.HandOver(ctx, e.actor, kind, sha(content), strings.NewReader(content)))
}

func (e *executor) done(d Done) {
	e.Helper()
	require.NoError(e, e.tryDone(d))
}

func (e *executor) tryDone(d Done) error {
	d.LogSize = e.logged
	return e.runs.Done(ctx, e.ID, d)
}

// planned is what the runner says of a good plan.
func planned(changes bool) Done {
	d := Done{Outcome: OutcomeFinished, TofuVersion: tofu, TofuDigest: tofuDigest, Plan: &PlanSummary{HasChanges: changes}}
	if changes {
		d.ExitCode, d.Plan.Additions = 2, 3
	}
	return d
}

// plan works a whole plan phase through.
func (e *executor) plan(changes bool) {
	e.Helper()
	e.log("planning\n")
	e.handOver(artifacts.KindPlanJSON, `{"plan":"`+string(e.ID)+`"}`)
	e.handOver(artifacts.KindLockFile, "locked providers")
	if !e.get(e.RunID).PlanOnly {
		e.handOver(artifacts.KindPlan, "the plan of "+string(e.ID))
	}
	e.done(planned(changes))
}

func (e *executor) tryStart() error {
	_, err := e.runs.StartApply(ctx, e.actor, e.session.ManifestDigest, e.sandbox, tofuDigest)
	return err
}

func (e *executor) start() {
	e.Helper()
	require.NoError(e, e.tryStart())
	var err error
	e.actor, err = e.disp.Authenticate(ctx, e.session.Token) // from here on it may publish
	require.NoError(e, err)
}

func stateFile(serial int64) string {
	return fmt.Sprintf(`{"version":4,"terraform_version":"%s","serial":%d,"lineage":"%s","outputs":{},"resources":[]}`, tofu, serial, lineage)
}

// begin announces a state version as the actor.
func (w *world) begin(actor authz.Actor, ws ids.Workspace, content string, serial int64) (state.Version, error) {
	sum := md5.Sum([]byte(content))
	v, _, err := w.state.Begin(ctx, actor, ws, state.Create{Serial: serial, Lineage: lineage, MD5: hex.EncodeToString(sum[:])})
	return v, err
}

func (w *world) publish(actor authz.Actor, ws ids.Workspace, serial int64) ids.StateVersion {
	w.Helper()
	v, err := w.begin(actor, ws, stateFile(serial), serial)
	require.NoError(w, err)
	v, err = w.state.Upload(ctx, v.ID, strings.NewReader(stateFile(serial)))
	require.NoError(w, err)
	require.Equal(w, state.Finalized, v.Status)
	return v.ID
}

func (e *executor) publish(serial int64) ids.StateVersion {
	e.Helper()
	return e.world.publish(e.actor, e.WorkspaceID, serial)
}

func (e *executor) confirm() ids.StateVersion {
	e.Helper()
	v, err := e.runs.ConfirmState(ctx, e.actor, e.sandbox)
	require.NoError(e, err)
	return v.ID
}

// apply works a whole apply phase through.
func (e *executor) apply(serial int64) {
	e.Helper()
	e.start()
	e.log("applying\n")
	e.publish(serial)
	e.done(Done{Outcome: OutcomeFinished, TofuStarted: true, Confirmed: e.confirm()})
}

// waiting brings a run of a free workspace to awaiting_approval.
func (w *world) waiting(ws ids.Workspace, options ...func(*NewRun)) ids.Run {
	w.Helper()
	r := w.run(ws, options...)
	w.take(r.ID).plan(true)
	w.wantStatus(r.ID, AwaitingApproval)
	return r.ID
}

// confirmed brings a run of a free workspace to an accepted apply that has not started.
func (w *world) confirmed(ws ids.Workspace) *executor {
	w.Helper()
	run := w.waiting(ws)
	require.NoError(w, w.runs.Confirm(ctx, w.owner, run, Decision{}))
	return w.take(run)
}

// applying brings a run of a free workspace to applying.
func (w *world) applying(ws ids.Workspace) *executor {
	w.Helper()
	e := w.confirmed(ws)
	e.start()
	return e
}

func (w *world) get(run ids.Run) Detail {
	w.Helper()
	d, err := w.runs.Get(ctx, w.member, run)
	require.NoError(w, err)
	return d
}

func (w *world) wantStatus(run ids.Run, want Status) Detail {
	w.Helper()
	d := w.get(run)
	require.Equal(w, want, d.DurableStatus, "%s: %s", d.DurableReason, d.StatusMessage)
	return d
}

// wantAdmitted demands that the run got the workspace: it is the one whose plan waits for a runner.
func (w *world) wantAdmitted(run ids.Run) {
	w.Helper()
	d := w.get(run)
	require.Equal(w, Queued, d.DurableStatus)
	require.NotNil(w, d.AdmittedAt, "%s was not promoted", run)
	require.True(w, w.fence(d.WorkspaceID).HeldBy(fence.Run, string(run)))
	require.Equal(w, dispatch.Pending, d.PlanAttempt)
}

func (w *world) wantWaits(run ids.Run) {
	w.Helper()
	d := w.get(run)
	require.Equal(w, Queued, d.DurableStatus)
	require.Nil(w, d.AdmittedAt)
	require.Empty(w, d.PlanAttempt)
}

// current is the run that the workspace shows as its current one.
func (w *world) current(ws ids.Workspace) ids.Run {
	w.Helper()
	shown, err := w.spaces.Get(ctx, w.member, ws)
	require.NoError(w, err)
	return shown.CurrentRun
}

func (w *world) fence(ws ids.Workspace) fence.Status {
	w.Helper()
	var s fence.Status
	require.NoError(w, w.tx(func(tx postgres.Tx) (err error) {
		s, err = fence.Read(ctx, tx, ws)
		return err
	}))
	return s
}

func (w *world) wantFree(ws ids.Workspace) {
	w.Helper()
	require.False(w, w.fence(ws).Held(), "the workspace %s", w.fence(ws).Describe())
}

// wantHeld demands that the run holds its workspace for recovery, and that a new run is refused by its name.
func (w *world) wantHeld(run ids.Run) {
	w.Helper()
	d := w.get(run)
	s := w.fence(d.WorkspaceID)
	require.True(w, s.RecoveryHeld && s.HeldBy(fence.Run, string(run)), "%+v", s)
	require.True(w, d.Occupies())
	for _, o := range []func(*NewRun){func(*NewRun) {}, planOnly} {
		_, err := w.tryRun(d.WorkspaceID, o)
		require.True(w, fault.Is(err, fault.RecoveryHeld), "%v", err)
		require.ErrorContains(w, err, string(run))
	}
}

// wantReleased demands that the run has ended and has nothing left.
func (w *world) wantReleased(run ids.Run) {
	w.Helper()
	d := w.get(run)
	require.NotNil(w, d.FinishedAt)
	require.False(w, d.Occupies())
	require.False(w, w.fence(d.WorkspaceID).HeldBy(fence.Run, string(run)))
}

func (w *world) tx(fn func(tx postgres.Tx) error) error { return postgres.InTx(ctx, w.db, "test", fn) }

func (w *world) tryExec(sql string, args postgres.Args) error {
	return w.tx(func(tx postgres.Tx) error {
		_, err := postgres.Exec(ctx, tx, sql, args)
		return err
	})
}

// exec changes the database behind the services' back; it must touch one row at least.
func (w *world) exec(sql string, args postgres.Args) {
	w.Helper()
	require.NoError(w, w.tx(func(tx postgres.Tx) error {
		n, err := postgres.Exec(ctx, tx, sql, args)
		if err == nil && n == 0 {
			err = fmt.Errorf("nothing was touched by %s", sql)
		}
		return err
	}))
}

func count(w *world, sql string, args postgres.Args) (n int) {
	w.Helper()
	require.NoError(w, w.tx(func(tx postgres.Tx) (err error) {
		n, err = postgres.Value[int](ctx, tx, sql, args)
		return err
	}))
	return n
}

func (d Detail) steps() []Status {
	list := make([]Status, len(d.History))
	for i, h := range d.History {
		list[i] = h.ToStatus
	}
	return list
}

func wantCode(t require.TestingT, err error, kind fault.Kind, code string) {
	if h, ok := t.(interface{ Helper() }); ok {
		h.Helper()
	}
	require.Error(t, err)
	assert.True(t, fault.Is(err, kind), "kind of %v", err)
	assert.True(t, fault.HasCode(err, code), "code of %v is not %s", err, code)
}

// silence backdates what was last heard of the attempt's runner.
func (e *executor) silence(age time.Duration) {
	e.Helper()
	e.exec("update attempts set heartbeat_at = clock_timestamp() - make_interval(secs => @s::double precision) where id = @id",
		postgres.Args{"s": age.Seconds(), "id": e.ID})
}

// longestOutage is how long a plan may be silent although no other runner is heard.
func (w *world) longestOutage() time.Duration {
	return w.runs.settings.PlanLiveness + w.runs.settings.OutageAllowance
}

// expireOffer lets the time pass in which an offer must be accepted.
func (e *executor) expireOffer() {
	e.Helper()
	e.exec("update attempts set assignment_expires_at = clock_timestamp() where id = @id and status = 'assigned'", postgres.Args{"id": e.ID})
}

// leaveLying takes every offer of an attempt and accepts none, until it is not offered any more.
func (w *world) leaveLying() (last *executor) {
	w.Helper()
	for range 3 {
		e, found := w.poll()
		require.True(w, found, "it is offered again")
		e.expireOffer()
		w.sweep()
		last = e
	}
	return last
}

func (w *world) sweep() {
	w.Helper()
	require.NoError(w, NewSweeper(w.runs).Sweep(ctx))
}

// readsAll gives a member of the organization the right to read all workspaces, by a team.
func readsAll(t testing.TB, who *accounts.Service, organization, username string) {
	name := "readers-of-" + username
	team, err := who.CreateTeam(ctx, system, organization, accounts.TeamSettings{Name: &name, Access: map[string]bool{"read-workspaces": true, "read-projects": true}})
	require.NoError(t, err)
	require.NoError(t, who.AddTeamMembers(ctx, system, team.ID, accounts.TeamMembers{Usernames: []string{username}}))
}
