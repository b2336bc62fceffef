package e2e

import (
	"os"
	"path/filepath"
	"testing"

	started "github.com/holdfast-run/holdfast/tests/stack"
)

// shared is the stack of all tests that kill nothing.
var shared *stack

// binDir holds the programs under test.
var binDir = filepath.Dir(started.Program("holdfast"))

func TestMain(m *testing.M) {
	os.Exit(started.Main(m, 6, func(dir string) (_ *started.Stack, err error) {
		if shared, err = startStack(filepath.Join(dir, "data"), "external", 3); err != nil {
			return nil, err
		}
		return shared.Stack, nil
	}))
}
