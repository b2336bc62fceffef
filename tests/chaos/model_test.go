package chaos

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// outcome is all that the model check judges.
type outcome struct {
	places  []end
	history []event
	leaks   []string // "log: what"
}

// end is what has become of one workspace.
type end struct {
	id, name string
	occupied bool   // somebody holds the fence
	held     bool   // for recovery
	current  string // id of the current state version
	versions []version
	runs     []ran
	objects  []string // ids of the things in the current state
	ledger   []deed
}

// version is a state version that became final. sha256 is that of the bytes as they are served.
type version struct {
	id, base, lineage, sha256 string
	serial, epoch             int64
}

// ran is a run. The times are zero for what did not happen.
type ran struct {
	id, status, reason string
	sequence           int64
	planOnly           bool
	released           bool // it held the fence, and gave it back
	epoch              int64
	applyStarts        int
	admitted, finished time.Time
	gaveBack           time.Time
}

// deed is a line of the provider's ledger.
type deed struct {
	Run   string
	Event string
	ID    string
	Name  string
}

// heldStatus tells whether a run ended in a way that may hold its workspace.
func (r ran) held() bool { return r.epoch > 0 && !r.released && slices.Contains(terminal, r.status) }

// violations checks the outcome against what must be true whatever broke.
func violations(o outcome) (found []string) {
	say := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
	places := map[string]end{}
	for _, p := range o.places {
		places[p.id] = p
		p.checkRuns(say)
		p.checkQueue(say)
		p.checkStates(say)
		p.checkLedger(say)
	}
	checkAcknowledged(o, places, say)
	checkInstants(o.history, say)
	for _, leak := range o.leaks {
		say("a secret is in a log: %s", leak)
	}
	return found
}

type sayer func(format string, args ...any)

// Every run has ended, well unless its runner was lost, started at most one apply, and the fence is held only for who needs it.
func (p end) checkRuns(say sayer) {
	holders := 0
	for _, r := range p.runs {
		ended := slices.Contains(terminal, r.status)
		if !ended && !(p.held && r.admitted.IsZero()) {
			say("%s: run %s did not end: %s", p.name, r.id, r.status)
		}
		if ended && r.status != "succeeded" && r.status != "canceled" && r.reason != "runner_lost" {
			say("%s: run %s ended as %s for the reason %s, although only a lost runner may fail a run", p.name, r.id, r.status, r.reason)
		}
		if r.applyStarts > 1 {
			say("%s: run %s started %d applies", p.name, r.id, r.applyStarts)
		}
		if r.status == "succeeded" && r.held() {
			say("%s: run %s succeeded and still has the workspace", p.name, r.id)
		}
		if r.held() {
			holders++
		}
	}
	switch {
	case p.held && holders != 1:
		say("%s is held for recovery, and %d runs hold it", p.name, holders)
	case !p.held && holders > 0:
		say("%s is not held for recovery, although a run ended without proof", p.name)
	case !p.occupied && slices.ContainsFunc(p.runs, func(r ran) bool { return r.status == "queued" && r.admitted.IsZero() && !r.planOnly }):
		say("%s is free, and a run waits", p.name)
	}
}

// The runs of a workspace had it in the order in which they were asked for, one after the other.
func (p end) checkQueue(say sayer) {
	runs := slices.Clone(p.runs)
	slices.SortFunc(runs, func(a, b ran) int { return int(a.sequence - b.sequence) })
	var last ran
	waits := ""
	for _, r := range runs {
		switch {
		case r.planOnly:
			continue
		case r.admitted.IsZero():
			if !slices.Contains(terminal, r.status) {
				waits = r.id
			}
			continue
		case waits != "":
			say("%s: run %s overtook %s", p.name, r.id, waits)
		case last.id != "" && r.admitted.Before(last.admitted):
			say("%s: run %s overtook %s", p.name, r.id, last.id)
		case last.id != "" && (!last.released || r.admitted.Before(last.gaveBack)):
			say("%s: run %s began before %s was over", p.name, r.id, last.id)
		case last.id != "" && r.epoch <= last.epoch:
			say("%s: run %s has epoch %d after %d", p.name, r.id, r.epoch, last.epoch)
		}
		last = r
	}
}

