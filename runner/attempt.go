package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-run/holdfast/clock"
	"github.com/holdfast-run/holdfast/runnerapi/wire"
)

// attempt is the execution of one phase of one run.
type attempt struct {
	id        string
	server    *server
	session   wire.Session
	manifest  wire.Manifest
	sandbox   sandbox
	folder    folder
	binary    binary
	host      string
	providers providerSources
	enclosure *enclosure
	shelf     shelf // of the cache of providers
	caFile    string
	// costCommand puts a price on a plan; empty where none is configured.
	costCommand string
	log         *logs
	stop        *stopper
	over        bool   // nothing works in the sandbox any more
	relay       *relay // tofu's way to the server, once it is prepared

	// end is the context of all calls: it outlives a stop, and ends with the authority
	// of the attempt. working ends with a stop, too.
	end     context.Context
	working context.Context
}

// execute does an assignment from ready to done. It logs what goes wrong, and the
// server finds out by itself what it was not told.
func (r *runner) execute(work wire.Assignment) {
	slog.Info("attempt assigned", "attempt", work.AttemptID, "run", work.RunID, "phase", work.Phase)
	a, cancel, err := r.accept(work)
	if err != nil {
		slog.Error("attempt not started", "attempt", work.AttemptID, "error", err)
		return
	}
	defer cancel()
	defer func() {
		if a.over { // else a tofu may still work there
			a.remove()
		}
	}()

	beside, rest := context.WithCancel(a.end)
	var helpers sync.WaitGroup
	defer func() { rest(); helpers.Wait() }()
	helpers.Go(func() { a.watch(beside) })
	helpers.Go(func() { a.guard(beside, r.cfg.Interrupt) })
	human := a.beginShipping(wire.StreamHuman, a.log.human)
	var events <-chan arrival
	if a.log.events != nil {
		events = a.beginShipping(wire.StreamJSON, a.log.events.to)
	}

	done := a.run()

	a.log.close()
	arrived := <-human
	done.LogSize, done.LogTruncated = arrived.size, arrived.truncated
	if events != nil {
		arrived = <-events
		done.JSONLogSize, done.LogTruncated = arrived.size, done.LogTruncated || arrived.truncated
	}
	a.report(done)
}

// arrival is what has become of a log.
type arrival struct {
	size      int64 // bytes that the server has
	truncated bool  // they are not all of it (PL-04)
}

// beginShipping ships a log beside the run, and gives in the end how much of it the
// server has.
func (a *attempt) beginShipping(stream string, log *spool) <-chan arrival {
	shipped := make(chan arrival, 1)
	go func() {
		size, err := shipment{attempt: a, stream: stream, log: log}.ship(a.end)
		if err != nil {
			slog.Error("a log did not reach the server whole", "attempt", a.id, "stream", stream, "error", err)
		}
		shipped <- arrival{size, err != nil || log.truncated()}
	}()
	return shipped
}

// accept makes the sandbox and takes the assignment over. From then on the attempt
// has authority, until its session ends.
func (r *runner) accept(work wire.Assignment) (*attempt, context.CancelFunc, error) {
	box, err := newSandbox(r.dir.attempts())
	if err != nil {
		return nil, nil, err
	}
	a := &attempt{
		id: work.AttemptID, server: r.server, sandbox: box, folder: r.dir, binary: r.tofu,
		host: r.host, providers: r.providers, enclosure: r.enclosure, caFile: r.cfg.CAFile, costCommand: r.cfg.CostCommand, stop: newStopper(),
	}
	lifetime, err := a.takeOver(r.cfg.Token, r.release, work, r.cfg.Interrupt)
	if err != nil {
		a.remove()
		return nil, nil, err
	}
	a.shelf = r.packages.shelf(work.OrganizationID, speculative(a.manifest))
	end, cancel := context.WithTimeout(context.Background(), lifetime)
	working, cancelWork := context.WithCancel(end)
	a.end, a.working = end, working
	go func() {
		select {
		case <-a.stop.wanted:
			cancelWork()
		case <-end.Done():
		}
	}()
	return a, func() { cancelWork(); cancel() }, nil
}

