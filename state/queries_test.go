package state_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/holdfast-run/holdfast/internal/testdb"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/state"
)

func TestEveryQueryFitsTheSchema(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	assert.NotEmpty(t, state.Queries)
	for name, sql := range state.Queries {
		assert.NoError(t, postgres.Prepare(ctx, db, name, sql), name)
	}
}
