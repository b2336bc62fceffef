package runs

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/dispatch"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/fence"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// bootstrapped polls and accepts with a bootstrap capability, and does not redeem it.
func (w *world) bootstrapped(run ids.Run) *executor {
	w.Helper()
	e, found := w.poll()
	require.True(w, found, "nothing is offered")
	require.Equal(w, run, e.RunID)
	var err error
	e.session, err = e.acceptForBootstrap()
	require.NoError(w, err)
	return e
}

func (e *executor) acceptForBootstrap() (Session, error) {
	e.Helper()
	require.NoError(e, e.runs.Ready(ctx, e.group, e.runner))
	return e.runs.Accept(ctx, e.group, e.ID, dispatch.Acceptance{Runner: e.runner, Sandbox: e.sandbox, Bootstrap: true}, render)
}

func (e *executor) redeem(with ...func(*dispatch.Redemption)) (Session, error) {
	in := dispatch.Redemption{Runner: e.runner, Phase: e.Phase, Sandbox: e.sandbox}
	for _, w := range with {
		w(&in)
	}
	return e.runs.RedeemBootstrap(ctx, e.ID, e.session.Bootstrap, in)
}

func elsewhere(in *dispatch.Redemption)    { in.Sandbox = "elsewhere" }
func forApply(in *dispatch.Redemption)     { in.Phase = authz.Apply }
func byAnotherOne(in *dispatch.Redemption) { in.Runner = ids.New[ids.Runner]() }

// TestABootstrapIsRedeemedOnce: it is no session itself, and good for exactly what it
// is bound to; a redemption that is refused does not consume it.
func TestABootstrapIsRedeemedOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.bootstrapped(w.run(w.workspace()).ID)
	assert.Empty(t, e.session.Token)
	assert.Empty(t, e.session.Manifest)
	_, err := w.runs.Authenticate(ctx, e.session.Bootstrap)
	wantCode(t, err, fault.Unauthenticated, "unauthenticated")
	for _, other := range []func(*dispatch.Redemption){elsewhere, forApply, byAnotherOne} {
		_, err := e.redeem(other)
		wantCode(t, err, fault.Forbidden, "capability_mismatch")
	}
	session, err := e.redeem()
	require.NoError(t, err)
	actor, err := w.runs.Authenticate(ctx, session.Token)
	require.NoError(t, err)
	assert.Equal(t, []any{e.ID, authz.Plan, e.sandbox}, []any{actor.Attempt, actor.Phase, actor.Sandbox})
	for _, other := range []func(*dispatch.Redemption){elsewhere, forApply, byAnotherOne} {
		_, err := e.redeem(other)
		wantCode(t, err, fault.Conflict, "capability_replayed")
	}
	_, err = w.runs.RedeemBootstrap(ctx, e.ID, session.Token, dispatch.Redemption{Runner: e.runner, Phase: e.Phase, Sandbox: e.sandbox})
	wantCode(t, err, fault.Unauthenticated, "unauthenticated")
}

// TestABootstrapIsRepeatedExactlyUntilItExpires: the answer to both calls may be lost.
func TestABootstrapIsRepeatedExactlyUntilItExpires(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.bootstrapped(w.run(w.workspace()).ID)
	again, err := e.acceptForBootstrap()
	require.NoError(t, err)
	assert.Equal(t, e.session, again)
	first, err := e.redeem()
	require.NoError(t, err)
	second, err := e.redeem()
	require.NoError(t, err)
	assert.Equal(t, first, second)
	assert.InDelta(t, 5*time.Minute, time.Until(e.session.BootstrapExpires), float64(2*time.Minute))

	w.exec("update attempt_sessions set bootstrap_expires_at = clock_timestamp() where attempt_id = @id", postgres.Args{"id": e.ID})
	_, err = e.redeem()
	wantCode(t, err, fault.Unauthenticated, "capability_expired")
	_, err = w.runs.Authenticate(ctx, first.Token)
	require.NoError(t, err, "the session lasts longer than what it was redeemed for")

	unredeemed := w.bootstrapped(w.run(w.workspace()).ID)
	w.exec("update attempt_sessions set bootstrap_expires_at = clock_timestamp() where attempt_id = @id", postgres.Args{"id": unredeemed.ID})
	_, err = unredeemed.redeem()
	wantCode(t, err, fault.Unauthenticated, "capability_expired")
	e.session.Token = first.Token
	e.actor, err = w.disp.Authenticate(ctx, first.Token)
	require.NoError(t, err)
	e.plan(true)
	w.exec("update attempt_sessions set bootstrap_expires_at = clock_timestamp() + interval '1 minute' where attempt_id = @id", postgres.Args{"id": e.ID})
	_, err = e.redeem()
	wantCode(t, err, fault.Unauthenticated, "session_ended")
}

func TestASessionIsOpenedOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.bootstrapped(w.run(w.workspace()).ID)
	for range 3 {
		_, err := e.acceptForBootstrap()
		require.NoError(t, err)
		_, err = e.redeem()
		require.NoError(t, err)
	}
	assert.Equal(t, 1, count(w, "select count(*) from attempt_sessions where attempt_id = @id and redeemed_at is not null", postgres.Args{"id": e.ID}))
	jti := w.claims(e.ID)
	err := w.tryExec(`insert into attempt_sessions (jti, attempt_id, phase, sandbox_id, bootstrap_expires_at)
		select jti, attempt_id, phase, sandbox_id, bootstrap_expires_at from attempt_sessions where jti = @jti`, postgres.Args{"jti": jti})
	state, constraint := postgres.Violation(err)
	assert.Equal(t, []string{"23505", "attempt_sessions_pkey"}, []string{state, constraint})
}

// claims gives the jti of an attempt's session.
func (w *world) claims(id ids.Attempt) (jti string) {
	w.Helper()
	require.NoError(w, w.tx(func(tx postgres.Tx) (err error) {
		jti, err = postgres.Value[string](ctx, tx, "select jti from attempt_sessions where attempt_id = @id", postgres.Args{"id": id})
		return err
	}))
	return jti
}

// TestACapabilityIsBoundToPhaseSandboxAndExpiry: AU-09 in its three answers.
func TestACapabilityIsBoundToPhaseSandboxAndExpiry(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	plan := w.take(w.run(w.workspace()).ID)
	wantCode(t, plan.tryStart(), fault.Forbidden, "capability_mismatch")
	e := w.confirmed(w.workspace())
	_, err := e.runs.StartApply(ctx, e.actor, e.session.ManifestDigest, "elsewhere", tofuDigest)
	wantCode(t, err, fault.Forbidden, "capability_mismatch")
	w.exec("update attempts set token_expires_at = clock_timestamp() where id = @id", postgres.Args{"id": e.ID})
	_, err = w.runs.Authenticate(ctx, e.session.Token)
	wantCode(t, err, fault.Unauthenticated, "capability_expired")
	w.wantStatus(e.RunID, AwaitingApproval)
}

// TestAStartAsksForItsEvidenceFirst: whatever is repeated of a start, one thing started.
func TestAStartAsksForItsEvidenceFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.applying(w.workspace())
	steps := w.get(e.RunID).steps()
	for range 2 {
		again, err := e.tryAccept()
		require.NoError(t, err)
		assert.Equal(t, e.session, again)
		require.NoError(t, e.tryStart())
	}
	assert.Equal(t, steps, w.get(e.RunID).steps())
	assert.Equal(t, 2, count(w, "select count(*) from attempts where run_id = @r", postgres.Args{"r": e.RunID}), "one of each phase")

	e.publish(1)
	e.done(Done{Outcome: OutcomeFinished, TofuStarted: true, Confirmed: e.confirm()})
	_, err := e.tryAccept()
	wantCode(t, err, fault.Conflict, "assignment_lost") // its authenticated result is there
	w.wantStatus(e.RunID, Succeeded)
}

func TestTheExecutionNonceIsOfRunAndAttempt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	seen := map[string]bool{}
	for range 2 {
		e := w.confirmed(w.workspace())
		for _, phase := range []authz.Phase{authz.Plan, authz.Apply} {
			require.NoError(t, w.tx(func(tx postgres.Tx) error {
				a, _, err := dispatch.OfRun(ctx, tx, e.RunID, phase)
				assert.Equal(t, dispatch.Nonce(e.RunID, a.ID), a.ExecutionNonce)
				assert.False(t, seen[a.ExecutionNonce], "another attempt has another")
				seen[a.ExecutionNonce] = true
				return err
			}))
		}
	}
	assert.Len(t, seen, 4)
	assert.NotEqual(t, dispatch.Nonce("run-1", "att-12"), dispatch.Nonce("run-1/att-1", "2"))
}

