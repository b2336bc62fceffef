package runner

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/runnerapi/wire"
)

// refusing makes the server refuse the session from now on, its report aside.
func refusing(status int, code string, over *atomic.Bool) func(w http.ResponseWriter, r *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		attempt := strings.Contains(r.URL.Path, "/attempts/") && !strings.HasSuffix(r.URL.Path, "/done") && !strings.HasSuffix(r.URL.Path, "/emergency-state")
		state := strings.HasPrefix(r.URL.Path, "/api/v2/")
		if !over.Load() || !(attempt || state) {
			return false
		}
		problem(w, status, code, "no")
		return true
	}
}

// A plan that has lost its authority is ended: nobody will take what it finds.
func TestAPlanThatIsRefusedEnds(t *testing.T) {
	t.Parallel()
	for _, no := range []struct {
		status int
		code   string
	}{{401, "session_ended"}, {423, "authority_lost"}, {401, "unauthenticated"}} {
		t.Run(no.code, func(t *testing.T) {
			t.Parallel()
			mark := filepath.Join(t.TempDir(), "pid")
			f := newFakeServer(t, wire.Manifest{InterruptSeconds: 3600}, map[string]string{"main.tf": `
terraform {
  required_providers {
    mute = { source = "registry.invalid/x/mute" }
  }
}
resource "mute_thing" "a" {}
`})
			cfg := f.config()
			cfg.ProviderMirror = t.TempDir()
			dir := filepath.Join(cfg.ProviderMirror, "registry.invalid/x/mute/1.0.0", platform)
			require.NoError(t, os.MkdirAll(dir, 0o700))
			script := "#!/bin/sh\necho $$ > " + mark + "\nexec sleep 1000\n" // tofu waits for it to say something
			require.NoError(t, os.WriteFile(filepath.Join(dir, "terraform-provider-mute_v1.0.0"), []byte(script), 0o700))
			var over atomic.Bool
			f.override = refusing(no.status, no.code, &over)
			start(t, cfg)
			require.Eventually(t, func() bool { text, err := os.ReadFile(mark); return err == nil && len(text) > 1 }, patience, 10*time.Millisecond)
			over.Store(true)
			done := f.await()
			assert.Equal(t, wire.OutcomeErrored, done.Outcome)
			assert.Contains(t, done.Message, "no authority any more")
			assertGone(t, mark)
		})
	}
}

// An apply that has lost its authority is interrupted: it begins nothing new, and writes down
// what it has made for the recovery.
func TestAnApplyThatIsRefusedStopsCleanly(t *testing.T) {
	t.Parallel()
	var over atomic.Bool
	f, cfg := applyOf(t, wire.Manifest{}, map[string]string{"main.tf": slowConfig}, func(s *fakeServer) {
		s.override = refusing(423, "authority_lost", &over)
	})
	f.awaitLog("is-slow-now")
	over.Store(true)
	done := f.await()
	assert.Equal(t, wire.OutcomeErrored, done.Outcome)
	assert.Equal(t, 1, done.ExitCode, "tofu ended by itself after the interrupt")
	assert.True(t, done.TofuStarted)
	assert.True(t, done.ErroredState)
	kept, err := os.ReadFile(filepath.Join(cfg.Dir, "errored", "att-2.tfstate"))
	require.NoError(t, err)
	assert.Contains(t, string(kept), `"first"`)
	f.mu.Lock()
	defer f.mu.Unlock()
	require.Len(t, f.emergency, 1, "the server has it, by the capability that outlives the session")
	assert.JSONEq(t, string(kept), f.emergency[0])
}

// What is no word of the server about this session stops nothing.
func TestARefusalThatMeansSomethingElse(t *testing.T) {
	t.Parallel()
	for want, errs := range map[verdict][]error{
		yes:     {&refusal{status: 401, code: "session_ended"}, &refusal{status: 401, code: "capability_expired"}, &refusal{status: 423, code: "authority_lost"}},
		perhaps: {&refusal{status: 401}, &refusal{status: 401, code: "unauthenticated"}, &refusal{status: 423, code: "other"}},
		no:      {nil, errors.New("connection refused"), &refusal{status: 404, code: "not_found"}, &refusal{status: 403}, &refusal{status: 400, code: "malformed"}},
	} {
		for _, err := range errs {
			assert.Equal(t, want, sessionOver(err), "%v", err)
		}
	}
	var polls atomic.Int32
	gate := filepath.Join(t.TempDir(), "gate")
	f, _ := applyOf(t, wire.Manifest{}, map[string]string{"main.tf": `
resource "terraform_data" "waits" {
  provisioner "local-exec" { command = "until [ -e ` + gate + ` ]; do sleep 0.05; done" }
}`}, func(s *fakeServer) {
		s.override = func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.HasSuffix(r.URL.Path, "/status") {
				return false
			}
			if polls.Add(1)%3 == 0 {
				return false
			}
			problem(w, 401, "unauthenticated", "another key ring")
			return true
		}
	})
	require.Eventually(t, func() bool { return polls.Load() >= 6 }, patience, 10*time.Millisecond, "it asks on")
	require.NoError(t, os.WriteFile(gate, nil, 0o600))
	assert.Equal(t, wire.OutcomeFinished, f.await().Outcome, f.logText())
}
