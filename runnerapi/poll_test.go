package runnerapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/runnerapi/wire"
	"github.com/holdfast-run/holdfast/runs"
	"github.com/holdfast-run/holdfast/workspaces"
)

// TestVersionsOfTheProtocol: the newest version that both speak is used and named, and
// where there is none the refusal says what to install.
func TestVersionsOfTheProtocol(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	poll := func(newest, oldest int) answer {
		in := hello(0)
		in.ProtocolVersion, in.OldestVersion = newest, oldest
		return w.call(http.MethodPost, wire.PathPoll, w.group, in)
	}
	for _, tt := range []struct{ newest, oldest, chosen int }{
		{wire.Version, 0, wire.Version}, {wire.Version, wire.OldestVersion, wire.Version}, {wire.Version + 3, wire.Version, wire.Version},
		{wire.Version + 3, 1, wire.Version}, {wire.OldestVersion, 0, wire.OldestVersion}, {wire.OldestVersion, wire.OldestVersion - 1, wire.OldestVersion},
	} {
		chosen := poll(tt.newest, tt.oldest).want(http.StatusNoContent).header.Get(wire.HeaderVersion)
		if tt.chosen == 1 {
			assert.Empty(t, chosen, "version 1 names none")
			continue
		}
		assert.Equal(t, strconv.Itoa(tt.chosen), chosen, "%+v", tt)
	}
	for _, tt := range []struct {
		newest, oldest int
		install        string
	}{
		{wire.OldestVersion - 1, 0, "Install the holdfast-runner of the server's release"},
		{wire.Version + 1, 0, "Install a server of the runner's release"},
		{wire.Version + 2, wire.Version + 1, "Install a server of the runner's release"},
		{wire.OldestVersion, wire.Version, "Install the holdfast-runner of the server's release"},
	} {
		refused := poll(tt.newest, tt.oldest)
		refused.refused(http.StatusUnprocessableEntity, wire.CodeVersion)
		var p wire.Problem
		require.NoError(t, json.Unmarshal(refused.body, &p))
		assert.Contains(t, p.Detail, tt.install, "%+v", tt)
	}
}

// TestARunnerOfVersionOneWorks: the bytes that a runner of the release before sends and
// reads, written out, because wire goes on.
func TestARunnerOfVersionOneWorks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := w.run().ID
	body := func(text string, values ...any) []byte { return fmt.Appendf(nil, text, values...) }
	first := w.call(http.MethodPost, "/runner/v1/poll", w.group, body(`{"protocol_version":1,"runner_name":"old","wait_seconds":0,"tofu_versions":["1.12.6"]}`)).want(http.StatusOK)
	var offer map[string]any
	require.NoError(t, json.Unmarshal(first.body, &offer))
	assert.Len(t, offer, 5, "nothing that version 1 did not have: %s", first.body)
	runner, attempt := offer["runner_id"].(string), offer["attempt_id"].(string)
	assert.Equal(t, []any{string(run), "plan"}, []any{offer["run_id"], offer["phase"]})
	w.call(http.MethodPost, "/runner/v1/runners/"+runner+"/ready", w.group, nil).want(http.StatusNoContent)
	accepted := w.call(http.MethodPost, "/runner/v1/attempts/"+attempt+"/accept", w.group, body(`{"runner_id":%q,"sandbox_id":"box","json_log":false}`, runner)).want(http.StatusOK)
	var session struct {
		Token    string
		Manifest []byte
		Digest   string `json:"manifest_digest"`
	}
	require.NoError(t, json.Unmarshal(accepted.body, &session))
	assert.Equal(t, sha(session.Manifest), session.Digest)
	call := func(method, path string, content []byte, headers ...string) answer {
		return w.call(method, "/runner/v1/attempts/"+attempt+path, session.Token, content, headers...)
	}
	call(http.MethodGet, "/status", nil).want(http.StatusOK)
	call(http.MethodGet, "/inputs/configuration", nil).want(http.StatusOK)
	call(http.MethodPost, "/logs", []byte("log"), "Holdfast-Log-Offset", "0", "Holdfast-Sha256", sha([]byte("log"))).want(http.StatusOK)
	for _, kind := range []string{"plan", "plan-json", "plan-json-redacted", "lock-file"} {
		call(http.MethodPut, "/artifacts/"+kind, []byte("{}"), "Holdfast-Sha256", sha([]byte("{}"))).want(http.StatusNoContent)
	}
	call(http.MethodPost, "/done", body(`{"outcome":"finished","exit_code":2,"tofu_started":false,"tofu_version":"1.12.6","tofu_digest":"d",
		"plan":{"has_changes":true,"additions":1,"changes":0,"destructions":0,"imports":0},"errored_state":false,"generated_config":false,"log_size":3,"json_log_size":0}`)).want(http.StatusNoContent)
	w.wantStatus(run, runs.AwaitingApproval)
	w.call(http.MethodDelete, "/runner/v1/runners/"+runner, w.group, nil).want(http.StatusNoContent)

	drained := w.named(`{"protocol_version":1,"runner_name":"old","wait_seconds":0,"tofu_versions":["1.12.6"],"labels":["gpu"]}`)
	assert.Equal(t, "{}", value[string](w, "select labels::text from runners where id = @id", postgres.Args{"id": drained}), "labels came with version 2")
	w.drain(drained)
	again := w.call(http.MethodPost, "/runner/v1/poll", w.group, body(`{"protocol_version":1,"runner_name":"old","runner_id":%q,"wait_seconds":0,"tofu_versions":["1.12.6"]}`, drained)).want(http.StatusNoContent)
	assert.Empty(t, again.header.Get(wire.HeaderDrain), "version 1 does not know it")
}

