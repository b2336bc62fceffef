package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/go-tfe"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// plant is a workspace w whose runs work with the providers of package tests/provider,
// which write down in a ledger what they really made.
type plant struct {
	*desk
	*folder
	dir string // for the ledger and what else a configuration names as %[1]s
}

func newPlant(t *testing.T, configuration string) plant {
	t.Helper()
	d := newDesk(t)
	d.newWorkspace("w", remote(t))
	p := plant{desk: d, dir: t.TempDir()}
	p.folder = d.folder(d.inCloud(`name = "w"`))
	p.configure(configuration)
	p.ok("init")
	return p
}

// configure replaces the configuration.
func (p plant) configure(configuration string) {
	p.folder.t.Helper()
	p.write("main.tf", fmt.Sprintf(`
		terraform {
		  required_providers {
		    fault = { source = "holdfast-run/fault" }
		    null  = { source = "hashicorp/null", version = "~> 3.0" }
		  }
		}
		provider "fault" { ledger = "%[1]s/ledger" }
		`+configuration, p.dir))
}

// deed is a line of the ledger.
type deed struct{ Run, Event, Type, ID, Name string }

func (p plant) deeds() (done []deed) {
	t := p.folder.t
	t.Helper()
	text, err := os.ReadFile(filepath.Join(p.dir, "ledger"))
	require.NoError(t, err)
	for line := range bytes.Lines(text) {
		var d deed
		require.NoError(t, json.Unmarshal(line, &d))
		done = append(done, d)
	}
	return done
}

// existing gives the objects that exist by the ledger, known those that the state has,
// with whether they are tainted.
func (p plant) existing() map[string]bool {
	there := map[string]bool{}
	for _, d := range p.deeds() {
		switch d.Event {
		case "created":
			there[d.ID] = true
		case "deleted":
			delete(there, d.ID)
		}
	}
	return there
}

func (p plant) known() (there map[string]bool, tainted []string) {
	t := p.folder.t
	t.Helper()
	r := p.tofu("state", "pull")
	require.Equal(t, 0, r.code, r.said)
	var state struct {
		Resources []struct {
			Type      string
			Instances []struct {
				Status     string
				Attributes struct{ ID string }
			}
		}
	}
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &state))
	there = map[string]bool{}
	for _, resource := range state.Resources {
		for _, i := range resource.Instances {
			there[i.Attributes.ID] = true
			if i.Status == "tainted" {
				tainted = append(tainted, i.Attributes.ID)
			}
		}
	}
	return there, tainted
}

// agrees checks that the state knows exactly what exists.
func (p plant) agrees() {
	p.folder.t.Helper()
	known, _ := p.known()
	assert.Equal(p.folder.t, p.existing(), known)
}

// applyFails applies, which must fail with that text in a run that then holds the workspace.
func (p plant) applyFails(text string) (run *tfe.Run) {
	t := p.folder.t
	t.Helper()
	r := p.tofu("apply", "-auto-approve")
	require.Equal(t, 1, r.code, r.said)
	run = p.newest()
	assert.Equal(t, tfe.RunErrored, run.Status)
	// Where it failed before the client looked, the client shows nothing of it.
	apply, err := shared.api.Applies.Read(ctx, run.Apply.ID)
	require.NoError(t, err)
	assert.Contains(t, flat(p.read(apply.LogReadURL, "", "")), text)
	assert.True(t, p.workspace("w").Locked, "the workspace is held")
	p.fails([]string{"Workspace locked", run.ID}, "plan")
	return run
}

