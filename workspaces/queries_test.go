package workspaces

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/holdfast-run/holdfast/internal/testdb"
	"github.com/holdfast-run/holdfast/postgres"
)

func TestEveryQueryFitsTheSchema(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	assert.NotEmpty(t, queries)
	for name, sql := range queries {
		assert.NoError(t, postgres.Prepare(context.Background(), db, name, sql), name)
		assert.NoError(t, postgres.Prepare(context.Background(), db, name+" without its optional lines", queries.For(name, nil)), name)
	}
}
