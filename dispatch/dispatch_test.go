package dispatch_test

import (
	"context"
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
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/internal/testdb"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/workspaces"
)

var ctx = context.Background()

const tofu = "1.10.6"

// world is a database with one workspace, a group of runners for all organizations
// and a ready runner of it.
type world struct {
	*testing.T
	db      *postgres.DB
	objects *artifacts.Service
	store   *storetest.Memory
	*dispatch.Service
	org    ids.Organization
	ws     ids.Workspace
	user   ids.User
	group  accounts.RunnerGroup
	other  accounts.RunnerGroup
	runner ids.Runner
}

func newWorld(t *testing.T) world {
	db, store := testdb.New(t), storetest.NewMemory()
	path := filepath.Join(t.TempDir(), "keyring")
	require.NoError(t, envelope.CreateKeyring(path))
	ring, err := envelope.OpenKeyring(path)
	require.NoError(t, err)
	links, err := envelope.NewLinks(ctx, ring)
	require.NoError(t, err)
	objects := artifacts.New(db, store, ring)
	who := accounts.New(db, objects)
	places := workspaces.New(db, who, objects)
	org, err := places.CreateOrganization(ctx, authz.System(), accounts.NewOrganization{Name: "acme"})
	require.NoError(t, err)
	ws, err := places.Create(ctx, authz.System(), "acme", workspaces.NewWorkspace{Name: "net"})
	require.NoError(t, err)
	user, err := who.CreateUser(ctx, authz.System(), accounts.NewUser{Username: "ada"})
	require.NoError(t, err)
	_, group, err := who.CreateRunnerGroup(ctx, authz.System(), "", "all")
	require.NoError(t, err)
	_, other, err := who.CreateRunnerGroup(ctx, authz.System(), "", "other")
	require.NoError(t, err)
	w := world{T: t, db: db, objects: objects, store: store, Service: dispatch.New(db, objects, links), org: org.ID, ws: ws.ID, user: user.ID, group: group, other: other}
	w.runner = w.ready(group)
	return w
}

func (w world) tx(fn func(tx postgres.Tx) error) error {
	return postgres.InTx(ctx, w.db, "test", fn)
}

// do runs fn in a transaction that must succeed.
func (w world) do(fn func(tx postgres.Tx) error) {
	w.Helper()
	require.NoError(w, w.tx(fn))
}

func (w world) exec(sql string, args postgres.Args) {
	w.Helper()
	w.do(func(tx postgres.Tx) error {
		n, err := postgres.Exec(ctx, tx, sql, args)
		assert.Positive(w, n, sql)
		return err
	})
}

// ready makes a runner of the group that may accept.
func (w world) ready(group accounts.RunnerGroup) (id ids.Runner) {
	w.Helper()
	w.do(func(tx postgres.Tx) (err error) {
		if id, err = dispatch.See(ctx, tx, group, dispatch.RunnerHello{Name: "r", TofuVersions: []string{tofu}}); err != nil {
			return err
		}
		return dispatch.Ready(ctx, tx, group, id)
	})
	return id
}

func (w world) object(kind artifacts.Kind, content string) artifacts.Object {
	w.Helper()
	o, err := w.objects.Put(ctx, artifacts.Spec{Organization: w.org, Workspace: w.ws, Kind: kind}, strings.NewReader(content), 0)
	require.NoError(w, err)
	return o
}

// run makes a run as far as attempts need one.
func (w world) run() (id ids.Run) {
	w.Helper()
	id = ids.New[ids.Run]()
	args := postgres.Args{
		"id": id, "plan": ids.New[ids.Plan](), "apply": ids.New[ids.Apply](), "cv": ids.New[ids.ConfigurationVersion](), "org": w.org, "ws": w.ws,
		"user": w.user, "object": w.object(artifacts.KindConfiguration, "tar").ID,
	}
	w.exec("insert into configuration_versions (id, organization_id, workspace_id, status, object_id) values (@cv, @org, @ws, 'uploaded', @object)", args)
	w.exec(`insert into runs (id, plan_id, apply_id, organization_id, workspace_id, queue_seq, created_by, configuration_version_id, configuration_object_id, run_variables_sealed, variables_sealed)
		values (@id, @plan, @apply, @org, @ws, nextval('run_queue_seq'), @user, @cv, @object, '', '')`, args)
	return id
}

