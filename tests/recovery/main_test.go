package recovery

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/holdfast-run/holdfast/tests/stack"
)

var (
	shared    *stack.Stack
	providers string // a mirror of the providers of tests/provider
)

// program gives the path of a program under test.
func program(name string) string {
	path, err := filepath.Abs(filepath.Join("..", "..", "bin", name))
	if err != nil {
		panic(err)
	}
	return path
}

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	for _, name := range []string{"holdfast", "holdfast-runner", "tofu"} {
		if info, err := os.Stat(program(name)); err != nil || info.Mode()&0o111 == 0 {
			fmt.Fprintf(os.Stderr, "the stories of recovery need the program %s. Run `make build` first.\n", program(name))
			return 1
		}
	}
	waitMoreThanWork()
	dir, err := os.MkdirTemp("", "holdfast-recovery-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	providers = filepath.Join(dir, "providers")
	if said, err := exec.Command(filepath.Join("..", "provider", "build.sh"), providers).CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "make the providers: %v\n%s", err, said)
		return 1
	}
	shared, err = stack.Start(stack.Options{
		Executable: program("holdfast"), Dir: filepath.Join(dir, "data"), Args: []string{"--provider-mirror", providers},
		Environ: []string{
			"HOLDFAST_RUNNER_ISOLATION=external", // ledgers lie outside of the folders of runs
			"HOLDFAST_HEARTBEAT=1s",              // a cancel is heard of sooner
		},
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	if err := shared.Stop(); err != nil {
		fmt.Fprintf(os.Stderr, "the stack did not end well: %v\n%s", err, shared.Said())
		return 1
	}
	return code
}

// waitMoreThanWork lets more stories run side by side than there are processors: most of the
// time they wait for a runner or a retry.
func waitMoreThanWork() {
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "test.parallel" })
	if !chosen {
		_ = flag.Set("test.parallel", "4") // fails only for a flag or a value that does not exist
	}
}
