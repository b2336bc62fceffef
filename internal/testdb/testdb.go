package testdb

import (
	"context"
	"crypto/rand"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/postgres"
)

const patience = 2 * time.Minute // for one step of preparation on a loaded machine

var databases struct {
	sync.Mutex
	urls map[testing.TB]string
}

// New opens the test's own database: all migrations applied, no rows but the seeded ones.
// It is closed and dropped when the test ends.
func New(t testing.TB) *postgres.DB {
	t.Helper()
	address := URL(t)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	statements := &recorder{}
	db, err := postgres.Open(ctx, address, postgres.Watched(statements.seen))
	require.NoError(t, err, "open the test database")
	watched.Store(db, statements)
	t.Cleanup(func() {
		watched.Delete(db)
		db.Close()
	})
	return db
}

// URL gives the address of the test's own database, the same at every call in one test.
// A subtest has another one.
func URL(t testing.TB) string {
	t.Helper()
	databases.Lock()
	address := databases.urls[t]
	databases.Unlock()
	if address != "" {
		return address
	}
	address = clone(t)
	databases.Lock()
	defer databases.Unlock()
	if databases.urls == nil {
		databases.urls = map[testing.TB]string{}
	}
	databases.urls[t] = address
	return address
}

// WantViolation demands that the database refused a statement with this SQLSTATE by this
// constraint. Both are named, so that a test cannot pass by another refusal.
func WantViolation(t testing.TB, err error, sqlstate, constraint string) {
	t.Helper()
	require.Error(t, err, "the database accepted what constraint %s should refuse", constraint)
	gotState, gotConstraint := postgres.Violation(err)
	assert.Equal(t, sqlstate+" "+constraint, gotState+" "+gotConstraint, "the database's answer: %v", err)
}

// clone makes a database from the template and drops it when the test ends.
func clone(t testing.TB) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	server, err := serverURL()
	require.NoError(t, err, "start PostgreSQL for the tests")
	template, err := ensureTemplate(ctx, server)
	require.NoError(t, err, "prepare the template database")

	name := "test_" + strings.ToLower(rand.Text()[:16])
	// Copying files is several times quicker than the default, which logs each page: nothing here must survive a crash.
	require.NoError(t, administrate(ctx, server, "create database "+name+" template "+template+" strategy file_copy"))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		assert.NoError(t, administrate(ctx, server, "drop database if exists "+name+" with (force)"))
		databases.Lock()
		defer databases.Unlock()
		delete(databases.urls, t)
	})
	return withDatabase(server, name)
}

func withDatabase(server, name string) string {
	u, err := url.Parse(server)
	if err != nil {
		panic("testdb: the server's address is no URL") // not printed: it holds a password
	}
	u.Path = "/" + name
	// A loaded machine may take long to answer, which is nothing that a test should fail for.
	query := u.Query()
	query.Set("connect_timeout", strconv.Itoa(int(patience.Seconds())))
	u.RawQuery = query.Encode()
	return u.String()
}