func (w world) create(phase authz.Phase, more func(n *dispatch.NewAttempt)) (id ids.Attempt) {
	w.Helper()
	n := dispatch.NewAttempt{Organization: w.org, Workspace: w.ws, Run: w.run(), Phase: phase, TofuVersion: tofu}
	if more != nil {
		more(&n)
	}
	w.do(func(tx postgres.Tx) (err error) {
		id, err = dispatch.Create(ctx, tx, n)
		return err
	})
	return id
}

func (w world) claim() (a dispatch.Attempt, found bool) {
	w.Helper()
	w.do(func(tx postgres.Tx) (err error) {
		a, found, err = dispatch.Claim(ctx, tx, w.group, dispatch.RunnerHello{ID: w.runner, TofuVersions: []string{tofu, "1.9.0"}}, time.Minute)
		return err
	})
	return a, found
}

func (w world) accept(a dispatch.Attempt) error {
	return w.tx(func(tx postgres.Tx) error {
		return dispatch.Accept(ctx, tx, w.group, a, dispatch.Acceptance{Runner: w.runner, Sandbox: "box", JSONLog: true}, time.Hour)
	})
}

func (w world) get(id ids.Attempt) (a dispatch.Attempt) {
	w.Helper()
	w.do(func(tx postgres.Tx) (err error) {
		a, err = dispatch.Lock(ctx, tx, id)
		return err
	})
	return a
}

// running makes an attempt that a runner executes.
func (w world) running(phase authz.Phase) dispatch.Attempt {
	w.Helper()
	id := w.create(phase, nil)
	a, found := w.claim()
	require.True(w, found)
	require.Equal(w, id, a.ID)
	require.NoError(w, w.accept(a))
	return w.get(id)
}

func (w world) finish(a dispatch.Attempt) {
	w.Helper()
	w.do(func(tx postgres.Tx) error {
		return dispatch.Finish(ctx, tx, a, dispatch.End{Status: dispatch.Finished, Outcome: "planned"})
	})
}

func wantFault(t testing.TB, err error, kind fault.Kind, code string) {
	t.Helper()
	require.Error(t, err)
	assert.Truef(t, fault.Is(err, kind) && fault.HasCode(err, code), "want %s %s, got %s: %v", kind, code, fault.KindOf(err), err)
}

func TestEveryQueryFitsTheSchema(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	assert.NotEmpty(t, dispatch.Queries)
	for name, sql := range dispatch.Queries {
		assert.NoError(t, postgres.Prepare(ctx, db, name, sql), name)
	}
}

func TestClaimsApplyFirstSpeculativeLast(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	speculative := w.create(authz.Plan, func(n *dispatch.NewAttempt) { n.Speculative = true })
	older, newer := w.create(authz.Plan, nil), w.create(authz.Plan, nil)
	apply := w.create(authz.Apply, nil)
	w.create(authz.Apply, func(n *dispatch.NewAttempt) { n.TofuVersion = "1.11.0" }) // nobody here has it
	var order []ids.Attempt
	for a, found := w.claim(); found; a, found = w.claim() {
		assert.Equal(t, []any{dispatch.Assigned, w.runner, w.group.ID}, []any{a.Status, a.RunnerID, a.GroupID})
		order = append(order, a.ID)
	}
	assert.Equal(t, []ids.Attempt{apply, older, newer, speculative}, order)
}

func TestAGroupOfAnOrganizationTakesOnlyItsOwn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(authz.Plan, nil)
	foreign := w.elsewhere("beta")
	own := foreign.create(authz.Plan, nil)
	who, _ := w.services()
	_, group, err := who.CreateRunnerGroup(ctx, authz.System(), foreign.org, "betas")
	require.NoError(t, err)
	w.group = group
	w.runner = w.ready(group)
	assert.Equal(t, []ids.Attempt{own}, w.claimAll())
}

func TestConcurrentClaimsShareNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const many = 8
	for range many {
		w.create(authz.Plan, nil)
	}
	claimed := make(chan ids.Attempt, 2*many)
	for range 2 * many {
		go func() {
			var id ids.Attempt
			assert.NoError(t, w.tx(func(tx postgres.Tx) error {
				a, _, err := dispatch.Claim(ctx, tx, w.group, dispatch.RunnerHello{ID: w.runner, TofuVersions: []string{tofu}}, time.Minute)
				id = a.ID
				return err
			}))
			claimed <- id
		}()
	}
	taken := map[ids.Attempt]bool{}
	for range 2 * many {
		if id := <-claimed; id != "" {
			assert.False(t, taken[id], "two runners got %s", id)
			taken[id] = true
		}
	}
	for a, found := w.claim(); found; a, found = w.claim() { // a claim may pass over a row that another looks at
		taken[a.ID] = true
	}
	assert.Len(t, taken, many)
}

func TestAnOfferIsRepeatedAndGivenBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	offered := func(runner ids.Runner) (a dispatch.Attempt, found bool) {
		w.do(func(tx postgres.Tx) (err error) {
			a, found, err = dispatch.Offered(ctx, tx, w.group, runner)
			return err
		})
		return a, found
	}
	_, found := offered(w.runner)
	assert.False(t, found)
	w.create(authz.Plan, nil)
	a, _ := w.claim()
	again, found := offered(w.runner)
	assert.True(t, found)
	assert.Equal(t, a.ID, again.ID)
	_, found = offered(w.ready(w.group))
	assert.False(t, found, "it is offered to one runner only")

	w.do(func(tx postgres.Tx) error { return dispatch.Deregister(ctx, tx, w.group, w.runner) })
	assert.Equal(t, dispatch.Pending, w.get(a.ID).Status, "a runner that leaves gives back what it never began")
	w.runner = w.ready(w.group)
	b, found := w.claim()
	assert.True(t, found)
	assert.Equal(t, a.ID, b.ID)
	require.NoError(t, w.accept(b))
	_, found = offered(w.runner)
	assert.False(t, found, "what is accepted is not offered")
	w.do(func(tx postgres.Tx) error { return dispatch.Deregister(ctx, tx, w.group, w.runner) })
	assert.Equal(t, dispatch.Running, w.get(a.ID).Status, "what has begun is not given back")

	w.create(authz.Plan, nil)
	w.runner = w.ready(w.group)
	c, _ := w.claim()
	w.exec("update attempts set assignment_expires_at = clock_timestamp() - interval '1 second' where id = @id", postgres.Args{"id": c.ID})
	_, found = offered(w.runner)
	assert.False(t, found, "an expired offer is not repeated")
}

func TestAcceptRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.create(authz.Plan, nil)
	wantFault(t, w.accept(w.get(id)), fault.Conflict, "assignment_lost") // not assigned
	a, _ := w.claim()

	elsewhere := w
	elsewhere.runner = w.ready(w.group)
	wantFault(t, elsewhere.accept(a), fault.Conflict, "assignment_lost")
	elsewhere = w
	elsewhere.group = w.other
	wantFault(t, elsewhere.accept(a), fault.Conflict, "assignment_lost")

	w.exec("update runners set status = 'not_ready' where id = @id", postgres.Args{"id": w.runner})
	wantFault(t, w.accept(a), fault.Conflict, "runner_not_ready")
	w.do(func(tx postgres.Tx) error { return dispatch.Ready(ctx, tx, w.group, w.runner) })
	w.exec("update attempts set assignment_expires_at = clock_timestamp()", nil)
	wantFault(t, w.accept(a), fault.Conflict, "assignment_expired")
	w.exec("update attempts set assignment_expires_at = clock_timestamp() + interval '1 minute'", nil)
	require.NoError(t, w.accept(a))
	a = w.get(id)
	assert.Equal(t, []any{dispatch.Running, "box"}, []any{a.Status, a.SandboxID})
	wantFault(t, w.accept(a), fault.Conflict, "assignment_lost")

	w.do(func(tx postgres.Tx) error { return dispatch.Deregister(ctx, tx, w.group, w.runner) })
	w.do(func(tx postgres.Tx) error { return dispatch.Deregister(ctx, tx, w.group, w.runner) })
	err := w.tx(func(tx postgres.Tx) error { return dispatch.Ready(ctx, tx, w.group, w.runner) })
	assert.True(t, fault.Is(err, fault.NotFound), "%v", err)
}

