//go:build unix

package pgcluster

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/holdfast-run/holdfast/clock"
	"github.com/holdfast-run/holdfast/internal/child"
	"github.com/holdfast-run/holdfast/internal/dirlock"
)

const (
	role         = "holdfast"       // the cluster's superuser
	readyWithin  = 60 * time.Second // recovery after a crash takes its time
	stopGrace    = 15 * time.Second // for a fast shutdown, which only disconnects and checkpoints
	orphanGrace  = 20 * time.Second // for a postmaster whose owner died
	pollInterval = 10 * time.Millisecond
)

// Options say where the cluster lives and how it runs.
type Options struct {
	Dir         string   // the cluster's folder; made when missing
	BinDir      string   // where initdb and postgres are; empty: search
	MoreBinDirs []string // glob patterns that are searched last, such as a download cache
	Port        int      // on 127.0.0.1; 0 takes a free one
	Durable     bool     // fsync on, for data that matters; off, tests run several times faster
	Databases   []string // databases besides "postgres" that a new cluster gets
	Buffers     uint64   // bytes of data that it keeps in memory; 0: PostgreSQL's default, 128 MB
	LogFile     string   // the server's log; empty: postgres.log in Dir
}

// Cluster is a running PostgreSQL server. It ends with Stop or with this process.
type Cluster struct {
	opts     Options
	bin      string
	account  account
	password string
	port     int
	lock     *dirlock.Lock
	process  *child.Process
}

// Start makes the cluster when its folder is new, starts it, and returns when it accepts
// connections. ctx bounds the start only. Errors: fault.Locked when another process runs
// this folder; fault.Unavailable when there are no programs, or they failed (with the end
// of what they said).
func Start(ctx context.Context, opts Options) (*Cluster, error) {
	return start(ctx, opts, accounts())
}

func start(ctx context.Context, opts Options, accounts []account) (_ *Cluster, err error) {
	if opts.Dir, err = filepath.Abs(opts.Dir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(opts.Dir, 0o700); err != nil {
		return nil, err
	}
	if opts.LogFile == "" {
		opts.LogFile = filepath.Join(opts.Dir, "postgres.log")
	}
	c := &Cluster{opts: opts, port: opts.Port}
	if c.lock, err = dirlock.Acquire(opts.Dir); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			c.Stop()
		}
	}()
	major, err := os.ReadFile(filepath.Join(c.data(), "PG_VERSION"))
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	if c.bin, err = findBinaries(ctx, opts, strings.TrimSpace(string(major))); err != nil {
		return nil, err
	}
	c.account = choose(ctx, accounts, c.bin, opts.Dir)
	if c.password, err = ensurePassword(opts.Dir); err != nil {
		return nil, err
	}
	if err := c.account.own(opts.Dir); err != nil {
		return nil, err
	}
	if err := c.initialize(ctx); err != nil {
		return nil, err
	}
	if err := endOrphan(c.data()); err != nil {
		return nil, err
	}
	if c.port == 0 {
		if c.port, err = freePort(); err != nil {
			return nil, err
		}
	}
	if err := c.launch(); err != nil {
		return nil, err
	}
	if err := c.awaitReady(ctx); err != nil {
		return nil, err
	}
	return c, nil
}

// URL gives the address of a database, password included: a secret.
func (c *Cluster) URL(database string) string {
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword(role, c.password),
		Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(c.port)), Path: "/" + database, RawQuery: "sslmode=disable",
	}
	return u.String()
}

// Pid gives the postmaster's process id.
func (c *Cluster) Pid() int { return c.process.Pid() }

// Port gives the TCP port on 127.0.0.1.
func (c *Cluster) Port() int { return c.port }

// Done is closed when the server has ended, by Stop or by itself.
func (c *Cluster) Done() <-chan struct{} { return c.process.Done() }

// Err says how the server ended, once Done is closed; nil after a regular stop.
func (c *Cluster) Err() error { return c.process.Err() }

