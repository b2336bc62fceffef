package notifications

import (
	"context"
	"crypto/hmac"
	"crypto/sha512"
	"encoding/hex"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/workspaces"
)

var walk = []string{"run.created", "run.planning", "run.approval_pending"}

func TestWhatIsSentIsSigned(t *testing.T) {
	w := newWorld(t)
	c := w.subscribed()
	run := w.run()
	w.step(run, "dispatch_pending", "queued")
	require.Equal(t, 1, w.deliver())
	got := <-w.receiver.arrived
	mac := hmac.New(sha512.New, []byte("the key"))
	mac.Write(got.raw)
	assert.Equal(t, hex.EncodeToString(mac.Sum(nil)), got.signature)
	assert.Equal(t, received{event: "run.created", run: string(run), url: "https://tofu.test/app/acme/shop/runs/" + string(run), by: "ada", signature: got.signature, raw: got.raw}, got)
	assert.Equal(t, []string{"delivered verification", "delivered run:created"}, w.log(c.ID))

	t.Log("without a key there is no signature")
	_, err := w.Update(t.Context(), w.ada, c.ID, Changes{Token: ptr("")})
	require.NoError(t, err)
	assert.Empty(t, (<-w.receiver.arrived).signature)
}

// TestOrder: of one run nothing is told before what came before it; another run does not wait for that.
func TestOrder(t *testing.T) {
	w := newWorld(t, func(s *Settings) { s.Pauses = []time.Duration{time.Hour} })
	w.subscribed()
	first, second := w.run(), w.run()
	w.receiver.answer("busy", http.StatusServiceUnavailable, http.StatusOK)
	w.step(first, "dispatch_pending", "queued")
	require.Equal(t, 1, w.deliver())
	w.step(first, "queued", "planning")
	w.planned(second)
	require.Equal(t, 3, w.deliver())
	assert.Equal(t, append([]string{"run.created"}, walk...), w.receiver.events(), "the first run waits, the second does not")

	w.inTx(func(ctx context.Context, tx postgres.Tx) error {
		_, err := postgres.Exec(ctx, tx, "update notification_deliveries set due_at = clock_timestamp() where status = 'pending'", nil)
		return err
	})
	require.Equal(t, 2, w.deliver())
	assert.Equal(t, []string{"run.created", "run.planning"}, w.receiver.events(), "tried again, and then the next")
}

func TestWhoIsTold(t *testing.T) {
	w := newWorld(t)
	w.subscribed(func(ch *Changes) { ch.Triggers = &[]string{"run:planning"} })
	w.subscribed(func(ch *Changes) { ch.Triggers = &[]string{} })
	_, err := w.Create(t.Context(), w.ada, Subscribable{Project: w.project}, w.generic(func(ch *Changes) { ch.Triggers = &[]string{"run:needs_attention"} }))
	require.NoError(t, err)
	elsewhere, err := w.spaces.Create(t.Context(), w.ada, "acme", workspaces.NewWorkspace{Name: "other"})
	require.NoError(t, err)
	_, err = w.Create(t.Context(), w.ada, Subscribable{Workspace: elsewhere.ID}, w.generic())
	require.NoError(t, err)
	w.subscribed(func(ch *Changes) { ch.Enabled = ptr(false) })
	w.planned(w.run())
	w.deliver()
	assert.Equal(t, []string{"run.planning", "run.approval_pending"}, w.receiver.events())
}

// TestAtLeastOnce: a server that dies between the call and its note leaves a delivery that is sent once more.
func TestAtLeastOnce(t *testing.T) {
	w := newWorld(t)
	c := w.subscribed()
	w.step(w.run(), "dispatch_pending", "queued")
	claimed, err := w.claims(t.Context(), 10)
	require.NoError(t, err)
	require.Len(t, claimed, 1)
	require.Zero(t, w.deliver(), "it is leased to the server that dies")
	w.inTx(func(ctx context.Context, tx postgres.Tx) error {
		e, _, err := w.event(ctx, tx, c, claimed[0].ID)
		require.True(t, w.send(ctx, c, e, nil).OK) // and here it dies
		return err
	})
	require.Equal(t, []string{"run.created"}, w.receiver.events())
	w.inTx(func(ctx context.Context, tx postgres.Tx) error {
		_, err := postgres.Exec(ctx, tx, "update notification_deliveries set leased_until = clock_timestamp()", nil)
		return err
	})
	require.Equal(t, 1, w.deliver())
	assert.Equal(t, []string{"run.created"}, w.receiver.events())
	assert.Equal(t, []string{"delivered verification", "delivered run:created"}, w.log(c.ID))

	t.Log("the dead one was only slow: it changes nothing any more")
	w.settings.Pauses = nil
	require.NoError(t, w.settle(t.Context(), claimed[0], c, Response{Code: 500}))
	assert.Equal(t, []string{"delivered verification", "delivered run:created"}, w.log(c.ID))
}

