package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// InSnapshot runs fn in a read-only transaction in which all statements see one
// instant. Answers that show several rows which must fit together are read in it. What
// one statement can read is cheaper with InOneStatement.
func InSnapshot(ctx context.Context, db *DB, name string, fn func(tx Tx) error) error {
	err := snapshotOnce(ctx, db, fn)
	if sqlstate, _ := Violation(err); sqlstate == "25006" {
		return fmt.Errorf("%s: a statement of a snapshot writes: %w", name, err) // a defect of ours, no read-only primary
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, classify(err))
	}
	return nil
}

func snapshotOnce(ctx context.Context, db *DB, fn func(tx Tx) error) error {
	s := &snapshot{pool: db.pool}
	defer s.release(ctx)
	if err := fn(s); err != nil || s.conn == nil {
		return err
	}
	_, err := s.conn.Exec(ctx, "commit")
	return err
}

// beginSnapshot makes the transaction of a snapshot.
const beginSnapshot = "begin isolation level repeatable read read only"

// snapshot is the Tx of InSnapshot. It begins with its first statement and in the same
// round trip: a function that finds that it needs none costs nothing.
type snapshot struct {
	pool *pgxpool.Pool
	conn *pgxpool.Conn // nil before the first statement
}

func (s *snapshot) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if s.conn != nil {
		return s.conn.Query(ctx, sql, args...)
	}
	var err error
	if s.conn, err = s.pool.Acquire(ctx); err != nil {
		return nil, err
	}
	if len(args) > 0 {
		if _, own := args[0].(pgx.QueryExecMode); own { // a batch has one way for all that is in it
			if _, err := s.conn.Exec(ctx, beginSnapshot); err != nil {
				return nil, err
			}
			return s.conn.Query(ctx, sql, args...)
		}
	}
	both := &pgx.Batch{}
	both.Queue(beginSnapshot)
	both.Queue(sql, args...)
	results := s.conn.SendBatch(ctx, both)
	if _, err := results.Exec(); err != nil {
		return nil, errors.Join(err, results.Close())
	}
	rows, err := results.Query()
	if err != nil {
		return nil, errors.Join(err, results.Close())
	}
	return firstRows{rows, results}, nil
}

func (s *snapshot) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	rows, err := s.Query(ctx, sql, args...)
	if err != nil {
		return pgconn.CommandTag{}, err
	}
	rows.Close()
	return rows.CommandTag(), rows.Err()
}

// release gives the connection back. The pool ends one whose transaction is still open,
// so one that is whole is rolled back before.
func (s *snapshot) release(ctx context.Context) {
	if s.conn == nil {
		return
	}
	if c := s.conn.Conn(); !c.IsClosed() && !c.PgConn().IsBusy() && c.PgConn().TxStatus() != 'I' {
		_, _ = s.conn.Exec(ctx, "rollback") // nothing was written; what cannot be rolled back the pool ends
	}
	s.conn.Release()
}

// firstRows are the rows of the statement that was sent with the begin. Closing them
// ends the exchange that both were sent in.
type firstRows struct {
	pgx.Rows
	exchange pgx.BatchResults
}

func (r firstRows) Close() {
	r.Rows.Close()
	_ = r.exchange.Close() // what failed is the rows' error, or the next statement's
}

// InOneStatement runs fn, which reads with exactly one statement. That one sees one
// instant by itself, so nothing is begun or committed around it: it costs one round trip
// where InSnapshot costs two. A second statement, or one that is no plain select, is
// refused as the defect it is: two statements would show two instants.
func InOneStatement(ctx context.Context, db *DB, name string, fn func(tx Tx) error) error {
	if err := fn(&oneStatement{pool: db.pool}); err != nil {
		return fmt.Errorf("%s: %w", name, classify(err))
	}
	return nil
}

// oneStatement is the Tx of InOneStatement. There is no transaction: the connection
// is taken for the statement and given back when its rows are closed.
type oneStatement struct {
	pool *pgxpool.Pool
	used bool
}

func (o *oneStatement) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if o.used || !onlyReads(sql) {
		return nil, errors.New("a read of one statement runs another one or writes: use InSnapshot or InTx")
	}
	o.used = true
	return o.pool.Query(ctx, sql, args...)
}

func (o *oneStatement) Exec(context.Context, string, ...any) (pgconn.CommandTag, error) {
	return pgconn.CommandTag{}, errors.New("a read of one statement writes: use InTx")
}
