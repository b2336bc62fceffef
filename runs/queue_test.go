package runs

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/dispatch"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/fence"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/workspaces"
)

// TestEveryWayOutPromotesTheNext queues runs and frees the workspace in each way
// there is: the next one is admitted in that very transaction, in the order of creation.
func TestEveryWayOutPromotesTheNext(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspace()
	plan := func(run ids.Run, changes bool) { w.take(run).plan(changes) }
	serial := int64(0)
	var queue []ids.Run
	ways := []struct {
		name string
		free func(run ids.Run)
		want Status
	}{
		{"cancel while queued", func(run ids.Run) { require.NoError(t, w.runs.Cancel(ctx, w.owner, run, "")) }, Canceled},
		{"cancel while planning", func(run ids.Run) { e := w.take(run); e.canceling(); e.done(Done{Outcome: OutcomeCanceled}) }, Canceled},
		{"plan failed", func(run ids.Run) { w.take(run).done(Done{Outcome: OutcomeErrored}) }, PlanFailed},
		{"force-cancel", func(run ids.Run) {
			w.take(run).canceling()
			w.due(run)
			require.NoError(t, w.runs.ForceCancel(ctx, w.owner, run, ""))
		}, Canceled},
		{"force-execute", func(run ids.Run) {
			plan(run, true)
			require.NoError(t, w.runs.ForceExecute(ctx, w.owner, queue[slices.Index(queue, run)+1]))
		}, Rejected},
		{"replan and its end", func(run ids.Run) {
			plan(run, true)
			fresh := w.replan(run).ID
			w.wantAdmitted(fresh)
			w.take(fresh).plan(false)
		}, Rejected},
		{"not dispatched", func(run ids.Run) { w.take(run).done(Done{Outcome: OutcomeErrored, Reason: DispatchFailed}) }, PlanFailed},
		{"unsupported provider", func(run ids.Run) { w.take(run).done(Done{Outcome: OutcomeErrored, Reason: UnsupportedProvider}) }, PlanFailed},
		{"no changes", func(run ids.Run) { plan(run, false) }, Succeeded},
		{"discard", func(run ids.Run) { plan(run, true); require.NoError(t, w.runs.Discard(ctx, w.owner, run, Decision{})) }, Rejected},
		{"expiry", func(run ids.Run) { plan(run, true); w.overdue(run); w.sweep() }, Expired},
		{"cancel while awaiting", func(run ids.Run) { plan(run, true); require.NoError(t, w.runs.Cancel(ctx, w.owner, run, "")) }, Canceled},
		{"applied", func(run ids.Run) {
			plan(run, true)
			require.NoError(t, w.runs.Confirm(ctx, w.owner, run, Decision{}))
			serial++
			w.take(run).apply(serial)
		}, Succeeded},
		{"apply failed", func(run ids.Run) {
			plan(run, true)
			require.NoError(t, w.runs.Confirm(ctx, w.owner, run, Decision{}))
			e := w.take(run)
			e.start()
			e.done(failed())
		}, ApplyFailed},
		{"approval stale", func(run ids.Run) {
			plan(run, true)
			w.move(ws)
			require.NoError(t, w.runs.Confirm(ctx, w.owner, run, Decision{}))
		}, Canceled},
		{"offer expired", func(run ids.Run) {
			w.leaveLying()
		}, PlanFailed},
		{"runner lost", func(run ids.Run) {
			w.take(run).silence(w.longestOutage())
			require.NoError(t, w.runs.ReapSilent(ctx))
		}, PlanFailed},
	}
	for range ways {
		queue = append(queue, w.run(ws).ID)
	}
	last := w.run(ws).ID
	epoch := int64(0)
	for i, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			w.wantAdmitted(queue[i])
			assert.Greater(t, w.fence(ws).Epoch, epoch)
			epoch = w.fence(ws).Epoch
			for _, later := range queue[i+1:] {
				w.wantWaits(later)
			}
			way.free(queue[i])
			w.wantStatus(queue[i], way.want)
			w.wantReleased(queue[i])
		})
	}
	w.wantAdmitted(last)
}

