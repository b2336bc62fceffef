package runnerapi

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/dispatch"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/runnerapi/wire"
	"github.com/holdfast-run/holdfast/runs"
	"github.com/holdfast-run/holdfast/workspaces"
)

// TestTheProtocol speaks the whole protocol in its order, plan and apply, as a runner
// that nobody here has written would.
func TestTheProtocol(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := w.run(func(n *runs.NewRun) { n.TargetAddrs = []string{"terraform_data.x"} }).ID
	next := w.run().ID

	offer := w.poll(0).want(http.StatusOK)
	var members map[string]any
	require.NoError(t, json.Unmarshal(offer.body, &members))
	names := []string{}
	for name := range members {
		names = append(names, name)
	}
	assert.ElementsMatch(t, []string{"runner_id", "attempt_id", "run_id", "phase", "expires_at", "protocol_version", "organization_id"}, names, "an offer tells nothing else, and nothing secret")
	plan := &executor{world: w, Assignment: into[wire.Assignment](offer), sandbox: "sandbox-1"}
	assert.Equal(t, []string{string(run), "plan"}, []string{plan.RunID, plan.Phase})
	w.wantStatus(run, runs.Queued)

	plan.accept()
	w.wantStatus(run, runs.Planning)
	assert.Equal(t, sha(plan.session.Manifest), plan.session.ManifestDigest)
	assert.NotContains(t, string(plan.session.Manifest), secret)
	assert.NotContains(t, string(plan.session.Manifest), plan.session.Token)
	m := plan.manifest
	assert.Regexp(t, "^[0-9a-f]{64}$", m.VariablesDigest)
	assert.NotEqual(t, sha(nil), m.VariablesDigest)
	m.VariablesDigest = ""
	assert.Equal(t, wire.Manifest{
		AttemptID: plan.AttemptID, RunID: string(run), Phase: "plan", ExecutionNonce: dispatch.Nonce(run, ids.Attempt(plan.AttemptID)), OrganizationName: "acme", WorkspaceID: string(w.ws), WorkspaceName: "app",
		TofuVersion: tofu, Refresh: true, TargetAddrs: []string{"terraform_data.x"}, LogLimit: 10 << 20, JSONLogLimit: 40 << 20, MaxSeconds: 13800, InterruptSeconds: 300,
		Inputs: []wire.Transfer{
			{Kind: "configuration", Method: "proxy", URL: at(wire.PathInput, plan.AttemptID, "configuration"), SHA256: sha(w.config), Size: int64(len(w.config))},
			{Kind: "variables", Method: "proxy", URL: at(wire.PathInput, plan.AttemptID, "variables")},
		},
		Outputs: []wire.Transfer{
			{Kind: "plan-json", Method: "proxy", URL: at(wire.PathArtifact, plan.AttemptID, "plan-json")},
			{Kind: "plan-json-redacted", Method: "proxy", URL: at(wire.PathArtifact, plan.AttemptID, "plan-json-redacted")},
			{Kind: "lock-file", Method: "proxy", URL: at(wire.PathArtifact, plan.AttemptID, "lock-file")},
			{Kind: "cost-estimate", Method: "proxy", URL: at(wire.PathArtifact, plan.AttemptID, "cost-estimate")},
			{Kind: "plan", Method: "proxy", URL: at(wire.PathArtifact, plan.AttemptID, "plan")},
		},
	}, m)
	assert.Equal(t, plan.session, into[wire.Session](plan.tryAccept()), "the exact repeat, after a lost answer, gets the same session")

	for _, transfer := range m.Inputs {
		got := w.call(http.MethodGet, transfer.URL, plan.session.Token, nil).want(http.StatusOK)
		switch transfer.Kind {
		case wire.KindConfiguration:
			assert.Equal(t, w.config, got.body)
		case wire.KindVariables:
			assert.Equal(t, wire.Variables{Terraform: []wire.Variable{{Key: "password", Value: secret}}, Environment: []wire.Variable{}}, into[wire.Variables](got))
		}
	}
	assert.Equal(t, wire.Status{NextPollSeconds: 5}, into[wire.Status](plan.mine(http.MethodGet, wire.PathStatus, nil)))
	plan.write("Planning…\n")
	plan.write("Plan: 1 to add\n")
	for _, transfer := range m.Outputs {
		content := []byte("the " + transfer.Kind)
		w.call(http.MethodPut, transfer.URL, plan.session.Token, content, wire.HeaderSHA256, sha(content)).want(http.StatusNoContent)
	}
	finished := planned()
	finished.Cost = &wire.CostEstimate{Currency: "USD", Prior: "1.00", Proposed: "3.50", Delta: "2.50", Resources: 4, Matched: 2}
	plan.done(finished).want(http.StatusNoContent)
	waiting := w.wantStatus(run, runs.AwaitingApproval)
	cost, err := w.runs.Cost(ctx, authz.System(), waiting.CostEstimateID)
	require.NoError(t, err)
	assert.Equal(t, []any{"USD", "1.00", "3.50", "2.50", 4, 2, ""}, []any{cost.Currency, cost.Prior, cost.Proposed, cost.Delta, cost.Resources, cost.Matched, cost.Error})
	assert.Equal(t, []any{true, 1, tofuDigest}, []any{*waiting.HasChanges, waiting.ResourceAdditions, waiting.PlanTofuDigest})
	text, err := w.runs.PlanLog(ctx, waiting.PlanID, dispatch.Human, 0, 1000)
	require.NoError(t, err)
	assert.Equal(t, "Planning…\nPlan: 1 to add\n", string(text.Data))
	w.call(http.MethodDelete, at(wire.PathDeregister, plan.RunnerID), w.group, nil).want(http.StatusNoContent)
	w.call(http.MethodDelete, at(wire.PathDeregister, plan.RunnerID), w.group, nil).want(http.StatusNoContent)
	w.poll(0).want(http.StatusNoContent)

	t.Log("the report, again after the session has ended")
	plan.done(finished).want(http.StatusNoContent)
	other := planned()
	other.Plan.Additions = 2
	plan.done(other).refused(http.StatusConflict, "attempt_ended")
	plan.mine(http.MethodGet, wire.PathStatus, nil).refused(http.StatusUnauthorized, "session_ended")
	plan.put(wire.KindPlan, "another plan").refused(http.StatusUnauthorized, "session_ended")

	t.Log("apply")
	require.NoError(t, w.runs.Confirm(ctx, w.owner, run, runs.Decision{}))
	apply := w.assigned(run)
	assert.Equal(t, "apply", apply.Phase)
	apply.accept()
	w.wantStatus(run, runs.AwaitingApproval)
	assert.Equal(t, tofuDigest, apply.manifest.TofuDigest)
	assert.Empty(t, apply.manifest.Outputs)
	kinds := []string{}
	for _, transfer := range apply.manifest.Inputs {
		kinds = append(kinds, transfer.Kind)
		got := w.call(http.MethodGet, transfer.URL, apply.session.Token, nil).want(http.StatusOK)
		if transfer.Kind == wire.KindPlan || transfer.Kind == wire.KindLockFile {
			assert.Equal(t, "the "+transfer.Kind, string(got.body), "what the plan handed over")
			assert.Equal(t, sha(got.body), transfer.SHA256)
		}
	}
	assert.Equal(t, []string{"configuration", "variables", "plan", "lock-file"}, kinds)
	started := into[wire.ApplyStarted](apply.start())
	w.wantStatus(run, runs.Applying)
	assert.True(t, started.StartedAt.Equal(into[wire.ApplyStarted](apply.start()).StartedAt), "the exact repeat gets the same answer")
	apply.write("Applying…\n")
	apply.confirmation(apply.sandbox).refused(http.StatusConflict, "state_unproven")
	v := apply.publish(1)
	confirmed := into[wire.StateConfirmed](apply.confirmation(apply.sandbox))
	assert.Equal(t, wire.StateConfirmed{StateVersionID: string(v.ID), SHA256: v.SHA256, Serial: 1}, confirmed)
	report := wire.Done{Outcome: wire.OutcomeFinished, TofuStarted: true, Confirmed: &confirmed}
	apply.done(report).want(http.StatusNoContent)
	assert.Equal(t, v.ID, w.wantStatus(run, runs.Succeeded).ResultingVersionID)
	apply.done(report).want(http.StatusNoContent)
	report.Confirmed = nil
	apply.done(report).refused(http.StatusConflict, "attempt_ended")
	w.wantStatus(run, runs.Succeeded)

	assert.Equal(t, string(next), into[wire.Assignment](w.poll(0)).RunID, "the next run is offered")
}

