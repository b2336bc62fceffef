package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/internal/testdb"
	"github.com/holdfast-run/holdfast/postgres"
)

var ctx = context.Background()

// table makes a database with the table things (id, n), where (1, 0) and (2, 0) stand.
func table(t *testing.T) *postgres.DB {
	t.Helper()
	db := testdb.New(t)
	exec(t, db, "create table things (id int primary key, n int not null constraint things_n check (n >= 0))")
	exec(t, db, "insert into things values (1, 0), (2, 0)")
	return db
}

func exec(t *testing.T, db *postgres.DB, sql string) {
	t.Helper()
	require.NoError(t, postgres.InTx(ctx, db, "test", func(tx postgres.Tx) error {
		_, err := postgres.Exec(ctx, tx, sql, nil)
		return err
	}))
}

func read(t *testing.T, db *postgres.DB, id int) (n int) {
	t.Helper()
	require.NoError(t, postgres.InSnapshot(ctx, db, "test", func(tx postgres.Tx) (err error) {
		n, err = postgres.Value[int](ctx, tx, "select n from things where id = @id", postgres.Args{"id": id})
		return err
	}))
	return n
}

func add(tx postgres.Tx, id int) error {
	n, err := postgres.Exec(ctx, tx, "update things set n = n + 1 where id = @id", postgres.Args{"id": id})
	if err == nil && n != 1 {
		err = fmt.Errorf("%d rows", n)
	}
	return err
}

func fail(tx postgres.Tx, sqlstate string) error {
	_, err := postgres.Exec(ctx, tx, "do $$ begin raise exception 'made up' using errcode = '"+sqlstate+"'; end $$", nil)
	return err
}

func TestInTxCommitsOrStoresNothing(t *testing.T) {
	db := table(t)
	require.NoError(t, postgres.InTx(ctx, db, "test.add", func(tx postgres.Tx) error { return add(tx, 1) }))
	assert.Equal(t, 1, read(t, db, 1))

	for _, given := range []error{fault.New(fault.Locked, "locked", "Somebody holds it."), errors.New("unclassified")} {
		runs := 0
		err := postgres.InTx(ctx, db, "test.add", func(tx postgres.Tx) error {
			runs++
			require.NoError(t, add(tx, 1))
			return given
		})
		require.ErrorIs(t, err, given)
		assert.Equal(t, fault.KindOf(given), fault.KindOf(err))
		assert.ErrorContains(t, err, "test.add", "the error says what the transaction was for")
		assert.Equal(t, 1, runs, "the function's own errors are no reason to run it again")
	}
	assert.PanicsWithValue(t, "defect", func() {
		_ = postgres.InTx(ctx, db, "test", func(tx postgres.Tx) error { require.NoError(t, add(tx, 1)); panic("defect") })
	})
	assert.Equal(t, 1, read(t, db, 1))
}

func TestInTxIsReadCommitted(t *testing.T) {
	db := table(t)
	require.NoError(t, postgres.InTx(ctx, db, "test", func(tx postgres.Tx) error {
		level, err := postgres.Value[string](ctx, tx, "select current_setting('transaction_isolation')", nil)
		assert.Equal(t, "read committed", level)
		return err
	}))
}

func TestInTxRunsAgainAfterASerializationFailure(t *testing.T) {
	db := table(t)
	runs := 0
	require.NoError(t, postgres.InTx(ctx, db, "test", func(tx postgres.Tx) error {
		if err := add(tx, 1); err != nil {
			return err
		}
		if runs++; runs < 3 {
			return fmt.Errorf("wrapped: %w", fail(tx, "40001"))
		}
		return nil
	}))
	assert.Equal(t, 3, runs)
	assert.Equal(t, 1, read(t, db, 1), "the failed runs left nothing")

	runs = 0
	err := postgres.InTx(ctx, db, "test", func(tx postgres.Tx) error { runs++; return fail(tx, "40001") })
	assert.True(t, fault.Is(err, fault.Unavailable), "%v", err)
	assert.True(t, fault.HasCode(err, "database_busy"), "%v", err)
	assert.Equal(t, postgres.MaxAttempts, runs)

	runs = 0
	canceled, cancel := context.WithCancel(ctx)
	err = postgres.InTx(canceled, db, "test", func(tx postgres.Tx) error { runs++; err := fail(tx, "40P01"); cancel(); return err })
	require.ErrorIs(t, err, context.Canceled)
	assert.Equal(t, 1, runs, "nobody waits for the answer any more")
}

