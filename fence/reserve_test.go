package fence_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/fence"
	"github.com/holdfast-run/holdfast/postgres"
)

// TestARecoveryReservesWhatIsHeld: a held fence goes from its run to the recovery under a
// new epoch, stays closed to everybody, and is freed by the recovery alone.
func TestARecoveryReservesWhatIsHeld(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	reserve := func() (tok fence.Token, err error) {
		err = w.tx(func(tx postgres.Tx) error {
			status, err := fence.Lock(ctx, tx, w.ws)
			if err == nil {
				tok, err = fence.Reserve(ctx, tx, status, "rcv-1", "run-1", "the recovery")
			}
			return err
		})
		return tok, err
	}
	run := w.mustAcquire(fence.Holder{Kind: fence.Run, ID: "run-1"})
	_, err := reserve()
	assert.True(t, fault.HasCode(err, "not_held"), "a run that goes on is left alone: %v", err)
	require.NoError(t, w.tx(func(tx postgres.Tx) error { return fence.HoldForRecovery(ctx, tx, run, "held") }))
	tok, err := reserve()
	require.NoError(t, err)
	assert.Equal(t, fence.Token{Workspace: w.ws, Epoch: run.Epoch + 1, Holder: fence.Holder{Kind: fence.Recovery, ID: "rcv-1", Name: "run-1"}}, tok)
	assert.True(t, fault.HasCode(w.guard(run), "stale_fence"))
	require.NoError(t, w.guard(tok))
	_, err = w.acquire(bob)
	assert.True(t, fault.Is(err, fault.RecoveryHeld), "%v", err)
	require.NoError(t, w.tx(func(tx postgres.Tx) error { return fence.Release(ctx, tx, tok) }))
	next := w.mustAcquire(bob)
	assert.Equal(t, tok.Epoch+1, next.Epoch)
}
