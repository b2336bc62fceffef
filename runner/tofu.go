package runner

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/hashicorp/terraform-exec/tfexec"

	"github.com/holdfast-run/holdfast/runnerapi/wire"
)

const (
	lookEvery   = 5 * time.Millisecond // how often a tofu that was just started is looked for
	afterKill   = 10 * time.Second     // how long a killed tofu may take to be gone
	noExitCode  = -1                   // tofu did not run, or ended by a signal
	planChanges = 2                    // exit code of `plan -detailed-exitcode` when there are changes
)

// errLost is the end of a tofu that could not even be killed.
var errLost = errors.New("tofu did not end although it was killed")

// tofu runs the commands of one attempt, through terraform-exec, one after the other.
type tofu struct {
	tf    *tfexec.Terraform
	path  string
	dir   string // real path of the folder it runs in
	env   map[string]string
	log   *logs
	pipe  string // where the pipe of its events is made
	stop  *stopper
	grace time.Duration // from the interrupt to the kill
	// applying: tofu may be making things, and needs all of the grace to write them down.
	applying bool
	meter    *meter // of what it may use; nil without an enclosure
}

// newTofu prepares tofu to run in the sandbox. What it prints goes to log, which must never fail.
func newTofu(path string, box sandbox, env map[string]string, log *logs, stop *stopper, grace time.Duration, meter *meter) (*tofu, error) {
	tf, err := tfexec.NewTerraform(box.work, path)
	if err != nil {
		return nil, err
	}
	// SetEnv refuses TF_VAR_ names: input variables have options of their own. But a
	// workspace may set them, with the low precedence that only the environment has. The
	// map stays ours, so they are added behind its back (TestEnvironmentReachesTofu).
	plain := maps.Clone(env)
	maps.DeleteFunc(plain, func(name, _ string) bool { return strings.HasPrefix(name, "TF_VAR_") })
	if err := tf.SetEnv(plain); err != nil {
		return nil, err
	}
	maps.Copy(plain, env)
	tf.SetStdout(log)
	tf.SetStderr(log)
	return &tofu{tf: tf, path: path, dir: box.work, env: plain, log: log, pipe: box.eventPipe(), stop: stop, grace: grace, meter: meter}, nil
}

// init prepares the folder for a plan; its log tells what is installed. terraform-exec would
// first start tofu once more, for options that tofu has not had for long.
func (t *tofu) init() error {
	return t.supervise(func() error {
		errorText := &lastBytes{most: 64 << 10}
		err := t.command(t.log, io.MultiWriter(t.log, errorText), "init", "-no-color", "-input=false")
		if err != nil {
			err = fmt.Errorf("%w\n%s", err, errorText.kept)
		}
		return err
	})
}

// initAgain prepares the folder for the apply of a plan. With readonlyLock it keeps to
// the lock file as it is. The plan's log has told the same, so this is said only when it fails.
func (t *tofu) initAgain(readonlyLock bool) error {
	said := &lastBytes{most: 64 << 10}
	args := []string{"init", "-no-color", "-input=false"}
	if readonlyLock {
		args = append(args, "-lockfile=readonly")
	}
	err := t.supervise(func() error { return t.command(said, said, args...) })
	if err != nil && !errors.Is(err, errLost) {
		_, _ = t.log.Write(said.kept)
	}
	return err
}

// plan writes the plan file and says whether it has changes.
func (t *tofu) plan(m wire.Manifest, file, generated string) (changes bool, err error) {
	// The run's workspace is locked already, by the run.
	options := []tfexec.PlanOption{
		tfexec.Out(file), tfexec.Lock(false), tfexec.Destroy(m.Destroy),
		tfexec.Refresh(m.Refresh || m.RefreshOnly), tfexec.RefreshOnly(m.RefreshOnly),
	}
	for _, address := range m.TargetAddrs {
		options = append(options, tfexec.Target(address))
	}
	for _, address := range m.ReplaceAddrs {
		options = append(options, tfexec.Replace(address))
	}
	if m.GenerateConfig {
		options = append(options, tfexec.GenerateConfigOut(generated))
	}
	if m.RefreshOnly || len(m.ReplaceAddrs) > 0 || m.GenerateConfig {
		t.learnVersion()
	}
	found := false
	err = t.tell("plan", func() (err error) {
		found, err = t.tf.Plan(context.Background(), options...)
		return err
	})
	if errors.Is(err, errLost) { // the call goes on, and may still write what it found
		return false, err
	}
	return found, err
}

