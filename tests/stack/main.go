package stack

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// Program gives the path of a program under test, which `make build` has built. It is for
// the packages beside this one.
func Program(name string) string {
	path, err := filepath.Abs(filepath.Join("..", "..", "bin", name))
	if err != nil {
		panic(err)
	}
	return path
}

// Main runs the tests of a package beside one stack that they share, and gives the exit code.
// parallel is how many run side by side where the command line does not say: more than there
// are processors, because a tofu that looks at a remote run sleeps most of the time. start
// starts the stack with everything of it in dir, which goes with the tests.
func Main(m *testing.M, parallel int, start func(dir string) (*Stack, error)) int {
	flag.Parse()
	for _, name := range []string{"holdfast", "holdfast-runner", "tofu"} {
		if info, err := os.Stat(Program(name)); err != nil || info.Mode()&0o111 == 0 {
			fmt.Fprintf(os.Stderr, "these tests need the program %s. Run `make build` first.\n", Program(name))
			return 1
		}
	}
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "test.parallel" })
	if !chosen {
		_ = flag.Set("test.parallel", fmt.Sprint(parallel)) // fails only for a flag or a value that does not exist
	}
	dir, err := os.MkdirTemp("", "holdfast-stack-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	s, err := start(dir)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	if err := s.Stop(); err != nil {
		fmt.Fprintf(os.Stderr, "the stack did not end well: %v\n%s", err, s.Said())
		return 1
	}
	return code
}
