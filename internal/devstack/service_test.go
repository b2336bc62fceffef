//go:build linux

package devstack

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/fault"
)

// TestMain lets this test binary play a service: "serve ADDRESS" answers HTTP until SIGTERM,
// "deaf" ignores SIGTERM. It also plays the holdfast binary of a stack.
func TestMain(m *testing.M) {
	if len(os.Args) < 2 {
		os.Exit(m.Run())
	}
	healthy := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	switch os.Args[1] {
	default:
		os.Exit(m.Run())
	case "server":
		fmt.Fprintln(os.Stderr, http.ListenAndServeTLS(os.Getenv("HOLDFAST_LISTEN"), os.Getenv("HOLDFAST_TLS_CERT"), os.Getenv("HOLDFAST_TLS_KEY"), healthy))
		os.Exit(1)
	case "dev-s3":
		fmt.Fprintln(os.Stderr, http.ListenAndServe(os.Args[slices.Index(os.Args, "--listen")+1], healthy))
		os.Exit(1)
	case "play-serve":
		terminated, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		go func() {
			<-terminated.Done()
			os.Exit(0)
		}()
		fmt.Fprintln(os.Stderr, http.ListenAndServe(os.Args[2], healthy))
		os.Exit(1)
	case "play-deaf":
		signal.Ignore(syscall.SIGTERM)
		_ = os.WriteFile(os.Args[2], nil, 0o600)
		select {}
	}
}

const patience = time.Minute

func playing(t *testing.T, l layout, args ...string) *service {
	t.Helper()
	environ := serviceEnviron(l, inherited(os.Environ(), forServer), nil)
	return &service{
		name: "player", layout: l, say: t.Logf,
		start: func(context.Context) (process, error) {
			return startProgram(l, "player", patience, environ, os.Args[0], args...)
		},
	}
}

func pidOf(t *testing.T, l layout) int {
	t.Helper()
	content, err := readTrimmed(l.pid("player"))
	require.NoError(t, err)
	pid, _ := strconv.Atoi(content)
	return pid
}

func TestAKilledServiceIsStartedAgain(t *testing.T) {
	l := folder(t)
	port, err := choosePorts(l.ports(), "player")
	require.NoError(t, err)
	listen := net.JoinHostPort("127.0.0.1", strconv.Itoa(port["player"]))
	svc := playing(t, l, "play-serve", listen)
	svc.ready = healthy(http.DefaultClient, "http://"+listen+"/healthz")
	require.NoError(t, svc.run(t.Context()))

	first := pidOf(t, l)
	require.NoError(t, svc.ready(t.Context()), "run returns when it serves")
	assert.True(t, isServiceOf(l, first))
	require.NoError(t, syscall.Kill(first, syscall.SIGKILL))
	require.Eventually(t, func() bool { return pidOf(t, l) != first && svc.ready(t.Context()) == nil }, patience, 10*time.Millisecond)

	second := pidOf(t, l)
	svc.stop(context.Background())
	assert.ErrorIs(t, syscall.Kill(second, 0), syscall.ESRCH)
	assert.NoFileExists(t, l.pid("player"))
}

func TestAServiceThatEndsWhileStartingIsAnErrorWithItsLog(t *testing.T) {
	taken, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	l := folder(t)
	svc := playing(t, l, "play-serve", taken.Addr().String())
	svc.ready = func(context.Context) error { return assert.AnError }
	err = svc.run(t.Context())
	assert.True(t, fault.HasCode(err, "service_failed"), "%v", err)
	assert.ErrorContains(t, err, "address already in use")
	assert.NoFileExists(t, l.pid("player"))
	svc.stop(context.Background()) // of a service that never ran: nothing to wait for
}

func TestHurryCutsTheGraceShort(t *testing.T) {
	l := folder(t)
	isDeaf := l.path("deaf")
	svc := playing(t, l, "play-deaf", isDeaf)
	svc.start = func(context.Context) (process, error) {
		return startProgram(l, "player", time.Hour, os.Environ(), os.Args[0], "play-deaf", isDeaf)
	}
	require.NoError(t, svc.run(t.Context()))
	require.Eventually(t, func() bool { _, err := os.Stat(isDeaf); return err == nil }, patience, 5*time.Millisecond)

	hurry, cancel := context.WithCancel(context.Background())
	stopped := make(chan struct{})
	go func() { svc.stop(hurry); close(stopped) }()
	cancel()
	select {
	case <-stopped:
	case <-time.After(patience):
		t.Fatal("it waits for the end of the grace")
	}
	assert.NoFileExists(t, l.pid("player"))
}

