package runs

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/outbound"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/runtasks"
)

// tasker is somebody's service for run tasks. It takes requests with its status.
type tasker struct {
	*world
	tasks  *runtasks.Service
	mu     sync.Mutex
	status int
	asked  []string
	task   runtasks.Task
}

func (w *world) tasker(t *testing.T, settings ...func(*runtasks.Settings)) *tasker {
	t.Helper()
	k := &tasker{world: w, status: http.StatusOK}
	server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		k.mu.Lock()
		defer k.mu.Unlock()
		k.asked = append(k.asked, string(body))
		out.WriteHeader(k.status)
	}))
	t.Cleanup(server.Close)
	set := runtasks.Defaults()
	set.Document = func(r runtasks.Request) ([]byte, error) { return []byte(string(r.Stage) + " " + string(r.RunID)), nil }
	for _, one := range settings {
		one(&set)
	}
	k.tasks = runtasks.New(w.db, w.runs.objects, outbound.New(outbound.Settings{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}), set)
	var err error
	k.task, err = k.tasks.Create(ctx, w.owner, "acme", runtasks.TaskChanges{Name: ptr("checker"), URL: ptr(server.URL + "/hunter2"), HMACKey: ptr("the key")})
	require.NoError(t, err)
	return k
}

func (k *tasker) answers(status int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.status = status
}

func (k *tasker) attach(ws ids.Workspace, enforcement runtasks.Enforcement, stages ...runtasks.Stage) runtasks.WorkspaceTask {
	k.Helper()
	wt, err := k.tasks.Attach(ctx, k.owner, runtasks.WorkspaceTask{WorkspaceID: ws, TaskID: k.task.ID, Enforcement: enforcement, Stages: stages})
	require.NoError(k, err)
	return wt
}

// send sends what is due, and gives the requests that came.
func (k *tasker) send() []string {
	k.Helper()
	k.mu.Lock()
	k.asked = nil
	k.mu.Unlock()
	_, err := k.tasks.Send(ctx, k.runs.ReportTask)
	require.NoError(k, err)
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.asked
}

// stage is how a run's stage stands: its status and those of its results.
func (k *tasker) stage(run ids.Run, stage runtasks.Stage) (status runtasks.Status, results []runtasks.Result) {
	k.Helper()
	list, err := k.runs.TaskStagesOf(ctx, k.owner, run)
	require.NoError(k, err)
	for _, one := range list {
		if one.Stage == stage {
			return one.Status, one.Results
		}
	}
	return "", nil
}

// says reports as the service does, by its callback.
func (k *tasker) says(run ids.Run, stage runtasks.Stage, status runtasks.Status, message string) error {
	k.Helper()
	_, results := k.stage(run, stage)
	require.Len(k, results, 1)
	return k.runs.ReportTask(ctx, results[0].ID, runtasks.Report{Status: status, Message: message})
}

func (k *tasker) status1(run ids.Run) Status { return k.get(run).DurableStatus }

// TestARunAsksItsTasks: before the plan, after it and before the apply, it waits for what they say.
func TestARunAsksItsTasks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	k, ws := w.tasker(t), w.workspace()
	k.attach(ws, runtasks.Mandatory, runtasks.PrePlan, runtasks.PostPlan, runtasks.PreApply)
	d := w.run(ws)
	_, found := w.poll()
	require.False(t, found, "no plan before its tasks have passed")
	assert.Equal(t, "waiting for the run tasks of pre_plan", k.get(d.ID).WaitsFor())
	assert.Equal(t, []string{"pre_plan " + string(d.ID)}, k.send())
	status, results := k.stage(d.ID, runtasks.PrePlan)
	assert.Equal(t, runtasks.Running, status)
	assert.Equal(t, runtasks.Running, results[0].Status)
	assert.Empty(t, k.send(), "it is asked once")
	require.NoError(t, k.says(d.ID, runtasks.PrePlan, runtasks.Running, "on it"))
	_, found = w.poll()
	require.False(t, found)
	require.NoError(t, k.says(d.ID, runtasks.PrePlan, runtasks.Passed, "fine"))
	assert.True(t, fault.HasCode(k.says(d.ID, runtasks.PrePlan, runtasks.Failed, "or not"), "task_result_ended"), "an answer does not change")

	w.take(d.ID).plan(true)
	require.Equal(t, PlanComplete, k.status1(d.ID))
	log, err := w.runs.PlanLog(ctx, k.get(d.ID).PlanID, "human", 0, 100)
	require.NoError(t, err)
	assert.False(t, log.Final, "who has seen the plan's end looks once whether it can be applied")
	assert.Equal(t, []string{"post_plan " + string(d.ID)}, k.send())
	require.NoError(t, k.says(d.ID, runtasks.PostPlan, runtasks.Passed, "fine"))
	require.Equal(t, AwaitingApproval, k.status1(d.ID))
	log, err = w.runs.PlanLog(ctx, k.get(d.ID).PlanID, "human", 0, 100)
	require.NoError(t, err)
	assert.True(t, log.Final)

	require.NoError(t, w.runs.Confirm(ctx, w.owner, d.ID, Decision{}))
	_, found = w.poll()
	require.False(t, found, "no apply before its tasks have passed")
	require.NoError(t, w.runs.prepareWaiting(ctx))
	_, found = w.poll()
	require.False(t, found, "nor by the sweep")
	assert.Equal(t, []string{"pre_apply " + string(d.ID)}, k.send())
	require.NoError(t, k.says(d.ID, runtasks.PreApply, runtasks.Passed, "fine"))
	w.take(d.ID).apply(1)
	assert.Equal(t, Succeeded, k.status1(d.ID))
}

