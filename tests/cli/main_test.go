package cli

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// shared is the stack of all tests.
var shared *stack

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
			fmt.Fprintf(os.Stderr, "the tests of the commands need the program %s. Run `make build` first.\n", program(name))
			return 1
		}
	}
	waitMoreThanWork()
	dir, err := os.MkdirTemp("", "holdfast-cli-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	defer os.RemoveAll(dir + "-providers")
	if shared, err = startStack(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	if err := shared.stop(); err != nil {
		fmt.Fprintf(os.Stderr, "the stack did not end well: %v\n%s", err, shared.said)
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
