package recovery_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/recovery"
	"github.com/holdfast-run/holdfast/state"
)

func (w *world) version(id ids.StateVersion) (status, reason string) {
	w.Helper()
	row := values[string](w, "select status || ' ' || discard_reason from state_versions where id = @id", postgres.Args{"id": id})[0]
	status, reason, _ = strings.Cut(row, " ")
	return status, reason
}

// An upload whose bytes came after the run was held becomes part of the chain before
// anything is decided (RC-27).
func TestAnUploadThatCameTooLateIsFinalizedFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.succeeded(1)
	run := w.run()
	e := w.applying(run)
	second := e.begin(2)
	e.failed()
	_, err := w.state.Upload(ctx, second.ID, strings.NewReader(stateFile(2)))
	require.True(t, fault.Is(err, fault.RecoveryHeld))
	status, _ := w.version(second.ID)
	require.Equal(t, "pending", status)
	op, err := w.Recover(ctx, w.owner, run, verify())
	require.NoError(t, err)
	assert.Equal(t, []any{second.ID, second.ID, 1}, []any{op.TargetVersionID, w.current(), op.Publications})
	outputs, err := w.state.Version(ctx, w.owner, second.ID)
	require.NoError(t, err)
	assert.Equal(t, state.Finalized, outputs.Status)
}

// stranded leaves an upload whose bytes lie in the store although its server died before
// it could count them.
func (e *executor) stranded(serial int64) (id ids.StateVersion, key string) {
	e.Helper()
	v := e.publish(serial)
	base := string(v.Base)
	object := values[ids.Object](e.world, "select object_id from state_versions where id = @id", postgres.Args{"id": v.ID})[0]
	for _, k := range e.store.Keys() {
		if strings.HasSuffix(k, "/state/"+string(object)) {
			key = k
		}
	}
	require.NotEmpty(e, key)
	e.change("update state_versions set status = 'pending', object_id = null, finalized_at = null, serial = null, lineage = null, size = null, sha256 = null where id = @id", postgres.Args{"id": v.ID})
	e.change("update current_states set state_version_id = @base", postgres.Args{"base": base})
	e.change("update objects set status = 'pending', size = null, sha256 = null, md5 = null, stored_at = null where id = @id", postgres.Args{"id": object})
	return v.ID, key
}

// A claimed upload whose bytes nobody has blocks, and is named; it goes on when they are
// back (RC-30…RC-32, ER-15).
func TestAClaimedUploadBlocks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.succeeded(1)
	run := w.run()
	e := w.applying(run)
	id, key := e.stranded(2)
	e.failed()
	content := w.store.Bytes(key)
	w.store.Replace(key, nil)
	w.refused(run, verify(), fault.Conflict, "claimed_upload_unresolved")
	_, err := w.Recover(ctx, w.owner, run, verify())
	assert.ErrorContains(t, err, string(id))
	uploads := w.evidence(run).Uploads
	require.Len(t, uploads, 1)
	require.NotNil(t, uploads[0].ClaimedAt)
	assert.ErrorContains(t, err, uploads[0].ClaimedAt.UTC().Format(time.RFC3339Nano), "the exact time is shown")
	w.store.Replace(key, content[:len(content)-3])
	w.refused(run, verify(), fault.Conflict, "claimed_upload_unresolved")

	w.store.Replace(key, content)
	in := verify() // the override is not needed any more
	in.AcknowledgeStateLoss = true
	in.Overrides = []recovery.Override{{Upload: id, ClaimedAt: *uploads[0].ClaimedAt}}
	op, err := w.Recover(ctx, w.owner, run, in)
	require.NoError(t, err)
	assert.Equal(t, id, op.TargetVersionID)
	assert.Empty(t, op.Overrides)
	status, _ := w.version(id)
	assert.Equal(t, "finalized", status)
}

