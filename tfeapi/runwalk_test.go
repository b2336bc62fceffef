package tfeapi

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-tfe"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/artifacts"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/dispatch"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/runs"
)

// session is an attempt that a pretended runner has accepted.
type session struct {
	runs.Session
	actor authz.Actor
	id    ids.Attempt
}

// accept takes the next attempt as a runner does that sends no events.
func (w *world) accept(group accounts.RunnerGroup) session {
	w.Helper()
	return w.acceptWith(group, false)
}

func (w *world) acceptWith(group accounts.RunnerGroup, events bool) session {
	w.Helper()
	ctx := w.Context()
	runner, attempt, found, err := w.deps.Runs.Poll(ctx, group, dispatch.RunnerHello{Name: "r", TofuVersions: []string{"1.12.6"}})
	require.NoError(w, err)
	require.True(w, found, "an attempt waits")
	require.NoError(w, w.deps.Runs.Ready(ctx, group, runner))
	s, err := w.deps.Runs.Accept(ctx, group, attempt.ID, dispatch.Acceptance{Runner: runner, Sandbox: "sandbox", JSONLog: events}, func(runs.Facts) ([]byte, error) { return []byte("manifest"), nil })
	require.NoError(w, err)
	actor, err := w.deps.Authenticate(ctx, s.Token)
	require.NoError(w, err)
	return session{Session: s, actor: actor, id: attempt.ID}
}

// plan hands over a finished plan with changes and a log of these bytes.
func (w *world) plan(s session, log string) {
	w.Helper()
	ctx := w.Context()
	for kind, content := range map[artifacts.Kind]string{artifacts.KindPlan: "plan", artifacts.KindPlanJSON: `{"format_version":"1.2"}`} {
		sum := sha256.Sum256([]byte(content))
		require.NoError(w, w.deps.Runs.HandOver(ctx, s.actor, kind, hex.EncodeToString(sum[:]), bytes.NewReader([]byte(content))))
	}
	next, err := w.deps.Runs.AppendLog(ctx, s.actor, dispatch.Human, 0, []byte(log))
	require.NoError(w, err)
	require.NoError(w, w.deps.Runs.Done(ctx, s.id, runs.Done{
		Outcome: runs.OutcomeFinished, ExitCode: 2, TofuVersion: "1.12.6", TofuDigest: "digest", LogSize: next, Plan: &runs.PlanSummary{HasChanges: true, Additions: 1},
	}))
}

func (w *world) queue(ws *tfe.Workspace, options tfe.RunCreateOptions) *tfe.Run {
	w.Helper()
	ctx := w.Context()
	cv, err := w.client.ConfigurationVersions.Create(ctx, ws.ID, tfe.ConfigurationVersionCreateOptions{})
	require.NoError(w, err)
	require.NoError(w, w.client.ConfigurationVersions.UploadTarGzip(ctx, cv.UploadURL, bytes.NewReader(configuration(w.T))))
	options.Workspace, options.ConfigurationVersion = ws, cv
	run, err := w.client.Runs.Create(ctx, options)
	require.NoError(w, err)
	return run
}

func (w *world) read(run *tfe.Run) *tfe.Run {
	w.Helper()
	fresh, err := w.client.Runs.Read(w.Context(), run.ID)
	require.NoError(w, err)
	return fresh
}

func (w *world) logs(ctx context.Context, read func(context.Context, string) (io.Reader, error), id string) string {
	w.Helper()
	reader, err := read(ctx, id)
	require.NoError(w, err)
	text, err := io.ReadAll(reader)
	require.NoError(w, err)
	return string(text)
}

// A read that finds nothing new is answered when there is something, not before and
// not by the client's next question.
func TestALogReadWaitsForWhatComes(t *testing.T) {
	w := newWorld(t)
	group := w.runner()
	run := w.queue(w.workspace("app"), tfe.RunCreateOptions{})
	s := w.accept(group)
	plan, err := w.client.Plans.Read(t.Context(), run.Plan.ID)
	require.NoError(t, err)
	read := func(offset int) <-chan string {
		answer := make(chan string, 1)
		go func() {
			resp, err := http.Get(fmt.Sprintf("%s?offset=%d", plan.LogReadURL, offset))
			if !assert.NoError(t, err) {
				answer <- ""
				return
			}
			defer func() { _ = resp.Body.Close() }()
			text, err := io.ReadAll(resp.Body)
			assert.NoError(t, err)
			answer <- string(text)
		}()
		return answer
	}
	assert.Equal(t, "\x02", <-read(0), "the start is there at once")
	waiting := read(1)
	select {
	case early := <-waiting:
		t.Fatalf("answered %q before there was anything", early)
	case <-time.After(300 * time.Millisecond):
	}
	_, err = w.deps.Runs.AppendLog(t.Context(), s.actor, dispatch.Human, 0, []byte("first\n"))
	require.NoError(t, err)
	assert.Equal(t, "first\n", <-waiting, "it was woken: the hold takes hours")

	waiting = read(7)
	require.NoError(t, w.deps.Runs.Done(t.Context(), s.id, runs.Done{Outcome: runs.OutcomeErrored, ExitCode: 1, LogSize: 6}))
	assert.Contains(t, <-waiting, "\x03", "the end wakes it, too")
}

