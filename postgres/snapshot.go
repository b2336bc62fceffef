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
	s := &exchange{pool: db.pool, begin: beginSnapshot}
	defer s.release(ctx)
	if err := fn(s); err != nil || s.conn == nil {
		return err
	}
	_, err := s.conn.Exec(ctx, "commit")
	return err
}

// beginSnapshot makes the transaction of a snapshot.
const beginSnapshot = "begin isolation level repeatable read read only"

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
