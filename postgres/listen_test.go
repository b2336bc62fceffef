package postgres_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/internal/testdb"
	"github.com/holdfast-run/holdfast/postgres"
)

func awaken(t *testing.T, wake <-chan struct{}, why string) {
	t.Helper()
	select {
	case <-wake:
	case <-time.After(time.Minute):
		require.Fail(t, "nobody was woken", why)
	}
}

func sleeps(t *testing.T, wake <-chan struct{}, why string) {
	t.Helper()
	select {
	case <-wake:
		require.Fail(t, "somebody was woken", why)
	default:
	}
}

// hasListener tells whether somebody listens on the last of the channels.
func hasListener(t *testing.T, db *postgres.DB) (yes bool) {
	t.Helper()
	require.NoError(t, postgres.InSnapshot(ctx, db, "test", func(tx postgres.Tx) (err error) {
		yes, err = postgres.Value[bool](ctx, tx, "select exists (select from pg_stat_activity where datname = current_database() and query = 'listen pears' and state = 'idle')", nil)
		return err
	}))
	return yes
}

func TestAListenerWakesThoseWhoWait(t *testing.T) {
	direct, through, p := lossy(t)
	listening, stop := context.WithCancel(ctx)
	defer stop()
	p.setDown(true) // until all wait
	l := postgres.Listen(listening, through, "apples", "pears")
	one, cancelOne := l.Wait("apples", "")
	defer cancelOne()
	two, cancelTwo := l.Wait("apples", "")
	pear, cancelPear := l.Wait("pears", "")
	defer cancelPear()
	p.setDown(false)
	for _, wake := range []<-chan struct{}{one, two, pear} {
		awaken(t, wake, "once when the connection stands: what came before was missed")
	}

	exec(t, direct, "select pg_notify('apples', '')")
	awaken(t, one, "a notification")
	awaken(t, two, "both are told")
	exec(t, direct, "select pg_notify('pears', '')")
	awaken(t, pear, "its own channel")
	sleeps(t, one, "another channel's notification")

	cox, cancelCox := l.Wait("apples", "cox")
	defer cancelCox()
	exec(t, direct, "select pg_notify('apples', 'braeburn')")
	awaken(t, one, "any payload")
	sleeps(t, cox, "another payload")
	exec(t, direct, "select pg_notify('apples', 'cox')")
	awaken(t, cox, "its payload")
	awaken(t, one, "any payload")
	awaken(t, two, "it was told of both")

	cancelTwo()
	exec(t, direct, "select pg_notify('apples', '')")
	awaken(t, one, "a notification")
	sleeps(t, two, "it has left")

	t.Log("the connection is lost; what is sent meanwhile must wake all the same")
	p.setDown(true)
	exec(t, direct, "select pg_notify('apples', 'nobody hears it')")
	sleeps(t, one, "the connection is lost")
	p.setDown(false)
	awaken(t, one, "the connection stands again")
	awaken(t, pear, "everybody is woken then")
	awaken(t, cox, "also who waits for one payload")
	exec(t, direct, "select pg_notify('pears', '')")
	awaken(t, pear, "and it listens")

	t.Log("the end")
	stop()
	assert.Eventually(t, func() bool { return !hasListener(t, direct) }, time.Minute, 20*time.Millisecond, "no connection stays behind")
}

// TestNotifyWakesAfterTheCommitAndOnlyThen: a transaction that is undone wakes nobody, and
// whoever is woken sees what was committed.
func TestNotifyWakesAfterTheCommitAndOnlyThen(t *testing.T) {
	db, through, p := lossy(t)
	exec(t, db, "create table fruit (name text)")
	p.setDown(true) // until all wait
	l := postgres.Listen(t.Context(), through, "apples", "pears")
	apples, cancelApples := l.Wait("apples", "cox")
	defer cancelApples()
	pears, cancelPears := l.Wait("pears", "")
	defer cancelPears()
	p.setDown(false)
	awaken(t, apples, "the connection stands")
	awaken(t, pears, "the connection stands")

	undone := errors.New("undone")
	require.ErrorIs(t, postgres.InTx(ctx, db, "test", func(tx postgres.Tx) error {
		require.NoError(t, postgres.Notify(ctx, tx, "apples", "cox"))
		return undone
	}), undone)
	require.NoError(t, postgres.InTx(ctx, db, "test", func(tx postgres.Tx) error { return postgres.Notify(ctx, tx, "pears", "conference") }))
	awaken(t, pears, "its transaction was committed")
	sleeps(t, apples, "its transaction was undone, and what came after it has arrived")

	require.NoError(t, postgres.InTx(ctx, db, "test", func(tx postgres.Tx) error {
		if _, err := tx.Exec(ctx, "insert into fruit values ('cox')"); err != nil {
			return err
		}
		return postgres.Notify(ctx, tx, "apples", "cox")
	}))
	awaken(t, apples, "its transaction was committed")
	require.NoError(t, postgres.InSnapshot(ctx, db, "test", func(tx postgres.Tx) error {
		n, err := postgres.Value[int](ctx, tx, "select count(*) from fruit", nil)
		require.Equal(t, 1, n)
		return err
	}))
}

// TestForgoFlushHoldsForItsTransactionAlone: the next one on the same connection waits for the disk again.
func TestForgoFlushHoldsForItsTransactionAlone(t *testing.T) {
	db, err := postgres.Open(ctx, testdb.URL(t)+"&pool_max_conns=1")
	require.NoError(t, err)
	defer db.Close()
	require.NoError(t, postgres.InTx(ctx, db, "test", func(tx postgres.Tx) error {
		_, err := tx.Exec(ctx, "set synchronous_commit = on") // the cluster of the tests has it off
		return err
	}))
	setting := func(before func(context.Context, postgres.Tx) error) (value string) {
		require.NoError(t, postgres.InTx(ctx, db, "test", func(tx postgres.Tx) (err error) {
			if err := before(ctx, tx); err != nil {
				return err
			}
			value, err = postgres.Value[string](ctx, tx, "show synchronous_commit", nil)
			return err
		}))
		return value
	}
	require.Equal(t, "off", setting(postgres.ForgoFlush))
	require.Equal(t, "on", setting(func(context.Context, postgres.Tx) error { return nil }))
}
