package history

import (
	"context"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/tests/stack"
)

const (
	writers    = 50
	workspaces = 10
	rounds     = 2                // how often each fault happens
	between    = 2                // writes that are acknowledged at least from one fault to the next
	atMost     = 12 * time.Minute // for all of them, on a busy machine
)

// TestStateHistory is the promise that matters most, under fire: 50 writers, a server that dies
// at every failpoint of an upload and at any other moment, a database that crashes, a store that
// comes and goes. What was acknowledged is one linear history, and all of it is there at the end.
func TestStateHistory(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a minute")
	}
	order := filepath.Join(t.TempDir(), "failpoint")
	s, err := stack.Start(stack.Options{
		Executable: withFailpoints(t), Dir: filepath.Join(t.TempDir(), "data"),
		Environ: []string{"HOLDFAST_FAILPOINT=" + order},
	})
	require.NoError(t, err)
	stopped := false
	t.Cleanup(func() {
		if !stopped {
			_ = s.Stop()
		}
		if t.Failed() {
			t.Logf("The server's log ends:\n%s", s.Log("server"))
		}
	})

	c := newCrowd(t, s)
	traffic, end := context.WithTimeout(t.Context(), atMost)
	defer end()
	var group sync.WaitGroup
	for i := range writers {
		group.Go(func() { c.write(traffic, i) })
	}
	faults := newFaults(s, order, failpoints(t))
	faults.acknowledged = func() int { acknowledged, _, _ := c.counts(); return acknowledged }
	faults.run(traffic)
	end()
	group.Wait()
	require.Eventually(t, s.Ready, 3*time.Minute, 100*time.Millisecond, "the stack comes back")

	c.readAll()
	done, refusals, lost := c.counts()
	t.Logf("%d writes acknowledged, %d refused, %d unknown, %d reads; faults: %v", done, refusals, lost, c.reads(), faults.counts())
	require.Greater(t, done, 20, "there was traffic")
	faults.mustHaveHappened(t)
	c.mustBeWhole(t)
	result, info := porcupine.CheckOperationsVerbose(model(), c.history(), 5*time.Minute)
	if result != porcupine.Ok {
		picture := filepath.Join(os.TempDir(), "holdfast-history.html")
		_ = porcupine.VisualizePath(model(), info, picture)
		t.Fatalf("the history is %s; see %s", result, picture)
	}
	stopped = true
	require.NoError(t, s.Stop(), s.Said())
}

// withFailpoints builds a server that can be told where to die, beside the programs of bin.
func withFailpoints(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	bin, err := filepath.Abs("../../bin")
	require.NoError(t, err)
	for _, program := range []string{"holdfast-runner", "tofu"} {
		require.NoError(t, os.Symlink(filepath.Join(bin, program), filepath.Join(dir, program)))
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-tags", "failpoint", "-o", filepath.Join(dir, "holdfast"), "../../cmd/holdfast")
	said, err := build.CombinedOutput()
	require.NoError(t, err, string(said))
	return filepath.Join(dir, "holdfast")
}

// failpoints finds the places of an upload in the source, so that a new one is crashed at too.
func failpoints(t *testing.T) (names []string) {
	t.Helper()
	files, err := filepath.Glob("../../state/*.go")
	require.NoError(t, err)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, found := range regexp.MustCompile(`failpoint\.Here\("([^"]+)"\)`).FindAllStringSubmatch(string(content), -1) {
			names = append(names, found[1])
		}
	}
	require.NotEmpty(t, names)
	return names
}

// faults does harm to a stack, one thing at a time.
type faults struct {
	stack  *stack.Stack
	order  string // the file that tells the server where to die
	places []string
	kinds  []string
	happen map[string]int

	acknowledged func() int // how many writes were, so far
}

func newFaults(s *stack.Stack, order string, places []string) *faults {
	f := &faults{stack: s, order: order, places: places, happen: map[string]int{}}
	f.kinds = append(f.kinds, places...)
	f.kinds = append(f.kinds, "server", "server", "postgres", "s3", "s3 hangs")
	return f
}

func (f *faults) run(ctx context.Context) {
	for turn := 0; turn < rounds*len(f.kinds) && ctx.Err() == nil; turn++ {
		if turn%len(f.kinds) == 0 {
			rand.Shuffle(len(f.kinds), func(i, j int) { f.kinds[i], f.kinds[j] = f.kinds[j], f.kinds[i] })
		}
		kind, before := f.kinds[turn%len(f.kinds)], f.acknowledged()
		if f.do(ctx, kind) {
			f.happen[kind]++
		}
		for ctx.Err() == nil && (!f.stack.Ready() || f.acknowledged() < before+between) {
			pause(ctx, 50*time.Millisecond)
		}
		pause(ctx, 700*time.Millisecond)
	}
	_ = os.Remove(f.order)
	_ = f.stack.Signal("s3", syscall.SIGCONT)
}

// do tells whether the harm was done.
func (f *faults) do(ctx context.Context, kind string) bool {
	switch kind {
	case "s3 hangs":
		if f.stack.Signal("s3", syscall.SIGSTOP) != nil {
			return false
		}
		pause(ctx, time.Second)
		return f.stack.Signal("s3", syscall.SIGCONT) == nil
	case "server", "s3", "postgres":
		return f.stack.Signal(kind, syscall.SIGKILL) == nil
	}
	if os.WriteFile(f.order, []byte(kind), 0o600) != nil {
		return false
	}
	for ctx.Err() == nil {
		if _, err := os.Stat(f.order); err != nil {
			return true // somebody came by, and died
		}
		pause(ctx, 5*time.Millisecond)
	}
	return false
}

func (f *faults) counts() map[string]int { return f.happen }

func (f *faults) mustHaveHappened(t *testing.T) {
	t.Helper()
	for _, kind := range f.kinds {
		require.GreaterOrEqual(t, f.happen[kind], rounds, "%s did not happen as often as it should", kind)
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
