package notifications

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

func TestAConfigurationIsKept(t *testing.T) {
	w := newWorld(t)
	ctx, here := t.Context(), Subscribable{Workspace: w.ws}
	c, err := w.Create(ctx, w.ada, here, w.generic(func(ch *Changes) { ch.Enabled = ptr(false) }))
	require.NoError(t, err)
	assert.Empty(t, w.receiver.events(), "one that is disabled is not verified")
	assert.Equal(t, here, c.For)
	assert.Equal(t, w.receiver.url+"/hunter2", c.URL)
	again, err := w.Get(ctx, w.ada, c.ID)
	require.NoError(t, err)
	assert.Equal(t, c, again)

	other, err := w.Create(ctx, w.ada, Subscribable{Project: w.project}, w.generic(func(ch *Changes) { ch.Enabled = ptr(false) }))
	require.NoError(t, err)
	list, total, err := w.List(ctx, w.ada, here, accounts.Page{})
	require.NoError(t, err)
	assert.Equal(t, []Configuration{c}, list)
	assert.Equal(t, 1, total)
	list, _, err = w.List(ctx, w.ada, Subscribable{Project: w.project}, accounts.Page{})
	require.NoError(t, err)
	assert.Equal(t, []Configuration{other}, list)

	changed, err := w.Update(ctx, w.ada, c.ID, Changes{Name: ptr("new"), Triggers: &[]string{"run:errored"}})
	require.NoError(t, err)
	assert.Equal(t, "new", changed.Name)
	assert.Equal(t, []string{"run:errored"}, changed.Triggers)
	assert.Equal(t, "the key", changed.Token, "what is not named stays")
	require.NoError(t, w.Delete(ctx, w.ada, c.ID))
	_, err = w.Get(ctx, w.ada, c.ID)
	assert.True(t, fault.Is(err, fault.NotFound))
	for _, action := range []string{"created", "updated", "deleted"} {
		assert.NotZero(t, w.value("select count(*) from audit_entries where action = @a and object_id = @id", postgres.Args{"a": "notification-configuration." + action, "id": c.ID}), action)
	}
}

// TestAddressAndKeyAreSealed: neither stands in any row in plain.
func TestAddressAndKeyAreSealed(t *testing.T) {
	w := newWorld(t)
	w.subscribed()
	run := w.run()
	w.planned(run)
	w.deliver()
	for _, table := range []string{"notification_configurations", "notification_deliveries", "audit_entries"} {
		assert.Zerof(t, w.value("select count(*) from "+table+" t where t::text like '%hunter2%' or t::text like '%the key%'", nil), "in %s", table)
	}
}

func TestWhoMayAdministerNotifications(t *testing.T) {
	w := newWorld(t)
	ctx, c := t.Context(), w.subscribed()
	stranger := authz.Actor{Kind: authz.UserActor, User: ids.New[ids.User]()}
	for actor, kind := range map[*authz.Actor]fault.Kind{&w.bob: fault.Forbidden, &stranger: fault.NotFound} {
		_, err := w.Create(ctx, *actor, Subscribable{Workspace: w.ws}, w.generic())
		assert.True(t, fault.Is(err, kind), err)
		_, err = w.Create(ctx, *actor, Subscribable{Project: w.project}, w.generic())
		assert.True(t, fault.Is(err, kind), err)
		_, _, err = w.List(ctx, *actor, Subscribable{Workspace: w.ws}, accounts.Page{})
		assert.True(t, fault.Is(err, kind), err)
		_, err = w.Get(ctx, *actor, c.ID)
		assert.True(t, fault.Is(err, kind), err)
		_, err = w.Update(ctx, *actor, c.ID, Changes{Name: ptr("x")})
		assert.True(t, fault.Is(err, kind), err)
		_, err = w.Verify(ctx, *actor, c.ID)
		assert.True(t, fault.Is(err, kind), err)
		_, _, err = w.Deliveries(ctx, *actor, c.ID, accounts.Page{})
		assert.True(t, fault.Is(err, kind), err)
		assert.True(t, fault.Is(w.Delete(ctx, *actor, c.ID), kind))
	}
	assert.Empty(t, w.receiver.events(), "nobody was called for them")
	_, err := w.Get(ctx, stranger, c.ID)
	assert.NotContains(t, err.Error(), string(w.ws), "what it is for is not told")
}

// Whoever administers a project and may not read its runs has nobody told of them. An organization's token may.
func TestWhoIsToldMayReadRuns(t *testing.T) {
	w := newWorld(t)
	carl := w.bob
	with := func(levels ...authz.Level) authz.Actor {
		carl.Grants = map[ids.Organization]authz.Grants{w.org.ID: {Projects: map[ids.Project][]authz.Level{w.project: levels}}}
		return carl
	}
	c := w.subscribed(func(ch *Changes) { ch.Enabled = ptr(false) })
	for _, actor := range []authz.Actor{with("project:settings=update"), with("project:settings=update", "workspace:variables=read")} {
		_, err := w.Create(t.Context(), actor, Subscribable{Project: w.project}, w.generic())
		require.True(t, fault.Is(err, fault.Forbidden), err)
		assert.ErrorContains(t, err, string(authz.RunRead))
		_, err = w.Update(t.Context(), actor, c.ID, Changes{Enabled: ptr(true)})
		require.Error(t, err)
	}
	assert.Empty(t, w.receiver.events(), "nobody was called for them")
	token := authz.Actor{Kind: authz.OrganizationActor, Grants: map[ids.Organization]authz.Grants{w.org.ID: {Levels: []authz.Level{authz.OrganizationToken}}}}
	for _, actor := range []authz.Actor{with("project:settings=update", "workspace:runs=read"), token} {
		_, err := w.Create(t.Context(), actor, Subscribable{Project: w.project}, w.generic())
		require.NoError(t, err)
	}
}

