package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/holdfast-run/holdfast/clock"
)

const (
	throughputRunners    = 2
	throughputWorkspaces = 8
	throughputWarmUp     = 30 * time.Second // at most, until the first run is finished
	throughputLength     = 30 * time.Second
	throughputLocal      = 10 * time.Second
	throughputMost       = 240 // runs a minute that there is work for
)

// everChanging has something to apply in each run.
const everChanging = `
resource "terraform_data" "a" { input = timestamp() }
output "v" { value = terraform_data.a.output }
`

// throughput measures how many runs a minute real runners plan and apply, and beside it how
// often as many shells run the same commands of tofu with the local backend.
func throughput(ctx context.Context, b *bench) error {
	p, err := b.pool(ctx, "throughput")
	if err != nil {
		return err
	}
	// A run needs somebody who has its version of OpenTofu, so one who says so comes first.
	first, err := b.players(ctx, p, 1)
	if err != nil {
		return err
	}
	if err := b.queueChanges(ctx, p); err != nil {
		return err
	}
	if err := dismiss(ctx, first); err != nil {
		return err
	}
	db, err := database(ctx)
	if err != nil {
		return err
	}
	defer db.Close(context.WithoutCancel(ctx))
	before, err := b.localRuns(ctx, throughputLocal)
	if err != nil {
		return err
	}
	perMinute, finished, err := b.remoteRuns(ctx, p, db)
	if err != nil {
		return err
	}
	after, err := b.localRuns(ctx, throughputLocal)
	if err != nil {
		return err
	}
	local := (before + after) / 2
	b.table.add(row{what: fmt.Sprintf("init, plan, show, init, apply, local backend, %d shells", throughputRunners), n: 2, value: fmt.Sprintf("%.0f/min", local),
		spread: fmt.Sprintf("%.0f – %.0f", min(before, after), max(before, after)), beside: load(), command: "tofu plan -out, tofu apply"})
	b.table.add(row{what: fmt.Sprintf("plan and apply, %d runners", throughputRunners), n: finished, value: fmt.Sprintf("%.0f/min", perMinute),
		beside: fmt.Sprintf("%.2f × local, %s", perMinute/local, load()), goal: b.table.judge("≥ 186 runs/min", perMinute >= 186), command: "POST runs, with auto-apply"})
	return nil
}

// queueChanges makes more runs than can be finished.
func (b *bench) queueChanges(ctx context.Context, p pool) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(4)
	runs := int((throughputWarmUp+throughputLength).Minutes()*throughputMost)/throughputWorkspaces + 1
	for i := range throughputWorkspaces {
		group.Go(func() error {
			s, err := b.subject(ctx, p, fmt.Sprint("throughput-", i), everChanging)
			for n := 0; n < runs && err == nil; n++ {
				_, err = s.run(ctx, fmt.Sprint("change ", n), true)
			}
			return err
		})
	}
	return group.Wait()
}

// remoteRuns lets real runners work for a while and gives the runs that they finished a
// minute, from the first one that is finished.
func (b *bench) remoteRuns(ctx context.Context, p pool, db *pgx.Conn) (perMinute float64, finished int, err error) {
	ended := make(chan error, throughputRunners)
	for i := range throughputRunners {
		stop, err := b.realRunner(ctx, p, i, ended)
		if err != nil {
			return 0, 0, err
		}
		defer stop()
	}
	before, began := 0, clock.Now()
	for before == 0 {
		if before, err = finishedRuns(ctx, db, p); err != nil {
			return 0, 0, err
		}
		if clock.Since(began) > throughputWarmUp {
			return 0, 0, fmt.Errorf("no run was finished within %s", throughputWarmUp)
		}
		select {
		case err := <-ended:
			return 0, 0, err
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return 0, 0, ctx.Err()
		}
	}
	began = clock.Now()
	select {
	case err := <-ended:
		return 0, 0, err
	case <-time.After(throughputLength):
	case <-ctx.Done():
		return 0, 0, ctx.Err()
	}
	after, err := finishedRuns(ctx, db, p)
	return float64(after-before) / clock.Since(began).Minutes(), after - before, err
}

// finishedRuns counts the runs of a pool that succeeded. One that ended otherwise is an error.
func finishedRuns(ctx context.Context, db *pgx.Conn, p pool) (n int, err error) {
	var failed string
	err = db.QueryRow(ctx, `select count(*) filter (where r.durable_status = 'succeeded'),
	       coalesce(max(r.durable_status || ': ' || r.status_message) filter (where r.finished_at is not null and r.durable_status <> 'succeeded'), '')
	  from runs r join workspaces w on w.id = r.workspace_id where w.agent_pool_id = $1`, p.id).Scan(&n, &failed)
	if err == nil && failed != "" {
		err = fmt.Errorf("a run did not succeed: %s", failed)
	}
	return n, err
}

// realRunner starts holdfast-runner. stop lets it finish what it has; when it ends before, ended says why.
func (b *bench) realRunner(ctx context.Context, p pool, number int, ended chan<- error) (stop func(), err error) {
	tofu, err := exec.LookPath("tofu")
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(b.work, fmt.Sprint("runner-", number))
	token := dir + ".token"
	if err := os.WriteFile(token, []byte(p.token), 0o600); err != nil {
		return nil, err
	}
	log, err := os.Create(dir + ".log")
	if err != nil {
		return nil, err
	}
	defer log.Close() // the child has its own descriptor
	// What it executes is ours, as with the runner of the stack, which may see the metadata address too.
	cmd := exec.CommandContext(ctx, "holdfast-runner", "--address", b.api.address, "--token-file", token, "--dir", dir, "--tofu", tofu,
		"--name", filepath.Base(dir), "--ca-file", os.Getenv("SSL_CERT_FILE"), "--allow-metadata")
	cmd.Env, cmd.Stdout, cmd.Stderr = b.environ, log, log
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 30 * time.Second
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		err := cmd.Wait()
		said, _ := os.ReadFile(log.Name()) // without it the error says less
		ended <- fmt.Errorf("holdfast-runner ended (%v):\n%s", err, end(string(said)))
	}()
	return func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // one that has ended needs none
		<-gone
	}, nil
}

// localRuns gives how often a minute as many shells as there are runners plan and apply.
func (b *bench) localRuns(ctx context.Context, length time.Duration) (perMinute float64, err error) {
	var finished atomic.Int64
	began := clock.Now()
	group, ctx := errgroup.WithContext(ctx)
	for range throughputRunners {
		f, err := b.folder(ctx, onMachine, everChanging)
		if err != nil {
			return 0, err
		}
		group.Go(func() error {
			for clock.Since(began) < length {
				for _, args := range [][]string{{"init"}, {"plan", "-out=plan"}, {"show", "-json", "plan"}, {"init"}, {"apply", "plan"}} {
					if _, _, err := f.tofu(ctx, args...); err != nil {
						return err
					}
				}
				finished.Add(1)
			}
			return nil
		})
	}
	err = group.Wait()
	return float64(finished.Load()) / clock.Since(began).Minutes(), err
}
