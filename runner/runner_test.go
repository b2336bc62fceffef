package runner

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/runnerapi/wire"
)

// cloudConfig is a configuration as a client uploads it: its cloud block names
// another host, which does not exist.
const cloudConfig = `
terraform {
  cloud {
    hostname     = "elsewhere.invalid"
    organization = "other"
    workspaces { tags = ["x"] }
  }
}
variable "word" { default = "none" }
resource "terraform_data" "a" { input = var.word }
output "word" { value = terraform_data.a.output }
`

// patience is how long anything that comes may take on a busy machine.
const patience = 3 * time.Minute

// start runs a runner until the test ends, when it must end without an error.
func start(t *testing.T, cfg Config) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, cfg) }()
	end = func() {
		t.Helper()
		cancel()
		select {
		case err := <-ended:
			require.NoError(t, err)
			ended <- nil
		case <-time.After(patience):
			require.Fail(t, "the runner did not end")
		}
	}
	t.Cleanup(end)
	return end
}

// await waits for the attempt's end.
func (f *fakeServer) await() wire.Done {
	f.t.Helper()
	f.mu.Lock()
	ended := f.ended
	f.mu.Unlock()
	select {
	case <-ended:
	case <-time.After(patience):
		require.Failf(f.t, "the attempt did not end", "log so far:\n%s", f.logText())
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return *f.done
}

func TestPlanAndApply(t *testing.T) {
	t.Parallel()
	f := newFakeServer(t, wire.Manifest{WorkingDirectory: "envs/prod"}, map[string]string{"envs/prod/main.tf": cloudConfig})
	f.variables = wire.Variables{Terraform: []wire.Variable{{Key: "word", Value: "hello"}}}
	cfg := f.config()
	end := start(t, cfg)

	done := f.await()
	require.Equal(t, wire.OutcomeFinished, done.Outcome, f.logText())
	assert.Equal(t, 2, done.ExitCode)
	assert.Equal(t, &wire.PlanSummary{HasChanges: true, Additions: 1}, done.Plan)
	assert.Equal(t, testTofu(t).version, done.TofuVersion)
	assert.Equal(t, testTofu(t).digest, done.TofuDigest)
	assert.False(t, done.TofuStarted)
	assert.EqualValues(t, len(f.logText()), done.LogSize)
	assert.Contains(t, f.logText(), "Plan: 1 to add, 0 to change, 0 to destroy.")
	var plan struct {
		Variables map[string]struct{ Value string }
	}
	require.NoError(t, json.Unmarshal(f.artifacts[wire.KindPlanJSON], &plan))
	assert.Equal(t, "hello", plan.Variables["word"].Value)
	assert.NotEmpty(t, f.artifacts[wire.KindPlan])
	assert.Empty(t, f.workOps, "plan takes no lock")
	assert.Contains(t, f.logText(), "Initializing cloud backend...")

	f.next("apply")
	done = f.await()
	require.Equal(t, wire.OutcomeFinished, done.Outcome, f.logText())
	assert.Equal(t, 0, done.ExitCode)
	assert.True(t, done.TofuStarted)
	assert.False(t, done.ErroredState)
	require.NotNil(t, done.Confirmed)
	assert.Equal(t, f.pending, done.Confirmed.StateVersionID)
	assert.Equal(t, []string{"lock", "unlock"}, f.workOps)
	assert.Equal(t, "run-1", f.runOf, "the state version names the run")
	assert.Contains(t, string(f.state), `"hello"`)
	lines := strings.SplitN(f.logText(), "\n", 4)
	assert.Equal(t, []string{"OpenTofu v" + testTofu(t).version, "on " + platform, "Initializing plugins and modules..."}, lines[:3], "NC-11")
	assert.Contains(t, f.logText(), "Apply complete! Resources: 1 added")
	assert.NotContains(t, f.logText(), "Initializing cloud backend", "the plan's log has told it")
	assert.NotContains(t, f.logText(), attemptToken)

	end()
	assert.Equal(t, "DELETE runners/agent-1", f.calls[len(f.calls)-1])
	left, err := os.ReadDir(filepath.Join(cfg.Dir, "attempts"))
	require.NoError(t, err)
	assert.Empty(t, left, "attempts leave nothing behind")
	f.mu.Lock()
	defer f.mu.Unlock()
	order := strings.Join(f.calls, " ")
	assert.Less(t, strings.Index(order, "apply-start"), strings.Index(order, "state-confirmation"))
}

func TestPlanOptions(t *testing.T) {
	t.Parallel()
	files := map[string]string{"main.tf": `
resource "terraform_data" "a" { input = "1" }
resource "terraform_data" "b" { input = "1" }
`}
	f := newFakeServer(t, wire.Manifest{}, files)
	start(t, f.config())
	require.Equal(t, wire.OutcomeFinished, f.await().Outcome, f.logText())
	f.next("apply")
	require.Equal(t, wire.OutcomeFinished, f.await().Outcome, f.logText())

	plan := func(change func(*wire.Manifest)) wire.Done {
		t.Helper()
		f.mu.Lock()
		m := f.manifest
		m.Destroy, m.Refresh, m.RefreshOnly, m.TargetAddrs, m.ReplaceAddrs = false, true, false, nil, nil
		change(&m)
		f.manifest = m
		f.mu.Unlock()
		f.next("plan")
		done := f.await()
		require.Equal(t, wire.OutcomeFinished, done.Outcome, f.logText())
		require.NotContains(t, f.logText(), "provider_selections", "of the version that some options ask for")
		return done
	}
	none := plan(func(*wire.Manifest) {})
	assert.Equal(t, 0, none.ExitCode)
	assert.Equal(t, &wire.PlanSummary{}, none.Plan)
	assert.Equal(t, &wire.PlanSummary{HasChanges: true, Destructions: 2}, plan(func(m *wire.Manifest) { m.Destroy = true }).Plan)
	assert.Equal(t, &wire.PlanSummary{HasChanges: true, Additions: 1, Destructions: 1},
		plan(func(m *wire.Manifest) { m.ReplaceAddrs = []string{"terraform_data.b"} }).Plan)
	assert.Equal(t, &wire.PlanSummary{HasChanges: true, Destructions: 1},
		plan(func(m *wire.Manifest) { m.Destroy, m.TargetAddrs = true, []string{"terraform_data.a"} }).Plan)
	assert.Equal(t, &wire.PlanSummary{}, plan(func(m *wire.Manifest) { m.RefreshOnly, m.Refresh = true, false }).Plan)
}

func TestPlanFails(t *testing.T) {
	t.Parallel()
	f := newFakeServer(t, wire.Manifest{}, map[string]string{"main.tf": `
variable "n" { default = 1 }
resource "terraform_data" "a" {
  lifecycle {
    precondition {
      condition     = var.n == 2
      error_message = "not today"
    }
  }
}`})
	start(t, f.config())
	done := f.await()
	assert.Equal(t, wire.OutcomeErrored, done.Outcome)
	assert.Equal(t, 1, done.ExitCode)
	assert.Nil(t, done.Plan)
	assert.Equal(t, "tofu plan ended with exit code 1; the log says why.", done.Message)
	assert.Contains(t, f.logText(), "not today")
	assert.NotContains(t, f.logText()+f.eventText(), done.Message, "the server says it at the end of the log")
	assert.Empty(t, f.artifacts)
}

// Each is refused before tofu runs, with a message that says why.
func TestPreparationRefuses(t *testing.T) {
	t.Parallel()
	config := map[string]string{"main.tf": cloudConfig}
	for name, c := range map[string]struct {
		manifest wire.Manifest
		files    map[string]string
		change   func(*fakeServer)
		message  string
	}{
		"hostile archive":   {files: map[string]string{"../x": ""}, message: `entry "../x", which is refused`},
		"working directory": {manifest: wire.Manifest{WorkingDirectory: "nope"}, files: config, message: `no folder "nope"`},
		"outside":           {manifest: wire.Manifest{WorkingDirectory: "../.."}, files: config, message: `no folder "../.."`},
		"version":           {manifest: wire.Manifest{TofuVersion: "1.0.0"}, files: config, message: "wants tofu 1.0.0"},
		"phase":             {manifest: wire.Manifest{Phase: "dance"}, files: config, message: `phase "dance"`},
		"NUL in a value": {files: config, message: `"word" has a NUL byte`, change: func(f *fakeServer) {
			f.variables.Terraform = []wire.Variable{{Key: "word", Value: "secret\x00value"}}
		}},
		"name of a variable": {files: config, message: "cannot be the name", change: func(f *fakeServer) {
			f.variables.Terraform = []wire.Variable{{Key: "a = 1\nb", Value: "secret", HCL: true}}
		}},
		"no encryption": {manifest: wire.Manifest{EncryptedState: true}, files: config, message: "takes only a state that OpenTofu has encrypted", change: func(f *fakeServer) {
			f.variables.Environment = []wire.Variable{{Key: "TF_ENCRYPTION"}}
		}},
		"binary of the plan": {manifest: wire.Manifest{Phase: "apply", TofuDigest: "0123"}, files: config, message: "not the binary that made the plan"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFakeServer(t, c.manifest, c.files)
			if c.change != nil {
				c.change(f)
			}
			start(t, f.config())
			done := f.await()
			assert.Equal(t, wire.OutcomeErrored, done.Outcome)
			assert.Equal(t, noExitCode, done.ExitCode)
			assert.False(t, done.TofuStarted)
			assert.Equal(t, name == "version", done.Reason == wire.ReasonDispatchFailed, "only what another runner could do")
			assert.Contains(t, done.Message, c.message)
			assert.NotContains(t, done.Message, "secret")
		})
	}
}