// acceptPatience is how long beyond the offer's end the runner asks for an answer to its
// accept: the server may have taken it, and then nobody else executes the attempt.
const acceptPatience = 3 * time.Minute

func timeToAccept(offerEnds, now time.Time) time.Duration {
	return max(offerEnds.Sub(now), callLimit) + acceptPatience
}

// takeOver signals ready and accepts. It gives the time that the session lasts.
func (a *attempt) takeOver(groupToken string, release wire.Release, work wire.Assignment, interrupt <-chan struct{}) (lifetime time.Duration, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeToAccept(work.ExpiresAt, clock.Now()))
	defer cancel()
	go func() {
		select {
		case <-interrupt:
			cancel()
		case <-ctx.Done():
		}
	}()
	err = a.server.do(ctx, request{method: http.MethodPost, path: withID(wire.PathReady, work.RunnerID), token: groupToken}, nil)
	if err != nil {
		return 0, fmt.Errorf("signal ready: %w", err)
	}
	now := clock.Now()
	read := func(resp *http.Response) error {
		// Lifetimes are counted by the server's clock: the one here may be wrong.
		if at, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
			now = at
		}
		return decodeJSON(resp, &a.session)
	}
	err = a.server.do(ctx, request{
		method: http.MethodPost, path: withID(wire.PathAccept, work.AttemptID), token: groupToken,
		body: jsonBody(wire.Accept{RunnerID: work.RunnerID, SandboxID: a.sandbox.id, JSONLog: a.binary.events, Bootstrap: true, Release: release}),
	}, read)
	if err != nil {
		return 0, fmt.Errorf("accept: %w", err)
	}
	if capability := a.session.BootstrapCapability; capability != "" { // an older server answers the session at once
		err = a.server.do(ctx, request{
			method: http.MethodPost, path: withID(wire.PathBootstrap, work.AttemptID), token: capability,
			body: jsonBody(wire.Bootstrap{RunnerID: work.RunnerID, Phase: work.Phase, SandboxID: a.sandbox.id}),
		}, read)
		if err != nil {
			return 0, fmt.Errorf("redeem the session: %w", err)
		}
	}
	if err := json.Unmarshal(a.session.Manifest, &a.manifest); err != nil {
		return 0, fmt.Errorf("read the manifest: %w", err)
	}
	if err := a.noteEmergency(); err != nil {
		return 0, err
	}
	a.log, err = openLogs(a.sandbox, a.manifest, a.binary.events)
	if err != nil {
		return 0, err
	}
	return a.session.ExpiresAt.Sub(now), nil
}

// remove deletes the sandbox. It stays when it holds a state that could not be moved to safety.
func (a *attempt) remove() {
	if a.log != nil {
		a.log.remove()
	}
	if a.sandbox.work != "" {
		if _, err := os.Lstat(a.sandbox.erroredState()); err == nil {
			slog.Error("a state that could not be published is still in the folder of its attempt; the folder stays", "folder", a.sandbox.path)
			return
		}
	}
	if err := removeSandbox(a.sandbox.path); err != nil {
		slog.Error("could not remove the folder of an attempt", "folder", a.sandbox.path, "error", err)
	}
}

// failure is an end that tofu's own log does not explain: its text goes to the
// server, and so names no secret.
type failure struct {
	text     string
	exitCode int
	killed   bool   // tofu did not end by itself, so nobody knows how far it came
	reason   string // one of wire's Reasons, or empty
}

func (f *failure) Error() string { return f.text }

// fail makes a failure of what went wrong before tofu ran.
func fail(format string, args ...any) error {
	return &failure{text: fmt.Sprintf(format, args...), exitCode: noExitCode}
}

// misfit makes a failure of a runner that cannot execute the attempt at all.
func misfit(format string, args ...any) error {
	return &failure{text: fmt.Sprintf(format, args...), exitCode: noExitCode, reason: wire.ReasonDispatchFailed}
}

