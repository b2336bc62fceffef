package notifications_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/holdfast-run/holdfast/internal/testdb"
	"github.com/holdfast-run/holdfast/notifications"
	"github.com/holdfast-run/holdfast/postgres"
)

func TestEveryQueryFitsTheSchema(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	assert.NotEmpty(t, notifications.Queries)
	for name, sql := range notifications.Queries {
		assert.NoError(t, postgres.Prepare(t.Context(), db, name, sql), name)
	}
}