// TestAMandatoryTaskEndsTheRun: at each stage, and the next run gets the workspace.
func TestAMandatoryTaskEndsTheRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	k := w.tasker(t)
	for stage, want := range map[runtasks.Stage]Status{runtasks.PrePlan: PlanFailed, runtasks.PostPlan: PolicyFailed, runtasks.PreApply: ApplyFailed} {
		ws := w.workspace()
		wt := k.attach(ws, runtasks.Mandatory, stage)
		d := w.run(ws)
		require.NoError(t, k.tasks.Detach(ctx, w.owner, ws, wt.ID)) // what a run asks is fixed when it begins
		next := w.run(ws)
		if stage != runtasks.PrePlan {
			w.take(d.ID).plan(true)
		}
		if stage == runtasks.PreApply {
			require.NoError(t, w.runs.Confirm(ctx, w.owner, d.ID, Decision{}))
		}
		k.send()
		require.NoError(t, k.says(d.ID, stage, runtasks.Failed, "too dear"), stage)
		got := k.get(d.ID)
		assert.Equal(t, want, got.DurableStatus, stage)
		assert.Equal(t, "run_task_failed", got.DurableReason)
		assert.Contains(t, got.StatusMessage, "checker: too dear")
		assert.False(t, got.Occupies())
		status, _ := k.stage(d.ID, stage)
		assert.Equal(t, runtasks.Failed, status)
		w.take(next.ID).plan(false)
	}
}

// TestWhatARunAsksIsFixed: by its beginning; what is only advisory stops nothing; a task that is asked twice is asked once, the
// stricter way.
func TestWhatARunAsksIsFixed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	k, ws := w.tasker(t), w.workspace()
	before := w.run(ws)
	k.attach(ws, runtasks.Advisory, runtasks.PostPlan)
	_, err := k.tasks.Update(ctx, w.owner, k.task.ID, runtasks.TaskChanges{GlobalEnabled: ptr(true), GlobalStages: &[]runtasks.Stage{runtasks.PrePlan, runtasks.PostPlan}})
	require.NoError(t, err)
	w.take(before.ID).plan(false)
	assert.Equal(t, Succeeded, k.status1(before.ID), "it began before")

	d := w.run(ws)
	list, err := w.runs.TaskStagesOf(ctx, w.owner, d.ID)
	require.NoError(t, err)
	require.Len(t, list, 2)
	assert.Equal(t, []runtasks.Stage{runtasks.PrePlan, runtasks.PostPlan}, []runtasks.Stage{list[0].Stage, list[1].Stage})
	require.Len(t, list[1].Results, 1)
	assert.NotEmpty(t, list[1].Results[0].WorkspaceTaskID)
	k.send()
	require.NoError(t, k.says(d.ID, runtasks.PrePlan, runtasks.Failed, "I would not"))
	status, _ := k.stage(d.ID, runtasks.PrePlan)
	assert.Equal(t, runtasks.Passed, status, "it is only advisory")
	w.take(d.ID).plan(true)
	k.send()
	require.NoError(t, k.says(d.ID, runtasks.PostPlan, runtasks.Failed, "I would not"))
	assert.Equal(t, AwaitingApproval, k.status1(d.ID))
	require.NoError(t, w.runs.Discard(ctx, w.owner, d.ID, Decision{}))

	_, err = k.tasks.Update(ctx, w.owner, k.task.ID, runtasks.TaskChanges{GlobalEnforcement: ptr(runtasks.Mandatory)})
	require.NoError(t, err)
	d = w.run(ws, planOnly)
	list, err = w.runs.TaskStagesOf(ctx, w.owner, d.ID)
	require.NoError(t, err)
	assert.Equal(t, runtasks.Mandatory, list[1].Results[0].Enforcement)

	t.Log("an organization that lacks tasks for all workspaces asks them only where a workspace does, from the next run on")
	begun := w.run(w.workspace())
	subscribe := func(to accounts.FeatureSet) {
		t.Helper()
		_, err := w.who.Subscribe(ctx, system, "acme", to, nil)
		require.NoError(t, err)
	}
	subscribe(accounts.Free)
	assert.Len(t, k.get(begun.ID).TaskStages, 2, "it began before")
	assert.Len(t, k.get(w.run(ws, planOnly).ID).TaskStages, 1)
	assert.Empty(t, k.get(w.run(w.workspace()).ID).TaskStages)
	subscribe(accounts.Business)
	assert.Len(t, k.get(w.run(w.workspace()).ID).TaskStages, 2)

	t.Log("a task that is disabled is not asked")
	_, err = k.tasks.Update(ctx, w.owner, k.task.ID, runtasks.TaskChanges{Enabled: ptr(false)})
	require.NoError(t, err)
	d = w.run(w.workspace())
	assert.Empty(t, k.get(d.ID).TaskStages)
}

