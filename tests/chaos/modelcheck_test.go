package chaos

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func minute(n int) time.Time { return time.Date(2026, 1, 2, 3, n, 0, 0, time.UTC) }

// good is an outcome in which nothing is wrong: one workspace with two runs and a third that was
// canceled while it waited, and one that is held.
func good() outcome {
	done := func(id string, sequence, epoch int64, from, to int) ran {
		return ran{
			id: id, status: "succeeded", sequence: sequence, epoch: epoch, released: true, applyStarts: 1,
			admitted: minute(from), finished: minute(to), gaveBack: minute(to),
		}
	}
	return outcome{
		places: []end{
			{
				id: "ws-1", name: "one", current: "sv-2",
				versions: []version{{id: "sv-1", lineage: "l", serial: 1, epoch: 1, sha256: "aa"}, {id: "sv-2", base: "sv-1", lineage: "l", serial: 2, epoch: 3, sha256: "bb"}},
				runs:     []ran{done("run-1", 1, 1, 0, 5), done("run-2", 2, 3, 5, 9), {id: "run-3", sequence: 3, status: "canceled", finished: minute(7)}},
				objects:  []string{"obj-1", "obj-2"},
				ledger: []deed{
					{Run: "run-1", Event: "creating", ID: "obj-1", Name: "a"},
					{Run: "run-1", Event: "created", ID: "obj-1", Name: "a"},
					{Run: "run-2", Event: "created", ID: "obj-2", Name: "b"},
				},
			},
			{
				id: "ws-2", name: "two", occupied: true, held: true,
				runs: []ran{
					{id: "run-4", sequence: 4, status: "apply_start_uncertain", reason: "runner_lost", epoch: 1, applyStarts: 1, admitted: minute(1), finished: minute(3)},
					{id: "run-5", sequence: 5, status: "queued"},
				},
				ledger: []deed{{Run: "run-4", Event: "created", ID: "obj-3", Name: "a"}},
			},
		},
		history: []event{
			{Kind: "epoch", Workspace: "ws-1", Epoch: 1},
			{Kind: "acknowledged", Workspace: "ws-1", Version: "sv-1", Serial: 1, Lineage: "l", SHA256: "aa"},
			{Kind: "acknowledged", Workspace: "ws-1", Version: "sv-2", Serial: 2, Lineage: "l", SHA256: "bb"},
			{Kind: "epoch", Workspace: "ws-1", Epoch: 3},
		},
	}
}

func TestTheModelFinds(t *testing.T) {
	t.Parallel()
	assert.Empty(t, violations(good()))
	for want, spoil := range map[string]func(o *outcome){
		"run-2 did not end":                  func(o *outcome) { o.places[0].runs[1].status = "applying" },
		"run-2 ended as plan_failed for":     func(o *outcome) { o.places[0].runs[1].status = "plan_failed" },
		"run-1 started 2 applies":            func(o *outcome) { o.places[0].runs[0].applyStarts = 2 },
		"run-2 succeeded and still has":      func(o *outcome) { o.places[0].runs[1].released = false },
		"although a run ended without proof": func(o *outcome) { o.places[1].held = false },
		"held for recovery, and 0 runs":      func(o *outcome) { o.places[1].runs[0].released = true },
		"two is free, and a run waits": func(o *outcome) {
			o.places[1].held, o.places[1].occupied, o.places[1].runs[0].released = false, false, true
		},
		"run-2 overtook run-1":                func(o *outcome) { o.places[0].runs[0].admitted = minute(6) },
		"run-2 overtook run-3":                func(o *outcome) { r := o.places[0].runs; r[2].sequence, r[2].status = 0, "queued"; r[0].sequence = -1 },
		"run-2 began before run-1 was over":   func(o *outcome) { o.places[0].runs[0].gaveBack = minute(6) },
		"has epoch 1 after 1":                 func(o *outcome) { o.places[0].runs[1].epoch = 1 },
		"the first state sv-1 has":            func(o *outcome) { o.places[0].versions[0].base = "sv-0" },
		"sv-2 is of another lineage":          func(o *outcome) { o.places[0].versions[1].lineage = "m" },
		"states sv-1 and sv-2 have serial 1":  func(o *outcome) { o.places[0].versions[1].serial = 1 },
		"state sv-2 follows \"\", not sv-1":   func(o *outcome) { o.places[0].versions[1].base = "" },
		"sv-2 was published under epoch 0":    func(o *outcome) { o.places[0].versions[1].epoch = 0 },
		"the current state is \"sv-1\", not":  func(o *outcome) { o.places[0].current = "sv-1" },
		"a was made by run-1 and again by":    func(o *outcome) { o.places[0].ledger[2].Name = "a" },
		"obj-2 exists, and neither":           func(o *outcome) { o.places[0].objects = []string{"obj-1"} },
		"the state knows obj-9":               func(o *outcome) { o.places[0].objects = []string{"obj-1", "obj-2", "obj-9"} },
		"state sv-2 (serial 2) is missing":    func(o *outcome) { o.places[0].versions = o.places[0].versions[:1]; o.places[0].current = "sv-1" },
		"state sv-1 has other bytes":          func(o *outcome) { o.places[0].versions[0].sha256 = "ab" },
		"is older than the acknowledged sv-2": func(o *outcome) { o.places[0].current = "sv-1" },
		"the epoch fell from 1 to 0":          func(o *outcome) { o.history[3].Epoch = 0 },
		"ws-1 was free":                       func(o *outcome) { o.history = append(o.history, event{Kind: "idle", Workspace: "ws-1"}) },
		"a secret is in a log: server":        func(o *outcome) { o.leaks = []string{"server: a token"} },
	} {
		o := good()
		spoil(&o)
		found := violations(o)
		assert.True(t, slices.ContainsFunc(found, func(line string) bool { return strings.Contains(line, want) }), "%s is not in:\n%s", want, bulleted(found))
	}
}

func TestFalseHolds(t *testing.T) {
	t.Parallel()
	held, falsely := falseHolds(good().places)
	assert.Equal(t, []string{"run-4"}, held)
	assert.Empty(t, falsely, "the state does not know what it made")
	o := good()
	o.places[1].objects = []string{"obj-3"}
	_, falsely = falseHolds(o.places)
	assert.Equal(t, []string{"run-4"}, falsely)
}

func TestSecretsAreFoundInLogs(t *testing.T) {
	t.Parallel()
	secrets := map[string]string{"hunter2-hunter2": "a password"}
	assert.Equal(t, []string{"x.log: a password"}, secretsIn("x.log", []byte("… hunter2-hunter2 …"), secrets))
	assert.Empty(t, secretsIn("x.log", []byte("hunter2"), secrets))
}
