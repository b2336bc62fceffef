package dispatch_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/dispatch"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/workspaces"
)

func (w world) services() (*accounts.Service, *workspaces.Service) {
	who := accounts.New(w.db, w.objects)
	return who, workspaces.New(w.db, who, w.objects)
}

// elsewhere is the same world in another organization.
func (w world) elsewhere(name string) world {
	w.Helper()
	_, places := w.services()
	org, err := places.CreateOrganization(ctx, authz.System(), accounts.NewOrganization{Name: name})
	require.NoError(w, err)
	ws, err := places.Create(ctx, authz.System(), name, workspaces.NewWorkspace{Name: "net"})
	require.NoError(w, err)
	w.org, w.ws = org.ID, ws.ID
	return w
}

// pool makes a pool of the organization acme with a ready runner, and gives the world as
// that runner sees it.
func (w world) pool(c accounts.PoolChanges) world {
	w.Helper()
	who, _ := w.services()
	p, err := who.CreatePool(ctx, authz.System(), "acme", c)
	require.NoError(w, err)
	token, _, err := who.CreateAgentToken(ctx, authz.System(), p.ID, "")
	require.NoError(w, err)
	w.group, err = who.RunnerGroupByToken(ctx, token)
	require.NoError(w, err)
	w.runner = w.ready(w.group)
	return w
}

// onPool makes a workspace of acme whose runs are for the pool.
func (w world) onPool(name string, pool ids.RunnerGroup) world {
	w.Helper()
	_, places := w.services()
	mode := workspaces.Agent
	ws, err := places.Create(ctx, authz.System(), "acme", workspaces.NewWorkspace{Name: name, Settings: workspaces.Settings{ExecutionMode: &mode, AgentPool: &pool}})
	require.NoError(w, err)
	w.ws = ws.ID
	return w
}

func (w world) claimAll() (order []ids.Attempt) {
	w.Helper()
	for a, found := w.claim(); found; a, found = w.claim() {
		order = append(order, a.ID)
	}
	return order
}

// TestClaimsGoRoundTheOrganizations is amendment 23: the organization whose last turn is
// longest ago is next, the oldest first within it; applies go before, wherever they are;
// another's plans never wait behind an organization's long queue.
func TestClaimsGoRoundTheOrganizations(t *testing.T) {
	t.Parallel()
	acme := newWorld(t)
	beta, gamma := acme.elsewhere("beta"), acme.elsewhere("gamma")
	var a, b, c []ids.Attempt
	for range 4 {
		a = append(a, acme.create(authz.Plan, nil))
	}
	b = append(b, beta.create(authz.Plan, func(n *dispatch.NewAttempt) { n.Speculative = true }), beta.create(authz.Plan, nil))
	c = append(c, gamma.create(authz.Plan, nil))
	apply := acme.create(authz.Apply, nil)

	assert.Equal(t, []ids.Attempt{
		apply,      // acme's turn
		b[1], c[0], // the oldest of those who had none yet; beta's plan before its speculative one
		a[0], b[0], // acme's last turn is longest ago, then beta's
		a[1], a[2], a[3],
	}, acme.claimAll())
}

func TestConcurrentClaimsGoRoundToo(t *testing.T) {
	t.Parallel()
	acme := newWorld(t)
	beta := acme.elsewhere("beta")
	for range 6 {
		acme.create(authz.Plan, nil)
	}
	for range 3 {
		beta.create(authz.Plan, nil)
	}
	turns := map[ids.Organization]int{}
	err := acme.tx(func(tx postgres.Tx) error {
		for range 3 { // a claim that is not committed yet, and others beside it
			a, _, err := dispatch.Claim(ctx, tx, acme.group, dispatch.RunnerHello{ID: acme.runner, TofuVersions: []string{tofu}}, time.Minute)
			if err != nil {
				return err
			}
			turns[a.OrganizationID]++
			beside, found := acme.claim()
			assert.True(t, found, "it does not wait for the first")
			turns[beside.OrganizationID]++
		}
		return nil
	})
	require.NoError(t, err)
	assert.Equal(t, map[ids.Organization]int{acme.org: 3, beta.org: 3}, turns)
}

