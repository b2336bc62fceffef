package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// ErrNoRow is what One answers when the query gave no row. Callers turn it into
// their own answer: not found, already so, or lost.
var ErrNoRow = pgx.ErrNoRows

// Queries are the statements of one queries.sql file, by name.
type Queries map[string]string

// ParseQueries reads statements separated by lines of the form
//
//	-- name: StateVersionFinalize
//
// Further comment lines belong to the statement. A broken or repeated name is a
// programming error and panics at start.
func ParseQueries(sql string) Queries {
	queries := Queries{}
	for _, block := range strings.Split("\n"+sql, "\n-- name: ")[1:] {
		name, body, _ := strings.Cut(block, "\n")
		name, body = strings.TrimSpace(name), strings.TrimSuffix(strings.TrimSpace(body), ";")
		if name == "" || body == "" || queries[name] != "" {
			panic(fmt.Sprintf("queries.sql: statement %q is empty or repeated", name))
		}
		queries[name] = "-- " + name + "\n" + body
	}
	return queries
}

// Get gives the statement called name; an unknown name is a programming error and panics.
func (q Queries) Get(name string) string {
	sql, ok := q[name]
	if !ok {
		panic(fmt.Sprintf("queries.sql has no statement %q", name))
	}
	return sql
}

// One reads exactly one row into a struct whose fields are named like the columns
// (underscores and case ignored). No row is ErrNoRow.
func One[T any](ctx context.Context, tx Tx, sql string, args Args) (T, error) {
	rows, err := tx.Query(ctx, sql, args)
	if err != nil {
		var zero T
		return zero, err
	}
	return pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[T])
}

// All reads all rows into structs, as One does for one.
func All[T any](ctx context.Context, tx Tx, sql string, args Args) ([]T, error) {
	rows, err := tx.Query(ctx, sql, args)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByName[T])
}

// Value reads one column of exactly one row. No row is ErrNoRow.
func Value[T any](ctx context.Context, tx Tx, sql string, args Args) (T, error) {
	rows, err := tx.Query(ctx, sql, args)
	if err != nil {
		var zero T
		return zero, err
	}
	return pgx.CollectExactlyOneRow(rows, pgx.RowTo[T])
}

// Values reads one column of all rows.
func Values[T any](ctx context.Context, tx Tx, sql string, args Args) ([]T, error) {
	rows, err := tx.Query(ctx, sql, args)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[T])
}

// Exec runs a statement and gives the number of rows it touched.
func Exec(ctx context.Context, tx Tx, sql string, args Args) (int64, error) {
	tag, err := tx.Exec(ctx, sql, args)
	return tag.RowsAffected(), err
}

// NoRow tells whether err says that a query gave no row.
func NoRow(err error) bool { return errors.Is(err, ErrNoRow) }

// Prepare checks that PostgreSQL accepts the statement against the schema as it
// stands, without running it. Tests walk every statement of a queries.sql with it.
func Prepare(ctx context.Context, db *DB, name, sql string) error {
	conn, err := db.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	rewritten, _, err := pgx.NamedArgs{}.RewriteQuery(ctx, conn.Conn(), sql, nil)
	if err != nil {
		return err
	}
	_, err = conn.Conn().Prepare(ctx, "check "+name, rewritten)
	return err
}
