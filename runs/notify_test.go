package runs

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/notifications"
	"github.com/holdfast-run/holdfast/outbound"
	"github.com/holdfast-run/holdfast/postgres"
)

// subscribe makes a configuration with all triggers of runs, whose receiver is never called here.
func (w *world) subscribe(ws ids.Workspace) {
	w.Helper()
	settings := notifications.Defaults()
	told := notifications.New(w.db, w.runs.objects, outbound.New(outbound.Settings{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}), settings)
	id, err := told.Create(ctx, w.owner, notifications.Subscribable{Workspace: ws}, notifications.Changes{
		Name: ptr("hook"), Destination: ptr(notifications.Generic), URL: ptr("http://127.0.0.1:9/"),
		Triggers: &[]string{"run:created", "run:planning", "run:needs_attention", "run:applying", "run:completed", "run:errored"},
	})
	require.NoError(w, err)
	w.enable(id.ID)
}

// enable skips the verification, which would call the receiver.
func (w *world) enable(id ids.NotificationConfiguration) {
	w.Helper()
	require.NoError(w, postgres.InTx(ctx, w.db, "test", func(tx postgres.Tx) error {
		_, err := postgres.Exec(ctx, tx, "update notification_configurations set enabled = true where id = @id", postgres.Args{"id": id})
		return err
	}))
}

// told are the steps of a run that somebody is told of, as trigger and status, in the order of the outbox.
func (w *world) told(run ids.Run) (steps []string) {
	w.Helper()
	require.NoError(w, postgres.InSnapshot(ctx, w.db, "test", func(tx postgres.Tx) (err error) {
		steps, err = postgres.Values[string](ctx, tx, `select d.trigger || ' ' || h.to_status from notification_deliveries d
			join run_history h on h.run_id = d.run_id and h.position = d.position where d.run_id = @run order by d.id`, postgres.Args{"run": run})
		return err
	}))
	return steps
}

// TestAStepIsToldInItsTransaction: every step that has a trigger leaves a line in the outbox, and one that is
// undone leaves none (EV-08).
func TestAStepIsToldInItsTransaction(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspace()
	w.subscribe(ws)
	d := w.run(ws)
	assert.Equal(t, []string{"run:created queued"}, w.told(d.ID))
	undone := errors.New("undone")
	require.ErrorIs(t, postgres.InTx(ctx, w.db, "test", func(tx postgres.Tx) error {
		r, _, err := lock(ctx, tx, d.ID)
		require.NoError(t, err)
		require.NoError(t, step(ctx, tx, &r, move{To: Canceled, Actor: system}))
		return undone
	}), undone)
	assert.Equal(t, []string{"run:created queued"}, w.told(d.ID))

	e := w.take(d.ID)
	e.plan(true)
	assert.Equal(t, []string{"run:created queued", "run:planning planning", "run:needs_attention awaiting_approval"}, w.told(d.ID))
	require.NoError(t, w.runs.Confirm(ctx, w.owner, d.ID, Decision{}))
	w.take(d.ID).apply(1)
	assert.Equal(t, []string{"run:created queued", "run:planning planning", "run:needs_attention awaiting_approval", "run:applying applying", "run:completed succeeded"}, w.told(d.ID))

	t.Log("cancellation and requeue (EV-02, EV-03)")
	d = w.run(ws)
	require.NoError(t, w.runs.Cancel(ctx, w.owner, d.ID, "wrong"))
	_, err := w.runs.Requeue(ctx, w.owner, d.ID)
	require.NoError(t, err)
	assert.Equal(t, []string{"run:created queued", "run:errored canceled", "run:created queued"}, w.told(d.ID))

	other := w.run(w.workspace())
	assert.Empty(t, w.told(other.ID), "nobody asks about its workspace")
}
