package recovery

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// failing makes three things, and the third only when it is asked for a second time.
const failing = `
	resource "fault_nth" "a" {
	  name    = "a"
	  counter = "%[1]s/counter"
	  fail_at = 3
	}
	resource "fault_nth" "b" {
	  name       = "b"
	  counter    = "%[1]s/counter"
	  fail_at    = 3
	  depends_on = [fault_nth.a]
	}
	resource "fault_nth" "c" {
	  name       = "c"
	  counter    = "%[1]s/counter"
	  fail_at    = 3
	  depends_on = [fault_nth.b]
	}`

// The ordinary story: the provider says no, what was made before is published, and nothing is in
// doubt. It is the first, and no other runs beside it, so that what it prints is worth something.
func TestAProviderError(t *testing.T) {
	p := newPlant(t, needs{})
	run := p.apply(failing)
	p.held(run, "apply_failed")
	failed := time.Now()
	evidence := p.evidence(run)
	assert.Equal(t, map[string]string{"current_state_verified": "", "import_emergency_state": "predecessor_moved", "import_emergency_successor": "emergency_state_missing"}, possible(evidence))
	assert.Equal(t, map[string]any{"proven-stopped": true, "how": "done-report"}, pick(evidence["writer"], "proven-stopped", "how"))
	p.recover(run, "current_state_verified")
	next := p.planned(failing)
	t.Logf("from the failed apply to the next plan: %.1f s, with 2 requests (step-up, recover)", time.Since(failed).Seconds())
	assert.Equal(t, map[string]string{"c": "create"}, next, "exactly what was not made is missing")
	assert.Equal(t, p.made(), p.known())
	again := p.apply(failing)
	require.Equal(t, "succeeded", p.ended(again)["durable-status"])
	assert.Equal(t, p.made(), p.known())
	assert.Len(t, p.made(), 3)
}

// The runner's machine dies after the second thing was made. Nothing was published, and nothing
// proves that the writer has stopped; what was made is imported after the recovery.
func TestTheRunnerIsKilled(t *testing.T) {
	t.Parallel()
	p := newPlant(t, needs{})
	run := p.apply(chained("a", "b", "c"))
	p.open("a", "b")
	p.awaitDeed("creating", "c")
	p.runner.kill() // and the kernel kills its tofu with it
	p.endProviders()
	p.forget()
	p.held(run, "apply_start_uncertain")
	p.runner.start()
	evidence := p.evidence(run)
	assert.Equal(t, map[string]any{"proven-stopped": false, "how": "not-proven"}, pick(evidence["writer"], "proven-stopped", "how"))
	assert.Equal(t, map[string]string{"current_state_verified": "", "import_emergency_state": "emergency_state_missing", "import_emergency_successor": "nothing_published"}, possible(evidence))
	assert.Contains(t, p.tryRecover(run, "current_state_verified").refusal(t, 422, "confirmation_required"), "confirm-writer-not-proven")
	p.recover(run, "current_state_verified", map[string]any{"confirm-writer-not-proven": true})
	assert.Empty(t, p.known())
	assert.Len(t, p.made(), 2)
	p.adopt(chained("a", "b", "c"))
}

// adopt brings what was made and is in no state back with import blocks, as the runbook says.
func (p *plant) adopt(configuration string) {
	p.Helper()
	made, known := p.made(), p.known()
	for name, id := range made {
		if known[name] == "" {
			configuration += fmt.Sprintf("import {\n  to = fault_slow.%s\n  id = %q\n}\n", name, id)
		}
	}
	p.open("a", "b", "c")
	again := p.apply(configuration)
	require.Equal(p, "succeeded", p.ended(again)["durable-status"])
	for name, id := range made {
		assert.Equal(p, id, p.known()[name], "it was not made again")
	}
	assert.Equal(p, p.made(), p.known())
	assert.Empty(p, p.planned(configuration))
}

// publishes tells whether a request announces a state.
func publishes(r *http.Request) bool {
	return r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/state-versions")
}

// awaitKept returns when the runner keeps a state that could not be published.
func (p *plant) awaitKept() {
	p.Helper()
	eventually(p.T, "an errored.tfstate", func() bool {
		found, err := os.ReadDir(p.path("runner/errored"))
		return err == nil && len(found) > 0
	})
}

