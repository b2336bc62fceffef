package state_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/fence"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/internal/testdb"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/state"
)

func TestOnlyTheHolderOfTheLockWrites(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	content := file(1, lineage, "x")
	begin := func(who authz.Actor) error {
		_, _, err := w.Begin(ctx, who, w.ws, announce(1, lineage, content))
		return err
	}
	wantFault(t, begin(w.ada), fault.Conflict, "workspace_not_locked")
	tok := w.lock(w.bob)
	err := begin(w.ada)
	wantFault(t, err, fault.Conflict, "workspace_locked")
	assert.Contains(t, err.Error(), "is locked by User bob")
	wantFault(t, begin(w.mia), fault.Forbidden, "forbidden")
	require.NoError(t, begin(w.bob))
	w.release(tok)

	runner, _ := w.apply("")
	wantFault(t, begin(w.ada), fault.Conflict, "workspace_locked")
	require.NoError(t, begin(runner))
	planner := runner
	planner.Phase = authz.Plan
	wantFault(t, begin(planner), fault.Forbidden, "forbidden")
	stale := runner
	stale.Epoch--
	wantFault(t, begin(stale), fault.Conflict, "stale_fence")
	foreign := runner
	foreign.Run = ids.New[ids.Run]()
	wantFault(t, begin(foreign), fault.Conflict, "stale_fence")
}

func TestForeignThingsAreNotThere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.lock(w.ada)
	v := w.publish(w.ada, 1, file(1, lineage, "x"))
	outputs, err := w.Outputs(ctx, w.ada, v.ID)
	require.NoError(t, err)
	ask := func(ws ids.Workspace, id ids.StateVersion, output ids.Output) map[string]error {
		answers := map[string]error{}
		_, _, answers["begin"] = w.Begin(ctx, w.eve, ws, announce(2, lineage, nil))
		_, answers["current"] = w.Current(ctx, w.eve, ws)
		_, answers["current outputs"] = w.CurrentOutputs(ctx, w.eve, ws)
		_, _, answers["versions"] = w.Versions(ctx, w.eve, ws, state.Filter{Limit: 1})
		_, answers["version"] = w.Version(ctx, w.eve, id)
		_, answers["outputs"] = w.Outputs(ctx, w.eve, id)
		_, answers["output"] = w.Output(ctx, w.eve, output)
		_, _, answers["download"] = w.Download(ctx, w.eve, id)
		_, _, answers["json"] = w.DownloadJSON(ctx, w.eve, id)
		_, answers["rollback"] = w.Rollback(ctx, w.eve, ws, id)
		return answers
	}
	unknown := ask(ids.New[ids.Workspace](), ids.New[ids.StateVersion](), ids.New[ids.Output]())
	for what, err := range ask(w.ws, v.ID, outputs[0].ID) {
		var foreign, missing *fault.Error
		require.ErrorAs(t, err, &foreign, what)
		require.ErrorAs(t, unknown[what], &missing, what)
		assert.Equal(t, fault.NotFound, foreign.Kind, what)
		assert.Equal(t, []any{missing.Kind, missing.Code}, []any{foreign.Kind, foreign.Code}, what)
		for _, id := range []string{string(w.ws), string(v.ID), string(outputs[0].ID)} {
			foreign.Message = string(bytes.ReplaceAll([]byte(foreign.Message), []byte(id), []byte("ID")))
		}
		assert.NotContains(t, foreign.Message, "net", "%s: the name is not told", what)
	}

	t.Log("nor is what belongs to a deleted workspace")
	require.NoError(t, w.exec("update workspaces set deleted_at = clock_timestamp() where id = @ws", postgres.Args{"ws": w.ws}))
	_, err = w.Version(ctx, w.ada, v.ID)
	assert.True(t, fault.Is(err, fault.NotFound), "%v", err)
	_, err = w.Output(ctx, w.ada, outputs[0].ID)
	assert.True(t, fault.Is(err, fault.NotFound), "%v", err)
	_, err = w.Current(ctx, w.ada, w.ws)
	assert.True(t, fault.Is(err, fault.NotFound), "%v", err)
}

