//go:build failpoint

package failpoint

import (
	"os"
	"strings"
	"syscall"
)

// Here kills the process like a power cut when the file that HOLDFAST_FAILPOINT names holds
// this place's name. The file is removed before, so that one order means one crash.
func Here(name string) {
	order := os.Getenv("HOLDFAST_FAILPOINT")
	if order == "" {
		return
	}
	content, err := os.ReadFile(order)
	if err != nil || strings.TrimSpace(string(content)) != name || os.Remove(order) != nil {
		return // not here, or another process was quicker
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}
