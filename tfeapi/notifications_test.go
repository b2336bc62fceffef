package tfeapi

import (
	"crypto/hmac"
	"crypto/sha512"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/hashicorp/go-tfe"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/notifications"
)

// sink is a receiver on this machine. It keeps what it gets and answers with status.
type sink struct {
	url    string
	status int
	bodies chan []byte
	signs  chan string
}

func newSink(t *testing.T) *sink {
	t.Helper()
	s := &sink{status: http.StatusOK, bodies: make(chan []byte, 50), signs: make(chan string, 50)}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.bodies <- body
		s.signs <- r.Header.Get("X-TFE-Notification-Signature")
		w.WriteHeader(s.status)
		_, _ = io.WriteString(w, "seen")
	}))
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

func notificationOptions(url string, enabled bool, triggers ...tfe.NotificationTriggerType) tfe.NotificationConfigurationCreateOptions {
	return tfe.NotificationConfigurationCreateOptions{
		DestinationType: tfe.NotificationDestination(tfe.NotificationDestinationTypeGeneric), Enabled: &enabled, Name: tfe.String("hook"), Token: tfe.String("the key"), URL: &url, Triggers: triggers,
	}
}

func TestClientNotificationConfigurations(t *testing.T) {
	w := newWorld(t)
	ctx, api, hook := t.Context(), w.client.NotificationConfigurations, newSink(t)
	ws := w.workspace("shop")
	one, err := api.Create(ctx, ws.ID, notificationOptions(hook.url, false, tfe.NotificationTriggerCreated))
	require.NoError(t, err)
	two, err := api.Create(ctx, ws.ID, notificationOptions("http://example.com", false, tfe.NotificationTriggerAssessmentDrifted))
	require.NoError(t, err)
	assert.Empty(t, one.Token, "it is never shown")
	assert.Equal(t, hook.url, one.URL)
	assert.Equal(t, ws.ID, one.Subscribable.ID)
	assert.Empty(t, hook.bodies, "one that is disabled is not called")

	list, err := api.List(ctx, ws.ID, nil)
	require.NoError(t, err)
	assert.Contains(t, list.Items, one)
	assert.Contains(t, list.Items, two)
	assert.Zero(t, list.TotalCount, "who asks for no page is told of none")
	list, err = api.List(ctx, ws.ID, &tfe.NotificationConfigurationListOptions{ListOptions: tfe.ListOptions{PageNumber: 999, PageSize: 100}})
	require.NoError(t, err)
	assert.Empty(t, list.Items)
	assert.Equal(t, []int{999, 2}, []int{list.CurrentPage, list.TotalCount})

	read, err := api.Read(ctx, one.ID)
	require.NoError(t, err)
	assert.Equal(t, one, read)
	read, err = api.Update(ctx, one.ID, tfe.NotificationConfigurationUpdateOptions{Enabled: tfe.Bool(true), Name: tfe.String("new")})
	require.NoError(t, err)
	assert.True(t, read.Enabled)
	assert.Equal(t, "new", read.Name)
	require.Len(t, read.DeliveryResponses, 1)
	assert.Equal(t, []string{"seen", "200", "true"}, []string{read.DeliveryResponses[0].Body, read.DeliveryResponses[0].Code, read.DeliveryResponses[0].Successful})
	_, err = api.Verify(ctx, one.ID)
	require.NoError(t, err)
	assert.Len(t, hook.bodies, 2)
	_, err = api.Update(ctx, one.ID, tfe.NotificationConfigurationUpdateOptions{})
	require.NoError(t, err)

	require.NoError(t, api.Delete(ctx, one.ID))
	for _, id := range []string{one.ID, "nonexisting"} {
		_, err = api.Read(ctx, id)
		assert.Equal(t, tfe.ErrResourceNotFound, err)
		assert.Equal(t, tfe.ErrResourceNotFound, api.Delete(ctx, id))
		_, err = api.Verify(ctx, id)
		assert.Equal(t, tfe.ErrResourceNotFound, err)
		_, err = api.Update(ctx, id, tfe.NotificationConfigurationUpdateOptions{})
		assert.Equal(t, tfe.ErrResourceNotFound, err)
	}

	t.Log("email, without a mail server")
	email := notificationOptions("", false)
	email.DestinationType, email.URL, email.Token = tfe.NotificationDestination(tfe.NotificationDestinationTypeEmail), nil, nil
	mail, err := api.Create(ctx, ws.ID, email)
	require.NoError(t, err)
	_, err = api.Update(ctx, mail.ID, tfe.NotificationConfigurationUpdateOptions{Enabled: tfe.Bool(true)})
	assert.ErrorContains(t, err, "HOLDFAST_SMTP_URL")

	t.Log("of a project, and for whom it is not")
	project, err := w.client.Projects.Create(ctx, "acme", tfe.ProjectCreateOptions{Name: "Payments"})
	require.NoError(t, err)
	options := notificationOptions(hook.url, false)
	options.SubscribableChoice = &tfe.NotificationConfigurationSubscribableChoice{Project: project}
	three, err := api.Create(ctx, project.ID, options)
	require.NoError(t, err)
	assert.Equal(t, project.ID, three.SubscribableChoice.Project.ID)
	list, err = api.List(ctx, project.ID, &tfe.NotificationConfigurationListOptions{SubscribableChoice: options.SubscribableChoice})
	require.NoError(t, err)
	assert.Equal(t, []*tfe.NotificationConfiguration{three}, list.Items)
	_, err = w.as(w.bob).NotificationConfigurations.Create(ctx, ws.ID, notificationOptions(hook.url, false))
	assert.Error(t, err)
	_, err = w.as(w.bob).NotificationConfigurations.Read(ctx, two.ID)
	assert.Error(t, err)
}

