package e2e

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// shared is the stack of all tests that kill nothing.
var shared *stack

// binDir holds the programs under test.
var binDir = func() string {
	dir, err := filepath.Abs(filepath.Join("..", "..", "bin"))
	if err != nil {
		panic(err)
	}
	return dir
}()

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	for _, name := range []string{"holdfast", "holdfast-runner", "tofu"} {
		info, err := os.Stat(filepath.Join(binDir, name))
		if err != nil || info.Mode()&0o111 == 0 {
			fmt.Fprintf(os.Stderr, "the end-to-end tests need the program %s. Run `make build` first.\n", filepath.Join(binDir, name))
			return 1
		}
	}
	waitMoreThanWork()
	dir, err := os.MkdirTemp("", "holdfast-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if shared, err = startStack(dir, "external"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	if err := shared.stop(); err != nil {
		fmt.Fprintf(os.Stderr, "the shared stack did not end well: %v\n%s", err, shared.log())
		return 1
	}
	return code
}

// waitMoreThanWork lets more tests run side by side than there are processors: a tofu
// that looks at a remote run sleeps most of the time.
func waitMoreThanWork() {
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "test.parallel" })
	if !chosen {
		_ = flag.Set("test.parallel", "6") // fails only for a flag or a value that does not exist
	}
}
