//go:build unix

package child

import (
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// Process is a running or ended child.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error // how it ended; written before done is closed
}

// Start starts cmd in a process group of its own, so that Ctrl-C at a terminal
// reaches only the parent, which then stops its children in order. The kernel sends
// death to the child when this process dies.
func Start(cmd *exec.Cmd, death syscall.Signal) (*Process, error) {
	attributes(cmd).Setpgid = true
	return start(cmd, death)
}

// StartInTerminal is Start for a command that the user at the terminal speaks to: it stays
// in the parent's process group, so it may read the terminal and gets Ctrl-C itself.
func StartInTerminal(cmd *exec.Cmd, death syscall.Signal) (*Process, error) {
	return start(cmd, death)
}

func attributes(cmd *exec.Cmd) *syscall.SysProcAttr {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	return cmd.SysProcAttr
}

func start(cmd *exec.Cmd, death syscall.Signal) (*Process, error) {
	setDeathSignal(attributes(cmd), death)

	p := &Process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		// Linux ties the death signal to the thread that forked: were the runtime to retire
		// that thread, the child would be told that its parent is dead. So it waits here.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := cmd.Start(); err != nil {
			started <- err
			return
		}
		started <- nil
		p.err = cmd.Wait()
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// Pid gives the process id.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Done is closed when the child has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err says how the child ended, nil for exit code 0. It is meaningful once Done is closed.
func (p *Process) Err() error {
	<-p.done
	return p.err
}

// Signal sends sig to the child alone; an ended child is left alone.
func (p *Process) Signal(sig syscall.Signal) { _ = p.cmd.Process.Signal(sig) }

// SignalGroup sends sig to the child and the processes it started, as a terminal would.
// It is for a child of Start.
func (p *Process) SignalGroup(sig syscall.Signal) {
	select {
	case <-p.done:
	default:
		_ = syscall.Kill(-p.Pid(), sig)
	}
}

// Stop sends sig, waits up to grace for the child to end, then kills it. It returns
// when the child is gone.
func (p *Process) Stop(sig syscall.Signal, grace time.Duration) {
	p.Signal(sig)
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
		p.Signal(syscall.SIGKILL)
		<-p.done
	}
}
