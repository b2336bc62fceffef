package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-run/holdfast/fault"
)

// DB is a pool of connections to one database.
type DB struct {
	pool         *pgxpool.Pool
	decideWithin time.Duration // how long the outcome of a lost COMMIT is looked for
	notifier     notifier
}

// Tx is a running transaction. Whoever receives one uses it and leaves ending it
// to the caller.
type Tx interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// Args are the @named arguments of a query.
type Args = pgx.NamedArgs

// defaultConnections is how many connections a process opens at most, unless the
// address says pool_max_conns=N.
const defaultConnections = 24

// connectWithin is how long a connection may take to be made, unless the address says
// connect_timeout=SECONDS. The driver's own two minutes would keep clients waiting for a
// server that is there and does not answer.
const connectWithin = 5 * time.Second

// Open connects to the database at url (postgres://…) and checks that it answers.
func Open(ctx context.Context, url string) (*DB, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, errors.New("the database address cannot be read: it must be a postgres:// URL") // err may hold the password
	}
	if !strings.Contains(url, "pool_max_conns") {
		cfg.MaxConns = defaultConnections
	}
	if !strings.Contains(url, "connect_timeout") {
		cfg.ConnConfig.ConnectTimeout = connectWithin
	}
	// Compiling a plan pays for reports, not for statements of a millisecond. And on a table without
	// statistics yet, the planner takes many of ours for reports: half a second each.
	if _, set := cfg.ConnConfig.RuntimeParams["jit"]; !set {
		cfg.ConnConfig.RuntimeParams["jit"] = "off"
	}
	cfg.ConnConfig.Tracer = counter{}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, classify(err)
	}
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		return nil, classify(err)
	}
	return &DB{pool: pool, decideWithin: 10 * time.Second, notifier: notifier{pool: pool}}, nil
}

// Close ends all connections, after the last notifications are sent.
func (db *DB) Close() {
	db.notifier.ended.Wait()
	db.pool.Close()
}

// Ping checks that the database answers.
func (db *DB) Ping(ctx context.Context) error { return classify(db.pool.Ping(ctx)) }

const maxAttempts = 6

// InTx runs fn in a READ COMMITTED transaction and commits it. After a
// serialization failure or a deadlock fn is run again, so it must have no effect
// outside the database. name says in errors and logs what the transaction was for.
// Errors: fn's own; fault.Unavailable when the database cannot be reached or the
// transaction was in others' way every time; fault.Unknown when it cannot be told
// whether the commit happened.
func InTx(ctx context.Context, db *DB, name string, fn func(tx Tx) error) error {
	var err error
	for attempt := range maxAttempts {
		if attempt > 0 {
			pause := time.Duration(1<<attempt) * (5 + rand.N(5*time.Millisecond)/time.Millisecond) * time.Millisecond
			select {
			case <-time.After(pause):
			case <-ctx.Done():
				return fmt.Errorf("%s: %w", name, ctx.Err())
			}
		}
		err = runOnce(ctx, db, fn)
		if !retryable(err) {
			break
		}
	}
	if retryable(err) {
		err = fault.New(fault.Unavailable, "database_busy", "Others were changing the same things again and again, and nothing was stored. Try again in a moment.").Because(err)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, classify(err))
	}
	return nil
}

// ForgoFlush lets the transaction's COMMIT be answered before it is on disk. A crash of
// PostgreSQL may then undo it, whole, although it was acknowledged; one that is committed
// later is never kept without it. For what may be lost so: nobody has promised it to anybody.
func ForgoFlush(ctx context.Context, tx Tx) error {
	_, err := tx.Exec(ctx, "set local synchronous_commit = off")
	return err
}

func runOnce(ctx context.Context, db *DB, fn func(tx Tx) error) error {
	tx, err := db.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	t := &transaction{Tx: tx}
	if err := fn(t); err != nil {
		return err
	}
	if err := commit(ctx, db, tx); err != nil {
		return err
	}
	db.notifier.letGo(t.notes)
	return nil
}

// commit commits, and finds out whether it did when the answer is lost.
func commit(ctx context.Context, db *DB, tx pgx.Tx) error {
	var xid *string
	if err := tx.QueryRow(ctx, "select pg_current_xact_id_if_assigned()::text").Scan(&xid); err != nil {
		return err
	}
	commitErr := tx.Commit(ctx)
	if commitErr == nil || xid == nil {
		return commitErr
	}
	if saidNo(commitErr) {
		return commitErr
	}
	return lookUpCommit(ctx, db, *xid, commitErr)
}

// saidNo tells whether the server answered a COMMIT by refusing it. A server that ends
// the connection (FATAL, PANIC) may have committed first, so that is no refusal.
func saidNo(commitErr error) bool {
	var pgErr *pgconn.PgError
	if errors.As(commitErr, &pgErr) {
		return pgErr.SeverityUnlocalized == "ERROR"
	}
	return errors.Is(commitErr, pgx.ErrTxCommitRollback)
}

// lookUpCommit asks a new connection what became of a transaction whose COMMIT got no answer.
func lookUpCommit(ctx context.Context, db *DB, xid string, cause error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), db.decideWithin)
	defer cancel()
	unknown := fault.New(fault.Unknown, "outcome_unknown", "The database did not say whether the change was stored. Read the thing again before repeating the request.").Because(cause)
	for {
		var status *string
		err := db.pool.QueryRow(ctx, "select pg_xact_status($1::text::xid8)", xid).Scan(&status)
		switch {
		case err == nil && status != nil && *status == "committed":
			return nil
		case err == nil && status != nil && *status == "aborted":
			return fault.New(fault.Unavailable, "database_unavailable", "The database connection was lost and nothing was stored. Try again.").Because(cause)
		case err == nil && status == nil:
			return unknown // too old to be known
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			return unknown
		}
	}
}

func retryable(err error) bool {
	var pgErr *pgconn.PgError
	return errors.As(err, &pgErr) && (pgErr.Code == "40001" || pgErr.Code == "40P01")
}

// classify turns a lost or refused connection into fault.Unavailable and leaves
// every other error as it is.
func classify(err error) error {
	if err == nil {
		return nil
	}
	var classified *fault.Error
	if errors.As(err, &classified) || errors.Is(err, context.Canceled) {
		return err
	}
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) {
		// 08 connection, 57P admin shutdown or crash, 53 out of resources, 25006 read-only primary
		if strings.HasPrefix(pgErr.Code, "08") || strings.HasPrefix(pgErr.Code, "57P") || strings.HasPrefix(pgErr.Code, "53") || pgErr.Code == "25006" {
			return unavailable(err)
		}
		return err
	}
	var netErr net.Error
	var connectErr *pgconn.ConnectError
	if errors.As(err, &netErr) || errors.As(err, &connectErr) || pgconn.SafeToRetry(err) || lostConnection(err) {
		return unavailable(err)
	}
	return err
}

func lostConnection(err error) bool {
	text := err.Error() // pgx gives no type for a connection closed under a running query
	return strings.Contains(text, "conn closed") || strings.Contains(text, "unexpected EOF") || strings.Contains(text, "connection reset") ||
		strings.Contains(text, "closed pool")
}

func unavailable(err error) error {
	return fault.New(fault.Unavailable, "database_unavailable", "The database cannot be reached. Nothing was changed; try again in a moment.").Because(err)
}

// Violation gives the SQLSTATE and the constraint's name of a refused statement;
// both are empty when err is something else.
func Violation(err error) (sqlstate, constraint string) {
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) {
		return pgErr.Code, pgErr.ConstraintName
	}
	return "", ""
}