func TestInTxSurvivesADeadlock(t *testing.T) {
	db := table(t)
	var runs atomic.Int32
	var bothHold sync.WaitGroup
	bothHold.Add(2)
	transfer := func(from, to int) error {
		first := true
		return postgres.InTx(ctx, db, "test.transfer", func(tx postgres.Tx) error {
			runs.Add(1)
			if _, err := postgres.Exec(ctx, tx, "set local deadlock_timeout = '20ms'", nil); err != nil {
				return err
			}
			if err := add(tx, from); err != nil {
				return err
			}
			if first {
				first = false
				bothHold.Done()
				bothHold.Wait()
			}
			return add(tx, to)
		})
	}
	answers := make(chan error, 2)
	go func() { answers <- transfer(1, 2) }()
	go func() { answers <- transfer(2, 1) }()
	require.NoError(t, <-answers)
	require.NoError(t, <-answers)
	assert.Equal(t, []int{2, 2}, []int{read(t, db, 1), read(t, db, 2)})
	assert.Greater(t, runs.Load(), int32(2), "there was a deadlock")
}

// lossy makes the table and a second pool that reaches it through a proxy.
func lossy(t *testing.T) (direct, through *postgres.DB, p *proxy) {
	t.Helper()
	direct = table(t)
	p, address := newProxy(t)
	through, err := postgres.Open(ctx, address)
	require.NoError(t, err)
	t.Cleanup(through.Close)
	through.DecideWithin(time.Minute)
	return direct, through, p
}

func TestALostCommitIsLookedUp(t *testing.T) {
	for _, tt := range []struct {
		mode   atCommit
		kind   fault.Kind
		stored int
	}{
		{dropAfter, -1, 1},
		{fatal, -1, 1},
		{dropFirst, fault.Unavailable, 0},
	} {
		t.Run(string(tt.mode), func(t *testing.T) {
			t.Parallel()
			direct, through, p := lossy(t)
			p.set(tt.mode)
			runs := 0
			err := postgres.InTx(ctx, through, "test.add", func(tx postgres.Tx) error { runs++; return add(tx, 1) })
			p.set(pass)
			if tt.kind < 0 {
				require.NoError(t, err)
			} else {
				require.True(t, fault.Is(err, tt.kind), "%v", err)
				assert.ErrorContains(t, err, "nothing was stored")
			}
			assert.Equal(t, 1, runs, "it is never run again blindly")
			assert.Equal(t, tt.stored, read(t, direct, 1))
		})
	}
}

func TestALostCommitIsLookedUpForACallerWhoLeft(t *testing.T) {
	direct, through, _ := lossy(t)
	leaves, cancel := context.WithCancel(ctx)
	err := postgres.InTx(leaves, through, "test.add", func(tx postgres.Tx) error { defer cancel(); return add(tx, 1) })
	if err == nil {
		assert.Equal(t, 1, read(t, direct, 1))
	} else {
		assert.Equal(t, 0, read(t, direct, 1), "%v", err)
	}
}

func TestAnUndecidableCommitIsUnknown(t *testing.T) {
	for name, arrange := range map[string]func(*proxy){
		"the transaction is still in progress":    func(p *proxy) { p.set(freeze) },
		"no new connection can be made to ask on": func(p *proxy) { p.set(dropAfter); p.Listener.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, through, p := lossy(t)
			through.DecideWithin(700 * time.Millisecond)
			err := postgres.InTx(ctx, through, "test.add", func(tx postgres.Tx) error {
				arrange(p)
				return add(tx, 1)
			})
			assert.True(t, fault.Is(err, fault.Unknown), "%v", err)
			assert.ErrorContains(t, err, "did not say whether the change was stored")
		})
	}
}

func TestALostCommitOfATransactionThatWroteNothing(t *testing.T) {
	_, through, p := lossy(t)
	p.set(dropAfter)
	err := postgres.InTx(ctx, through, "test.read", func(tx postgres.Tx) error {
		_, err := postgres.Value[int](ctx, tx, "select n from things where id = 1", nil)
		return err
	})
	assert.True(t, fault.Is(err, fault.Unavailable), "%v", err)
}

func TestARefusedCommitIsARefusal(t *testing.T) {
	db := table(t)
	exec(t, db, "create table parts (thing int constraint parts_thing references things deferrable initially deferred)")
	err := postgres.InTx(ctx, db, "test", func(tx postgres.Tx) error {
		_, err := postgres.Exec(ctx, tx, "insert into parts values (3)", nil)
		require.NoError(t, err, "it is checked at the end only")
		return nil
	})
	testdb.WantViolation(t, err, "23503", "parts_thing")
}

