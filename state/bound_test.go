package state_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/state"
)

// TestAnAttemptPublishesABoundedChain: the 1,024th is taken, the next is not, and what
// was refused is not counted.
func TestAnAttemptPublishesABoundedChain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	runner, _ := w.apply("")
	fill := func(n int, status string) {
		require.NoError(t, w.tx(func(tx postgres.Tx) error {
			_, err := postgres.Exec(ctx, tx, `insert into state_versions (id, organization_id, workspace_id, epoch, holder_kind, holder_id, declared_serial, declared_md5, expires_at, status, run_id, attempt_id)
				select @status || i, organization_id, workspace_id, 0, 'run', 'r', i, 'm' || @status || i, clock_timestamp(), @status, @run, @attempt
				  from workspace_fences, generate_series(1, @n::int) i where workspace_id = @ws`,
				postgres.Args{"status": status, "n": n, "run": runner.Run, "attempt": runner.Attempt, "ws": w.ws})
			return err
		}))
	}
	fill(state.MaxPublications-1, "pending")
	fill(5, "discarded")
	last := w.begin(runner, 2000, file(2000, lineage, "a"))
	_, _, err := w.Begin(ctx, runner, w.ws, announce(2001, lineage, file(2001, lineage, "b")))
	wantFault(t, err, fault.Conflict, "publication_limit")
	again, created, err := w.Begin(ctx, runner, w.ws, announce(2000, lineage, file(2000, lineage, "a")))
	require.NoError(t, err, "a repeat is no other publication")
	assert.False(t, created)
	assert.Equal(t, last.ID, again.ID)

	other := runner
	other.Attempt = "att-1111111111111111"
	w.begin(other, 2002, file(2002, lineage, "c"))
}
