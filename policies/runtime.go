package policies

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/gates"
	"github.com/holdfast-run/holdfast/policies/evaluator"
)

// Limits bound every policy-runner.
type Limits struct {
	Memory int64         // bytes of one process
	Time   time.Duration // of one process; it is killed then
	Budget time.Duration // of one policy
	Plan   int64         // bytes of a derivative
}

// DefaultLimits are what a server starts with.
func DefaultLimits() Limits {
	return Limits{Memory: 1 << 30, Time: 60 * time.Second, Budget: 10 * time.Second, Plan: 256 << 20}
}

// Check refuses limits under which nothing could be judged.
func (l Limits) Check() error {
	switch {
	case l.Memory < 128<<20:
		return fmt.Errorf("a policy-runner needs at least %d bytes of memory", 128<<20)
	case l.Budget <= 0 || l.Time <= l.Budget:
		return fmt.Errorf("the time of a policy-runner (%s) must be longer than the budget of one policy (%s)", l.Time, l.Budget)
	}
	return nil
}

// mostMessage bounds one message of a policy, in bytes.
const mostMessage = 2000

// Runtime starts policy-runners: children of the server, of the server's own program. They have
// no environment, no open file but their pipes, the limits of package evaluator, and a network
// namespace of their own, in which there is nothing, where the system gives one.
type Runtime struct {
	path    string
	release gates.Release
	limits  Limits
	slots   chan struct{} // how many may run at a time, so that policies do not starve the server
	shared  atomic.Bool   // the system gives no namespaces
}

// self is this very program, also after its file was replaced by a newer one.
const self = "/proc/self/exe"

// NewRuntime makes the runtime of this very program.
func NewRuntime(version string, limits Limits) (*Runtime, error) {
	path := self
	if runtime.GOOS != "linux" {
		executable, err := os.Executable()
		if err != nil {
			return nil, err
		}
		path = executable
	}
	return RuntimeAt(path, version, limits)
}

// RuntimeAt makes the runtime of the program at path, which is a policy-runner when its argument
// is evaluator.Command. Its release is the version and the SHA-256 of the program's file.
func RuntimeAt(path, version string, limits Limits) (*Runtime, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read the program to name its release: %w", err)
	}
	defer func() { _ = file.Close() }()
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return nil, fmt.Errorf("read the program to name its release: %w", err)
	}
	return &Runtime{
		path: path, limits: limits, slots: make(chan struct{}, max(1, runtime.NumCPU()/2)),
		release: gates.Release{Version: version, Digest: hex.EncodeToString(sum.Sum(nil))},
	}, nil
}

// Release is what the allow-list of policy runtimes knows (PO-07, PO-17).
func (r *Runtime) Release() gates.Release { return r.release }

// Publish compiles a bundle and runs its tests.
func (r *Runtime) Publish(ctx context.Context, b evaluator.Bundle) (v evaluator.Verdict, err error) {
	err = r.answer(ctx, evaluator.Request{Mode: evaluator.Publish, Bundle: &b}, nil, &v)
	if fault.HasCode(err, codeTime) || fault.HasCode(err, codeMemory) {
		err = fault.New(fault.Invalid, codeRefused, "The policies are refused: to compile and test them took too long, or too much memory.").Because(err)
	}
	return v, err
}

// Derive writes the derivative of a plan to out. open gives the plan, twice: it is read once to
// learn its secrets. known is what is secret beside those.
func (r *Runtime) Derive(ctx context.Context, open func() (io.ReadCloser, error), known evaluator.Secrets, run json.RawMessage, out io.Writer) error {
	first, err := open()
	if err != nil {
		return err
	}
	defer func() { _ = first.Close() }() // read to its end, or given up
	second, err := open()
	if err != nil {
		return err
	}
	defer func() { _ = second.Close() }()
	return r.run(ctx, evaluator.Request{Mode: evaluator.Derive, Known: known, Run: run}, io.MultiReader(first, second), &limited{out, r.limits.Plan})
}

// Evaluate judges a derivative.
func (r *Runtime) Evaluate(ctx context.Context, b evaluator.Bundle, parameters map[string]string, derivative io.Reader) (list []evaluator.Outcome, err error) {
	err = r.answer(ctx, evaluator.Request{Mode: evaluator.Evaluate, Bundle: &b, Parameters: parameters}, derivative, &list)
	return list, err
}

const mostAnswer = 16 << 20

func (r *Runtime) answer(ctx context.Context, request evaluator.Request, body io.Reader, into any) error {
	var out bytes.Buffer
	if err := r.run(ctx, request, body, &limited{&out, mostAnswer}); err != nil {
		return err
	}
	if err := json.Unmarshal(out.Bytes(), into); err != nil {
		return crashed("its answer cannot be read").Because(err)
	}
	return nil
}

// limited refuses more than left bytes.
type limited struct {
	to   io.Writer
	left int64
}

func (l *limited) Write(p []byte) (int, error) {
	if int64(len(p)) > l.left {
		return 0, errTooMuch
	}
	l.left -= int64(len(p))
	return l.to.Write(p)
}