// TestAPoolHasItsOwnRuns: runs of a workspace that names a pool are for its runners
// alone, and a pool takes no others unless it is told to.
func TestAPoolHasItsOwnRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	name, yes := "mine", true
	mine := w.pool(accounts.PoolChanges{Name: &name})
	bound := w.onPool("bound", mine.group.ID).create(authz.Plan, nil)
	remote := w.create(authz.Plan, nil)
	assert.Equal(t, []ids.Attempt{bound}, mine.claimAll())
	assert.Equal(t, []ids.Attempt{remote}, w.claimAll())

	foreign := w.elsewhere("beta").create(authz.Plan, nil)
	remote = w.create(authz.Plan, nil)
	bound = w.onPool("bound-2", mine.group.ID).create(authz.Plan, nil)
	_, err := w.UpdatePool(ctx, authz.System(), mine.group.ID, accounts.PoolChanges{TakesRemote: &yes})
	require.NoError(t, err)
	assert.Equal(t, []ids.Attempt{remote, bound}, mine.claimAll(), "the oldest first, whatever it names")
	assert.Equal(t, []ids.Attempt{foreign}, w.claimAll(), "no pool has another organization's")
}

func TestTheScopeOfAPool(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	name, yes, no := "narrow", true, false
	pool := w.pool(accounts.PoolChanges{Name: &name, TakesRemote: &yes, OrganizationScoped: &no})
	attempt := w.create(authz.Plan, nil)
	set := func(c accounts.PoolChanges) {
		t.Helper()
		_, err := w.UpdatePool(ctx, authz.System(), pool.group.ID, c)
		require.NoError(t, err)
	}
	versions := func() (list []string) {
		w.do(func(tx postgres.Tx) (err error) {
			list, err = dispatch.VersionsFor(ctx, tx, w.ws)
			return err
		})
		return list
	}
	w.exec("update runner_groups set takes_remote = false where organization_id is null", nil) // only the pool is left
	giveBack := func() {
		w.do(func(tx postgres.Tx) error { return dispatch.Deregister(ctx, tx, pool.group, pool.runner) })
		pool.runner = pool.ready(pool.group)
	}
	fits := func(why string) {
		t.Helper()
		assert.Equal(t, []string{tofu}, versions(), why)
		assert.Equal(t, []ids.Attempt{attempt}, pool.claimAll(), why)
		giveBack()
	}
	fitsNot := func(why string) {
		t.Helper()
		assert.Empty(t, versions(), why)
		assert.Empty(t, pool.claimAll(), why)
	}
	fitsNot("nothing is allowed")
	set(accounts.PoolChanges{AllowedWorkspaces: &[]ids.Workspace{w.ws}})
	fits("its workspace is allowed")
	set(accounts.PoolChanges{AllowedWorkspaces: &[]ids.Workspace{}})
	fitsNot("not any more")
	_, places := w.services()
	project, err := places.DefaultProject(ctx, authz.System(), "acme")
	require.NoError(t, err)
	set(accounts.PoolChanges{AllowedProjects: &[]ids.Project{project.ID}})
	fits("its project is allowed")
	set(accounts.PoolChanges{ExcludedWorkspaces: &[]ids.Workspace{w.ws}})
	fitsNot("excluded")
	set(accounts.PoolChanges{OrganizationScoped: &yes})
	fitsNot("excluded still")
	set(accounts.PoolChanges{ExcludedWorkspaces: &[]ids.Workspace{}})
	fits("scoped to the organization")
}

// TestASelectorNeedsAllItsLabels is RP-02: what an attempt asks for is settled when it is
// made, and the group's labels and the runner's together must have all of it.
func TestASelectorNeedsAllItsLabels(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, places := w.services()
	select2 := func(labels ...string) {
		_, err := places.Update(ctx, authz.System(), w.ws, workspaces.Changes{Settings: workspaces.Settings{RunnerSelector: &labels}})
		require.NoError(t, err)
	}
	select2("gpu", "region=eu")
	attempt := w.create(authz.Plan, nil)
	select2()
	claim := func(labels ...string) (found bool) {
		w.do(func(tx postgres.Tx) (err error) {
			_, found, err = dispatch.Claim(ctx, tx, w.group, dispatch.RunnerHello{ID: w.runner, TofuVersions: []string{tofu}, Labels: labels}, time.Minute)
			return err
		})
		return found
	}
	assert.False(t, claim())
	assert.False(t, claim("gpu"))
	assert.False(t, claim("gpu", "region=us"))
	w.exec("update runner_groups set labels = '{region=eu}' where id = @id", postgres.Args{"id": w.group.ID})
	assert.True(t, claim("gpu", "more"))
	assert.Equal(t, dispatch.Assigned, w.get(attempt).Status)

	t.Log("the version of a run is one that a runner with the labels has")
	select2("tpu")
	versions := func() (list []string) {
		w.do(func(tx postgres.Tx) (err error) {
			list, err = dispatch.VersionsFor(ctx, tx, w.ws)
			return err
		})
		return list
	}
	assert.Empty(t, versions())
	w.do(func(tx postgres.Tx) error {
		_, err := dispatch.See(ctx, tx, w.group, dispatch.RunnerHello{Name: "tpu", TofuVersions: []string{"1.11.1"}, Labels: []string{"tpu"}})
		return err
	})
	assert.Equal(t, []string{"1.11.1"}, versions())
}

