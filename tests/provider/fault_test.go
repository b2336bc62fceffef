package provider

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestPlainIsCreatedUpdatedAndDeleted(t *testing.T) {
	f := newFolder(t, `resource "fault_plain" "a" {
		name  = "a"
		value = "one"
	}`)
	before := time.Now().Add(-time.Second)
	f.apply()
	f.agrees()
	require.Equal(t, "one", f.state()["fault_plain.a"].Values["value"])

	f.configure(`resource "fault_plain" "a" {
		name  = "a"
		value = "two"
	}`)
	f.apply()
	require.Equal(t, "two", f.state()["fault_plain.a"].Values["value"])
	f.destroy()
	f.agrees()

	require.Equal(t, []string{"created a", "updated a", "deleted a"}, f.events())
	for _, e := range f.entries() {
		assert.Equal(t, "fault_plain", e.Type)
		assert.Equal(t, "run-"+t.Name(), e.Run)
		assert.Equal(t, f.entries()[0].ID, e.ID, "one object throughout")
		assert.WithinRange(t, e.Time, before, time.Now())
	}
}

func TestPlanChangesNothing(t *testing.T) {
	f := newFolder(t, `resource "fault_plain" "a" {}`)
	f.must("plan")
	assert.Empty(t, f.events())
}

func TestLedgerOfTheProviderBlockGoesFirst(t *testing.T) {
	f := newFolder(t, `
		provider "fault" {
			ledger = "%[1]s/own"
		}
		resource "fault_plain" "a" {}`)
	f.apply()
	assert.Empty(t, f.events())
	text, err := os.ReadFile(f.path("own"))
	require.NoError(t, err)
	assert.Contains(t, string(text), `"created"`)
}

func TestLedgerThatCannotBeOpened(t *testing.T) {
	f := newFolder(t, `
		provider "fault" {
			ledger = "%[1]s/absent/ledger"
		}
		resource "fault_plain" "a" {}`)
	assert.Contains(t, f.applyFails(), "no such file or directory")
	assert.Empty(t, f.state())
}

func TestObservedFileDriftsAndVanishes(t *testing.T) {
	f := newFolder(t, `resource "fault_plain" "a" {
		observes = "%[1]s/object"
	}`)
	f.write("object", "one")
	f.apply()
	require.Equal(t, "one", f.state()["fault_plain.a"].Values["observed"])

	f.write("object", "two")
	f.must("apply", "-refresh-only", "-auto-approve")
	require.Equal(t, "two", f.state()["fault_plain.a"].Values["observed"])

	require.NoError(t, os.Remove(f.path("object")))
	f.must("apply", "-refresh-only", "-auto-approve")
	assert.Empty(t, f.state())
	assert.Equal(t, []string{"created"}, f.events(), "refreshing is no deed")
}

func TestImportByID(t *testing.T) {
	f := newFolder(t, `resource "fault_plain" "a" {
		value = "one"
	}`)
	f.must("import", "fault_plain.a", "obj-elsewhere")
	f.apply()
	assert.Equal(t, "obj-elsewhere", f.state()["fault_plain.a"].Values["id"])
	assert.Equal(t, "one", f.state()["fault_plain.a"].Values["value"])
	assert.Equal(t, []string{"updated"}, f.events())
}

func TestNthCreateFailsAndMakesNothing(t *testing.T) {
	f := newFolder(t, `resource "fault_nth" "n" {
		count   = 4
		name    = "n"
		counter = "%[1]s/counter"
		fail_at = 3
	}`)
	assert.Contains(t, f.fails("apply", "-auto-approve", "-no-color", "-parallelism=1"), "This was create number 3")
	assert.Len(t, f.existing(), 3, "the create that failed stops no other")
	f.agrees()

	f.apply()
	assert.Len(t, f.existing(), 4, "the count goes on, so the same create succeeds now")
	f.agrees()
	f.destroy()
	assert.Empty(t, f.existing())
}

