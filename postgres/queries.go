package postgres

import (
	"context"
	"errors"
	"fmt"
	"regexp"
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
// Further comment lines belong to the statement. A block that begins with
//
//	-- fragment: RunColumns
//
// is no statement: its text stands in for {RunColumns} in the statements after it.
// A broken or repeated name is a programming error and panics at start.
func ParseQueries(sql string) Queries {
	queries, fragments := Queries{}, []string{}
	blocks := blockStart.FindAllStringSubmatchIndex(sql, -1)
	for i, at := range blocks {
		end := len(sql)
		if i+1 < len(blocks) {
			end = blocks[i+1][0]
		}
		kind, name := sql[at[2]:at[3]], sql[at[4]:at[5]]
		body := strings.TrimSuffix(strings.TrimSpace(sql[at[1]:end]), ";")
		if body == "" || queries[name] != "" {
			panic(fmt.Sprintf("queries.sql: block %q is empty or repeated", name))
		}
		if kind == "fragment" {
			fragments = append(fragments, "{"+name+"}", body)
			continue
		}
		queries[name] = "-- " + name + "\n" + strings.NewReplacer(fragments...).Replace(body)
	}
	return queries
}

var blockStart = regexp.MustCompile(`(?m)^-- (name|fragment): (\w+)$`)

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