func TestWhatAConfigurationMayBe(t *testing.T) {
	w := newWorld(t)
	for name, wrong := range map[string]func(*Changes){
		"name":                 func(ch *Changes) { ch.Name = nil },
		"name is too long":     func(ch *Changes) { ch.Name = ptr(strings.Repeat("x", 201)) },
		"destination type":     func(ch *Changes) { ch.Destination = ptr(Destination("pigeon")) },
		"url":                  func(ch *Changes) { ch.URL = nil },
		"must begin with http": func(ch *Changes) { ch.URL = ptr("ftp://x.test/") },
		"does not call":        func(ch *Changes) { ch.URL = ptr("http://169.254.169.254/") },
		"no trigger":           func(ch *Changes) { ch.Triggers = &[]string{"the beacons are lit"} },
		"token is too long":    func(ch *Changes) { ch.Token = ptr(strings.Repeat("x", 1001)) },
		"email address is not": func(ch *Changes) { ch.Destination, ch.EmailAddresses = ptr(Email), &[]string{"Ada <ada@acme.test>"} },
		"is no member": func(ch *Changes) {
			ch.Destination, ch.Enabled, ch.Users = ptr(Email), ptr(false), &[]ids.User{"user-9"}
		},
		"not been told of a mail": func(ch *Changes) { ch.Destination = ptr(Email) },
	} {
		_, err := w.Create(t.Context(), w.ada, Subscribable{Workspace: w.ws}, w.generic(wrong))
		require.Errorf(t, err, name)
		assert.True(t, fault.Is(err, fault.Invalid), err)
		assert.Contains(t, strings.ToLower(err.Error()), name)
	}
	list, _, err := w.List(t.Context(), w.ada, Subscribable{Workspace: w.ws}, accounts.Page{})
	require.NoError(t, err)
	assert.Empty(t, list)
	assert.Empty(t, w.receiver.events())

	t.Log("without a mail server email is kept, and not enabled")
	c, err := w.Create(t.Context(), w.ada, Subscribable{Workspace: w.ws}, w.generic(func(ch *Changes) {
		ch.Destination, ch.Enabled, ch.Users = ptr(Email), ptr(false), &[]ids.User{w.bob.User, w.ada.User, w.bob.User}
	}))
	require.NoError(t, err)
	assert.ElementsMatch(t, []ids.User{w.ada.User, w.bob.User}, c.Users)
	assert.Empty(t, c.URL)
	_, err = w.Update(t.Context(), w.ada, c.ID, Changes{Enabled: ptr(true)})
	assert.True(t, fault.HasCode(err, "mail_not_configured"), err)
}

// TestEnablingVerifies: what does not answer is not enabled.
func TestEnablingVerifies(t *testing.T) {
	w := newWorld(t)
	ctx, here := t.Context(), Subscribable{Workspace: w.ws}
	w.receiver.answer("no", http.StatusInternalServerError)
	_, err := w.Create(ctx, w.ada, here, w.generic())
	require.True(t, fault.HasCode(err, "verification_failed"), err)
	assert.Contains(t, err.Error(), "status 500")
	_, total, err := w.List(ctx, w.ada, here, accounts.Page{})
	require.NoError(t, err)
	assert.Zero(t, total)

	c, err := w.Create(ctx, w.ada, here, w.generic(func(ch *Changes) { ch.Enabled = ptr(false) }))
	require.NoError(t, err)
	w.receiver.events()
	_, err = w.Update(ctx, w.ada, c.ID, Changes{Enabled: ptr(true)})
	require.True(t, fault.HasCode(err, "verification_failed"), err)
	c, err = w.Get(ctx, w.ada, c.ID)
	require.NoError(t, err)
	assert.False(t, c.Enabled)

	w.receiver.answer("yes", http.StatusNoContent)
	c, err = w.Update(ctx, w.ada, c.ID, Changes{Enabled: ptr(true)})
	require.NoError(t, err)
	assert.True(t, c.Enabled)
	require.Len(t, c.Responses, 1)
	assert.True(t, c.Responses[0].OK)
	assert.Equal(t, []string{"verification", "verification"}, w.receiver.events())

	_, err = w.Update(ctx, w.ada, c.ID, Changes{Name: ptr("another")})
	require.NoError(t, err)
	assert.Empty(t, w.receiver.events(), "a name needs no verification")
	_, err = w.Update(ctx, w.ada, c.ID, Changes{Token: ptr("another")})
	require.NoError(t, err)
	assert.Equal(t, []string{"verification"}, w.receiver.events(), "another key does")

	w.receiver.answer("no", http.StatusForbidden)
	_, err = w.Verify(ctx, w.ada, c.ID)
	require.True(t, fault.HasCode(err, "verification_failed"), err)
	c, err = w.Get(ctx, w.ada, c.ID)
	require.NoError(t, err)
	assert.True(t, c.Enabled, "to ask does not disable it")
	assert.Equal(t, http.StatusForbidden, c.Responses[0].Code)
	assert.False(t, c.Responses[0].OK)
}