func TestARunInstallsProvidersFromTheMirror(t *testing.T) {
	t.Parallel()
	p := newPlant(t, `
		resource "fault_plain" "a" {
		  name  = "a"
		  value = "one"
		}
		resource "null_resource" "n" {
		  triggers = { a = fault_plain.a.id }
		}
		output "id" { value = fault_plain.a.id }`)
	p.ok("plan")
	assert.Empty(t, p.deeds(), "a plan makes nothing")
	assert.Contains(t, p.ok("apply", "-auto-approve"), "Apply complete! Resources: 2 added, 0 changed, 0 destroyed.")
	run := p.newest()
	plan, err := shared.api.Plans.Read(ctx, run.Plan.ID)
	require.NoError(t, err)
	log := p.read(plan.LogReadURL, "", "")
	assert.Contains(t, log, "Installed holdfast-run/fault v1.0.0")
	assert.Contains(t, log, "Installed hashicorp/null v3.2.999")
	require.Len(t, p.deeds(), 1)
	made := p.deeds()[0]
	assert.Equal(t, deed{Run: run.ID, Event: "created", Type: "fault_plain", ID: p.output("id"), Name: "a"}, made, "the provider knows its run")
	assert.Equal(t, 0, p.tofu("plan", "-detailed-exitcode").code)
	assert.Contains(t, p.ok("destroy", "-auto-approve"), "2 destroyed.")
	assert.Empty(t, p.existing())
}

func TestAnApplyThatFailsAtTheSecondOfThree(t *testing.T) {
	t.Parallel()
	p := newPlant(t, `
		resource "fault_nth" "n" {
		  count   = 3
		  name    = "n"
		  counter = "%[1]s/counter"
		  fail_at = 2
		}`)
	run := p.applyFails("This was create number 2")
	assert.Len(t, p.existing(), 2, "the others were made")
	p.agrees()
	release(t, run)
	assert.Contains(t, p.ok("plan"), "Plan: 1 to add, 0 to change, 0 to destroy.")
	assert.Contains(t, p.ok("apply", "-auto-approve"), "Resources: 1 added, 0 changed, 0 destroyed.")
	assert.Len(t, p.existing(), 3)
	p.agrees()
}

func TestAnApplyThatMakesAHalfMadeThing(t *testing.T) {
	t.Parallel()
	half := func(fail bool) string {
		return fmt.Sprintf("resource \"fault_partial\" \"p\" {\n  name = \"p\"\n  fail = %t\n}", fail)
	}
	p := newPlant(t, half(true))
	run := p.applyFails("Error: ")
	p.agrees()
	_, tainted := p.known()
	require.Len(t, tainted, 1, "it is known, and not to be trusted")
	release(t, run)
	p.configure(half(false))
	said := p.ok("plan")
	assert.Contains(t, said, "fault_partial.p is tainted, so it must be replaced")
	assert.Contains(t, p.ok("apply", "-auto-approve"), "Resources: 1 added, 0 changed, 1 destroyed.")
	p.agrees()
	_, now := p.known()
	assert.Empty(t, now)
	assert.NotContains(t, p.existing(), tainted[0])
}

// What a provider made before it crashed is in no state: the workspace is held until
// somebody has found it. The way back is to import it.
func TestAProviderThatCrashes(t *testing.T) {
	t.Parallel()
	crashing := func(on string) string {
		return fmt.Sprintf(`
			resource "fault_plain" "first" {}
			resource "fault_crash" "c" {
			  name       = "c"
			  on         = %q
			  depends_on = [fault_plain.first]
			}`, on)
	}
	p := newPlant(t, crashing("create"))
	run := p.applyFails("Plugin did not respond")
	known, _ := p.known()
	existing := p.existing()
	assert.Len(t, known, 1)
	assert.Len(t, existing, 2)
	var lost string
	for id := range existing {
		if !known[id] {
			lost = id
		}
	}
	require.NotEmpty(t, lost)

	release(t, run)
	p.configure(crashing("never"))
	assert.Contains(t, p.ok("plan"), "Plan: 1 to add, 0 to change, 0 to destroy.", "it would be made twice")
	p.ok("import", "fault_crash.c", lost)
	p.ok("apply", "-auto-approve")
	p.agrees()
	assert.Len(t, p.existing(), 2, "nothing was made twice")
	assert.Contains(t, p.ok("destroy", "-auto-approve"), "2 destroyed")
	assert.Empty(t, p.existing())
}