// TestDamagedEvidenceFailsClosed: half of what a start left is no proof of it, and no
// leave to start again.
func TestDamagedEvidenceFailsClosed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, damage := range map[string]string{
		"nonce":           "update attempts set execution_nonce = 'another' where id = @id",
		"manifest":        "update attempts set manifest = 'another' where id = @id",
		"manifest digest": "update attempts set manifest_digest = '' where id = @id",
		"acceptance":      "update attempts set accepted_at = null where id = @id",
		"session":         "delete from attempt_sessions where attempt_id = @id",
	} {
		t.Run("plan without its "+name, func(t *testing.T) {
			e := w.take(w.run(w.workspace()).ID)
			w.exec(damage, postgres.Args{"id": e.ID})
			_, err := e.tryAccept()
			wantCode(t, err, fault.Conflict, "evidence_incomplete")
			w.wantStatus(e.RunID, PlanFailed)
			w.wantReleased(e.RunID)
		})
		t.Run("apply without its "+name, func(t *testing.T) {
			e := w.applying(w.workspace())
			w.exec(damage, postgres.Args{"id": e.ID})
			_, err := e.tryAccept()
			wantCode(t, err, fault.Conflict, "evidence_incomplete")
			assert.Equal(t, "evidence_incomplete", w.wantStatus(e.RunID, ApplyStartUncertain).DurableReason)
			w.wantHeld(e.RunID)
		})
	}
	for name, damage := range map[string]string{
		"instant": "update attempts set apply_started_at = null where id = @id",
		"digest":  "update attempts set apply_started_at = null, start_digest = '' where id = @id",
	} {
		t.Run("a started apply without the "+name+" of its start", func(t *testing.T) {
			e := w.applying(w.workspace())
			w.exec(damage, postgres.Args{"id": e.ID})
			wantCode(t, e.tryStart(), fault.Conflict, "evidence_incomplete")
			w.wantStatus(e.RunID, ApplyStartUncertain)
			w.wantHeld(e.RunID)
		})
	}
}

// A session that the database does not know: what it had acknowledged is lost.

// forget takes the attempt back to before it was accepted, as a failover may.
func (e *executor) forget() {
	e.Helper()
	e.exec("delete from attempt_sessions where attempt_id = @id", postgres.Args{"id": e.ID})
	e.exec(`update attempts set status = 'pending', sandbox_id = '', accepted_at = null, token_expires_at = null, apply_started_at = null, start_digest = '', runner_id = null, group_id = null
		where id = @id`, postgres.Args{"id": e.ID})
}

// rewind takes the run back to before its apply began, past the trigger that forbids it.
func (w *world) rewind(run ids.Run) {
	w.Helper()
	require.NoError(w, w.tx(func(tx postgres.Tx) error {
		if _, err := postgres.Exec(ctx, tx, "set local session_replication_role = replica", nil); err != nil {
			return err
		}
		_, err := postgres.Exec(ctx, tx, "update runs set durable_status = 'awaiting_approval' where id = @id", postgres.Args{"id": run})
		return err
	}))
}