func TestADatabaseThatIsDownIsUnavailable(t *testing.T) {
	_, through, p := lossy(t)
	require.NoError(t, through.Ping(ctx))
	update := func(tx postgres.Tx) error { return add(tx, 1) }
	for name, call := range map[string]func() error{
		"ping":        func() error { return through.Ping(ctx) },
		"transaction": func() error { return postgres.InTx(ctx, through, "test", update) },
		"snapshot":    func() error { return postgres.InSnapshot(ctx, through, "test", update) },
		"statement": func() error {
			return postgres.InOneStatement(ctx, through, "test", func(tx postgres.Tx) error {
				_, err := postgres.Value[int](ctx, tx, "select 1", nil)
				return err
			})
		},
	} {
		p.setDown(true)
		err := call()
		assert.True(t, fault.Is(err, fault.Unavailable), "%s: %v", name, err)
		p.setDown(false)
		assert.Eventually(t, func() bool { return through.Ping(ctx) == nil }, time.Minute, 5*time.Millisecond, "it is reached again")
	}

	t.Log("a connection lost in the middle")
	err := postgres.InTx(ctx, through, "test", func(tx postgres.Tx) error {
		require.NoError(t, add(tx, 1))
		p.dropAll()
		return add(tx, 1)
	})
	assert.True(t, fault.Is(err, fault.Unavailable), "%v", err)

	t.Log("a server that is told to stop, or has no connection left")
	for _, sqlstate := range []string{"57P01", "57P03", "53300", "08006"} {
		err := postgres.InTx(ctx, through, "test", func(tx postgres.Tx) error { return fail(tx, sqlstate) })
		assert.True(t, fault.Is(err, fault.Unavailable), "%s: %v", sqlstate, err)
	}
	err = postgres.InTx(ctx, through, "test", func(tx postgres.Tx) error {
		_, err := postgres.Value[bool](ctx, tx, "select pg_terminate_backend(pg_backend_pid())", nil)
		return err
	})
	assert.True(t, fault.Is(err, fault.Unavailable), "%v", err)

	t.Log("a primary that became read-only by a failover")
	err = postgres.InTx(ctx, through, "test", func(tx postgres.Tx) error {
		if _, err := postgres.Exec(ctx, tx, "set transaction read only", nil); err != nil {
			return err
		}
		return add(tx, 1)
	})
	assert.True(t, fault.Is(err, fault.Unavailable), "%v", err)

	t.Log("a wait that took too long")
	soon, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	err = postgres.InTx(soon, through, "test", func(tx postgres.Tx) error {
		_, err := tx.Exec(soon, "select pg_sleep(10)")
		return err
	})
	assert.True(t, fault.Is(err, fault.Unavailable), "%v", err)

	through.Close()
	err = through.Ping(ctx)
	assert.True(t, fault.Is(err, fault.Unavailable), "%v", err)
}

func TestARefusalOfAStatementIsNotUnavailable(t *testing.T) {
	db := table(t)
	err := postgres.InTx(ctx, db, "test", func(tx postgres.Tx) error {
		_, err := postgres.Exec(ctx, tx, "update things set n = -1 where id = @id", postgres.Args{"id": 1})
		return err
	})
	testdb.WantViolation(t, err, "23514", "things_n")
	assert.Equal(t, fault.Internal, fault.KindOf(err))

	sqlstate, constraint := postgres.Violation(errors.New("something else"))
	assert.Empty(t, sqlstate+constraint)
}

func TestThePasswordIsInNoError(t *testing.T) {
	good, err := url.Parse(testdb.URL(t))
	require.NoError(t, err)
	wrong := *good
	wrong.User = url.UserPassword(good.User.Username(), "hunter2")
	nobody := *good
	nobody.User, nobody.Host = wrong.User, "127.0.0.1:1"
	for name, address := range map[string]string{
		"wrong password": wrong.String(),
		"nobody listens": nobody.String(),
		"no URL":         "postgres://u:hunter2@host:port with spaces/db",
		"broken escape":  "postgres://u:hunter2%zz@host/db",
		"broken option":  "postgres://u:hunter2@host/db?sslmode=bogus&password=hunter2",
		"broken words":   "host=h password=hunter2 port=x",
		"unclosed quote": "host=h password='hunter2",
	} {
		db, err := postgres.Open(ctx, address)
		if !assert.Error(t, err, name) {
			db.Close()
			continue
		}
		assert.NotContains(t, everyText(err), "hunter2", name)
		assert.Equal(t, name == "nobody listens", fault.Is(err, fault.Unavailable), "%s: %v", name, err)
	}
}

