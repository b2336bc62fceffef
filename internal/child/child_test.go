//go:build linux

package child_test

import (
	"bufio"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/internal/child"
)

// TestMain lets this test binary play the parent that gets killed.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "play-parent" {
		p, err := child.Start(exec.Command("sleep", "600"), syscall.SIGTERM)
		if err != nil {
			os.Exit(1)
		}
		_, _ = os.Stdout.WriteString(strconv.Itoa(p.Pid()) + "\n")
		<-p.Done()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestChildDiesWithItsParent(t *testing.T) {
	parent := exec.Command(os.Args[0], "play-parent")
	out, err := parent.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, parent.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(pid, 0), "the child runs")

	require.NoError(t, parent.Process.Kill())
	_ = parent.Wait()
	assert.Eventually(t, func() bool { return !running(pid) }, time.Minute, 10*time.Millisecond)
}

// running is false for a zombie too: nobody may be left to reap an orphan in a container.
func running(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z")
}

func TestStopKillsAfterTheGrace(t *testing.T) {
	cmd := exec.Command("sh", "-c", "trap '' TERM; echo deaf; while :; do sleep 0.05; done")
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	p, err := child.Start(cmd, syscall.SIGKILL)
	require.NoError(t, err)
	_, err = bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)

	p.Stop(syscall.SIGTERM, 50*time.Millisecond)
	assert.EqualError(t, p.Err(), "signal: killed")
}

func TestStopLetsAChildEndByItself(t *testing.T) {
	p, err := child.Start(exec.Command("sleep", "600"), syscall.SIGKILL)
	require.NoError(t, err)
	p.Stop(syscall.SIGTERM, time.Minute)
	assert.EqualError(t, p.Err(), "signal: terminated")
}

func TestStartReportsAMissingProgram(t *testing.T) {
	_, err := child.Start(exec.Command("/nonexistent/program"), syscall.SIGKILL)
	assert.ErrorIs(t, err, os.ErrNotExist)
}