func TestApplyStartRefused(t *testing.T) {
	t.Parallel()
	f := newFakeServer(t, wire.Manifest{}, map[string]string{"main.tf": cloudConfig})
	f.override = func(w http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, "/apply-start") {
			problem(w, 409, "approval_spent", "the approval was used already")
			return true
		}
		return false
	}
	start(t, f.config())
	require.Equal(t, wire.OutcomeFinished, f.await().Outcome, f.logText())
	f.next("apply")
	done := f.await()
	assert.Equal(t, wire.OutcomeErrored, done.Outcome)
	assert.False(t, done.TofuStarted)
	assert.Contains(t, done.Message, "the approval was used already")
	assert.Nil(t, f.state)
	assert.Empty(t, f.workOps)
}

func TestApplyStartUnanswered(t *testing.T) {
	before := startPatience
	startPatience = 5 * time.Second // in which two calls fit on any machine
	defer func() { startPatience = before }()
	f := newFakeServer(t, wire.Manifest{}, map[string]string{"main.tf": cloudConfig})
	var asked atomic.Int32
	f.override = func(w http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, "/apply-start") {
			asked.Add(1)
			w.WriteHeader(503)
			return true
		}
		return false
	}
	end := start(t, f.config())
	require.Equal(t, wire.OutcomeFinished, f.await().Outcome, f.logText())
	f.next("apply")
	done := f.await()
	end()
	assert.Equal(t, wire.OutcomeErrored, done.Outcome)
	assert.False(t, done.TofuStarted)
	assert.Greater(t, asked.Load(), int32(1), "an unanswered call is repeated")
	assert.Nil(t, f.state)
}