// The override names exactly that upload and that time, and gives it up with the fence
// (RC-33…RC-36).
func TestTheOverrideOfAClaimedUpload(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	before := w.succeeded(1)
	run := w.run()
	e := w.applying(run)
	id, key := e.stranded(2)
	e.failed()
	w.store.Replace(key, nil)
	at := *w.evidence(run).Uploads[0].ClaimedAt
	in := verify()
	in.AcknowledgeStateLoss = true
	for _, wrong := range []recovery.Override{{Upload: id, ClaimedAt: at.Add(time.Microsecond)}, {Upload: before.ID, ClaimedAt: at}} {
		in.Overrides = []recovery.Override{wrong}
		w.refused(run, in, fault.Conflict, "override_mismatch")
	}
	in.Overrides = []recovery.Override{{Upload: id, ClaimedAt: at}}
	silent := in
	silent.AcknowledgeStateLoss = false
	w.refused(run, silent, fault.Invalid, "confirmation_required")
	status, _ := w.version(id)
	require.Equal(t, "pending", status, "nothing is given up before the commit")

	op, err := w.Recover(ctx, w.owner, run, in)
	require.NoError(t, err)
	assert.Equal(t, before.ID, op.TargetVersionID)
	status, reason := w.version(id)
	assert.Equal(t, []string{"discarded", "superseded_by_recovery"}, []string{status, reason})
	assert.Equal(t, values[string](w, "select xmin::text from recovery_operations", nil), values[string](w, "select xmin::text from state_versions where id = @id", postgres.Args{"id": id}), "with the fence, in one transaction")
	recorded := values[string](w, "select details->'superseded_uploads'->0->>'state-upload-id' from audit_entries where action = 'run.recovered'", nil)
	assert.Equal(t, []string{string(id)}, recorded)
	claimed := values[string](w, "select details->'superseded_uploads'->0->>'claimed-at' from audit_entries where action = 'run.recovered'", nil)[0]
	parsed, err := time.Parse(time.RFC3339Nano, claimed)
	require.NoError(t, err)
	assert.True(t, at.Equal(parsed))
	_, err = w.state.Upload(ctx, id, strings.NewReader(stateFile(2)))
	assert.True(t, fault.Is(err, fault.Conflict), "what still comes is refused: %v", err)
	assert.Equal(t, before.ID, w.current())
}

// Only what expired without a byte is discarded by itself (RC-28, G-23).
func TestOnlyExpiredUnclaimedUploadsAreDiscarded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.succeeded(1)
	run := w.run()
	e := w.applying(run)
	v := e.begin(2)
	e.failed()
	w.refused(run, verify(), fault.Conflict, "upload_not_expired")
	status, _ := w.version(v.ID)
	assert.Equal(t, "pending", status)
	expire := func(how string) {
		w.change("update state_versions set expires_at = clock_timestamp() - interval '1 second', json_claimed_at = "+how+" where id = @id", postgres.Args{"id": v.ID})
	}
	expire("clock_timestamp()") // the JSON form alone had begun
	w.refused(run, verify(), fault.Conflict, "claimed_upload_unresolved")
	expire("null")
	_, err := w.Recover(ctx, w.owner, run, verify())
	require.NoError(t, err)
	status, reason := w.version(v.ID)
	assert.Equal(t, []string{"discarded", "upload_expired"}, []string{status, reason})
}

// An upload that begins while it is discarded wins or loses as a whole (RC-29).
func TestAnUploadRacesItsDiscarding(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.succeeded(1)
	run := w.run()
	e := w.applying(run)
	for serial := range int64(8) {
		e.begin(serial + 2)
	}
	e.failed()
	pending := w.evidence(run).Uploads
	for i, u := range pending {
		// Each is just about to expire: whoever is first decides.
		w.change("update state_versions set expires_at = clock_timestamp() + @i::interval where id = @id", postgres.Args{"i": []string{"0 seconds", "3 milliseconds"}[i%2], "id": u.ID})
		uploaded := make(chan error)
		go func() {
			_, err := w.state.Upload(ctx, u.ID, strings.NewReader(stateFile(u.DeclaredSerial)))
			uploaded <- err
		}()
		var discarded int64
		require.NoError(t, postgres.InTx(ctx, w.db, "test", func(tx postgres.Tx) (err error) {
			discarded, err = state.DiscardUnclaimed(ctx, tx, run)
			return err
		}))
		err := <-uploaded
		require.Error(t, err)
		status, _ := w.version(u.ID)
		if fault.Is(err, fault.RecoveryHeld) {
			assert.Equal(t, "pending", status, "its bytes are kept")
			assert.Zero(t, discarded)
			w.change("update state_versions set status = 'discarded' where id = @id", postgres.Args{"id": u.ID})
		} else {
			assert.True(t, fault.HasCode(err, "upload_discarded") || fault.HasCode(err, "upload_expired"), "%v", err)
		}
	}
}
