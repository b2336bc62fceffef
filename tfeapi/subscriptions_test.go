package tfeapi

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/hashicorp/go-tfe"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/postgres"
)

// shownSubscription is what acme has, by anybody's token.
type shownSubscription struct {
	Data struct {
		Type, ID   string
		Attributes struct {
			IsActive    bool       `json:"is-active"`
			EndAt       *time.Time `json:"end-at"`
			RunsCeiling *int       `json:"runs-ceiling"`
		}
		Relationships map[string]struct{ Data struct{ Type, ID string } }
	}
}

func (w *world) subscription() (s shownSubscription) {
	w.Helper()
	response, body := w.send(http.MethodGet, "/api/v2/organizations/acme/subscription", w.bob, "")
	require.Equal(w, http.StatusOK, response.StatusCode, body)
	require.NoError(w, json.Unmarshal([]byte(body), &s))
	return s
}

// TestASubscriptionIsKept: it is stored, shown again, audited, and says what the organization is entitled to.
func TestASubscriptionIsKept(t *testing.T) {
	w := newWorld(t)
	ctx, root, service := t.Context(), w.siteAdmin(), newSink(t)
	subscribe := func(token, attributes, set string) (int, string) {
		response, body := w.send(http.MethodPost, "/api/v2/admin/organizations/acme/subscription", token,
			`{"data":{"type":"subscription","attributes":{`+attributes+`},"relationships":{"feature-set":{"data":{"type":"feature-sets","id":"`+set+`"}}}}}`)
		return response.StatusCode, body
	}
	entitled := func() bool {
		e, err := w.client.Organizations.ReadEntitlements(ctx, "acme")
		require.NoError(t, err)
		return e.GlobalRunTasks
	}
	first := w.subscription().Data
	assert.Equal(t, "fs-business", first.Relationships["feature-set"].Data.ID, "everything, where nobody said otherwise")
	assert.True(t, first.Attributes.IsActive && entitled())
	_, body := w.send(http.MethodGet, "/api/v2/organizations/acme", w.bob, "")
	assert.Contains(t, body, `"subscription":{"data":{"type":"subscriptions","id":"`+first.ID+`"}`)
	assert.Contains(t, body, `"entitlement-set":{"data":{"type":"entitlement-sets","id":"acme"}`)

	stages, on := []tfe.Stage{tfe.PrePlan}, tfe.Bool(true)
	global := &tfe.GlobalRunTaskOptions{Enabled: on, Stages: &stages}
	before, err := w.client.RunTasks.Create(ctx, "acme", tfe.RunTaskCreateOptions{Name: "before", URL: service.url, Category: "task", Global: global})
	require.NoError(t, err)
	require.NotNil(t, before.Global)

	status, _ := subscribe(w.ann, "", "fs-free")
	assert.Equal(t, http.StatusNotFound, status, "an owner is no site admin")
	status, body = subscribe(root, `"runs-ceiling":1`, "fs-free")
	require.Equal(t, http.StatusOK, status, body)
	now := w.subscription().Data
	assert.Equal(t, "fs-free", now.Relationships["feature-set"].Data.ID)
	assert.Nil(t, now.Attributes.RunsCeiling, "there are none")
	assert.False(t, entitled())

	t.Log("what it says of all workspaces is ignored, and what was said before is kept")
	task, err := w.client.RunTasks.Create(ctx, "acme", tfe.RunTaskCreateOptions{Name: "without", URL: service.url, Category: "task", Global: global})
	require.NoError(t, err)
	assert.Nil(t, task.Global)
	before, err = w.client.RunTasks.Update(ctx, before.ID, tfe.RunTaskUpdateOptions{Global: &tfe.GlobalRunTaskOptions{Enabled: tfe.Bool(false)}})
	require.NoError(t, err)
	assert.Nil(t, before.Global)

	tomorrow := time.Now().UTC().Add(24 * time.Hour).Truncate(time.Second)
	status, body = subscribe(root, `"end-at":"`+tomorrow.Format(time.RFC3339)+`"`, "fs-standard_entitlement")
	require.Equal(t, http.StatusOK, status, body)
	assert.True(t, entitled())
	now = w.subscription().Data
	assert.Equal(t, tomorrow, now.Attributes.EndAt.UTC())
	task, err = w.client.RunTasks.Read(ctx, task.ID)
	require.NoError(t, err)
	assert.False(t, task.Global.Enabled)
	before, err = w.client.RunTasks.Read(ctx, before.ID)
	require.NoError(t, err)
	assert.True(t, before.Global.Enabled)

	t.Log("one that ends leaves what is free")
	w.exec("update organizations set feature_set_ends_at = clock_timestamp() - interval '1 second' where name = 'acme'", postgres.Args{})
	now = w.subscription().Data
	assert.False(t, now.Attributes.IsActive || entitled())
	assert.Equal(t, "fs-free", now.Relationships["feature-set"].Data.ID)
	assert.Equal(t, true, w.attribute("/api/v2/organizations/acme", "plan-expired"))
	status, body = subscribe(root, `"end-at":"2020-01-01T00:00:00Z"`, "fs-business")
	assert.Equal(t, http.StatusUnprocessableEntity, status)
	assert.Contains(t, body, "must be in the future")
	assert.False(t, entitled(), "what was refused changed nothing")
	status, _ = subscribe(root, "", "fs-business")
	assert.Equal(t, http.StatusOK, status)
	assert.True(t, entitled())
	status, _ = subscribe(root, "", "fs-gold")
	assert.Equal(t, http.StatusNotFound, status)
	w.exec("do $$ begin assert (select string_agg(details->>'feature_set', ' ' order by at) from audit_entries where action = 'organization.subscribed') = 'free standard_entitlement business'; end $$", postgres.Args{})
}