// applyOf plans and applies files, with change made to the server between the two.
func applyOf(t *testing.T, m wire.Manifest, files map[string]string, change func(*fakeServer)) (*fakeServer, Config) {
	t.Helper()
	f := newFakeServer(t, m, files)
	var hook atomic.Pointer[func(w http.ResponseWriter, r *http.Request) bool]
	f.override = func(w http.ResponseWriter, r *http.Request) bool {
		h := hook.Load()
		return h != nil && (*h)(w, r)
	}
	cfg := f.config()
	start(t, cfg)
	require.Equal(t, wire.OutcomeFinished, f.await().Outcome, f.logText())
	own := &fakeServer{}
	change(own)
	if own.override != nil {
		hook.Store(&own.override)
	}
	f.next("apply")
	return f, cfg
}

// A state that is refused, or comes when the authority has ended (case 28), is kept.
func TestErroredStateIsKept(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusConflict, http.StatusUnauthorized} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			t.Parallel()
			erroredStateIsKept(t, status)
		})
	}
}

func erroredStateIsKept(t *testing.T, status int) {
	f, cfg := applyOf(t, wire.Manifest{}, map[string]string{"main.tf": cloudConfig}, func(s *fakeServer) {
		s.override = func(w http.ResponseWriter, r *http.Request) bool {
			if strings.HasSuffix(r.URL.Path, "/state-versions") {
				w.WriteHeader(status)
				return true
			}
			return false
		}
	})
	done := f.await()
	assert.Equal(t, wire.OutcomeErrored, done.Outcome)
	assert.Equal(t, 1, done.ExitCode)
	assert.True(t, done.TofuStarted)
	assert.True(t, done.ErroredState)
	assert.Nil(t, done.Confirmed)
	kept := filepath.Join(cfg.Dir, "errored", "att-2.tfstate")
	assert.Contains(t, f.logText(), kept)
	info, err := os.Stat(kept)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode())
	text, err := os.ReadFile(kept)
	require.NoError(t, err)
	assert.Contains(t, string(text), `"terraform_data"`)
	var state struct{ Serial int }
	require.NoError(t, json.Unmarshal(text, &state))
	assert.Equal(t, 2, state.Serial, "the one after that which was refused (NC-22)")
}

