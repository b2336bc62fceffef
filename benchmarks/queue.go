package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/holdfast-run/holdfast/clock"
	"github.com/holdfast-run/holdfast/runnerapi/wire"
)

const (
	queueRunners    = 100
	queueWorkspaces = 1000
	queueRuns       = 10 // of each workspace
	queueRate       = 30 // claims per second
	queueLength     = 30 * time.Second
	queueGoal       = 50 * time.Millisecond
)

// queue measures, with many runners and a long queue, how long a runner that has finished
// waits for its next attempt.
func queue(ctx context.Context, b *bench) (err error) {
	p, err := b.pool(ctx, "queue")
	if err != nil {
		return err
	}
	players, err := b.players(ctx, p, queueRunners)
	if err != nil {
		return err
	}
	db, err := database(ctx)
	if err != nil {
		return err
	}
	defer db.Close(context.WithoutCancel(ctx))
	if err := b.fillQueue(ctx, p, db); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dismiss(ctx, players)) }()
	cpu, err := b.watchCPU()
	if err != nil {
		return err
	}
	t, err := b.turnover(ctx, db, players)
	if err != nil {
		return err
	}
	used, claims := cpu(), float64(len(t.total)+len(players)) // each player began with one
	beside := fmt.Sprintf("meanwhile a commit %s / %s, a ping %s / %s (p50 / p99)", seconds(t.commits.median()), seconds(t.commits.percentile(99)), seconds(t.pings.median()), seconds(t.pings.percentile(99)))
	const command = "POST done, then POST poll"
	kept := float64(len(t.total)) / t.took.Seconds()
	b.table.add(row{what: "from done to the next attempt, p50", n: len(t.total), value: seconds(t.total.median()), spread: spread(t.total),
		beside: fmt.Sprintf("done %s, poll %s", seconds(t.done.median()), seconds(t.poll.median())), command: command})
	b.table.add(row{what: "from done to the next attempt, p99", n: len(t.total), value: seconds(t.total.percentile(99)),
		beside: beside, goal: b.table.judge("p99 < 50 ms", t.total.percentile(99) < queueGoal), command: command})
	b.table.add(row{what: fmt.Sprintf("claims, %d runners, %d runs waiting", queueRunners, queueWorkspaces*queueRuns), n: len(t.total), value: fmt.Sprintf("%.1f/s", kept),
		beside: load(), goal: b.table.judge(fmt.Sprintf("%d claims/s", queueRate), kept > queueRate*0.95), command: command})
	b.table.add(row{what: "CPU of a claim, with all calls of its attempt", n: int(claims), value: fmt.Sprintf("%.1f ms", 1000*(used["server"]+used["postgres"])/claims),
		beside: fmt.Sprintf("server %.1f ms, PostgreSQL %.1f ms; the store %.1f ms more", 1000*used["server"]/claims, 1000*used["postgres"]/claims, 1000*used["s3"]/claims), command: "poll, ready, accept, artifacts, done"})
	return nil
}

// fillQueue makes the waiting runs: those of one workspace through the API, the others as
// copies of its rows.
func (b *bench) fillQueue(ctx context.Context, p pool, db *pgx.Conn) error {
	s, err := b.subject(ctx, p, "queue", trivialConfiguration)
	if err != nil {
		return err
	}
	for i := range queueRuns {
		if _, err := s.run(ctx, fmt.Sprint("waits ", i), false); err != nil {
			return err
		}
	}
	if err := copyWorkspace(ctx, db, s.workspace, queueWorkspaces-1); err != nil {
		return err
	}
	var waiting, pending int
	err = db.QueryRow(ctx, "select (select count(*) from runs r join workspaces w on w.id = r.workspace_id where w.agent_pool_id = $1 and r.durable_status = 'queued'), (select count(*) from attempts where pool_id = $1 and status = 'pending')", p.id).Scan(&waiting, &pending)
	if err == nil && (waiting != queueWorkspaces*queueRuns || pending != queueWorkspaces) {
		err = fmt.Errorf("%d runs wait and %d attempts are pending, not %d and %d", waiting, pending, queueWorkspaces*queueRuns, queueWorkspaces)
	}
	return err
}

