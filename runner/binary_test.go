package runner

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/runnerapi/wire"
)

// Each start of tofu is a good part of what a small run costs, and of how long it takes.
func TestHowOftenTofuIsStarted(t *testing.T) {
	t.Parallel()
	f := newFakeServer(t, wire.Manifest{}, map[string]string{"main.tf": cloudConfig})
	cfg := f.config()
	record := filepath.Join(t.TempDir(), "started")
	path := filepath.Join(t.TempDir(), "tofu")
	script := fmt.Sprintf("#!/bin/sh\necho \"$1\" >>'%s'\nexec '%s' \"$@\"\n", record, cfg.TofuPath)
	require.NoError(t, os.WriteFile(path, []byte(script), 0o700))
	cfg.TofuPath = path
	started := func() string {
		text, err := os.ReadFile(record)
		require.NoError(t, err)
		require.NoError(t, os.Remove(record))
		return strings.Join(strings.Fields(string(text)), " ")
	}
	start(t, cfg)
	require.Equal(t, wire.OutcomeFinished, f.await().Outcome, f.logText())
	assert.Equal(t, "version plan init plan show providers", started(), "the first two for the runner itself")
	f.next("plan")
	require.Equal(t, wire.OutcomeFinished, f.await().Outcome, f.logText())
	assert.Equal(t, "init plan show providers", started())
	assert.NotContains(t, f.logText(), "provider_selections", "of `version -json`")
}

// A tofu is what it was as long as its bytes are, whoever has touched the file.
func TestATofuThatWasChanged(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tofu")
	require.NoError(t, os.WriteFile(path, []byte("one"), 0o700))
	assert.Zero(t, stampOf(path), "another change within the same tick would not show")
	digest, err := digestOf(path)
	require.NoError(t, err)
	b := binary{path: path, digest: digest}
	assert.True(t, b.unchanged())
	if stampOf(testTofu(t).path) != (stamp{}) { // not on every system
		require.Eventually(t, func() bool { b.stamp = stampOf(path); return b.stamp != stamp{} }, patience, 50*time.Millisecond)
		unread := b
		unread.digest = "what no file has"
		assert.True(t, unread.unchanged(), "the file is not read")
	}
	before, err := os.Stat(path)
	require.NoError(t, err)
	require.NoError(t, os.Chtimes(path, time.Now(), time.Now()))
	assert.True(t, b.unchanged())
	require.NoError(t, os.WriteFile(path, []byte("two"), 0o700))
	require.NoError(t, os.Chtimes(path, before.ModTime(), before.ModTime()))
	assert.False(t, b.unchanged(), "as long, and as old by what it says itself")
	require.NoError(t, os.Remove(path))
	assert.False(t, b.unchanged())
}
