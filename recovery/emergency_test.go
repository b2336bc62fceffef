package recovery_test

import (
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/recovery"
	"github.com/holdfast-run/holdfast/runs"
)

// An emergency state is kept with the digest and size of what tofu wrote, and of what it
// is as the exact successor (RC-07, G-19).
func TestAnEmergencyStateIsEvidence(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	before := w.succeeded(4)
	run := w.run()
	e := w.applying(run)
	original, normalized := errored(6, lineage), errored(5, lineage) // tofu counts one further (NC-22)
	kept := e.handOver(original)
	assert.Equal(t, kept, e.handOver(original), "the same bytes are the same evidence")
	assert.Equal(t, []any{digestOf(original), int64(len(original)), int64(6), digestOf(normalized), int64(len(normalized)), int64(5), 1, "", false},
		[]any{kept.SHA256, kept.Size, *kept.Serial, kept.NormalizedSHA256, kept.NormalizedSize, *kept.NormalizedSerial, kept.ResourceCount, kept.Obstacle, kept.Late})
	assert.Equal(t, before.ID, w.current(), "it changes nothing")
	e.failed()
	got := w.evidence(run)
	assert.Equal(t, []recovery.Emergency{kept}, got.Emergency)
	assert.Nil(t, got.ImportRefused)

	body, _, err := w.DownloadEmergency(ctx, w.owner, run, "")
	require.NoError(t, err)
	text, err := io.ReadAll(body)
	require.NoError(t, err)
	assert.Equal(t, original, string(text))
	_, _, err = w.DownloadEmergency(ctx, w.member, run, "")
	assert.True(t, fault.Is(err, fault.Forbidden))
	_, _, err = w.DownloadEmergency(ctx, w.foreign, run, "")
	assert.True(t, fault.Is(err, fault.NotFound))
	for _, key := range w.store.Keys() {
		assert.NotContains(t, string(w.store.Bytes(key)), lineage, "it is sealed")
	}
}

// The capability is the attempt's alone, serves for nothing else, and ends an hour after
// all other authority; also when the attempt and its run have ended.
func TestTheEmergencyCapability(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := w.run()
	planning := w.take(run)
	assert.Empty(t, planning.session.Emergency.Token, "a plan has none")
	planning.plan()
	require.NoError(t, w.runs.Confirm(ctx, w.owner, run, runs.Decision{}))
	e := w.take(run)
	_, err := w.runs.StartApply(ctx, e.actor, e.session.ManifestDigest, sandbox, tofuDigest)
	require.NoError(t, err)
	e.actor.Applying = true
	text := errored(2, lineage)
	give := func(token string, attempt ids.Attempt) error {
		_, err := w.TakeEmergency(ctx, token, attempt, digestOf(text), strings.NewReader(text))
		return err
	}
	token := e.session.Emergency.Token
	wantCode(t, give(token, planning.ID), fault.NotFound, "not_found")
	for _, wrong := range []string{"", "hfe_", e.session.Token, strings.Replace(token, string(e.ID), string(planning.ID), 1), token[:len(token)-2], "hfe_" + string(e.ID)} {
		wantCode(t, give(wrong, e.ID), fault.Unauthenticated, "unauthenticated")
	}
	_, err = w.disp.Authenticate(ctx, token)
	assert.True(t, fault.Is(err, fault.Unauthenticated), "it opens no session")
	_, err = w.TakeEmergency(ctx, token, e.ID, digestOf("other"), strings.NewReader(text))
	wantCode(t, err, fault.Invalid, "digest_mismatch")
	assert.Empty(t, w.evidenceOf(run))

	e.done(runs.Done{Outcome: runs.OutcomeUnknown, TofuStarted: true})
	_, err = w.disp.Authenticate(ctx, e.session.Token)
	assert.True(t, fault.Is(err, fault.Unauthenticated))
	ends := func(interval string) {
		w.change("update attempts set token_expires_at = clock_timestamp() - @i::interval where id = @id", postgres.Args{"i": interval, "id": e.ID})
	}
	ends("61 minutes")
	wantCode(t, give(token, e.ID), fault.Unauthenticated, "capability_expired")
	ends("59 minutes")
	require.NoError(t, give(token, e.ID))
	assert.True(t, w.evidenceOf(run)[0].Late)

	in := verify()
	in.ConfirmWriterNotProven = true
	_, err = w.Recover(ctx, w.owner, run, in)
	require.NoError(t, err)
	text = errored(3, lineage)
	require.NoError(t, give(token, e.ID), "evidence is taken also after the recovery")
	assert.Empty(t, w.current(), "and changes nothing")
	for i := range 10 {
		text = errored(int64(10+i), lineage)
		err = give(token, e.ID)
	}
	wantCode(t, err, fault.Conflict, "emergency_states_full")
	assert.Len(t, w.evidenceOf(run), 8)
}

