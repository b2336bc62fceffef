package runner

import (
	"os"
	"strconv"
	"strings"
	"syscall"
)

// ownGroup starts a process in a group of its own that does not outlive the runner,
// as terraform-exec does.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// leaderIn finds the child of this process that leads a group and works in dir; 0 is none.
// terraform-exec does not tell which process it started.
func leaderIn(dir string) int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0
	}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + entry.Name() + "/stat")
		if err != nil {
			continue
		}
		// pid (name) state parent group …; the name may hold anything, also ")".
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		if len(fields) < 3 || fields[1] != strconv.Itoa(os.Getpid()) || fields[2] != entry.Name() {
			continue
		}
		if cwd, err := os.Readlink("/proc/" + entry.Name() + "/cwd"); err == nil && cwd == dir {
			return pid
		}
	}
	return 0
}
