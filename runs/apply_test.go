package runs

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/fence"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

func TestApplyStartIsRedeemedOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.confirmed(w.workspace())
	_, err := e.runs.StartApply(ctx, e.actor, sha("x"), e.sandbox, tofuDigest)
	wantCode(t, err, fault.Conflict, "manifest_mismatch")
	_, err = e.runs.StartApply(ctx, e.actor, e.session.ManifestDigest, "elsewhere", tofuDigest)
	wantCode(t, err, fault.Forbidden, "capability_mismatch")
	_, err = e.runs.StartApply(ctx, e.actor, e.session.ManifestDigest, e.sandbox, "another binary")
	wantCode(t, err, fault.Conflict, "tofu_digest_mismatch")
	w.wantStatus(e.RunID, AwaitingApproval)

	at, err := e.runs.StartApply(ctx, e.actor, e.session.ManifestDigest, e.sandbox, tofuDigest)
	require.NoError(t, err)
	again, err := e.runs.StartApply(ctx, e.actor, e.session.ManifestDigest, e.sandbox, tofuDigest)
	require.NoError(t, err)
	assert.Equal(t, at, again)
	assert.Equal(t, mainPath[:7], w.wantStatus(e.RunID, Applying).steps())
	_, err = e.runs.StartApply(ctx, e.actor, sha("x"), e.sandbox, tofuDigest)
	wantCode(t, err, fault.Conflict, "capability_replayed")
	assert.Equal(t, 1, count(w, "select count(*) from approvals where run_id = @r and spent_at is not null", postgres.Args{"r": e.RunID}))
}

func second[T any](_ T, err error) error { return err }

func TestAPlanCannotStartAnApply(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.take(w.run(w.workspace()).ID)
	wantCode(t, e.tryStart(), fault.Forbidden, "capability_mismatch")
	w.wantStatus(e.RunID, Planning)
}

// move makes another state current behind the services' back.
func (w *world) move(ws ids.Workspace) ids.StateVersion {
	w.Helper()
	id := ids.New[ids.StateVersion]()
	w.exec(`insert into state_versions (id, organization_id, workspace_id, epoch, holder_kind, holder_id, declared_serial, declared_md5, expires_at, status, serial, lineage, size, sha256, object_id, finalized_at)
	        select @id, organization_id, workspace_id, 0, 'user', 'nobody', 99, 'x', clock_timestamp(), 'finalized', 99, 'x', 1, 'x', id, clock_timestamp() from objects
	         where workspace_id = @w limit 1`, postgres.Args{"id": id, "w": ws})
	w.exec(`insert into current_states (workspace_id, organization_id, state_version_id) select workspace_id, organization_id, id from state_versions where id = @id
	        on conflict (workspace_id) do update set state_version_id = excluded.state_version_id`, postgres.Args{"id": id})
	return id
}

func TestAnApprovalCoversTheFactsAsTheyWere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	t.Run("state moved before the decision", func(t *testing.T) {
		run := w.waiting(w.workspace())
		w.move(w.get(run).WorkspaceID)
		require.NoError(t, w.runs.Confirm(ctx, w.owner, run, Decision{}))
		d := w.wantStatus(run, Canceled)
		assert.Equal(t, "APPROVAL_BINDING_STALE", d.DurableReason)
		assert.Empty(t, d.ApplyAttempt)
		w.wantReleased(run)
	})
	t.Run("state moved before apply-start", func(t *testing.T) {
		e := w.confirmed(w.workspace())
		w.move(e.WorkspaceID)
		err := e.tryStart()
		wantCode(t, err, fault.Conflict, "APPROVAL_BINDING_STALE")
		w.wantStatus(e.RunID, AwaitingApproval)
		e.done(Done{Outcome: OutcomeErrored, Message: "apply-start was refused"})
		d := w.wantStatus(e.RunID, Canceled)
		assert.Equal(t, "APPROVAL_BINDING_STALE", d.DurableReason)
		w.wantReleased(e.RunID)
	})
}

func TestAnAttemptsLockAndUnlockChangeNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.applying(w.workspace())
	before := w.fence(e.WorkspaceID)
	locked, err := w.runs.Lock(ctx, e.actor, e.WorkspaceID, "apply")
	require.NoError(t, err)
	assert.Equal(t, before, locked.Fence)
	unlocked, err := w.runs.Unlock(ctx, e.actor, e.WorkspaceID)
	require.NoError(t, err)
	assert.Equal(t, before, unlocked.Fence)
	_, err = w.runs.ForceUnlock(ctx, e.actor, e.WorkspaceID)
	assert.True(t, fault.Is(err, fault.Forbidden), "%v", err)
	assert.Equal(t, before, w.fence(e.WorkspaceID))

	old := e.actor
	old.Epoch--
	_, err = w.runs.Lock(ctx, old, e.WorkspaceID, "")
	wantCode(t, err, fault.Locked, "workspace_locked")
}

