package accounts

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/clock"
	"github.com/holdfast-run/holdfast/fault"
)

// TestAMissingPasswordTakesAsLong: without the decoy there would be nothing to compute.
func TestAMissingPasswordTakesAsLong(t *testing.T) {
	h := newPasswordHasher()
	hash, err := h.hash(t.Context(), "correct horse battery")
	require.NoError(t, err)
	fastest := func(hash string) time.Duration {
		best := time.Hour
		for range 3 { // a busy machine only makes it longer
			began := clock.Now()
			match, err := h.matches(t.Context(), "wrong", hash)
			require.NoError(t, err)
			require.False(t, match)
			best = min(best, clock.Since(began))
		}
		return best
	}
	assert.Greater(t, fastest(""), fastest(hash)/10)
}

func TestHashesTakeTurns(t *testing.T) {
	h := newPasswordHasher()
	for range cap(h.slots) {
		_, err := h.enter(t.Context())
		require.NoError(t, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := h.matches(ctx, "x", "")
	assert.True(t, fault.Is(err, fault.Unavailable), "%v", err)
	assert.ErrorContains(t, err, "Try again in a minute")
}
