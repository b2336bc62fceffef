package operator

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A drift preview is asked for, with a step-up where the server demands one, and what tofu
// printed is shown without what could act on a terminal.
func TestADriftPreviewIsShown(t *testing.T) {
	f := newFakeAPI(t)
	f.evidence["run-a"] = ordinary()
	f.evidence["run-a"]["operation"] = preparedBy("user-me", 800)
	r := f.admin(&typed{lines: []string{"s3cret", "123456"}}, "preview", "run-a")
	require.NoError(t, r.err)
	assert.Len(t, f.stepUps, 1)
	assert.Len(t, f.sent, 1)
	assert.Contains(t, r.out, "log           | a has ")
	assert.Contains(t, r.out, "drift         found by run-p")
	assert.NotContains(t, r.out, "\x1b")
	assert.Contains(t, f.admin(&typed{}, "show", "run-a").out, "drift         found by run-p")

	f.refuse["run-a"] = attributes{"code": "recovery_not_prepared", "detail": "Prepare it first."}
	r = f.admin(&typed{}, "preview", "run-a")
	assert.ErrorContains(t, r.err, "recovery_not_prepared: Prepare it first.")
}

func TestWhatAPreviewSays(t *testing.T) {
	yes, no := true, false
	for want, p := range map[string]preview{
		"being looked for by run-p":      {RunID: "run-p", Status: "planning"},
		"unknown: run-p is plan_failed":  {RunID: "run-p", Status: "plan_failed", FinishedAt: "x"},
		"none found by run-p":            {RunID: "run-p", HasDrift: &no, FinishedAt: "x"},
		"found by run-p: the real infra": {RunID: "run-p", HasDrift: &yes, FinishedAt: "x"},
	} {
		assert.Contains(t, p.describe(), want)
	}
}

// Where an emergency state may follow what was published, the choice is the operator's.
func TestAnEmergencyStateThatFollows(t *testing.T) {
	f := newFakeAPI(t)
	f.steppedUp = true
	e := ordinary()
	e["proven"] = false
	e["emergency-states"] = []any{attributes{"id": "es-1", "digest": "feed", "size": 9, "serial": 4, "resource-count": 2, "obstacle": ""}}
	e["resolutions"] = []any{
		attributes{"resolution": "current_state_verified", "possible": true}, attributes{"resolution": "import_emergency_state", "possible": false, "code": "predecessor_moved"},
		attributes{"resolution": "import_emergency_successor", "possible": true},
	}
	f.evidence["run-a"] = e
	r := f.admin(&typed{}, "run-a", "--reason", "compared")
	assert.ErrorContains(t, r.err, "resolution_needed")
	assert.ErrorContains(t, r.err, "--resolution import_emergency_successor")
	r = f.admin(&typed{}, "run-a", "--reason", "compared", "--resolution", "import_emergency_successor")
	require.NoError(t, r.err)
	assert.Contains(t, r.out, "would make     the emergency state feed current")
	r = f.admin(&typed{}, "run-a", "--reason", "compared", "--resolution", "import_emergency_successor", "--apply")
	require.NoError(t, r.err)
	assert.Equal(t, []any{"import_emergency_successor", "feed"}, []any{f.sent[0].body["resolution"], f.sent[0].body["emergency-state-digest"]})
}
