package runs

import (
	"flag"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/holdfast-run/holdfast/artifacts"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/fence"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// broken names the rules that the database breaks as it stands.
const broken = `
with holding as (select r.id, r.workspace_id, r.durable_status, r.finished_at, r.fence_epoch, f.epoch, f.holder_kind, f.holder_id, f.recovery_held from runs r join workspace_fences f using (workspace_id) where r.fence_epoch is not null and r.fence_released_at is null)
select 'two runs occupy one workspace' where exists (select 1 from holding group by workspace_id having count(*) > 1)
union all select 'a run occupies a workspace whose fence is not its own' where exists
    (select 1 from holding where holder_kind is distinct from 'run' or holder_id <> id or epoch <> fence_epoch)
union all select 'a fence is held by a run that does not occupy' where exists
    (select 1 from workspace_fences f where holder_kind = 'run' and not exists (select 1 from holding h where h.id = f.holder_id))
union all select 'a free workspace has a waiting run' where exists
    (select 1 from runs r join workspace_fences f using (workspace_id) where r.durable_status = 'queued' and r.admitted_at is null and f.holder_kind is null)
union all select 'a younger run was admitted before an older one' where exists
    (select 1 from runs w join runs a using (workspace_id) where w.durable_status = 'queued' and w.admitted_at is null and a.admitted_at is not null
        and not a.plan_only and a.operation <> 'plan' and a.source_run_id is null and a.replan_of is null and a.queue_seq > w.queue_seq)
union all select 'a workspace is held by something else than the end of an apply' where exists
    (select 1 from holding where recovery_held and durable_status not in ('apply_failed', 'apply_start_uncertain', 'apply_interrupted', 'needs_recovery'))
union all select 'an ended run occupies a workspace that is not held' where exists (select 1 from holding where finished_at is not null and not recovery_held)
union all select 'an uncertain end does not hold its workspace' where exists
    (select 1 from runs where durable_status in ('apply_start_uncertain', 'apply_interrupted', 'needs_recovery') and recovered_at is null and fence_released_at is not null)
union all select 'an ended run is still on offer' where exists
    (select 1 from attempts a join runs r on r.id = a.run_id where r.finished_at is not null and a.status in ('pending', 'assigned'))
union all select 'a run waits without an attempt' where exists
    (select 1 from runs r where r.finished_at is null and r.admitted_at is not null and not (r.durable_status = 'awaiting_approval' and r.confirmed_at is null)
        and not exists (select 1 from attempts a where a.run_id = r.id and a.status in ('pending', 'assigned', 'running')))
union all select 'an ended run has an open stage, or one that goes on has none' where exists
    (select 1 from runs r where (r.finished_at is null and r.durable_status <> 'dispatch_pending') is distinct from exists (select 1 from run_stages s where s.run_id = r.id and s.finished_at is null))
union all select 'an attempt belongs to no stage' where exists
    (select 1 from attempts a where not exists (select 1 from run_stages s where s.attempt_id = a.id and s.run_id = a.run_id and s.kind = a.phase))
union all select 'an ended phase that a runner worked on has no receipt' where exists
    (select 1 from run_stages s join attempts a on a.id = s.attempt_id where s.finished_at is not null and a.accepted_at is not null
        and not exists (select 1 from run_receipts c where c.stage_id = s.id and c.attempt_id = a.id and c.kind = s.kind and c.result = s.status))
union all select 'a promoted plan is no plan that was kept' where exists
    (select 1 from runs p join runs s on s.id = p.source_run_id where s.durable_status <> 'succeeded' or s.operation <> 'plan' or s.plan_object_id is distinct from p.plan_object_id)
union all select 'the current run of a workspace is another than the one that is kept beside it' where exists
    (select 1 from workspaces w left join current_runs c on c.workspace_id = w.id left join runs r on r.id = current_run_of(w.id)
      where (r.id, r.durable_status, r.organization_id) is distinct from (c.run_id, c.status, c.organization_id))
union all select 'a plan was applied twice' where exists
    (select 1 from runs p join attempts a on a.run_id = p.id where a.apply_started_at is not null and p.plan_object_id is not null group by p.plan_object_id having count(*) > 1)
union all select 'a run was requeued after its apply' where exists
    (select 1 from attempts a join runs r on r.id = a.run_id where a.apply_started_at is not null and a.round <> r.round)
union all select 'the history does not end with the status' where exists
    (select 1 from runs r where r.durable_status is distinct from (select to_status from run_history h where h.run_id = r.id order by position desc limit 1))`

// walk is one random history of two workspaces.
type walk struct {
	*world
	*rapid.T
	spaces [2]ids.Workspace
	serial [2]int64
	epochs map[ids.Workspace]int64
	runs   []ids.Run
	ways   map[string]int // how often each way to go on was taken
	offers []*executor
	active []*executor
}

// empty removes all workspaces with everything in them, also what nothing else removes.
func (w *world) empty() {
	require.NoError(w, w.tx(func(tx postgres.Tx) error {
		for _, sql := range []string{"set local session_replication_role = replica", "truncate workspaces cascade"} {
			if _, err := postgres.Exec(ctx, tx, sql, postgres.Args{}); err != nil {
				return err
			}
		}
		return nil
	}))
}

func (k *walk) Helper() {}

func (k *walk) Errorf(format string, args ...any) { k.T.Errorf(format, args...) }

func (k *walk) FailNow() { k.T.FailNow() }

func (k *walk) Log(args ...any) { k.T.Log(args...) }

// tolerate accepts refusals, and nothing that looks like a defect.
func (k *walk) tolerate(err error) bool {
	if err == nil {
		return true
	}
	for _, kind := range []fault.Kind{fault.Conflict, fault.Locked, fault.RecoveryHeld, fault.NotFound, fault.Unauthenticated} {
		if fault.Is(err, kind) {
			return false
		}
	}
	require.NoError(k.T, err)
	return false
}

func (k *walk) space() int { return rapid.IntRange(0, 1).Draw(k.T, "workspace") }

func pick[T any](k *walk, list []T, name string) (T, bool) {
	var none T
	if len(list) == 0 {
		return none, false
	}
	return list[rapid.IntRange(0, len(list)-1).Draw(k.T, name)], true
}

func (k *walk) create() {
	option := rapid.SampledFrom([]func(*NewRun){func(*NewRun) {}, func(*NewRun) {}, planOnly, savePlan, autoApply, as(OperationPlan), as(OperationTeardown)}).Draw(k.T, "kind")
	d, err := k.tryRun(k.spaces[k.space()], option)
	if k.tolerate(err) {
		k.runs = append(k.runs, d.ID)
	}
}

func (k *walk) offer() {
	if e, found := k.poll(); found {
		k.offers = append(k.offers, e)
	}
}

func (k *walk) accept() {
	if len(k.offers) == 0 {
		k.offer()
	}
	if len(k.offers) == 0 {
		return
	}
	e := k.offers[0]
	k.offers = k.offers[1:]
	var err error
	if e.session, err = e.tryAccept(); k.tolerate(err) {
		e.actor, err = e.disp.Authenticate(ctx, e.session.Token)
		require.NoError(k.T, err)
		k.active = append(k.active, e)
	}
}

// work lets a runner go on: report an end, or start, or send state.
func (k *walk) work() {
	e, ok := pick(k, k.active, "runner")
	if !ok {
		return
	}
	d := Done{Outcome: rapid.SampledFrom([]Outcome{OutcomeFinished, OutcomeFinished, OutcomeErrored, OutcomeCanceled, OutcomeTimedOut, OutcomeUnknown}).Draw(k.T, "outcome")}
	if e.Phase == "plan" {
		if d.Outcome == OutcomeFinished {
			d = planned(rapid.IntRange(0, 3).Draw(k.T, "changes") > 0)
			k.tolerate(e.runs.HandOver(ctx, e.actor, artifacts.KindPlanJSON, sha("{}"), strings.NewReader("{}")))
			k.tolerate(e.runs.HandOver(ctx, e.actor, artifacts.KindPlan, sha("p"), strings.NewReader("p")))
		}
		k.tolerate(e.tryDone(d))
		return
	}
	switch rapid.IntRange(0, 5).Draw(k.T, "progress") {
	case 0, 1:
		k.tolerate(e.tryStart())
	case 2, 3:
		for i, ws := range k.spaces {
			if ws == e.WorkspaceID {
				k.serial[i]++
				if v, err := e.begin(e.actor, ws, stateFile(k.serial[i]), k.serial[i]); k.tolerate(err) {
					_, err := e.state.Upload(ctx, v.ID, strings.NewReader(stateFile(k.serial[i])))
					k.tolerate(err)
				}
			}
		}
	default:
		d.TofuStarted = k.get(e.RunID).DurableStatus == Applying && rapid.Bool().Draw(k.T, "tofu started")
		if v, err := e.runs.ConfirmState(ctx, e.actor, e.sandbox); k.tolerate(err) {
			d.Confirmed = v.ID
		}
		k.tolerate(e.tryDone(d))
	}
}

// decide lets a person do something to a run.
func (k *walk) decide() {
	run, ok := pick(k, k.runs, "run")
	if !ok {
		return
	}
	do := rapid.SampledFrom([]func() error{
		func() error { return k.world.runs.Confirm(ctx, k.owner, run, Decision{}) },
		func() error { return k.world.runs.Confirm(ctx, k.owner, run, Decision{}) },
		func() error { return k.world.runs.Discard(ctx, k.owner, run, Decision{}) },
		func() error { return k.world.runs.Cancel(ctx, k.owner, run, "") },
		func() error { return k.recover(run) },
	}).Draw(k.T, "decision")
	k.tolerate(do())
}

// goOn lets a person go on from the newest run with which that can be done.
func (k *walk) goOn() {
	s := k.world.runs
	ways := map[string]func(run ids.Run) (made ids.Run, err error){
		"requeue": func(run ids.Run) (ids.Run, error) { _, err := s.Requeue(ctx, k.owner, run); return "", err },
		"replan": func(run ids.Run) (ids.Run, error) {
			d, err := s.Replan(ctx, k.owner, run, NewReplan{})
			return d.ID, err
		},
		"promote": func(run ids.Run) (ids.Run, error) {
			d, isNew, err := s.Promote(ctx, k.owner, run, NewPromotion{AutoApply: ptr(rapid.Bool().Draw(k.T, "approved"))})
			if !isNew {
				return "", err
			}
			return d.ID, err
		},
		"force-execute": func(run ids.Run) (ids.Run, error) { return "", s.ForceExecute(ctx, k.owner, run) },
		"force-cancel": func(run ids.Run) (ids.Run, error) {
			if k.get(run).DurableStatus == Planning {
				k.tolerate(s.Cancel(ctx, k.owner, run, ""))
			}
			k.tolerate(k.tryExec("update runs set force_cancel_available_at = clock_timestamp() where id = @id and cancel_requested_at is not null", postgres.Args{"id": run}))
			return "", s.ForceCancel(ctx, k.owner, run, "")
		},
	}
	way := rapid.SampledFrom([]string{"requeue", "replan", "promote", "force-execute", "force-cancel"}).Draw(k.T, "way")
	for _, run := range slices.Backward(k.runs) {
		made, err := ways[way](run)
		if !k.tolerate(err) {
			continue
		}
		k.ways[way]++
		if made != "" {
			k.runs = append(k.runs, made)
		}
		return
	}
}

// replaceTornDown puts a new workspace in the place of one that a teardown has taken away.
func (k *walk) replaceTornDown() {
	for i, ws := range k.spaces {
		if count(k.world, "select count(*) from workspaces where id = @id and deleted_at is not null", postgres.Args{"id": ws}) > 0 {
			k.spaces[i], k.serial[i] = k.workspace(), 0
			k.ways["teardown"]++
		}
	}
}

func (k *walk) recover(run ids.Run) error {
	return k.tx(func(tx postgres.Tx) error {
		r, status, err := Lock(ctx, tx, run)
		if err != nil || !status.RecoveryHeld || !status.HeldBy(fence.Run, string(run)) {
			return err
		}
		if err := Recover(ctx, tx, system, r, "walk"); err != nil {
			return err
		}
		if _, err := fence.Revoke(ctx, tx, status); err != nil {
			return err
		}
		return PromoteNext(ctx, tx, r.WorkspaceID)
	})
}

// pass lets a deadline pass. The sweep's own promotion is left out: it would hide what this looks for.
func (k *walk) pass() {
	s := k.world.runs
	switch rapid.IntRange(0, 2).Draw(k.T, "deadline") {
	case 0:
		k.tolerate(k.tryExec("update runs set approval_expires_at = clock_timestamp() where durable_status = 'awaiting_approval' and confirmed_at is null", postgres.Args{}))
		require.NoError(k.T, s.expireApprovals(ctx))
	case 1:
		k.tolerate(k.tryExec("update attempts set assignment_expires_at = clock_timestamp() where status = 'assigned'", postgres.Args{}))
		require.NoError(k.T, s.expireAssignments(ctx))
	case 2:
		if e, ok := pick(k, k.active, "silent runner"); ok {
			e.silence(s.settings.ApplyLiveness)
			require.NoError(k.T, s.ReapSilent(ctx))
		}
	}
}

func (k *walk) lock() {
	s, i := k.world.runs, k.space()
	ws := k.spaces[i]
	switch rapid.IntRange(0, 4).Draw(k.T, "operation") {
	case 0, 1:
		_, err := s.Lock(ctx, k.owner, ws, "")
		k.tolerate(err)
	case 2:
		_, err := s.Unlock(ctx, k.owner, ws)
		k.tolerate(err)
	case 3:
		_, err := s.ForceUnlock(ctx, k.owner, ws)
		k.tolerate(err)
	case 4:
		if k.tolerate(s.DeleteWorkspace(ctx, k.owner, ws, rapid.Bool().Draw(k.T, "safe"))) {
			k.spaces[i] = k.workspace()
		}
	}
}

func (k *walk) check() {
	var rules []string
	require.NoError(k.T, k.tx(func(tx postgres.Tx) (err error) {
		rules, err = postgres.Values[string](ctx, tx, broken, postgres.Args{})
		return err
	}))
	assert.Empty(k.T, rules)
	for _, ws := range k.spaces {
		epoch := k.fence(ws).Epoch
		assert.GreaterOrEqual(k.T, epoch, k.epochs[ws])
		k.epochs[ws] = epoch
	}
}

// TestAnyHistoryKeepsTheRules walks at random. A path that frees a workspace and
// forgets to promote the next run is found here.
func TestAnyHistoryKeepsTheRules(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]string{"checks": "12", "steps": "80", "shrinktime": "5s", "nofailfile": "true"} {
		require.NoError(t, flag.Set("rapid."+name, value))
	}
	base := newWorld(t)
	reached, ways := map[Status]bool{}, map[string]int{}
	rapid.Check(t, func(rt *rapid.T) {
		w := *base
		k := &walk{T: rt, epochs: map[ids.Workspace]int64{}, ways: ways}
		w.tester = k
		k.world = &w
		w.empty()
		k.spaces = [2]ids.Workspace{w.workspace(), w.workspace()}
		rt.Repeat(map[string]func(*rapid.T){
			"create":  func(*rapid.T) { k.create() },
			"offer":   func(*rapid.T) { k.offer() },
			"accept":  func(*rapid.T) { k.accept() },
			"work":    func(*rapid.T) { k.work(); k.replaceTornDown() },
			"work on": func(*rapid.T) { k.work(); k.replaceTornDown() },
			"decide":  func(*rapid.T) { k.decide() },
			"go on":   func(*rapid.T) { k.goOn() },
			"pass":    func(*rapid.T) { k.pass() },
			"lock":    func(*rapid.T) { k.lock() },
			"":        func(*rapid.T) { k.check() },
		})
		for _, run := range k.runs {
			reached[k.get(run).DurableStatus] = true
		}
		base.serial = w.serial
	})
	t.Log("ends reached:", reached, "ways taken:", ways)
}