// TestAServiceThatDoesNotAnswer: refusing the request, or silent after it, it has failed.
func TestAServiceThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	settings := Defaults()
	settings.TaskProgress, settings.TaskTTL = 0, time.Hour
	w := newWorldWith(t, settings)
	k := w.tasker(t, func(s *runtasks.Settings) { s.Pauses = []time.Duration{0, 0} })
	ws := w.workspace()
	k.attach(ws, runtasks.Mandatory, runtasks.PrePlan)
	k.answers(http.StatusServiceUnavailable)
	d := w.run(ws)
	assert.Len(t, k.send(), 3, "it is asked three times")
	got := k.get(d.ID)
	assert.Equal(t, PlanFailed, got.DurableStatus)
	assert.Contains(t, got.StatusMessage, "status 503")
	assert.NotContains(t, got.StatusMessage, "hunter2")
	_, results := k.stage(d.ID, runtasks.PrePlan)
	assert.Equal(t, runtasks.Errored, results[0].Status)

	k.answers(http.StatusOK)
	d = w.run(ws)
	require.NoError(t, w.runs.expireTasks(ctx))
	assert.Equal(t, Queued, k.status1(d.ID), "what was not asked is not late")
	k.send()
	require.NoError(t, w.runs.expireTasks(ctx))
	assert.Equal(t, PlanFailed, k.status1(d.ID), "no word in time")
	assert.Contains(t, k.get(d.ID).StatusMessage, "not answered in time")

	d = w.run(ws)
	k.send()
	require.NoError(t, k.says(d.ID, runtasks.PrePlan, runtasks.Running, "on it"))
	require.NoError(t, w.runs.expireTasks(ctx))
	assert.Equal(t, Queued, k.status1(d.ID), "it has said something")
	settings.TaskTTL = 0
	require.NoError(t, w.with(settings).runs.expireTasks(ctx))
	assert.Equal(t, PlanFailed, k.status1(d.ID), "and not enough")

	t.Log("a task that is gone before it is asked")
	d = w.run(ws)
	require.NoError(t, k.tasks.Delete(ctx, w.owner, k.task.ID))
	assert.Empty(t, k.send())
	assert.Equal(t, PlanFailed, k.status1(d.ID))
}

// TestARunThatEndsClosesItsTasks: what it did not ask is unreachable, what it asked is canceled; a requeued run asks anew.
func TestARunThatEndsClosesItsTasks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	k, ws := w.tasker(t), w.workspace()
	k.attach(ws, runtasks.Mandatory, runtasks.PrePlan, runtasks.PostPlan)
	d := w.run(ws)
	k.send()
	_, asked := k.stage(d.ID, runtasks.PrePlan)
	require.NoError(t, w.runs.Cancel(ctx, w.owner, d.ID, ""))
	for stage, want := range map[runtasks.Stage]runtasks.Status{runtasks.PrePlan: runtasks.Canceled, runtasks.PostPlan: runtasks.Unreachable} {
		status, results := k.stage(d.ID, stage)
		assert.Equal(t, want, status)
		assert.Equal(t, want, results[0].Status)
	}
	assert.True(t, fault.HasCode(w.runs.ReportTask(ctx, asked[0].ID, runtasks.Report{Status: runtasks.Passed}), "task_result_ended"))
	_, err := w.runs.OfTask(ctx, asked[0].ID)
	assert.True(t, fault.HasCode(err, "task_result_ended"), "nor may it read the run any more")
	assert.Empty(t, k.send())

	_, err = w.runs.Requeue(ctx, w.owner, d.ID)
	require.NoError(t, err)
	assert.Equal(t, []string{"pre_plan " + string(d.ID)}, k.send())
	require.NoError(t, k.says(d.ID, runtasks.PrePlan, runtasks.Passed, ""))
	w.take(d.ID)
}

// TestARequestIsSentAgainAfterACrash: a server that dies before it has noted the answer leaves the request to another.
func TestARequestIsSentAgainAfterACrash(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	k, ws := w.tasker(t), w.workspace()
	k.attach(ws, runtasks.Mandatory, runtasks.PrePlan)
	d := w.run(ws)
	dead := func(sql string) {
		require.NoError(t, postgres.InTx(ctx, w.db, "test", func(tx postgres.Tx) error {
			_, err := postgres.Exec(ctx, tx, sql, nil)
			return err
		}))
	}
	dead("update task_results set attempts = 1, leased_until = clock_timestamp() + interval '1 hour'")
	assert.Empty(t, k.send(), "another server has it")
	dead("update task_results set leased_until = clock_timestamp()")
	assert.Len(t, k.send(), 1)
	_, results := k.stage(d.ID, runtasks.PrePlan)
	assert.Equal(t, runtasks.Running, results[0].Status)
}
