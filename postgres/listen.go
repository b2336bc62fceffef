package postgres

import (
	"context"
	"log/slog"
	"maps"
	"slices"
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
	waiters map[topic]map[chan struct{}]bool
	readers map[string][]func(payload string)
}

// topic is a channel and, when a waiter wants only those, one payload of it.
type topic struct{ channel, payload string }

// Listen starts listening on the channels until ctx ends. A lost connection is
// made again, and every waiter is woken once then.
func Listen(ctx context.Context, db *DB, channels ...string) *Listener {
	l := &Listener{pool: db.pool, waiters: map[topic]map[chan struct{}]bool{}, readers: map[string][]func(string){}}
	go l.run(ctx, channels)
	return l
}

// Wait subscribes to a channel; with a payload, only to notifications that carry it.
// The returned Go channel receives at least one value after each of them; cancel
// ends the subscription.
func (l *Listener) Wait(channel, payload string) (wake <-chan struct{}, cancel func()) {
	ch, on := make(chan struct{}, 1), topic{channel, payload}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiters[on] == nil {
		l.waiters[on] = map[chan struct{}]bool{}
	}
	l.waiters[on][ch] = true
	return ch, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if delete(l.waiters[on], ch); len(l.waiters[on]) == 0 {
			delete(l.waiters, on)
		}
	}
}

// Read calls read with the payload of each notification of a channel, in order and one
// at a time, for as long as the Listener lives; with "" when some may have been lost.
// read must not wait for anything.
func (l *Listener) Read(channel string, read func(payload string)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.readers[channel] = append(l.readers[channel], read)
}

func (l *Listener) tell(channel, payload string) {
	l.mu.Lock()
	readers := l.readers[channel]
	l.mu.Unlock()
	for _, read := range readers {
		read(payload)
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
	l.wakeAll() // what was notified meanwhile is lost
	for {
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			return err
		}
		l.tell(n.Channel, n.Payload)
		l.wake(topic{n.Channel, ""})
		if n.Payload != "" {
			l.wake(topic{n.Channel, n.Payload})
		}
	}
}

func (l *Listener) wakeAll() {
	l.mu.Lock()
	topics, channels := slices.Collect(maps.Keys(l.waiters)), slices.Collect(maps.Keys(l.readers))
	l.mu.Unlock()
	for _, channel := range channels {
		l.tell(channel, "")
	}
	for _, on := range topics {
		l.wake(on)
	}
}

func (l *Listener) wake(on topic) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for ch := range l.waiters[on] {
		select {
		case ch <- struct{}{}:
		default: // a wake-up is already waiting
		}
	}
}