func TestTheQueueOfAnOrganization(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspace()
	first, second, third := w.run(ws), w.run(ws), w.run(w.workspace())
	w.take(first.ID)
	waiting, _, err := w.runs.Queue(ctx, w.member, w.acme.ID, "acme")
	require.NoError(t, err)
	var got []ids.Run
	for _, d := range waiting {
		got = append(got, d.ID)
	}
	assert.Equal(t, []ids.Run{first.ID, second.ID, third.ID}, got)

	list, total, err := w.runs.List(ctx, w.member, ws, Filter{Limit: 1})
	require.NoError(t, err)
	assert.Equal(t, 2, total)
	require.Len(t, list, 1)
	assert.Equal(t, second.ID, list[0].ID)
	w.run(ws, planOnly)
	_, total, err = w.runs.List(ctx, w.member, ws, Filter{Limit: 10})
	require.NoError(t, err)
	assert.Equal(t, 2, total)
	_, total, err = w.runs.List(ctx, w.member, ws, Filter{Limit: 10, PlanOnly: true})
	require.NoError(t, err)
	assert.Equal(t, 3, total)
}

// What a workspace shows as its current run: the occupant, else the first that
// waits, else the last occupant; never a plan-only run.
func TestTheCurrentRunOfAWorkspace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspace()
	assert.Empty(t, w.current(ws))
	w.run(ws, planOnly)
	assert.Empty(t, w.current(ws))

	first, second := w.run(ws), w.run(ws)
	assert.Equal(t, first.ID, w.current(ws), "it has the workspace")
	require.NoError(t, w.runs.Cancel(ctx, w.owner, first.ID, ""))
	assert.Equal(t, second.ID, w.current(ws), "it was promoted")
	require.NoError(t, w.runs.Cancel(ctx, w.owner, second.ID, ""))
	assert.Equal(t, second.ID, w.current(ws), "it was the last")

	locked, err := w.runs.Lock(ctx, w.owner, ws, "")
	require.NoError(t, err)
	assert.Equal(t, second.ID, locked.CurrentRun)
	third := w.run(ws)
	w.run(ws)
	assert.Equal(t, third.ID, w.current(ws), "it waits for a person's lock")
	unlocked, err := w.runs.Unlock(ctx, w.owner, ws)
	require.NoError(t, err)
	assert.Equal(t, third.ID, unlocked.CurrentRun)

	other := w.run(w.workspace())
	page, _, err := w.spaces.List(ctx, w.member, "acme", workspaces.Filter{})
	require.NoError(t, err)
	shown := map[ids.Workspace]ids.Run{}
	for _, listed := range page {
		shown[listed.ID] = listed.CurrentRun
	}
	assert.Equal(t, map[ids.Workspace]ids.Run{ws: third.ID, other.WorkspaceID: other.ID}, shown, "each its own")
}

func TestAPersonsLockKeepsRunsWaiting(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspace()
	locked, err := w.runs.Lock(ctx, w.owner, ws, "maintenance")
	require.NoError(t, err)
	assert.True(t, locked.Fence.HeldBy(fence.User, string(w.owner.User)))
	assert.Equal(t, "maintenance", locked.Fence.Reason)
	_, err = w.runs.Lock(ctx, w.owner, ws, "")
	wantCode(t, err, fault.Locked, "workspace_locked")
	assert.ErrorContains(t, err, "is locked by User ada")
	_, err = w.runs.Lock(ctx, w.member, ws, "")
	assert.True(t, fault.Is(err, fault.Forbidden), "%v", err)

	first, second := w.run(ws), w.run(ws)
	w.wantWaits(first.ID)
	w.sweep()
	w.wantWaits(first.ID)
	assert.Equal(t, Queued, w.get(w.run(ws, planOnly).ID).DurableStatus)
	w.take(w.allRuns(ws)[0]).plan(true) // plans beside the lock

	unlocked, err := w.runs.Unlock(ctx, w.owner, ws)
	require.NoError(t, err)
	w.wantAdmitted(first.ID)
	assert.True(t, unlocked.Fence.HeldBy(fence.Run, string(first.ID)), "the answer shows the workspace as it is now")
	require.NoError(t, w.runs.Cancel(ctx, w.owner, first.ID, ""))
	w.wantAdmitted(second.ID)
}