func TestPartialIsMadeAndTainted(t *testing.T) {
	f := newFolder(t, `resource "fault_partial" "p" {
		name = "p"
	}`)
	assert.Contains(t, f.applyFails(), "did not become ready")
	f.agrees()
	require.True(t, f.state()["fault_partial.p"].Tainted)

	f.configure(`resource "fault_partial" "p" {
		name = "p"
		fail = false
	}`)
	f.apply()
	f.agrees()
	assert.False(t, f.state()["fault_partial.p"].Tainted)
	assert.Equal(t, []string{"created p", "deleted p", "created p"}, f.events(), "a tainted object is replaced")
}

func TestCrashInCreateOrphansTheObject(t *testing.T) {
	f := newFolder(t, `resource "fault_crash" "c" {
		name = "c"
	}`)
	assert.Contains(t, f.applyFails(), "Plugin did not respond")
	assert.Len(t, f.existing(), 1)
	assert.Empty(t, f.state(), "the state knows nothing of it")
}

func TestCrashInUpdateAndDelete(t *testing.T) {
	crashing := func(on, value string) string {
		return `resource "fault_crash" "c" {
			name  = "c"
			on    = "` + on + `"
			value = "` + value + `"
		}`
	}
	f := newFolder(t, crashing("never", "one"))
	f.apply()
	f.agrees()

	f.configure(crashing("update", "two"))
	assert.Contains(t, f.applyFails(), "Plugin did not respond")
	assert.Equal(t, []string{"created c", "updated c"}, f.events())
	assert.Equal(t, "one", f.state()["fault_crash.c"].Values["value"], "the state is behind")

	f.configure(crashing("delete", "two"))
	f.apply()
	assert.Contains(t, f.fails("destroy", "-auto-approve"), "Plugin did not respond")
	assert.Empty(t, f.existing())
	assert.Contains(t, f.state(), "fault_crash.c", "the state is behind")
}

func TestHugeContentHasItsSize(t *testing.T) {
	f := newFolder(t, `
		resource "fault_huge" "same" {
			size = 5000000
		}
		resource "fault_huge" "random" {
			size   = 5000001
			random = true
		}`)
	f.apply()
	f.agrees()
	state := f.state()
	same, random := state["fault_huge.same"].Values["content"].(string), state["fault_huge.random"].Values["content"].(string)
	assert.Len(t, same, 5_000_000)
	assert.Len(t, random, 5_000_001)
	assert.Equal(t, 78_125, strings.Count(same, same[:64]), "the same letters again and again")
	assert.Equal(t, 1, strings.Count(random, random[:64]))
	assert.Contains(t, f.must("plan", "-no-color"), "No changes")
}

func TestSettingsThatMeanNothingAreRefused(t *testing.T) {
	f := newFolder(t, ``)
	for configuration, complaint := range map[string]string{
		`resource "fault_slow" "s" { create_delay = "soon" }`:  "invalid duration",
		`resource "fault_crash" "c" { on = "sunday" }`:         "One of create, update, delete, never.",
		`resource "fault_huge" "h" { size = 100000001 }`:       "From 0 to 100000000.",
		`resource "fault_huge" "h" { size = -1 }`:              "From 0 to 100000000.",
		`data "fault_lookup" "l" { delay = "5" }`:              "missing unit",
		`resource "fault_nth" "n" { counter = "/dev/null" }`:   `"fail_at" is required`,
		`resource "fault_plain" "p" { observed = "anything" }`: "observed",
	} {
		f.configure(configuration)
		assert.Contains(t, f.fails("validate", "-no-color"), complaint, configuration)
	}
}

func TestLookup(t *testing.T) {
	f := newFolder(t, `
		data "fault_lookup" "l" {
			value = "seen"
			delay = "1ms"
		}
		resource "fault_plain" "a" {
			value = data.fault_lookup.l.result
		}`)
	f.apply()
	assert.Equal(t, "seen", f.state()["fault_plain.a"].Values["value"])
	assert.Equal(t, []string{"looked_up seen", "created"}, f.events())

	f.configure(`data "fault_lookup" "l" {
		fail = "no such thing"
	}`)
	assert.Contains(t, f.fails("plan", "-no-color"), "no such thing")
}