// Stop disconnects all clients, shuts the server down and gives the folder up. After the
// server has ended by itself it gives up the folder only, so that Start works again.
func (c *Cluster) Stop() {
	if c.process != nil {
		c.process.Stop(syscall.SIGINT, stopGrace) // SIGINT is PostgreSQL's fast shutdown
	}
	c.lock.Release()
}

func (c *Cluster) data() string { return filepath.Join(c.opts.Dir, "data") }

func (c *Cluster) durability() []string {
	if c.opts.Durable {
		return nil // PostgreSQL's own defaults are the durable ones
	}
	return []string{"-c", "fsync=off", "-c", "synchronous_commit=off", "-c", "full_page_writes=off"}
}

func (c *Cluster) launch() error {
	log, err := os.OpenFile(c.opts.LogFile, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close() // the child has its own descriptor
	args := append([]string{
		"-D", c.data(), "-p", strconv.Itoa(c.port), "-k", "",
		"-c", "listen_addresses=127.0.0.1",
		"-c", "max_connections=300",
		"-c", "timezone=UTC", "-c", "log_timezone=UTC",
		"-c", "logging_collector=off",
	}, c.durability()...)
	if c.opts.Buffers > 0 {
		args = append(args, "-c", fmt.Sprintf("shared_buffers=%dkB", c.opts.Buffers>>10))
	}
	cmd := c.program(context.Background(), "postgres", args...)
	cmd.Stdout, cmd.Stderr = log, log
	c.process, err = child.Start(cmd, syscall.SIGINT)
	return err
}

// awaitReady watches the server's own status line, as pg_ctl does.
func (c *Cluster) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		if pid, status := readPidFile(c.data()); pid == c.Pid() && status == "ready" {
			return nil
		}
		select {
		case <-tick.C:
		case <-c.process.Done():
			return failed("the start of the server", c.process.Err(), c.logTail())
		case <-ctx.Done():
			return failed(fmt.Sprintf("the start of the server (not ready within %s)", readyWithin), ctx.Err(), c.logTail())
		}
	}
}

// logTail gives the last lines of the log, for an error.
func (c *Cluster) logTail() string {
	content, _ := os.ReadFile(c.opts.LogFile)
	if len(content) > 4096 {
		content = content[len(content)-4096:]
	}
	return string(bytes.TrimSpace(content))
}

// readPidFile reads postmaster.pid: line 1 is the pid, line 8 the status.
func readPidFile(data string) (pid int, status string) {
	content, err := os.ReadFile(filepath.Join(data, "postmaster.pid"))
	if err != nil {
		return 0, ""
	}
	lines := strings.Split(string(content), "\n")
	pid, _ = strconv.Atoi(strings.TrimSpace(lines[0]))
	if len(lines) >= 8 {
		status = strings.TrimSpace(lines[7])
	}
	return pid, status
}

// endOrphan makes room for a new postmaster. The caller has the folder's lock, so a
// postmaster that runs on data lost its owner: it is told to stop. PostgreSQL itself
// replaces the pid file of a dead process, but takes any living one with that number for a
// postmaster; so when the number is by now another program's, the file is removed.
// (Server processes that outlive their postmaster still keep a new one out, by their
// shared memory.)
func endOrphan(data string) error {
	deadline := clock.Now().Add(orphanGrace)
	for told := false; ; time.Sleep(pollInterval) {
		pid, _ := readPidFile(data)
		if pid <= 0 || syscall.Kill(pid, 0) != nil {
			return nil
		}
		if !isPostmaster(pid, data) {
			return os.Remove(filepath.Join(data, "postmaster.pid"))
		}
		if !told {
			_ = syscall.Kill(pid, syscall.SIGINT)
			told = true
		}
		if clock.Now().After(deadline) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// freePort finds a port that nobody listens on now. It lies below those that systems give to
// outgoing connections: nobody gets it by chance between the choice and its use, nor while a
// server that was killed starts again.
func freePort() (port int, err error) {
	for range 100 {
		port = 20000 + rand.IntN(10000)
		var l net.Listener
		if l, err = net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err == nil {
			return port, l.Close()
		}
	}
	return 0, err
}
