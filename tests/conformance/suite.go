package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/holdfast-run/holdfast/clock"
)

const goTFE = "github.com/hashicorp/go-tfe"

// suite is the compiled test binary of go-tfe.
type suite struct {
	binary string
	source string // the folder of the module
}

// compile builds the tests of the version that suite/go.mod names, into dir.
func compile(ctx context.Context, module, dir string) (suite, error) {
	s := suite{binary: filepath.Join(dir, "gotfe.test")}
	build := exec.CommandContext(ctx, "go", "test", "-p", "1", "-c", "-o", s.binary, goTFE)
	build.Dir, build.Stderr = module, os.Stderr
	if err := build.Run(); err != nil {
		return s, fmt.Errorf("compiling the tests of go-tfe: %w", err)
	}
	where := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", goTFE)
	where.Dir, where.Stderr = module, os.Stderr
	out, err := where.Output()
	s.source = strings.TrimSpace(string(out))
	return s, err
}

// folder makes a working folder with the fixtures, into which the tests write.
func (s suite) folder(dir string) error {
	fixtures := filepath.Join(dir, "test-fixtures")
	if err := os.CopyFS(fixtures, os.DirFS(filepath.Join(s.source, "test-fixtures"))); err != nil {
		return err
	}
	return filepath.WalkDir(fixtures, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil || info.Mode()&os.ModeSymlink != 0 {
			return err
		}
		return os.Chmod(path, info.Mode().Perm()|0o600)
	})
}

// result is what one test did.
type result struct {
	job
	Passed  bool
	Skipped bool // by itself
	Passes  int  // subtests that passed
	Failed  []string
	Seconds float64
	Output  string
	Reason  string // why it ended otherwise than by its own answer
}

// Good holds when the test passed and reached all it had planned.
func (r result) Good() bool { return r.Passed && r.Passes >= r.Count }

// Score is the subtests that count: at most those planned.
func (r result) Score() int { return min(r.Passes, r.Count) }

// run runs one test in a process of its own, which may take limit.
func (s suite) run(ctx context.Context, j job, dir string, environ []string, limit time.Duration) result {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.binary, "-test.run", "^"+j.Test+"$", "-test.v=test2json", "-test.timeout", limit.String())
	cmd.Dir, cmd.Env = dir, environ
	if j.Mode == Enterprise {
		cmd.Env = append(cmd.Env, "ENABLE_TFE=1")
	}
	// Asked to say where it hangs before it is ended for good.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGQUIT) }
	cmd.WaitDelay = 10 * time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	begun := clock.Now()
	err := cmd.Run()
	r := judge(j, out.String(), err == nil)
	r.Seconds = clock.Since(begun).Seconds()
	if ctx.Err() != nil {
		r.Passed, r.Reason = false, "took more than "+limit.String()
	} else if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		r.Reason = err.Error()
	}
	return r
}

// skipMessage is what a test that skipped itself has logged, without the places. What its clean-up logs
// looks the same, and comes after the reason.
func skipMessage(output string) string {
	var said []string
	for _, found := range logged.FindAllStringSubmatch(output, -1) {
		said = append(said, strings.TrimSpace(found[1]))
	}
	if len(said) == 0 {
		return "it says no reason"
	}
	return strings.Join(said, "; ")
}

var logged = regexp.MustCompile(`(?m)^\s+\w+\.go:\d+: (.*)$`)

var verdict = regexp.MustCompile(`(?m)--- (PASS|FAIL|SKIP): (\S+) \(\d`)

// judge reads the output of a test process.
func judge(j job, output string, exitedWell bool) result {
	r := result{job: j, Output: output}
	for _, found := range verdict.FindAllStringSubmatch(output, -1) {
		said, name := found[1], found[2]
		sub, isSub := strings.CutPrefix(name, j.Test+"/")
		switch {
		case isSub && said == "PASS":
			r.Passes++
		case isSub && said == "FAIL":
			r.Failed = append(r.Failed, sub)
		case name == j.Test:
			r.Passed = said == "PASS" && exitedWell
			if said == "SKIP" {
				r.Skipped, r.Reason = true, skipMessage(output)
			}
		}
	}
	return r
}
