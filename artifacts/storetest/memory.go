package storetest

import (
	"bytes"
	"context"
	"io"
	"maps"
	"slices"
	"sync"

	"github.com/holdfast-run/holdfast/fault"
)

// Memory is an object store in memory, whose content a test can look at and damage.
type Memory struct {
	mu      sync.Mutex
	objects map[string][]byte
	down    bool
}

// NewMemory makes an empty store.
func NewMemory() *Memory { return &Memory{objects: map[string][]byte{}} }

// SetDown makes every request fail as an unreachable store would, or work again.
func (m *Memory) SetDown(down bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.down = down
}

// Keys lists the keys in order.
func (m *Memory) Keys() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Sorted(maps.Keys(m.objects))
}

// Bytes gives a copy of what lies under key; nil when nothing does.
func (m *Memory) Bytes(key string) []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	return bytes.Clone(m.objects[key])
}

// Replace puts other bytes under key, as somebody with access to the store could;
// nil removes the object.
func (m *Memory) Replace(key string, content []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if content == nil {
		delete(m.objects, key)
		return
	}
	m.objects[key] = bytes.Clone(content)
}

// Put implements artifacts.ObjectStore.
func (m *Memory) Put(ctx context.Context, key string, body io.Reader) error {
	if err := m.Ping(ctx); err != nil {
		return err
	}
	content, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	if err := m.Ping(ctx); err != nil { // it may have gone down meanwhile
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.objects[key] = content
	return nil
}

// Get implements artifacts.ObjectStore.
func (m *Memory) Get(ctx context.Context, key string) (io.ReadCloser, error) {
	if err := m.Ping(ctx); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	content, ok := m.objects[key]
	if !ok {
		return nil, fault.New(fault.NotFound, "object_not_in_store", "The object store has no such object.")
	}
	return io.NopCloser(bytes.NewReader(content)), nil
}

// Delete implements artifacts.ObjectStore.
func (m *Memory) Delete(ctx context.Context, key string) error {
	if err := m.Ping(ctx); err != nil {
		return err
	}
	m.Replace(key, nil)
	return nil
}

// Ping implements artifacts.ObjectStore.
func (m *Memory) Ping(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.down {
		return fault.New(fault.Unavailable, "store_unavailable", "The object store does not answer.")
	}
	return ctx.Err()
}
