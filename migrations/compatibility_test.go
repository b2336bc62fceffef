package migrations_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/migrations"
	"github.com/holdfast-run/holdfast/postgres"
)

// A database that newer servers have brought further, in ways this program need not know.
func TestANewerSchemaIsRefusedOnlyWhenItSaysSo(t *testing.T) {
	address := empty(t)
	require.NoError(t, migrations.Up(ctx, address))
	conn := connect(t, address)
	defer func() { _ = conn.Close(ctx) }()
	db, err := postgres.Open(ctx, address)
	require.NoError(t, err)
	defer db.Close()
	require.NoError(t, migrations.Check(ctx, db))

	newer := migrations.Newest() + 1
	_, err = conn.Exec(ctx, "insert into goose_db_version (version_id, is_applied) values ($1, true)", newer)
	require.NoError(t, err)
	_, err = conn.Exec(ctx, "alter table runs add column brought_by_a_newer_server text")
	require.NoError(t, err)
	require.NoError(t, migrations.Up(ctx, address), "a server of this release starts beside newer ones")
	require.NoError(t, migrations.Check(ctx, db), "and is served, since nothing was taken away")

	_, err = conn.Exec(ctx, "update schema_compatibility set min_server = $1", newer)
	require.NoError(t, err)
	err = migrations.Check(ctx, db)
	assert.True(t, fault.HasCode(err, "server_too_old"), "%v", err)
	assert.ErrorContains(t, err, "Install the newer release")
}

func TestNewestIsTheLastOneApplied(t *testing.T) {
	address := empty(t)
	require.NoError(t, migrations.Up(ctx, address))
	conn := connect(t, address)
	defer func() { _ = conn.Close(ctx) }()
	done := applied(t, conn)
	assert.Equal(t, done[len(done)-1], migrations.Newest())
}