// learnVersion asks tofu for its version before terraform-exec does, on which some options
// depend there: it would print the answer wherever output goes at that time.
func (t *tofu) learnVersion() {
	t.tf.SetStdout(io.Discard)
	t.tf.SetStderr(io.Discard)
	_, _, _ = t.tf.Version(context.Background(), true) // if it fails, so does the command, and says why
	t.tf.SetStdout(t.log)
	t.tf.SetStderr(t.log)
}

// show writes the plan's JSON, byte for byte as tofu prints it, to a file. It is not
// read here: terraform-exec would hold all of it in memory, twice.
func (t *tofu) show(planFile, jsonFile string) error {
	out, err := os.OpenFile(jsonFile, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = out.Close() }()
	err = t.supervise(func() error { return t.command(&jsonOnly{to: out}, t.log, "show", "-json", "-no-color", planFile) })
	if err != nil {
		return err
	}
	return out.Close()
}

// schemas hands what all providers know about their types to read, as tofu prints it.
func (t *tofu) schemas(read func(io.Reader) error) error {
	reader, writer := io.Pipe()
	result := make(chan error, 1)
	go func() {
		err := read(reader)
		_, _ = io.Copy(io.Discard, reader) // tofu must not wait for a reader that has gone
		result <- err
	}()
	err := t.supervise(func() error {
		err := t.command(&jsonOnly{to: writer}, t.log, "providers", "schema", "-json", "-no-color")
		_ = writer.CloseWithError(err)
		return err
	})
	if errors.Is(err, errLost) {
		return err
	}
	readErr := <-result
	if err != nil {
		return tofuFailed("providers schema", err)
	}
	return readErr
}

// jsonOnly passes on what a command prints from the first line that begins an object on. Before
// it, on the same stream, tofu may say to people that it lost the connection and tries again.
type jsonOnly struct {
	to    io.Writer
	begun bool
	line  []byte // begun and not known yet to be JSON
}

func (j *jsonOnly) Write(p []byte) (int, error) {
	if j.begun {
		return j.to.Write(p)
	}
	for j.line = append(j.line, p...); ; {
		if j.begun = bytes.HasPrefix(j.line, []byte("{")); j.begun {
			_, err := j.to.Write(j.line)
			j.line = nil
			return len(p), err
		}
		end := bytes.IndexByte(j.line, '\n')
		if end < 0 {
			return len(p), nil
		}
		j.line = j.line[end+1:]
	}
}

// apply carries out the plan in the file. It takes the state's lock, which the
// server grants to the run that has it anyway.
func (t *tofu) apply(planFile string) error {
	t.applying = true
	return t.tell("apply", func() error { return t.tf.Apply(context.Background(), tfexec.DirOrPlan(planFile)) })
}

// tell runs a command of which both logs tell: what it prints goes to the human one,
// its events to the other. The option for these is given by TF_CLI_ARGS_*, because
// terraform-exec has none for it and all else that it does is wanted: its environment,
// its exit codes, its process group. A workspace cannot set that variable; nor can
// SetEnv, so it is set behind its back like TF_VAR_ above.
func (t *tofu) tell(command string, call func() error) (err error) {
	errorText := &lastBytes{most: 16 << 10}
	t.tf.SetStdout(t.log.human)
	t.tf.SetStderr(io.MultiWriter(t.log.human, errorText))
	defer func() {
		if errors.Is(err, errLost) {
			return // the call goes on and has all of this; no other one follows it
		}
		t.tf.SetStdout(t.log)
		t.tf.SetStderr(t.log)
		delete(t.env, "TF_CLI_ARGS_"+command)
	}()
	if t.log.events == nil {
		return t.supervise(call)
	}
	pipe, err := openPipe(t.pipe, t.log.events)
	if err != nil {
		return err
	}
	t.env["TF_CLI_ARGS_"+command] = "-json-into=" + shellWord(pipe.path)
	err = t.supervise(call)
	pipe.close(!errors.Is(err, errLost))
	t.log.events.finishLine()
	if err != nil && !errors.Is(err, errLost) && !t.log.events.hasFailed() {
		_, _ = t.log.events.Write(errorText.kept) // a crash, say, is no event
		t.log.events.finishLine()
	}
	return err
}

