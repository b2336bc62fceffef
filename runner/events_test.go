package runner

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/runnerapi/wire"
)

func testEvents(t *testing.T, phase string, limit int64) *events {
	s, err := newSpool(filepath.Join(t.TempDir(), "events"), limit, wholeLines)
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.file.Close() })
	return &events{to: s, phase: phase, longest: s.tailSize()}
}

func (e *events) text() string {
	e.finishLine()
	e.to.close()
	text, _ := drain(e.to, 0)
	return string(text)
}

func TestEventsLeaveOutWhatClientsCannotBear(t *testing.T) {
	t.Parallel()
	const whole = `{"@level":"info","@message":"a: (local-exec): hi","hook":{"resource":{"addr":"a"},"provisioner":"local-exec","output":"hi"},"type":"provision_progress"}`
	good := []string{
		whole, "", "plain text", "[... 5 bytes left out ...]", "{ not JSON", `{"type":"version"}`, `{}`,
		`{"type":"outputs","outputs":{"o":{"sensitive":true,"type":"string"}}}`, `{"type":"outputs"}`,
	}
	bad := []string{
		strings.Replace(whole, `"provisioner":"local-exec",`, "", 1),
		strings.Replace(whole, `,"output":"hi"`, "", 1),
		strings.Replace(whole, `"addr":"a"`, "", 1),
		strings.Replace(whole, `"resource":{"addr":"a"},`, "", 1),
		strings.Replace(whole, `"hi"}`, `7}`, 1),
		`{"type":"provision_progress"}`,
		`{"type":"outputs","outputs":{"o":{"sensitive":true,"action":"create"}}}`,
	}
	for _, piece := range []int{1, 7, 1 << 20} {
		e := testEvents(t, "apply", 1<<20)
		text := strings.Join(append(append([]string{}, good...), bad...), "\n") + "\n"
		for rest := text; rest != ""; {
			n := min(piece, len(rest))
			_, _ = io.WriteString(e, rest[:n])
			rest = rest[n:]
		}
		assert.Equal(t, strings.Join(good, "\n")+"\n", e.text())
	}
	planning := testEvents(t, "plan", 1<<20)
	fmt.Fprintln(planning, bad[len(bad)-1])
	assert.Equal(t, bad[len(bad)-1]+"\n", planning.text(), "clients do not draw the outputs of a plan")
}

func TestEventsNoteErrors(t *testing.T) {
	t.Parallel()
	e := testEvents(t, "plan", 1<<20)
	fmt.Fprintln(e, `{"@level":"warn","type":"diagnostic","diagnostic":{"severity":"warning"}}`)
	assert.False(t, e.hasFailed())
	fmt.Fprintln(e, `{"@level":"error","type":"diagnostic","diagnostic":{"severity":"error"}}`)
	assert.True(t, e.hasFailed())
}

func TestAnEventCutShortIsLeftOut(t *testing.T) {
	t.Parallel()
	e := testEvents(t, "plan", 1<<20)
	_, _ = io.WriteString(e, "text\n{\"type\":\"vers")
	assert.Equal(t, "text\n", e.text())
	e = testEvents(t, "plan", 1<<20)
	_, _ = io.WriteString(e, "text")
	assert.Equal(t, "text\n", e.text())
}

// TestEventsOverTheLimit holds that whatever falls out, each line left is a whole one.
func TestEventsOverTheLimit(t *testing.T) {
	t.Parallel()
	for _, length := range []int{1, 40, 90, 130, 300} {
		e := testEvents(t, "plan", 1000)
		for i := range 200 {
			fmt.Fprintf(e, "{\"type\":\"x\",\"n\":%d,\"@message\":%q}\n", i, strings.Repeat("m", length))
		}
		text := e.text()
		assert.LessOrEqual(t, len(text), 1000)
		assert.Contains(t, text, " left out ...]\n")
		for line := range strings.Lines(text) {
			assert.True(t, strings.HasSuffix(line, "\n"))
			if strings.HasPrefix(line, "{") {
				assert.True(t, json.Valid([]byte(line)), line)
			} else {
				assert.True(t, line == "\n" || strings.HasPrefix(line, "[... "), line)
			}
		}
		if length < 130 { // else no whole line fits into the end
			assert.Contains(t, text, `"n":0,`)
			assert.Contains(t, text, `"n":199,`)
		}
	}
}

func TestAPipeBringsAllToItsEnd(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "pipe")
	var got strings.Builder
	p, err := openPipe(path, &got)
	require.NoError(t, err)
	for _, text := range []string{"one\n", strings.Repeat("two\n", 100_000)} { // more than a pipe holds
		out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600) // as tofu opens it
		require.NoError(t, err)
		_, err = io.WriteString(out, text)
		require.NoError(t, err)
		require.NoError(t, out.Close())
	}
	p.close(true)
	assert.Len(t, got.String(), 4+400_000)
	assert.NoFileExists(t, path)

	held, err := openPipe(path, io.Discard)
	require.NoError(t, err)
	out, err := os.OpenFile(path, os.O_WRONLY, 0)
	require.NoError(t, err)
	defer func() { _ = out.Close() }()
	held.close(false) // does not wait for a writer that goes on
}

