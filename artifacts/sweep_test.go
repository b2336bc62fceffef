package artifacts_test

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/artifacts"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// age moves an instant of an object's row into the past.
func (f *fixture) age(t *testing.T, id ids.Object, column string, by time.Duration) {
	t.Helper()
	f.exec(t, "update objects set "+column+" = "+column+" - make_interval(secs => @seconds::double precision) where id = @id",
		postgres.Args{"id": id, "seconds": by.Seconds()})
}

func (f *fixture) exec(t *testing.T, sql string, args postgres.Args) {
	t.Helper()
	require.NoError(t, f.tx(t, func(tx postgres.Tx) error {
		n, err := postgres.Exec(t.Context(), tx, sql, args)
		assert.EqualValues(t, 1, n)
		return err
	}))
}

func (f *fixture) discard(t *testing.T, id ids.Object) {
	t.Helper()
	require.NoError(t, f.tx(t, func(tx postgres.Tx) error { return f.Discard(t.Context(), tx, f.org, id) }))
}

// keysOf gives the keys in the store that belong to the object.
func (f *fixture) keysOf(id ids.Object) (keys []string) {
	for _, key := range f.store.Keys() {
		if strings.Contains(key, string(id)) {
			keys = append(keys, key)
		}
	}
	return keys
}

func TestSweepRemovesOnlyWhatItsRowCallsDiscardedLongAgo(t *testing.T) {
	f := newFixture(t)
	put := func() ids.Object { return f.put(t, f.spec(artifacts.KindState), "bytes").ID }
	counts, fresh, old := put(), put(), put()
	f.age(t, counts, "stored_at", 90*24*time.Hour)
	f.discard(t, fresh)
	f.age(t, fresh, "discarded_at", 29*24*time.Hour)
	f.discard(t, old)
	f.age(t, old, "discarded_at", 31*24*time.Hour)
	orphan := string(f.org) + "/ws-nobody/state/obj-nobody" // of a database that was lost
	f.store.Replace(orphan, []byte("the newest state"))

	removed, err := f.Sweep(t.Context())
	require.NoError(t, err)
	assert.Equal(t, 1, removed)
	assert.Len(t, f.keysOf(counts), 2)
	assert.Len(t, f.keysOf(fresh), 2)
	assert.Empty(t, f.keysOf(old), "body and sidecar")
	assert.NotNil(t, f.store.Bytes(orphan))
	_, err = f.read(t, f.org, counts)
	assert.NoError(t, err)
	assert.Equal(t, map[string]int{"stored": 1, "discarded": 2}, f.statuses(t), "the row stays")

	removed, err = f.Sweep(t.Context())
	require.NoError(t, err)
	assert.Zero(t, removed, "it is done")
}

func TestSweepRepeatsWhatTheStoreRefused(t *testing.T) {
	f := newFixture(t)
	o := f.put(t, f.spec(artifacts.KindState), "bytes")
	f.discard(t, o.ID)
	f.age(t, o.ID, "discarded_at", 31*24*time.Hour)
	f.store.SetDown(true)
	_, err := f.Sweep(t.Context())
	assert.True(t, fault.Is(err, fault.Unavailable), "%v", err)
	f.store.SetDown(false)
	removed, err := f.Sweep(t.Context())
	require.NoError(t, err)
	assert.Equal(t, 1, removed)
	assert.Empty(t, f.keysOf(o.ID))
}

// A server that went down during an upload leaves a pending row. A day later it is
// given up, and an upload that comes back even then is refused.
func TestSweepGivesUpForgottenUploads(t *testing.T) {
	f := newFixture(t)
	var stays, forgotten artifacts.Intent
	require.NoError(t, f.tx(t, func(tx postgres.Tx) (err error) {
		if stays, err = f.Intend(t.Context(), tx, f.spec(artifacts.KindState)); err != nil {
			return err
		}
		forgotten, err = f.Intend(t.Context(), tx, f.spec(artifacts.KindState))
		return err
	}))
	finish := func(in artifacts.Intent, before func(artifacts.Object)) error {
		o, err := f.Store(t.Context(), in, strings.NewReader("bytes"), 0, io.Discard)
		require.NoError(t, err)
		before(o)
		_, err = f.Sweep(t.Context())
		require.NoError(t, err)
		return f.tx(t, func(tx postgres.Tx) error { return f.Confirm(t.Context(), tx, f.org, o) })
	}
	require.NoError(t, finish(stays, func(o artifacts.Object) { f.age(t, o.ID, "created_at", 23*time.Hour) }))
	err := finish(forgotten, func(o artifacts.Object) { f.age(t, o.ID, "created_at", 25*time.Hour) })
	assert.True(t, fault.HasCode(err, "object_not_pending"), "%v", err)
	assert.Equal(t, map[string]int{"stored": 1, "discarded": 1}, f.statuses(t))
}

func TestSweepEveryEndsWithItsContext(t *testing.T) {
	f := newFixture(t)
	o := f.put(t, f.spec(artifacts.KindState), "bytes")
	f.discard(t, o.ID)
	f.age(t, o.ID, "discarded_at", 31*24*time.Hour)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f.SweepEvery(ctx, time.Hour)
	}()
	assert.Eventually(t, func() bool { return len(f.keysOf(o.ID)) == 0 }, time.Minute, 5*time.Millisecond, "it sweeps at once")
	stop()
	<-ended
}
