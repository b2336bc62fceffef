package runner

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/runnerapi/wire"
)

// TestTheSessionIsRedeemed: the runner asks for a capability and redeems it, and it goes
// on with a server that answers the session at once.
// An accept that the server has taken binds the attempt to this runner, so an outage of two
// minutes must not end the asking for its answer, whatever the clock of the machine says.
func TestAnAcceptOutlastsAnOutage(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, offer := range []time.Duration{-time.Hour, 0, time.Minute, time.Hour} {
		assert.Greater(t, timeToAccept(now.Add(offer), now), max(offer, 0)+2*time.Minute, offer)
	}
}

func TestTheSessionIsRedeemed(t *testing.T) {
	t.Parallel()
	for name, old := range map[string]bool{"a server with bootstrap": false, "an older server": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFakeServer(t, wire.Manifest{}, map[string]string{"main.tf": cloudConfig})
			f.old = old
			cfg := f.config()
			cfg.Version = "1.2.3"
			end := start(t, cfg)
			require.Equal(t, wire.OutcomeFinished, f.await().Outcome, f.logText())
			end()
			assert.Equal(t, !old, strings.Contains(strings.Join(f.calls, " "), "/bootstrap"))
			assert.True(t, f.accepted.Bootstrap)
			self, err := os.Executable()
			require.NoError(t, err)
			digest, err := digestOf(self)
			require.NoError(t, err)
			release := wire.Release{Version: "1.2.3", Digest: digest}
			assert.Equal(t, release, f.polled.Release)
			assert.Equal(t, release, f.accepted.Release)
		})
	}
}