func TestARunnerKeepsItsGroup(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	err := w.tx(func(tx postgres.Tx) error {
		_, err := dispatch.See(ctx, tx, w.other, dispatch.RunnerHello{ID: w.runner, Name: "thief"})
		return err
	})
	assert.True(t, fault.Is(err, fault.NotFound), "%v", err)
	w.do(func(tx postgres.Tx) error {
		id, err := dispatch.See(ctx, tx, w.group, dispatch.RunnerHello{ID: w.runner, Name: "r", TofuVersions: []string{tofu, "1.9.0"}})
		assert.Equal(t, w.runner, id)
		versions, verr := dispatch.Versions(ctx, tx, w.org)
		assert.NoError(t, verr)
		assert.ElementsMatch(t, []string{tofu, "1.9.0"}, versions)
		return err
	})
}

func TestTheManifestIsFixedOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.running(authz.Plan)
	fix := func(text string) error {
		return w.tx(func(tx postgres.Tx) error { return dispatch.FixManifest(ctx, tx, a.ID, []byte(text), "digest") })
	}
	require.NoError(t, fix("one"))
	wantFault(t, fix("two"), fault.Conflict, "manifest_fixed")
	assert.Equal(t, "one", string(w.get(a.ID).Manifest))
}

func TestTheTokenLivesAsLongAsItsAttempt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	epoch := int64(41)
	id := w.create(authz.Apply, func(n *dispatch.NewAttempt) { n.Epoch = &epoch })
	a, _ := w.claim()
	require.NoError(t, w.accept(a))
	a = w.get(id)
	token := w.Token(a)
	assert.True(t, dispatch.IsToken(token))
	assert.Equal(t, token, w.Token(w.get(id)), "the exact repeat of an accept gives the same")
	actor, err := w.Authenticate(ctx, token)
	require.NoError(t, err)
	assert.Equal(t, authz.Actor{
		Kind: authz.AttemptActor, Name: string(a.RunID), Attempt: id, Run: a.RunID, Organization: w.org, Workspace: w.ws, Phase: authz.Apply, Sandbox: "box", Epoch: 41,
	}, actor)
	w.do(func(tx postgres.Tx) error {
		n, err := postgres.Value[int](ctx, tx, "select count(*) from attempts a where position(@token in a::text) > 0", postgres.Args{"token": token[len(token)-20:]})
		assert.Zero(t, n, "the token is stored nowhere")
		return err
	})

	refused := func(token string, kind fault.Kind, code string) {
		t.Helper()
		_, err := w.Authenticate(ctx, token)
		wantFault(t, err, kind, code)
	}
	neighbour := w.running(authz.Plan)
	body, mac, _ := strings.Cut(token, ".")
	others, _, _ := strings.Cut(w.Token(neighbour), ".")
	for _, bad := range []string{"", "hfa_", "hfa_.", token[:len(token)-1], token + "A", mac, "hfa_" + string(id), others + "." + mac, "hfa_\xff." + mac, "hfa_a\x00." + mac, body + "A." + mac, strings.Replace(token, "hfa_", "hfb_", 1)} {
		refused(bad, fault.Unauthenticated, "unauthenticated")
	}
	// What was minted here and is not known is no wrong token (architecture §3).
	for what, spoil := range map[string]func(*dispatch.Attempt){
		"sandbox":   func(a *dispatch.Attempt) { a.SandboxID = "another box" },
		"phase":     func(a *dispatch.Attempt) { a.Phase = authz.Plan },
		"attempt":   func(a *dispatch.Attempt) { a.ID = ids.New[ids.Attempt]() },
		"run":       func(a *dispatch.Attempt) { a.RunID = ids.New[ids.Run]() },
		"workspace": func(a *dispatch.Attempt) { a.WorkspaceID = ids.New[ids.Workspace]() },
		"epoch":     func(a *dispatch.Attempt) { a.FenceEpoch = nil },
		"session":   func(a *dispatch.Attempt) { a.JTI = "another" },
	} {
		other := a
		spoil(&other)
		_, lost, err := w.Identify(ctx, w.Token(other))
		require.NoError(t, err, what)
		assert.NotNil(t, lost, what)
		refused(w.Token(other), fault.RecoveryHeld, "authority_lost")
	}

	w.exec("update attempts set token_expires_at = clock_timestamp() where id = @id", postgres.Args{"id": id})
	refused(token, fault.Unauthenticated, "capability_expired") // the persisted end of its authority decides (AU-20)
	w.exec("update attempts set token_expires_at = @at where id = @id", postgres.Args{"id": id, "at": a.TokenExpiresAt})
	_, err = w.Authenticate(ctx, token)
	require.NoError(t, err)
	w.finish(w.get(id))
	refused(token, fault.Unauthenticated, "session_ended")
	known, lost, err := w.IdentifyEnded(ctx, token)
	got := known.Attempt
	require.NoError(t, err, "a report may be repeated")
	assert.Nil(t, lost)
	assert.Equal(t, id, got)
	other := a
	other.SandboxID = "another box"
	_, lost, err = w.IdentifyEnded(ctx, w.Token(other))
	require.NoError(t, err)
	assert.NotNil(t, lost)
	_, _, err = w.IdentifyEnded(ctx, "hfa_x."+mac)
	wantFault(t, err, fault.Unauthenticated, "unauthenticated")
}

