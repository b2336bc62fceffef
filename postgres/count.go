package postgres

import (
	"context"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
)

// Statements counts what is sent to the database on behalf of a context, begin and commit
// included.
type Statements struct{ sent atomic.Int64 }

// Sent gives the number so far.
func (s *Statements) Sent() int { return int(s.sent.Load()) }

type statementsKey struct{}

// CountStatements gives a context whose statements are counted.
func CountStatements(ctx context.Context) (context.Context, *Statements) {
	counted := &Statements{}
	return context.WithValue(ctx, statementsKey{}, counted), counted
}

// counter counts for the contexts that ask for it.
type counter struct{}

func count(ctx context.Context) {
	if s, asked := ctx.Value(statementsKey{}).(*Statements); asked {
		s.sent.Add(1)
	}
}

// TraceQueryStart counts a statement.
func (counter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	count(ctx)
	return ctx
}

// TraceQueryEnd counts nothing more.
func (counter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TraceBatchStart counts nothing yet: the statements of a batch are told one by one.
func (counter) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}

// TraceBatchQuery counts a statement of a batch.
func (counter) TraceBatchQuery(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchQueryData) {
	count(ctx)
}

// TraceBatchEnd counts nothing more.
func (counter) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}
