package postgres_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/internal/testdb"
	"github.com/holdfast-run/holdfast/postgres"
)

func TestASnapshotSeesOneInstant(t *testing.T) {
	db := table(t)
	require.NoError(t, postgres.InSnapshot(ctx, db, "test", func(tx postgres.Tx) error {
		for range 2 {
			n, err := postgres.Value[int](ctx, tx, "select n from things where id = 1", nil)
			require.NoError(t, err)
			assert.Equal(t, 0, n)
			require.NoError(t, postgres.InTx(ctx, db, "test", func(tx postgres.Tx) error { return add(tx, 1) }))
		}
		return nil
	}))
	assert.Equal(t, 2, read(t, db, 1))
}

// A statement that is planned anew leaves no plan behind that later arguments would get, and
// may be the first of a snapshot.
func TestAStatementIsPlannedForItsArguments(t *testing.T) {
	db := table(t)
	sql := postgres.ParseQueries("-- name: Anew\n-- planned anew\nselect n from things where id = @id or @all::boolean").Get("Anew")
	require.NoError(t, postgres.InSnapshot(ctx, db, "test", func(tx postgres.Tx) error {
		for range 7 { // after five, PostgreSQL thinks of one plan for all
			n, err := postgres.Value[int](ctx, tx, sql, postgres.Args{"id": 1, "all": false})
			require.NoError(t, err)
			assert.Equal(t, 0, n)
		}
		kept, err := postgres.Value[int](ctx, tx, "select count(*) from pg_prepared_statements where statement like '-- Anew%'", nil)
		assert.Equal(t, 0, kept)
		return err
	}))
}

func TestASnapshotRefusesWrites(t *testing.T) {
	db := table(t)
	err := postgres.InSnapshot(ctx, db, "test.snapshot", func(tx postgres.Tx) error { return add(tx, 1) })
	sqlstate, _ := postgres.Violation(err)
	assert.Equal(t, "25006", sqlstate)
	assert.Equal(t, fault.Internal, fault.KindOf(err), "a defect is not answered with: try again")
	assert.ErrorContains(t, err, "test.snapshot")
	assert.Equal(t, 0, read(t, db, 1))

	own := fault.Missing("thing", "3")
	require.ErrorIs(t, postgres.InSnapshot(ctx, db, "test", func(postgres.Tx) error { return own }), own)
}

func TestASnapshotThatReadsNothingAsksNothing(t *testing.T) {
	_, through, p := lossy(t)
	p.setDown(true)
	assert.NoError(t, postgres.InSnapshot(ctx, through, "test", func(postgres.Tx) error { return nil }))
}

