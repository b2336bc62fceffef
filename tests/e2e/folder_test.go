package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-tfe"
	"github.com/stretchr/testify/require"
)

// result is how a program ended and what it said on both streams.
type result struct {
	code   int
	said   string
	stdout string
}

func finish(cmd *exec.Cmd) result {
	var stdout, both lockedBuffer
	cmd.Stdout, cmd.Stderr = tee{&stdout, &both}, &both
	err := cmd.Run()
	return result{code: exitCode(err), said: both.String(), stdout: stdout.String()}
}

type tee struct{ a, b *lockedBuffer }

func (t tee) Write(p []byte) (int, error) {
	_, _ = t.a.Write(p)
	return t.b.Write(p)
}

// exitCode is the code a shell would show, or -1 when the program could not be run.
func exitCode(err error) int {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case !errors.As(err, &exit):
		return -1
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return exit.ExitCode()
}

// folder is a configuration on disk, with the workspace of the same name.
type folder struct {
	t         *testing.T
	stack     *stack
	dir       string
	workspace string
	environ   []string // NAME=VALUE, besides the stack's
}

// newFolder writes the configuration, and a cloud block for a workspace named after the test.
func newFolder(t *testing.T, s *stack, configuration string) *folder {
	t.Helper()
	f := &folder{t: t, stack: s, dir: t.TempDir(), workspace: workspaceName(t)}
	f.write("cloud.tf", fmt.Sprintf("terraform {\n  cloud {\n    workspaces {\n      name = %q\n    }\n  }\n}\n", f.workspace))
	f.write("main.tf", configuration)
	return f
}

var notInNames = regexp.MustCompile(`[^A-Za-z0-9_-]+`)

func workspaceName(t *testing.T) string {
	return notInNames.ReplaceAllString(t.Name(), "-")
}

// localWorkspace makes the folder's workspace for runs on this machine, with state on the server.
func (f *folder) localWorkspace() *tfe.Workspace {
	f.t.Helper()
	w := f.stack.newWorkspace(f.t, f.workspace)
	w, err := f.stack.api.Workspaces.UpdateByID(ctx, w.ID, tfe.WorkspaceUpdateOptions{ExecutionMode: tfe.String("local")})
	require.NoError(f.t, err)
	require.Equal(f.t, "local", w.ExecutionMode)
	return w
}

func (f *folder) write(name, content string) {
	f.t.Helper()
	path := filepath.Join(f.dir, name)
	require.NoError(f.t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(f.t, os.WriteFile(path, []byte(content), 0o644))
}

// command prepares tofu with this folder and the stack's environment. It leads a process
// group of its own, as it would in a shell.
func (f *folder) command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(f.t.Context(), filepath.Join(binDir, "tofu"), args...)
	cmd.Dir = f.dir
	cmd.Env = f.stack.commandEnviron(append([]string{"TF_CLI_ARGS=-no-color", "CHECKPOINT_DISABLE=1"}, f.environ...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

func (f *folder) tofu(args ...string) result {
	f.t.Helper()
	return finish(f.command(args...))
}

// answering runs tofu and types one line into it.
func (f *folder) answering(line string, args ...string) result {
	f.t.Helper()
	cmd := f.command(args...)
	cmd.Stdin = strings.NewReader(line + "\n")
	return finish(cmd)
}

// ok runs tofu, which must succeed, and gives what it said.
func (f *folder) ok(args ...string) string {
	f.t.Helper()
	r := f.tofu(args...)
	require.Equal(f.t, 0, r.code, "tofu %s said:\n%s", strings.Join(args, " "), r.said)
	return r.said
}

func (f *folder) init() {
	f.t.Helper()
	require.Contains(f.t, f.ok("init"), "Cloud backend has been successfully initialized!")
}

// output gives the plain value of an output.
func (f *folder) output(name string) string {
	f.t.Helper()
	r := f.tofu("output", "-raw", name)
	require.Equal(f.t, 0, r.code, r.said)
	return r.stdout
}

// background is a tofu that is still at work.
type background struct {
	cmd  *exec.Cmd
	said *lockedBuffer
	done chan int // the exit code
}

func (f *folder) start(args ...string) *background {
	f.t.Helper()
	b := &background{cmd: f.command(args...), said: &lockedBuffer{}, done: make(chan int, 1)}
	b.cmd.Stdout, b.cmd.Stderr = b.said, b.said
	require.NoError(f.t, b.cmd.Start())
	go func() { b.done <- exitCode(b.cmd.Wait()) }()
	return b
}

// signal reaches tofu and what it has started, as from a terminal.
func (b *background) signal(t *testing.T, sig syscall.Signal) {
	t.Helper()
	require.NoError(t, syscall.Kill(-b.cmd.Process.Pid, sig))
}

func (b *background) wait(t *testing.T) int {
	t.Helper()
	select {
	case code := <-b.done:
		return code
	case <-time.After(patience):
		require.FailNow(t, "tofu does not end", "it said:\n%s", b.said)
		return -1
	}
}

// current gives the folder's workspace as it is now.
func (f *folder) current() *tfe.Workspace {
	f.t.Helper()
	w, err := f.stack.api.Workspaces.Read(ctx, "demo", f.workspace)
	require.NoError(f.t, err)
	return w
}

// stateBytes are the bytes of the current state as the server gives them out.
func (f *folder) stateBytes() []byte {
	f.t.Helper()
	current, err := f.stack.api.StateVersions.ReadCurrent(ctx, f.current().ID)
	require.NoError(f.t, err)
	content, err := f.stack.api.StateVersions.Download(ctx, current.DownloadURL)
	require.NoError(f.t, err)
	return content
}

var runURL = regexp.MustCompile(`/app/demo/[^/]+/runs/(run-[A-Za-z0-9]{16})`)

// runIn finds the id of the run that a tofu named.
func runIn(t *testing.T, said string) string {
	t.Helper()
	found := runURL.FindStringSubmatch(said)
	require.NotNil(t, found, "no run is named in:\n%s", said)
	return found[1]
}

// gate is something that a provisioner waits at, and tells when it has arrived.
type gate struct {
	t   *testing.T
	dir string
}

func newGate(t *testing.T) gate {
	g := gate{t, t.TempDir()}
	t.Cleanup(g.open) // whatever waits shall not wait for ever
	return g
}

// command is what the provisioner runs.
func (g gate) command() string {
	return fmt.Sprintf("touch %[1]s/reached; until [ -e %[1]s/open ]; do sleep 0.1; done", g.dir)
}

func (g gate) reached() {
	g.t.Helper()
	eventually(g.t, "the provisioner at the gate", func() bool {
		_, err := os.Stat(filepath.Join(g.dir, "reached"))
		return err == nil
	})
}

func (g gate) open() {
	if err := os.WriteFile(filepath.Join(g.dir, "open"), nil, 0o644); err != nil && !os.IsNotExist(err) {
		g.t.Error(err)
	}
}

// resource is the configuration of a terraform_data with a provisioner.
func resource(name, command string, more ...string) string {
	var text bytes.Buffer
	fmt.Fprintf(&text, "resource \"terraform_data\" %q {\n  input = %q\n", name, name)
	for _, line := range more {
		fmt.Fprintf(&text, "  %s\n", line)
	}
	fmt.Fprintf(&text, "  provisioner \"local-exec\" {\n    command = %q\n  }\n}\n", command)
	return text.String()
}
