package tfeapi

import (
	"net/http"
	"testing"

	"github.com/hashicorp/go-tfe"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// ownersToken is a token of acme's owners team, made by ann, stepped up.
func (w *world) ownersToken() string {
	w.Helper()
	secret, _ := w.enrol("ann", w.ann)
	w.stepUp(secret, w.ann)
	teams, err := w.client.Teams.List(w.Context(), "acme", &tfe.TeamListOptions{Names: []string{"owners"}})
	require.NoError(w, err)
	token, err := w.client.TeamTokens.Create(w.Context(), teams.Items[0].ID)
	require.NoError(w, err)
	return token.Token
}

// TestAnOrganizationThatTakesNoUserTokens: neither those of its members nor those of site admins reach
// anything in it; tokens of teams, and people signed in to the pages, do. To others it is as before.
func TestAnOrganizationThatTakesNoUserTokens(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	ws, acme := w.workspace("app"), ids.Organization(w.externalID("acme"))
	root := w.siteAdmin()
	owners := w.as(w.ownersToken())
	session, err := w.deps.Accounts.SignIn(ctx, "ann", stepUpPassword, "here")
	require.NoError(t, err)
	_, outsider := w.user(ctx, "eve")
	off, on := tfe.OrganizationUpdateOptions{UserTokensEnabled: tfe.Bool(false)}, tfe.OrganizationUpdateOptions{UserTokensEnabled: tfe.Bool(true)}

	_, err = w.client.Organizations.Update(ctx, "acme", off)
	assert.ErrorContains(t, err, "token of the owners team", "nobody saws off the branch it sits on")
	read, err := w.client.Organizations.Read(ctx, "acme")
	require.NoError(t, err)
	assert.True(t, *read.UserTokensEnabled)

	org, err := owners.Organizations.Update(ctx, "acme", off)
	require.NoError(t, err)
	assert.False(t, *org.UserTokensEnabled)
	for name, token := range map[string]string{"an owner": w.ann, "a member": w.bob, "a site admin": root} {
		for _, path := range []string{"organizations/acme", "organizations/acme/workspaces", "workspaces/" + ws.ID, "organizations/acme/subscription", "workspaces/" + ws.ID + "/vars"} {
			response, body := w.send(http.MethodGet, "/api/v2/"+path, token, "")
			assert.Equal(t, http.StatusUnauthorized, response.StatusCode, "%s %s", name, path)
			assert.Contains(t, body, `"code":"user_tokens_disabled"`)
		}
		response, _ := w.send(http.MethodPost, "/api/v2/workspaces/"+ws.ID+"/actions/lock", token, "{}")
		assert.Equal(t, http.StatusUnauthorized, response.StatusCode, name)
		_, body := w.send(http.MethodGet, "/api/v2/organizations", token, "")
		assert.NotContains(t, body, `"acme"`, name)
	}
	response, _ := w.send(http.MethodGet, "/api/v2/organizations/acme", outsider, "")
	assert.Equal(t, http.StatusNotFound, response.StatusCode, "who does not belong to it does not learn that it is there")
	_, err = owners.Workspaces.ReadByID(ctx, ws.ID)
	require.NoError(t, err)
	signedIn, err := w.deps.Accounts.AuthenticateSession(ctx, session)
	require.NoError(t, err)
	_, err = w.deps.Workspaces.Get(ctx, signedIn, ids.Workspace(ws.ID))
	require.NoError(t, err)
	decided := authz.Actor{Kind: authz.UserActor, Roles: signedIn.Roles, Grants: signedIn.Grants, Barred: map[ids.Organization]bool{acme: true}}
	assert.False(t, decided.IsOwner(acme), "rights that are looked up again do not bring it back")

	_, body := w.send(http.MethodPatch, "/api/v2/admin/organizations/acme", root, `{"data":{"attributes":{"user-tokens-enabled":true}}}`)
	assert.Equal(t, true, attributesOf(t, body)["user-tokens-enabled"], "a site admin takes it back when nobody has a token that gets in")
	_, err = w.client.Organizations.Read(ctx, "acme")
	require.NoError(t, err)
	_, err = owners.Organizations.Update(ctx, "acme", on)
	require.NoError(t, err)
	w.exec("do $$ begin assert (select count(*) from audit_entries where action = 'organization.updated' and details->>'user_tokens_enabled' = 'false') = 1; end $$", postgres.Args{})
}

// TestWhatIsSaidOfCommitStatusesIsReadBack: nothing here reads it, and clients that send it see no difference.
func TestWhatIsSaidOfCommitStatusesIsReadBack(t *testing.T) {
	w := newWorld(t)
	ctx, on, off := t.Context(), tfe.Bool(true), tfe.Bool(false)
	said := func(o *tfe.Organization) []bool {
		return []bool{o.AggregatedCommitStatusEnabled, o.SendPassingStatusesForUntriggeredSpeculativePlans, o.SpeculativePlanManagementEnabled}
	}
	read := func() []bool {
		o, err := w.client.Organizations.Read(ctx, "acme")
		require.NoError(t, err)
		return said(o)
	}
	assert.Equal(t, []bool{false, false, false}, read())
	for _, options := range []tfe.OrganizationUpdateOptions{
		{AggregatedCommitStatusEnabled: on, SendPassingStatusesForUntriggeredSpeculativePlans: off, SpeculativePlanManagementEnabled: on},
		{AggregatedCommitStatusEnabled: off, SendPassingStatusesForUntriggeredSpeculativePlans: on, SpeculativePlanManagementEnabled: off},
	} {
		want := []bool{*options.AggregatedCommitStatusEnabled, *options.SendPassingStatusesForUntriggeredSpeculativePlans, *options.SpeculativePlanManagementEnabled}
		o, err := w.client.Organizations.Update(ctx, "acme", options)
		require.NoError(t, err)
		assert.Equal(t, want, said(o))
		_, err = w.client.Organizations.Update(ctx, "acme", tfe.OrganizationUpdateOptions{Email: tfe.String("ops@acme.example")})
		require.NoError(t, err)
		assert.Equal(t, want, read(), "what is not said stays")
	}
	_, err := w.client.Organizations.Update(ctx, "acme", tfe.OrganizationUpdateOptions{AggregatedCommitStatusEnabled: on})
	assert.ErrorContains(t, err, "exclude each other")
}
