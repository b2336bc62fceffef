package postgres_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/holdfast-run/holdfast/postgres"
)

func TestParseQueries(t *testing.T) {
	q := postgres.ParseQueries("-- about the file\n\n-- fragment: Cols\na.id, a.name\n\n-- name: One\n-- a comment of its own\nselect {Cols} from a where id = @id;\n\n-- name: Two\nselect 2")
	assert.Equal(t, "-- One\n-- a comment of its own\nselect a.id, a.name from a where id = @id", q.Get("One"))
	assert.Equal(t, "-- Two\nselect 2", q.Get("Two"))
	assert.Len(t, q, 2)
	assert.Panics(t, func() { q.Get("Three") })
	assert.Panics(t, func() { postgres.ParseQueries("-- name: A\nselect 1;\n-- name: A\nselect 2;") })
	assert.Panics(t, func() { postgres.ParseQueries("-- name: A\n\n-- name: B\nselect 2;") })
}

func TestOptionalLinesAreThereWhenTheyApply(t *testing.T) {
	q := postgres.ParseQueries("-- fragment: Wanted\n where a.x = @x\n-- when: y\n   and a.y = @y\n-- when: z\n   and a.z = @z\n-- always\n\n-- name: Some\nselect count(*) from a\n{Wanted}\n limit @limit")
	assert.Equal(t, "-- Some\nselect count(*) from a\nwhere a.x = @x\n limit @limit", q.For("Some", nil))
	assert.Equal(t, "-- Some\nselect count(*) from a\nwhere a.x = @x\n   and a.z = @z\n limit @limit", q.For("Some", map[string]bool{"z": true}))
	assert.Panics(t, func() { q.For("Any", nil) })
	assert.Panics(t, func() {
		postgres.ParseQueries("-- fragment: Wanted\nwhere x\n-- when: y\n and y\n-- always\n\n-- name: A\nselect (select 1 {Wanted}) as a")
	}, "the end of the optional lines is lost in another line")
}
