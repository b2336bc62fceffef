package state_test

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/artifacts"
	"github.com/holdfast-run/holdfast/envelope"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/state"
)

// watchedBody tells when it was read to its end.
type watchedBody struct {
	io.Reader
	ended chan struct{}
}

func (b watchedBody) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if err == io.EOF {
		close(b.ended)
	}
	return n, err
}

// While the claim is being committed its bytes are received and sealed, but the store has no
// object before: neither one that no row tells of, nor one whose version seems to wait for its
// first byte (ST-17).
func TestTheStoreWaitsForTheClaim(t *testing.T) {
	t.Parallel()
	uploads := map[string]func(world, ids.StateVersion, io.Reader) error{
		"state": func(w world, id ids.StateVersion, body io.Reader) error {
			_, err := w.Upload(ctx, id, body)
			return err
		},
		"state-json": func(w world, id ids.StateVersion, body io.Reader) error { return w.UploadJSON(ctx, id, body) },
	}
	// begun gives an upload whose claim could be committed only after all of its bytes had come.
	begun := func(t *testing.T, kind string, before ...string) (w world, v state.Version, done chan error) {
		w = newWorld(t)
		w.lock(w.ada)
		content := file(1, lineage, strings.Repeat("x", 1<<20))
		v = w.begin(w.ada, 1, content)
		for _, sql := range before {
			require.NoError(t, w.exec(sql, nil))
		}
		done = make(chan error, 1)
		ended := make(chan struct{})
		require.NoError(t, w.tx(func(tx postgres.Tx) error {
			_, err := tx.Exec(ctx, "lock table objects in share mode") // nobody else writes a row
			require.NoError(t, err)
			go func() { done <- uploads[kind](w, v.ID, watchedBody{bytes.NewReader(content), ended}) }()
			<-ended // all of the body was read
			time.Sleep(50 * time.Millisecond)
			assert.Empty(t, done)
			assert.Empty(t, w.store.Keys(), "the object has no row yet")
			return nil
		}))
		return w, v, done
	}
	for kind := range uploads {
		t.Run(kind, func(t *testing.T) {
			w, _, done := begun(t, kind)
			require.NoError(t, <-done)
			assert.Contains(t, strings.Join(w.store.Keys(), "\n"), "/"+kind+"/")
		})
		t.Run(kind+" refused", func(t *testing.T) {
			w, v, done := begun(t, kind, "alter table objects add constraint refuses check (kind not in ('state', 'state-json')) not valid")
			require.Error(t, <-done)
			assert.Empty(t, w.store.Keys())
			assert.Equal(t, state.Pending, w.version(v.ID).Status)
		})
	}
}

// An upload that breaks off while its claim is being committed is claimed and given up none
// the less, also when its sender is gone: net/http ends the request of a body it cannot read.
func TestAnUploadBreaksOffBeforeItsClaimIsCommitted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.lock(w.ada)
	v := w.begin(w.ada, 1, file(1, lineage, "x"))
	done, ended := make(chan error, 1), make(chan struct{})
	require.NoError(t, w.tx(func(tx postgres.Tx) error {
		_, err := tx.Exec(ctx, "select 1 from organizations for update") // no row that refers to one is inserted
		require.NoError(t, err)
		go func() {
			request, cancel := context.WithCancel(ctx)
			_, err := w.Upload(request, v.ID, io.MultiReader(strings.NewReader(`{"version":4`), brokenOff{func() {
				cancel()
				close(ended)
			}}))
			done <- err
		}()
		<-ended
		time.Sleep(50 * time.Millisecond)
		assert.Empty(t, done)
		return nil
	}))
	require.ErrorIs(t, <-done, io.ErrUnexpectedEOF)
	assert.Equal(t, map[string]int{"discarded": 1}, w.objects())
	assert.True(t, value[bool](w, "select raw_claimed_at is not null from state_versions where id = @id", postgres.Args{"id": v.ID}))
}

// brokenOff is the end of a body whose connection is lost.
type brokenOff struct{ lost func() }

func (b brokenOff) Read([]byte) (int, error) {
	b.lost()
	return 0, io.ErrUnexpectedEOF
}

// panickingRing is a keyring with a defect.
type panickingRing struct{ envelope.Keyring }

func (panickingRing) Unwrap(context.Context, []byte, envelope.Wrapped) (envelope.Key, error) {
	panic("no key")
}

// A defect under the claim fails the upload, and not the server with all that it does for others:
// the claim runs beside its request.
func TestAClaimThatPanics(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.lock(w.ada)
	content := file(1, lineage, "x")
	v := w.begin(w.ada, 1, content)
	defective := state.New(w.db, artifacts.New(w.db, w.store, panickingRing{w.ring}))
	_, err := defective.Upload(ctx, v.ID, bytes.NewReader(content))
	require.ErrorContains(t, err, "panic: no key")
	assert.False(t, value[bool](w, "select raw_claimed_at is not null from state_versions where id = @id", postgres.Args{"id": v.ID}))
	_, err = w.Upload(ctx, v.ID, bytes.NewReader(content))
	require.NoError(t, err, "nothing is locked any more")
}
