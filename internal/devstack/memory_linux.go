package devstack

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// memory is the machine's, or as much of it as a container may use. 0 is unknown.
func memory() uint64 {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return 0
	}
	total := uint64(info.Totalram) * uint64(info.Unit)
	if text, err := os.ReadFile("/sys/fs/cgroup/memory.max"); err == nil {
		if limit, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64); err == nil { // or "max"
			total = min(total, limit)
		}
	}
	return total
}
