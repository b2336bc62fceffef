package evaluator

import (
	"fmt"
	"math"

	"golang.org/x/sys/unix"
)

// confine sets what the kernel holds this process to. The memory is that of private writable
// mappings: the address space of a Go program is mostly reserved and not used.
func confine(l Limits) error {
	seconds := uint64(math.Ceil(l.Time.Seconds())) * 4 // of all processors together
	for _, limit := range []struct {
		resource int
		value    uint64
	}{
		{unix.RLIMIT_DATA, uint64(max(l.Memory, 0))}, {unix.RLIMIT_CPU, seconds}, {unix.RLIMIT_CORE, 0}, {unix.RLIMIT_FSIZE, 0}, {unix.RLIMIT_NOFILE, 16},
	} {
		if limit.value == 0 && (limit.resource == unix.RLIMIT_DATA || limit.resource == unix.RLIMIT_CPU) {
			continue // without a limit: only tests ask for that
		}
		if err := unix.Setrlimit(limit.resource, &unix.Rlimit{Cur: limit.value, Max: limit.value}); err != nil {
			return fmt.Errorf("limit the policy-runner: %w", err)
		}
	}
	return nil
}
