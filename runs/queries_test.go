package runs

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/holdfast-run/holdfast/internal/testdb"
	"github.com/holdfast-run/holdfast/postgres"
)

func TestEveryQueryFitsTheSchema(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	assert.NotEmpty(t, Queries)
	for name, sql := range Queries {
		assert.NoError(t, postgres.Prepare(ctx, db, name, sql), name)
		assert.NoError(t, postgres.Prepare(ctx, db, name+" without its optional lines", Queries.For(name, nil)), name)
	}
}
