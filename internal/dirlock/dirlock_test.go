//go:build unix

package dirlock_test

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/internal/dirlock"
)

func TestTheSecondIsToldWhoHoldsTheFolder(t *testing.T) {
	dir := t.TempDir()
	first, err := dirlock.Acquire(dir)
	require.NoError(t, err)

	_, err = dirlock.Acquire(dir)
	assert.True(t, fault.HasCode(err, "folder_in_use"), "%v", err)
	assert.ErrorContains(t, err, "process "+strconv.Itoa(os.Getpid()))

	first.Release()
	second, err := dirlock.Acquire(dir)
	require.NoError(t, err)
	second.Release()
}

func TestAStaleLockFileDoesNotBlock(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "lock"), []byte("1234567\n"), 0o600))
	lock, err := dirlock.Acquire(dir)
	require.NoError(t, err)
	defer lock.Release()
	content, err := os.ReadFile(filepath.Join(dir, "lock"))
	require.NoError(t, err)
	assert.Equal(t, strconv.Itoa(os.Getpid())+"\n", string(content))
}