// TestAServerThatEndsAnswersItsReaders: empty, so they ask again, and the next server goes on.
func TestAServerThatEndsAnswersItsReaders(t *testing.T) {
	w := newWorld(t)
	group := w.runner()
	run := w.queue(w.workspace("app"), tfe.RunCreateOptions{})
	w.accept(group)
	plan, err := w.client.Plans.Read(t.Context(), run.Plan.ID)
	require.NoError(t, err)
	stopping := make(chan struct{})
	deps := w.deps
	deps.Stopping, deps.hold = stopping, time.Hour
	ending := httptest.NewServer(New(deps))
	defer ending.Close()
	limited, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	close(stopping)
	request, err := http.NewRequestWithContext(limited, http.MethodGet, strings.Replace(plan.LogReadURL, w.url, ending.URL, 1)+"?offset=1", http.NoBody)
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(request)
	require.NoError(t, err, "it was answered before its hold was over")
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	assert.Equal(t, http.StatusOK, resp.StatusCode)
	assert.Empty(t, text)
}

// TestARunOnTheWire walks one run from its creation to applied and looks at it as
// clients do at each step.
func TestARunOnTheWire(t *testing.T) {
	w := newWorld(t)
	ctx, group, ws := t.Context(), w.runner(), w.workspace("app")
	run := w.queue(ws, tfe.RunCreateOptions{})
	second := w.queue(ws, tfe.RunCreateOptions{})
	assert.Equal(t, tfe.RunPending, second.Status, "one run a workspace")

	planning := w.accept(group)
	assert.Equal(t, tfe.RunPlanning, w.read(run).Status)
	w.plan(planning, "Plan: 1 to add\n")
	planned := w.read(run)
	assert.Equal(t, tfe.RunPlanned, planned.Status)
	assert.True(t, planned.HasChanges && planned.Actions.IsConfirmable && planned.Actions.IsDiscardable)
	assert.Equal(t, planned, w.read(run), "a planned run reads the same twice")
	plan, err := w.client.Plans.Read(ctx, run.Plan.ID)
	require.NoError(t, err)
	assert.Equal(t, tfe.PlanFinished, plan.Status)
	assert.Equal(t, 1, plan.ResourceAdditions)
	assert.Equal(t, "Plan: 1 to add\n", w.logs(ctx, w.client.Plans.Logs, run.Plan.ID))
	document, err := w.client.Plans.ReadJSONOutput(ctx, run.Plan.ID)
	require.NoError(t, err)
	assert.JSONEq(t, `{"format_version":"1.2"}`, string(document))

	seen, err := w.as(w.bob).Runs.Read(ctx, run.ID)
	require.NoError(t, err)
	assert.False(t, seen.Actions.IsConfirmable, "a member cannot decide")
	assert.False(t, seen.Permissions.CanApply)
	assert.ErrorContains(t, w.as(w.bob).Runs.Apply(ctx, run.ID, tfe.RunApplyOptions{}), "run:apply")
	require.NoError(t, w.client.Runs.Apply(ctx, run.ID, tfe.RunApplyOptions{}))
	assert.Equal(t, tfe.RunApplyQueued, w.read(run).Status)

	applying := w.accept(group)
	_, err = w.deps.Runs.StartApply(ctx, applying.actor, applying.ManifestDigest, "sandbox", "digest")
	require.NoError(t, err)
	assert.Equal(t, tfe.RunApplying, w.read(run).Status)
	assert.ErrorContains(t, w.client.Runs.ForceCancel(ctx, run.ID, tfe.RunForceCancelOptions{}), "holdfast admin recover")

	applying.actor.Applying = true // as its token says from here on
	w.publish(applying, ws)
	next, err := w.deps.Runs.AppendLog(ctx, applying.actor, dispatch.Human, 0, []byte("Apply complete!\n"))
	require.NoError(t, err)
	proved, err := w.deps.Runs.ConfirmState(ctx, applying.actor, "sandbox")
	require.NoError(t, err)
	require.NoError(t, w.deps.Runs.Done(ctx, applying.id, runs.Done{Outcome: runs.OutcomeFinished, TofuStarted: true, LogSize: next, Confirmed: proved.ID}))
	applied := w.read(run)
	assert.Equal(t, tfe.RunApplied, applied.Status)
	assert.False(t, applied.StatusTimestamps.AppliedAt.IsZero())
	apply, err := w.client.Applies.Read(ctx, run.Apply.ID)
	require.NoError(t, err)
	assert.Equal(t, tfe.ApplyFinished, apply.Status)
	assert.Equal(t, "Apply complete!\n", w.logs(ctx, w.client.Applies.Logs, run.Apply.ID))

	assert.Equal(t, tfe.RunPlanQueued, w.read(second).Status, "the next one has its turn")
	w.plan(w.accept(group), "")
	require.NoError(t, w.client.Runs.Discard(ctx, second.ID, tfe.RunDiscardOptions{}))
	assert.Equal(t, tfe.RunDiscarded, w.read(second).Status)
	apply, err = w.client.Applies.Read(ctx, second.Apply.ID)
	require.NoError(t, err)
	assert.Equal(t, tfe.ApplyUnreachable, apply.Status)
	assert.Empty(t, w.logs(ctx, w.client.Applies.Logs, second.Apply.ID))
}