// named polls with the body and gives the runner that the server has named.
func (w *world) named(body string) ids.Runner {
	w.Helper()
	return ids.Runner(w.call(http.MethodPost, wire.PathPoll, w.group, []byte(body)).want(http.StatusNoContent).header.Get(wire.HeaderRunner))
}

func (w *world) drain(runner ids.Runner) {
	w.Helper()
	_, err := w.disp.DrainAgent(ctx, w.owner, runner)
	require.NoError(w, err)
}

// waiter is a poll that the server holds.
type waiter struct {
	name   string
	answer chan *http.Response
}

// wait lets a runner of the group poll for long, and returns once the server holds it.
func (w *world) wait(group, name string, labels ...string) waiter {
	w.Helper()
	in := hello(50)
	in.RunnerName, in.Labels = name, labels
	one := waiter{name, make(chan *http.Response, 1)}
	go func() {
		response, err := http.DefaultClient.Do(w.request(w.Context(), http.MethodPost, wire.PathPoll, group, in))
		if err == nil { // else the test has ended
			one.answer <- response
		}
		close(one.answer)
	}()
	w.awaitRunner(name)
	return one
}

// offered waits for the answer, which must be an offer, and gives its run.
func (one waiter) offered(w *world) ids.Run {
	w.Helper()
	response := <-one.answer
	require.NotNil(w, response)
	defer func() { _ = response.Body.Close() }()
	require.Equal(w, http.StatusOK, response.StatusCode)
	var a wire.Assignment
	require.NoError(w, json.NewDecoder(response.Body).Decode(&a))
	return ids.Run(a.RunID)
}

// silent demands that the server still holds the poll.
func (one waiter) silent(w *world) {
	w.Helper()
	select {
	case response := <-one.answer:
		assert.Fail(w, "answered", "%s: %d", one.name, response.StatusCode)
	default:
	}
}

// TestLabelsSelectTheRunner is RP-22: a run is woken for, and offered to, the runner
// that has all labels its workspace asks for, of its own or of its group.
func TestLabelsSelectTheRunner(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	plain, gpu := w.wait(w.group, "plain"), w.wait(w.group, "gpu", "gpu", "region=eu")
	selector := []string{"region=eu", "gpu"}
	_, err := w.spaces.Update(ctx, w.owner, w.ws, workspaces.Changes{Settings: workspaces.Settings{RunnerSelector: &selector}})
	require.NoError(t, err)
	selected := w.run().ID
	assert.Equal(t, selected, gpu.offered(w))
	plain.silent(w)
	w.poll(0).want(http.StatusNoContent)

	w.ws = w.workspace("other")
	assert.Equal(t, w.run().ID, plain.offered(w))

	t.Log("labels of the group")
	none := []string{}
	w.ws = w.workspace("third")
	_, err = w.spaces.Update(ctx, w.owner, w.ws, workspaces.Changes{Settings: workspaces.Settings{RunnerSelector: &[]string{"gpu"}}})
	require.NoError(t, err)
	third := w.run().ID
	waits := w.wait(w.group, "later")
	group, err := w.who.RunnerGroupByToken(ctx, w.group)
	require.NoError(t, err)
	_, err = w.disp.UpdatePool(ctx, w.owner, group.ID, accounts.PoolChanges{Labels: &[]string{"gpu"}})
	require.NoError(t, err)
	w.poll(0).want(http.StatusOK)
	waits.silent(w)
	_, err = w.disp.UpdatePool(ctx, w.owner, group.ID, accounts.PoolChanges{Labels: &none})
	require.NoError(t, err)
	assert.Equal(t, "assigned", value[string](w, "select status from attempts where run_id = @run", postgres.Args{"run": third}))
}