// State is a chain: one lineage, each version on the one before, serials and epochs that grow.
func (p end) checkStates(say sayer) {
	versions := slices.Clone(p.versions)
	slices.SortFunc(versions, func(a, b version) int { return int(a.serial - b.serial) })
	for i, v := range versions {
		if i == 0 {
			if v.base != "" {
				say("%s: the first state %s has a predecessor", p.name, v.id)
			}
			continue
		}
		before := versions[i-1]
		switch {
		case v.lineage != before.lineage:
			say("%s: state %s is of another lineage than %s", p.name, v.id, before.id)
		case v.serial == before.serial:
			say("%s: states %s and %s have serial %d", p.name, before.id, v.id, v.serial)
		case v.base != before.id:
			say("%s: state %s follows %q, not %s", p.name, v.id, v.base, before.id)
		case v.epoch < before.epoch:
			say("%s: state %s was published under epoch %d after %d", p.name, v.id, v.epoch, before.epoch)
		}
	}
	if n := len(versions); n > 0 && p.current != versions[n-1].id {
		say("%s: the current state is %q, not the last one %s", p.name, p.current, versions[n-1].id)
	}
}

// What the provider made it made once, and unless the workspace is held the state knows of it.
func (p end) checkLedger(say sayer) {
	made, there := map[string]string{}, map[string]bool{}
	for _, d := range p.ledger {
		switch d.Event {
		case "created":
			if by, again := made[d.Name]; again {
				say("%s: %s was made by %s and again by %s", p.name, d.Name, by, d.Run)
			}
			made[d.Name], there[d.ID] = d.Run, true
		case "deleted":
			delete(there, d.ID)
		}
	}
	if p.held {
		return
	}
	for id := range there {
		if !slices.Contains(p.objects, id) {
			say("%s: %s exists, and neither the state knows it nor is the workspace held", p.name, id)
		}
	}
	for _, id := range p.objects {
		if !there[id] {
			say("%s: the state knows %s, which does not exist", p.name, id)
		}
	}
}

// Every state that a server has acknowledged is there, byte for byte, and the last one is current.
func checkAcknowledged(o outcome, places map[string]end, say sayer) {
	last := map[string]event{}
	for _, e := range o.history {
		if e.Kind != "acknowledged" {
			continue
		}
		p, known := places[e.Workspace]
		if !known {
			continue
		}
		at := slices.IndexFunc(p.versions, func(v version) bool { return v.id == e.Version })
		switch {
		case at < 0:
			say("%s: the acknowledged state %s (serial %d) is missing", p.name, e.Version, e.Serial)
		case p.versions[at].sha256 != e.SHA256:
			say("%s: the acknowledged state %s has other bytes", p.name, e.Version)
		}
		if e.Serial >= last[e.Workspace].Serial {
			last[e.Workspace] = e
		}
	}
	for workspace, e := range last {
		p := places[workspace]
		at := slices.IndexFunc(p.versions, func(v version) bool { return v.id == p.current })
		// A state whose acknowledgement was lost with its server may be newer than the last acknowledged.
		if at < 0 || p.versions[at].serial < e.Serial {
			say("%s: the current state is older than the acknowledged %s", p.name, e.Version)
		}
	}
}

// At no instant an epoch fell, or a free workspace let a run wait.
func checkInstants(history []event, say sayer) {
	epochs := map[string]int64{}
	for _, e := range history {
		switch e.Kind {
		case "epoch":
			if e.Epoch < epochs[e.Workspace] {
				say("%s: the epoch fell from %d to %d", e.Workspace, epochs[e.Workspace], e.Epoch)
			}
			epochs[e.Workspace] = e.Epoch
		case "idle":
			say("%s was free at %s, and a run waited", e.Workspace, e.At.Format(time.RFC3339Nano))
		}
	}
}

// falseHolds are the held runs of which it turns out afterwards that nothing was lost: all that
// they made is in the state.
func falseHolds(places []end) (held, false_ []string) {
	for _, p := range places {
		if !p.held {
			continue
		}
		lost := false
		for _, d := range p.ledger {
			if d.Event == "created" && !slices.Contains(p.objects, d.ID) {
				lost = true
			}
		}
		for _, r := range p.runs {
			if !r.held() {
				continue
			}
			held = append(held, r.id)
			if !lost {
				false_ = append(false_, r.id)
			}
		}
	}
	return held, false_
}

func bulleted(lines []string) string { return "  - " + strings.Join(lines, "\n  - ") }
