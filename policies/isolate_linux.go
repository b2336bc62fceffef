package policies

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// isolate makes the child end with its parent, and gives it namespaces of its own, in which
// there is no network but a loopback that is down, and no other user.
func isolate(cmd *exec.Cmd, namespaces bool) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if !namespaces {
		return
	}
	const nobody = 65534
	cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS
	cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: nobody, HostID: os.Getuid(), Size: 1}}
	cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: nobody, HostID: os.Getgid(), Size: 1}}
}

// refusesNamespaces tells whether a start failed because the system gives no namespaces.
func refusesNamespaces(err error) bool {
	for _, refusal := range []error{syscall.EPERM, syscall.EACCES, syscall.ENOSPC, syscall.EINVAL, syscall.ENOSYS, syscall.EUSERS} {
		if errors.Is(err, refusal) {
			return true
		}
	}
	return false
}