func TestConfirmationRefused(t *testing.T) {
	t.Parallel()
	f, _ := applyOf(t, wire.Manifest{}, map[string]string{"main.tf": cloudConfig}, func(s *fakeServer) {
		s.override = func(w http.ResponseWriter, r *http.Request) bool {
			if strings.HasSuffix(r.URL.Path, "/state-confirmation") {
				problem(w, 409, "other_fence", "another epoch wrote")
				return true
			}
			return false
		}
	})
	done := f.await()
	assert.Equal(t, wire.OutcomeFinished, done.Outcome)
	assert.Equal(t, 0, done.ExitCode)
	assert.Nil(t, done.Confirmed)
	assert.Contains(t, done.Message, "another epoch wrote")
}

const slowConfig = `
resource "terraform_data" "first" { input = 1 }
resource "terraform_data" "slow" {
  depends_on = [terraform_data.first]
  provisioner "local-exec" { command = "echo is-slow-now; sleep 1000" }
}`

func TestStop(t *testing.T) {
	t.Parallel()
	f, _ := applyOf(t, wire.Manifest{}, map[string]string{"main.tf": slowConfig}, func(*fakeServer) {})
	f.awaitLog("is-slow-now")
	f.mu.Lock()
	f.stop = true
	f.mu.Unlock()
	done := f.await()
	assert.Equal(t, wire.OutcomeCanceled, done.Outcome, f.logText())
	assert.Equal(t, 1, done.ExitCode, "tofu ended by itself after the interrupt")
	assert.True(t, done.TofuStarted)
	assert.Contains(t, string(f.state), `"first"`, "what was made is in the state")
	assert.Contains(t, f.logText(), "Interrupt received")
}

// A tofu that cannot end after the interrupt is killed, with all that it started.
func TestAStopKills(t *testing.T) {
	t.Parallel()
	mark := filepath.Join(t.TempDir(), "pid")
	publishing := make(chan struct{})
	f, _ := applyOf(t, wire.Manifest{InterruptSeconds: 1}, map[string]string{"main.tf": `
resource "terraform_data" "leaves_a_process" {
  provisioner "local-exec" { command = "sleep 1000 >/dev/null 2>&1 & echo $! > ` + mark + `" }
}`}, func(s *fakeServer) {
		var once sync.Once
		s.override = func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.HasSuffix(r.URL.Path, "/state-versions") {
				return false
			}
			_, _ = io.Copy(io.Discard, r.Body) // or the end of the connection is not noticed
			once.Do(func() { close(publishing) })
			<-r.Context().Done()
			return true
		}
	})
	select {
	case <-publishing: // it waits for an answer that does not come
	case <-time.After(patience):
		require.Fail(t, "tofu publishes nothing", f.logText())
	}
	f.mu.Lock()
	f.stop = true
	f.mu.Unlock()
	done := f.await()
	assert.Equal(t, wire.OutcomeCanceled, done.Outcome, f.logText())
	assert.Equal(t, noExitCode, done.ExitCode)
	assert.True(t, done.TofuStarted)
	assertGone(t, mark)
}

// A run that takes longer than it may is stopped like one that was canceled. What it waits for
// here never comes, so that it takes too long on any machine.
func TestTimeLimit(t *testing.T) {
	t.Parallel()
	f := newFakeServer(t, wire.Manifest{MaxSeconds: 1}, map[string]string{"main.tf": cloudConfig})
	f.override = func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/inputs/"+wire.KindConfiguration) {
			return false
		}
		<-r.Context().Done()
		return true
	}
	start(t, f.config())
	done := f.await()
	assert.Equal(t, wire.OutcomeTimedOut, done.Outcome, f.logText())
	assert.Equal(t, noExitCode, done.ExitCode)
	assert.False(t, done.TofuStarted)
	assert.Contains(t, done.Message, "1 seconds")
}

// Also what a provisioner leaves behind ends with tofu.
func TestNothingGoesOn(t *testing.T) {
	t.Parallel()
	mark := filepath.Join(t.TempDir(), "pid")
	f, _ := applyOf(t, wire.Manifest{}, map[string]string{"main.tf": `
resource "terraform_data" "leaves_a_process" {
  provisioner "local-exec" { command = "sleep 1000 >/dev/null 2>&1 & echo $! > ` + mark + `" }
}`}, func(*fakeServer) {})
	assert.Equal(t, wire.OutcomeFinished, f.await().Outcome, f.logText())
	assertGone(t, mark)
}

