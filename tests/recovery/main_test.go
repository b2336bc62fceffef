package recovery

import (
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

func program(name string) string { return stack.Program(name) }

func TestMain(m *testing.M) {
	os.Exit(stack.Main(m, 4, func(dir string) (_ *stack.Stack, err error) {
		providers = filepath.Join(dir, "providers")
		if said, err := exec.Command(filepath.Join("..", "provider", "build.sh"), providers).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("make the providers: %w\n%s", err, said)
		}
		shared, err = stack.Start(stack.Options{
			Executable: program("holdfast"), Dir: filepath.Join(dir, "data"), Providers: providers,
			Environ: []string{
				"HOLDFAST_RUNNER_ISOLATION=external", // ledgers lie outside of the folders of runs
				"HOLDFAST_HEARTBEAT=1s",              // a cancel is heard of sooner
			},
		})
		return shared, err
	}))
}
