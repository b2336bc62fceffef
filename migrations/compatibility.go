package migrations

import (
	"context"
	_ "embed"
	"io/fs"
	"strconv"
	"strings"

	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/postgres"
)

//go:embed queries.sql
var queriesFile string

var queries = postgres.ParseQueries(queriesFile)

// Newest is the number of the newest migration this program knows.
func Newest() int {
	names, err := fs.Glob(Files, "*.sql")
	if err != nil || len(names) == 0 {
		panic("the migrations are not built in")
	}
	number, _, _ := strings.Cut(names[len(names)-1], "_") // Glob sorts, and the numbers have equal lengths
	newest, err := strconv.Atoi(number)
	if err != nil {
		panic("migration " + names[len(names)-1] + " has no number")
	}
	return newest
}

// Check refuses to work on a schema that no longer serves this program: a newer server has
// taken away what it uses. A newer schema that only added things is fine, so that servers of
// two releases can work side by side while one replaces the other. The refusal is
// Unavailable "server_too_old"; retrying does not help, a newer server does.
func Check(ctx context.Context, db *postgres.DB) error {
	var demanded int
	err := postgres.InSnapshot(ctx, db, "migrations.check", func(tx postgres.Tx) (err error) {
		demanded, err = postgres.Value[int](ctx, tx, queries.Get("MinServer"), nil)
		return err
	})
	if err != nil {
		return err
	}
	if newest := Newest(); demanded > newest {
		return fault.New(fault.Unavailable, "server_too_old",
			"The database is in use by newer servers: it demands one that knows migration %04d, and this one knows %04d. Install the newer release here too.", demanded, newest)
	}
	return nil
}
