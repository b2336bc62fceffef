//go:build unix

package pgcluster

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/holdfast-run/holdfast/fault"
)

// initialize makes data/ unless it exists. All work happens beside it and the last step
// is a rename, so that data/ is either absent or complete.
func (c *Cluster) initialize(ctx context.Context) error {
	if _, err := os.Stat(c.data()); err == nil {
		return nil
	}
	leftovers, _ := filepath.Glob(c.data() + ".init-*")
	for _, dir := range leftovers {
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	work, err := os.MkdirTemp(c.opts.Dir, "data.init-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	fresh := filepath.Join(work, "data")
	passwordCopy := filepath.Join(work, "password")
	if err := os.WriteFile(passwordCopy, []byte(c.password+"\n"), 0o600); err != nil {
		return err
	}
	if err := c.account.own(work); err != nil {
		return err
	}

	args := []string{
		"-D", fresh, "-U", role, "--pwfile", passwordCopy, "--auth=scram-sha-256",
		"--encoding=UTF8", "--locale=C", "--no-instructions",
	}
	if !c.opts.Durable {
		args = append(args, "--no-sync")
	}
	if out, err := c.program(ctx, "initdb", args...).CombinedOutput(); err != nil {
		return failed("initdb", err, string(out))
	}
	if err := c.createDatabases(ctx, fresh); err != nil {
		return err
	}
	if err := os.Rename(fresh, c.data()); err != nil {
		return err
	}
	return syncDir(c.opts.Dir)
}

// createDatabases runs the server in single-user mode: no password and no port yet.
func (c *Cluster) createDatabases(ctx context.Context, data string) error {
	if len(c.opts.Databases) == 0 {
		return nil
	}
	var statements strings.Builder
	for _, name := range c.opts.Databases {
		fmt.Fprintf(&statements, "CREATE DATABASE \"%s\"\n", strings.ReplaceAll(name, `"`, `""`))
	}
	args := append([]string{"--single", "-D", data}, c.durability()...)
	cmd := c.program(ctx, "postgres", append(args, "postgres")...)
	cmd.Stdin = strings.NewReader(statements.String())
	out, err := cmd.CombinedOutput()
	// Single-user mode reports a failed statement in its output alone and exits with 0.
	if err != nil || strings.Contains(string(out), "ERROR:") || strings.Contains(string(out), "FATAL:") {
		return failed("creating the databases", err, string(out))
	}
	return nil
}

// ensurePassword reads the password of the folder, or makes one for a cluster to come.
func ensurePassword(dir string) (string, error) {
	path := filepath.Join(dir, "password")
	content, err := os.ReadFile(path)
	if err == nil && len(strings.TrimSpace(string(content))) > 0 {
		return strings.TrimSpace(string(content)), nil
	}
	if err != nil && !os.IsNotExist(err) {
		return "", err
	}
	if _, err := os.Stat(filepath.Join(dir, "data")); err == nil {
		return "", fault.New(fault.Unavailable, "password_missing",
			"%s is missing, without which the database beside it cannot be opened. Put the file back, or start with another folder.", path)
	}
	password := rand.Text()
	temporary := path + ".new"
	if err := os.WriteFile(temporary, []byte(password+"\n"), 0o600); err != nil {
		return "", err
	}
	return password, os.Rename(temporary, path)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// failed is the error of a program, with the end of what it said.
func failed(what string, err error, output string) error {
	lines := strings.Split(strings.TrimSpace(output), "\n")
	if len(lines) > 8 {
		lines = lines[len(lines)-8:]
	}
	return fault.New(fault.Unavailable, "postgres_failed", "PostgreSQL: %s failed: %s", what, strings.Join(lines, "\n")).Because(err)
}

// keepMemory has glibc keep up to 32 MB that a process has freed, for its next statement. To get them
// from the system anew, page by page, can take longer than the statement itself.
var keepMemory = []string{"MALLOC_TRIM_THRESHOLD_=33554432", "MALLOC_MMAP_THRESHOLD_=33554432"}

// program prepares one of PostgreSQL's programs: as the account, in an environment that
// holds nothing of the caller's.
func (c *Cluster) program(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(c.bin, name), args...)
	cmd.Env = append([]string{"PATH=/usr/local/bin:/usr/bin:/bin", "LC_ALL=C", "TZ=UTC"}, keepMemory...)
	cmd.Dir = "/"
	attr := c.account.attr
	cmd.SysProcAttr = &attr
	return cmd
}
