package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/holdfast-run/holdfast/clock"
)

// commandLimit ends a tofu that hangs; the longest regular one takes a minute and a half.
const commandLimit = 5 * time.Minute

// folder is a configuration on disk, initialized.
type folder struct {
	dir       string
	workspace string // of the cloud block
	environ   []string
}

// The places where a configuration can be run.
const (
	onFloor   = "floor"
	onServer  = "remote"
	onMachine = "local"
)

// folder writes a configuration for a place and initializes it.
func (b *bench) folder(ctx context.Context, place, configuration string) (*folder, error) {
	b.folders++
	f := &folder{workspace: fmt.Sprintf("bench-%d", b.folders), environ: b.environ}
	f.dir = filepath.Join(b.work, f.workspace)
	if err := os.Mkdir(f.dir, 0o700); err != nil {
		return nil, err
	}
	host := map[string]string{onFloor: b.floor.Host(), onServer: os.Getenv("TFE_HOSTNAME")}[place]
	if host != "" {
		configuration += fmt.Sprintf("\nterraform {\n  cloud {\n    hostname     = %q\n    organization = %q\n    workspaces {\n      name = %q\n    }\n  }\n}\n",
			host, organization, f.workspace)
	}
	if err := os.WriteFile(filepath.Join(f.dir, "main.tf"), []byte(configuration), 0o600); err != nil {
		return nil, err
	}
	_, _, err := f.tofu(ctx, "init")
	return f, err
}

// tofu runs a command in the folder, which must succeed.
func (f *folder) tofu(ctx context.Context, args ...string) (took time.Duration, said string, err error) {
	ctx, cancel := context.WithTimeout(ctx, commandLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "tofu", args...)
	cmd.Dir, cmd.Env = f.dir, f.environ
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // its providers end with it
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	var both bytes.Buffer
	cmd.Stdout, cmd.Stderr = &both, &both
	began := clock.Now()
	err = cmd.Run()
	took = clock.Since(began)
	if err != nil {
		err = fmt.Errorf("tofu %s: %w\n%s", strings.Join(args, " "), err, end(both.String()))
	}
	return took, both.String(), err
}

// end is as much of a text as an error can carry.
func end(text string) string { return text[max(0, len(text)-2000):] }

// inTurns calls measure for each place, round after round, each round in another order.
func inTurns(rounds int, places []string, measure func(round int, place string) error) error {
	for round := range rounds {
		for i := range places {
			if err := measure(round, places[(i+round)%len(places)]); err != nil {
				return err
			}
		}
	}
	return nil
}