// assertGone waits for the end of the process whose number is in a file.
func assertGone(t *testing.T, file string) {
	t.Helper()
	pid, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		stat, err := os.ReadFile("/proc/" + strings.TrimSpace(string(pid)) + "/stat")
		return err != nil || strings.Contains(string(stat), ") Z ")
	}, patience, 10*time.Millisecond, "the process is gone")
}

// The end of the context lets the attempt go on; the interrupt does not.
func TestEndOfTheRunner(t *testing.T) {
	t.Parallel()
	f := newFakeServer(t, wire.Manifest{}, map[string]string{"main.tf": slowConfig})
	cfg := f.config()
	interrupt := make(chan struct{})
	cfg.Interrupt = interrupt
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, cfg) }()
	require.Equal(t, wire.OutcomeFinished, f.await().Outcome, f.logText())
	f.next("apply")
	f.awaitLog("is-slow-now")
	cancel()
	f.awaitLog("Still creating") // tofu says so every ten seconds
	close(interrupt)
	done := f.await()
	require.NoError(t, <-ended)
	assert.Equal(t, wire.OutcomeErrored, done.Outcome)
	assert.Equal(t, 1, done.ExitCode)
	assert.Equal(t, "The runner was told to end at once.", done.Message)
}

// Every call but the poll may lose its answer; the repeat changes nothing.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	f := newFakeServer(t, wire.Manifest{}, map[string]string{"main.tf": cloudConfig})
	var lost sync.Map
	var count atomic.Int32
	f.override = func(w http.ResponseWriter, r *http.Request) bool {
		rest, ours := strings.CutPrefix(r.URL.Path, "/runner/v1/")
		if !ours || rest == "poll" {
			return false
		}
		call := r.Method + rest + r.Header.Get(wire.HeaderOffset)
		if _, before := lost.LoadOrStore(call, true); before {
			return false
		}
		f.runnerCall(httptest.NewRecorder(), r, strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), rest)
		count.Add(1)
		panic(http.ErrAbortHandler) // cuts the connection
	}
	end := start(t, f.config())
	require.Equal(t, wire.OutcomeFinished, f.await().Outcome)
	f.next("apply")
	done := f.await()
	require.Equal(t, wire.OutcomeFinished, done.Outcome)
	end()
	assert.EqualValues(t, len(f.logText()), done.LogSize)
	assert.Equal(t, 1, strings.Count(f.logText(), "Apply complete!"))
	assert.Equal(t, []string{"lock", "unlock"}, f.workOps, "tofu applied once")
	assert.Greater(t, count.Load(), int32(15))
}

// A lost assignment costs nothing but itself: the next one is taken.
func TestAcceptRefused(t *testing.T) {
	t.Parallel()
	f := newFakeServer(t, wire.Manifest{}, map[string]string{"main.tf": cloudConfig})
	var refusals atomic.Int32
	f.override = func(w http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, "/accept") && refusals.Add(1) == 1 {
			f.mu.Lock()
			f.offered = false
			f.mu.Unlock()
			problem(w, 409, "assignment_expired", "too late")
			return true
		}
		return false
	}
	start(t, f.config())
	assert.Equal(t, wire.OutcomeFinished, f.await().Outcome, f.logText())
	assert.EqualValues(t, 2, refusals.Load())
}

func TestRefusedToken(t *testing.T) {
	t.Parallel()
	f := newFakeServer(t, wire.Manifest{}, nil)
	cfg := f.config()
	cfg.Token = "wrong-secret"
	err := Run(context.Background(), cfg)
	require.ErrorContains(t, err, "refused the runner group's token")
	assert.NotContains(t, err.Error(), "wrong-secret")
}

func TestWrongConfig(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"localhost:8443": "https://host:port", "https://[::1]:8443": "IPv6", "ftp://x": "https://host:port", "": "https://host:port",
	} {
		assert.ErrorContains(t, Run(context.Background(), Config{Address: address}), want)
	}
	assert.ErrorContains(t, Run(context.Background(), Config{Address: "https://h", TofuPath: "/nowhere/tofu"}), "cannot be read")
	assert.ErrorContains(t, Run(context.Background(), Config{Address: "https://h", TofuPath: "/bin/true"}), "does not answer")
	host, err := hostOf("https://h:443")
	require.NoError(t, err)
	assert.Equal(t, "h", host, "tofu leaves the usual port out, too")
}
