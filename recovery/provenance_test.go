package recovery_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/recovery"
	"github.com/holdfast-run/holdfast/runs"
)

// refused demands that the request is refused and nothing changed by it.
func (w *world) refused(run ids.Run, in recovery.Request, kind fault.Kind, code string) {
	w.Helper()
	fenceBefore, runBefore := w.fence(), w.get(run)
	_, err := w.Recover(ctx, w.owner, run, in)
	wantCode(w.T, err, kind, code)
	assert.Equal(w, fenceBefore, w.fence())
	runAfter := w.get(run)
	runBefore.PlanJustFinished = runAfter.PlanJustFinished // which time alone changes
	assert.Equal(w, runBefore, runAfter)
}

// A state that moved is accepted only with the exact run, attempt, sandbox, predecessor,
// lock and fence of the interrupted apply.
func TestEachFieldOfProvenanceIsCompared(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.succeeded(1)
	second := w.succeeded(2)
	run := w.run()
	e := w.applying(run)
	e.publish(3)
	last := e.publish(4)
	e.failed()
	for field, values := range map[string][2]string{
		"run_id":          {string(run), string(first.Run)},
		"attempt_id":      {string(e.ID), string(first.Attempt)},
		"sandbox_id":      {sandbox, "another"},
		"base_version_id": {string(last.Base), string(first.ID)},
		"holder_id":       {string(run), string(first.Run)},
		"holder_kind":     {"run", "user"},
	} {
		set := func(v string) {
			w.change("update state_versions set "+field+" = @v where id = @id", postgres.Args{"v": v, "id": last.ID})
		}
		set(values[1])
		got := w.evidence(run)
		require.NotNil(t, got.VerifyRefused, field)
		_, err := w.Recover(ctx, w.owner, run, verify())
		require.Error(t, err, field)
		assert.True(t, fault.HasCode(err, "provenance_mismatch"), "%s: %v", field, err)
		set(values[0])
	}
	w.change("update state_versions set epoch = epoch - 1 where id = @id", postgres.Args{"id": last.ID})
	w.refused(run, verify(), fault.Conflict, "provenance_mismatch")
	w.change("update state_versions set epoch = epoch + 1 where id = @id", postgres.Args{"id": last.ID})

	t.Log("a state of somebody else is current")
	w.change("update current_states set state_version_id = @id", postgres.Args{"id": first.ID})
	w.refused(run, verify(), fault.Conflict, "provenance_mismatch")
	t.Log("the state from before is current again, although the run published")
	w.change("update current_states set state_version_id = @id", postgres.Args{"id": second.ID})
	w.refused(run, verify(), fault.Conflict, "publication_chain_invalid")
	w.change("update current_states set state_version_id = @id", postgres.Args{"id": last.ID})

	op, err := w.Recover(ctx, w.owner, run, verify())
	require.NoError(t, err)
	assert.Equal(t, []any{recovery.Committed, last.ID, 2}, []any{op.Status, op.TargetVersionID, op.Publications})
}

func TestTheChainHasNoGap(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	before := w.succeeded(1)
	run := w.run()
	e := w.applying(run)
	second, third := e.publish(2), e.publish(3)
	last := e.publish(4)
	e.failed()
	base := func(of, is ids.StateVersion) {
		t.Helper()
		w.change("update state_versions set base_version_id = @base where id = @id", postgres.Args{"id": of, "base": is})
	}
	base(last.ID, second.ID) // the one in the middle is left out
	w.refused(run, verify(), fault.Conflict, "publication_chain_invalid")
	base(last.ID, third.ID)
	w.change("update state_versions set base_version_id = null where id = @id", postgres.Args{"id": second.ID})
	w.refused(run, verify(), fault.Conflict, "publication_chain_invalid")
	base(second.ID, before.ID)
	_, err := w.Recover(ctx, w.owner, run, verify())
	require.NoError(t, err)
}