func TestAnUnknownSessionHoldsItsWorkspace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	refused := func(err error) {
		t.Helper()
		wantCode(t, err, fault.RecoveryHeld, "authority_lost")
	}
	held := func(ws ids.Workspace) fence.Status {
		t.Helper()
		s := w.fence(ws)
		require.True(t, s.RecoveryHeld, "%+v", s)
		_, err := w.tryRun(ws)
		require.True(t, fault.Is(err, fault.RecoveryHeld), "%v", err)
		return s
	}
	t.Run("of an apply whose start is forgotten", func(t *testing.T) {
		e := w.applying(w.workspace())
		next := w.run(e.WorkspaceID)
		e.forget()
		w.rewind(e.RunID)
		refused(second(w.runs.Authenticate(ctx, e.session.Token)))
		refused(second(w.runs.Authenticate(ctx, e.session.Token)))
		d := w.wantStatus(e.RunID, ApplyFailed)
		assert.Equal(t, "authority_lost", d.DurableReason)
		assert.Equal(t, dispatch.Canceled, d.ApplyAttempt, "nobody takes it up again")
		w.wantHeld(e.RunID)
		w.wantWaits(next.ID)
	})
	t.Run("of a run that applies", func(t *testing.T) {
		e := w.applying(w.workspace())
		w.exec("delete from attempt_sessions where attempt_id = @id", postgres.Args{"id": e.ID})
		refused(second(w.runs.AuthenticateEnded(ctx, e.session.Token)))
		w.wantStatus(e.RunID, ApplyStartUncertain)
		w.wantHeld(e.RunID)
	})
	t.Run("of a plan", func(t *testing.T) {
		e := w.take(w.run(w.workspace()).ID)
		e.forget()
		refused(second(w.runs.Authenticate(ctx, e.session.Token)))
		w.wantStatus(e.RunID, PlanFailed)
		held(e.WorkspaceID)
	})
	t.Run("of a run that is not there", func(t *testing.T) {
		ws := w.workspace()
		epoch := int64(41)
		expires := time.Now().Add(time.Hour)
		token := w.disp.Token(dispatch.Attempt{
			ID: ids.New[ids.Attempt](), RunID: "run-1111111111111111", OrganizationID: w.acme.ID, WorkspaceID: ws, Phase: authz.Apply, SandboxID: "box", FenceEpoch: &epoch, JTI: "j", TokenExpiresAt: &expires,
		})
		refused(second(w.runs.Authenticate(ctx, token)))
		s := held(ws)
		assert.Equal(t, fence.Recovery, s.Holder.Kind)
		assert.Equal(t, "run-1111111111111111", s.Holder.ID)
		assert.Greater(t, s.Epoch, epoch, "past the epoch that was handed out")
		assert.Equal(t, 1, count(w, "select count(*) from audit_entries where action = 'workspace.authority-lost' and object_id = @w", postgres.Args{"w": ws}))
		wantCode(t, second(w.runs.Authenticate(ctx, strings.Replace(token, "hfa_", "hfa_A", 1))), fault.Unauthenticated, "unauthenticated")
	})
	t.Run("of a bootstrap", func(t *testing.T) {
		e := w.bootstrapped(w.run(w.workspace()).ID)
		w.exec("update attempt_sessions set jti = 'another' where attempt_id = @id", postgres.Args{"id": e.ID})
		refused(second(e.redeem()))
		held(e.WorkspaceID)
	})
	t.Run("of a deleted workspace", func(t *testing.T) {
		e := w.take(w.run(w.workspace()).ID)
		require.NoError(t, w.runs.DeleteWorkspace(ctx, w.owner, e.WorkspaceID, false))
		w.exec("delete from attempt_sessions where attempt_id = @id", postgres.Args{"id": e.ID})
		wantCode(t, second(w.runs.Authenticate(ctx, e.session.Token)), fault.Unauthenticated, "session_ended")
	})
}

// TestAnApplyHasAWitness: it lies in the store before the permission is given, and one
// without its row means that somebody is applying already.
func TestAnApplyHasAWitness(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.confirmed(w.workspace())
	key := string(e.actor.Organization) + "/" + string(e.WorkspaceID) + "/witness/" + string(e.RunID)
	assert.Nil(t, w.store.Bytes(key))
	w.store.SetDown(true)
	require.True(t, fault.Is(e.tryStart(), fault.Unavailable))
	w.store.SetDown(false)
	w.wantStatus(e.RunID, AwaitingApproval)
	e.start()
	require.NotNil(t, w.store.Bytes(key))
	assert.NotContains(t, string(w.store.Bytes(key)), e.RunID)
	witness, found, err := w.runs.objects.Witnessed(ctx, e.actor.Organization, e.WorkspaceID, e.RunID)
	require.NoError(t, err)
	require.True(t, found)
	assert.Equal(t, []any{e.RunID, e.ID, e.sandbox, *w.get(e.RunID).FenceEpoch, dispatch.Nonce(e.RunID, e.ID)},
		[]any{witness.Run, witness.Attempt, witness.Sandbox, witness.Epoch, witness.Nonce})

	w.store.Replace(key, nil) // as if the server had died before it was put
	require.NoError(t, e.tryStart())
	assert.NotNil(t, w.store.Bytes(key), "the repeat puts it")

	t.Log("a witness without its row")
	w.rewind(e.RunID)
	w.exec("update attempts set apply_started_at = null, start_digest = '' where id = @id", postgres.Args{"id": e.ID})
	w.exec(`with replica as materialized (select set_config('session_replication_role', 'replica', true))
		update approvals set spent_at = null from replica where run_id = @id`, postgres.Args{"id": e.RunID})
	wantCode(t, e.tryStart(), fault.RecoveryHeld, "authority_lost")
	w.wantStatus(e.RunID, ApplyFailed)
	w.wantHeld(e.RunID)
}