// TestARunIsToldToItsReceiver: the message of Terraform Cloud, signed, from the API's request to the receiver.
func TestARunIsToldToItsReceiver(t *testing.T) {
	w := newWorld(t)
	ctx, hook := t.Context(), newSink(t)
	w.runner()
	ws := w.workspace("shop")
	nc, err := w.client.NotificationConfigurations.Create(ctx, ws.ID, notificationOptions(hook.url, true, tfe.NotificationTriggerCreated, tfe.NotificationTriggerErrored))
	require.NoError(t, err)
	assert.JSONEq(t, `{"payload_version": 1, "notification_configuration_id": "`+nc.ID+`", "run_url": null, "run_id": null, "run_message": null, "run_created_at": null, "run_created_by": null,
		"workspace_id": null, "workspace_name": null, "organization_name": null, "notifications": [{"message": "Verification of hook", "trigger": "verification", "run_status": null,
		"run_updated_at": null, "run_updated_by": null, "event": "verification", "durable_status": null}]}`, string(<-hook.bodies))
	<-hook.signs

	run := w.queue(ws, tfe.RunCreateOptions{Message: tfe.String("five queues")})
	require.NoError(t, w.client.Runs.Cancel(ctx, run.ID, tfe.RunCancelOptions{}))
	sent, err := w.deps.Notifications.Deliver(ctx)
	require.NoError(t, err)
	require.Equal(t, 2, sent)
	for _, want := range []struct{ message, trigger, status, event, durable string }{
		{"Run Created", "run:created", "pending", "run.created", "queued"}, {"Run Canceled", "run:errored", "canceled", "run.canceled", "canceled"},
	} {
		body := <-hook.bodies
		mac := hmac.New(sha512.New, []byte("the key"))
		mac.Write(body)
		assert.Equal(t, hex.EncodeToString(mac.Sum(nil)), <-hook.signs)
		var doc struct {
			RunURL        string    `json:"run_url"`
			RunID         string    `json:"run_id"`
			RunMessage    string    `json:"run_message"`
			RunCreatedAt  time.Time `json:"run_created_at"`
			RunCreatedBy  string    `json:"run_created_by"`
			WorkspaceID   string    `json:"workspace_id"`
			Notifications []map[string]any
		}
		require.NoError(t, json.Unmarshal(body, &doc))
		assert.Equal(t, []string{run.ID, "five queues", "ann", ws.ID, w.url + "/app/acme/shop/runs/" + run.ID}, []string{doc.RunID, doc.RunMessage, doc.RunCreatedBy, doc.WorkspaceID, doc.RunURL})
		require.Len(t, doc.Notifications, 1)
		one := doc.Notifications[0]
		assert.NotEmpty(t, one["run_updated_at"])
		delete(one, "run_updated_at")
		assert.Equal(t, map[string]any{"message": want.message, "trigger": want.trigger, "run_status": want.status, "run_updated_by": "ann", "event": want.event, "durable_status": want.durable}, one)
	}

	var log struct {
		Data []struct {
			ID         string
			Attributes map[string]any
		}
	}
	_, text := w.send("GET", "/api/v2/notification-configurations/"+nc.ID+"/deliveries", w.ann, "")
	require.NoError(t, json.Unmarshal([]byte(text), &log))
	require.Len(t, log.Data, 3)
	assert.Equal(t, []any{"run:errored", "delivered", "200", "seen", 1.0}, []any{
		log.Data[0].Attributes["trigger"], log.Data[0].Attributes["status"], log.Data[0].Attributes["code"], log.Data[0].Attributes["body"], log.Data[0].Attributes["attempts"],
	})
}

// TestTheStatusOfAnEvent: what the run was by the event, not what it has become.
func TestTheStatusOfAnEvent(t *testing.T) {
	for _, c := range []struct {
		from, to string
		change   func(*notifications.Event)
		status   string
	}{
		{"dispatch_pending", "queued", nil, "pending"},
		{"queued", "planning", nil, "planning"},
		{"policy_passed", "awaiting_approval", nil, "planned"},
		{"policy_passed", "awaiting_approval", func(e *notifications.Event) { e.SavePlan = true }, "planned_and_saved"},
		{"awaiting_approval", "applying", nil, "applying"},
		{"applying", "succeeded", nil, "applied"},
		{"policy_passed", "succeeded", nil, "planned_and_finished"},
		{"awaiting_approval", "rejected", nil, "discarded"},
		{"awaiting_approval", "expired", nil, "discarded"},
		{"planning", "plan_failed", nil, "errored"},
		{"policy_evaluating", "policy_failed", nil, "errored"},
		{"applying", "apply_failed", nil, "errored"},
		{"applying", "needs_recovery", nil, "errored"},
		{"planning", "canceled", nil, "canceled"},
		{"awaiting_approval", "canceled", func(e *notifications.Event) { e.PlanFinished = true }, "canceled"},
	} {
		e := notifications.Event{Trigger: notifications.Created, FromStatus: c.from, ToStatus: c.to}
		if c.change != nil {
			c.change(&e)
		}
		assert.Equal(t, c.status, statusAt(e), "%s to %s", c.from, c.to)
	}
}
