package chaos

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// What `make chaos` sets. Without a seed only the tests of the tools run.
var (
	seed, seeded = seedFrom(os.Getenv("CHAOS_SEED"))
	long         = os.Getenv("CHAOS_LONG") != ""
)

func seedFrom(text string) (seed uint64, ok bool) {
	seed, err := strconv.ParseUint(text, 10, 64)
	return seed, err == nil
}

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	if seeded {
		for _, name := range []string{"holdfast", "holdfast-runner", "tofu"} {
			if info, err := os.Stat(bin(name)); err != nil || info.Mode()&0o111 == 0 {
				fmt.Fprintf(os.Stderr, "chaos needs the program %s. Run `make build` first.\n", bin(name))
				return 1
			}
		}
	}
	// A provider outlives a tofu that is killed. It then becomes our child, and is ended below.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer endOrphans()
	return m.Run()
}

// needsSeed skips what starts a whole cluster, unless `make chaos` asks for it.
func needsSeed(t *testing.T) {
	t.Helper()
	if !seeded {
		t.Skip("it takes minutes: run `make chaos`")
	}
}

// endOrphans kills what the processes of a stack have left behind. Everything that is our child
// now was started by us or by what we started.
func endOrphans() {
	for range 100 {
		found := false
		for _, pid := range childrenOf(os.Getpid()) {
			found = true
			_ = syscall.Kill(pid, syscall.SIGKILL)
			for {
				_, err := syscall.Wait4(pid, nil, 0, nil)
				if !errors.Is(err, syscall.EINTR) {
					break
				}
			}
		}
		if !found {
			return
		}
	}
}

// childrenOf lists the processes whose parent is pid.
func childrenOf(parent int) (pids []int) {
	entries, _ := os.ReadDir("/proc") // without it there are no orphans that could be found
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + entry.Name() + "/stat")
		if err != nil {
			continue // it has ended
		}
		// pid (name) state ppid …, and the name may hold anything
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		if len(fields) > 1 && fields[1] == strconv.Itoa(parent) {
			pids = append(pids, pid)
		}
	}
	return pids
}