func TestWhoMayCall(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	plan := w.assigned(w.run().ID).accept()
	foreign, _, err := w.who.CreateRunnerGroup(ctx, system, "", "others")
	require.NoError(t, err)

	t.Log("calls of a group")
	for _, token := range []string{"", "wrong", w.group + "x", strings.ToUpper(w.group), plan.session.Token, "hfa_", "\xff"} {
		for _, c := range []struct{ method, path string }{
			{http.MethodPost, wire.PathPoll},
			{http.MethodPost, at(wire.PathReady, plan.RunnerID)},
			{http.MethodDelete, at(wire.PathDeregister, plan.RunnerID)},
			{http.MethodPost, at(wire.PathAccept, plan.AttemptID)},
		} {
			w.call(c.method, c.path, token, hello(0)).refused(http.StatusUnauthorized, "unauthenticated")
		}
	}
	w.call(http.MethodPost, wire.PathPoll, "", hello(0), "Authorization", w.group).refused(http.StatusUnauthorized, "unauthenticated")
	w.call(http.MethodPost, at(wire.PathReady, plan.RunnerID), foreign, nil).refused(http.StatusNotFound, "not_found")
	w.call(http.MethodPost, at(wire.PathAccept, plan.AttemptID), foreign, wire.Accept{RunnerID: plan.RunnerID, SandboxID: plan.sandbox}).refused(http.StatusConflict, "assignment_lost")
	taken := hello(0)
	taken.RunnerID = plan.RunnerID
	w.call(http.MethodPost, wire.PathPoll, foreign, taken).refused(http.StatusNotFound, "not_found")

	t.Log("calls of an attempt")
	w.ws = w.workspace("other")
	second := w.assigned(w.run().ID).accept()
	paths := map[string]string{
		wire.PathStatus: http.MethodGet, at(wire.PathInput, "{id}", "configuration"): http.MethodGet, at(wire.PathArtifact, "{id}", "plan"): http.MethodPut,
		wire.PathLogs: http.MethodPost, wire.PathApplyStart: http.MethodPost, wire.PathStateConfirmation: http.MethodPost, wire.PathDone: http.MethodPost,
	}
	for path, method := range paths {
		for _, token := range []string{"", w.group, "hfa_", "hfa_" + plan.AttemptID, plan.session.Token + "x", "hfa_\xff.\xff", "hfa_" + second.AttemptID + plan.session.Token[strings.Index(plan.session.Token, "."):]} {
			w.call(method, at(path, plan.AttemptID), token, nil).refused(http.StatusUnauthorized, "unauthenticated")
		}
		w.call(method, at(path, plan.AttemptID), second.session.Token, wire.Done{}).refused(http.StatusNotFound, "not_found")
	}
	w.wantStatus(ids.Run(plan.RunID), runs.Planning)
}

func TestAcceptIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.assigned(w.run().ID)
	e.tryAccept().refused(http.StatusConflict, "runner_not_ready")
	e.ready().want(http.StatusNoContent)

	for _, sandbox := range []string{"", strings.Repeat("x", 201), "a\x00b"} {
		w.call(http.MethodPost, at(wire.PathAccept, e.AttemptID), w.group, wire.Accept{RunnerID: e.RunnerID, SandboxID: sandbox}).refused(http.StatusUnprocessableEntity, "sandbox_required")
	}
	w.call(http.MethodPost, at(wire.PathAccept, "att-unknown"), w.group, wire.Accept{}).refused(http.StatusNotFound, "not_found")
	w.call(http.MethodPost, at(wire.PathAccept, string(ids.New[ids.Attempt]())), w.group, wire.Accept{RunnerID: e.RunnerID, SandboxID: "s"}).refused(http.StatusNotFound, "not_found")
	w.call(http.MethodPost, at(wire.PathAccept, e.AttemptID), w.group, wire.Accept{RunnerID: string(ids.New[ids.Runner]()), SandboxID: "s"}).refused(http.StatusConflict, "assignment_lost")
	w.call(http.MethodPost, at(wire.PathAccept, e.AttemptID), w.group, []byte("{")).refused(http.StatusBadRequest, "malformed")
	w.wantStatus(ids.Run(e.RunID), runs.Queued)

	e.accept()
	e.sandbox = "sandbox-2"
	e.tryAccept().refused(http.StatusConflict, "capability_replayed")

	t.Log("too late")
	w.ws = w.workspace("late")
	late := w.assigned(w.run().ID)
	late.ready().want(http.StatusNoContent)
	w.exec("update attempts set assignment_expires_at = clock_timestamp() - interval '1 second' where id = @id", postgres.Args{"id": late.AttemptID})
	late.tryAccept().refused(http.StatusConflict, "assignment_expired")
}

func TestAPollThatIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.call(http.MethodPost, wire.PathPoll, w.group, []byte("{")).refused(http.StatusBadRequest, "malformed")
	w.call(http.MethodPost, wire.PathPoll, w.group, []byte(`{"runner_name":"`+strings.Repeat("x", maxBody)+`"}`)).refused(http.StatusBadRequest, "malformed")
	for code, spoil := range map[string]func(*wire.Poll){
		"runner_text":     func(p *wire.Poll) { p.RunnerName = "a\x00b" },
		"runner_versions": func(p *wire.Poll) { p.TofuVersions = make([]string, 101) },
	} {
		in := hello(0)
		spoil(&in)
		w.call(http.MethodPost, wire.PathPoll, w.group, in).refused(http.StatusUnprocessableEntity, code)
	}
	for _, labels := range [][]string{{"a b"}, {""}, {strings.Repeat("x", 64)}, make([]string, 21)} {
		in := hello(0)
		in.Labels = labels
		w.call(http.MethodPost, wire.PathPoll, w.group, in).refused(http.StatusUnprocessableEntity, "runner_labels")
	}
	for _, text := range []string{"1.12.6\x00", strings.Repeat("9", 201)} {
		in := hello(0)
		in.TofuVersions = []string{text}
		w.call(http.MethodPost, wire.PathPoll, w.group, in).refused(http.StatusUnprocessableEntity, "runner_text")
	}
	for _, id := range []string{"x", "agent-\x00", string(ids.New[ids.Run]())} {
		in := hello(0)
		in.RunnerID = id
		w.call(http.MethodPost, wire.PathPoll, w.group, in).refused(http.StatusNotFound, "not_found")
	}
	for _, path := range []string{at(wire.PathReady, "agent-x"), at(wire.PathReady, "%00"), at(wire.PathReady, string(ids.New[ids.Runner]()))} {
		w.call(http.MethodPost, path, w.group, nil).refused(http.StatusNotFound, "not_found")
	}
	assert.Equal(t, 1, value[int](w, "select count(*)::int from runners", nil), "only the first poll of this world made a runner known")
}

func TestAPollWithoutWorkNamesTheRunner(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	known := value[int](w, "select count(*)::int from runners", nil)
	name := w.poll(0).want(http.StatusNoContent).header.Get(wire.HeaderRunner)
	in := hello(0)
	in.RunnerID = name
	again := w.call(http.MethodPost, wire.PathPoll, w.group, in).want(http.StatusNoContent)
	assert.Equal(t, name, again.header.Get(wire.HeaderRunner))
	w.run()
	assert.Equal(t, name, into[wire.Assignment](w.call(http.MethodPost, wire.PathPoll, w.group, in)).RunnerID)
	assert.Equal(t, known+1, value[int](w, "select count(*)::int from runners", nil))
}

func TestALongPollIsWokenByANewRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	in := hello(50)
	in.RunnerName = "waits"
	offered := make(chan wire.Assignment, 1)
	go func() {
		response, err := http.DefaultClient.Do(w.request(ctx, http.MethodPost, wire.PathPoll, w.group, in))
		var a wire.Assignment
		if assert.NoError(t, err) {
			assert.NoError(t, json.NewDecoder(response.Body).Decode(&a))
			_ = response.Body.Close()
		}
		offered <- a
	}()
	w.awaitRunner("waits")
	run := w.run().ID
	assert.Equal(t, string(run), (<-offered).RunID, "woken: the lobby's own look is hours away")
}

// awaitRunner waits until a poll of this name has looked for work in vain.
func (w *world) awaitRunner(name string) {
	w.Helper()
	require.Eventually(w, func() bool {
		return value[bool](w, "select exists (select from runners where name = @name)", postgres.Args{"name": name})
	}, patience, 5*time.Millisecond)
}

// A server that ends answers the polls that wait as if their time were up, so their runners ask
// the next server at once instead of finding a broken connection.
func TestAServerThatEndsAnswersItsPolls(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	in := hello(50)
	in.RunnerName = "waits"
	limited, cancel := context.WithTimeout(ctx, 40*time.Second)
	defer cancel()
	answered := make(chan http.Header, 1)
	go func() {
		response, err := http.DefaultClient.Do(w.request(limited, http.MethodPost, wire.PathPoll, w.group, in))
		if !assert.NoError(t, err) {
			answered <- nil
			return
		}
		_ = response.Body.Close()
		assert.Equal(t, http.StatusNoContent, response.StatusCode)
		answered <- response.Header
	}()
	w.awaitRunner("waits")
	close(w.stopping)
	header := <-answered
	assert.NotEmpty(t, header.Get(wire.HeaderRunner))
	assert.Empty(t, header.Get(wire.HeaderDrain), "the runner goes on")
}

func TestAPollThatIsCutOffTakesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for len(w.settled) > 0 {
		<-w.settled
	}
	in := hello(30)
	in.RunnerName = "dies"
	alive, kill := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		response, err := http.DefaultClient.Do(w.request(alive, http.MethodPost, wire.PathPoll, w.group, in))
		if err == nil {
			_ = response.Body.Close()
		}
		ended <- err
	}()
	w.awaitRunner("dies")
	kill()
	require.ErrorIs(t, <-ended, context.Canceled)
	<-w.settled
	run := w.run().ID
	assert.Equal(t, "pending", value[string](w, "select status from attempts where run_id = @run", postgres.Args{"run": run}))
	assert.Equal(t, string(run), into[wire.Assignment](w.poll(0)).RunID, "it is offered to the next runner")
	assert.NotContains(t, w.log.String(), "level=ERROR")
}

func TestAnOfferThatNobodyTakesUpEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run, next := w.run().ID, w.run().ID
	var dead *executor
	for range 3 {
		dead = w.assigned(run)
		dead.ready().want(http.StatusNoContent)
		w.poll(0).want(http.StatusNoContent)
		w.wantStatus(run, runs.Queued)
		w.exec("update attempts set assignment_expires_at = clock_timestamp() where id = @id", postgres.Args{"id": dead.AttemptID})
		dead.tryAccept().refused(http.StatusConflict, "assignment_expired")
		require.NoError(t, runs.NewSweeper(w.runs).Sweep(ctx))
	}
	assert.Equal(t, "runner_lost", w.wantStatus(run, runs.PlanFailed).DurableReason)
	dead.tryAccept().refused(http.StatusConflict, "assignment_lost")
	w.assigned(next)
}