// TestWhatNobodyMayOfferAnyMore: a claim that meets a revocation or a drain at the same
// moment gives back what it took.
func TestWhatNobodyMayOfferAnyMore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	attempt := w.create(authz.Plan, nil)
	require.NoError(t, w.RevokeAgentToken(ctx, authz.System(), w.group.Token))
	err := w.tx(func(tx postgres.Tx) error {
		_, _, err := dispatch.Claim(ctx, tx, w.group, dispatch.RunnerHello{ID: w.runner, TofuVersions: []string{tofu}}, time.Minute)
		return err
	})
	wantFault(t, err, fault.Unauthenticated, "unauthenticated")
	assert.Equal(t, dispatch.Pending, w.get(attempt).Status)

	w.group = w.other
	w.runner = w.ready(w.group)
	_, err = w.DrainPool(ctx, authz.System(), w.group.ID, true)
	require.NoError(t, err)
	assert.Empty(t, w.claimAll())
	_, err = w.DrainPool(ctx, authz.System(), w.group.ID, false)
	require.NoError(t, err)
	assert.Equal(t, []ids.Attempt{attempt}, w.claimAll())
	require.NoError(t, w.DeletePool(ctx, authz.System(), w.group.ID))
	a := w.get(attempt)
	assert.Equal(t, []any{dispatch.Pending, ids.Runner("")}, []any{a.Status, a.RunnerID}, "a deleted group cannot accept")
}

// TestARunnerThatEndedWithoutAWordIsForgotten a day later, unless it has something.
func TestARunnerThatEndedWithoutAWordIsForgotten(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.running(authz.Plan)
	idle := w.ready(w.group)
	w.exec("update runners set last_seen_at = clock_timestamp() - interval '2 days'", nil)
	_, err := w.Agent(ctx, authz.System(), idle)
	require.NoError(t, err)
	w.ready(w.group)
	_, err = w.Agent(ctx, authz.System(), idle)
	assert.True(t, fault.Is(err, fault.NotFound), "%v", err)
	busy, err := w.Agent(ctx, authz.System(), w.runner)
	require.NoError(t, err)
	assert.Equal(t, dispatch.AgentBusy, busy.Status)

	w.exec("update runners set last_seen_at = clock_timestamp() - interval '3 minutes' where id <> @busy", postgres.Args{"busy": w.runner})
	agents, total, err := w.Agents(ctx, authz.System(), w.group.ID, dispatch.AgentFilter{NewestFirst: true})
	require.NoError(t, err)
	require.Equal(t, 2, total)
	assert.Equal(t, dispatch.AgentUnknown, agents[0].Status)
	require.NoError(t, w.DeleteAgent(ctx, authz.System(), agents[0].ID))
	wantFault(t, w.DeleteAgent(ctx, authz.System(), w.runner), fault.Conflict, "agent_there")
}

// TestARunnerThatIsolatesNothingServesOneOrganization: what one attempt leaves on such a
// machine must not be there for another organization's.
func TestARunnerThatIsolatesNothingServesOneOrganization(t *testing.T) {
	t.Parallel()
	acme := newWorld(t)
	beta := acme.elsewhere("beta")
	theirs, ours := beta.create(authz.Plan, nil), acme.create(authz.Plan, nil)
	claim := func(organization ids.Organization) (got ids.Attempt) {
		require.NoError(t, acme.tx(func(tx postgres.Tx) error {
			a, _, err := dispatch.Claim(ctx, tx, acme.group, dispatch.RunnerHello{ID: acme.runner, TofuVersions: []string{tofu}, Organization: organization}, time.Minute)
			got = a.ID
			return err
		}))
		return got
	}
	attempt := func(id ids.Attempt) (a dispatch.Attempt) {
		require.NoError(t, acme.tx(func(tx postgres.Tx) (err error) {
			a, err = dispatch.Get(ctx, tx, id)
			return err
		}))
		return a
	}
	assert.Equal(t, ours, claim(attempt(ours).OrganizationID))
	assert.Empty(t, claim(attempt(ours).OrganizationID), "the other one is not its work")
	assert.Equal(t, theirs, claim(""))
}
