//go:build unix && !linux

package runner

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// ownGroup starts a process in a group of its own. Only Linux can also end it with the runner.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// leaderIn finds the tofu of this process, 0 is none: a runner has one child at a time, besides
// the ps that is asked here. terraform-exec makes it lead a group only on Linux.
func leaderIn(string) int {
	out, err := exec.Command("ps", "-A", "-o", "pid=,ppid=,comm=").Output()
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		if len(fields) >= 3 && fields[1] == strconv.Itoa(os.Getpid()) && !strings.HasSuffix(fields[2], "ps") {
			pid, _ := strconv.Atoi(fields[0])
			return pid
		}
	}
	return 0
}
