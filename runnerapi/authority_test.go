package runnerapi

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/gates"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/runnerapi/wire"
	"github.com/holdfast-run/holdfast/runs"
)

// TestASessionIsRedeemed: accept gives a capability, and bootstrap the session for it,
// to the byte the same as often as the answer is lost.
func TestASessionIsRedeemed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.assigned(w.run().ID)
	e.ready().want(http.StatusNoContent)
	accept := wire.Accept{RunnerID: e.RunnerID, SandboxID: e.sandbox, Bootstrap: true}
	accepted := e.call(http.MethodPost, at(wire.PathAccept, e.AttemptID), e.group, accept).want(http.StatusOK)
	assert.NotContains(t, string(accepted.body), "hfa_")
	assert.NotContains(t, string(accepted.body), "manifest")
	assert.Equal(t, accepted.body, e.call(http.MethodPost, at(wire.PathAccept, e.AttemptID), e.group, accept).body)
	capability := into[wire.Session](accepted).BootstrapCapability
	redeem := func(capability string, in wire.Bootstrap) answer {
		return e.call(http.MethodPost, at(wire.PathBootstrap, e.AttemptID), capability, in)
	}
	good := wire.Bootstrap{RunnerID: e.RunnerID, Phase: e.Phase, SandboxID: e.sandbox}
	another, applying, stranger := good, good, good
	another.SandboxID, applying.Phase, stranger.RunnerID = "elsewhere", "apply", "agent-1111111111111111"

	e.call(http.MethodGet, at(wire.PathStatus, e.AttemptID), capability, nil).refused(http.StatusUnauthorized, "unauthenticated")
	redeem(w.group, good).refused(http.StatusUnauthorized, "unauthenticated")
	redeem(capability+"A", good).refused(http.StatusUnauthorized, "unauthenticated")
	for _, bad := range []wire.Bootstrap{another, applying, stranger, {}} {
		redeem(capability, bad).refused(http.StatusForbidden, "capability_mismatch")
	}
	e.call(http.MethodPost, at(wire.PathBootstrap, "att-1111111111111111"), capability, good).refused(http.StatusForbidden, "capability_mismatch")
	first := redeem(capability, good).want(http.StatusOK)
	assert.Equal(t, first.body, redeem(capability, good).want(http.StatusOK).body)
	for _, bad := range []wire.Bootstrap{another, applying, stranger, {}} {
		redeem(capability, bad).refused(http.StatusConflict, "capability_replayed")
	}
	e.session = into[wire.Session](first)
	redeem(e.session.Token, good).refused(http.StatusUnauthorized, "unauthenticated")
	e.mine(http.MethodGet, wire.PathStatus, nil).want(http.StatusOK)

	w.exec("update attempt_sessions set bootstrap_expires_at = clock_timestamp() where attempt_id = @id", postgres.Args{"id": e.AttemptID})
	redeem(capability, good).refused(http.StatusUnauthorized, "capability_expired")
	assert.NotContains(t, w.log.String(), "hfb_", "a credential in the log")
}

// TestARunnerNamesItsRelease: one that stands in no allow-list gets nothing, and what
// planned is bound to the run.
func TestARunnerNamesItsRelease(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	release := wire.Release{Version: "1.0", Digest: strings.Repeat("ab", 32)}
	_, err := gates.New(w.db).SetReleases(ctx, authz.System(), gates.Runner, []gates.Release{{Version: release.Version, Digest: release.Digest}})
	require.NoError(t, err)
	run := w.run().ID
	w.poll(0).refused(http.StatusConflict, "release_not_allowed")
	named := hello(0)
	named.Release = release
	offer := into[wire.Assignment](w.call(http.MethodPost, wire.PathPoll, w.group, named))
	e := &executor{world: w, Assignment: offer, sandbox: "sandbox-1"}
	e.ready().want(http.StatusNoContent)
	e.tryAccept().refused(http.StatusConflict, "release_not_allowed")

	offer = into[wire.Assignment](w.call(http.MethodPost, wire.PathPoll, w.group, named))
	e = &executor{world: w, Assignment: offer, sandbox: "sandbox-1"}
	e.ready().want(http.StatusNoContent)
	accept := wire.Accept{RunnerID: e.RunnerID, SandboxID: e.sandbox, Release: release}
	w.call(http.MethodPost, at(wire.PathAccept, e.AttemptID), w.group, accept).want(http.StatusOK)
	d := w.wantStatus(run, runs.Planning)
	assert.Equal(t, []string{release.Version, release.Digest}, []string{d.RunnerVersion, d.RunnerDigest})

	named.Release.Version = strings.Repeat("x", 201)
	w.call(http.MethodPost, wire.PathPoll, w.group, named).refused(http.StatusUnprocessableEntity, "runner_text")
	accept.Release.Digest = "a\x00"
	w.call(http.MethodPost, at(wire.PathAccept, e.AttemptID), w.group, accept).refused(http.StatusUnprocessableEntity, "runner_text")
}