// publish writes a state as tofu does inside a runner: it locks, uploads and unlocks
// with the attempt's token, and neither lock changes anything (NC-24).
func (w *world) publish(s session, ws *tfe.Workspace) {
	w.Helper()
	ctx, inside := w.Context(), w.as(s.Token)
	_, err := inside.Workspaces.Read(ctx, "acme", ws.Name)
	require.NoError(w, err)
	_, err = inside.Workspaces.Lock(ctx, ws.ID, tfe.WorkspaceLockOptions{})
	require.NoError(w, err)
	lineage, data := "l-1", stateFile(1)
	_, err = inside.StateVersions.Upload(ctx, ws.ID, tfe.StateVersionUploadOptions{
		StateVersionCreateOptions: tfe.StateVersionCreateOptions{Lineage: &lineage, MD5: md5Of(data), Serial: number(1), Run: &tfe.Run{ID: string(s.actor.Run)}},
		RawState:                  data,
	})
	require.NoError(w, err)
	unlocked, err := inside.Workspaces.Unlock(ctx, ws.ID)
	require.NoError(w, err)
	assert.True(w, unlocked.Locked, "only the run's result frees the workspace (ST-08)")
}

// TestASavedPlan shows what a client needs to apply a saved plan later (NC-17).
func TestASavedPlan(t *testing.T) {
	w := newWorld(t)
	group, ws, yes := w.runner(), w.workspace("app"), true
	run := w.queue(ws, tfe.RunCreateOptions{SavePlan: &yes})
	w.plan(w.accept(group), "")
	saved := w.read(run)
	assert.Equal(t, tfe.RunPlannedAndSaved, saved.Status)
	assert.True(t, saved.Actions.IsConfirmable)
}

func TestRunsThatOnlyPlanAreListedWhenAskedFor(t *testing.T) {
	w := newWorld(t)
	w.runner()
	ctx, ws, yes := t.Context(), w.workspace("app"), true
	run := w.queue(ws, tfe.RunCreateOptions{PlanOnly: &yes})
	assert.Equal(t, tfe.RunPlanQueued, run.Status)
	list, err := w.client.Runs.List(ctx, ws.ID, nil)
	require.NoError(t, err)
	assert.Empty(t, list.Items)
	list, err = w.client.Runs.List(ctx, ws.ID, &tfe.RunListOptions{Operation: "plan_and_apply,plan_only"})
	require.NoError(t, err)
	assert.Equal(t, []*tfe.Run{run}, list.Items)
	unlocked, err := w.client.Workspaces.Read(ctx, "acme", "app")
	require.NoError(t, err)
	assert.False(t, unlocked.Locked, "it never locks (QP-04)")
}

