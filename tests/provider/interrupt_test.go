package provider

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// running is a tofu that works in the background.
type running struct {
	f    *folder
	cmd  *exec.Cmd
	said transcript
	done chan struct{} // closed when it has ended
	err  error         // valid then
}

// transcript collects what a process says while it runs.
type transcript struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *transcript) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *transcript) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func (f *folder) start(args ...string) *running {
	f.t.Helper()
	r := &running{f: f, cmd: f.command(args...), done: make(chan struct{})}
	r.cmd.Stdout, r.cmd.Stderr = &r.said, &r.said
	require.NoError(f.t, r.cmd.Start())
	go func() {
		r.err = r.cmd.Wait()
		close(r.done)
	}()
	f.t.Cleanup(func() {
		_ = r.cmd.Process.Kill() // in vain, when it has ended
		<-r.done
	})
	return r
}

func (r *running) interrupt() {
	r.f.t.Helper()
	require.NoError(r.f.t, r.cmd.Process.Signal(os.Interrupt))
}

// awaitSaid returns when tofu has said the text.
func (r *running) awaitSaid(text string) {
	r.f.t.Helper()
	require.Eventually(r.f.t, func() bool { return strings.Contains(r.said.String(), text) }, patience, 10*time.Millisecond, "tofu never said %q", text)
}

// wait gives the exit code and what was printed.
func (r *running) wait() (int, string) {
	r.f.t.Helper()
	select {
	case <-r.done:
		return exitCode(r.err), r.said.String()
	case <-time.After(patience):
		require.FailNow(r.f.t, "tofu does not end")
		return 0, ""
	}
}

// stillRuns checks that tofu has not ended a moment later: nothing signals that
// something does not happen.
func (r *running) stillRuns() {
	r.f.t.Helper()
	select {
	case <-r.done:
		require.FailNow(r.f.t, "tofu ended early", r.said.String())
	case <-time.After(500 * time.Millisecond):
	}
}

func TestInterruptedCreateMakesNothing(t *testing.T) {
	f := newFolder(t, `resource "fault_slow" "s" {
		name         = "s"
		create_delay = "1h"
	}`)
	apply := f.start("apply", "-auto-approve", "-no-color")
	f.awaitEvent("creating s")
	apply.interrupt()
	code, said := apply.wait()
	assert.Equal(t, 1, code)
	assert.Contains(t, said, "interrupted while it waited")
	assert.Equal(t, []string{"creating s", "interrupted s"}, f.events())
	assert.Empty(t, f.state())
}

func TestInterruptedUpdateAndDeleteLeaveTheObject(t *testing.T) {
	slowly := func(value string) string {
		return `resource "fault_slow" "s" {
			name         = "s"
			value        = "` + value + `"
			update_delay = "1h"
			delete_delay = "1h"
		}`
	}
	f := newFolder(t, slowly("one"))
	f.apply()
	f.configure(slowly("two"))

	for _, step := range []struct{ command, event string }{
		{"apply", "updating s"},
		{"destroy", "deleting s"},
	} {
		work := f.start(step.command, "-auto-approve", "-no-color")
		f.awaitEvent(step.event)
		work.interrupt()
		code, said := work.wait()
		assert.Equal(t, 1, code)
		assert.Contains(t, said, "interrupted while it waited")
		f.agrees()
	}
	assert.Equal(t, "one", f.state()["fault_slow.s"].Values["value"])
}

func TestInterruptedReadEndsThePlan(t *testing.T) {
	f := newFolder(t, `resource "fault_slow" "s" {
		name       = "s"
		read_delay = "1h"
	}`)
	f.apply()
	plan := f.start("plan", "-no-color")
	f.awaitEvent("reading s")
	plan.interrupt()
	code, said := plan.wait()
	assert.Equal(t, 1, code)
	assert.Contains(t, said, "interrupted while it waited")
	f.agrees()
}

func TestInterruptedLookupEndsThePlan(t *testing.T) {
	f := newFolder(t, `data "fault_lookup" "l" {
		value = "l"
		delay = "1h"
	}`)
	plan := f.start("plan", "-no-color")
	f.awaitEvent("looked_up l")
	plan.interrupt()
	code, said := plan.wait()
	assert.Equal(t, 1, code)
	assert.Contains(t, said, "interrupted while it waited")
}

func TestDelaysPass(t *testing.T) {
	f := newFolder(t, `resource "fault_slow" "s" {
		name         = "s"
		create_delay = "700ms"
		delete_delay = "600ms"
	}`)
	f.apply()
	f.agrees()
	f.destroy()
	entries := f.entries()
	require.Equal(t, []string{"creating s", "created s", "reading s", "deleting s", "deleted s"}, f.events())
	assert.GreaterOrEqual(t, entries[1].Time.Sub(entries[0].Time), 700*time.Millisecond)
	assert.GreaterOrEqual(t, entries[4].Time.Sub(entries[3].Time), 600*time.Millisecond)
}

func TestIgnoredInterruptLetsTheCreateFinish(t *testing.T) {
	f := newFolder(t, `resource "fault_slow" "s" {
		name              = "s"
		gate              = "%[1]s/gate"
		ignore_interrupts = true
	}`)
	apply := f.start("apply", "-auto-approve", "-no-color")
	f.awaitEvent("creating s")
	apply.interrupt()
	apply.awaitSaid("Interrupt received")
	apply.stillRuns()
	f.write("gate", "")
	code, said := apply.wait()
	assert.Equal(t, 1, code, said)
	assert.Equal(t, []string{"creating s", "created s"}, f.events())
	f.agrees()
}

func TestSecondInterruptEndsTofuAllTheSame(t *testing.T) {
	f := newFolder(t, `resource "fault_slow" "s" {
		name              = "s"
		create_delay      = "1h"
		ignore_interrupts = true
	}`)
	apply := f.start("apply", "-auto-approve", "-no-color")
	f.awaitEvent("creating s")
	apply.interrupt()
	apply.awaitSaid("Interrupt received") // two signals at once would be one
	apply.stillRuns()
	apply.interrupt()
	code, said := apply.wait()
	assert.Equal(t, 1, code)
	assert.Contains(t, said, "Two interrupts received")
	assert.Equal(t, []string{"creating s"}, f.events())
	provider := f.entries()[0].PID
	assert.Eventually(t, func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", provider))
		return err != nil || strings.Contains(string(stat), ") Z ") // in a container there may be nobody to reap it
	}, patience, 10*time.Millisecond, "the provider outlives tofu")
}
