//go:build unix

package devstack

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/holdfast-run/holdfast/clock"
)

// awaitLeftovers waits for services of a supervisor that was killed. The kernel has told
// them to stop, but a busy runner may take its time, and two runners must not share a
// folder. A pid file whose process is gone, or is by now somebody else, means nothing.
func awaitLeftovers(l layout, say func(format string, args ...any)) {
	for _, name := range []string{"runner", "server", "s3"} {
		content, _ := readTrimmed(l.pid(name))
		pid, _ := strconv.Atoi(content)
		if pid <= 0 {
			continue
		}
		deadline := clock.Now().Add(runnerGrace + serverGrace)
		for told := false; isServiceOf(l, pid); time.Sleep(20 * time.Millisecond) {
			if !told {
				say("  Waiting for the previous %s (process %d) to end.", name, pid)
				_ = syscall.Kill(pid, syscall.SIGTERM)
				told = true
			}
			if clock.Now().After(deadline) {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
		_ = os.Remove(l.pid(name))
	}
}

// isServiceOf tells whether pid lives and was started for this folder: it carries the mark.
// Where there is no /proc nothing can be told, and nothing is waited for.
func isServiceOf(l layout, pid int) bool {
	environ, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return false
	}
	for _, entry := range bytes.Split(environ, []byte{0}) {
		if string(entry) == mark+"="+l.dir {
			return true
		}
	}
	return false
}