var errTooMuch = errors.New("a policy-runner writes too much")

// What a policy-runner's end is called.
const (
	codeTime    = "policy_time"    // it took too long
	codeMemory  = "policy_memory"  // it needed too much memory
	codeInput   = "policy_input"   // it could not read what it was given
	codeCrashed = "policy_crashed" // anything else
	codeDamaged = "policy_bundle_damaged"

	// InputDamaged is the code of a derivative that is not the one that was bound.
	InputDamaged = "policy_input_damaged"
)

// Fault tells whether an error is a policy-runner's, and not of what it was to be given.
func Fault(err error) bool {
	for _, code := range []string{codeTime, codeMemory, codeInput, codeCrashed, codeDamaged, InputDamaged} {
		if fault.HasCode(err, code) {
			return true
		}
	}
	return false
}

func crashed(how string) *fault.Error {
	return fault.New(fault.Internal, codeCrashed, "The policy-runner failed: %s.", how)
}

// run starts one policy-runner and gives it the request and the body. Errors: Invalid
// "policy_memory" and "policy_input", which a repeat would not change; Unavailable
// "policy_time"; Internal "policy_crashed"; those of body and out; that of an ended ctx.
func (r *Runtime) run(ctx context.Context, request evaluator.Request, body io.Reader, out io.Writer) error {
	select {
	case r.slots <- struct{}{}:
		defer func() { <-r.slots }()
	case <-ctx.Done():
		return ctx.Err()
	}
	request.Limits = evaluator.Limits{Memory: r.limits.Memory, Time: r.limits.Time, Budget: r.limits.Budget, Message: mostMessage}
	line, err := json.Marshal(request)
	if err != nil {
		return err
	}
	if body == nil {
		body = bytes.NewReader(nil)
	}
	source := &watched{reader: body}
	within, cancel := context.WithTimeout(ctx, r.limits.Time+time.Second)
	defer cancel()
	sink := &sink{to: out}
	said, err := r.start(within, io.MultiReader(bytes.NewReader(append(line, '\n')), source), sink)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case source.err != nil:
		return source.err
	case errors.Is(sink.err, errTooMuch):
		return fault.New(fault.Invalid, codeInput, "The plan is too large for policies: its derivative would have more than %d bytes.", r.limits.Plan)
	case sink.err != nil:
		return sink.err
	case err == nil:
		return nil
	}
	return r.ending(within, err, said)
}

// ending says why a policy-runner ended badly.
func (r *Runtime) ending(within context.Context, err error, said string) error {
	var exit *exec.ExitError
	switch {
	case within.Err() != nil:
		return fault.New(fault.Unavailable, codeTime, "The policy-runner took more than %s and was stopped.", r.limits.Time)
	case !errors.As(err, &exit):
		return crashed("it cannot be started").Because(err)
	case exit.ExitCode() == evaluator.ExitRefused:
		return fault.New(fault.Invalid, codeInput, "The policy-runner cannot read what it was given: %s", said)
	case evaluator.OutOfMemory(said):
		return fault.New(fault.Invalid, codeMemory, "The policy-runner needed more than %d MiB of memory and was stopped.", r.limits.Memory>>20)
	}
	slog.Error("a policy-runner crashed", "error", err, "said", said)
	return crashed(exit.String()).Because(err)
}

// watched keeps the error of a reader that a child reads.
type watched struct {
	reader io.Reader
	err    error
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		w.err = err
	}
	return n, err
}

// sink keeps the error of a writer that a child writes to.
type sink struct {
	to  io.Writer
	err error
}

func (s *sink) Write(p []byte) (int, error) {
	n, err := s.to.Write(p)
	if err != nil {
		s.err = err
	}
	return n, err
}

// start runs the child to its end; said is the beginning of its error output. The thread is
// held, because the child ends with it.
func (r *Runtime) start(ctx context.Context, in io.Reader, out io.Writer) (said string, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var errs bytes.Buffer
	command := func() *exec.Cmd {
		cmd := exec.CommandContext(ctx, r.path, evaluator.Command)
		cmd.Env, cmd.Dir = []string{}, "/"
		cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, &limited{&errs, 64 << 10}
		cmd.WaitDelay = 2 * time.Second
		return cmd
	}
	cmd := command()
	isolate(cmd, !r.shared.Load())
	err = cmd.Start()
	if refused := err; refused != nil && !r.shared.Load() && refusesNamespaces(refused) {
		cmd = command()
		isolate(cmd, false)
		if err = cmd.Start(); err == nil {
			slog.Warn("the system gives policy-runners no network namespace; Rego's capabilities alone keep them from the network", "error", refused)
			r.shared.Store(true)
		}
	}
	if err != nil {
		return "", err
	}
	err = cmd.Wait()
	text := errs.String()
	if len(text) > mostMessage {
		text = text[:mostMessage]
	}
	return strings.TrimSpace(strings.ToValidUTF8(text, "�")), err
}
