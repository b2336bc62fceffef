package runnerapi

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/runnerapi/wire"
	"github.com/holdfast-run/holdfast/runs"
)

// A state that tofu could not publish is taken under its own capability, also when the
// attempt and its session have ended.
func TestAnEmergencyState(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := w.run().ID
	planning := w.assigned(run).accept()
	assert.Empty(t, planning.session.EmergencyCapability)
	planning.plan()
	require.NoError(t, w.runs.Confirm(ctx, w.owner, run, runs.Decision{}))
	e := w.assigned(run).accept()
	assert.Equal(t, e.session.ExpiresAt.Add(time.Hour), e.session.EmergencyExpiresAt)
	e.start().want(http.StatusOK)
	content := []byte(`{"version":4,"serial":2,"lineage":"` + lineage + `","outputs":{},"resources":[]}`)
	give := func(token, attempt string, body []byte, digest string) answer {
		t.Helper()
		return w.call(http.MethodPut, at(wire.PathEmergencyState, attempt), token, body, wire.HeaderSHA256, digest)
	}
	capability := e.session.EmergencyCapability
	give(e.session.Token, e.AttemptID, content, sha(content)).refused(http.StatusUnauthorized, "unauthenticated")
	give("", e.AttemptID, content, sha(content)).refused(http.StatusUnauthorized, "unauthenticated")
	give(capability, planning.AttemptID, content, sha(content)).refused(http.StatusNotFound, "not_found")
	give(capability, "nothing", content, sha(content)).refused(http.StatusNotFound, "not_found")
	give(capability, e.AttemptID, content, sha(content[1:])).refused(http.StatusUnprocessableEntity, "digest_mismatch")
	e.call(http.MethodGet, at(wire.PathStatus, e.AttemptID), capability, nil).refused(http.StatusUnauthorized, "unauthenticated")

	kept := into[wire.EmergencyKept](give(capability, e.AttemptID, content, sha(content)))
	assert.Equal(t, []any{sha(content), int64(len(content))}, []any{kept.SHA256, kept.Size})
	assert.Equal(t, kept, into[wire.EmergencyKept](give(capability, e.AttemptID, content, sha(content))))
	e.done(wire.Done{Outcome: wire.OutcomeErrored, ExitCode: 1, TofuStarted: true, ErroredState: true}).want(http.StatusNoContent)
	w.wantStatus(run, runs.ApplyFailed)
	assert.Equal(t, kept, into[wire.EmergencyKept](give(capability, e.AttemptID, content, sha(content))), "the attempt has ended")
	w.exec("update attempts set token_expires_at = clock_timestamp() - interval '61 minutes' where id = @id", postgres.Args{"id": e.AttemptID})
	give(capability, e.AttemptID, content, sha(content)).refused(http.StatusUnauthorized, "capability_expired")
}
