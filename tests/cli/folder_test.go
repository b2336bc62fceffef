package cli

import (
	cryptorand "crypto/rand"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func rand() string { return cryptorand.Text()[:12] }

// result is how a tofu ended and what it said.
type result struct {
	code   int
	said   string // on both streams
	stdout string
}

// folder is a configuration on disk.
type folder struct {
	t       *testing.T
	dir     string
	environ []string
}

func (d *desk) folder(files ...string) *folder {
	d.t.Helper()
	f := &folder{t: d.t, dir: d.t.TempDir(), environ: append([]string{}, d.environ...)}
	for i, content := range files {
		f.write(fmt.Sprintf("file-%d.tf", i), content)
	}
	return f
}

// inCloud is a cloud block for the desk's organization with that workspaces block.
func (d *desk) inCloud(workspaces string) string {
	return fmt.Sprintf("terraform {\n  cloud {\n    hostname = %q\n    organization = %q\n    workspaces {\n%s\n    }\n  }\n}\n", host(), d.organization, workspaces)
}

// onRemote is a remote backend for the desk's organization with that workspaces block.
func (d *desk) onRemote(workspaces string) string {
	return fmt.Sprintf("terraform {\n  backend \"remote\" {\n    hostname = %q\n    organization = %q\n    workspaces {\n%s\n    }\n  }\n}\n", host(), d.organization, workspaces)
}

// backend puts another terraform block into the folder.
func (f *folder) backend(block string) { f.write("file-0.tf", block) }

func (f *folder) write(name, content string) {
	f.t.Helper()
	path := filepath.Join(f.dir, name)
	require.NoError(f.t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(f.t, os.WriteFile(path, []byte(content), 0o644))
}

// with is the same folder in a larger environment.
func (f *folder) with(environ ...string) *folder {
	more := *f
	more.environ = append(append([]string{}, f.environ...), environ...)
	return &more
}

func (f *folder) command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(f.t.Context(), program("tofu"), args...)
	cmd.Dir, cmd.Env = f.dir, f.environ
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// tofu runs a command that is asked nothing.
func (f *folder) tofu(args ...string) result {
	f.t.Helper()
	return f.talk(nil, args...)
}

// ok runs tofu, which must succeed, and gives what it said.
func (f *folder) ok(args ...string) string {
	f.t.Helper()
	return f.okTalk(nil, args...)
}

// fails runs tofu, which must exit 1 and say each of the texts.
func (f *folder) fails(texts []string, args ...string) {
	f.t.Helper()
	f.failsTalk(nil, texts, args...)
}

// turn is one exchange of a dialogue.
type turn struct{ expect, answer string }

func (f *folder) okTalk(dialogue []turn, args ...string) string {
	f.t.Helper()
	r := f.talk(dialogue, args...)
	require.Equal(f.t, 0, r.code, "tofu %s said:\n%s", strings.Join(args, " "), r.said)
	return r.said
}

func (f *folder) failsTalk(dialogue []turn, texts []string, args ...string) {
	f.t.Helper()
	r := f.talk(dialogue, args...)
	require.Equal(f.t, 1, r.code, "tofu %s said:\n%s", strings.Join(args, " "), r.said)
	for _, text := range texts {
		require.Contains(f.t, flat(r.said), text)
	}
}

// flat puts wrapped and framed text into one line.
func flat(text string) string {
	return strings.Join(strings.Fields(strings.NewReplacer("│", " ", "╷", " ", "╵", " ").Replace(text)), " ")
}

// talk runs tofu and answers each expected text when it has come.
func (f *folder) talk(dialogue []turn, args ...string) result {
	f.t.Helper()
	s := f.start(args...)
	for _, turn := range dialogue {
		s.await(turn.expect)
		_, err := s.stdin.Write([]byte(turn.answer + "\n"))
		require.NoError(f.t, err)
	}
	return s.end()
}

// session is a tofu at work.
type session struct {
	t            *testing.T
	cmd          *exec.Cmd
	stdin        io.WriteCloser
	stdout, said transcript
	read         int // how much of what it said has been expected
	done         chan struct{}
}

func (f *folder) start(args ...string) *session {
	f.t.Helper()
	s := &session{t: f.t, cmd: f.command(args...), done: make(chan struct{})}
	s.cmd.Stdout, s.cmd.Stderr = both{&s.stdout, &s.said}, &s.said
	var err error
	s.stdin, err = s.cmd.StdinPipe()
	require.NoError(f.t, err)
	require.NoError(f.t, s.cmd.Start())
	go func() {
		defer close(s.done)
		_ = s.cmd.Wait() // its state tells how it ended
	}()
	return s
}

// await returns when tofu has said the text since the last one awaited.
func (s *session) await(text string) {
	s.t.Helper()
	for deadline, ended := time.Now().Add(patience), false; ; {
		if at := strings.Index(s.said.String()[s.read:], text); at >= 0 {
			s.read += at + len(text)
			return
		}
		if ended || time.Now().After(deadline) {
			s.fail("it did not say " + text)
		}
		select {
		case <-s.done:
			ended = true // and look once more
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (s *session) fail(why string) {
	s.t.Helper()
	_ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL)
	require.FailNow(s.t, why, "tofu %s said:\n%s", strings.Join(s.cmd.Args[1:], " "), &s.said)
}

// end gives tofu's end. Its input stays open till then, as a terminal does: a client that
// prompts takes an input that is closed for an answer.
func (s *session) end() result {
	s.t.Helper()
	select {
	case <-s.done:
	case <-time.After(patience):
		s.fail("it does not end")
	}
	return result{code: s.cmd.ProcessState.ExitCode(), said: s.said.String(), stdout: s.stdout.String()}
}

type both struct{ a, b *transcript }

func (t both) Write(p []byte) (int, error) {
	_, _ = t.a.Write(p)
	return t.b.Write(p)
}

// output gives the plain value of an output.
func (f *folder) output(name string) string {
	f.t.Helper()
	r := f.tofu("output", "-raw", name)
	require.Equal(f.t, 0, r.code, r.said)
	return r.stdout
}