// 1,024 publications are accepted, one more is not (RC-17).
func TestHowLongAChainMayBe(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	before := w.succeeded(1)
	run := w.run()
	e := w.applying(run)
	last := e.publish(2)
	e.failed()
	grow := func(from, to int) {
		t.Helper()
		for n := from; n <= to; n++ {
			id := ids.New[ids.StateVersion]()
			w.change(`insert into state_versions select (jsonb_populate_record(v, jsonb_build_object('id', @id::text, 'base_version_id', v.id, 'declared_serial', v.declared_serial + 1, 'serial', v.serial + 1))).*
				from state_versions v where v.id = @last`, postgres.Args{"id": id, "last": last.ID})
			last.ID = id
		}
		w.change("update current_states set state_version_id = @id", postgres.Args{"id": last.ID})
	}
	grow(2, 1025)
	require.Len(t, w.evidence(run).Publications, 1025)
	w.refused(run, verify(), fault.Conflict, "publication_chain_invalid")
	gone := last.ID
	previous := values[ids.StateVersion](w, "select base_version_id from state_versions where id = @id", postgres.Args{"id": gone})[0]
	w.change("update current_states set state_version_id = @id", postgres.Args{"id": previous})
	w.change("delete from state_versions where id = @id", postgres.Args{"id": gone})
	op, err := w.Recover(ctx, w.owner, run, verify())
	require.NoError(t, err)
	assert.Equal(t, 1024, op.Publications)
	assert.NotEqual(t, before.ID, w.current())
}

// The lock, the reservation of the writer and the authorization must still be the run's (RC-21).
func TestAuthorityMustBeActive(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run, _ := w.held(1)
	for name, sql := range map[string][2]string{
		"authorization": {"update attempts set authority_revoked_at = clock_timestamp() where phase = 'apply'", "update attempts set authority_revoked_at = null where phase = 'apply'"},
		"its fence":     {"update attempts set fence_epoch = fence_epoch - 1 where phase = 'apply'", "update attempts set fence_epoch = fence_epoch + 1 where phase = 'apply'"},
		"reservation":   {"update runs set fence_released_at = clock_timestamp()", "update runs set fence_released_at = null"},
		"epoch":         {"update runs set fence_epoch = fence_epoch - 1", "update runs set fence_epoch = fence_epoch + 1"},
	} {
		w.change(sql[0], nil)
		_, err := w.Recover(ctx, w.owner, run, verify())
		require.Error(t, err, name)
		assert.True(t, fault.HasCode(err, "authority_not_active"), "%s: %v", name, err)
		w.change(sql[1], nil)
	}
	w.change("update workspace_fences set holder_id = 'run-another'", nil)
	w.refused(run, verify(), fault.Conflict, "not_held")
	w.change("update workspace_fences set holder_id = @run", postgres.Args{"run": run})
	_, err := w.Recover(ctx, w.owner, run, verify())
	require.NoError(t, err)
}

// What moves between prepare and commit stops the commit (RC-22).
func TestCommitLooksAtTheEvidenceAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.succeeded(1)
	run := w.run()
	e := w.applying(run)
	mine := e.publish(2)
	e.failed()
	only := verify()
	only.PrepareOnly = true
	op, err := w.Recover(ctx, w.owner, run, only)
	require.NoError(t, err)
	assert.Equal(t, recovery.Prepared, op.Status)
	assert.Equal(t, runs.NeedsRecovery, w.get(run).DurableStatus, "preparing brings it there (G-21)")

	w.change("update current_states set state_version_id = @id", postgres.Args{"id": first.ID})
	w.refused(run, verify(), fault.Conflict, "publication_chain_invalid")
	w.change("update current_states set state_version_id = @id", postgres.Args{"id": mine.ID})
	w.change("update attempts set authority_revoked_at = clock_timestamp() where id = @id", postgres.Args{"id": e.ID})
	w.refused(run, verify(), fault.Conflict, "authority_not_active")
	w.change("update attempts set authority_revoked_at = null where id = @id", postgres.Args{"id": e.ID})
	e.handOver(errored(4, lineage))
	w.refused(run, verify(), fault.Conflict, "evidence_mismatch")

	anew := verify()
	anew.Reason, anew.Abandon = "the emergency state was looked at, too", op.ID
	after, err := w.Recover(ctx, w.owner, run, anew)
	require.NoError(t, err)
	assert.Equal(t, recovery.Committed, after.Status)
	assert.NotEqual(t, op.ID, after.ID)
	assert.Equal(t, []string{"abandoned"}, values[string](w, "select status from recovery_operations where id = @id", postgres.Args{"id": op.ID}))
}
