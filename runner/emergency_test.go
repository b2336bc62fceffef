package runner

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/runnerapi/wire"
)

func (f *fakeServer) handedOver() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string{}, f.emergency...)
}

// refuseState lets no state be published.
func refuseState(s *fakeServer) {
	s.override = func(w http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, "/state-versions") {
			w.WriteHeader(http.StatusConflict)
			return true
		}
		return false
	}
}

// What tofu could not publish is with the server before the report says that there is
// something; the capability is nowhere afterwards.
func TestAnErroredStateIsHandedOver(t *testing.T) {
	t.Parallel()
	f, cfg := applyOf(t, wire.Manifest{}, map[string]string{"main.tf": cloudConfig}, refuseState)
	done := f.await()
	assert.True(t, done.ErroredState)
	kept, err := os.ReadFile(filepath.Join(cfg.Dir, "errored", "att-2.tfstate"))
	require.NoError(t, err)
	assert.Equal(t, []string{string(kept)}, f.handedOver())
	assert.Contains(t, f.logText(), "The server has it, too")
	f.mu.Lock()
	defer f.mu.Unlock()
	var order []string
	for _, call := range f.calls {
		if strings.HasSuffix(call, "/emergency-state") || strings.HasSuffix(call, "/done") {
			order = append(order, call[strings.LastIndex(call, "/")+1:])
		}
	}
	assert.Equal(t, []string{"emergency-state", "done"}, order)
	assert.NoFileExists(t, filepath.Join(cfg.Dir, "errored", "att-2"+emergencySuffix))
}

// A refusal is final, and keeps neither the report nor the file from its way.
func TestARefusedEmergencyStateIsKept(t *testing.T) {
	t.Parallel()
	f, cfg := applyOf(t, wire.Manifest{}, map[string]string{"main.tf": cloudConfig}, func(s *fakeServer) {
		refuseState(s)
		states := s.override
		s.override = func(w http.ResponseWriter, r *http.Request) bool {
			if strings.HasSuffix(r.URL.Path, "/emergency-state") {
				problem(w, 401, "capability_expired", "too late")
				return true
			}
			return states(w, r)
		}
	})
	assert.True(t, f.await().ErroredState)
	assert.Empty(t, f.handedOver())
	assert.FileExists(t, filepath.Join(cfg.Dir, "errored", "att-2.tfstate"))
	assert.NoFileExists(t, filepath.Join(cfg.Dir, "errored", "att-2"+emergencySuffix))
}

// What a killed runner left is handed over by the next one in its folder, but nothing that
// came with the configuration.
func TestAKeptStateIsHandedOverLater(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	sandbox := sandbox{path: filepath.Join(dir, "attempts", "sbx-OLD")}
	for name, text := range map[string]string{"config/a/errored.tfstate": "of the configuration", "config/work/errored.tfstate": "precious", "config/work/" + overrideName: ""} {
		path := filepath.Join(sandbox.path, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	a := attempt{id: "att-9", sandbox: sandbox}
	a.session.EmergencyCapability, a.session.EmergencyExpiresAt = emergencyCapability, time.Now().Add(time.Hour)
	require.NoError(t, a.noteEmergency())
	kept, err := openFolder(dir)
	require.NoError(t, err)
	defer kept.release()
	notes, err := filepath.Glob(filepath.Join(dir, "errored", "*"+emergencySuffix))
	require.NoError(t, err)
	require.Len(t, notes, 1)
	info, err := os.Stat(notes[0])
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode())

	f := newFakeServer(t, wire.Manifest{}, nil)
	srv, err := newServer(f.web.URL, f.config().CAFile)
	require.NoError(t, err)
	r := &runner{server: srv, dir: kept}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { r.handOverKept(ctx); close(ended) }()
	require.Eventually(t, func() bool { _, err := os.Stat(notes[0]); return err != nil }, patience, 10*time.Millisecond)
	stop()
	<-ended
	assert.Equal(t, []string{"precious"}, f.handedOver())
	text, err := os.ReadFile(filepath.Join(dir, "errored", "sbx-OLD.tfstate"))
	require.NoError(t, err)
	assert.Equal(t, "precious", string(text), "the file stays")
}
