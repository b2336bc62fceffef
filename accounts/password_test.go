package accounts

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/fault"
)

// No test means to wait in vain for its turn, and on a slow machine many hashes take long.
func init() { queueFor = 10 * time.Minute }

// TestAMissingPasswordTakesAsLong: without the decoy there would be nothing to compute. What
// Argon2 computes with is memory, much of it, and unlike time that is the same on every machine.
// Not parallel: it measures the memory of the process.
func TestAMissingPasswordTakesAsLong(t *testing.T) {
	h := newPasswordHasher()
	hash, err := h.hash(t.Context(), "correct horse battery")
	require.NoError(t, err)
	_, err = h.decoy() // the first call makes it
	require.NoError(t, err)
	memory := func(hash string) uint64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		match, err := h.matches(t.Context(), "wrong", hash)
		runtime.ReadMemStats(&after)
		require.NoError(t, err)
		require.False(t, match)
		return after.TotalAlloc - before.TotalAlloc
	}
	real := memory(hash)
	assert.Greater(t, real, uint64(1<<20))
	assert.InEpsilon(t, real, memory(""), 0.1)
}

// The fifth waits, and is told that there are too many when its time is over.
func TestHashesTakeTurns(t *testing.T) {
	t.Parallel()
	h := newPasswordHasher()
	require.Equal(t, 4, cap(h.slots))
	var leave func()
	for range 4 {
		var err error
		leave, err = h.enter(t.Context())
		require.NoError(t, err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := h.matches(over, "x", "")
	assert.True(t, fault.Is(err, fault.Exhausted), "%v", err)
	assert.ErrorContains(t, err, "Try again in a minute")
	leave()
	_, err = h.matches(t.Context(), "x", "")
	assert.NoError(t, err, "and has its turn when another is done")
}