func TestForceUnlockFencesTheUpload(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.lock(w.ada)
	first := w.publish(w.ada, 1, file(1, lineage, "a"))
	content := file(2, lineage, "late")
	v := w.begin(w.ada, 2, content)
	w.forceUnlock()
	_, err := w.Upload(ctx, v.ID, bytes.NewReader(content))
	wantFault(t, err, fault.Conflict, "stale_fence")
	w.wantEvidence(v.ID, "stale_fence", content)
	assert.Equal(t, first.ID, w.current())

	t.Log("also when the same user has locked it anew")
	w.lock(w.ada)
	v = w.begin(w.ada, 2, content)
	w.forceUnlock()
	w.lock(w.ada)
	_, err = w.Upload(ctx, v.ID, bytes.NewReader(content))
	wantFault(t, err, fault.Conflict, "stale_fence")
	assert.Equal(t, first.ID, w.current())

	t.Log("and after a plain unlock")
	v = w.begin(w.ada, 2, content)
	w.release(fence.Token{Workspace: w.ws, Epoch: w.epoch(), Holder: fence.Holder{Kind: fence.User, ID: string(w.ada.User)}})
	_, err = w.Upload(ctx, v.ID, bytes.NewReader(content))
	wantFault(t, err, fault.Conflict, "stale_fence")
	assert.Equal(t, first.ID, w.current())
}

func TestWhatIsHeldForRecoveryIsNotPublished(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tok := w.lock(w.ada)
	first := w.publish(w.ada, 1, file(1, lineage, "a"))
	userContent := file(2, lineage, "of an earlier lock")
	earlier := w.begin(w.ada, 2, userContent)
	w.release(tok)
	runner, tok := w.apply(first.ID)
	content := file(2, lineage, "late")
	v := w.begin(runner, 2, content)
	require.NoError(t, w.tx(func(tx postgres.Tx) error { return fence.HoldForRecovery(ctx, tx, tok, "no proof") }))

	for range 2 { // the client repeats
		_, err := w.Upload(ctx, v.ID, bytes.NewReader(content))
		wantFault(t, err, fault.RecoveryHeld, "workspace_recovery_pending")
	}
	assert.Equal(t, state.Pending, w.version(v.ID).Status, "recovery decides about it")
	assert.Equal(t, content, w.download(w.ada, v.ID), "its bytes are kept")
	assert.Equal(t, first.ID, w.current())
	assert.Equal(t, 1, value[int](w, "select count(*) from objects where status = 'discarded'", nil), "the repeat left nothing")

	in := announce(2, lineage, content)
	_, _, err := w.Begin(ctx, w.ada, w.ws, in)
	wantFault(t, err, fault.RecoveryHeld, "workspace_recovery_pending")
	in.Force = true
	_, _, err = w.Begin(ctx, w.ada, w.ws, in)
	wantFault(t, err, fault.RecoveryHeld, "workspace_recovery_pending")
	_, err = w.Rollback(ctx, w.ada, w.ws, first.ID)
	wantFault(t, err, fault.RecoveryHeld, "workspace_recovery_pending")
	_, _, err = w.Begin(ctx, runner, w.ws, announce(3, lineage, file(3, lineage, "b")))
	wantFault(t, err, fault.Conflict, "stale_fence")
	_, err = w.Upload(ctx, earlier.ID, bytes.NewReader(userContent))
	wantFault(t, err, fault.Conflict, "stale_fence")
	w.wantEvidence(earlier.ID, "stale_fence", userContent)
}

// An attempt works on the state its run was admitted on, whatever happened since (ST-01).
func TestAnAttemptSeesItsOwnState(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tok := w.lock(w.ada)
	pinned := w.publish(w.ada, 1, file(1, lineage, "a"))
	moved := w.publish(w.ada, 2, file(2, lineage, "b"))
	w.release(tok)
	sees := func(who authz.Actor) ids.StateVersion {
		v, err := w.Current(ctx, who, w.ws)
		require.NoError(t, err)
		outputs, err := w.CurrentOutputs(ctx, who, w.ws)
		require.NoError(t, err)
		assert.Equal(t, v.ID, outputs[0].Version)
		return v.ID
	}
	runner, _ := w.apply(pinned.ID)
	assert.Equal(t, pinned.ID, sees(runner))
	assert.Equal(t, moved.ID, sees(w.ada))

	v := w.publish(runner, 3, file(3, lineage, "c"))
	assert.Equal(t, []any{runner.Run, runner.Attempt, "box-1", moved.ID, fence.Run}, []any{v.Run, v.Attempt, v.Sandbox, v.Base, v.HolderKind})
	assert.Equal(t, v.ID, sees(runner), "its own publication from then on")
	planner := runner
	planner.Phase = authz.Plan
	assert.Equal(t, v.ID, sees(planner))
	elsewhere := runner
	elsewhere.Workspace = ids.New[ids.Workspace]()
	_, err := w.Current(ctx, elsewhere, w.ws)
	assert.True(t, fault.Is(err, fault.NotFound), "%v", err)

	fresh := runner
	fresh.Run, fresh.Predecessor = ids.New[ids.Run](), ""
	_, err = w.Current(ctx, fresh, w.ws)
	wantFault(t, err, fault.NotFound, "no_state")
	require.NoError(t, w.tx(func(tx postgres.Tx) error {
		n, err := state.Publications(ctx, tx, runner.Run)
		assert.Equal(t, 1, n)
		return err
	}))
}