// allRuns lists all of a workspace's runs, newest first.
func (w *world) allRuns(ws ids.Workspace) (list []ids.Run) {
	w.Helper()
	found, _, err := w.runs.List(ctx, w.member, ws, Filter{Limit: 1000, PlanOnly: true})
	require.NoError(w, err)
	for _, d := range found {
		list = append(list, d.ID)
	}
	return list
}

func TestForceUnlockTakesAPersonsLockOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspace()
	_, err := w.runs.ForceUnlock(ctx, w.owner, ws)
	wantCode(t, err, fault.Conflict, "workspace_unlocked")
	_, err = w.runs.Unlock(ctx, w.owner, ws)
	wantCode(t, err, fault.Conflict, "workspace_unlocked")

	_, err = w.runs.Lock(ctx, w.owner, ws, "")
	require.NoError(t, err)
	before := w.fence(ws).Epoch
	upload, err := w.begin(w.owner, ws, stateFile(1), 1)
	require.NoError(t, err)
	_, err = w.runs.Unlock(ctx, w.owner, ws)
	wantCode(t, err, fault.Conflict, "state_pending")
	assert.ErrorContains(t, err, "latest state version is still pending")
	admin := w.owner
	admin.User = "user-1111111111111111"
	_, err = w.runs.Unlock(ctx, admin, ws)
	wantCode(t, err, fault.Locked, "workspace_locked")
	assert.ErrorContains(t, err, "is locked by User ada")

	waiting := w.run(ws)
	_, err = w.runs.ForceUnlock(ctx, w.owner, ws)
	require.NoError(t, err)
	w.wantAdmitted(waiting.ID)
	assert.Greater(t, w.fence(ws).Epoch, before)
	_, err = w.state.Upload(ctx, upload.ID, strings.NewReader(stateFile(1)))
	wantCode(t, err, fault.Conflict, "stale_fence")

	for name, fn := range map[string]func() error{
		"lock":         func() error { return second(w.runs.Lock(ctx, w.owner, ws, "")) },
		"unlock":       func() error { return second(w.runs.Unlock(ctx, w.owner, ws)) },
		"force-unlock": func() error { return second(w.runs.ForceUnlock(ctx, w.owner, ws)) },
	} {
		t.Run(name, func(t *testing.T) {
			err := fn()
			wantCode(t, err, fault.Locked, "workspace_locked")
			assert.ErrorContains(t, err, "is locked by Run "+string(waiting.ID))
		})
	}
	w.wantAdmitted(waiting.ID)
}

