package cli

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/hashicorp/go-tfe"

	started "github.com/holdfast-run/holdfast/tests/stack"
)

// stack is a running `holdfast dev`.
type stack struct {
	*started.Stack
	environ map[string]string // what the command inside sees
	api     *tfe.Client       // as the site admin
	http    *http.Client      // trusts it
}

// shared is the stack of all tests.
var shared *stack

func program(name string) string { return started.Program(name) }

func TestMain(m *testing.M) {
	os.Exit(started.Main(m, 6, func(dir string) (*started.Stack, error) {
		providers := filepath.Join(dir, "providers")
		if said, err := exec.Command(filepath.Join("..", "provider", "build.sh"), providers).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("make the providers: %w\n%s", err, said)
		}
		s, err := started.Start(started.Options{
			Executable: program("holdfast"), Dir: filepath.Join(dir, "data"), Providers: providers, Runners: 3,
			// Providers keep their ledgers outside of the folders of runs, and one runner serves many organizations.
			Environ: []string{"HOLDFAST_RUNNER_ISOLATION=external"},
		})
		if err != nil {
			return nil, err
		}
		s.HTTP.Timeout = patience
		shared = &stack{Stack: s, environ: s.Environ, http: s.HTTP}
		shared.api, err = tfe.NewClient(&tfe.Config{Address: s.Address(), Token: s.Token(), HTTPClient: s.HTTP})
		return s, err
	}))
}
