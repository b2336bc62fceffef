package postgres_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/internal/testdb"
	"github.com/holdfast-run/holdfast/postgres"
)

func later(tx postgres.Tx, sql string, check func(int64) error) error {
	return postgres.Later(ctx, tx, sql, nil, check)
}

func TestStatementsThatArePutOffShareARoundTrip(t *testing.T) {
	t.Parallel()
	db := table(t)
	var rows int64
	var found []bool
	work := testdb.Watch(db, func() {
		require.NoError(t, postgres.InTx(ctx, db, "test", func(tx postgres.Tx) error {
			note := func(n int64) error {
				rows = n
				return nil
			}
			require.NoError(t, later(tx, "update things set n = 5", note))
			for _, id := range []int{1, 7} {
				err := postgres.LaterOne(ctx, tx, "select n from things where id = @id", postgres.Args{"id": id}, func(row struct{ N int }, is bool) error {
					found = append(found, is && row.N == 5)
					return nil
				})
				require.NoError(t, err)
			}
			assert.Empty(t, found, "nothing was asked yet")
			n, err := postgres.Value[int](ctx, tx, "select n from things where id = 2", nil)
			require.NoError(t, err)
			assert.Equal(t, 5, n, "in the order in which they were asked for")
			assert.Equal(t, int64(2), rows)
			assert.Equal(t, []bool{true, false}, found)
			return later(tx, "update things set n = 6 where id = 1", nil)
		}))
	})
	assert.Equal(t, 6, read(t, db, 1), "the commit brings the rest")
	assert.Equal(t, 3, work.Exchanges, "the statements, the rest, the commit: %q", work.Statements)
}

func TestStatementsThatArePutOffEndTheTransactionWhenTheyFail(t *testing.T) {
	t.Parallel()
	db := table(t)
	made := errors.New("made up")
	for name, try := range map[string]func(tx postgres.Tx) error{
		"a statement": func(tx postgres.Tx) error { return later(tx, "update things set n = -1", nil) },
		"a check": func(tx postgres.Tx) error {
			return later(tx, "update things set n = 9", func(int64) error { return made })
		},
		"a row that is asked for": func(tx postgres.Tx) error {
			return postgres.LaterOne(ctx, tx, "select n from things where id = 7", nil, func(_ struct{ N int }, found bool) error {
				if !found {
					return made
				}
				return nil
			})
		},
	} {
		is := func(err error) {
			t.Helper()
			if name == "a statement" {
				testdb.WantViolation(t, err, "23514", "things_n")
			} else {
				assert.ErrorIs(t, err, made, name)
			}
		}
		is(postgres.InTx(ctx, db, "test", func(tx postgres.Tx) error {
			require.NoError(t, add(tx, 1))
			return try(tx)
		}))
		is(postgres.InTx(ctx, db, "test", func(tx postgres.Tx) error {
			require.NoError(t, add(tx, 1))
			require.NoError(t, try(tx))
			err := add(tx, 2)
			is(err)
			is(add(tx, 2)) // nothing is done after it
			return nil     // and nobody who overlooks it can commit
		}))
		is(postgres.InTx(ctx, db, "test", func(tx postgres.Tx) error {
			require.NoError(t, postgres.ForgoFlush(ctx, tx))
			require.NoError(t, add(tx, 1))
			return try(tx) // judged before the commit is sent, which is no question afterwards
		}))
		assert.Equal(t, []int{0, 0}, []int{read(t, db, 1), read(t, db, 2)}, name)
	}
}

func TestStatementsThatArePutOffAreRunAgainAfterASerializationFailure(t *testing.T) {
	t.Parallel()
	db := table(t)
	tries := 0
	require.NoError(t, postgres.InTx(ctx, db, "test", func(tx postgres.Tx) error {
		if tries++; tries == 1 {
			return later(tx, "do $$ begin raise exception 'made up' using errcode = '40001'; end $$", nil)
		}
		return later(tx, "update things set n = n + 1 where id = 1", nil)
	}))
	assert.Equal(t, []int{2, 1}, []int{tries, read(t, db, 1)})
}

func TestATransactionThatDoesNothingAsksNothing(t *testing.T) {
	t.Parallel()
	db := table(t)
	work := testdb.Watch(db, func() {
		require.NoError(t, postgres.InTx(ctx, db, "test", func(postgres.Tx) error { return nil }))
	})
	assert.Zero(t, work.Exchanges)
}

// TestALostCommitThatForgoesTheFlushIsUnknown: it is not looked up.
func TestALostCommitThatForgoesTheFlushIsUnknown(t *testing.T) {
	t.Parallel()
	direct, through, p := lossy(t)
	p.set(dropAfter)
	err := postgres.InTx(ctx, through, "test", func(tx postgres.Tx) error {
		require.NoError(t, postgres.ForgoFlush(ctx, tx))
		return add(tx, 1)
	})
	assert.True(t, fault.Is(err, fault.Unknown), "%v", err)
	assert.Equal(t, 1, read(t, direct, 1))
}
