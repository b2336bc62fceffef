package recovery_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/fence"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/recovery"
	"github.com/holdfast-run/holdfast/runs"
	"github.com/holdfast-run/holdfast/workspaces"
)

// endings are applies that end with their workspace held, by the first thing that a person
// has to look at; "" is the ordinary failure.
var endings = map[string]func(w *world, e *executor){
	"": func(_ *world, e *executor) {
		e.publish(2)
		e.done(runs.Done{Outcome: runs.OutcomeErrored, ExitCode: 1, TofuStarted: true})
	},
	"emergency_state_missing": func(_ *world, e *executor) {
		e.publish(2)
		e.failed()
	},
	"emergency_state": func(_ *world, e *executor) {
		e.publish(2)
		e.handOver(errored(4, lineage))
		e.failed()
	},
	"emergency_state_unknown": func(w *world, e *executor) { // an apply from before reports were kept
		e.publish(2)
		e.done(runs.Done{Outcome: runs.OutcomeErrored, ExitCode: 1, TofuStarted: true})
		w.change("update attempts set errored_state = null where id = @id", postgres.Args{"id": e.ID})
	},
	"writer_not_proven": func(_ *world, e *executor) {
		e.publish(2)
		e.done(runs.Done{Outcome: runs.OutcomeUnknown, TofuStarted: true})
	},
	"claimed_upload_unresolved": func(w *world, e *executor) {
		e.publish(2)
		v := e.begin(3)
		w.change("update state_versions set raw_claimed_at = clock_timestamp() where id = @id", postgres.Args{"id": v.ID})
		e.done(runs.Done{Outcome: runs.OutcomeErrored, ExitCode: 1, TofuStarted: true})
	},
	"upload_not_expired": func(_ *world, e *executor) {
		e.publish(2)
		e.begin(3)
		e.done(runs.Done{Outcome: runs.OutcomeErrored, ExitCode: 1, TofuStarted: true})
	},
	"provenance_mismatch": func(w *world, e *executor) {
		v := e.publish(2)
		w.change("update state_versions set sandbox_id = 'another' where id = @id", postgres.Args{"id": v.ID})
		e.done(runs.Done{Outcome: runs.OutcomeErrored, ExitCode: 1, TofuStarted: true})
	},
	"not_a_failed_apply": func(_ *world, e *executor) {
		e.publish(2)
		require.NoError(e, e.runs.Cancel(ctx, e.owner, e.RunID, ""))
		e.done(runs.Done{Outcome: runs.OutcomeCanceled, ExitCode: 1, TofuStarted: true})
	},
	"not_a_failed_apply ": func(_ *world, e *executor) {
		e.publish(2)
		e.done(runs.Done{Outcome: runs.OutcomeTimedOut, ExitCode: 1, TofuStarted: true})
	},
}

// What is in doubt is said by the first thing that a person has to look at, and the policy
// never touches it. Only the ordinary failure is released, by the same proof, with the actor
// policy in every record, and whoever waits gets the workspace.
func TestOnlyTheOrdinaryFailureIsProven(t *testing.T) {
	t.Parallel()
	for doubt, end := range endings {
		t.Run(doubt, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.succeeded(1)
			run := w.run()
			e := w.applying(run)
			waits := w.run()
			end(w, e)
			found := w.evidence(run)
			require.True(t, found.Held)
			if doubt != "" {
				require.NotNil(t, found.Doubt())
				assert.Contains(t, doubt, found.Doubt().Code)
			} else {
				assert.Nil(t, found.Doubt())
			}

			before := w.fence()
			w.AfterReport(ctx, e.ID)
			done, err := w.ReleaseProven(ctx, run)
			require.NoError(t, err)
			require.False(t, done, "it is off unless it is set")
			assert.Equal(t, before, w.fence())

			w.releases()
			require.NoError(t, w.SweepProven(ctx))
			if doubt != "" {
				assert.Equal(t, before, w.fence(), "it stays held")
				assert.Empty(t, values[string](w, "select id from recovery_operations", nil), "and nothing is prepared")
				return
			}
			assert.True(t, w.fence().HeldBy(fence.Run, string(waits)), "the next run has the workspace: %+v", w.fence())
			assert.Equal(t, before.Epoch+2, w.fence().Epoch)
			d := w.get(run)
			assert.Equal(t, runs.NeedsRecovery, d.DurableStatus)
			assert.NotNil(t, d.RecoveredAt)
			op := w.evidence(run).Operation
			assert.Equal(t, []any{recovery.Committed, recovery.PolicyPrincipal, recovery.CurrentStateVerified, 1}, []any{op.Status, op.PrincipalID, op.Resolution, op.Publications})
			assert.ElementsMatch(t, []string{"policy policy run.needs_recovery", "policy policy run.recovery_prepared", "policy policy run.recovered", "policy policy state.recovered"},
				values[string](w, "select actor_kind || ' ' || actor_id || ' ' || action from audit_entries where actor_kind = 'policy'", nil))
			assert.Equal(t, values[string](w, "select xmin::text from audit_entries where action = 'run.recovered'", nil), values[string](w, "select xmin::text from audit_entries where action = 'state.recovered'", nil))
		})
	}
}

// releases sets the workspace to release what is proven.
func (w *world) releases() {
	w.Helper()
	policy := workspaces.ReleaseWhenProven
	_, err := w.spaces.Update(ctx, w.owner, w.ws, workspaces.Changes{Settings: workspaces.Settings{FailedApply: &policy}})
	require.NoError(w, err)
}

