package postgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/postgres"
)

func awaken(t *testing.T, wake <-chan struct{}, why string) {
	t.Helper()
	select {
	case <-wake:
	case <-time.After(10 * time.Second):
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
	assert.Eventually(t, func() bool { return !hasListener(t, direct) }, 10*time.Second, 20*time.Millisecond, "no connection stays behind")
}
