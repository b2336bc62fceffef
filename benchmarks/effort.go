package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-run/holdfast/clock"
)

// effort is what the services of the stack do: seconds of CPU a minute, statements a second.
type effort struct{ server, postgres, statements float64 }

// effort watches the CPU for a while, and after it the statements: writing those down costs
// CPU itself.
func (b *bench) effort(ctx context.Context, db *pgx.Conn, length time.Duration) (e effort, err error) {
	began := clock.Now()
	used, err := b.watchCPU()
	if err != nil {
		return e, err
	}
	if err := pause(ctx, length); err != nil {
		return e, err
	}
	seconds, minutes := used(), clock.Since(began).Minutes()
	e.server, e.postgres = seconds["server"]/minutes, seconds["postgres"]/minutes
	e.statements, err = b.statementsPerSecond(ctx, db, length/2)
	return e, err
}

// watchCPU gives a function that tells how many seconds of CPU each service has used since.
func (b *bench) watchCPU() (used func() map[string]float64, err error) {
	pids, before := map[string]int{}, map[string]float64{}
	for _, service := range []string{"server", "postgres", "s3"} {
		p, err := b.process(service)
		if err != nil {
			return nil, err
		}
		pids[service], before[service] = p.pid, cpuOf(p.pid)
		if before[service] == 0 {
			return nil, fmt.Errorf("/proc does not say what %s uses", service)
		}
	}
	return func() map[string]float64 {
		since := map[string]float64{}
		for service, pid := range pids {
			since[service] = cpuOf(pid) - before[service]
		}
		return since
	}, nil
}

// statementsPerSecond counts what PostgreSQL is asked, by its log.
func (b *bench) statementsPerSecond(ctx context.Context, db *pgx.Conn, length time.Duration) (perSecond float64, err error) {
	stop, err := logStatements(ctx, db)
	if err != nil {
		return 0, err
	}
	defer func() {
		if stopped := stop(); err == nil {
			err = stopped
		}
	}()
	log := filepath.Join(b.data, "logs", "postgres.log")
	before, err := os.Stat(log)
	if err != nil {
		return 0, err
	}
	began := clock.Now()
	if err := pause(ctx, length); err != nil {
		return 0, err
	}
	took := clock.Since(began)
	file, err := os.Open(log)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	said, err := io.ReadAll(io.NewSectionReader(file, before.Size(), 64<<20))
	return float64(countIn(said).statements) / took.Seconds(), err
}

// cpuOf is the processor time in seconds that a process and its children have used.
func cpuOf(pid int) float64 {
	var ticks int64
	entries, _ := os.ReadDir("/proc") // without /proc nothing is used, which watchCPU refuses
	for _, entry := range entries {
		line, err := os.ReadFile(filepath.Join("/proc", entry.Name(), "stat"))
		if err != nil {
			continue // no process, or one that has just ended
		}
		if used, parent, err := cpuIn(string(line)); err == nil && (parent == pid || entry.Name() == fmt.Sprint(pid)) {
			ticks += used
		}
	}
	const ticksPerSecond = 100 // USER_HZ, the same on every Linux
	return float64(ticks) / ticksPerSecond
}

// cpuIn is the processor time that a process and those of its children that have ended have
// used, in ticks, and its parent, from its line in /proc/PID/stat.
func cpuIn(stat string) (ticks int64, parent int, err error) {
	// The name of the program, in parentheses, may hold blanks and parentheses itself.
	_, fields, found := strings.Cut(stat, "(")
	if end := strings.LastIndexByte(fields, ')'); found && end >= 0 {
		fields = fields[end+1:]
	} else {
		return 0, 0, fmt.Errorf("no line of /proc/PID/stat: %q", stat)
	}
	var state string
	var skip, user, system, childUser, childSystem int64
	_, err = fmt.Sscan(fields, &state, &parent, &skip, &skip, &skip, &skip, &skip, &skip, &skip, &skip, &skip, &user, &system, &childUser, &childSystem)
	return user + system + childUser + childSystem, parent, err
}

// load says how busy the machine was in the last minute: how many processes wanted to run.
func load() string {
	content, err := os.ReadFile("/proc/loadavg")
	first, _, found := strings.Cut(string(content), " ")
	if err != nil || !found {
		return "load unknown"
	}
	return "load " + first
}

// pause waits, unless everything ends meanwhile.
func pause(ctx context.Context, length time.Duration) error {
	select {
	case <-time.After(length):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
