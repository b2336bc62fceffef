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
	"github.com/holdfast-run/holdfast/artifacts/storetest"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/state"
)

// objects counts the rows of objects by status.
func (w world) objects() map[string]int {
	w.Helper()
	type count struct {
		Status string
		N      int
	}
	counts := map[string]int{}
	require.NoError(w, w.tx(func(tx postgres.Tx) error {
		rows, err := postgres.All[count](ctx, tx, "select status, count(*) as n from objects group by status", nil)
		for _, r := range rows {
			counts[r.Status] = r.N
		}
		return err
	}))
	return counts
}

// stoppingStore lets a server stand still at a place in an upload: until resume is
// closed it does no more than one that died there.
type stoppingStore struct {
	*storetest.Memory
	before, after   func(key string) bool
	stopped, resume chan struct{}
}

func (s *stoppingStore) Put(ctx context.Context, key string, body io.Reader) error {
	if s.before(key) {
		s.stop()
	}
	err := s.Memory.Put(ctx, key, body)
	if s.after(key) {
		s.stop()
	}
	return err
}

func (s *stoppingStore) stop() {
	s.stopped <- struct{}{}
	<-s.resume
}

// Wherever a server dies during an upload, the version stays announced and claimed, and
// the upload can be repeated on another. When the first was not dead but slow, its
// bytes are found to be the published ones.
func TestAServerDiesDuringAnUpload(t *testing.T) {
	t.Parallel()
	never := func(string) bool { return false }
	sidecar := func(key string) bool { return strings.Contains(key, ".dek.") }
	body := func(key string) bool { return strings.Contains(key, "/state/") && !sidecar(key) }
	for name, at := range map[string]struct{ before, after func(string) bool }{
		"before its bytes are stored":       {body, never},
		"after the body":                    {never, body},
		"before the sidecar":                {sidecar, never},
		"after the sidecar":                 {never, sidecar},
		"before the key that all are under": {func(key string) bool { return strings.Contains(key, "organization-key") }, never},
	} {
		t.Run(name, func(t *testing.T) {
			store := &stoppingStore{Memory: storetest.NewMemory(), before: at.before, after: at.after, stopped: make(chan struct{}), resume: make(chan struct{})}
			w := newWorldOn(t, store)
			other := world{T: t, db: w.db, ring: w.ring, Service: state.New(w.db, artifacts.New(w.db, store.Memory, w.ring)), ws: w.ws, ada: w.ada}
			w.lock(w.ada)
			content := file(1, lineage, strings.Repeat("x", 1<<20))
			v := w.begin(w.ada, 1, content)
			slow := make(chan error)
			go func() {
				_, err := w.Upload(ctx, v.ID, bytes.NewReader(content))
				slow <- err
			}()
			<-store.stopped

			require.Eventually(t, func() bool { return w.objects()["pending"] == 1 }, time.Minute, time.Millisecond, "the intent is there before the store has all of the bytes")
			assert.True(t, value[bool](w, "select raw_claimed_at is not null and status = 'pending' and object_id is null from state_versions where id = @id", postgres.Args{"id": v.ID}), "claimed (ST-17)")
			assert.Empty(t, w.current())

			published, err := other.Upload(ctx, v.ID, bytes.NewReader(content))
			require.NoError(t, err)
			assert.Equal(t, published.ID, w.current())
			assert.True(t, bytes.Equal(content, other.download(w.ada, v.ID)))
			assert.Equal(t, map[string]int{"pending": 1, "stored": 1}, w.objects())

			close(store.resume)
			require.NoError(t, <-slow)
			assert.Equal(t, map[string]int{"discarded": 1, "stored": 1}, w.objects())
			assert.True(t, bytes.Equal(content, other.download(w.ada, v.ID)))
			assert.Equal(t, 1, w.audited("state.published"))
		})
	}
}

// What cannot be committed leaves nothing that counts: neither a version nor its bytes.
func TestAPublicationThatCannotBeCommitted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.lock(w.ada)
	content := file(1, lineage, "x")
	v := w.begin(w.ada, 1, content)
	require.NoError(t, w.exec("alter table audit_entries add constraint refuses check (action <> 'state.published') not valid", nil))
	_, err := w.Upload(ctx, v.ID, bytes.NewReader(content))
	require.Error(t, err)
	assert.Empty(t, w.current())
	assert.Equal(t, state.Pending, w.version(v.ID).Status)
	assert.Equal(t, map[string]int{"discarded": 1}, w.objects())

	require.NoError(t, w.exec("alter table audit_entries drop constraint refuses", nil))
	_, err = w.Upload(ctx, v.ID, bytes.NewReader(content))
	require.NoError(t, err)
	assert.Equal(t, content, w.download(w.ada, w.current()))
}

func TestAStateOverTheLimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	small := state.New(w.db, artifacts.New(w.db, w.store, w.ring), state.UploadLimit(1000))
	w.lock(w.ada)
	fits, large := file(1, lineage, ""), file(1, lineage, strings.Repeat("x", 1000))
	v := w.begin(w.ada, 1, large)
	_, err := small.Upload(ctx, v.ID, bytes.NewReader(large))
	wantFault(t, err, fault.TooLarge, "artifact_too_large")
	assert.Contains(t, err.Error(), "limit of 1000 bytes")
	wantFault(t, small.UploadJSON(ctx, v.ID, bytes.NewReader(large)), fault.TooLarge, "artifact_too_large")
	assert.Equal(t, state.Pending, w.version(v.ID).Status)
	assert.Equal(t, map[string]int{"discarded": 2}, w.objects())

	v = w.begin(w.ada, 1, fits)
	_, err = small.Upload(ctx, v.ID, bytes.NewReader(fits))
	require.NoError(t, err)
	_, err = small.Upload(ctx, v.ID, io.MultiReader(bytes.NewReader(fits), endless{}))
	wantFault(t, err, fault.Conflict, "already_finalized")
}

// endless never ends.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }
