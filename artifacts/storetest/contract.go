package storetest

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/artifacts"
	"github.com/holdfast-run/holdfast/fault"
)

// Contract checks that the store does what package artifacts builds on. It needs
// about 70 MB in the store, under keys that begin with "contract/".
func Contract(t *testing.T, store artifacts.ObjectStore) {
	t.Run("answers a ping", func(t *testing.T) { require.NoError(t, store.Ping(t.Context())) })
	t.Run("gives back what was put", func(t *testing.T) { givesBack(t, store) })
	t.Run("has no object nobody put", func(t *testing.T) {
		_, err := store.Get(t.Context(), "contract/absent")
		assert.True(t, fault.Is(err, fault.NotFound), "%v", err)
	})
	t.Run("keeps nothing of a body that broke off", func(t *testing.T) { keepsNothingBroken(t, store) })
	t.Run("stops when the caller does", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		assert.ErrorIs(t, store.Put(ctx, "contract/canceled", strings.NewReader("x")), context.Canceled)
		_, err := store.Get(ctx, "contract/canceled")
		assert.ErrorIs(t, err, context.Canceled)
	})
	t.Run("keeps a sidecar beside its object", func(t *testing.T) {
		for _, key := range []string{"contract/o/w/state/obj", "contract/o/w/state/obj.dek.1", "contract/o/organization-key.1"} {
			require.NoError(t, store.Put(t.Context(), key, strings.NewReader(key)))
		}
		assert.Equal(t, "contract/o/w/state/obj", string(read(t, store, "contract/o/w/state/obj")))
		assert.Equal(t, "contract/o/w/state/obj.dek.1", string(read(t, store, "contract/o/w/state/obj.dek.1")))
	})
	t.Run("removes an object and not its neighbours", func(t *testing.T) {
		for _, key := range []string{"contract/removed", "contract/removed.dek.1"} {
			require.NoError(t, store.Put(t.Context(), key, strings.NewReader(key)))
		}
		for range 2 { // the second time there is nothing to remove
			require.NoError(t, store.Delete(t.Context(), "contract/removed"))
			_, err := store.Get(t.Context(), "contract/removed")
			assert.True(t, fault.Is(err, fault.NotFound), "%v", err)
		}
		assert.Equal(t, "contract/removed.dek.1", string(read(t, store, "contract/removed.dek.1")))
	})
	t.Run("takes several at once", func(t *testing.T) {
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				key := fmt.Sprint("contract/parallel/", i)
				assert.NoError(t, store.Put(t.Context(), key, strings.NewReader(key)))
				r, err := store.Get(t.Context(), key)
				if assert.NoError(t, err) {
					content, err := io.ReadAll(r)
					assert.NoError(t, errors.Join(err, r.Close()))
					assert.Equal(t, key, string(content))
				}
			})
		}
		all.Wait()
	})
}

// sizes lie around one and two parts of a multipart upload.
var sizes = []int{0, 1, 8<<20 - 1, 8 << 20, 8<<20 + 1, 16 << 20, 20_000_000}

func givesBack(t *testing.T, store artifacts.ObjectStore) {
	for _, size := range sizes {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			content := make([]byte, size)
			_, _ = rand.Read(content)
			key := fmt.Sprint("contract/size-", size)
			// A body that gives few bytes at a time, and no hint of its size.
			require.NoError(t, store.Put(t.Context(), key, struct{ io.Reader }{iotest.HalfReader(bytes.NewReader(content))}))
			assert.True(t, bytes.Equal(content, read(t, store, key)))
		})
	}
}

func keepsNothingBroken(t *testing.T, store artifacts.ObjectStore) {
	// io.ErrUnexpectedEOF is how the body of an HTTP request says that its sender has gone.
	for name, broke := range map[string]error{"own error": errors.New("broke off"), "sender gone": io.ErrUnexpectedEOF} {
		for _, size := range []int{0, 5, 9 << 20} {
			t.Run(fmt.Sprint(name, " after ", size), func(t *testing.T) {
				key := fmt.Sprint("contract/broken-", name, size)
				body := io.MultiReader(bytes.NewReader(make([]byte, size)), iotest.ErrReader(broke))
				require.ErrorIs(t, store.Put(t.Context(), key, body), broke)
				_, err := store.Get(t.Context(), key)
				assert.True(t, fault.Is(err, fault.NotFound), "%v", err)
			})
		}
	}
}

func read(t *testing.T, store artifacts.ObjectStore, key string) []byte {
	t.Helper()
	r, err := store.Get(t.Context(), key)
	require.NoError(t, err)
	content, err := io.ReadAll(r)
	require.NoError(t, errors.Join(err, r.Close()))
	return content
}
