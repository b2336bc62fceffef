package recovery_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

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
	"github.com/holdfast-run/holdfast/recovery"
	"github.com/holdfast-run/holdfast/runs"
	"github.com/holdfast-run/holdfast/state"
	"github.com/holdfast-run/holdfast/workspaces"
)

const (
	tofu       = "1.12.6"
	tofuDigest = "the-digest-of-the-binary"
	sandbox    = "sandbox-1"
	lineage    = "4f6c2f3e-5d0e-7c1b-9a40-0d5a1c7c9e11"
)

var (
	ctx    = context.Background()
	system = authz.System()
)

// world is a whole server without HTTP, with one workspace. The test plays the runner.
type world struct {
	*testing.T
	*recovery.Service
	store                  *storetest.Memory
	watched                *watchedStore
	links                  *envelope.Links
	stale                  atomic.Bool // nobody has stepped up lately
	db                     *postgres.DB
	spaces                 *workspaces.Service
	who                    *accounts.Service
	state                  *state.Service
	disp                   *dispatch.Service
	runs                   *runs.Service
	group                  accounts.RunnerGroup
	owner, member, foreign authz.Actor
	ws                     ids.Workspace
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
	watched := &watchedStore{Memory: store}
	objects := artifacts.New(db, watched, ring)
	who := accounts.New(db, objects)
	w := &world{T: t, store: store, watched: watched, links: links, db: db, who: who, spaces: workspaces.New(db, who, objects), state: state.New(db, objects), disp: dispatch.New(db, objects, links)}
	w.runs = runs.New(db, objects, w.spaces, w.state, w.disp, runs.Defaults())
	w.Service = recovery.New(db, objects, w.state, w.disp, w.runs, w.settings())

	user := func(name string, org ids.Organization, role authz.Role) authz.Actor {
		u, err := who.CreateUser(ctx, system, accounts.NewUser{Username: name})
		require.NoError(t, err)
		require.NoError(t, who.AddMember(ctx, system, org, u.ID, role))
		if role == authz.Member {
			readsAll(t, who, "acme", name)
		}
		token, _, err := who.CreateUserToken(ctx, system, u.ID, "", 0)
		require.NoError(t, err)
		a, err := who.Authenticate(ctx, token)
		require.NoError(t, err)
		return a
	}
	acme, err := w.spaces.CreateOrganization(ctx, system, accounts.NewOrganization{Name: "acme"})
	require.NoError(t, err)
	other, err := w.spaces.CreateOrganization(ctx, system, accounts.NewOrganization{Name: "other"})
	require.NoError(t, err)
	w.owner, w.member, w.foreign = user("ada", acme.ID, authz.Owner), user("bob", acme.ID, authz.Member), user("eve", other.ID, authz.Owner)
	ws, err := w.spaces.Create(ctx, w.owner, "acme", workspaces.NewWorkspace{Name: "app"})
	require.NoError(t, err)
	w.ws = ws.ID
	_, w.group, err = who.CreateRunnerGroup(ctx, system, acme.ID, "runners")
	require.NoError(t, err)
	_, _, found, err := w.runs.Poll(ctx, w.group, dispatch.RunnerHello{Name: "r", TofuVersions: []string{tofu}}) // makes the version known
	require.NoError(t, err)
	require.False(t, found)
	return w
}

func (w *world) run() ids.Run {
	w.Helper()
	var out bytes.Buffer
	zipped := gzip.NewWriter(&out)
	archive := tar.NewWriter(zipped)
	require.NoError(w, archive.WriteHeader(&tar.Header{Name: "main.tf", Mode: 0o644}))
	require.NoError(w, archive.Close())
	require.NoError(w, zipped.Close())
	c, err := w.runs.CreateConfiguration(ctx, w.owner, w.ws, runs.NewConfiguration{})
	require.NoError(w, err)
	require.NoError(w, w.runs.UploadConfiguration(ctx, c.ID, &out))
	d, _, err := w.runs.Create(ctx, w.owner, runs.NewRun{Workspace: w.ws, Configuration: c.ID, Source: "tfe-api"})
	require.NoError(w, err)
	return d.ID
}

func (w *world) get(run ids.Run) runs.Detail {
	w.Helper()
	d, err := w.runs.Get(ctx, w.member, run)
	require.NoError(w, err)
	return d
}

// executor is a runner at work on one accepted attempt.
type executor struct {
	*world
	dispatch.Attempt
	actor   authz.Actor
	session runs.Session
}

func (w *world) take(run ids.Run) *executor {
	w.Helper()
	runner, a, found, err := w.runs.Poll(ctx, w.group, dispatch.RunnerHello{Name: "r", TofuVersions: []string{tofu}})
	require.NoError(w, err)
	require.True(w, found, "nothing is offered")
	require.Equal(w, run, a.RunID)
	require.NoError(w, w.runs.Ready(ctx, w.group, runner))
	e := &executor{world: w, Attempt: a}
	e.session, err = w.runs.Accept(ctx, w.group, a.ID, dispatch.Acceptance{Runner: runner, Sandbox: sandbox}, func(runs.Facts) ([]byte, error) { return []byte("{}"), nil })
	require.NoError(w, err)
	e.actor, err = w.disp.Authenticate(ctx, e.session.Token)
	require.NoError(w, err)
	return e
}

func (e *executor) plan() {
	e.Helper()
	kinds := []artifacts.Kind{artifacts.KindPlanJSON, artifacts.KindLockFile}
	if !e.get(e.RunID).PlanOnly {
		kinds = append(kinds, artifacts.KindPlan)
	}
	for _, kind := range kinds {
		content := string(kind)
		sum := sha256.Sum256([]byte(content))
		require.NoError(e, e.runs.HandOver(ctx, e.actor, kind, hex.EncodeToString(sum[:]), strings.NewReader(content)))
	}
	e.done(runs.Done{Outcome: runs.OutcomeFinished, ExitCode: 2, TofuVersion: tofu, TofuDigest: tofuDigest, Plan: &runs.PlanSummary{HasChanges: true, Additions: 1}})
}

func (e *executor) done(d runs.Done) {
	e.Helper()
	require.NoError(e, e.runs.Done(ctx, e.ID, d))
}

// applying brings the run, which must be next, to applying.
func (w *world) applying(run ids.Run) *executor {
	w.Helper()
	w.take(run).plan()
	require.NoError(w, w.runs.Confirm(ctx, w.owner, run, runs.Decision{}))
	e := w.take(run)
	_, err := w.runs.StartApply(ctx, e.actor, e.session.ManifestDigest, sandbox, tofuDigest)
	require.NoError(w, err)
	e.actor.Applying = true // as its token says from here on
	return e
}

func stateFile(serial int64) string {
	return fmt.Sprintf(`{"version":4,"terraform_version":"%s","serial":%d,"lineage":"%s","outputs":{},"resources":[]}`, tofu, serial, lineage)
}

// begin announces a state version and sends nothing yet.
func (e *executor) begin(serial int64) state.Version {
	e.Helper()
	sum := md5.Sum([]byte(stateFile(serial)))
	v, _, err := e.state.Begin(ctx, e.actor, e.ws, state.Create{Serial: serial, Lineage: lineage, MD5: hex.EncodeToString(sum[:])})
	require.NoError(e, err)
	return v
}

func (e *executor) publish(serial int64) state.Version {
	e.Helper()
	v, err := e.state.Upload(ctx, e.begin(serial).ID, strings.NewReader(stateFile(serial)))
	require.NoError(e, err)
	require.Equal(e, state.Finalized, v.Status)
	return v
}

// succeeded works a whole run through.
func (w *world) succeeded(serial int64) state.Version {
	w.Helper()
	run := w.run()
	e := w.applying(run)
	v := e.publish(serial)
	confirmed, err := w.runs.ConfirmState(ctx, e.actor, sandbox)
	require.NoError(w, err)
	e.done(runs.Done{Outcome: runs.OutcomeFinished, TofuStarted: true, Confirmed: confirmed.ID})
	require.Equal(w, runs.Succeeded, w.get(run).DurableStatus)
	return v
}

// held makes a run whose apply published one state and then failed.
func (w *world) held(serial int64) (ids.Run, state.Version) {
	w.Helper()
	run := w.run()
	e := w.applying(run)
	v := e.publish(serial)
	e.done(runs.Done{Outcome: runs.OutcomeErrored, ExitCode: 1, TofuStarted: true, Message: "exit status 1"})
	require.True(w, w.fence().RecoveryHeld)
	return run, v
}

func (w *world) fence() (s fence.Status) {
	w.Helper()
	require.NoError(w, postgres.InSnapshot(ctx, w.db, "test", func(tx postgres.Tx) (err error) {
		s, err = fence.Read(ctx, tx, w.ws)
		return err
	}))
	return s
}

func (w *world) current() (id ids.StateVersion) {
	w.Helper()
	require.NoError(w, postgres.InSnapshot(ctx, w.db, "test", func(tx postgres.Tx) (err error) {
		id, err = state.CurrentID(ctx, tx, w.ws)
		return err
	}))
	return id
}

func values[T any](w *world, sql string, args postgres.Args) (list []T) {
	w.Helper()
	require.NoError(w, postgres.InSnapshot(ctx, w.db, "test", func(tx postgres.Tx) (err error) {
		list, err = postgres.Values[T](ctx, tx, sql, args)
		return err
	}))
	return list
}