func TestHeartbeatAndStop(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.running(authz.Plan)
	beat := func() (stop bool) {
		w.do(func(tx postgres.Tx) (err error) {
			stop, err = dispatch.Heartbeat(ctx, tx, a.ID)
			return err
		})
		return stop
	}
	assert.False(t, beat())
	w.do(func(tx postgres.Tx) error { return dispatch.RequestStop(ctx, tx, a.ID) })
	assert.True(t, beat())
	w.finish(w.get(a.ID))
	assert.True(t, beat(), "who has ended shall stop")
	err := w.tx(func(tx postgres.Tx) error {
		return dispatch.Finish(ctx, tx, a, dispatch.End{Status: dispatch.Lost})
	})
	wantFault(t, err, fault.Conflict, "attempt_ended")
	assert.Equal(t, dispatch.Finished, w.get(a.ID).Status)
}

func TestApplyStartsOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	plan := w.running(authz.Plan)
	w.finish(plan)
	apply := w.running(authz.Apply)
	start := func(id ids.Attempt) (first bool) {
		w.do(func(tx postgres.Tx) (err error) {
			_, first, err = dispatch.StartApply(ctx, tx, id, "digest")
			return err
		})
		return first
	}
	confirm := func(id ids.Attempt) error {
		return w.tx(func(tx postgres.Tx) error { return dispatch.ConfirmState(ctx, tx, id, "") })
	}
	assert.False(t, start(plan.ID))
	wantFault(t, confirm(apply.ID), fault.Conflict, "not_applying")
	assert.True(t, start(apply.ID))
	assert.False(t, start(apply.ID))
	assert.NotNil(t, w.get(apply.ID).ApplyStartedAt)
}

func TestArtifactsAreHandedOverOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.running(authz.Plan)
	handOver := func(a dispatch.Attempt, o artifacts.Object) error {
		return w.tx(func(tx postgres.Tx) error { return dispatch.HandOver(ctx, tx, a, "plan", o) })
	}
	first := w.object(artifacts.KindPlan, "bytes")
	w.do(func(tx postgres.Tx) error {
		_, found, err := dispatch.HandedOver(ctx, tx, a.ID, "plan")
		assert.False(t, found)
		return err
	})
	require.NoError(t, handOver(a, first))
	require.NoError(t, handOver(a, w.object(artifacts.KindPlan, "bytes")), "the same bytes again")
	wantFault(t, handOver(a, w.object(artifacts.KindPlan, "others")), fault.Conflict, "artifact_fixed")
	w.do(func(tx postgres.Tx) error {
		art, found, err := dispatch.HandedOver(ctx, tx, a.ID, "plan")
		assert.Equal(t, []any{true, dispatch.Artifact{Kind: "plan", ObjectID: first.ID, SHA256: first.SHA256}}, []any{found, art})
		return err
	})
	w.finish(a)
	wantFault(t, handOver(w.get(a.ID), first), fault.Conflict, "attempt_ended")
}