func TestLogs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.assigned(w.run().ID).accept()
	e.write("0123456789")

	digest := sha([]byte("abc"))
	e.mine(http.MethodPost, wire.PathLogs, []byte("abd"), wire.HeaderOffset, "10", wire.HeaderSHA256, digest).refused(http.StatusUnprocessableEntity, "digest_mismatch")
	e.mine(http.MethodPost, wire.PathLogs, []byte("abc"), wire.HeaderOffset, "10").refused(http.StatusUnprocessableEntity, "digest_mismatch")
	for _, offset := range []string{"", "-1", "ten", "9999999999999999999"} {
		e.mine(http.MethodPost, wire.PathLogs, []byte("abc"), wire.HeaderOffset, offset, wire.HeaderSHA256, digest).refused(http.StatusBadRequest, "malformed")
	}
	e.logAt(10, strings.Repeat("x", 256<<10+1)).refused(http.StatusRequestEntityTooLarge, "chunk_too_large")

	t.Log("a piece that does not join on is answered with where to go on")
	for _, offset := range []int64{0, 5, 11, 1 << 40} {
		assert.Equal(t, int64(10), into[wire.LogPosition](e.logAt(offset, "abc")).Next)
	}
	assert.Equal(t, int64(10), into[wire.LogPosition](e.logAt(0, "0123456789")).Next, "a repeat")
	assert.Equal(t, int64(10), into[wire.LogPosition](e.logAt(10, "")).Next)
	e.write(strings.Repeat("x", 256<<10))

	e.logged--
	e.done(planned()).refused(http.StatusConflict, "log_incomplete")
	w.wantStatus(ids.Run(e.RunID), runs.Planning)
}

func TestTheRunnerKnowsThatStateMustBeEncrypted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	yes := true
	_, err := w.spaces.Update(ctx, w.owner, w.ws, workspaces.Changes{Settings: workspaces.Settings{ClientEncrypted: &yes}})
	require.NoError(t, err)
	assert.True(t, w.assigned(w.run().ID).accept().manifest.EncryptedState)
}

func TestArtifacts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.assigned(w.run().ID).accept()
	e.put(wire.KindPlan, "the plan").want(http.StatusNoContent)
	e.put(wire.KindPlan, "the plan").want(http.StatusNoContent)
	e.put(wire.KindPlan, "other bytes").refused(http.StatusConflict, "artifact_fixed")
	e.mine(http.MethodPut, at(wire.PathArtifact, e.AttemptID, wire.KindPlanJSON), []byte("{}"), wire.HeaderSHA256, sha([]byte("[]"))).refused(http.StatusUnprocessableEntity, "digest_mismatch")
	e.mine(http.MethodPut, at(wire.PathArtifact, e.AttemptID, wire.KindPlanJSON), []byte("{}")).refused(http.StatusUnprocessableEntity, "digest_mismatch")
	for _, kind := range []string{"state", "configuration", "variables", "..", "plan%00", "PLAN"} {
		e.put(kind, "x").refused(http.StatusNotFound, "not_found")
	}
	e.put(wire.KindLockFile, strings.Repeat("x", 4<<20+1)).refused(http.StatusRequestEntityTooLarge, "artifact_too_large")

	t.Log("a plan without its evidence is none")
	e.done(planned()).want(http.StatusNoContent)
	assert.Equal(t, "plan_evidence_missing", w.wantStatus(ids.Run(e.RunID), runs.PlanFailed).DurableReason)

	t.Log("what could be applied is not kept of a run that only plans")
	only := w.assigned(w.run(func(n *runs.NewRun) { n.PlanOnly = true }).ID).accept()
	for _, transfer := range only.manifest.Outputs {
		assert.NotEqual(t, wire.KindPlan, transfer.Kind)
	}
	only.put(wire.KindPlan, "the plan").refused(http.StatusConflict, "plan_only")
}

