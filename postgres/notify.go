package postgres

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// transaction is the Tx of InTx, with the notifications that its commit lets go.
type transaction struct {
	exchange
	forgone bool // see ForgoFlush
	notes   []note
}

// note is a notification: a channel and a payload.
type note struct{ channel, payload string }

// Notify wakes those who listen on a channel (Listener) right after tx is committed; not at
// all when it is not. PostgreSQL lets only one transaction with a NOTIFY commit at a time,
// and each then waits for the disk alone, so they are sent by a statement of their own, all
// that have come up meanwhile together. A process that dies between the two sends none:
// whoever waits looks at the tables now and then.
func Notify(ctx context.Context, tx Tx, channel, payload string) error {
	n := note{channel, payload}
	if t, ours := tx.(*transaction); ours {
		if !slices.Contains(t.notes, n) {
			t.notes = append(t.notes, n)
		}
		return nil
	}
	_, err := tx.Exec(ctx, sendNotes, []string{channel}, []string{payload})
	return err
}

const sendNotes = "select pg_notify(n.channel, n.payload) from unnest($1::text[], $2::text[]) as n (channel, payload)"

// notifier sends what commits have let go. Its goroutine lives while there is something.
type notifier struct {
	pool    *pgxpool.Pool
	mu      sync.Mutex
	waiting []note
	sending bool
	ended   sync.WaitGroup
}

func (n *notifier) letGo(notes []note) {
	if len(notes) == 0 {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, one := range notes {
		if !slices.Contains(n.waiting, one) {
			n.waiting = append(n.waiting, one)
		}
	}
	if !n.sending {
		n.sending = true
		n.ended.Go(n.send)
	}
}

func (n *notifier) send() {
	for {
		n.mu.Lock()
		notes := n.waiting
		n.waiting = nil
		n.sending = len(notes) > 0
		n.mu.Unlock()
		if len(notes) == 0 {
			return
		}
		channels, payloads := make([]string, len(notes)), make([]string, len(notes))
		for i, one := range notes {
			channels[i], payloads[i] = one.channel, one.payload
		}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		if _, err := n.pool.Exec(ctx, sendNotes, channels, payloads); err != nil {
			slog.Warn("notifications were not sent; those who wait find out a little later", "count", len(notes), "error", err)
		}
		cancel()
	}
}
