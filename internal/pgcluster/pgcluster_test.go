//go:build linux

package pgcluster_test

import (
	"context"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/internal/pgcluster"
)

func start(t *testing.T, opts pgcluster.Options) *pgcluster.Cluster {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	c, err := pgcluster.Start(ctx, opts)
	require.NoError(t, err)
	return c
}

func query(t *testing.T, address, sql string) string {
	t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, address)
	require.NoError(t, err)
	defer conn.Close(ctx)
	var answer string
	require.NoError(t, conn.QueryRow(ctx, sql).Scan(&answer))
	return answer
}

// One cluster's life: initdb is the slow part, so its stations share one folder.
func TestLifeOfACluster(t *testing.T) {
	opts := pgcluster.Options{Dir: t.TempDir(), Databases: []string{"holdfast"}}

	// A first start that was killed in the middle of initdb leaves this behind.
	halfDone := filepath.Join(opts.Dir, "data.init-123", "data")
	require.NoError(t, os.MkdirAll(halfDone, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(halfDone, "PG_VERSION"), []byte("15\n"), 0o600))

	c := start(t, opts)
	t.Run("a killed first start is repaired", func(t *testing.T) {
		assert.NoDirExists(t, filepath.Dir(halfDone))
		assert.Equal(t, "holdfast", query(t, c.URL("holdfast"), "select current_database()"))
	})
	t.Run("a wrong password is refused", func(t *testing.T) {
		u, err := url.Parse(c.URL("holdfast"))
		require.NoError(t, err)
		u.User = url.UserPassword("holdfast", "guess")
		_, err = pgx.Connect(context.Background(), u.String())
		var refused *pgconn.PgError
		require.ErrorAs(t, err, &refused)
		assert.Equal(t, "28P01", refused.Code)
	})
	t.Run("the password file is private", func(t *testing.T) {
		info, err := os.Stat(filepath.Join(opts.Dir, "password"))
		require.NoError(t, err)
		assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	})
	t.Run("a second owner is refused", func(t *testing.T) {
		_, err := pgcluster.Start(context.Background(), opts)
		assert.True(t, fault.HasCode(err, "folder_in_use"), "%v", err)
	})

	conn, err := pgx.Connect(context.Background(), c.URL("holdfast"))
	require.NoError(t, err)
	_, err = conn.Exec(context.Background(), "create table kept as select 'kept'::text as word")
	require.NoError(t, err, "and the connection stays open over the stop below")
	firstPort := c.Port()
	c.Stop()
	require.NoError(t, c.Err())

	t.Run("a stale pid file of another program does not block", func(t *testing.T) {
		other := exec.Command("sleep", "600")
		require.NoError(t, other.Start())
		defer func() { _ = other.Process.Kill(); _ = other.Wait() }()
		stale := strconv.Itoa(other.Process.Pid) + "\n" + filepath.Join(opts.Dir, "data") + "\n0\n"
		require.NoError(t, os.WriteFile(filepath.Join(opts.Dir, "data", "postmaster.pid"), []byte(stale), 0o600))

		opts.Port, opts.Durable, opts.Buffers = firstPort, true, 192<<20
		c = start(t, opts)
		assert.Equal(t, firstPort, c.Port())
		assert.Equal(t, "kept", query(t, c.URL("holdfast"), "select word from kept"), "the data is still there")
		assert.Equal(t, "on", query(t, c.URL("holdfast"), "show fsync"))
		assert.Equal(t, "192MB", query(t, c.URL("holdfast"), "show shared_buffers"))
	})
	t.Run("a killed server starts again on its folder", func(t *testing.T) {
		require.NoError(t, syscall.Kill(c.Pid(), syscall.SIGKILL))
		<-c.Done()
		require.Error(t, c.Err())
		c.Stop()
		require.Eventually(t, func() bool { // its server processes may take a moment to notice
			again, err := pgcluster.Start(context.Background(), opts)
			if err == nil {
				c = again
			}
			return err == nil
		}, time.Minute, 50*time.Millisecond)
		assert.Equal(t, "kept", query(t, c.URL("holdfast"), "select word from kept"))
	})
	c.Stop()

	t.Run("data of another version is refused by name", func(t *testing.T) {
		require.NoError(t, os.WriteFile(filepath.Join(opts.Dir, "data", "PG_VERSION"), []byte("9\n"), 0o600))
		_, err := pgcluster.Start(context.Background(), opts)
		assert.True(t, fault.HasCode(err, "postgres_version"), "%v", err)
		assert.ErrorContains(t, err, "Install PostgreSQL 9")
	})
}

func TestMissingProgramsAreNamed(t *testing.T) {
	_, err := pgcluster.Start(context.Background(), pgcluster.Options{Dir: t.TempDir(), BinDir: "/nonexistent"})
	assert.True(t, fault.HasCode(err, "postgres_missing"), "%v", err)
	assert.ErrorContains(t, err, "/nonexistent")
}

func TestAFailingStartTellsTheLog(t *testing.T) {
	bin := t.TempDir()
	for name, script := range map[string]string{
		"initdb":   "#!/bin/sh\necho the disk is full >&2\nexit 1\n",
		"postgres": "#!/bin/sh\necho 'postgres (PostgreSQL) 15.1'\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(bin, name), []byte(script), 0o755))
	}
	dir := t.TempDir()
	_, err := pgcluster.Start(context.Background(), pgcluster.Options{Dir: dir, BinDir: bin})
	require.ErrorContains(t, err, "the disk is full")
	assert.NoDirExists(t, filepath.Join(dir, "data"))
	entries, _ := filepath.Glob(filepath.Join(dir, "*"))
	assert.NotContains(t, strings.Join(entries, " "), "data.init", "nothing half done stays")
}
