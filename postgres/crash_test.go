package postgres_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/internal/pgcluster"
	"github.com/holdfast-run/holdfast/migrations"
	"github.com/holdfast-run/holdfast/postgres"
)

// After a crash PostgreSQL gives out the ids of transactions that it lost a second time. What
// became of the later one is no answer for the earlier.
func TestALostCommitIsNotTakenForALaterOneOfItsID(t *testing.T) {
	t.Parallel()
	cluster, err := pgcluster.Start(ctx, pgcluster.Options{Dir: t.TempDir()})
	require.NoError(t, err)
	t.Cleanup(cluster.Stop)
	address := cluster.URL("postgres")
	require.NoError(t, migrations.Up(ctx, address))
	direct, err := postgres.Open(ctx, address)
	require.NoError(t, err)
	t.Cleanup(direct.Close)
	exec(t, direct, "create table things (id int primary key, n int not null default 0)")
	exec(t, direct, "insert into things (id) values (1), (2)")
	admin, err := pgx.Connect(ctx, address)
	require.NoError(t, err)
	// The log waits in memory for a writer that does not come.
	for _, sql := range []string{"alter system set wal_writer_delay = '10s'", "select pg_reload_conf()", "checkpoint"} {
		_, err := admin.Exec(ctx, sql)
		require.NoError(t, err)
	}
	p, lossy := proxyBefore(t, address)
	through, err := postgres.Open(ctx, lossy)
	require.NoError(t, err)
	t.Cleanup(through.Close)
	through.DecideWithin(time.Minute)

	var xid string
	var backend int
	crashed, answer := make(chan struct{}), make(chan error, 1)
	p.lost = func() {
		p.setDown(true)
		assert.NoError(t, syscall.Kill(backend, syscall.SIGKILL)) // PostgreSQL ends all its processes and recovers
		close(crashed)
	}
	p.set(dropAfter)
	go func() {
		answer <- postgres.InTx(ctx, through, "test.add", func(tx postgres.Tx) (err error) {
			if backend, err = postgres.Value[int](ctx, tx, "select pg_backend_pid()", nil); err != nil {
				return err
			}
			if err := add(tx, 1); err != nil {
				return err
			}
			xid, err = postgres.Value[string](ctx, tx, "select pg_current_xact_id()::text", nil)
			return err
		})
	}()
	<-crashed
	require.Eventually(t, func() bool { return admin.Ping(ctx) != nil }, time.Minute, 10*time.Millisecond)
	var later *postgres.DB
	require.Eventually(t, func() bool {
		later, err = postgres.Open(ctx, address)
		return err == nil
	}, time.Minute, 50*time.Millisecond)
	t.Cleanup(later.Close)
	var committed bool
	for range 1000 {
		err := postgres.InTx(ctx, later, "test.later", func(tx postgres.Tx) error { return add(tx, 2) })
		require.NoError(t, err)
		err = postgres.InSnapshot(ctx, later, "test.status", func(tx postgres.Tx) (err error) {
			committed, err = postgres.Value[bool](ctx, tx, "select coalesce(pg_xact_status(@xid::text::xid8) = 'committed', false)", postgres.Args{"xid": xid})
			return err
		})
		require.NoError(t, err)
		if committed {
			break
		}
	}
	require.True(t, committed, "the id was never given out again")
	p.set(pass)
	p.setDown(false)
	err = <-answer
	if read(t, later, 1) == 0 {
		assert.True(t, fault.Is(err, fault.Unknown), "nothing was stored, and the answer was: %v", err)
	}
}