func TestLeftoversOfAKilledSupervisorAreWaitedFor(t *testing.T) {
	l := folder(t)
	listen := "127.0.0.1:0"
	started, err := playing(t, l, "play-serve", listen).start(t.Context())
	require.NoError(t, err)
	require.NoError(t, writePrivate(l.pid("runner"), strconv.Itoa(started.Pid())))
	// A number that by now belongs to a process of somebody else.
	require.NoError(t, writePrivate(l.pid("server"), strconv.Itoa(os.Getpid())))

	require.Eventually(t, func() bool { return isServiceOf(l, started.Pid()) }, patience, time.Millisecond, "fork and exec are two steps")
	awaitLeftovers(l, t.Logf)
	select {
	case <-started.Done():
	case <-time.After(patience):
		t.Fatal("the leftover still runs")
	}
	assert.NotEqual(t, "signal: killed", outcome(started.Err()), "it was asked to end")
	assert.NoFileExists(t, l.pid("runner"))
}

func command(t *testing.T, script string) (opts Options, output func() string) {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "output"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = file.Close() })
	return Options{Command: []string{"sh", "-c", script}, Stdout: file, Stderr: file}, func() string {
		content, err := os.ReadFile(file.Name())
		require.NoError(t, err)
		return string(content)
	}
}

func TestTheCommandsExitCodeIsReturned(t *testing.T) {
	for script, want := range map[string]int{"exit 0": 0, "exit 7": 7, "kill -KILL $$": 128 + 9} {
		opts, _ := command(t, script)
		code, err := runCommand("/bin/sh", opts, []string{"PATH=/bin:/usr/bin"}, nil, false)
		require.NoError(t, err)
		assert.Equal(t, want, code, script)
	}
}

func TestTheCommandIsFoundOnItsOwnPath(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "tofu"), []byte("#!/bin/sh\nexit 3\n"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "notes"), nil, 0o644))
	path, err := lookPath("tofu", []string{"PATH=" + dir + ":/bin"})
	require.NoError(t, err)
	code, err := runCommand(path, Options{Command: []string{"tofu"}}, nil, nil, true)
	require.NoError(t, err)
	assert.Equal(t, 3, code)
	for _, name := range []string{"no-such-program", "notes", dir, "./no-such-program"} {
		_, err := lookPath(name, []string{"PATH=" + dir})
		assert.True(t, fault.HasCode(err, "command_missing"), name)
		assert.ErrorContains(t, err, name)
	}
}

func TestSignalsReachTheCommandAndWhatItStarted(t *testing.T) {
	opts, output := command(t, `trap 'wait; exit 5' TERM; sh -c 'trap "echo inner; exit 0" TERM; echo up; while :; do sleep 0.02; done' & wait; wait`)
	signals := make(chan os.Signal, 1)
	ended := make(chan int, 1)
	go func() {
		code, err := runCommand("/bin/sh", opts, []string{"PATH=/bin:/usr/bin"}, signals, false)
		assert.NoError(t, err)
		ended <- code
	}()
	require.Eventually(t, func() bool { return output() == "up\n" }, patience, 5*time.Millisecond)
	signals <- syscall.SIGTERM
	select {
	case code := <-ended:
		assert.Equal(t, 5, code)
	case <-time.After(patience):
		t.Fatal("the command did not end")
	}
	assert.Contains(t, output(), "inner")
}

func TestWithoutItsProgramsTheStackDoesNotStart(t *testing.T) {
	_, err := exec.LookPath("holdfast-runner")
	if err == nil {
		t.Skip("a holdfast-runner is installed on this machine")
	}
	code, err := Run(t.Context(), Options{Dir: t.TempDir(), Executable: "/nonexistent/holdfast", Stderr: os.Stderr})
	assert.Equal(t, 1, code)
	assert.True(t, fault.HasCode(err, "program_missing"), "%v", err)
}
