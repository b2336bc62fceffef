package recovery_test

import (
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
	"github.com/holdfast-run/holdfast/state"
)

func TestEveryQueryFitsTheSchema(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	assert.NotEmpty(t, recovery.Queries)
	for name, sql := range recovery.Queries {
		assert.NoError(t, postgres.Prepare(ctx, w.db, name, sql), name)
	}
}

// The evidence compares the exact state before the apply with that of now, and names every
// publication between them with all that it is bound to.
func TestTheEvidence(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	before := w.succeeded(1)
	run := w.run()
	e := w.applying(run)
	_, err := w.Evidence(ctx, w.owner, run)
	wantCode(t, err, fault.Conflict, "not_held")

	text := strings.Repeat("one line of many\n", 1000) + "Error: it broke\n"
	_, err = w.runs.AppendLog(ctx, e.actor, "human", 0, []byte(text))
	require.NoError(t, err)
	second := e.publish(2)
	third := e.publish(3)
	pending := e.begin(4)
	e.done(runs.Done{Outcome: runs.OutcomeErrored, ExitCode: 1, TofuStarted: true, LogSize: int64(len(text))})

	got := w.evidence(run)
	assert.True(t, got.Held)
	assert.True(t, got.PointerMoved())
	assert.Equal(t, []ids.StateVersion{before.ID, third.ID}, []ids.StateVersion{got.Before.ID, got.Current.ID})
	require.Len(t, got.Publications, 2)
	for i, want := range []state.Version{third, second} {
		v := got.Publications[i]
		assert.Equal(t, []any{want.ID, run, e.ID, sandbox, string(run), w.fence().Epoch, want.SHA256}, []any{v.ID, v.Run, v.Attempt, v.Sandbox, v.HolderID, v.Epoch, v.SHA256})
	}
	assert.Equal(t, []ids.StateVersion{second.ID, before.ID}, []ids.StateVersion{got.Publications[0].Base, got.Publications[1].Base})
	require.Len(t, got.Uploads, 1)
	assert.Equal(t, pending.ID, got.Uploads[0].ID)
	assert.Nil(t, got.Uploads[0].ClaimedAt)
	assert.True(t, strings.HasPrefix(got.LogTail, "one line of many\n") && strings.HasSuffix(got.LogTail, "Error: it broke\n"), "whole lines of the end")
	assert.Less(t, len(got.LogTail), 8<<10+1)
	assert.Nil(t, got.VerifyRefused)
	assert.Equal(t, "predecessor_moved", got.ImportRefused.Code)
	assert.Empty(t, got.Emergency)
	assert.Nil(t, got.Operation)
}

func TestWhoMaySeeTheEvidence(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run, _ := w.held(1)
	for name, tt := range map[string]struct {
		actor authz.Actor
		kind  fault.Kind
	}{"a member": {w.member, fault.Forbidden}, "a stranger": {w.foreign, fault.NotFound}, "nobody": {authz.Actor{}, fault.NotFound}} {
		_, err := w.Evidence(ctx, tt.actor, run)
		assert.True(t, fault.Is(err, tt.kind), "%s: %v", name, err)
	}
	_, err := w.Evidence(ctx, w.owner, ids.New[ids.Run]())
	wantCode(t, err, fault.NotFound, "not_found")
}

// Only a report of the runner itself proves that the writer has stopped; it counts also
// when it comes after the attempt was called lost.
func TestWhatProvesThatTheWriterHasStopped(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	release := func(run ids.Run) {
		t.Helper()
		_, err := w.Release(ctx, system, run, "looked at it")
		require.NoError(t, err)
	}
	for _, tt := range []struct {
		outcome runs.Outcome
		proven  bool
		how     string
	}{{runs.OutcomeCanceled, true, "done-report"}, {runs.OutcomeTimedOut, true, "done-report"}, {runs.OutcomeUnknown, false, "not-proven"}} {
		run := w.run()
		e := w.applying(run)
		e.done(runs.Done{Outcome: tt.outcome, TofuStarted: true})
		got := w.evidence(run).Writer
		assert.Equal(t, []any{tt.proven, tt.how}, []any{got.Proven, got.How}, tt.outcome)
		assert.Equal(t, e.session.ExpiresAt.UTC(), got.SessionEndsAt.UTC())
		assert.Equal(t, e.session.Emergency.ExpiresAt.UTC(), got.EmergencyEndsAt.UTC())
		release(run)
	}

	run := w.run()
	e := w.applying(run)
	w.change("update attempts set heartbeat_at = clock_timestamp() - interval '1 hour' where id = @id", postgres.Args{"id": e.ID})
	require.NoError(t, w.runs.ReapSilent(ctx))
	assert.Equal(t, "not-proven", w.evidence(run).Writer.How)
	for range 2 { // the second is the exact repeat
		err := w.runs.Done(ctx, e.ID, runs.Done{Outcome: runs.OutcomeErrored, ExitCode: 1, TofuStarted: true, ErroredState: true})
		wantCode(t, err, fault.Conflict, "attempt_ended")
	}
	got := w.evidence(run).Writer
	assert.Equal(t, []any{true, "late-report"}, []any{got.Proven, got.How})
	assert.Equal(t, []string{"errored"}, values[string](w, "select outcome from late_reports where errored_state", nil))
	assert.Equal(t, runs.ApplyStartUncertain, w.get(run).DurableStatus, "nothing is changed by it")
}

func TestALateReportThatKnowsNothingProvesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := w.run()
	e := w.applying(run)
	w.change("update attempts set heartbeat_at = clock_timestamp() - interval '1 hour' where id = @id", postgres.Args{"id": e.ID})
	require.NoError(t, w.runs.ReapSilent(ctx))
	for i := range 25 {
		err := w.runs.Done(ctx, e.ID, runs.Done{Outcome: runs.OutcomeUnknown, ExitCode: i})
		wantCode(t, err, fault.Conflict, "attempt_ended")
	}
	assert.Equal(t, "not-proven", w.evidence(run).Writer.How)
	assert.Equal(t, []int{20}, values[int](w, "select count(*) from late_reports", nil), "an attempt leaves so many at most")
}
