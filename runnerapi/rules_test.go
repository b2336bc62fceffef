package runnerapi

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/clock"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/runnerapi/wire"
	"github.com/holdfast-run/holdfast/runs"
)

// The rules of an offer and its acceptance, one by one, as the rows of the database show them.

func (w *world) attemptIs(run ids.Run) string {
	w.Helper()
	return value[string](w, "select status from attempts where run_id = @run order by created_at desc limit 1", postgres.Args{"run": run})
}

// RP-03
func TestAPollMakesARunnerThatIsNotReady(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.assigned(w.run().ID)
	status := func() string {
		return value[string](w, "select status from runners where id = @id", postgres.Args{"id": e.RunnerID})
	}
	assert.Equal(t, "not_ready", status())
	e.ready().want(http.StatusNoContent)
	assert.Equal(t, "ready", status())
}

// RP-04
func TestAPollAssignsTheAttemptToItsRunner(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := w.run().ID
	assert.Equal(t, "pending", w.attemptIs(run))
	e := w.assigned(run)
	assert.Equal(t, "assigned", w.attemptIs(run))
	assert.Equal(t, e.RunnerID, value[string](w, "select runner_id from attempts where id = @id", postgres.Args{"id": e.AttemptID}))
	w.poll(0).want(http.StatusNoContent)
}

// RP-05
func TestAnOfferHasAnEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.assigned(w.run().ID)
	stored := value[time.Time](w, "select assignment_expires_at from attempts where id = @id", postgres.Args{"id": e.AttemptID})
	assert.True(t, stored.Equal(e.ExpiresAt))
	assert.WithinRange(t, e.ExpiresAt, clock.Now(), clock.Now().Add(runs.Defaults().AssignmentExpiry))
	in := hello(0)
	in.RunnerID = e.RunnerID
	again := into[wire.Assignment](w.call(http.MethodPost, wire.PathPoll, w.group, in))
	assert.Equal(t, e.Assignment, again, "a lost answer, asked for again, puts the end no further off")
}

// RP-06
func TestAnOfferChangesNothingAboutTheRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := w.run().ID
	history := func() int {
		return value[int](w, "select count(*)::int from run_history where run_id = @run", postgres.Args{"run": run})
	}
	before := history()
	e := w.assigned(run)
	e.ready().want(http.StatusNoContent)
	w.wantStatus(run, runs.Queued)
	assert.Equal(t, before, history())
}

// RP-08
func TestCredentialsComeWithAcceptAndNotBefore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.assigned(w.run().ID)
	made := func() bool {
		return value[bool](w, "select token_expires_at is not null or manifest is not null or sandbox_id <> '' from attempts where id = @id", postgres.Args{"id": e.AttemptID})
	}
	e.ready().want(http.StatusNoContent)
	assert.False(t, made())
	e.accept()
	assert.True(t, made())
	assert.True(t, e.session.ExpiresAt.After(clock.Now()))
	e.mine(http.MethodGet, wire.PathStatus, nil).want(http.StatusOK)
}

// RP-09
func TestAcceptBeginsThePlanAndOnlyApplyStartTheApply(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := w.run().ID
	plan := w.assigned(run).accept()
	assert.Equal(t, "running", w.attemptIs(run))
	w.wantStatus(run, runs.Planning)
	plan.plan()
	require.NoError(t, w.runs.Confirm(ctx, w.owner, run, runs.Decision{}))
	apply := w.assigned(run).accept()
	assert.Equal(t, "running", w.attemptIs(run))
	w.wantStatus(run, runs.AwaitingApproval)
	apply.start().want(http.StatusOK)
	w.wantStatus(run, runs.Applying)
}

// RP-13
func TestARunnerThatDeregistersIsGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := w.run().ID
	e := w.assigned(run).accept()
	e.plan()
	there := func() bool {
		return value[bool](w, "select exists (select from runners where id = @id)", postgres.Args{"id": e.RunnerID})
	}
	assert.True(t, there(), "done alone is no farewell")
	w.call(http.MethodDelete, at(wire.PathDeregister, e.RunnerID), w.group, nil).want(http.StatusNoContent)
	assert.False(t, there())
	w.call(http.MethodPost, at(wire.PathReady, e.RunnerID), w.group, nil).refused(http.StatusNotFound, "not_found")
	assert.Equal(t, "finished", w.attemptIs(run), "what it did stays")
}

// RP-19
func TestTheStatesOfAnAttempt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := w.run().ID
	assert.Equal(t, "pending", w.attemptIs(run))
	e := w.assigned(run)
	assert.Equal(t, "assigned", w.attemptIs(run))
	e.done(planned()).refused(http.StatusUnauthorized, "unauthenticated")
	e.accept()
	assert.Equal(t, "running", w.attemptIs(run))
	e.plan()
	assert.Equal(t, "finished", w.attemptIs(run))
	e.tryAccept().refused(http.StatusConflict, "assignment_lost")
	assert.Equal(t, "finished", w.attemptIs(run))
}

// AU-21, RP-01
func TestAnOfferIsNoCredential(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.run()
	offer := w.poll(0).want(http.StatusOK)
	var members map[string]any
	require.NoError(t, json.Unmarshal(offer.body, &members))
	assert.ElementsMatch(t, []string{"runner_id", "attempt_id", "run_id", "phase", "expires_at", "protocol_version", "organization_id"}, slices.Collect(maps.Keys(members)))
	assert.Zero(t, value[int](w, "select count(*)::int from attempt_sessions", nil), "none was minted")
	assert.NotContains(t, string(offer.body), "hfa_")
	assert.NotContains(t, string(offer.body), "hfb_")
}

// ST-06
func TestNoArtifactIsAState(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := w.run().ID
	w.assigned(run).accept().plan()
	require.NoError(t, w.runs.Confirm(ctx, w.owner, run, runs.Decision{}))
	apply := w.assigned(run).accept()
	assert.Empty(t, apply.manifest.Outputs, "an apply hands nothing over")
	apply.start().want(http.StatusOK)
	for _, kind := range []string{"state", "outputs", "terraform.tfstate", wire.KindPlan} {
		apply.put(kind, "{}").refused(http.StatusNotFound, "not_found")
	}
	assert.Zero(t, value[int](w, "select count(*)::int from attempt_artifacts where attempt_id = @id", postgres.Args{"id": apply.AttemptID}))
}
