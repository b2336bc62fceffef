package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/holdfast-run/holdfast/clock"
)

const (
	idleRunners = 200
	idlePoll    = 50 * time.Second // the longest that a server holds a poll
	idleLength  = 30 * time.Second
	startGoal   = 100 * time.Millisecond
)

// idle measures what connected runners without work cost, and how soon one of them has a
// new run.
func idle(ctx context.Context, b *bench) error {
	p, err := b.pool(ctx, "idle")
	if err != nil {
		return err
	}
	players, err := b.players(ctx, p, idleRunners)
	if err != nil {
		return err
	}
	db, err := database(ctx)
	if err != nil {
		return err
	}
	defer db.Close(context.WithoutCancel(ctx))
	without, err := b.effort(ctx, db, 10*time.Second)
	if err != nil {
		return err
	}
	waiting, stop := context.WithCancel(ctx)
	defer stop()
	offers := make(chan offer)
	group, waiting := errgroup.WithContext(waiting)
	for i, p := range players {
		// The first poll of each ends at another moment, as those of a fleet do.
		first := max(time.Second, idlePoll*time.Duration(i)/idleRunners)
		group.Go(func() error { return p.wait(waiting, first, offers) })
	}
	err = b.idleFigures(ctx, p, db, without, offers)
	stop()
	if waited := group.Wait(); err == nil && !errors.Is(waited, context.Canceled) {
		err = waited
	}
	return errors.Join(err, dismiss(ctx, players))
}

func (b *bench) idleFigures(ctx context.Context, p pool, db *pgx.Conn, without effort, offers <-chan offer) error {
	if err := pause(ctx, 2*time.Second); err != nil { // until all sit
		return err
	}
	with, err := b.effort(ctx, db, idleLength)
	if err != nil {
		return err
	}
	for _, service := range []struct {
		name          string
		with, without float64
	}{{"server", with.server, without.server}, {"PostgreSQL", with.postgres, without.postgres}} {
		b.table.add(row{what: fmt.Sprintf("CPU of %s, %d idle runners", service.name, idleRunners), n: 1, value: fmt.Sprintf("%.2f s/min", service.with),
			beside: fmt.Sprintf("%.2f s/min without runners, %s", service.without, load()), command: "POST poll, held 50 s"})
	}
	b.table.add(row{what: fmt.Sprintf("statements, %d idle runners", idleRunners), n: 1, value: fmt.Sprintf("%.1f/s", with.statements),
		beside: fmt.Sprintf("%.1f/s without runners", without.statements), command: "POST poll, held 50 s"})
	return b.starts(ctx, p, offers)
}

// starts measures how long new runs need until a waiting poll is answered.
func (b *bench) starts(ctx context.Context, p pool, offers <-chan offer) error {
	const rounds = 20
	s, err := b.subject(ctx, p, "idle", trivialConfiguration)
	if err != nil {
		return err
	}
	var fromRequest, fromAnswer, creates sample
	for i := range rounds {
		began := clock.Now()
		var created time.Time
		group, running := errgroup.WithContext(ctx)
		group.Go(func() error {
			_, err := s.run(running, fmt.Sprint("starts ", i), false)
			created = clock.Now()
			return err
		})
		var got offer
		select {
		case got = <-offers:
		case <-time.After(15 * time.Second):
			return errors.New("no waiting runner was offered a new run")
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := group.Wait(); err != nil {
			return err
		}
		fromRequest, fromAnswer, creates = append(fromRequest, got.at.Sub(began)), append(fromAnswer, max(0, got.at.Sub(created))), append(creates, created.Sub(began))
		if err := got.finish(ctx); err != nil {
			return err
		}
	}
	b.table.time("from POST runs sent to a waiting poll answered", "POST runs", fromRequest, fmt.Sprintf("the request itself %s, p99 %s", seconds(creates.median()), seconds(creates.percentile(99))), "")
	b.table.time("from POST runs answered to a waiting poll answered", "POST runs", fromAnswer, load(),
		b.table.judge("a new run starts within 100 ms", fromAnswer.median() <= startGoal))
	return nil
}

// offer is an attempt that a waiting player was offered.
type offer struct {
	at     time.Time
	finish func(context.Context) error
}

// wait polls again and again, and tells of each offer.
func (p *player) wait(ctx context.Context, first time.Duration, offers chan<- offer) error {
	for hold := first; ; hold = idlePoll {
		work, err := p.poll(ctx, hold)
		if err != nil {
			return err
		}
		if work == nil {
			continue
		}
		finished := make(chan struct{})
		got := offer{at: clock.Now(), finish: func(ctx context.Context) error {
			defer close(finished)
			s, err := p.begin(ctx, work)
			if err != nil {
				return err
			}
			return s.done(ctx)
		}}
		select {
		case offers <- got:
		case <-ctx.Done():
			return ctx.Err()
		}
		select {
		case <-finished:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
