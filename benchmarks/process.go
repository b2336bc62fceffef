package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// process is a service of the stack, seen through /proc.
type process struct{ pid int }

func (b *bench) process(service string) (process, error) {
	content, err := os.ReadFile(filepath.Join(b.data, "pids", service))
	if err != nil {
		return process{}, err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(content)))
	return process{pid}, err
}

// memory is what a process has resident, in bytes.
type memory struct{ now, peak int64 }

func (p process) memory() (m memory, err error) {
	if m.now, err = p.number("status", `VmRSS:\s+(\d+) kB`); err != nil {
		return m, err
	}
	m.peak, err = p.number("status", `VmHWM:\s+(\d+) kB`)
	return memory{m.now << 10, m.peak << 10}, err
}

// forgetPeak lets the peak begin anew with what is resident now.
func (p process) forgetPeak() error {
	return os.WriteFile(p.file("clear_refs"), []byte("5"), 0)
}

// bytesRead is how much the process has read so far, from files and from sockets.
func (p process) bytesRead() (int64, error) { return p.number("io", `rchar: (\d+)`) }

func (p process) file(name string) string { return fmt.Sprintf("/proc/%d/%s", p.pid, name) }

func (p process) number(file, pattern string) (int64, error) {
	content, err := os.ReadFile(p.file(file))
	if err != nil {
		return 0, err
	}
	found := regexp.MustCompile(pattern).FindSubmatch(content)
	if found == nil {
		return 0, fmt.Errorf("%s does not say %s", p.file(file), pattern)
	}
	return strconv.ParseInt(string(found[1]), 10, 64)
}
