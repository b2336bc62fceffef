package recovery

import (
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// count runs one statement that gives a number.
func (p *plant) count(sql string, args ...any) (n int) {
	p.Helper()
	conn, err := pgx.Connect(p.Context(), shared.Environ["HOLDFAST_DATABASE_URL"])
	if err != nil {
		require.FailNow(p, "the database cannot be reached") // the cause may hold the password
	}
	defer conn.Close(p.Context())
	require.NoError(p, conn.QueryRow(p.Context(), sql, args...).Scan(&n))
	return n
}

// awaitRunner returns when a run of the workspace would find its runner.
func (p *plant) awaitRunner() {
	p.Helper()
	eventually(p.T, "the runner", func() bool { return p.count("select count(*) from runners where name = $1", p.label) > 0 })
}

// forget moves the last sign of life of the story's runner, which is dead, into the past,
// until the servers have called its attempt lost.
func (p *plant) forget() {
	p.Helper()
	eventually(p.T, "the loss of the runner", func() bool {
		return p.count(`with silent as (
			update attempts set heartbeat_at = clock_timestamp() - interval '15 minutes'
			 where status = 'running' and runner_id in (select id from runners where name = $1) returning id)
			select count(*) from attempts where status = 'lost' and runner_id in (select id from runners where name = $1)`, p.label) > 0
	})
}