func TestForce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	forced := func(serial int64, lineage string, content []byte) state.Create {
		in := announce(serial, lineage, content)
		in.Force = true
		return in
	}
	runner, tok := w.apply("")
	content := file(9, lineage, "first")
	v, _, err := w.Begin(ctx, runner, w.ws, forced(9, lineage, content))
	require.NoError(t, err, "nothing special on an empty workspace")
	first, err := w.Upload(ctx, v.ID, bytes.NewReader(content))
	require.NoError(t, err)
	assert.False(t, first.Forced)
	assert.Equal(t, tok.Epoch, w.epoch())
	assert.Zero(t, w.audited("state.forced"))

	content = file(2, other, "replacement")
	in := forced(2, other, content)
	_, _, err = w.Begin(ctx, runner, w.ws, in)
	wantFault(t, err, fault.Forbidden, "forbidden")
	w.release(tok)
	tok = w.lock(w.ada)
	_, _, err = w.Begin(ctx, w.mia, w.ws, in)
	wantFault(t, err, fault.Forbidden, "forbidden")

	begunBefore := w.begin(w.ada, 10, file(10, lineage, "begun before"))
	v, _, err = w.Begin(ctx, w.ada, w.ws, in)
	require.NoError(t, err)
	v, err = w.Upload(ctx, v.ID, bytes.NewReader(content))
	require.NoError(t, err)
	assert.Equal(t, []any{true, int64(2), other}, []any{v.Forced, v.Serial, v.Lineage})
	assert.Equal(t, v.ID, w.current())
	assert.Equal(t, tok.Epoch+1, w.epoch())
	assert.Equal(t, 1, w.audited("state.forced"))
	assert.Equal(t, state.Finalized, w.version(first.ID).Status, "the old one stays")

	_, err = w.Upload(ctx, begunBefore.ID, bytes.NewReader(file(10, lineage, "begun before")))
	wantFault(t, err, fault.Conflict, "stale_fence")
	onward := file(3, other, "onward")
	v, _, err = w.Begin(ctx, w.ada, w.ws, announce(3, other, onward))
	require.NoError(t, err, "the holder goes on")
	v, err = w.Upload(ctx, v.ID, bytes.NewReader(onward))
	require.NoError(t, err)
	assert.Equal(t, v.ID, w.current())
}

func TestTheBaseMustNotMove(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.lock(w.ada)
	slow := w.begin(w.ada, 5, file(5, lineage, "slow"))
	quick := w.publish(w.ada, 2, file(2, lineage, "quick"))
	_, err := w.Upload(ctx, slow.ID, bytes.NewReader(file(5, lineage, "slow")))
	wantFault(t, err, fault.Conflict, "state_moved")
	w.wantEvidence(slow.ID, "state_moved", file(5, lineage, "slow"))
	assert.Equal(t, quick.ID, w.current())
}

