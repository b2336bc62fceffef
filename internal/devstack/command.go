//go:build unix

package devstack

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/internal/child"
)

// notFound is the exit code of a shell for a command that cannot be run.
const notFound = 127

// runCommand runs the program at path as the user's command and gives its exit code, 128+n
// when signal n ended it.
// Signals are forwarded. At a terminal (see inForeground) the command stays in the
// foreground, where Ctrl-C reaches it without our help: a second interrupt would make tofu
// give up in the middle of an apply. Elsewhere it leads a process group, and a signal goes
// to all of it.
func runCommand(path string, opts Options, environ []string, signals <-chan os.Signal, terminal bool) (int, error) {
	cmd := exec.Command(path, opts.Command[1:]...)
	cmd.Args[0] = opts.Command[0]
	cmd.Env = environ
	cmd.Stdin, cmd.Stdout, cmd.Stderr = opts.Stdin, opts.Stdout, opts.Stderr

	start := child.Start
	if terminal {
		start = child.StartInTerminal
	}
	command, err := start(cmd, syscall.SIGTERM)
	if err != nil {
		return notFound, cannotRun(opts.Command[0], err)
	}
	for {
		select {
		case <-command.Done():
			return exitCode(command.Err())
		case sig := <-signals:
			number := sig.(syscall.Signal)
			switch {
			case !terminal:
				command.SignalGroup(number)
			case number != syscall.SIGINT:
				command.Signal(number)
			}
		}
	}
}

// lookPath finds a command as a shell with this environment would: exec.LookPath would
// search the supervisor's own PATH, which lacks the folder of the binaries.
func lookPath(name string, environ []string) (string, error) {
	if strings.Contains(name, "/") {
		if !isProgram(name) {
			return "", cannotRun(name, exec.ErrNotFound)
		}
		return name, nil
	}
	for _, dir := range filepath.SplitList(lookup(environ, "PATH")) {
		if candidate := filepath.Join(dir, name); isProgram(candidate) {
			return filepath.Abs(candidate)
		}
	}
	return "", cannotRun(name, exec.ErrNotFound)
}

func isProgram(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

func cannotRun(name string, cause error) error {
	return fault.New(fault.Invalid, "command_missing", "The command %q cannot be run", name).Because(cause)
}

// exitCode turns the end of a process into a shell's exit code.
func exitCode(err error) (int, error) {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return 0, err
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal()), nil
	}
	return exit.ExitCode(), nil
}

// inForeground tells whether a terminal sends its signals to our process group.
func inForeground() bool {
	terminal, err := os.Open("/dev/tty")
	if err != nil {
		return false
	}
	defer terminal.Close()
	group, err := unix.IoctlGetInt(int(terminal.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}