func wantCode(t *testing.T, err error, kind fault.Kind, code string) {
	t.Helper()
	require.Error(t, err)
	assert.True(t, fault.Is(err, kind), "kind of %v", err)
	assert.True(t, fault.HasCode(err, code), "code of %v is not %s", err, code)
}

// organization is that of the workspace.
func (w *world) organization() ids.Organization {
	w.Helper()
	var of ids.Organization
	require.NoError(w, postgres.InSnapshot(ctx, w.db, "test", func(tx postgres.Tx) error {
		ws, err := workspaces.Load(ctx, tx, w.ws)
		of = ws.Organization
		return err
	}))
	return of
}

// settings are those of a server on which everybody has stepped up, unless w.stale is set.
func (w *world) settings() recovery.Settings {
	s := recovery.Defaults()
	s.StepUp = func(context.Context, postgres.Tx, authz.Actor) error {
		if w.stale.Load() {
			return fault.New(fault.Forbidden, "step_up_required", "Step up.")
		}
		return nil
	}
	return s
}

// change does to the database what no operation does. Triggers do not hinder it.
func (w *world) change(sql string, args postgres.Args) {
	w.Helper()
	require.NoError(w, postgres.InTx(ctx, w.db, "test", func(tx postgres.Tx) error {
		if _, err := postgres.Exec(ctx, tx, "set local session_replication_role = replica", nil); err != nil {
			return err
		}
		n, err := postgres.Exec(ctx, tx, sql, args)
		require.Positive(w, n, "nothing was changed by %s", sql)
		return err
	}))
}

// verify is the ordinary request.
func verify() recovery.Request {
	return recovery.Request{Resolution: recovery.CurrentStateVerified, Reason: "compared with the console", ConfirmRevokeAuthority: true, ConfirmAdvanceFence: true}
}

// imports is the request that makes the emergency state current.
func imports() recovery.Request {
	r := verify()
	r.Resolution = recovery.ImportEmergencyState
	return r
}

func (w *world) evidence(run ids.Run) recovery.Evidence {
	w.Helper()
	e, err := w.Evidence(ctx, w.owner, run)
	require.NoError(w, err)
	return e
}

// operator makes another one with both rights.
func (w *world) operator(name string) authz.Actor {
	w.Helper()
	org := w.get(values[ids.Run](w, "select id from runs order by created_at limit 1", nil)[0]).OrganizationID
	u, err := w.who.CreateUser(ctx, system, accounts.NewUser{Username: name})
	require.NoError(w, err)
	require.NoError(w, w.who.AddMember(ctx, system, org, u.ID, authz.Owner))
	return authz.Actor{Kind: authz.UserActor, User: u.ID, Name: name, Roles: map[ids.Organization]authz.Role{org: authz.Owner}}
}

// errored is what tofu writes when it cannot publish.
func errored(serial int64, of string) string {
	return fmt.Sprintf(`{"version":4,"terraform_version":"%s","serial":%d,"lineage":"%s","outputs":{},"resources":[{"mode":"managed","type":"t","name":"made","provider":"p","instances":[{}]}]}`, tofu, serial, of)
}

func (e *executor) handOver(text string) recovery.Emergency {
	e.Helper()
	kept, err := e.tryHandOver(text)
	require.NoError(e, err)
	return kept
}

func (e *executor) tryHandOver(text string) (recovery.Emergency, error) {
	return e.TakeEmergency(ctx, e.session.Emergency.Token, e.ID, digestOf(text), strings.NewReader(text))
}

func digestOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func (e *executor) failed() {
	e.Helper()
	e.done(runs.Done{Outcome: runs.OutcomeErrored, ExitCode: 1, TofuStarted: true, ErroredState: true, Message: "exit status 1"})
}

// lapse lets the lease of the prepared recovery run out.
func (w *world) lapse(run ids.Run) {
	w.Helper()
	w.change("update recovery_operations set lease_expires_at = clock_timestamp() - interval '1 second' where run_id = @run and status = 'prepared'", postgres.Args{"run": run})
}

// watchedStore lets a test do something while the service reads an object.
type watchedStore struct {
	*storetest.Memory
	before atomic.Pointer[func(key string)]
}

func (s *watchedStore) Get(ctx context.Context, key string) (io.ReadCloser, error) {
	if before := s.before.Swap(nil); before != nil {
		(*before)(key)
	}
	return s.Memory.Get(ctx, key)
}

// readsAll gives a member of the organization the right to read all workspaces, by a team.
func readsAll(t testing.TB, who *accounts.Service, organization, username string) {
	name := "readers-of-" + username
	team, err := who.CreateTeam(ctx, system, organization, accounts.TeamSettings{Name: &name, Access: map[string]bool{"read-workspaces": true, "read-projects": true}})
	require.NoError(t, err)
	require.NoError(t, who.AddTeamMembers(ctx, system, team.ID, accounts.TeamMembers{Usernames: []string{username}}))
}