// get reads an address as a client with these headers.
func (w *world) get(address, token string, headers ...string) string {
	w.Helper()
	if strings.HasPrefix(address, "/") {
		address = w.url + address
	}
	request, err := http.NewRequestWithContext(w.Context(), http.MethodGet, address, nil)
	require.NoError(w, err)
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := http.DefaultClient.Do(request)
	require.NoError(w, err)
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	require.NoError(w, err)
	return string(text)
}

// TestStructuredRunOutput: the cloud integration of tofu gets what it draws a run from, and
// everybody else what people read.
func TestStructuredRunOutput(t *testing.T) {
	w := newWorld(t)
	ctx, group, ws, yes, no := t.Context(), w.runner(), w.workspace("app"), true, false
	assert.True(t, ws.StructuredRunOutputEnabled)
	run := w.queue(ws, tfe.RunCreateOptions{AllowConfigGeneration: &yes})
	assert.True(t, *run.AllowConfigGeneration)
	s := w.acceptWith(group, true)
	_, err := w.deps.Runs.AppendLog(ctx, s.actor, dispatch.JSON, 0, []byte("{}\n"))
	require.NoError(t, err)
	_, err = w.deps.Runs.AppendLog(ctx, s.actor, dispatch.Human, 0, []byte("text\n"))
	require.NoError(t, err)
	for kind, content := range map[artifacts.Kind]string{artifacts.KindPlan: "plan", artifacts.KindPlanJSON: `{"secret":1}`, artifacts.KindPlanJSONRedacted: `{"redacted":1}`} {
		sum := sha256.Sum256([]byte(content))
		require.NoError(t, w.deps.Runs.HandOver(ctx, s.actor, kind, hex.EncodeToString(sum[:]), bytes.NewReader([]byte(content))))
	}
	require.NoError(t, w.deps.Runs.Done(ctx, s.id, runs.Done{
		Outcome: runs.OutcomeFinished, ExitCode: 2, TofuVersion: "1.12.6", TofuDigest: "digest", LogSize: 5, JSONLogSize: 3, LogTruncated: true, GeneratedConfig: true, Plan: &runs.PlanSummary{HasChanges: true, Additions: 1},
	}))

	plan, err := w.client.Plans.Read(ctx, run.Plan.ID)
	require.NoError(t, err)
	assert.True(t, plan.GeneratedConfiguration)
	assert.Contains(t, w.get("/api/v2/plans/"+run.Plan.ID, w.bob), `"log-truncated":true`, "PL-04")
	assert.Contains(t, w.get("/api/v2/applies/"+run.Apply.ID, w.bob), `"log-truncated":false`)
	for integration, want := range map[string]string{"cloud": "\x02{}\n\x03", "": "\x02text\n\x03", "else": "\x02text\n\x03"} {
		assert.Equal(t, want, w.get(plan.LogReadURL, "", "X-Terraform-Integration", integration), integration)
	}
	path := "/api/v2/plans/" + run.Plan.ID + "/json-output-redacted"
	assert.JSONEq(t, `{"redacted":1}`, w.get(path, w.bob), "whoever may see the run")
	assert.NotContains(t, w.get(path, ""), "redacted")

	seen := func() bool {
		fresh, err := w.client.Runs.ReadWithOptions(ctx, run.ID, &tfe.RunReadOptions{Include: []tfe.RunIncludeOpt{tfe.RunWorkspace}})
		require.NoError(t, err)
		return fresh.Workspace.StructuredRunOutputEnabled
	}
	assert.True(t, seen())
	changed, err := w.client.Workspaces.UpdateByID(ctx, ws.ID, tfe.WorkspaceUpdateOptions{StructuredRunOutputEnabled: &no})
	require.NoError(t, err)
	assert.False(t, changed.StructuredRunOutputEnabled)
	assert.True(t, seen(), "a run is drawn as it was begun")
	require.NoError(t, w.client.Runs.Discard(ctx, run.ID, tfe.RunDiscardOptions{}))

	_, err = w.client.Workspaces.UpdateByID(ctx, ws.ID, tfe.WorkspaceUpdateOptions{StructuredRunOutputEnabled: &yes})
	require.NoError(t, err)
	run = w.queue(ws, tfe.RunCreateOptions{})
	w.plan(w.accept(group), "text of an older runner\n")
	assert.False(t, seen(), "its runner sends no events, so the client must not draw it")
	plan, err = w.client.Plans.Read(ctx, run.Plan.ID)
	require.NoError(t, err)
	assert.Equal(t, "\x02text of an older runner\n\x03", w.get(plan.LogReadURL, "", "X-Terraform-Integration", "cloud"))
}