// TestAReceiverThatIsDead: tried again, given up, and disabled with a note in the end; enabling it begins anew.
func TestAReceiverThatIsDead(t *testing.T) {
	w := newWorld(t, atOnce(2), func(s *Settings) { s.MostGivenUp = 2 })
	c := w.subscribed()
	w.receiver.answer("dead", http.StatusBadGateway)
	w.planned(w.run())
	w.planned(w.run())
	w.deliver()
	got := w.receiver.events()
	assert.Len(t, got, 6, "two deliveries, each three times")
	assert.Equal(t, []string{
		"delivered verification", "failed run:created", "failed run:planning", "dropped run:needs_attention", "dropped run:created", "dropped run:planning", "dropped run:needs_attention",
	}, w.log(c.ID))
	c, err := w.Get(t.Context(), w.ada, c.ID)
	require.NoError(t, err)
	assert.False(t, c.Enabled)
	assert.Contains(t, c.DisabledReason, "has not answered")
	assert.Equal(t, 1, w.value("select count(*) from audit_entries where action = 'notification-configuration.disabled' and actor_kind = 'system'", nil))
	w.planned(w.run())
	assert.Zero(t, w.deliver(), "nothing is written for it any more")

	w.receiver.answer("back", http.StatusOK)
	c, err = w.Update(t.Context(), w.ada, c.ID, Changes{Enabled: ptr(true)})
	require.NoError(t, err)
	assert.Empty(t, c.DisabledReason)
	w.receiver.events()
	w.planned(w.run())
	w.deliver()
	assert.Equal(t, walk, w.receiver.events())
}

func TestOneSuccessForgetsTheFailures(t *testing.T) {
	w := newWorld(t, atOnce(0), func(s *Settings) { s.MostGivenUp = 2 })
	c := w.subscribed()
	w.receiver.answer("so so", 500, 200, 500, 200)
	for range 4 {
		w.step(w.run(), "dispatch_pending", "queued")
		w.deliver()
	}
	c, err := w.Get(t.Context(), w.ada, c.ID)
	require.NoError(t, err)
	assert.True(t, c.Enabled)
	assert.Len(t, w.receiver.events(), 4)
}

func TestWhatIsDisabledIsNotTold(t *testing.T) {
	w := newWorld(t)
	c := w.subscribed()
	w.planned(w.run())
	claimed, err := w.claims(t.Context(), 1)
	require.NoError(t, err)
	_, err = w.Update(t.Context(), w.ada, c.ID, Changes{Enabled: ptr(false)})
	require.NoError(t, err)
	require.NoError(t, w.deliver1(claimed[0]))
	assert.Zero(t, w.deliver())
	assert.Empty(t, w.receiver.events())
	assert.Equal(t, []string{"delivered verification", "dropped run:created", "dropped run:planning", "dropped run:needs_attention"}, w.log(c.ID))
}

func (w *world) deliver1(cl claim) error { return w.Service.deliver(w.Context(), cl) }

// TestNobodyIsCalledToWhatIsOver: a run that was approved by itself waited for nobody.
func TestNobodyIsCalledToWhatIsOver(t *testing.T) {
	w := newWorld(t)
	w.subscribed()
	run := w.run()
	w.planned(run)
	w.inTx(func(ctx context.Context, tx postgres.Tx) error {
		_, err := postgres.Exec(ctx, tx, `insert into approvals (run_id, reviewer_id, requester_id, decision, source, plan_digest, configuration_digest, lock_file_digest, policy_result_digest, binding_digest)
			values (@run, @user, @user, 'approved', 'auto-apply', '', '', '', '', 'd')`, postgres.Args{"run": run, "user": w.ada.User})
		return err
	})
	w.step(run, "awaiting_approval", "applying")
	w.deliver()
	assert.Equal(t, []string{"run.created", "run.planning", "run.applying"}, w.receiver.events())
}

func TestTheLogKeepsTheBeginningOfAnAnswer(t *testing.T) {
	w := newWorld(t, atOnce(0))
	c := w.subscribed()
	w.receiver.answer("a\x00b\xff"+strings.Repeat("ü", 5000), http.StatusTeapot)
	w.step(w.run(), "dispatch_pending", "queued")
	w.deliver()
	list, total, err := w.Deliveries(t.Context(), w.ada, c.ID, accounts.Page{Size: 1})
	require.NoError(t, err)
	assert.Equal(t, 2, total)
	require.Len(t, list, 1)
	assert.Equal(t, http.StatusTeapot, list[0].Code)
	assert.True(t, strings.HasPrefix(list[0].Answer, "abüü"))
	assert.LessOrEqual(t, len(list[0].Answer), 1024)
	assert.Greater(t, len(list[0].Answer), 1000)
	assert.NotNil(t, list[0].EndedAt)

	t.Log("the log forgets")
	require.NoError(t, w.Forget(t.Context()))
	assert.Len(t, w.log(c.ID), 2)
	w.settings.Keep = 0
	require.NoError(t, w.Forget(t.Context()))
	assert.Empty(t, w.log(c.ID))
}

// TestTheLoopIsWoken: by the commit, not by its interval; and it ends when it is told to.
func TestTheLoopIsWoken(t *testing.T) {
	w := newWorld(t)
	w.subscribed()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	wake := postgres.Listen(ctx, w.db, Channel)
	go func() {
		defer close(ended)
		w.Service.Run(ctx, wake, time.Hour)
	}()
	w.planned(w.run())
	for _, event := range walk {
		select {
		case got := <-w.receiver.arrived:
			assert.Equal(t, event, got.event)
		case <-time.After(30 * time.Second):
			require.Fail(t, "nobody was told", event)
		}
	}
	stop()
	select {
	case <-ended:
	case <-time.After(30 * time.Second):
		require.Fail(t, "the loop does not end")
	}
}
