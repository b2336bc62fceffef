package recovery_test

import (
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/fence"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/recovery"
)

// follows is the request that lets the emergency state follow what the run published.
func follows() recovery.Request {
	r := verify()
	r.Resolution = recovery.ImportEmergencySuccessor
	return r
}

// An emergency state becomes current on top of what its own apply published, as the exact
// successor of the last publication (G-20).
func TestImportingOnTopOfAVerifiedChain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.succeeded(4)
	run := w.run()
	e := w.applying(run)
	e.publish(5)
	last := e.publish(6)
	e.handOver(errored(8, lineage))
	e.failed()
	shown := w.evidence(run)
	assert.Nil(t, shown.SuccessorRefused)
	assert.Equal(t, "predecessor_moved", shown.ImportRefused.Code, "the literal rule stays")

	w.store.SetDown(true)
	_, err := w.Recover(ctx, w.owner, run, follows())
	require.True(t, fault.Is(err, fault.Unavailable), "%v", err)
	assert.Empty(t, values[string](w, "select id from recovery_operations", nil), "what will be current is known before it is recorded")
	w.store.SetDown(false)

	only := follows()
	only.PrepareOnly = true
	prepared, err := w.Recover(ctx, w.owner, run, only)
	require.NoError(t, err)
	assert.Equal(t, []any{recovery.Prepared, digestOf(errored(7, lineage)), int64(len(errored(7, lineage))), 2}, []any{prepared.Status, prepared.TargetSHA256, prepared.TargetSize, prepared.Publications})
	op, err := w.Recover(ctx, w.owner, run, follows())
	require.NoError(t, err)
	assert.Equal(t, []any{prepared.ID, prepared.TargetVersionID, w.current()}, []any{op.ID, op.TargetVersionID, op.TargetVersionID})
	body, v, err := w.state.Download(ctx, w.owner, op.TargetVersionID)
	require.NoError(t, err)
	text, err := io.ReadAll(body)
	require.NoError(t, err)
	assert.Equal(t, errored(7, lineage), string(text))
	assert.Equal(t, []any{last.ID, int64(7), fence.Recovery, string(op.ID)}, []any{v.Base, v.Serial, v.HolderKind, v.HolderID})
	again, err := w.Recover(ctx, w.owner, run, follows())
	require.NoError(t, err)
	assert.Equal(t, op, again)
	assert.False(t, w.fence().Held())
}

// What cannot follow the last publication is refused, each for its own reason.
func TestWhatCannotFollowAChain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.succeeded(4)
	run := w.run()
	e := w.applying(run)
	e.handOver(errored(6, lineage))
	e.failed()
	w.refused(run, follows(), fault.Conflict, "nothing_published")
	_, err := w.Recover(ctx, w.owner, run, imports())
	require.NoError(t, err)

	run = w.run()
	e = w.applying(run)
	published := e.publish(6)
	e.failed()
	w.refused(run, follows(), fault.Invalid, "emergency_state_missing")
	cited := func(text string) recovery.Request {
		in := follows()
		digest := digestOf(text)
		in.Evidence.EmergencyDigest = &digest
		return in
	}
	texts := []string{errored(6, lineage), errored(9, "another"), "no state", strings.Replace(errored(9, lineage), `"resources"`, `"encrypted_data":"x","encryption_version":"v0","resources"`, 1)}
	for _, text := range texts {
		e.handOver(text)
		w.refused(run, cited(text), fault.Invalid, "emergency_state_not_successor")
	}
	w.refused(run, follows(), fault.Invalid, "emergency_state_ambiguous")
	assert.Equal(t, published.ID, w.current())

	good := errored(8, lineage)
	e.handOver(good)
	w.change("update state_versions set sandbox_id = 'another' where id = @id", postgres.Args{"id": published.ID})
	w.refused(run, cited(good), fault.Conflict, "provenance_mismatch")
	w.change("update state_versions set sandbox_id = @sandbox where id = @id", postgres.Args{"id": published.ID, "sandbox": sandbox})
	op, err := w.Recover(ctx, w.owner, run, cited(good))
	require.NoError(t, err)
	assert.Equal(t, op.TargetVersionID, w.current())
}

// The database commits no import whose state is not there: a server of an older release,
// which does not know the resolution, cannot leave the state behind.
func TestAnImportIsNotCommittedWithoutItsState(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.succeeded(4)
	run := w.run()
	e := w.applying(run)
	e.publish(5)
	e.handOver(errored(7, lineage))
	e.failed()
	only := follows()
	only.PrepareOnly = true
	op, err := w.Recover(ctx, w.owner, run, only)
	require.NoError(t, err)
	err = postgres.InTx(ctx, w.db, "test", func(tx postgres.Tx) error {
		_, err := postgres.Exec(ctx, tx, "update recovery_operations set status = 'committed', committed_at = clock_timestamp(), reservation_epoch = 9 where id = @id", postgres.Args{"id": op.ID})
		return err
	})
	_, constraint := postgres.Violation(err)
	assert.Equal(t, "recovery_keeps_its_target", constraint)
}
