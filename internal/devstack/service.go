//go:build unix

package devstack

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/holdfast-run/holdfast/clock"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/internal/child"
)

const (
	firstBackoff = 100 * time.Millisecond
	maxBackoff   = 5 * time.Second
	steadyAfter  = 10 * time.Second // a service that lived so long starts again without delay
)

// process is a running service. Stop ends it, and sooner once hurry is done.
type process interface {
	Pid() int
	Done() <-chan struct{}
	Err() error
	Stop(hurry context.Context)
}

// service is one process of the stack, started again whenever it ends by itself.
type service struct {
	name  string
	start func(ctx context.Context) (process, error)
	ready func(ctx context.Context) error // nil once it serves; no function: it serves at once

	layout layout
	say    func(format string, args ...any)
	quit   chan context.Context // stop sends the hurry context; then the loop ends
	ended  chan struct{}
}

// run starts the service, returns when it is ready, and watches over it from then on.
func (s *service) run(ctx context.Context) error {
	p, err := s.start(ctx)
	if err != nil {
		return fmt.Errorf("start %s: %w", s.name, err)
	}
	err = writePrivate(s.layout.pid(s.name), strconv.Itoa(p.Pid())+"\n")
	if err == nil {
		err = s.awaitReady(ctx, p)
	}
	if err != nil {
		p.Stop(hurried())
		_ = os.Remove(s.layout.pid(s.name))
		return err
	}
	s.quit, s.ended = make(chan context.Context, 1), make(chan struct{})
	go s.watch(p)
	return nil
}

func (s *service) awaitReady(ctx context.Context, p process) error {
	if s.ready == nil {
		return nil
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		lastErr := s.ready(ctx)
		if lastErr == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-p.Done():
			return fault.New(fault.Unavailable, "service_failed", "%s ended while it started (%s). The end of %s:\n%s",
				s.name, outcome(p.Err()), s.layout.log(s.name), tail(s.layout.log(s.name)))
		case <-ctx.Done():
			return fault.New(fault.Unavailable, "service_failed", "%s did not get ready (%v). Its log is %s.",
				s.name, lastErr, s.layout.log(s.name)).Because(ctx.Err())
		}
	}
}

// watch keeps the service running until stop.
func (s *service) watch(p process) {
	defer close(s.ended)
	defer func() { _ = os.Remove(s.layout.pid(s.name)) }()
	backoff := firstBackoff
	for {
		since := clock.Now()
		select {
		case hurry := <-s.quit:
			p.Stop(hurry)
			return
		case <-p.Done():
		}
		s.say("%s (process %d) ended: %s. Starting it again.", s.name, p.Pid(), outcome(p.Err()))
		p.Stop(hurried()) // it has ended; this frees what its owner still holds
		if clock.Since(since) > steadyAfter {
			backoff = firstBackoff
		}
		var ok bool
		if p, ok = s.again(&backoff); !ok {
			return
		}
		s.say("%s runs again (process %d).", s.name, p.Pid())
	}
}

// again starts the service until that succeeds; false means that it was told to stop meanwhile.
func (s *service) again(backoff *time.Duration) (process, bool) {
	for {
		select {
		case <-s.quit:
			return nil, false
		case <-time.After(*backoff):
		}
		*backoff = min(2*(*backoff), maxBackoff)
		p, err := s.start(context.Background())
		if err == nil {
			err = writePrivate(s.layout.pid(s.name), strconv.Itoa(p.Pid())+"\n")
			if err == nil {
				return p, true
			}
			p.Stop(hurried())
		}
		s.say("%s cannot be started: %v", s.name, err)
	}
}

// stop ends the service and returns when it is gone.
func (s *service) stop(hurry context.Context) {
	if s.quit == nil {
		return // it never ran
	}
	s.quit <- hurry
	<-s.ended
}

// hurried is a context for Stop that leaves no time.
func hurried() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// outcome says how a process ended.
func outcome(err error) string {
	if err == nil {
		return "exit code 0"
	}
	return err.Error()
}

func tail(file string) string {
	content, _ := os.ReadFile(file)
	lines := strings.Split(strings.TrimSpace(string(content)), "\n")
	return strings.Join(lines[max(0, len(lines)-15):], "\n")
}

// program is a service that is a plain child process.
type program struct {
	*child.Process
	grace time.Duration
}

// startProgram starts a program that logs into the service's log file. On SIGTERM it has
// grace to end.
func startProgram(l layout, name string, grace time.Duration, environ []string, path string, args ...string) (program, error) {
	log, err := os.OpenFile(l.log(name), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return program{}, err
	}
	defer log.Close() // the child has its own descriptor
	cmd := exec.Command(path, args...)
	cmd.Env, cmd.Dir = environ, l.dir
	cmd.Stdout, cmd.Stderr = log, log
	started, err := child.Start(cmd, syscall.SIGTERM)
	if err != nil {
		return program{}, err
	}
	return program{started, grace}, nil
}

// Stop asks the program to end, and kills it when its grace is over or hurry is done.
func (p program) Stop(hurry context.Context) {
	finished := make(chan struct{})
	defer close(finished)
	go func() {
		select {
		case <-hurry.Done():
			p.Signal(syscall.SIGKILL)
		case <-finished:
		}
	}()
	p.Process.Stop(syscall.SIGTERM, p.grace)
}

// runnerProgram is the runner, which may be in the middle of a run. The first SIGTERM lets
// it finish; the second makes it interrupt tofu, which then still saves what it has made. A
// runner that is killed instead leaves a run of which nobody knows what it did.
type runnerProgram struct{ program }

// Stop asks twice before the grace is over.
func (p runnerProgram) Stop(hurry context.Context) {
	insist := time.AfterFunc(runnerInsist, func() { p.Signal(syscall.SIGTERM) })
	defer insist.Stop()
	p.program.Stop(hurry)
}
