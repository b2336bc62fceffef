package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
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

// settings are those of the planner that suit our statements, unless the address says others.
var settings = map[string]string{
	// Compiling a plan pays for reports, not for statements of a millisecond. And on a table without
	// statistics yet, the planner takes many of ours for reports: half a second each.
	"jit": "off",
	// Nor does starting processes to help with one.
	"max_parallel_workers_per_gather": "0",
	// What lists walk through is in memory or on a disk without arms. With the default of 4 the
	// planner reads whole tables where an index has all that is asked for.
	"random_page_cost": "1.1",
	// What a filter of a list finds is kept in memory, hundreds of thousands of ids. Where the planner
	// thinks that they do not fit, it goes through all of them for each workspace.
	"work_mem":            "16MB",
	"hash_mem_multiplier": "8",
}

// Open connects to the database at url (postgres://…) and checks that it answers.
func Open(ctx context.Context, url string, options ...Option) (*DB, error) {
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
	cfg.AfterConnect = beginEra
	cfg.ConnConfig.Tracer = counter{}
	for name, value := range settings {
		if _, set := cfg.ConnConfig.RuntimeParams[name]; !set {
			cfg.ConnConfig.RuntimeParams[name] = value
		}
	}
	for _, option := range options {
		option(cfg)
	}
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
// When the answer to the COMMIT itself is lost, it is not looked up either.
func ForgoFlush(ctx context.Context, tx Tx) error {
	if t, ours := tx.(*transaction); ours {
		t.forgone = true
	}
	return Later(ctx, tx, "set local synchronous_commit = off", nil, nil)
}

// PlanOnce lets the transaction's statements be planned once on each connection, for whatever
// values they get. PostgreSQL would plan a large statement anew for each execution when it
// takes the plan for the values at hand for better, which can cost more than to execute it.
func PlanOnce(ctx context.Context, tx Tx) error {
	return Later(ctx, tx, "set local plan_cache_mode = force_generic_plan", nil, nil)
}

func runOnce(ctx context.Context, db *DB, fn func(tx Tx) error) error {
	t := &transaction{exchange: exchange{pool: db.pool, begin: "begin isolation level read committed"}}
	defer t.release(context.WithoutCancel(ctx))
	if err := fn(t); err != nil {
		return err
	}
	if err := commit(ctx, db, t); err != nil {
		return err
	}
	db.notifier.letGo(t.notes)
	return nil
}

// beginEra names the era of a database that lost the name of its last one in a crash.
// Where the table is not there yet, or not writable, a lost COMMIT is not looked up.
func beginEra(ctx context.Context, conn *pgx.Conn) error {
	_, err := conn.Exec(ctx, "insert into commit_era default values on conflict do nothing")
	if pgErr := (*pgconn.PgError)(nil); errors.As(err, &pgErr) {
		return nil
	}
	return err
}

// commit commits, and finds out whether it did when the answer is lost.
func commit(ctx context.Context, db *DB, t *transaction) error {
	if t.conn == nil && len(t.putOff) == 0 {
		return nil // it did nothing
	}
	if t.forgone {
		return commitForgone(ctx, t)
	}
	rows, err := t.Query(ctx, "select pg_current_xact_id_if_assigned()::text as xid, (select id::text from commit_era) as era")
	if err != nil {
		return err
	}
	at, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[struct{ Xid, Era *string }])
	if err != nil {
		return err
	}
	commitErr := sayCommit(ctx, t)
	if commitErr == nil || at.Xid == nil || saidNo(commitErr) {
		return commitErr
	}
	return lookUpCommit(ctx, db, *at.Xid, at.Era, commitErr)
}

// commitForgone commits together with what was put off, unless there is something to be
// judged about that before.
func commitForgone(ctx context.Context, t *transaction) error {
	if slices.ContainsFunc(t.putOff, func(s statement) bool { return s.take != nil }) {
		if err := t.flush(ctx); err != nil {
			return err
		}
	}
	err := sayCommit(ctx, t)
	if err == nil || t.failed != nil || saidNo(err) {
		return err
	}
	return outcomeUnknown(err)
}

func sayCommit(ctx context.Context, t *transaction) error {
	tag, err := t.Exec(ctx, "commit")
	if err == nil && tag.String() == "ROLLBACK" {
		err = pgx.ErrTxCommitRollback
	}
	return err
}

func outcomeUnknown(cause error) error {
	return fault.New(fault.Unknown, "outcome_unknown", "The database did not say whether the change was stored. Read the thing again before repeating the request.").Because(cause)
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
// In another era the id may be that of a later transaction: when that one is not committed,
// neither is ours; when it is, nobody knows.
func lookUpCommit(ctx context.Context, db *DB, xid string, era *string, cause error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), db.decideWithin)
	defer cancel()
	unknown := outcomeUnknown(cause)
	for {
		var status *string
		var sameEra bool
		err := db.pool.QueryRow(ctx, "select pg_xact_status($1::text::xid8), exists (select from commit_era where id::text = $2)", xid, era).Scan(&status, &sameEra)
		switch {
		case err == nil && status != nil && *status == "committed" && sameEra:
			return nil
		case err == nil && status != nil && *status == "committed":
			return unknown
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