func TestInputs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.assigned(w.run().ID).accept()
	for _, kind := range []string{"state", "plan-json", "plan", "lock-file", "..", "%00"} { // plan and lock file are inputs of an apply
		e.input(kind).refused(http.StatusNotFound, "not_found")
	}

	t.Log("bytes that were changed in the store are never taken for the whole")
	damage := func() {
		damaged := 0
		for _, key := range w.store.Keys() {
			if sealed := w.store.Bytes(key); strings.Contains(key, "/configuration/") && !strings.Contains(key, ".dek") {
				sealed[len(sealed)-1] ^= 1
				w.store.Replace(key, sealed)
				damaged++
			}
		}
		require.Equal(t, 1, damaged)
	}
	damage()
	e.input("configuration").refused(http.StatusInternalServerError, "internal")
	damage() // which mends it
	e.input("configuration").want(http.StatusOK)

	large := w.largeConfiguration()
	damage()
	cut := large.input("configuration").want(http.StatusOK)
	require.ErrorIs(t, cut.err, io.ErrUnexpectedEOF, "what was found too late for a refusal ends the connection")
	assert.Less(t, len(cut.body), len(w.config))

	t.Log("a store that is down")
	w.store.SetDown(true)
	e.input("configuration").refused(http.StatusServiceUnavailable, "store_unavailable")
	e.put(wire.KindPlan, "the plan").refused(http.StatusServiceUnavailable, "store_unavailable")
	w.store.SetDown(false)
	e.put(wire.KindPlan, "the plan").want(http.StatusNoContent)
}

// largeConfiguration makes an accepted plan of a configuration of many sealed pieces, the
// only one in the store.
func (w *world) largeConfiguration() *executor {
	w.Helper()
	for _, key := range w.store.Keys() {
		w.store.Replace(key, nil)
	}
	noise := make([]byte, 1<<20)
	_, _ = rand.Read(noise)
	w.ws, w.config = w.workspace("large"), tarball(w.T, string(noise))
	return w.assigned(w.run().ID).accept()
}

func TestApplyStartIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := w.run().ID
	plan := w.assigned(run).accept()
	plan.start().refused(http.StatusForbidden, "capability_mismatch")
	plan.confirmation(plan.sandbox).refused(http.StatusForbidden, "capability_mismatch")
	plan.plan()
	require.NoError(t, w.runs.Confirm(ctx, w.owner, run, runs.Decision{}))
	apply := w.assigned(run).accept()

	good := wire.ApplyStart{ManifestDigest: apply.session.ManifestDigest, SandboxID: apply.sandbox, TofuDigest: tofuDigest}
	for _, spoil := range []struct {
		status int
		code   string
		with   func(*wire.ApplyStart)
	}{
		{http.StatusConflict, "manifest_mismatch", func(s *wire.ApplyStart) { s.ManifestDigest = plan.session.ManifestDigest }},
		{http.StatusForbidden, "capability_mismatch", func(s *wire.ApplyStart) { s.SandboxID = "another" }},
		{http.StatusConflict, "tofu_digest_mismatch", func(s *wire.ApplyStart) { s.TofuDigest = "another" }},
		{http.StatusForbidden, "capability_mismatch", func(s *wire.ApplyStart) { *s = wire.ApplyStart{} }},
	} {
		bad := good
		spoil.with(&bad)
		apply.mine(http.MethodPost, wire.PathApplyStart, bad).refused(spoil.status, spoil.code)
	}
	apply.mine(http.MethodPost, wire.PathApplyStart, []byte("nothing")).refused(http.StatusBadRequest, "malformed")
	apply.put(wire.KindPlan, "the plan").refused(http.StatusNotFound, "not_found")
	w.wantStatus(run, runs.AwaitingApproval)

	apply.start().want(http.StatusOK)
	apply.publish(1)
	good.ManifestDigest = plan.session.ManifestDigest
	apply.mine(http.MethodPost, wire.PathApplyStart, good).refused(http.StatusConflict, "capability_replayed")
	apply.confirmation("another").refused(http.StatusForbidden, "capability_mismatch")
}

