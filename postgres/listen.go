package postgres

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Listener shares one LISTEN connection among all who wait in this process. A
// notification is only a wake-up: it may be lost or doubled, so waiters look at
// the tables themselves and also wake on a timer.
type Listener struct {
	pool    *pgxpool.Pool
	mu      sync.Mutex
	waiters map[string]map[chan struct{}]bool
}

// Listen starts listening on the channels until ctx ends. A lost connection is
// made again, and every waiter is woken once then.
func Listen(ctx context.Context, db *DB, channels ...string) *Listener {
	l := &Listener{pool: db.pool, waiters: map[string]map[chan struct{}]bool{}}
	for _, c := range channels {
		l.waiters[c] = map[chan struct{}]bool{}
	}
	go l.run(ctx, channels)
	return l
}

// Wait subscribes to a channel. The returned Go channel receives at least one
// value after each notification; cancel ends the subscription.
func (l *Listener) Wait(channel string) (wake <-chan struct{}, cancel func()) {
	ch := make(chan struct{}, 1)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiters[channel][ch] = true
	return ch, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.waiters[channel], ch)
	}
}

func (l *Listener) run(ctx context.Context, channels []string) {
	for ctx.Err() == nil {
		if err := l.listenOnce(ctx, channels); err != nil && ctx.Err() == nil {
			slog.Warn("the LISTEN connection was lost and is made again", "error", err)
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
			}
		}
	}
}

func (l *Listener) listenOnce(ctx context.Context, channels []string) error {
	pooled, err := l.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	conn := pooled.Hijack()
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	for _, c := range channels {
		if _, err := conn.Exec(ctx, "listen "+c); err != nil {
			return err
		}
	}
	for _, c := range channels {
		l.wake(c)
	}
	for {
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			return err
		}
		l.wake(n.Channel)
	}
}

func (l *Listener) wake(channel string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for ch := range l.waiters[channel] {
		select {
		case ch <- struct{}{}:
		default: // a wake-up is already waiting
		}
	}
}
