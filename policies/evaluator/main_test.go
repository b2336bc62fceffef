package evaluator

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestMain lets the test's own program be a policy-runner.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == Command {
		os.Exit(Main(os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// child runs a policy-runner with this input and gives what it wrote and its exit code.
func child(t *testing.T, input string) (out, errs string, code int) {
	t.Helper()
	executable, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(executable, Command)
	cmd.Env = []string{}
	cmd.Stdin = strings.NewReader(input)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit)
		code = exit.ExitCode()
	}
	return stdout.String(), stderr.String(), code
}

func requestOf(t testing.TB, r Request) string {
	t.Helper()
	if r.Limits.Time == 0 {
		r.Limits = Limits{Memory: 512 << 20, Time: time.Minute, Budget: 30 * time.Second, Message: 2000}
	}
	line, err := json.Marshal(r)
	require.NoError(t, err)
	return string(line) + "\n"
}

func TestAPolicyRunnerAnswersOneRequest(t *testing.T) {
	t.Parallel()
	b := one("package p\n\ndeny contains input.plan.x\n")
	out, _, code := child(t, requestOf(t, Request{Mode: Publish, Bundle: &b}))
	assert.Zero(t, code)
	assert.JSONEq(t, `{"errors":[],"tests":0}`, out)

	derivative, _, code := child(t, requestOf(t, Request{Mode: Derive})+strings.Repeat(`{"resource_changes":[],"x":"left out"}`, 2))
	assert.Zero(t, code)
	assert.JSONEq(t, `{"run":{},"plan":{"resource_changes":[]}}`, derivative)

	out, _, code = child(t, requestOf(t, Request{Mode: Evaluate, Bundle: &b})+`{"plan":{"x":"no"}}`)
	assert.Zero(t, code)
	assert.Contains(t, out, `"status":"failed"`)
}

func TestAPolicyRunnerSaysWhatItCannotRead(t *testing.T) {
	t.Parallel()
	for _, input := range []string{"", "{}", "{}\n", "no json\n", requestOf(t, Request{Mode: "other"}), requestOf(t, Request{Mode: Derive}) + "no plan"} {
		_, errs, code := child(t, input)
		assert.Equal(t, ExitRefused, code, input)
		assert.NotEmpty(t, errs)
	}
}

// greedy wants some 800 MiB at once, and would pass with them.
const greedy = `package p

deny contains "x" if {
	kilobyte := concat("", ["xxxxxxxx" | some i in numbers.range(1, 128)])
	megabyte := concat("", [kilobyte | some i in numbers.range(1, 1024)])
	all := [concat("", [megabyte, sprintf("%d", [i])]) | some i in numbers.range(1, 800)]
	count(all) == 0
}
`

// TestAPolicyRunnerEndsAtItsMemory: a policy that wants more than there is takes nothing from
// others.
func TestAPolicyRunnerEndsAtItsMemory(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/proc/self/limits"); err != nil {
		t.Skip("the limit is the kernel's, of Linux")
	}
	b := one(greedy)
	limits := Limits{Memory: 256 << 20, Time: time.Minute, Budget: 50 * time.Second}
	_, errs, code := child(t, requestOf(t, Request{Mode: Evaluate, Bundle: &b, Limits: limits})+`{"plan":{}}`)
	assert.NotZero(t, code)
	assert.True(t, OutOfMemory(errs), errs)
}
