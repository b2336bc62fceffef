package chaos

import (
	"bytes"
	"crypto/md5"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-tfe"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/runnerapi/wire"
)

// playedTofu is the version that played runners say they have: that of the real one, because
// `holdfast dev` has shown it to the server. No tofu is run by them.
var playedTofu = sync.OnceValue(func() string {
	cmd := exec.Command(bin("tofu"), "version", "-json")
	cmd.Env = append(plainEnviron(), "CHECKPOINT_DISABLE=1")
	out, err := cmd.Output()
	var told struct {
		Version string `json:"terraform_version"`
	}
	if err != nil || json.Unmarshal(out, &told) != nil {
		panic(fmt.Sprintf("tofu does not tell its version: %v", err))
	}
	return told.Version
})

// player is a runner that the test plays: it says over HTTP what a runner would, when the test
// wants it to. Like a runner it repeats what got no answer.
type player struct {
	*testing.T
	*stack
	token string // of the runner group
	id    string
}

func newPlayer(t *testing.T, s *stack) *player {
	t.Helper()
	token, err := readTrimmed(s.tokenFile())
	require.NoError(t, err)
	p := &player{T: t, stack: s, token: token}
	require.Nil(t, p.poll(), "nothing to do yet, but now the version is known")
	return p
}

// call repeats a request until a server answers it for good, and gives status and body.
func (p *player) call(method, path, token string, body any, headers ...string) (status int, header http.Header, answer []byte) {
	p.Helper()
	raw, ok := body.([]byte)
	if !ok && body != nil {
		var err error
		raw, err = json.Marshal(body)
		require.NoError(p, err)
	}
	require.NoError(p, await("an answer to "+method+" "+path, func() bool {
		request, err := http.NewRequestWithContext(ctx, method, p.proxy.calm()+path, bytes.NewReader(raw))
		require.NoError(p, err)
		request.Header.Set("Authorization", "Bearer "+token)
		for i := 0; i < len(headers); i += 2 {
			request.Header.Set(headers[i], headers[i+1])
		}
		response, err := p.client(time.Minute).Do(request)
		if err != nil {
			return false
		}
		defer response.Body.Close()
		answer, err = io.ReadAll(response.Body)
		status, header = response.StatusCode, response.Header
		return err == nil && status < 500
	}))
	return status, header, answer
}

// poll asks for work once.
func (p *player) poll() *attempt {
	p.Helper()
	a := &attempt{player: p, sandbox: "sandbox-" + randomText(8)}
	status, header, answer := p.call(http.MethodPost, wire.PathPoll, p.token, wire.Poll{
		ProtocolVersion: wire.Version, RunnerName: "player", RunnerID: p.id, TofuVersions: []string{playedTofu()},
	})
	if status == http.StatusNoContent {
		p.id = header.Get(wire.HeaderRunner)
		return nil
	}
	require.Equal(p, http.StatusOK, status, "%s", answer)
	require.NoError(p, json.Unmarshal(answer, &a.Assignment))
	p.id = a.RunnerID
	return a
}

// next waits for work.
func (p *player) next() (a *attempt) {
	p.Helper()
	require.NoError(p, await("work", func() bool { a = p.poll(); return a != nil }))
	return a
}

// attempt is an execution that the test plays.
type attempt struct {
	*player
	wire.Assignment
	session wire.Session
	sandbox string
	logged  int64
}

func at(template, id string) string { return strings.ReplaceAll(template, "{id}", id) }

func (a *attempt) accept() *attempt {
	a.Helper()
	status, _, answer := a.call(http.MethodPost, at(wire.PathReady, a.RunnerID), a.token, nil)
	require.Equal(a, http.StatusNoContent, status, "%s", answer)
	status, _, answer = a.call(http.MethodPost, at(wire.PathAccept, a.AttemptID), a.token, wire.Accept{RunnerID: a.RunnerID, SandboxID: a.sandbox})
	require.Equal(a, http.StatusOK, status, "%s", answer)
	require.NoError(a, json.Unmarshal(answer, &a.session))
	return a
}

// mine makes a call of the attempt's session, which must be answered 2xx.
func (a *attempt) mine(method, path string, body any, headers ...string) []byte {
	a.Helper()
	status, _, answer := a.call(method, at(path, a.AttemptID), a.session.Token, body, headers...)
	require.Equal(a, 2, status/100, "%s %s: %d %s", method, path, status, answer)
	return answer
}

func (a *attempt) log(text string) {
	a.Helper()
	var position wire.LogPosition
	answer := a.mine(http.MethodPost, wire.PathLogs, []byte(text), wire.HeaderOffset, fmt.Sprint(a.logged), wire.HeaderSHA256, digest([]byte(text)))
	require.NoError(a, json.Unmarshal(answer, &position))
	a.logged = position.Next
}

func digest(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// planned reports a finished plan, with changes or without.
func (a *attempt) planned(changes bool) {
	a.Helper()
	for kind, content := range map[string]string{wire.KindPlanJSON: `{"format_version":"1.2"}`, wire.KindPlan: "a plan"} {
		a.mine(http.MethodPut, strings.ReplaceAll(wire.PathArtifact, "{kind}", kind), []byte(content), wire.HeaderSHA256, digest([]byte(content)))
	}
	done := wire.Done{Outcome: wire.OutcomeFinished, Plan: &wire.PlanSummary{HasChanges: changes}}
	if changes {
		done.ExitCode, done.Plan.Additions = 2, 1
	}
	a.done(done)
}

func (a *attempt) done(d wire.Done) {
	a.Helper()
	d.TofuVersion, d.TofuDigest, d.LogSize = playedTofu(), digest([]byte("a tofu")), a.logged
	a.mine(http.MethodPost, wire.PathDone, d)
}

func (a *attempt) applyStart() {
	a.Helper()
	a.mine(http.MethodPost, wire.PathApplyStart, wire.ApplyStart{ManifestDigest: a.session.ManifestDigest, SandboxID: a.sandbox, TofuDigest: digest([]byte("a tofu"))})
}

// publish sends state as tofu does while it applies.
func (a *attempt) publish(workspace string, serial int64, lineage string) {
	a.Helper()
	api, err := tfe.NewClient(&tfe.Config{Address: a.proxy.calm(), Token: a.session.Token, HTTPClient: a.client(time.Minute), RetryServerErrors: true})
	require.NoError(a, err)
	content := fmt.Sprintf(`{"version":4,"terraform_version":%q,"serial":%d,"lineage":%q,"outputs":{},"resources":[]}`, playedTofu(), serial, lineage)
	sum := md5.Sum([]byte(content))
	_, err = api.StateVersions.Upload(ctx, workspace, tfe.StateVersionUploadOptions{
		StateVersionCreateOptions: tfe.StateVersionCreateOptions{Lineage: &lineage, MD5: tfe.String(hex.EncodeToString(sum[:])), Serial: &serial},
		RawState:                  []byte(content),
	})
	require.NoError(a, err)
}

// applied confirms the state and reports success.
func (a *attempt) applied() {
	a.Helper()
	var confirmed wire.StateConfirmed
	require.NoError(a, json.Unmarshal(a.mine(http.MethodPost, wire.PathStateConfirmation, wire.StateConfirmation{SandboxID: a.sandbox}), &confirmed))
	a.done(wire.Done{Outcome: wire.OutcomeFinished, TofuStarted: true, Confirmed: &confirmed})
}