func TestDeleteWorkspace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	t.Run("cancels what waits and works", func(t *testing.T) {
		ws := w.workspace()
		e := w.take(w.run(ws).ID)
		waiting, speculative := w.run(ws), w.run(ws, planOnly)
		before := w.fence(ws).Epoch
		wantCode(t, w.runs.DeleteWorkspace(ctx, w.owner, ws, true), fault.Conflict, "workspace_locked")
		require.NoError(t, w.runs.DeleteWorkspace(ctx, w.owner, ws, false))
		for _, run := range []ids.Run{e.RunID, waiting.ID, speculative.ID} {
			d := w.wantStatus(run, Canceled)
			assert.Equal(t, "workspace_deleted", d.DurableReason)
			assert.NotContains(t, []dispatch.Status{dispatch.Pending, dispatch.Assigned}, d.PlanAttempt)
		}
		assert.Nil(t, w.get(waiting.ID).AdmittedAt, "nothing was promoted on the way")
		assert.Greater(t, w.fence(ws).Epoch, before)
		w.wantFree(ws)
		stop, err := w.runs.Heartbeat(ctx, e.actor)
		require.NoError(t, err)
		assert.True(t, stop)
		e.done(Done{Outcome: OutcomeCanceled})
		w.wantStatus(e.RunID, Canceled)

		_, err = w.spaces.Get(ctx, w.owner, ws)
		assert.True(t, fault.Is(err, fault.NotFound))
		_, _, err = w.runs.Create(ctx, w.owner, NewRun{Workspace: ws})
		assert.True(t, fault.Is(err, fault.NotFound))
		assert.True(t, fault.Is(w.runs.DeleteWorkspace(ctx, w.owner, ws, false), fault.NotFound))
	})
	t.Run("before apply-start", func(t *testing.T) {
		e := w.confirmed(w.workspace())
		require.NoError(t, w.runs.DeleteWorkspace(ctx, w.owner, e.WorkspaceID, false))
		w.wantStatus(e.RunID, Canceled)
		assert.True(t, fault.Is(e.tryStart(), fault.Conflict))
	})
	t.Run("applying or held", func(t *testing.T) {
		e := w.applying(w.workspace())
		for _, safe := range []bool{true, false} {
			err := w.runs.DeleteWorkspace(ctx, w.owner, e.WorkspaceID, safe)
			wantCode(t, err, fault.RecoveryHeld, "workspace_applying")
			assert.ErrorContains(t, err, string(e.RunID))
		}
		e.publish(1)
		e.done(failed())
		for _, safe := range []bool{true, false} {
			wantCode(t, w.runs.DeleteWorkspace(ctx, w.owner, e.WorkspaceID, safe), fault.RecoveryHeld, "workspace_recovery_pending")
		}
		w.wantHeld(e.RunID)
	})
	t.Run("with a state that the client encrypted", func(t *testing.T) {
		ws := w.workspace()
		_, err := w.runs.Lock(ctx, w.owner, ws, "")
		require.NoError(t, err)
		content := fmt.Sprintf(`{"serial":1,"lineage":%q,"meta":{},"encrypted_data":"AAAA","encryption_version":"v0"}`, lineage)
		v, err := w.begin(w.owner, ws, content, 1)
		require.NoError(t, err)
		_, err = w.state.Upload(ctx, v.ID, strings.NewReader(content))
		require.NoError(t, err)
		_, err = w.runs.Unlock(ctx, w.owner, ws)
		require.NoError(t, err)
		err = w.runs.DeleteWorkspace(ctx, w.owner, ws, true)
		wantCode(t, err, fault.Conflict, "workspace_not_empty")
		assert.ErrorContains(t, err, "encrypted by the client")
		require.NoError(t, w.runs.DeleteWorkspace(ctx, w.owner, ws, false))
	})
	t.Run("with more resources than are listed", func(t *testing.T) {
		ws := w.workspace()
		_, err := w.runs.Lock(ctx, w.owner, ws, "")
		require.NoError(t, err)
		w.publishResources(ws, 1, `{"mode":"managed"}`+strings.Repeat(`,{"mode":"managed"}`, 50_000))
		_, err = w.runs.Unlock(ctx, w.owner, ws)
		require.NoError(t, err)
		err = w.runs.DeleteWorkspace(ctx, w.owner, ws, true)
		wantCode(t, err, fault.Conflict, "workspace_not_empty")
		assert.ErrorContains(t, err, "50001 known")
	})
	t.Run("safely", func(t *testing.T) {
		ws := w.workspace()
		_, err := w.runs.Lock(ctx, w.owner, ws, "")
		require.NoError(t, err)
		wantCode(t, w.runs.DeleteWorkspace(ctx, w.owner, ws, true), fault.Conflict, "workspace_locked")
		w.publishResources(ws, 1, `{"mode":"data","type":"a","name":"d","provider":"p","instances":[{}]},{"mode":"managed","type":"a","name":"m","provider":"p","instances":[{},{}]}`)
		_, err = w.runs.Unlock(ctx, w.owner, ws)
		require.NoError(t, err)
		err = w.runs.DeleteWorkspace(ctx, w.owner, ws, true)
		wantCode(t, err, fault.Conflict, "workspace_not_empty")
		assert.ErrorContains(t, err, "2 known")

		_, err = w.runs.Lock(ctx, w.owner, ws, "")
		require.NoError(t, err)
		w.publishResources(ws, 2, `{"mode":"data","type":"a","name":"d","provider":"p","instances":[{}]}`)
		_, err = w.runs.Unlock(ctx, w.owner, ws)
		require.NoError(t, err)
		require.NoError(t, w.runs.DeleteWorkspace(ctx, w.owner, ws, true))
		assert.Equal(t, 2, count(w, "select count(*) from state_versions where workspace_id = @w", postgres.Args{"w": ws}), "state is kept")
	})
}

