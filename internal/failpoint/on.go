//go:build failpoint

package failpoint

import (
	"os"
	"syscall"
)

// Here kills the process like a power cut when HOLDFAST_FAILPOINT names this place.
func Here(name string) {
	if os.Getenv("HOLDFAST_FAILPOINT") == name {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
}