func TestStatusTellsToStop(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.assigned(w.run().ID).accept()
	require.NoError(t, w.runs.Cancel(ctx, w.owner, ids.Run(e.RunID), ""))
	assert.True(t, into[wire.Status](e.mine(http.MethodGet, wire.PathStatus, nil)).Stop)
	e.done(wire.Done{Outcome: wire.OutcomeCanceled, TofuStarted: true, ExitCode: -1}).want(http.StatusNoContent)
	w.wantStatus(ids.Run(e.RunID), runs.Canceled)
}

func TestAReportIsTakenWhateverItsText(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.assigned(w.run().ID).accept()
	huge := wire.Done{Outcome: wire.OutcomeErrored, ExitCode: 1 << 40}
	e.done(huge).refused(http.StatusUnprocessableEntity, "number_too_large")
	e.mine(http.MethodPost, wire.PathDone, []byte("{")).refused(http.StatusBadRequest, "malformed")
	report := wire.Done{Outcome: wire.OutcomeErrored, ExitCode: 1, Message: "tofu said \x00 " + strings.Repeat("é", 3000)}
	e.done(report).want(http.StatusNoContent)
	e.done(report).want(http.StatusNoContent)
	failed := w.wantStatus(ids.Run(e.RunID), runs.PlanFailed)
	assert.True(t, strings.HasPrefix(failed.StatusMessage, "tofu said \uFFFD é"), failed.StatusMessage)
	assert.Less(t, len(failed.StatusMessage), 4200)
}

func TestUnknownCalls(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, c := range []struct{ method, path string }{
		{http.MethodGet, "/runner/v1/unknown"}, {http.MethodGet, wire.PathPoll}, {http.MethodPost, at(wire.PathStatus, "att-x")},
	} {
		w.call(c.method, c.path, w.group, nil).refused(http.StatusNotFound, "not_found")
	}
}

// TestAnAttemptWithTwoLogs: which log a piece belongs to is said by a header, and that there
// are two by accept.
func TestAnAttemptWithTwoLogs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := w.run()
	e := w.assigned(run.ID)
	w.call(http.MethodPost, at(wire.PathReady, e.RunnerID), w.group, nil).want(http.StatusNoContent)
	e.session = into[wire.Session](w.call(http.MethodPost, at(wire.PathAccept, e.AttemptID), w.group, wire.Accept{RunnerID: e.RunnerID, SandboxID: e.sandbox, JSONLog: true}))
	piece := func(stream, offset, text string) answer {
		return e.mine(http.MethodPost, wire.PathLogs, []byte(text), wire.HeaderLogStream, stream, wire.HeaderOffset, offset, wire.HeaderSHA256, sha([]byte(text)))
	}
	assert.EqualValues(t, 5, into[wire.LogPosition](piece(wire.StreamHuman, "0", "human")).Next)
	assert.EqualValues(t, 3, into[wire.LogPosition](piece(wire.StreamJSON, "0", "{}\n")).Next)
	assert.EqualValues(t, 10, into[wire.LogPosition](e.logAt(5, " text")).Next, "without the header it is the human one")
	piece("noise", "0", "x").refused(http.StatusBadRequest, "malformed")

	for _, kind := range []string{wire.KindPlan, wire.KindPlanJSON, wire.KindPlanJSONRedacted} {
		e.put(kind, "{}").want(http.StatusNoContent)
	}
	report := planned()
	report.LogSize, report.TofuVersion, report.TofuDigest = 10, tofu, tofuDigest
	e.mine(http.MethodPost, wire.PathDone, report).refused(http.StatusConflict, "log_incomplete")
	report.JSONLogSize, report.GeneratedConfig, report.LogTruncated = 3, true, true
	e.mine(http.MethodPost, wire.PathDone, report).want(http.StatusNoContent)
	d := w.wantStatus(run.ID, runs.AwaitingApproval)
	assert.True(t, d.GeneratedConfig)
	assert.Equal(t, []bool{true, false}, []bool{d.PlanLogTruncated, d.ApplyLogTruncated})
	text, err := w.runs.PlanLog(ctx, d.PlanID, dispatch.JSON, 0, 100)
	require.NoError(t, err)
	assert.Equal(t, "{}\n", string(text.Data))
}