// TestRunnersAreServedInTheOrderTheyCame: of a fleet that waits, a new run is offered to
// the one that has waited longest, and the others go on waiting.
func TestRunnersAreServedInTheOrderTheyCame(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const fleet = 8
	var waiting []waiter
	for i := range fleet {
		waiting = append(waiting, w.wait(w.group, fmt.Sprintf("runner-%d", i)))
	}
	run := w.run().ID
	assert.Equal(t, run, waiting[0].offered(w), "the one that has waited longest")
	for _, one := range waiting[1:] {
		one.silent(w)
	}

	t.Log("the next one gets the next")
	w.ws = w.workspace("second")
	assert.Equal(t, w.run().ID, waiting[1].offered(w))
}

// TestLostNotificationsAreMadeUpFor: what was created while nobody was told is found by
// one look, and each who gets something calls the next.
func TestLostNotificationsAreMadeUpFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var wanted []ids.Run
	var all []waiter
	for i := range 3 {
		w.ws = w.workspace(fmt.Sprintf("lost-%d", i))
		wanted = append(wanted, w.run().ID)
	}
	w.exec("update attempts set status = 'canceled' where status = 'pending'", nil)
	for i := range 4 {
		all = append(all, w.wait(w.group, fmt.Sprintf("runner-%d", i)))
	}
	w.exec("update attempts set status = 'pending' where status = 'canceled'", nil) // without a word
	w.exec("select pg_notify('holdfast_attempts', '')", nil)
	var got []ids.Run
	var mu sync.Mutex
	done := make(chan struct{}, len(all))
	for _, one := range all {
		go func() {
			if response := <-one.answer; response != nil && response.StatusCode == http.StatusOK {
				var a wire.Assignment
				_ = json.NewDecoder(response.Body).Decode(&a)
				_ = response.Body.Close()
				mu.Lock()
				got = append(got, ids.Run(a.RunID))
				mu.Unlock()
				done <- struct{}{}
			}
		}()
	}
	for range wanted {
		select {
		case <-done:
		case <-time.After(patience):
			require.Fail(t, "not offered: the lobby's own look is hours away")
		}
	}
	assert.ElementsMatch(t, wanted, got)
}

// TestADrainedRunnerIsToldAtOnce: a waiting one is answered, and one that comes later
// before it is offered anything.
func TestADrainedRunnerIsToldAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.wait(w.group, "drained")
	id := value[ids.Runner](w, "select id from runners where name = 'drained'", nil)
	w.drain(id)
	response := <-one.answer
	require.NotNil(t, response)
	_ = response.Body.Close()
	assert.Equal(t, []any{http.StatusNoContent, "true"}, []any{response.StatusCode, response.Header.Get(wire.HeaderDrain)})
	w.run()
	in := hello(50)
	in.RunnerID = string(id)
	again := w.call(http.MethodPost, wire.PathPoll, w.group, in).want(http.StatusNoContent)
	assert.Equal(t, "true", again.header.Get(wire.HeaderDrain), "at once, although it would wait")
	w.poll(0).want(http.StatusOK)
}

// TestARevokedTokenIsOfferedNothing: not even to a poll that waits since before.
func TestARevokedTokenIsOfferedNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.wait(w.group, "revoked")
	group, err := w.who.RunnerGroupByToken(ctx, w.group)
	require.NoError(t, err)
	other, _, err := w.who.CreateAgentToken(ctx, w.owner, group.ID, "another")
	require.NoError(t, err)
	require.NoError(t, w.disp.RevokeAgentToken(ctx, w.owner, group.Token))
	run := w.run().ID
	response := <-one.answer
	require.NotNil(t, response)
	_ = response.Body.Close()
	assert.Equal(t, http.StatusUnauthorized, response.StatusCode)
	offer := into[wire.Assignment](w.call(http.MethodPost, wire.PathPoll, other, hello(0)))
	assert.Equal(t, string(run), offer.RunID)
	w.poll(0).refused(http.StatusUnauthorized, "unauthenticated")
}