// everyText gives the texts of the whole chain, as a log would.
func everyText(err error) string {
	var b strings.Builder
	for ; err != nil; err = errors.Unwrap(err) {
		fmt.Fprintf(&b, "%v %+v %#v\n", err, err, err)
	}
	return b.String()
}

func TestReadingRows(t *testing.T) {
	db := table(t)
	type thing struct{ ID, N int }
	require.NoError(t, postgres.InSnapshot(ctx, db, "test", func(tx postgres.Tx) error {
		one, err := postgres.One[thing](ctx, tx, "select id, n from things where id = @id", postgres.Args{"id": 2})
		require.NoError(t, err)
		assert.Equal(t, thing{ID: 2}, one)
		all, err := postgres.All[thing](ctx, tx, "select id, n from things order by id", nil)
		require.NoError(t, err)
		assert.Equal(t, []thing{{ID: 1}, {ID: 2}}, all)
		values, err := postgres.Values[int](ctx, tx, "select id from things order by id", nil)
		require.NoError(t, err)
		assert.Equal(t, []int{1, 2}, values)

		_, err = postgres.One[thing](ctx, tx, "select id, n from things where id = 3", nil)
		assert.True(t, postgres.NoRow(err), "%v", err)
		_, err = postgres.Value[int](ctx, tx, "select id from things where id = 3", nil)
		assert.True(t, postgres.NoRow(err), "%v", err)
		_, err = postgres.Value[int](ctx, tx, "select id from things", nil)
		assert.Error(t, err, "two rows are not one")
		assert.False(t, postgres.NoRow(err))
		_, err = postgres.One[thing](ctx, tx, "select id, n, 1 as more from things where id = 1", nil)
		assert.Error(t, err, "a column without a field")
		return nil
	}))
}

func TestPrepareChecksWithoutRunning(t *testing.T) {
	db := table(t)
	require.NoError(t, postgres.Prepare(ctx, db, "add", "update things set n = n + @by where id = @id"))
	assert.Equal(t, 0, read(t, db, 1))
	assert.Error(t, postgres.Prepare(ctx, db, "gone", "select n from thingies"))
	assert.Error(t, postgres.Prepare(ctx, db, "type", "select n from things where id = 'a'::uuid"))
}

// What suits our statements is set for each connection, and an operator's own word counts more.
func TestSettingsOfAConnection(t *testing.T) {
	t.Parallel()
	show := func(db *postgres.DB, setting string) (value string) {
		require.NoError(t, postgres.InTx(ctx, db, "test", func(tx postgres.Tx) (err error) {
			value, err = postgres.Value[string](ctx, tx, "show "+setting, nil)
			return err
		}))
		return value
	}
	db := testdb.New(t)
	for setting, want := range map[string]string{"jit": "off", "max_parallel_workers_per_gather": "0", "random_page_cost": "1.1", "work_mem": "16MB", "hash_mem_multiplier": "8"} {
		assert.Equal(t, want, show(db, setting), setting)
	}
	own, err := postgres.Open(ctx, testdb.URL(t)+"&work_mem=5MB")
	require.NoError(t, err)
	defer own.Close()
	assert.Equal(t, "5MB", show(own, "work_mem"))
}

func TestStatementsAreCounted(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	ctx, counted := postgres.CountStatements(t.Context())
	require.NoError(t, postgres.InTx(ctx, db, "test", func(tx postgres.Tx) error {
		_, err := tx.Exec(ctx, "select 1")
		return err
	}))
	assert.Equal(t, 4, counted.Sent(), "begin, the statement, the id by which a lost commit is looked up, commit")
	require.NoError(t, postgres.InSnapshot(ctx, db, "test", func(tx postgres.Tx) error {
		for range 2 {
			if _, err := tx.Exec(ctx, "select 1"); err != nil {
				return err
			}
		}
		return nil
	}))
	assert.Equal(t, 8, counted.Sent(), "a snapshot begins together with its first statement")
	require.NoError(t, postgres.InTx(t.Context(), db, "test", func(tx postgres.Tx) error {
		_, err := tx.Exec(t.Context(), "select 1")
		return err
	}))
	assert.Equal(t, 8, counted.Sent(), "others' do not count")
}