func failed() Done {
	return Done{Outcome: OutcomeErrored, TofuStarted: true, ExitCode: 1, Message: "boom"}
}

func TestAFailedApplyIsReleasedOnlyWithoutATrace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, c := range []struct {
		name  string
		left  func(e *executor, d *Done)
		trace string // in the run's message; empty: released
	}{
		{"nothing", func(*executor, *Done) {}, ""},
		{"tofu not started", func(_ *executor, d *Done) { d.TofuStarted = false }, ""},
		{"published state", func(e *executor, _ *Done) { e.publish(1) }, "published state"},
		{"errored.tfstate", func(_ *executor, d *Done) { d.ErroredState = true }, "errored.tfstate"},
		{"an announced upload", func(e *executor, _ *Done) { second(e.begin(e.actor, e.WorkspaceID, stateFile(1), 1)) }, "begun to send state"},
		{"an upload announced long ago", func(e *executor, _ *Done) {
			second(e.begin(e.actor, e.WorkspaceID, stateFile(1), 1))
			e.exec("update state_versions set expires_at = created_at where attempt_id = @a", postgres.Args{"a": e.ID})
		}, "begun to send state"},
		{"a claimed upload", func(e *executor, _ *Done) {
			second(e.begin(e.actor, e.WorkspaceID, stateFile(1), 1))
			e.exec("update state_versions set raw_claimed_at = clock_timestamp() where attempt_id = @a", postgres.Args{"a": e.ID})
		}, "begun to send state"},
		{"a refused upload", func(e *executor, _ *Done) {
			v, err := e.begin(e.actor, e.WorkspaceID, stateFile(7), 1) // the file says another serial than was announced
			require.NoError(e, err)
			_, err = e.state.Upload(ctx, v.ID, strings.NewReader(stateFile(7)))
			wantCode(e, err, fault.Invalid, "state_attribute_mismatch")
		}, "begun to send state"},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := w.applying(w.workspace())
			next := w.run(e.WorkspaceID)
			d := failed()
			c.left(e, &d)
			e.done(d)
			got := w.wantStatus(e.RunID, ApplyFailed)
			assert.Contains(t, got.StatusMessage, "boom")
			if c.trace == "" {
				w.wantReleased(e.RunID)
				w.wantAdmitted(next.ID)
				require.NoError(t, w.runs.Cancel(ctx, w.owner, next.ID, ""))
				return
			}
			assert.Contains(t, got.StatusMessage, c.trace)
			w.wantHeld(e.RunID)
			w.wantWaits(next.ID)
		})
	}
}

func TestAnApplyThatNeverStarted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	t.Run("is released", func(t *testing.T) {
		e := w.confirmed(w.workspace())
		next := w.run(e.WorkspaceID)
		e.done(Done{Outcome: OutcomeErrored, ExitCode: 1, Message: "init failed"})
		d := w.wantStatus(e.RunID, ApplyFailed)
		assert.Equal(t, "apply_not_started", d.DurableReason)
		w.wantReleased(e.RunID)
		w.wantAdmitted(next.ID)
		require.NoError(t, w.runs.Cancel(ctx, w.owner, next.ID, ""))
	})
	t.Run("but says that it did, is held", func(t *testing.T) {
		e := w.confirmed(w.workspace())
		e.done(failed())
		w.wantStatus(e.RunID, ApplyFailed)
		w.wantHeld(e.RunID)
	})
	t.Run("but sent state, is held", func(t *testing.T) {
		e := w.confirmed(w.workspace())
		wantCode(t, second(e.begin(e.actor, e.WorkspaceID, stateFile(1), 1)), fault.Conflict, "not_applying")
		e.actor.Applying = true // had it got through all the same
		require.NoError(t, second(e.begin(e.actor, e.WorkspaceID, stateFile(1), 1)))
		e.done(Done{Outcome: OutcomeErrored})
		w.wantStatus(e.RunID, ApplyFailed)
		w.wantHeld(e.RunID)
	})
}

