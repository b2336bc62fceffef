package runner

import (
	"fmt"
	"time"
)

const (
	measureEvery = time.Second
	diskEvery    = 5 // measurements; a folder is walked through for it
)

// meter watches what the processes of an attempt use together. The bounds of single
// processes are the system's (Enclosed).
type meter struct {
	limits Limits
	dir    string // of the attempt
	turn   int
}

// over says what is used too much of by the enclosure around pid, for people; empty is
// nothing. It may be asked without a meter, and before there is a process.
func (m *meter) over(pid int) stopReason {
	if m == nil || pid == 0 {
		return ""
	}
	memory, processes := use(firstInside(pid))
	if most := m.limits.Memory; most > 0 && memory > most {
		return stopReason(fmt.Sprintf("The run used more than the %d MiB of memory that it may have on this runner.", most>>20))
	}
	if most := m.limits.Processes; most > 0 && processes > most {
		return stopReason(fmt.Sprintf("The run started more than the %d processes that it may have on this runner.", most))
	}
	m.turn++
	if most := m.limits.Disk; most > 0 && m.turn%diskEvery == 0 && diskUse(m.dir) > most {
		return stopReason(fmt.Sprintf("The run wrote more than the %d MiB that it may on this runner.", most>>20))
	}
	return ""
}
