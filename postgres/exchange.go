package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// exchange is a transaction on a connection of the pool. It begins with its first
// statement and in the same round trip: a function that finds that it needs none costs
// nothing. Statements that were put off go with the next one, too.
type exchange struct {
	pool   *pgxpool.Pool
	begin  string
	conn   *pgxpool.Conn // nil before the first statement
	putOff []statement
	failed error // of a statement that was put off; nothing is done after it
}

// statement is one that is sent together with others. take, if there is one, reads its answer.
type statement struct {
	sql  string
	args []any
	take func(pgx.Rows) error
}

func (e *exchange) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	switch {
	case e.failed != nil:
		return nil, e.failed
	case e.conn != nil && len(e.putOff) == 0:
		return e.conn.Query(ctx, sql, args...)
	case ownMode(args):
		if err := e.flush(ctx); err != nil {
			return nil, err
		}
		return e.conn.Query(ctx, sql, args...)
	}
	results, err := e.send(ctx, statement{sql: sql, args: args})
	if err != nil {
		return nil, err
	}
	rows, err := results.Query()
	if err != nil {
		return nil, errors.Join(err, results.Close())
	}
	return lastRows{rows, results}, nil
}

func (e *exchange) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	switch {
	case e.failed != nil:
		return pgconn.CommandTag{}, e.failed
	case e.conn != nil && len(e.putOff) == 0:
		return e.conn.Exec(ctx, sql, args...)
	}
	results, err := e.send(ctx, statement{sql: sql, args: args})
	if err != nil {
		return pgconn.CommandTag{}, err
	}
	tag, err := results.Exec()
	return tag, errors.Join(err, results.Close())
}

// ownMode tells whether a statement is to be sent in a way of its own; a batch has one for all
// that is in it.
func ownMode(args []any) bool {
	if len(args) == 0 {
		return false
	}
	_, own := args[0].(pgx.QueryExecMode)
	return own
}

// flush sends the begin, where it is still to come, and what was put off.
func (e *exchange) flush(ctx context.Context) error {
	if e.conn != nil && len(e.putOff) == 0 {
		return nil
	}
	results, err := e.send(ctx)
	if err != nil {
		return err
	}
	return results.Close()
}

// send sends the begin where it is still to come, what was put off, and last, if there is
// one. The answers of all but last are read and judged.
func (e *exchange) send(ctx context.Context, last ...statement) (pgx.BatchResults, error) {
	all, judged := &pgx.Batch{}, e.putOff
	if e.conn == nil {
		conn, err := e.pool.Acquire(ctx)
		if err != nil {
			return nil, err
		}
		e.conn = conn
		judged = append([]statement{{sql: e.begin}}, judged...)
	}
	e.putOff = nil
	for _, s := range append(judged, last...) {
		all.Queue(s.sql, s.args...)
	}
	results := e.conn.SendBatch(ctx, all)
	for _, s := range judged {
		if err := s.answered(results); err != nil {
			e.failed = err
			_ = results.Close() // says the same, or why the rest was not done
			return nil, err
		}
	}
	return results, nil
}

// release gives the connection back. The pool ends one whose transaction is still open,
// so one that is whole is rolled back before.
func (e *exchange) release(ctx context.Context) {
	if e.conn == nil {
		return
	}
	if c := e.conn.Conn(); !c.IsClosed() && !c.PgConn().IsBusy() && c.PgConn().TxStatus() != 'I' {
		_, _ = e.conn.Exec(ctx, "rollback") // nothing was written; what cannot be rolled back the pool ends
	}
	e.conn.Release()
}

// lastRows are the rows of a statement that was sent together with others. Closing them
// ends the exchange that all were sent in.
type lastRows struct {
	pgx.Rows
	results pgx.BatchResults
}

func (r lastRows) Close() {
	r.Rows.Close()
	_ = r.results.Close() // what failed is the rows' error, or the next statement's
}

func (s statement) answered(results pgx.BatchResults) error {
	rows, err := results.Query()
	if err == nil && s.take != nil {
		err = s.take(rows)
	}
	if rows != nil {
		rows.Close()
		if err == nil {
			err = rows.Err()
		}
	}
	return err
}

// later puts a statement off; a Tx that is none of InTx runs it at once.
func later(ctx context.Context, tx Tx, sql string, args Args, take func(pgx.Rows) error) error {
	text, values := numbered(sql, args)
	if t, ours := tx.(*transaction); ours {
		t.putOff = append(t.putOff, statement{text, values, take})
		return t.failed
	}
	rows, err := tx.Query(ctx, text, values...)
	if err != nil {
		return err
	}
	defer rows.Close()
	if take != nil {
		if err := take(rows); err != nil {
			return err
		}
	}
	rows.Close()
	return rows.Err()
}

// Later is Exec for a statement whose answer nobody waits for: it is sent with the
// transaction's next statement or its commit, after those that were put off before it.
// check, if there is one, gets the number of rows that it touched. Its error, as one of the
// statement, ends the transaction: the next statement or the commit answers it. A statement
// that leads the caller to decide something belongs to Exec.
func Later(ctx context.Context, tx Tx, sql string, args Args, check func(rows int64) error) error {
	if check == nil {
		return later(ctx, tx, sql, args, nil)
	}
	return later(ctx, tx, sql, args, func(rows pgx.Rows) error {
		rows.Close()
		if err := rows.Err(); err != nil {
			return err
		}
		return check(rows.CommandTag().RowsAffected())
	})
}

// LaterOne is One for a row that nobody waits for: then gets it, or is told that there is
// none, when the transaction's next statement or its commit has been sent. Its error ends the
// transaction as that of a check of Later.
func LaterOne[T any](ctx context.Context, tx Tx, sql string, args Args, then func(row T, found bool) error) error {
	return later(ctx, tx, sql, args, func(rows pgx.Rows) error {
		row, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[T])
		if err != nil && !NoRow(err) {
			return err
		}
		return then(row, err == nil)
	})
}
