package site_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/holdfast-run/holdfast/internal/testdb"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/site"
)

func TestEveryQueryFitsTheSchema(t *testing.T) {
	db := testdb.New(t)
	assert.NotEmpty(t, site.Queries)
	for name, sql := range site.Queries {
		assert.NoError(t, postgres.Prepare(t.Context(), db, name, sql), name)
	}
}
