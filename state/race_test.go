package state_test

import (
	"bytes"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/fence"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/state"
)

// attempt announces and uploads, and gives the first refusal.
func (w world) attempt(serial int64, content []byte) (state.Version, error) {
	v, _, err := w.Begin(ctx, w.ada, w.ws, announce(serial, lineage, content))
	if err != nil {
		return v, err
	}
	return w.Upload(ctx, v.ID, bytes.NewReader(content))
}

// race lets n writers publish one serial at once and gives the winner's bytes and
// the version; it demands exactly one winner, and a Conflict for each other.
func (w world) race(n int, serial int64) ([]byte, ids.StateVersion) {
	w.Helper()
	type result struct {
		state.Version
		error
	}
	contents, results := make([][]byte, n), make([]result, n)
	start := make(chan struct{})
	var all sync.WaitGroup
	for i := range n {
		contents[i] = fmt.Appendf(nil, `{"version":4,"serial":%d,"lineage":%q,"outputs":{},"resources":[],"writer":%d}`, serial, lineage, i)
		all.Go(func() {
			<-start
			v, err := w.attempt(serial, contents[i])
			results[i] = result{v, err}
		})
	}
	close(start)
	all.Wait()
	winner := -1
	for i, r := range results {
		if r.error == nil {
			require.Equal(w, -1, winner, "serial %d: two winners", serial)
			winner = i
			continue
		}
		require.Truef(w, fault.Is(r.error, fault.Conflict) && (fault.HasCode(r.error, "stale_serial") || fault.HasCode(r.error, "state_moved")), "serial %d: %v", serial, r.error)
	}
	require.NotEqual(w, -1, winner, "serial %d: nobody won", serial)
	require.Equal(w, results[winner].ID, w.current(), "serial %d", serial)
	return contents[winner], results[winner].ID
}

// Show 4: two writers of one serial, a thousand times.
func TestTwoWritersOfOneSerial(t *testing.T) {
	t.Parallel()
	rounds := int64(1000)
	if testing.Short() {
		rounds = 50
	}
	w := newWorld(t)
	w.lock(w.ada)
	for serial := range rounds {
		content, id := w.race(2, serial)
		require.Equal(t, content, w.download(w.ada, id))
	}
	assert.Equal(t, int(rounds), value[int](w, "select count(*) from state_versions where status = 'finalized'", nil))
	assert.Equal(t, int(rounds), value[int](w, "select count(distinct serial) from state_versions where status = 'finalized'", nil))
}

func TestTwentyPublishersOfOneSerial(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.lock(w.ada)
	for serial := range int64(5) {
		content, id := w.race(20, serial)
		assert.Equal(t, content, w.download(w.ada, id))
	}
	assert.Equal(t, 5, value[int](w, "select count(*) from state_versions where status = 'finalized'", nil))
}

// The same create and the same bytes twice at once are one version.
func TestTwoRequestsForOneVersion(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.lock(w.ada)
	for serial := range int64(20) {
		content := file(serial, lineage, "same")
		var published [2]state.Version
		var all sync.WaitGroup
		for i := range published {
			all.Go(func() {
				v, err := w.attempt(serial, content)
				assert.NoError(t, err)
				published[i] = v
			})
		}
		all.Wait()
		assert.Equal(t, published[0], published[1])
		assert.Equal(t, published[0].ID, w.current())
	}
	assert.Equal(t, 20, w.audited("state.published"))
}

// A writer that loses its lock while its bytes arrive is refused at their end.
func TestForceUnlockInTheMiddleOfAnUpload(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.lock(w.ada)
	first := w.publish(w.ada, 1, file(1, lineage, "a"))
	content := file(2, lineage, "slow")
	v := w.begin(w.ada, 2, content)
	pr, pw := io.Pipe()
	refused := make(chan error)
	go func() {
		_, err := w.Upload(ctx, v.ID, pr)
		refused <- err
	}()
	_, err := pw.Write(content[:100])
	require.NoError(t, err)
	w.forceUnlock()
	w.lock(w.bob)
	next := w.publish(w.bob, 2, file(2, lineage, "of the next holder"))
	_, err = pw.Write(content[100:])
	require.NoError(t, err)
	require.NoError(t, pw.Close())
	wantFault(t, <-refused, fault.Conflict, "stale_fence")
	w.wantEvidence(v.ID, "stale_fence", content)
	assert.Equal(t, next.ID, w.current())
	assert.Equal(t, first.ID, next.Base)
}

// A force-unlock that has begun, and not yet committed, is waited for: the upload
// decides by what comes of it.
func TestAnUploadWaitsForAForceUnlock(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.lock(w.ada)
	content := file(1, lineage, "x")
	v := w.begin(w.ada, 1, content)
	refused := make(chan error, 1)
	require.NoError(t, w.tx(func(tx postgres.Tx) error {
		status, err := fence.Lock(ctx, tx, w.ws)
		require.NoError(t, err)
		_, err = fence.Revoke(ctx, tx, status)
		require.NoError(t, err)
		go func() {
			_, err := w.Upload(ctx, v.ID, bytes.NewReader(content))
			refused <- err
		}()
		require.Eventually(t, func() bool {
			waiting := value[int](w, "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'", nil)
			return waiting > 0 || len(refused) > 0
		}, time.Minute, 5*time.Millisecond)
		return nil
	}))
	wantFault(t, <-refused, fault.Conflict, "stale_fence")
	assert.Empty(t, w.current())
}