// However a snapshot ends, the next one gets the connection, and no transaction is open on it.
func TestASnapshotGivesItsConnectionBack(t *testing.T) {
	db, err := postgres.Open(ctx, testdb.URL(t)+"&pool_max_conns=1")
	require.NoError(t, err)
	defer db.Close()
	own := fault.Missing("thing", "3")
	backend := func() (pid int) {
		t.Helper()
		require.NoError(t, postgres.InOneStatement(ctx, db, "test", func(tx postgres.Tx) (err error) {
			pid, err = postgres.Value[int](ctx, tx, "select pg_backend_pid()", nil)
			return err
		}))
		return pid
	}
	first := backend()
	for name, fn := range map[string]func(tx postgres.Tx) error{
		"one statement": func(tx postgres.Tx) error { _, err := postgres.Value[int](ctx, tx, "select 1", nil); return err },
		"two statements": func(tx postgres.Tx) error {
			_, err := postgres.Value[int](ctx, tx, "select 1", nil)
			require.NoError(t, err)
			level, err := postgres.Value[string](ctx, tx, "select current_setting('transaction_isolation')", nil)
			assert.Equal(t, "repeatable read", level)
			return err
		},
		"its own error": func(tx postgres.Tx) error { _, _ = postgres.Value[int](ctx, tx, "select 1", nil); return own },
		"no row": func(tx postgres.Tx) error {
			_, err := postgres.Value[int](ctx, tx, "select 1 where false", nil)
			return err
		},
		"too many rows": func(tx postgres.Tx) error {
			_, err := postgres.Value[int](ctx, tx, "select generate_series(1, 1000)", nil)
			return err
		},
		"no such table": func(tx postgres.Tx) error {
			_, err := postgres.Value[int](ctx, tx, "select n from thingies", nil)
			return err
		},
		"a failing first": func(tx postgres.Tx) error {
			_, err := postgres.Value[int](ctx, tx, "select 1 / (@zero::int)", postgres.Args{"zero": 0})
			return err
		},
		"a failing second": func(tx postgres.Tx) error {
			_, _ = postgres.Value[int](ctx, tx, "select 1", nil)
			_, err := postgres.Value[int](ctx, tx, "select 1 / (@zero::int)", postgres.Args{"zero": 0})
			return err
		},
		"a write": func(tx postgres.Tx) error {
			_, err := postgres.Exec(ctx, tx, "create table things (id int)", nil)
			return err
		},
	} {
		err := postgres.InSnapshot(ctx, db, "test", fn)
		if name == "one statement" || name == "two statements" {
			assert.NoError(t, err, name)
		} else {
			assert.Error(t, err, name)
		}
		assert.Equal(t, first, backend(), name)
	}
	assert.PanicsWithValue(t, "defect", func() {
		_ = postgres.InSnapshot(ctx, db, "test", func(tx postgres.Tx) error { _, _ = postgres.Value[int](ctx, tx, "select 1", nil); panic("defect") })
	})
	assert.Equal(t, first, backend(), "a panic")
}

func TestAReadOfOneStatementIsOneAndReads(t *testing.T) {
	db := table(t)
	number := func(tx postgres.Tx, sql string) error { _, err := postgres.Value[int](ctx, tx, sql, nil); return err }
	for name, fn := range map[string]func(tx postgres.Tx) error{
		"a second": func(tx postgres.Tx) error {
			require.NoError(t, number(tx, "select n from things where id = 1"))
			return number(tx, "select n from things where id = 1")
		},
		"an update":       func(tx postgres.Tx) error { return add(tx, 1) },
		"update, as rows": func(tx postgres.Tx) error { return number(tx, "update things set n = n + 1 where id = 1 returning n") },
		"a lock":          func(tx postgres.Tx) error { return number(tx, "select n from things where id = 1 for update") },
		"behind comments": func(tx postgres.Tx) error {
			return number(tx, "-- Name\n-- select\nupdate things set n = 1 where id = 1 returning n")
		},
	} {
		err := postgres.InOneStatement(ctx, db, "test.read", fn)
		assert.ErrorContains(t, err, "test.read: a read of one statement", name)
		assert.Equal(t, fault.Internal, fault.KindOf(err), name)
	}
	assert.Equal(t, 0, read(t, db, 1))

	require.NoError(t, postgres.InOneStatement(ctx, db, "test", func(tx postgres.Tx) error {
		return number(tx, "-- Name\n-- what it is for\nselect n from things where id = 1")
	}))
	own := fault.Missing("thing", "3")
	require.ErrorIs(t, postgres.InOneStatement(ctx, db, "test", func(postgres.Tx) error { return own }), own)
	err := postgres.InOneStatement(ctx, db, "test", func(tx postgres.Tx) error { return number(tx, "select n from things where id = 3") })
	assert.True(t, postgres.NoRow(err), "%v", err)
}

func TestNamesAreArguments(t *testing.T) {
	db := table(t)
	type row struct {
		A, Again int
		Text     string
		Absent   *string
	}
	for _, n := range []int{1, 2} { // the second time the statement is known
		var got row
		require.NoError(t, postgres.InOneStatement(ctx, db, "test", func(tx postgres.Tx) (err error) {
			got, err = postgres.One[row](ctx, tx, "select @n::int as a, @n + @one::int as again, '@n' as text, @nothing::text as absent -- and @n", postgres.Args{"one": 1, "n": n})
			return err
		}))
		assert.Equal(t, row{A: n, Again: n + 1, Text: "@n"}, got)
	}
}
