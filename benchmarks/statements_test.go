package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestStatementsAreCountedApartFromBeginAndCommit(t *testing.T) {
	t.Parallel()
	log := `2026-01-01 00:00:00.000 UTC [7] LOG:  statement: begin isolation level repeatable read read only
2026-01-01 00:00:00.001 UTC [7] LOG:  execute stmtcache_12ab: -- name: Workspace
	select id
	from workspaces
2026-01-01 00:00:00.001 UTC [7] LOG:  execute <unnamed>: select 1
2026-01-01 00:00:00.001 UTC [7] DETAIL:  parameters: $1 = '...'
2026-01-01 00:00:00.002 UTC [7] LOG:  statement: commit
2026-01-01 00:00:00.003 UTC [8] LOG:  checkpoint starting: time
`
	require.Equal(t, counted{statements: 2, control: 2}, countIn([]byte(log)))
}