// turnover is what the players saw.
type turnover struct {
	mu                sync.Mutex
	total, done, poll sample
	commits, pings    sample // on the same machine meanwhile: what one commit and one request cost
	took              time.Duration
}

// turnover gives each player an attempt; then one after the other finishes and asks for the
// next, as many a second as the rate says, whether those before are answered or not.
func (b *bench) turnover(ctx context.Context, db *pgx.Conn, players []*player) (*turnover, error) {
	t := &turnover{}
	turns := make(chan struct{}, int(queueRate*queueLength/time.Second))
	var holding sync.WaitGroup
	holding.Add(len(players))
	group, ctx := errgroup.WithContext(ctx)
	for _, p := range players {
		group.Go(func() error {
			current, err := p.take(ctx)
			holding.Done()
			if err != nil {
				return err
			}
			return t.play(ctx, current, turns)
		})
	}
	ended := make(chan struct{})
	group.Go(func() error {
		defer close(ended)
		defer close(turns)
		holding.Wait()
		began := clock.Now()
		tick := time.NewTicker(time.Second / queueRate)
		defer tick.Stop()
		for clock.Since(began) < queueLength {
			select {
			case <-tick.C:
				turns <- struct{}{}
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		t.took = clock.Since(began)
		return nil
	})
	group.Go(func() error {
		holding.Wait()
		return t.yardstick(ctx, b.api, db, ended)
	})
	err := group.Wait()
	return t, err
}

// take gets an attempt and does what comes before its end.
func (p *player) take(ctx context.Context) (session, error) {
	work, err := p.poll(ctx, 5*time.Second)
	if err != nil {
		return session{}, err
	}
	if work == nil {
		return session{}, fmt.Errorf("a runner is offered nothing, with a full queue")
	}
	return p.begin(ctx, work)
}

// play finishes the attempt at hand at each turn, and has the next one.
func (t *turnover) play(ctx context.Context, current session, turns <-chan struct{}) error {
	for range turns {
		began := clock.Now()
		if err := current.done(ctx); err != nil {
			return err
		}
		done := clock.Since(began)
		work, err := current.poll(ctx, 5*time.Second)
		if err != nil {
			return err
		}
		total := clock.Since(began)
		if work == nil {
			return fmt.Errorf("a runner is offered nothing, with a full queue")
		}
		t.mu.Lock()
		t.total, t.done, t.poll = append(t.total, total), append(t.done, done), append(t.poll, total-done)
		t.mu.Unlock()
		if current, err = current.begin(ctx, work); err != nil {
			return err
		}
	}
	return nil
}

// begin accepts an attempt and hands over what it is to have made.
func (p *player) begin(ctx context.Context, work *wire.Assignment) (session, error) {
	s, err := p.accept(ctx, work)
	if err != nil {
		return s, err
	}
	return s, s.handOver(ctx)
}

// yardstick measures what one commit and one request without a database cost meanwhile.
func (t *turnover) yardstick(ctx context.Context, a *api, db *pgx.Conn, ended <-chan struct{}) error {
	if _, err := db.Exec(ctx, "create table if not exists benchmark_commits (at timestamptz)"); err != nil {
		return err
	}
	defer func() { _, _ = db.Exec(context.WithoutCancel(ctx), "drop table benchmark_commits") }() // the stack is ours and goes with it
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ended:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		commit, err := timed(func() error {
			_, err := db.Exec(ctx, "insert into benchmark_commits values (clock_timestamp())")
			return err
		})
		if err != nil {
			return err
		}
		ping, err := timed(func() error {
			_, err := a.do(ctx, http.MethodGet, "/api/v2/ping", nil, io.Discard)
			return err
		})
		if err != nil {
			return err
		}
		t.commits, t.pings = append(t.commits, commit), append(t.pings, ping)
	}
}