// The network is lost when everything is made and only the state is not yet published. (In place of
// the silence, which tofu bears for six minutes, the last thing that it hears is a refusal.)
func TestTheNetworkIsLostDuringThePublish(t *testing.T) {
	t.Parallel()
	for _, resolution := range []string{"import_emergency_state", "current_state_verified"} {
		t.Run(resolution, func(t *testing.T) {
			t.Parallel()
			p := newPlant(t, needs{network: true})
			configuration := chained("a", "b")
			run := p.apply(configuration)
			p.open("a")
			p.awaitDeed("creating", "b")
			p.network.obey(func(r *http.Request) fate {
				switch {
				case publishes(r):
					return refused
				case strings.HasSuffix(r.URL.Path, "/emergency-state"):
					return lost
				}
				return passes
			})
			p.open("b")
			p.awaitKept()
			p.network.calm()
			p.held(run, "apply_failed")
			evidence := p.evidence(run)
			assert.Equal(t, map[string]string{"current_state_verified": "", "import_emergency_state": "", "import_emergency_successor": "nothing_published"}, possible(evidence))
			emergency := evidence["emergency-state"].(map[string]any)
			assert.Equal(t, map[string]any{"resource-count": 2.0, "normalized-serial": 1.0, "obstacle": ""}, pick(emergency, "resource-count", "normalized-serial", "obstacle"))
			if resolution == "current_state_verified" {
				p.recover(run, resolution)
				assert.Empty(t, p.known())
				assert.Equal(t, map[string]string{"a": "create", "b": "create"}, p.planned(configuration), "exactly what the state does not know")
				return
			}
			p.recover(run, resolution, map[string]any{"emergency-state-digest": emergency["digest"], "emergency-state-size": emergency["size"]})
			assert.Equal(t, p.made(), p.known())
			assert.Len(t, p.made(), 2)
			assert.Empty(t, p.planned(configuration))
		})
	}
}

// The runner's machine dies while it cannot hand over the state that it kept. The one that starts
// there again does, and what comes late is evidence like any other.
func TestTheRunnerIsKilledWithTheStateItKept(t *testing.T) {
	t.Parallel()
	p := newPlant(t, needs{network: true})
	configuration := chained("a", "b")
	run := p.apply(configuration)
	p.open("a")
	p.awaitDeed("creating", "b")
	p.network.obey(func(r *http.Request) fate {
		switch {
		case publishes(r):
			return refused
		case strings.HasSuffix(r.URL.Path, "/emergency-state"):
			return lost
		}
		return passes
	})
	p.open("b")
	p.awaitKept()
	p.runner.kill()
	p.forget()
	p.held(run, "apply_start_uncertain")
	assert.Equal(t, "emergency_state_missing", possible(p.evidence(run))["import_emergency_state"])
	p.network.calm()
	p.runner.start()
	eventually(t, "the state that was kept", func() bool { return len(p.evidence(run)["emergency-states"].([]any)) == 1 })
	evidence := p.evidence(run)
	assert.Equal(t, map[string]any{"resource-count": 2.0, "late": true}, pick(evidence["emergency-state"], "resource-count", "late"))
	assert.Equal(t, false, evidence["writer"].(map[string]any)["proven-stopped"], "a state proves nothing about the writer")
	p.recover(run, "import_emergency_state", map[string]any{"confirm-writer-not-proven": true})
	assert.Equal(t, p.made(), p.known())
	assert.Empty(t, p.planned(configuration))
}

// The network is lost in the middle of the upload: the server knows that it began, and nobody has
// its bytes. That blocks the recovery until the operator gives the upload up.
func TestTheNetworkIsLostDuringTheUpload(t *testing.T) {
	t.Parallel()
	p := newPlant(t, needs{network: true})
	configuration := chained("a", "b")
	run := p.apply(configuration)
	p.open("a")
	p.awaitDeed("creating", "b")
	var uploads atomic.Int32
	p.network.obey(func(r *http.Request) fate {
		switch {
		case r.Method != http.MethodPut || !strings.Contains(r.URL.Path, "/links/"):
			return passes
		case uploads.Add(1) == 1:
			return halved
		}
		return refused
	})
	p.open("b")
	p.held(run, "apply_failed")
	evidence := p.evidence(run)
	claimed, emergency := evidence["claimed-upload"], evidence["emergency-state"].(map[string]any)
	require.NotNil(t, claimed)
	p.tryRecover(run, "import_emergency_state").refusal(t, 409, "claimed_upload_unresolved")
	override := map[string]any{"claimed-upload-override": map[string]any{"state-upload-id": claimed.(map[string]any)["id"], "claimed-at": claimed.(map[string]any)["claimed-at"]}}
	p.tryRecover(run, "import_emergency_state", override).refusal(t, 422, "confirmation_required")
	p.recover(run, "import_emergency_state", override, map[string]any{"acknowledge-state-loss": true, "emergency-state-digest": emergency["digest"]})
	assert.Equal(t, p.made(), p.known())
	assert.Empty(t, p.planned(configuration))
}