// shellWord writes text as one word of TF_CLI_ARGS.
func shellWord(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// lastBytes keeps the end of what is written to it.
type lastBytes struct {
	most int
	kept []byte
}

func (l *lastBytes) Write(p []byte) (int, error) {
	l.kept = append(l.kept, p...)
	if over := len(l.kept) - l.most; over > 0 {
		l.kept = append(l.kept[:0], l.kept[over:]...)
	}
	return len(p), nil
}

// command runs tofu for what terraform-exec cannot do, the way terraform-exec does it.
func (t *tofu) command(stdout, stderr io.Writer, args ...string) error {
	cmd := exec.Command(t.path, args...)
	cmd.Dir = t.dir
	cmd.Env = []string{"TF_IN_AUTOMATION=1"}
	for name, value := range t.env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	cmd.SysProcAttr = ownGroup()
	return cmd.Run()
}

// supervise waits for a call that runs tofu. When the attempt is to stop, tofu is
// interrupted, and after the grace it is killed with all that it started. What a
// provisioner left running is killed in any case.
//
// terraform-exec would interrupt when its context ends, but then it does not tell how
// tofu ended, and it knows no process group. So its context never ends.
func (t *tofu) supervise(call func() error) error {
	ended := make(chan error, 1)
	go func() { ended <- call() }()

	look := time.NewTicker(lookEvery)
	defer look.Stop()
	measure := time.NewTicker(measureEvery)
	defer measure.Stop()
	var (
		pid         int // of tofu, once it was found
		wanted      = t.stop.wanted
		deadline    <-chan time.Time
		interrupted bool
		killing     bool
	)
	for {
		select {
		case err := <-ended:
			if pid != 0 {
				_ = syscall.Kill(-pid, syscall.SIGKILL)
			}
			return err
		case <-wanted:
			wanted, deadline = nil, time.After(t.timeToEnd())
			look.Reset(lookEvery)
		case <-deadline:
			if killing {
				return errLost
			}
			killing, deadline = true, time.After(afterKill)
			look.Reset(lookEvery)
		case <-look.C:
			if pid == 0 {
				pid = leaderIn(t.dir) // it may not have started yet
			}
			switch stopping := wanted == nil; {
			case pid == 0:
			case killing:
				killGroup(pid)
			case stopping && !interrupted:
				// To tofu alone: it stops its providers itself.
				interrupted = t.interrupt(pid)
			default:
				look.Stop()
			}
		case <-measure.C:
			if over := t.meter.over(pid); over != "" {
				t.stop.stop(over)
			}
		}
	}
}

// withoutAuthority is how long a tofu may take to end that cannot hand over anything.
const withoutAuthority = 10 * time.Second

// timeToEnd is from the interrupt to the kill. A plan whose session is over owes nobody
// anything; an apply that is interrupted still writes down what it has made.
func (t *tofu) timeToEnd() time.Duration {
	if t.stop.why() == stopRefused && !t.applying {
		return min(t.grace, withoutAuthority)
	}
	return t.grace
}

// interrupt reaches tofu itself, also inside an enclosure; false is not yet.
func (t *tofu) interrupt(pid int) bool {
	if t.meter != nil {
		if pid = innermost(pid); pid == 0 {
			return false
		}
	}
	return syscall.Kill(pid, syscall.SIGINT) == nil
}

// killGroup kills tofu and what it started. It may have ended already while
// others of its group keep its output open; its number is not free before that ends.
func killGroup(pid int) {
	if syscall.Kill(-pid, syscall.SIGKILL) != nil {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it leads no group where terraform-exec makes none
	}
}

// exitCode gives the exit code in the error of a call. An enclosure tells a death by a
// signal as shells do; tofu has no such codes.
func exitCode(err error) int {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit) && exit.ExitCode() < 128:
		return exit.ExitCode()
	}
	return noExitCode
}