// tofuFailed makes a failure of a command of tofu. What tofu printed is in the log,
// and only there.
func tofuFailed(command string, err error) error {
	if errors.Is(err, errLost) {
		return err
	}
	f := &failure{exitCode: exitCode(err)}
	var exit *exec.ExitError
	switch {
	case f.exitCode == noExitCode && errors.As(err, &exit):
		f.killed = true
		f.text = fmt.Sprintf("tofu %s was ended from outside (%s), as a system does that runs out of memory.", command, exit.ProcessState)
	case f.exitCode == noExitCode:
		f.text = fmt.Sprintf("tofu %s could not be run.", command)
	default:
		f.text = fmt.Sprintf("tofu %s ended with exit code %d; the log says why.", command, f.exitCode)
	}
	f.reason = reasonOf(err)
	return f
}

// unsupported is what tofu says, over several lines, of a provider that has no package
// for the platform, whether it comes from a registry or from a mirror.
const unsupported = "package available for your current platform"

// reasonOf tells what is no fault of the configuration from the error of a command of
// tofu, which has all that tofu printed to stderr.
func reasonOf(err error) string {
	var spawn *fs.PathError // of fork and exec: the process was never there
	switch {
	case strings.Contains(strings.Join(strings.Fields(err.Error()), " "), unsupported):
		return wire.ReasonUnsupportedProvider
	case errors.Is(err, exec.ErrNotFound), errors.As(err, &spawn) && spawn.Op == "fork/exec":
		return wire.ReasonDispatchFailed
	}
	return ""
}

// run executes the phase and says how it went.
func (a *attempt) run() wire.Done {
	done := wire.Done{TofuVersion: a.binary.version, TofuDigest: a.binary.digest}
	a.log.Printf("OpenTofu v%s", a.binary.version)
	a.log.Printf("on %s", platform)
	a.log.Printf("Initializing plugins and modules...") // a client drops these three lines of an apply's log (NC-11)

	var err error
	switch a.manifest.Phase {
	case "plan":
		err = a.plan(&done)
	case "apply":
		err = a.apply(&done)
	default:
		err = fail("This runner does not know the phase %q; update it.", a.manifest.Phase)
	}
	if a.relay != nil {
		a.relay.close()
	}
	a.conclude(&done, err)
	return done
}

// conclude turns the end of the phase into its outcome. An apply that was killed has an
// unknown one: it may have made what no state tells of. What went wrong is not written
// to the log here: the server ends a log with the reason for the run's end.
func (a *attempt) conclude(done *wire.Done, err error) {
	var f *failure
	a.over = !errors.Is(err, errLost)
	switch {
	case err == nil:
		done.Outcome = wire.OutcomeFinished
		if done.Message != "" {
			a.log.Printf("\nWarning: %s", done.Message)
		}
		return
	case errors.Is(err, errLost):
		done.Outcome, done.ExitCode, done.Message = wire.OutcomeUnknown, noExitCode, "tofu did not end although it was killed."
	case errors.As(err, &f):
		done.Outcome, done.ExitCode, done.Message = wire.OutcomeErrored, f.exitCode, f.text
		done.Reason = f.reason
	default:
		done.Outcome, done.ExitCode, done.Message = wire.OutcomeErrored, noExitCode, err.Error()
	}
	if why := a.stop.why(); why != "" && done.Outcome == wire.OutcomeErrored {
		switch why {
		case stopCanceled:
			done.Outcome, done.Message = wire.OutcomeCanceled, "The run was canceled."
		case stopTimedOut:
			done.Outcome, done.Message = wire.OutcomeTimedOut, fmt.Sprintf("The run took longer than the %d seconds it may take.", a.manifest.MaxSeconds)
		case stopShutdown:
			done.Message = "The runner was told to end at once."
		default: // it used too much
			done.Message = string(why)
		}
	}
	if done.Outcome == wire.OutcomeErrored && done.TofuStarted && f != nil && f.killed {
		done.Outcome = wire.OutcomeUnknown
	}
	done.Plan = nil // of a finished plan only
}