// TestBothLogs holds that one execution gives two logs, and that each reader can live with his.
func TestBothLogs(t *testing.T) {
	t.Parallel()
	f := newFakeServer(t, wire.Manifest{}, map[string]string{"main.tf": `
		resource "terraform_data" "a" {
		  provisioner "local-exec" { command = "echo from inside" }
		}
		output "o" { value = "out" }`})
	start(t, f.config())
	done := f.await()
	require.Equal(t, wire.OutcomeFinished, done.Outcome, f.logText())
	assert.True(t, f.jsonLog)
	assert.EqualValues(t, len(f.eventText()), done.JSONLogSize)
	assert.EqualValues(t, len(f.logText()), done.LogSize)
	assert.Contains(t, f.logText(), "# terraform_data.a will be created")
	assert.NotContains(t, f.logText(), `"@level"`)
	assert.NotContains(t, f.eventText(), "will be created")
	assert.Contains(t, f.eventText(), `"type":"planned_change"`)
	assert.Contains(t, f.eventText(), "\nInitializing plugins and modules...\n", "what the runner says is in both")

	f.next("apply")
	done = f.await()
	require.Equal(t, wire.OutcomeFinished, done.Outcome, f.logText())
	assert.EqualValues(t, len(f.eventText()), done.JSONLogSize)
	lines := strings.Split(f.eventText(), "\n")
	assert.Equal(t, []string{"OpenTofu v" + testTofu(t).version, "on " + platform, "Initializing plugins and modules..."}, lines[:3], "NC-11")
	assert.Contains(t, f.eventText(), `"output":"from inside"`)
	assert.Contains(t, f.eventText(), `"@message":"Apply complete! Resources: 1 added, 0 changed, 0 destroyed."`)
	assert.Contains(t, f.logText(), "terraform_data.a (local-exec): from inside")
	assert.Contains(t, f.logText(), "Apply complete! Resources: 1 added, 0 changed, 0 destroyed.")
}

// TestEachLogHasItsLimit: events are kept whole although they are longer than a text may be.
func TestEachLogHasItsLimit(t *testing.T) {
	t.Parallel()
	const lines = 2000
	// Line by line: tofu shows half a line when the other half is long in coming, as it is on a busy
	// machine from a program that writes in blocks.
	f := newFakeServer(t, wire.Manifest{LogLimit: 250_000, JSONLogLimit: 1_000_000}, map[string]string{"main.tf": fmt.Sprintf(`
		resource "terraform_data" "a" {
		  provisioner "local-exec" { command = "n=0; while [ $n -lt %d ]; do n=$((n+1)); echo \"line $n of a long log that is kept\"; done" }
		}`, lines)})
	start(t, f.config())
	require.Equal(t, wire.OutcomeFinished, f.await().Outcome, f.logText())
	f.next("apply")
	done := f.await()
	require.Equal(t, wire.OutcomeFinished, done.Outcome)
	assert.False(t, done.LogTruncated)
	assert.Equal(t, lines, strings.Count(f.logText(), "(local-exec): line "))
	assert.Equal(t, lines, strings.Count(f.eventText(), `"output":"line `))
	assert.False(t, strings.Contains(f.logText()+f.eventText(), "left out ...]"))
	assert.Greater(t, len(f.eventText()), 250_000)
}

// TestALogThatIsCutIsReported: PL-04.
func TestALogThatIsCutIsReported(t *testing.T) {
	t.Parallel()
	f := newFakeServer(t, wire.Manifest{LogLimit: 500, JSONLogLimit: 1_000_000}, map[string]string{"main.tf": `
		resource "terraform_data" "a" {}
		resource "terraform_data" "b" {}`})
	start(t, f.config())
	done := f.await()
	require.Equal(t, wire.OutcomeFinished, done.Outcome, f.logText())
	assert.Contains(t, f.logText(), "bytes left out ...]")
	assert.True(t, done.LogTruncated)
}

func TestAnOlderTofuHasOneLog(t *testing.T) {
	t.Parallel()
	f := newFakeServer(t, wire.Manifest{}, map[string]string{"main.tf": `resource "terraform_data" "a" {}`})
	cfg := f.config()
	cfg.TofuPath = filepath.Join(t.TempDir(), "tofu")
	older := fmt.Sprintf("#!/bin/sh\nif [ \"$2\" = -help ]; then echo 'no such option'; exit; fi\nexec %s \"$@\"\n", testTofu(t).path)
	require.NoError(t, os.WriteFile(cfg.TofuPath, []byte(older), 0o755))
	start(t, cfg)
	done := f.await()
	require.Equal(t, wire.OutcomeFinished, done.Outcome, f.logText())
	assert.False(t, f.jsonLog)
	assert.Empty(t, f.eventText())
	assert.Zero(t, done.JSONLogSize)
	assert.Contains(t, f.logText(), "# terraform_data.a will be created")
	assert.Contains(t, string(f.artifacts[wire.KindPlanJSONRedacted]), `"terraform_data.a"`, "tofu show needs it all the same")
}

// TestACrashIsToldInBothLogs: what is no event still reaches whoever reads events.
func TestACrashIsToldInBothLogs(t *testing.T) {
	t.Parallel()
	f := newFakeServer(t, wire.Manifest{}, map[string]string{"main.tf": ``})
	cfg := f.config()
	cfg.TofuPath = filepath.Join(t.TempDir(), "tofu")
	crashing := fmt.Sprintf("#!/bin/sh\nif [ \"$1\" = plan ] && [ \"$2\" != -help ]; then echo 'a crash in tofu' >&2; exit 11; fi\nexec %s \"$@\"\n", testTofu(t).path)
	require.NoError(t, os.WriteFile(cfg.TofuPath, []byte(crashing), 0o755))
	start(t, cfg)
	done := f.await()
	assert.Equal(t, wire.OutcomeErrored, done.Outcome)
	assert.Equal(t, 11, done.ExitCode)
	assert.Contains(t, f.eventText(), "\na crash in tofu\n")
	assert.Contains(t, f.logText(), "\na crash in tofu\n")
}