func TestAnUnknownEndIsHeld(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, c := range []struct {
		done   Done
		want   Status
		reason string
	}{
		{Done{Outcome: OutcomeTimedOut, TofuStarted: true}, NeedsRecovery, "RUN_TTL_EXCEEDED"},
		{Done{Outcome: OutcomeUnknown, TofuStarted: true}, NeedsRecovery, "outcome_unknown"},
		{Done{Outcome: OutcomeUnknown}, ApplyStartUncertain, "apply_start_uncertain"},
		{Done{Outcome: "something new", TofuStarted: true}, NeedsRecovery, "outcome_unknown"},
		{Done{Outcome: OutcomeCanceled, TofuStarted: true}, ApplyInterrupted, "apply_interrupted"},
		{Done{Outcome: OutcomeFinished, TofuStarted: true}, NeedsRecovery, "state_unconfirmed"},
	} {
		t.Run(string(c.done.Outcome), func(t *testing.T) {
			e := w.applying(w.workspace())
			next := w.run(e.WorkspaceID)
			e.done(c.done)
			assert.Equal(t, c.reason, w.wantStatus(e.RunID, c.want).DurableReason)
			w.wantHeld(e.RunID)
			w.wantWaits(next.ID)
			w.sweep()
			w.wantWaits(next.ID)
		})
	}
}

func TestSuccessNeedsTheConfirmationOfThisState(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, report := range map[string]func(e *executor) ids.StateVersion{
		"not confirmed":           func(e *executor) ids.StateVersion { return e.publish(1) },
		"confirmed, not reported": func(e *executor) ids.StateVersion { e.publish(1); e.confirm(); return "" },
		"published once more":     func(e *executor) ids.StateVersion { e.publish(1); v := e.confirm(); e.publish(2); return v },
		"another one reported":    func(e *executor) ids.StateVersion { v := e.publish(1); e.publish(2); e.confirm(); return v },
	} {
		t.Run(name, func(t *testing.T) {
			e := w.applying(w.workspace())
			v := report(e)
			e.done(Done{Outcome: OutcomeFinished, TofuStarted: true, Confirmed: v})
			d := w.wantStatus(e.RunID, NeedsRecovery)
			assert.Equal(t, "state_unconfirmed", d.DurableReason)
			assert.Empty(t, d.ResultingVersionID)
			w.wantHeld(e.RunID)
		})
	}
}

func TestConfirmationIsForTheApplyingSandbox(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.applying(w.workspace())
	_, err := e.runs.ConfirmState(ctx, e.actor, e.sandbox)
	wantCode(t, err, fault.Conflict, "state_unproven") // nothing was published
	e.publish(1)
	_, err = e.runs.ConfirmState(ctx, e.actor, "elsewhere")
	wantCode(t, err, fault.Forbidden, "capability_mismatch")
	assert.Equal(t, e.confirm(), e.confirm())
}

// tofu publishes nothing when an apply leaves the state as it was (decision 4).
func TestAnApplyThatLeavesTheStateAsItWasSucceeds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspace()
	first := w.applying(ws)
	was := first.publish(1)
	first.done(Done{Outcome: OutcomeFinished, TofuStarted: true, Confirmed: first.confirm()})

	e := w.applying(ws)
	require.Equal(t, was, e.confirm(), "the state it began with is the proof")
	e.done(Done{Outcome: OutcomeFinished, TofuStarted: true, Confirmed: was})
	d := w.wantStatus(e.RunID, Succeeded)
	assert.Equal(t, "state_unchanged", d.DurableReason)
	assert.Empty(t, d.ResultingVersionID, "nothing was published, and nothing claims so")
	w.wantFree(ws)

	e = w.applying(ws)
	_, err := w.begin(e.actor, ws, "never uploaded", 2)
	require.NoError(t, err)
	_, err = e.runs.ConfirmState(ctx, e.actor, e.sandbox)
	wantCode(t, err, fault.Conflict, "state_unproven")
	e.done(Done{Outcome: OutcomeFinished, TofuStarted: true, Confirmed: was})
	w.wantStatus(e.RunID, NeedsRecovery)
	w.wantHeld(e.RunID)
}

// unguarded runs a statement with the triggers off, as a damaged database would be.
func (w *world) unguarded(sql string, args postgres.Args) {
	w.Helper()
	require.NoError(w, w.tx(func(tx postgres.Tx) error {
		if _, err := postgres.Exec(ctx, tx, "set local session_replication_role = replica", postgres.Args{}); err != nil {
			return err
		}
		n, err := postgres.Exec(ctx, tx, sql, args)
		if err == nil && n == 0 {
			err = fmt.Errorf("nothing was touched by %s", sql)
		}
		return err
	}))
}

func TestEachOfTheSevenFieldsMustMatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	other := w.applying(w.workspace())
	for _, c := range []struct {
		field string
		says  string
		alter string
		held  bool // by the run; else somebody else has the workspace
	}{
		{"run", "another run", "update state_versions set run_id = @other_run where id = @v", true},
		{"attempt", "another attempt", "update state_versions set attempt_id = @other_attempt where id = @v", true},
		{"sandbox", "another sandbox", "update state_versions set sandbox_id = 'elsewhere' where id = @v", true},
		{"predecessor", "do not lead back", "update state_versions set base_version_id = id where id = @v", true},
		{"predecessor of the run", "announced state that did not become current", "update runs set predecessor_version_id = @v where id = @run", true},
		{"lock", "no longer holds", "update workspace_fences set epoch = epoch + 1, holder_kind = 'user', holder_id = 'mallory', holder_name = 'mallory' where workspace_id = @ws", false},
		{"lock, freed", "no longer holds", "update workspace_fences set epoch = epoch + 1, holder_kind = null, holder_id = null, acquired_at = null where workspace_id = @ws", true},
		{"fence of the state", "another fence", "update state_versions set epoch = epoch + 1 where id = @v", true},
		{"fence of the workspace", "no longer holds", "update workspace_fences set epoch = epoch + 1 where workspace_id = @ws", true},
		{"fence of the attempt", "another fence", "update attempts set fence_epoch = fence_epoch + 1 where id = @attempt", true},
		{"checksum of the version", "another checksum", "update state_versions set sha256 = repeat('0', 64) where id = @v", true},
		{"checksum of the bytes", "another checksum", "update objects set sha256 = repeat('0', 64) where id = (select object_id from state_versions where id = @v)", true},
		{"pointer", "announced state that did not become current", "update current_states set state_version_id = @earlier where workspace_id = @ws", true},
	} {
		t.Run(c.field, func(t *testing.T) {
			ws := w.workspace()
			first := w.applying(ws)
			earlier := first.publish(1)
			first.done(Done{Outcome: OutcomeFinished, TofuStarted: true, Confirmed: first.confirm()})
			w.wantStatus(first.RunID, Succeeded)

			e := w.applying(ws)
			next := w.run(ws)
			v := e.publish(2)
			require.Equal(t, v, e.confirm())
			w.unguarded(c.alter, postgres.Args{
				"v": v, "ws": ws, "run": e.RunID, "attempt": e.ID, "earlier": earlier, "other_run": other.RunID, "other_attempt": other.ID,
			})
			_, err := e.runs.ConfirmState(ctx, e.actor, e.sandbox)
			wantCode(t, err, fault.Conflict, "state_unproven")
			assert.ErrorContains(t, err, c.says)
			e.done(Done{Outcome: OutcomeFinished, TofuStarted: true, Confirmed: v})
			d := w.wantStatus(e.RunID, NeedsRecovery)
			assert.Empty(t, d.ResultingVersionID)
			w.wantWaits(next.ID)
			if c.held {
				w.wantHeld(e.RunID)
			} else {
				assert.True(t, w.fence(ws).Held())
			}
		})
	}
}

func TestTheChainOfPublicationsLeadsBackToThePredecessor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.applying(w.workspace())
	first := e.publish(1)
	e.publish(2)
	e.publish(3)
	e.confirm()
	w.unguarded("update state_versions set sandbox_id = 'elsewhere' where id = @v", postgres.Args{"v": first})
	_, err := e.runs.ConfirmState(ctx, e.actor, e.sandbox)
	wantCode(t, err, fault.Conflict, "state_unproven")
}

func TestARecoveredWorkspaceGoesOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspace()
	e := w.applying(ws)
	e.publish(1)
	next := w.run(ws)
	e.done(failed())
	w.wantHeld(e.RunID)
	_, err := w.runs.Lock(ctx, w.owner, ws, "")
	assert.True(t, fault.Is(err, fault.RecoveryHeld), "%v", err)
	_, err = w.runs.Unlock(ctx, w.owner, ws)
	assert.ErrorContains(t, err, string(e.RunID))
	_, err = w.runs.ForceUnlock(ctx, w.owner, ws)
	assert.True(t, fault.Is(err, fault.RecoveryHeld), "%v", err)
	assert.True(t, fault.Is(w.runs.DeleteWorkspace(ctx, w.owner, ws, false), fault.RecoveryHeld))
	wantCode(t, w.runs.Cancel(ctx, w.owner, e.RunID, ""), fault.Conflict, "invalid_transition")

	require.NoError(t, w.tx(func(tx postgres.Tx) error {
		r, status, err := Lock(ctx, tx, e.RunID)
		if err != nil {
			return err
		}
		if err := Recover(ctx, tx, authz.System(), r, "looked at it"); err != nil {
			return err
		}
		if _, err := fence.Revoke(ctx, tx, status); err != nil {
			return err
		}
		return PromoteNext(ctx, tx, ws)
	}))
	d := w.wantStatus(e.RunID, NeedsRecovery)
	assert.NotNil(t, d.RecoveredAt)
	assert.Equal(t, []Status{Applying, ApplyFailed, NeedsRecovery}, d.steps()[6:])
	w.wantReleased(e.RunID)
	w.wantAdmitted(next.ID)
}