// The policy acts right behind the report; a person who was there first is let be, and who
// comes later need not wait for it.
func TestThePolicyAndPersons(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.releases()
	run := w.run()
	e := w.applying(run)
	e.publish(1)
	e.done(runs.Done{Outcome: runs.OutcomeErrored, ExitCode: 1, TofuStarted: true})
	w.AfterReport(ctx, e.ID)
	assert.False(t, w.fence().Held(), "right behind the report")
	w.AfterReport(ctx, e.ID) // as a repeated report does
	assert.Len(t, values[string](w, "select id from recovery_operations", nil), 1)

	run, _ = w.held(2)
	only := verify()
	only.PrepareOnly = true
	op, err := w.Recover(ctx, w.owner, run, only)
	require.NoError(t, err)
	done, err := w.ReleaseProven(ctx, run)
	require.NoError(t, err)
	assert.False(t, done)
	assert.Equal(t, "recovery_in_progress", w.evidence(run).Doubt().Code)
	again, err := w.Recover(ctx, w.owner, run, verify())
	require.NoError(t, err)
	assert.Equal(t, op.ID, again.ID)

	run, now := w.held(3)
	w.change("insert into recovery_operations (id, organization_id, workspace_id, run_id, resolution, principal_id, lease_expires_at, request_digest, reason, fence_epoch, from_status, current_version_id, current_sha256, publications, writer_proven, target_version_id, target_sha256, target_size) "+
		"select 'rcv-1111111111111111', organization_id, workspace_id, id, 'current_state_verified', 'policy', clock_timestamp() + interval '1 hour', 'd', 'r', 1, 'apply_failed', @v, @sum, 1, true, @v, @sum, @size from runs where id = @run",
		postgres.Args{"run": run, "v": now.ID, "sum": now.SHA256, "size": now.Size})
	taken := verify()
	taken.TakeOver, taken.Evidence = true, recovery.Cited{CurrentState: &now.ID, CurrentChecksum: &now.SHA256}
	over, err := w.Recover(ctx, w.owner, run, taken)
	require.NoError(t, err, "nobody waits for the lease of the policy")
	assert.Equal(t, []any{recovery.Committed, w.owner.User}, []any{over.Status, over.PrincipalID})
	assert.Equal(t, []ids.User{recovery.PolicyPrincipal}, []ids.User{over.Takeovers[0].From})
}

// A state that does not open is for a person, and nothing is recorded before that is known.
func TestThePolicyReadsTheStateFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run, v := w.held(1)
	w.releases()
	w.damage(v.ID)
	done, err := w.ReleaseProven(ctx, run)
	require.NoError(t, err)
	assert.False(t, done)
	assert.True(t, w.fence().RecoveryHeld)
	assert.Empty(t, values[string](w, "select id from recovery_operations", nil))
}

// The list shows to each what it may see, in order, and of what it may recover the evidence.
func TestTheListOfHeldWorkspaces(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run, _ := w.held(1)
	waits := w.waiting()
	other, err := w.spaces.Create(ctx, w.owner, "acme", workspaces.NewWorkspace{Name: "aaa"})
	require.NoError(t, err)
	lost := w.lose(other.ID, ids.New[ids.Run]())
	_, err = w.spaces.Create(ctx, w.owner, "acme", workspaces.NewWorkspace{Name: "free"})
	require.NoError(t, err)

	list, total, err := w.List(ctx, w.owner, "acme", accounts.Page{})
	require.NoError(t, err)
	assert.Equal(t, 2, total)
	require.Len(t, list, 2)
	assert.Equal(t, []any{"aaa", lost, true, true}, []any{list[0].Workspace.Name, list[0].Run.ID, list[0].Evidence.AuthorityLost, list[0].MayRecover})
	assert.Equal(t, "authority_lost", list[0].Evidence.Doubt().Code)
	assert.Equal(t, []any{"app", run, 1}, []any{list[1].Workspace.Name, list[1].Run.ID, list[1].WaitingRuns})
	assert.Nil(t, list[1].Evidence.Doubt())
	second, total, err := w.List(ctx, w.owner, "acme", accounts.Page{Number: 2, Size: 1})
	require.NoError(t, err)
	assert.Equal(t, []any{2, 1, run}, []any{total, len(second), second[0].Run.ID})

	list, total, err = w.List(ctx, w.member, "acme", accounts.Page{})
	require.NoError(t, err)
	assert.Equal(t, 2, total, "who sees the runs sees what they hold")
	for _, h := range list {
		assert.Nil(t, h.Evidence)
		assert.False(t, h.MayRecover)
	}
	assert.Equal(t, runs.ApplyFailed, list[1].Run.DurableStatus)
	_, _, err = w.List(ctx, w.foreign, "acme", accounts.Page{})
	assert.True(t, fault.Is(err, fault.NotFound), "%v", err)

	_, err = w.Recover(ctx, w.owner, run, verify())
	require.NoError(t, err)
	list, _, err = w.List(ctx, w.owner, "acme", accounts.Page{})
	require.NoError(t, err)
	assert.Len(t, list, 1)
	assert.Equal(t, fence.Run, w.fence().Holder.Kind)
	assert.Equal(t, string(waits), w.fence().Holder.ID)
	only := authz.Actor{Kind: authz.UserActor, User: w.member.User}
	_, _, err = w.List(ctx, only, "acme", accounts.Page{})
	assert.True(t, fault.Is(err, fault.NotFound))
	assert.WithinDuration(t, time.Now(), *list[0].Workspace.Fence.AcquiredAt, time.Hour)
}
