package runner

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

const rlimitProcesses = 6 // RLIMIT_NPROC, which package syscall does not name on all platforms

// Enclosed turns this process into the enclosed tofu when it was started under that name;
// else it returns false at once. A program that uses this package calls it first of all.
func Enclosed() bool {
	if filepath.Base(os.Args[0]) != enclosedName {
		return false
	}
	err := becomeTofu(filepath.Dir(os.Args[0]))
	fmt.Fprintln(os.Stderr, "holdfast-runner: tofu could not be started in its enclosure:", err)
	os.Exit(126)
	return true
}

func becomeTofu(dir string) error {
	text, err := os.ReadFile(filepath.Join(dir, orderFile))
	if err != nil {
		return err
	}
	var o order
	if err := json.Unmarshal(text, &o); err != nil {
		return err
	}
	// Each is a bound of one process; what all of them use together is measured (meter).
	for resource, most := range map[int]int64{syscall.RLIMIT_FSIZE: o.FileSize, syscall.RLIMIT_DATA: o.Memory, rlimitProcesses: int64(o.Processes)} {
		if most > 0 {
			if err := lower(resource, uint64(most)); err != nil {
				return err
			}
		}
	}
	if err := lower(syscall.RLIMIT_CORE, 0); err != nil { // a core is a copy of secrets
		return err
	}
	argv := append([]string{o.Program}, o.Arguments...)
	return syscall.Exec(o.Program, append(argv, os.Args[1:]...), os.Environ())
}

func lower(resource int, most uint64) error {
	var now syscall.Rlimit
	if err := syscall.Getrlimit(resource, &now); err != nil {
		return err
	}
	most = min(most, now.Max)
	return syscall.Setrlimit(resource, &syscall.Rlimit{Cur: most, Max: most})
}

// innermost is tofu itself, when pid is the bwrap around it, which has another one inside
// that is everybody's parent there. 0 is not yet.
func innermost(pid int) int {
	if pid = firstInside(pid); pid != 0 {
		pid = firstChild(pid)
	}
	return pid
}

// firstInside is the first process inside the enclosure whose outermost process is pid.
func firstInside(pid int) int { return firstChild(pid) }

func firstChild(pid int) int {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(content))
	if len(fields) == 0 {
		return 0
	}
	child, _ := strconv.Atoi(fields[0])
	return child
}

// use is what the processes in the enclosure around pid take at this moment.
func use(pid int) (memory int64, processes int) {
	inside, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", pid))
	if err != nil {
		return 0, 0
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0, 0
	}
	for _, entry := range entries {
		if ns, err := os.Readlink("/proc/" + entry.Name() + "/ns/pid"); err == nil && ns == inside {
			processes++
			memory += anonymousMemory(entry.Name())
		}
	}
	return memory, processes
}

// anonymousMemory is what a process has for itself alone, in bytes.
func anonymousMemory(pid string) int64 {
	content, err := os.ReadFile("/proc/" + pid + "/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(content)) {
		if rest, ok := strings.CutPrefix(line, "RssAnon:"); ok {
			n, _ := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			return n << 10
		}
	}
	return 0
}

func onDisk(info fs.FileInfo) int64 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return stat.Blocks * 512
	}
	return info.Size()
}