func (w *world) evidenceOf(run ids.Run) []recovery.Emergency { return w.anyEvidence(run).Emergency }

// anyEvidence reads it of a run that is not held yet, too.
func (w *world) anyEvidence(run ids.Run) recovery.Evidence {
	w.Helper()
	e, err := w.Evidence(ctx, authz.System(), run)
	if fault.HasCode(err, "not_held") {
		return recovery.Evidence{}
	}
	require.NoError(w, err)
	return e
}

// Only the exact successor is imported (RC-25, ER-14).
func TestWhatCannotBeImported(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.succeeded(4)
	for name, tt := range map[string]struct{ text, obstacle string }{
		"another lineage": {errored(6, "another-lineage"), "lineage_mismatch"},
		"the same serial": {errored(4, lineage), "serial_not_newer"},
		"an older serial": {errored(3, lineage), "serial_not_newer"},
		"encrypted":       {`{"serial":6,"lineage":"` + lineage + `","encrypted_data":"eyJ","meta":{}}`, "client_encrypted"},
		"no state":        {"half a fi", "malformed"},
	} {
		run := w.run()
		e := w.applying(run)
		kept := e.handOver(tt.text)
		assert.Equal(t, tt.obstacle, kept.Obstacle, name)
		assert.Empty(t, kept.NormalizedSHA256, name)
		e.failed()
		w.refused(run, imports(), fault.Invalid, "emergency_state_not_successor")
		_, err := w.Recover(ctx, w.owner, run, verify())
		require.NoError(t, err, "the current state can be verified: %s", name)
	}
	run := w.run()
	e := w.applying(run)
	e.done(runs.Done{Outcome: runs.OutcomeErrored, ExitCode: 1, TofuStarted: true, ErroredState: true})
	w.refused(run, imports(), fault.Invalid, "emergency_state_missing")
	e.handOver(errored(6, lineage))
	e.handOver(errored(7, lineage))
	w.refused(run, imports(), fault.Invalid, "emergency_state_ambiguous")
	chosen, wrong := imports(), imports()
	digest, other := digestOf(errored(7, lineage)), digestOf("other")
	chosen.Evidence.EmergencyDigest, wrong.Evidence.EmergencyDigest = &digest, &other
	w.refused(run, wrong, fault.Conflict, "evidence_mismatch")
	op, err := w.Recover(ctx, w.owner, run, chosen)
	require.NoError(t, err)
	assert.Equal(t, digest, op.EmergencySHA256)
}

// The state from before must still be current; nothing newer is overwritten (RC-24, RC-26).
func TestAnImportNeverOverwrites(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.succeeded(4)
	run := w.run()
	e := w.applying(run)
	e.handOver(errored(7, lineage))
	published := e.publish(5)
	e.failed()
	w.refused(run, imports(), fault.Conflict, "predecessor_moved")
	assert.Equal(t, published.ID, w.current())
	_, err := w.Recover(ctx, w.owner, run, verify())
	require.NoError(t, err)
}