func TestRollback(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tok := w.lock(w.ada)
	one := w.publish(w.ada, 1, file(1, lineage, "one"))
	require.NoError(t, w.UploadJSON(ctx, one.ID, bytes.NewReader([]byte(`{"json":1}`))))
	two := w.publish(w.ada, 2, file(2, lineage, "two"))
	pending := w.begin(w.ada, 8, file(8, lineage, "pending"))

	_, err := w.Rollback(ctx, w.ada, w.ws, pending.ID)
	wantFault(t, err, fault.Conflict, "not_finalized")
	_, err = w.Rollback(ctx, w.ada, w.ws, ids.New[ids.StateVersion]())
	assert.True(t, fault.Is(err, fault.NotFound), "%v", err)
	neighbour := w
	neighbour.ws = w.neighbour
	neighbour.lock(w.ada)
	foreign := neighbour.publish(w.ada, 1, file(1, lineage, "of another workspace"))
	_, err = w.Rollback(ctx, w.ada, w.ws, foreign.ID)
	assert.True(t, fault.Is(err, fault.NotFound), "%v", err)
	_, err = w.Rollback(ctx, w.bob, w.ws, one.ID)
	wantFault(t, err, fault.Conflict, "workspace_locked")
	_, err = w.Rollback(ctx, w.mia, w.ws, one.ID)
	wantFault(t, err, fault.Forbidden, "forbidden")
	assert.Equal(t, two.ID, w.current())

	back, err := w.Rollback(ctx, w.ada, w.ws, one.ID)
	require.NoError(t, err)
	assert.NotEqual(t, one.ID, back.ID, "a new version")
	assert.Equal(t, []any{one.ID, two.ID, int64(1), one.SHA256, w.ada.User}, []any{back.RollbackOf, back.Base, back.Serial, back.SHA256, back.CreatedBy})
	assert.Equal(t, one.Resources, back.Resources)
	assert.Equal(t, back.ID, w.current(), "current is a pointer, not the highest serial")
	assert.Equal(t, file(1, lineage, "one"), w.download(w.ada, back.ID))
	outputs, err := w.CurrentOutputs(ctx, w.ada, w.ws)
	require.NoError(t, err)
	assert.JSONEq(t, `"one"`, string(outputs[0].Value))
	body, _, err := w.DownloadJSON(ctx, w.ada, back.ID)
	require.NoError(t, err)
	require.NoError(t, body.Close())
	assert.Equal(t, 1, w.audited("state.rolled-back"))

	t.Log("what was begun before is fenced off")
	assert.Equal(t, tok.Epoch+1, w.epoch())
	_, err = w.Upload(ctx, pending.ID, bytes.NewReader(file(8, lineage, "pending")))
	wantFault(t, err, fault.Conflict, "stale_fence")

	t.Log("the next serial is compared with the pointer, and bytes that were current before are published, not taken for a repeat")
	again := w.publish(w.ada, 2, file(2, lineage, "two"))
	assert.NotEqual(t, two.ID, again.ID)
	assert.Equal(t, again.ID, w.current())

	t.Log("only a user rolls back")
	w.release(fence.Token{Workspace: w.ws, Epoch: w.epoch(), Holder: tok.Holder})
	_, err = w.Rollback(ctx, w.ada, w.ws, one.ID)
	wantFault(t, err, fault.Conflict, "workspace_not_locked")
	runner, _ := w.apply(again.ID)
	_, err = w.Rollback(ctx, runner, w.ws, one.ID)
	wantFault(t, err, fault.Forbidden, "forbidden")
}

// The pointer moves only from the version that it shows.
func TestThePointerMovesFromItsBaseOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.lock(w.ada)
	one := w.publish(w.ada, 1, file(1, lineage, "one"))
	two := w.publish(w.ada, 2, file(2, lineage, "two"))
	for _, base := range []ids.StateVersion{"", one.ID, ids.New[ids.StateVersion]()} {
		require.NoError(t, w.tx(func(tx postgres.Tx) error {
			n, err := postgres.Exec(ctx, tx, state.Queries.Get("MovePointer"), postgres.Args{"workspace_id": w.ws, "organization_id": w.acme.ID, "id": one.ID, "base_version_id": base})
			assert.Zero(t, n, "from %q", base)
			return err
		}))
	}
	assert.Equal(t, two.ID, w.current())
}

// The database holds the rules also against a statement that forgets them.
func TestTheDatabaseRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.lock(w.ada)
	v := w.publish(w.ada, 1, file(1, lineage, "x"))
	bad := w.begin(w.ada, 2, []byte("bad"))
	_, err := w.Upload(ctx, bad.ID, bytes.NewReader([]byte("bad")))
	wantFault(t, err, fault.Invalid, "state_malformed")
	pending := w.begin(w.ada, 3, file(3, lineage, "x"))

	for _, id := range []ids.StateVersion{v.ID, bad.ID} {
		for _, change := range []string{
			"status = 'pending'", "serial = 77", "lineage = 'z'", "sha256 = 'z'", "object_id = null", "epoch = 0",
		} {
			err := w.exec("update state_versions set "+change+" where id = @id", postgres.Args{"id": id})
			testdb.WantViolation(t, err, "23514", "state_version_is_final")
		}
	}
	for _, id := range []ids.StateVersion{pending.ID, bad.ID} {
		err := w.exec("update current_states set state_version_id = @id", postgres.Args{"id": id})
		testdb.WantViolation(t, err, "23514", "current_state_is_finalized")
	}
	err = w.exec("update state_versions set status = 'finalized' where id = @id", postgres.Args{"id": pending.ID})
	testdb.WantViolation(t, err, "23514", "state_versions_finalized_complete")
	err = w.exec("update state_versions set declared_serial = -1 where id = @id", postgres.Args{"id": pending.ID})
	testdb.WantViolation(t, err, "23514", "state_versions_declared_serial")
	assert.Equal(t, v.ID, w.current())
}