// The control plane is down while the last thing is made. When it comes back in time, tofu
// publishes and there is nothing to recover.
func TestTheControlPlaneIsDown(t *testing.T) {
	t.Parallel()
	p := newPlant(t, needs{network: true})
	configuration := chained("a", "b")
	run := p.apply(configuration)
	p.open("a")
	p.awaitDeed("creating", "b")
	p.server.kill()
	p.open("b")
	p.awaitDeed("created", "b")
	p.server.start()
	assert.Equal(t, "succeeded", p.ended(run)["durable-status"])
	assert.Equal(t, p.made(), p.known())
	assert.Empty(t, p.planned(configuration))
}

// A user cancels: tofu finishes what it has begun, publishes it and ends.
func TestAUserCancels(t *testing.T) {
	t.Parallel()
	p := newPlant(t, needs{})
	configuration := chained("a", "b", "c")
	run := p.apply(configuration)
	p.open("a")
	p.awaitDeed("creating", "b")
	p.cancel(run)
	p.open("b", "c")
	p.held(run, "apply_interrupted")
	evidence := p.evidence(run)
	assert.NotEmpty(t, evidence["publications"])
	assert.Equal(t, map[string]any{"proven-stopped": true, "how": "done-report"}, pick(evidence["writer"], "proven-stopped", "how"))
	p.tryRecover(run, "import_emergency_state").refusal(t, 409, "predecessor_moved")
	p.recover(run, "current_state_verified")
	assert.Equal(t, p.made(), p.known())
	assert.Equal(t, map[string]string{"c": "create"}, p.planned(configuration), "exactly what was not begun")
}

// A user cancels, and a provider does not care: tofu is killed when its time is over, in which it
// publishes what it has on any machine.
func TestATofuThatDoesNotEndIsKilled(t *testing.T) {
	t.Parallel()
	p := newPlant(t, needs{network: true, server: []string{"HOLDFAST_INTERRUPT_GRACE=5s"}})
	configuration := chained("a", "b")
	run := p.apply(configuration)
	p.open("a")
	p.awaitDeed("creating", "b")
	p.cancel(run)
	p.held(run, "apply_interrupted")
	p.endProviders()
	assert.Equal(t, true, p.evidence(run)["writer"].(map[string]any)["proven-stopped"])
	p.recover(run, "current_state_verified")
	p.adopt(configuration)
}

// cancel returns when tofu has been interrupted.
func (p *plant) cancel(run string) {
	p.Helper()
	require.Equal(p, 202, p.call("POST", "/api/v2/runs/"+run+"/actions/cancel", nil).status)
	eventually(p.T, "the interrupt in the log", func() bool { return strings.Contains(p.applyLog(run), "Interrupt received") })
}

// What an interrupted apply publishes step by step, and then cannot publish to its end, is put
// together by letting the emergency state follow the publications (G-20).
func TestAPublishIsLostAfterOthers(t *testing.T) {
	t.Parallel()
	for _, resolution := range []string{"import_emergency_successor", "current_state_verified"} {
		t.Run(resolution, func(t *testing.T) {
			t.Parallel()
			p := newPlant(t, needs{network: true})
			configuration := chained("a", "b")
			run := p.apply(configuration)
			p.open("a")
			p.awaitDeed("creating", "b")
			p.cancel(run) // what is made by now is published at once
			eventually(t, "the first publication", func() bool { return len(p.known()) == 1 })
			p.network.obey(func(r *http.Request) fate {
				if publishes(r) {
					return refused
				}
				return passes
			})
			p.open("b")
			p.held(run, "apply_interrupted")
			p.network.calm()
			evidence := p.evidence(run)
			assert.Equal(t, map[string]string{"current_state_verified": "", "import_emergency_state": "predecessor_moved", "import_emergency_successor": ""}, possible(evidence))
			assert.Equal(t, map[string]any{"resource-count": 2.0, "obstacle": ""}, pick(evidence["emergency-state"], "resource-count", "obstacle"))
			p.recover(run, resolution)
			if resolution == "current_state_verified" {
				assert.Equal(t, map[string]string{"b": "create"}, p.planned(configuration), "exactly what the state does not know")
				return
			}
			assert.Equal(t, p.made(), p.known())
			assert.Empty(t, p.planned(configuration))
		})
	}
}

// pick gives some members of an object.
func pick(from any, names ...string) map[string]any {
	picked := map[string]any{}
	for _, name := range names {
		picked[name] = from.(map[string]any)[name]
	}
	return picked
}
