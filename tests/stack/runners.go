package stack

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/holdfast-run/holdfast/internal/child"
)

const runnerGrace = 30 * time.Second // the end of a run; then it is killed

// moreRunners starts runners beside the stack's own, which are as that one is. A runner works
// for one run at a time: with one alone, tests that run side by side wait for each other, and
// all of them for a run that a test holds up.
func (s *Stack) moreRunners(o Options) error {
	for n := 2; n <= o.Runners; n++ {
		name := fmt.Sprint("runner-", n)
		log, err := os.OpenFile(filepath.Join(s.Dir, "logs", name+".log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
		if err != nil {
			return err
		}
		dir := filepath.Dir(o.Executable)
		cmd := exec.Command(filepath.Join(dir, "holdfast-runner"))
		cmd.Env = append(PlainEnviron(), "HOLDFAST_ADDRESS="+s.Address(), "HOLDFAST_RUNNER_NAME="+name,
			"HOLDFAST_RUNNER_TOKEN_FILE="+filepath.Join(s.Dir, "runner-token"), "HOLDFAST_RUNNER_DIR="+filepath.Join(s.Dir, name),
			"HOLDFAST_TOFU="+filepath.Join(dir, "tofu"), "HOLDFAST_RUNNER_ALLOW_METADATA=true", "SSL_CERT_FILE="+s.Environ["SSL_CERT_FILE"])
		for _, entry := range o.Environ {
			if strings.HasPrefix(entry, "HOLDFAST_RUNNER_") { // the rest is the server's
				cmd.Env = append(cmd.Env, entry)
			}
		}
		if o.Providers != "" {
			cmd.Env = append(cmd.Env, "HOLDFAST_PROVIDER_MIRROR="+o.Providers)
		}
		cmd.Stdout, cmd.Stderr = log, log
		runner, err := child.Start(cmd, syscall.SIGKILL)
		if err := errors.Join(err, log.Close()); err != nil { // the child has its own descriptor
			return err
		}
		s.runners = append(s.runners, runner)
	}
	return nil
}

// stopRunners ends what moreRunners has started: an idle runner at once, a busy one when it
// has put its run in order.
func (s *Stack) stopRunners() {
	var all sync.WaitGroup
	for _, runner := range s.runners {
		all.Go(func() { runner.Stop(syscall.SIGTERM, runnerGrace) })
	}
	all.Wait()
}
