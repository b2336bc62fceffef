package postgres

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"

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
// is no statement: its text stands in for {RunColumns} in the statements and fragments
// after it. Lines between
//
//	-- when: tags
//	-- always
//
// are in a statement only where For is told that tags apply. A statement with the line
//
//	-- planned anew
//
// is planned for its arguments each time, which takes about a millisecond: for lists, where
// the plan that suits most arguments is a bad one for some.
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
		whole := strings.NewReplacer(fragments...).Replace(body)
		if kind == "fragment" {
			fragments = append(fragments, "{"+name+"}", whole)
			continue
		}
		if open := optional(whole); open != "" {
			panic(fmt.Sprintf("queries.sql: the lines of %q when %q do not end with a line \"-- always\"", name, open))
		}
		queries[name] = "-- " + name + "\n" + whole
	}
	return queries
}

// optional gives the condition whose lines go on to the end of the text, where there is one.
func optional(text string) (open string) {
	for line := range strings.Lines(text) {
		if condition, found := strings.CutPrefix(strings.TrimSpace(line), whenLine); found {
			open = condition
		} else if strings.TrimSpace(line) == alwaysLine {
			open = ""
		}
	}
	return open
}

var blockStart = regexp.MustCompile(`(?m)^-- (name|fragment): (\w+)$`)

const (
	plannedAnew = "-- planned anew\n"
	whenLine    = "-- when: "
	alwaysLine  = "-- always"
)

// For gives the statement called name with those of its optional lines that apply. It is
// right without the others, and PostgreSQL finds better ways when it does not see them.
func (q Queries) For(name string, applies map[string]bool) string {
	var text strings.Builder
	whole, taken := q.Get(name), true
	for line := range strings.Lines(whole) {
		switch condition, found := strings.CutPrefix(strings.TrimSpace(line), whenLine); {
		case found:
			taken = applies[condition]
		case strings.TrimSpace(line) == alwaysLine:
			taken = true
		case taken:
			text.WriteString(line)
		}
	}
	return text.String()
}

// Get gives the statement called name, with all its optional lines; an unknown name is a
// programming error and panics.
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
	rows, err := query(ctx, tx, sql, args)
	if err != nil {
		var zero T
		return zero, err
	}
	return pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[T])
}

// All reads all rows into structs, as One does for one.
func All[T any](ctx context.Context, tx Tx, sql string, args Args) ([]T, error) {
	rows, err := query(ctx, tx, sql, args)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByName[T])
}

// Value reads one column of exactly one row. No row is ErrNoRow.
func Value[T any](ctx context.Context, tx Tx, sql string, args Args) (T, error) {
	rows, err := query(ctx, tx, sql, args)
	if err != nil {
		var zero T
		return zero, err
	}
	return pgx.CollectExactlyOneRow(rows, pgx.RowTo[T])
}

// Values reads one column of all rows.
func Values[T any](ctx context.Context, tx Tx, sql string, args Args) ([]T, error) {
	rows, err := query(ctx, tx, sql, args)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[T])
}

// Exec runs a statement and gives the number of rows it touched.
func Exec(ctx context.Context, tx Tx, sql string, args Args) (int64, error) {
	text, values := numbered(sql, args)
	tag, err := tx.Exec(ctx, text, values...)
	return tag.RowsAffected(), err
}

func query(ctx context.Context, tx Tx, sql string, args Args) (pgx.Rows, error) {
	text, values := numbered(sql, args)
	if strings.Contains(sql, plannedAnew) {
		values = append([]any{pgx.QueryExecModeCacheDescribe}, values...) // without a name a statement keeps no plan
	}
	return tx.Query(ctx, text, values...)
}

// placeholders is a statement with $1 for its first name, and those names in order.
type placeholders struct {
	sql   string
	names []string
}

// rewritten has the placeholders of every statement that ran, by its text: reading the
// text anew took as long as PostgreSQL takes for a small row. Texts are constants of the
// program, so it stays small.
var rewritten sync.Map

// numbered gives the statement and its arguments as PostgreSQL takes them. A name that
// args lack is NULL.
func numbered(sql string, args Args) (string, []any) {
	found, ok := rewritten.Load(sql)
	if !ok {
		found, _ = rewritten.LoadOrStore(sql, rewrite(sql))
	}
	p := found.(placeholders)
	values := make([]any, len(p.names))
	for i, name := range p.names {
		values[i] = args[name]
	}
	return p.sql, values
}

// rewrite lets the driver find the names, which it does not take for such in quotes and
// comments: each is given itself as its value.
func rewrite(sql string) placeholders {
	itself := Args{}
	for _, m := range anyName.FindAllStringSubmatch(sql, -1) {
		itself[m[1]] = m[1]
	}
	text, values, _ := itself.RewriteQuery(context.Background(), nil, sql, nil) // never fails for a map that may lack names
	p := placeholders{sql: text}
	for _, name := range values {
		p.names = append(p.names, name.(string))
	}
	return p
}

var anyName = regexp.MustCompile(`@(\w+)`)

// onlyReads tells whether the statement, after its comments, is a select that locks nothing.
func onlyReads(sql string) bool {
	for strings.HasPrefix(sql, "--") {
		_, sql, _ = strings.Cut(sql, "\n")
	}
	return strings.HasPrefix(sql, "select") && !strings.Contains(sql, "for update") && !strings.Contains(sql, "for share")
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
