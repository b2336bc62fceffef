package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/multitracer"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Option changes how Open connects.
type Option func(*pgxpool.Config)

// Watched calls seen before each exchange with PostgreSQL, with the statements that are sent
// in it: the length of what seen gets is the number of statements, and how often it is called
// the number of round trips. Connections use it at the same time.
func Watched(seen func(statements []string)) Option {
	return func(cfg *pgxpool.Config) {
		cfg.ConnConfig.Tracer = multitracer.New(cfg.ConnConfig.Tracer, watcher{seen})
	}
}

type watcher struct{ seen func([]string) }

func (w watcher) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	w.seen([]string{data.SQL})
	return ctx
}

func (watcher) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (w watcher) TraceBatchStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	statements := make([]string, len(data.Batch.QueuedQueries))
	for i, q := range data.Batch.QueuedQueries {
		statements[i] = q.SQL
	}
	w.seen(statements)
	return ctx
}

func (watcher) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

func (watcher) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}
