package postgres_test

import (
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/postgres"
)

type (
	word  string
	loud  string
	flag  bool
	inner struct {
		Small int16
		Word  word
	}
	everything struct {
		inner
		URL     string `db:"address"`
		Flag    flag
		Big     int64
		Count   int
		Maybe   *string
		MaybeNo *int
		Loud    loud
		Words   []word
		At      time.Time
		Ratio   float64
		Char    string
	}
)

// Scan makes loud say itself how it is read.
func (l *loud) Scan(src any) error {
	*l = loud(strings.ToUpper(src.(string)))
	return nil
}

const ofEverything = `select 7::int2 as small, 'a'::text as word, 'http://x'::varchar as address, true as flag, 9000000000 as big, 5::int4 as count, 'm'::text as maybe, null::int8 as maybe_no,
	'loud'::text as loud, array['x','y'] as words, timestamptz '2026-01-02 03:04:05.678Z' as at, 1.5::float8 as ratio, 'c'::bpchar as char`

// readBoth reads the rows of a statement as the driver does, and as this package does.
func readBoth[T any](t *testing.T, db *postgres.DB, sql string) (theirs, ours []T, theirErr, ourErr error) {
	t.Helper()
	require.NoError(t, postgres.InSnapshot(ctx, db, "test", func(tx postgres.Tx) error {
		rows, err := tx.Query(ctx, sql)
		require.NoError(t, err)
		theirs, theirErr = pgx.CollectRows(rows, pgx.RowToStructByName[T])
		return nil
	}))
	require.NoError(t, postgres.InSnapshot(ctx, db, "test", func(tx postgres.Tx) error {
		ours, ourErr = postgres.All[T](ctx, tx, sql, nil)
		return nil
	}))
	return theirs, ours, theirErr, ourErr
}

func TestRowsAreReadAsTheDriverReadsThem(t *testing.T) {
	db := table(t)
	sql := ofEverything + " union all " + strings.NewReplacer("'m'", "null", "null::int8", "3::int8", "'a'", "''", "true", "false", "9000000000", "-1").Replace(ofEverything)
	for range 2 { // with a new plan and with one that is known
		theirs, ours, theirErr, ourErr := readBoth[everything](t, db, sql)
		require.NoError(t, theirErr)
		require.NoError(t, ourErr)
		require.Len(t, ours, 2)
		assert.Equal(t, theirs, ours)
		assert.Equal(t, word("a"), ours[0].Word)
		assert.Equal(t, loud("LOUD"), ours[0].Loud)
	}
	turned, ours, _, err := readBoth[inner](t, db, "select 'b'::text as word, 1::int2 as small")
	require.NoError(t, err)
	assert.Equal(t, turned, ours)
	turned, ours, _, err = readBoth[inner](t, db, "select 1::int2 as small, 'b'::text as word")
	require.NoError(t, err)
	assert.Equal(t, turned, ours, "other columns are read by another plan")
}

func TestRowsAreRefusedAsTheDriverRefusesThem(t *testing.T) {
	db := table(t)
	for _, sql := range []string{
		"select 1::int2 as small, null::text as word", // nothing is no text
		"select null::int8 as small, 'a'::text as word",
		"select 40000::int4 as small, 'a'::text as word", // too large for the field
		"select 1::int2 as small",
		"select 1::int2 as small, 'a'::text as word, 2 as more",
		"select true as small, 'a'::text as word",
	} {
		for range 2 {
			_, _, theirErr, ourErr := readBoth[inner](t, db, sql)
			require.Error(t, theirErr, sql)
			require.Error(t, ourErr, sql)
			assert.Contains(t, ourErr.Error(), theirErr.Error(), sql)
		}
	}
}
