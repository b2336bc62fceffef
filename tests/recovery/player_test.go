package recovery

import (
	"bytes"
	"crypto/md5"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/runnerapi/wire"
)

// player is a runner that the test plays, over HTTP, for a plant of its own.
type player struct {
	*plant
	group   string // token of the runner group
	runner  string // id
	version string // of the tofu that it says it has
}

const playedDigest = "d0fa7e3cbb1b1c8a2b8a7f0b8f0d5a3b6c3b5f1f0e9d8c7b6a5948372615f4e3"

func newPlayer(p *plant) *player {
	p.Helper()
	token, err := os.ReadFile(filepath.Join(shared.Dir, "runner-token"))
	require.NoError(p, err)
	played := &player{plant: p, group: strings.TrimSpace(string(token)), version: "1.12.6"}
	status, header, answer := played.send("POST", wire.PathPoll, played.group, played.hello())
	require.Equal(p, http.StatusNoContent, status, "%s", answer)
	played.runner = header.Get(wire.HeaderRunner)
	return played
}

func (p *player) hello() wire.Poll {
	return wire.Poll{ProtocolVersion: wire.Version, RunnerName: p.label, RunnerID: p.runner, TofuVersions: []string{p.version}, Labels: []string{p.label}}
}

// send speaks to the story's own server.
func (p *player) send(method, address, token string, body any, headers ...string) (int, http.Header, []byte) {
	p.Helper()
	raw, ok := body.([]byte)
	if !ok && body != nil {
		var err error
		raw, err = json.Marshal(body)
		require.NoError(p, err)
	}
	if strings.HasPrefix(address, "/") {
		address = p.network.address + address
	}
	request, err := http.NewRequestWithContext(p.Context(), method, address, bytes.NewReader(raw))
	require.NoError(p, err)
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := shared.HTTP.Do(request)
	require.NoError(p, err)
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	require.NoError(p, err)
	return response.StatusCode, response.Header, answer
}

// attempt is an execution that the test plays.
type attempt struct {
	*player
	wire.Assignment
	session wire.Session
}

func (a *attempt) mine(method, path string, body any, headers ...string) []byte {
	a.Helper()
	status, _, answer := a.send(method, strings.ReplaceAll(path, "{id}", a.AttemptID), a.session.Token, body, headers...)
	require.Equal(a, 2, status/100, "%s %s: %d %s", method, path, status, answer)
	return answer
}

func (p *player) take() *attempt {
	p.Helper()
	a := &attempt{player: p}
	eventually(p.T, "work", func() bool {
		status, _, answer := p.send("POST", wire.PathPoll, p.group, p.hello())
		return status == http.StatusOK && json.Unmarshal(answer, &a.Assignment) == nil
	})
	status, _, answer := p.send("POST", strings.ReplaceAll(wire.PathReady, "{id}", a.RunnerID), p.group, nil)
	require.Equal(p, http.StatusNoContent, status, "%s", answer)
	status, _, answer = p.send("POST", strings.ReplaceAll(wire.PathAccept, "{id}", a.AttemptID), p.group, wire.Accept{RunnerID: a.RunnerID, SandboxID: "sandbox"})
	require.Equal(p, http.StatusOK, status, "%s", answer)
	require.NoError(p, json.Unmarshal(answer, &a.session))
	return a
}

func (a *attempt) done(d wire.Done) {
	a.Helper()
	d.TofuVersion, d.TofuDigest = a.version, playedDigest
	a.mine("POST", wire.PathDone, d)
}

// applying plays a run until its tofu would apply.
func (p *player) applying() (run string, a *attempt) {
	p.Helper()
	run = p.apply("")
	plan := p.take()
	for kind, content := range map[string]string{wire.KindPlanJSON: `{"format_version":"1.2"}`, wire.KindPlanJSONRedacted: `{}`, wire.KindPlan: "a plan"} {
		plan.mine("PUT", strings.ReplaceAll(wire.PathArtifact, "{kind}", kind), []byte(content), wire.HeaderSHA256, digestOf(content))
	}
	plan.done(wire.Done{Outcome: wire.OutcomeFinished, ExitCode: 2, Plan: &wire.PlanSummary{HasChanges: true, Additions: 1}})
	a = p.take()
	a.mine("POST", wire.PathApplyStart, wire.ApplyStart{ManifestDigest: a.session.ManifestDigest, SandboxID: "sandbox", TofuDigest: playedDigest})
	return run, a
}

func stateFile(serial int64) string {
	return fmt.Sprintf(`{"version":4,"terraform_version":"1.12.6","serial":%d,"lineage":"one","outputs":{},"resources":[]}`, serial)
}

func digestOf(content string) string {
	sum := sha256.Sum256([]byte(content))
	return hex.EncodeToString(sum[:])
}

func (a *attempt) publish(serial int64) {
	a.Helper()
	content := stateFile(serial)
	sum := md5.Sum([]byte(content))
	announced := reply{201, a.mine("POST", "/api/v2/workspaces/"+a.workspace+"/state-versions", map[string]any{"data": map[string]any{"type": "state-versions", "attributes": map[string]any{
		"serial": serial, "lineage": "one", "md5": hex.EncodeToString(sum[:]),
	}}}, "Content-Type", "application/vnd.api+json")}.one(a.T, 201)
	status, _, answer := a.send("PUT", announced.Attributes["hosted-state-upload-url"].(string), "", []byte(content))
	require.Equal(a, http.StatusOK, status, "%s", answer)
}

func (a *attempt) handOver(serial int64) {
	a.Helper()
	content := stateFile(serial)
	status, _, answer := a.send("PUT", strings.ReplaceAll(wire.PathEmergencyState, "{id}", a.AttemptID), a.session.EmergencyCapability, []byte(content), wire.HeaderSHA256, digestOf(content))
	require.Equal(a, 2, status/100, "%s", answer)
}

// serial is that of the current state.
func (p *player) serial() int64 {
	p.Helper()
	answer := p.ask(shared.Address(), "GET", "/api/v2/workspaces/"+p.workspace+"/current-state-version", nil)
	if answer.status == http.StatusNotFound {
		return 0
	}
	return int64(answer.one(p.T, 200).Attributes["serial"].(float64))
}

// prepare plays a run that fails so that the resolution is the way out.
func (p *player) prepare(resolution string) (run string) {
	p.Helper()
	serial := p.serial()
	run, a := p.applying()
	if resolution != "import_emergency_state" {
		serial++
		a.publish(serial)
	}
	if resolution != "current_state_verified" {
		a.handOver(serial + 3)
	}
	a.done(wire.Done{Outcome: wire.OutcomeErrored, ExitCode: 1, TofuStarted: true, ErroredState: resolution != "current_state_verified"})
	p.held(run, "apply_failed")
	return run
}
