package migrations_test

import (
	"context"
	"crypto/rand"
	"io/fs"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/pressly/goose/v3/lock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/internal/testdb"
	"github.com/holdfast-run/holdfast/migrations"
)

var ctx = context.Background()

// empty gives the address of a new database without any migration.
func empty(t *testing.T) string {
	t.Helper()
	address, err := url.Parse(testdb.URL(t))
	require.NoError(t, err)
	name := "empty_" + strings.ToLower(rand.Text()[:12])
	conn := connect(t, address.String())
	_, err = conn.Exec(ctx, "create database "+name)
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err := conn.Exec(ctx, "drop database "+name+" with (force)")
		assert.NoError(t, err)
		_ = conn.Close(ctx)
	})
	address.Path = "/" + name
	return address.String()
}

func connect(t *testing.T, address string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(ctx, address)
	require.NoError(t, err)
	return conn
}

func files(t *testing.T) []string {
	t.Helper()
	names, err := fs.Glob(migrations.Files, "*.sql")
	require.NoError(t, err)
	require.NotEmpty(t, names)
	return names
}

func applied(t *testing.T, conn *pgx.Conn) []int {
	t.Helper()
	rows, err := conn.Query(ctx, "select version_id::int from goose_db_version where version_id > 0 order by id")
	require.NoError(t, err)
	versions, err := pgx.CollectRows(rows, pgx.RowTo[int])
	require.NoError(t, err)
	return versions
}

func TestServersThatStartTogetherApplyEachFileOnce(t *testing.T) {
	address := empty(t)
	conn := connect(t, address)
	defer func() { _ = conn.Close(ctx) }()
	_, err := conn.Exec(ctx, "select pg_advisory_lock($1)", lock.DefaultLockID)
	require.NoError(t, err)
	answers := make(chan error, 4)
	for range cap(answers) {
		go func() { answers <- migrations.Up(ctx, address) }()
	}
	require.Eventually(t, func() bool {
		var waiting int
		err := conn.QueryRow(ctx, "select count(*) from pg_stat_activity where datname = current_database() and query like '%pg_try_advisory_lock%' and pid <> pg_backend_pid()").Scan(&waiting)
		return err == nil && waiting == cap(answers)
	}, time.Minute, 10*time.Millisecond, "all wait for the lock at the same time")
	_, err = conn.Exec(ctx, "select pg_advisory_unlock($1)", lock.DefaultLockID)
	require.NoError(t, err)
	for range cap(answers) {
		require.NoError(t, <-answers)
	}
	want := []int{}
	for _, name := range files(t) {
		number, _, _ := strings.Cut(name, "_")
		n, err := strconv.Atoi(number)
		require.NoError(t, err)
		want = append(want, n)
	}
	assert.Equal(t, want, applied(t, conn), "in order, none twice")

	t.Log("a later start finds nothing to do and harms nothing")
	_, err = conn.Exec(ctx, "insert into organizations (id, name) values ('org-1', 'acme')")
	require.NoError(t, err)
	require.NoError(t, migrations.Up(ctx, address))
	assert.Equal(t, want, applied(t, conn))
	var name string
	require.NoError(t, conn.QueryRow(ctx, "select name from organizations").Scan(&name))
	assert.Equal(t, "acme", name)
}

func TestThePasswordIsInNoError(t *testing.T) {
	for _, address := range []string{
		"postgres://u:hunter2@127.0.0.1:1/db", "postgres://u:hunter2@host:port with spaces/db", "postgres://u:hunter2%zz@host/db",
		"postgres://u:hunter2@host/db?sslmode=bogus", "host=h password='hunter2",
	} {
		err := migrations.Up(ctx, address)
		require.Error(t, err, address)
		assert.NotContains(t, err.Error(), "hunter2")
	}
}