func (w *world) publishResources(ws ids.Workspace, serial int64, resources string) {
	w.Helper()
	content := fmt.Sprintf(`{"version":4,"serial":%d,"lineage":"%s","outputs":{},"resources":[%s]}`, serial, lineage, resources)
	v, err := w.begin(w.owner, ws, content, serial)
	require.NoError(w, err)
	_, err = w.state.Upload(ctx, v.ID, strings.NewReader(content))
	require.NoError(w, err)
}

func TestARunMadeWhileItsWorkspaceIsDeletedIsNotFound(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspace()
	n := NewRun{Workspace: ws, Configuration: w.configuration(ws)}
	locked, deleted := make(chan struct{}), make(chan error)
	go func() {
		deleted <- w.tx(func(tx postgres.Tx) error {
			if _, err := fence.Lock(ctx, tx, ws); err != nil {
				return err
			}
			close(locked)
			for { // until Create waits for the fence row
				waiting, err := postgres.Value[bool](ctx, tx, "select exists (select 1 from pg_locks where not granted and pg_backend_pid() = any (pg_blocking_pids(pid)))", postgres.Args{})
				if err != nil {
					return err
				}
				if waiting {
					break
				}
			}
			_, err := postgres.Exec(ctx, tx, "update workspaces set deleted_at = clock_timestamp() where id = @id", postgres.Args{"id": ws})
			return err
		})
	}()
	<-locked
	_, _, err := w.runs.Create(ctx, w.owner, n)
	require.NoError(t, <-deleted)
	assert.True(t, fault.Is(err, fault.NotFound), "%v", err)
	assert.Zero(t, count(w, "select count(*) from runs", postgres.Args{}))
}

func TestTwentyAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspace()
	const n = 20
	configurations := make([]ids.ConfigurationVersion, n)
	for i := range n {
		configurations[i] = w.configuration(ws)
	}
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			_, created, err := w.runs.Create(ctx, w.owner, NewRun{Workspace: ws, Configuration: configurations[i]})
			assert.NoError(t, err)
			assert.True(t, created)
		})
	}
	all.Wait()
	order := w.allRuns(ws)
	require.Len(t, order, n)
	assert.Equal(t, 1, count(w, "select count(*) from runs where admitted_at is not null", postgres.Args{}))
	for i := n - 1; i >= 0; i-- { // oldest first
		w.wantAdmitted(order[i])
		require.NoError(t, w.runs.Cancel(ctx, w.owner, order[i], ""))
	}
	assert.Equal(t, n, count(w, "select count(*) from (select admitted_at, lag(admitted_at) over (order by queue_seq) as before from runs) r where before is null or admitted_at > before", postgres.Args{}))
	w.wantFree(ws)
}

func TestADecisionAndACancelAtOnceEndInOneWay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspace()
	for range 10 {
		run := w.waiting(ws)
		errs := make([]error, 3)
		var all sync.WaitGroup
		for i, fn := range []func() error{
			func() error { return w.runs.Confirm(ctx, w.owner, run, Decision{}) },
			func() error { return w.runs.Discard(ctx, w.owner, run, Decision{}) },
			func() error { return w.runs.Cancel(ctx, w.owner, run, "") },
		} {
			all.Go(func() { errs[i] = fn() })
		}
		all.Wait()
		for _, err := range errs {
			assert.True(t, err == nil || fault.Is(err, fault.Conflict), "%v", err)
		}
		d := w.get(run)
		switch d.DurableStatus {
		case Rejected:
			assert.NoError(t, errs[1])
			assert.Error(t, errs[0])
			assert.Error(t, errs[2])
		case Canceled:
			assert.NoError(t, errs[2])
			assert.Error(t, errs[1])
		default:
			t.Fatalf("the run is %s", d.DurableStatus)
		}
		w.wantFree(ws)
	}
}
