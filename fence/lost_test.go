package fence_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/fence"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// TestALostRunTakesTheFenceFromAnybody: under an epoch past the one that was handed out
// and forgotten, so that its writer never passes again.
func TestALostRunTakesTheFenceFromAnybody(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	hold := func(lost ids.Run, seen int64) (epoch int64) {
		t.Helper()
		require.NoError(t, w.tx(func(tx postgres.Tx) error {
			status, err := fence.Lock(ctx, tx, w.ws)
			if err != nil {
				return err
			}
			epoch, err = fence.HoldLost(ctx, tx, status, lost, seen, "its session is unknown")
			return err
		}))
		return epoch
	}
	lostBy := func(lost ids.Run) (found bool) {
		require.NoError(t, w.tx(func(tx postgres.Tx) error {
			workspace, is, err := fence.LostBy(ctx, tx, lost)
			found = is && workspace == w.ws
			return err
		}))
		return found
	}
	tok := w.mustAcquire(ada)
	assert.False(t, lostBy("run-9"))
	assert.EqualValues(t, 42, hold("run-9", 41))
	assert.True(t, lostBy("run-9"))
	assert.True(t, fault.HasCode(w.guard(tok), "stale_fence"))
	forgotten := fence.Token{Workspace: w.ws, Epoch: 41, Holder: fence.Holder{Kind: fence.Run, ID: "run-9"}}
	assert.True(t, fault.HasCode(w.guard(forgotten), "stale_fence"))
	_, err := w.acquire(bob)
	require.True(t, fault.Is(err, fault.RecoveryHeld), "%v", err)
	assert.ErrorContains(t, err, "run-9")
	assert.EqualValues(t, 43, hold("run-9", 7), "it never falls")
}
