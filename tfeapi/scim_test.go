package tfeapi

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-tfe"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/scim"
)

// identityProvider turns SCIM on as a site admin, and gives the admin's client, a SCIM token and
// who has it.
func (w *world) identityProvider() (admin *tfe.Client, token *tfe.AdminSCIMToken, idp authz.Actor) {
	w.Helper()
	return w.identityProviderOf(w.siteAdmin())
}

func (w *world) identityProviderOf(root string) (admin *tfe.Client, token *tfe.AdminSCIMToken, idp authz.Actor) {
	w.Helper()
	ctx := w.Context()
	admin = w.as(root)
	_, err := admin.Admin.Settings.SCIM.Update(ctx, tfe.AdminSCIMSettingUpdateOptions{Enabled: tfe.Bool(true)})
	require.NoError(w, err)
	token, err = admin.Admin.Settings.SCIM.Tokens.Create(ctx, "idp")
	require.NoError(w, err)
	idp, err = w.deps.Accounts.AuthenticateSCIM(ctx, token.Token)
	require.NoError(w, err)
	return admin, token, idp
}

func TestClientSCIM(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	root := w.as(w.siteAdmin()) // SCIM is off
	me, err := root.Users.ReadCurrent(ctx)
	require.NoError(t, err)
	assert.Nil(t, me.IsSCIMManaged, "nothing is said of SCIM while it is off")
	_, err = root.Admin.Settings.SCIM.Tokens.Create(ctx, "idp")
	assert.ErrorContains(t, err, "SCIM is off")
	_, err = root.Admin.Settings.SCIM.Update(ctx, tfe.AdminSCIMSettingUpdateOptions{Enabled: tfe.Bool(true)})
	require.NoError(t, err)

	token, err := root.Admin.Settings.SCIM.Tokens.Create(ctx, "idp")
	require.NoError(t, err)
	assert.True(t, strings.HasPrefix(token.Token, "hfi_"))
	read, err := root.Admin.Settings.SCIM.Tokens.Read(ctx, token.ID)
	require.NoError(t, err)
	assert.Equal(t, []any{"", "idp"}, []any{read.Token, read.Description}, "it is shown once")
	idp, err := w.deps.Accounts.AuthenticateSCIM(ctx, token.Token)
	require.NoError(t, err)
	ada, err := w.deps.SCIM.CreatePerson(ctx, idp, scim.Person{UserName: "ada@corp.test", Active: true, Attributes: json.RawMessage("{}")})
	require.NoError(t, err)
	group, err := w.deps.SCIM.CreateGroup(ctx, idp, scim.Group{DisplayName: "devs", Members: []ids.User{ada.ID}})
	require.NoError(t, err)
	team := w.team("devs", nil)
	mappings := root.Admin.Settings.SCIM.SCIMGroupMappings
	require.NoError(t, mappings.Create(ctx, team.ID, &tfe.AdminSCIMGroupMappingCreateOptions{SCIMGroupID: string(group.ID)}))
	linked, err := w.client.Teams.Read(ctx, team.ID)
	require.NoError(t, err)
	assert.Equal(t, []any{true, "devs", false, 1}, []any{*linked.SCIMLinked, *linked.SCIMGroupName, *linked.SCIMSyncPaused, linked.UserCount})
	err = w.client.TeamMembers.Add(ctx, team.ID, tfe.TeamMemberAddOptions{Usernames: []string{"bob"}})
	assert.ErrorContains(t, err, "come from the identity provider")
	list, err := w.client.Teams.List(ctx, "acme", nil)
	require.NoError(t, err)
	for _, one := range list.Items {
		require.NotNil(t, one.SCIMLinked)
		assert.Equal(t, one.ID == team.ID, *one.SCIMLinked, one.Name)
	}
	adaToken, _, err := w.deps.Accounts.CreateUserToken(ctx, authz.System(), ada.ID, "", 0)
	require.NoError(t, err)
	me, err = w.as(adaToken).Users.ReadCurrent(ctx)
	require.NoError(t, err)
	assert.Equal(t, []any{true, "ada@corp.test", "ada"}, []any{*me.IsSCIMManaged, *me.SCIMUsername, me.Username})

	require.NoError(t, root.Admin.Settings.SCIM.Tokens.Delete(ctx, token.ID))
	_, err = w.deps.Accounts.AuthenticateSCIM(ctx, token.Token)
	assert.Error(t, err)
	assert.Equal(t, http.StatusNotFound, w.ask(w.ann, "DELETE", "/api/v2/authentication-tokens/"+token.ID, "").status)
	require.NoError(t, root.Admin.Settings.SCIM.Delete(ctx))
	unlinked, err := w.client.Teams.Read(ctx, team.ID)
	require.NoError(t, err)
	assert.Nil(t, unlinked.SCIMLinked)
}

// A site admin group by a token that was not stepped up is kept, and counts for nothing yet.
func TestTheSiteAdminGroupWaitsForAStepUp(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	admin, _, idp := w.identityProvider()
	ada, err := w.deps.SCIM.CreatePerson(ctx, idp, scim.Person{UserName: "ada", Active: true, Attributes: json.RawMessage("{}")})
	require.NoError(t, err)
	group, err := w.deps.SCIM.CreateGroup(ctx, idp, scim.Group{DisplayName: "admins", Members: []ids.User{ada.ID}})
	require.NoError(t, err)
	settings, err := admin.Admin.Settings.SCIM.Update(ctx, tfe.AdminSCIMSettingUpdateOptions{SiteAdminGroupSCIMID: tfe.NullableString(string(group.ID))})
	require.NoError(t, err)
	assert.Equal(t, []string{string(group.ID), "admins"}, []string{settings.SiteAdminGroupSCIMID, settings.SiteAdminGroupDisplayName})
	user, err := w.deps.Accounts.User(ctx, authz.System(), ada.ID)
	require.NoError(t, err)
	assert.False(t, user.SiteAdmin)
}

// TestWhoShutAUserOutIsShown: a site admin sees whether a user was suspended or deactivated, and
// is not told that it let in whom it could not.
func TestWhoShutAUserOutIsShown(t *testing.T) {
	w := newWorld(t)
	root := w.siteAdmin()
	_, _, idp := w.identityProviderOf(root)
	ada, err := w.deps.SCIM.CreatePerson(t.Context(), idp, scim.Person{UserName: "ada", Active: true, Attributes: json.RawMessage("{}")})
	require.NoError(t, err)
	at := "/api/v2/admin/users/" + string(ada.ID)
	act := func(action string, status int) string {
		t.Helper()
		response, text := w.send("POST", at+"/actions/"+action, root, "")
		require.Equal(t, status, response.StatusCode, text)
		return text
	}
	out := func() []bool {
		t.Helper()
		a := w.list(root, "admin/users?q=ada")[0].Attributes
		return []bool{a["is-suspended"].(bool), a["suspended-at"] != nil, a["deactivated-at"] != nil}
	}
	deactivate := func(active bool) {
		t.Helper()
		_, err := w.deps.SCIM.ChangePerson(t.Context(), idp, ada.ID, func(p scim.Person) (scim.Person, error) {
			p.Active = active
			return p, nil
		})
		require.NoError(t, err)
	}
	assert.Equal(t, []bool{false, false, false}, out())
	deactivate(false)
	assert.Equal(t, []bool{true, false, true}, out())
	assert.Contains(t, act("unsuspend", 409), "the identity provider has deactivated it")
	act("suspend", 200)
	assert.Equal(t, []bool{true, true, true}, out())
	act("unsuspend", 200)
	assert.Equal(t, []bool{true, false, true}, out(), "still out, and the answer says by whom")
	deactivate(true)
	assert.Equal(t, []bool{false, false, false}, out())
	act("suspend", 200)
	assert.Equal(t, []bool{true, true, false}, out())
	assert.Len(t, w.list(root, "admin/users?q=ada&filter[suspended]=true"), 1)
	act("unsuspend", 200)
	act("unsuspend", 200)
	assert.Empty(t, w.list(root, "admin/users?q=ada&filter[suspended]=true"))
}

func TestASCIMTokenOpensNothingElse(t *testing.T) {
	w := newWorld(t)
	_, token, _ := w.identityProvider()
	for _, rt := range (&server{Deps: w.deps}).routes() {
		if !rt.open {
			reply := w.ask(token.Token, rt.method, strings.NewReplacer("{id}", "x", "{organization}", "acme", "{workspace}", "x").Replace(rt.path), "{}")
			assert.Equal(t, http.StatusUnauthorized, reply.status, rt.method+" "+rt.path)
		}
	}
}

func TestSCIMTokensLastAsLongAsTheyMay(t *testing.T) {
	w := newWorld(t)
	admin, _, _ := w.identityProvider()
	for days, fits := range map[int]bool{20: false, 30: true, 364: true, 400: false} {
		at := time.Now().Add(time.Duration(days) * 24 * time.Hour)
		_, err := admin.Admin.Settings.SCIM.Tokens.CreateWithOptions(t.Context(), tfe.AdminSCIMTokenCreateOptions{Description: tfe.String("d"), ExpiredAt: &at})
		assert.Equal(t, fits, err == nil, "%d days: %v", days, err)
	}
	list, err := admin.Admin.Settings.SCIM.Tokens.List(t.Context())
	require.NoError(t, err)
	assert.Len(t, list.Items, 3, "what was refused is not there")
}

// Nobody signs in by SAML here. What would turn that on is shown as off, and its key is not kept.
func TestSAMLIsShownAsOff(t *testing.T) {
	w := newWorld(t)
	saml := w.as(w.siteAdmin()).Admin.Settings.SAML
	set, err := saml.Update(t.Context(), tfe.AdminSAMLSettingsUpdateOptions{
		Enabled: tfe.Bool(true), Debug: tfe.Bool(true), AuthnRequestsSigned: tfe.Bool(true), WantAssertionsSigned: tfe.Bool(true), PrivateKey: tfe.String("THE KEY"),
		IDPCert: tfe.String("first"), SSOEndpointURL: tfe.String("https://idp.test"), SSOAPITokenSessionTimeout: tfe.Int(60),
	})
	require.NoError(t, err)
	assert.Equal(t, []any{false, false, false, false, ""}, []any{set.Enabled, set.Debug, set.AuthnRequestsSigned, set.WantAssertionsSigned, set.PrivateKey})
	assert.Equal(t, []any{"first", "https://idp.test", 60, true}, []any{set.IDPCert, set.SSOEndpointURL, set.SSOAPITokenSessionTimeout, set.TeamManagementEnabled})
	set, err = saml.Update(t.Context(), tfe.AdminSAMLSettingsUpdateOptions{IDPCert: tfe.String("second")})
	require.NoError(t, err)
	assert.Equal(t, []string{"second", "first"}, []string{set.IDPCert, set.OldIDPCert})
	set, err = saml.RevokeIdpCert(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []string{"second", ""}, []string{set.IDPCert, set.OldIDPCert})
}

// A user whom a site admin deletes is nobody of the identity provider's any more, and may come again as a new one.
func TestAUserDeletedByASiteAdminIsForgotten(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	admin, _, idp := w.identityProvider()
	person := scim.Person{UserName: "ada", Email: "ada@corp.test", Active: true, Attributes: json.RawMessage("{}")}
	ada, err := w.deps.SCIM.CreatePerson(ctx, idp, person)
	require.NoError(t, err)
	group, err := w.deps.SCIM.CreateGroup(ctx, idp, scim.Group{DisplayName: "devs", Members: []ids.User{ada.ID}})
	require.NoError(t, err)
	list, err := admin.Admin.Users.List(ctx, &tfe.AdminUserListOptions{Query: "ada@"})
	require.NoError(t, err)
	require.Len(t, list.Items, 1)
	assert.Equal(t, []any{true, "ada"}, []any{*list.Items[0].IsSCIMManaged, *list.Items[0].SCIMUsername})

	require.NoError(t, admin.Admin.Users.Delete(ctx, string(ada.ID)))
	_, err = w.deps.SCIM.Person(ctx, idp, ada.ID)
	assert.Error(t, err)
	group, err = w.deps.SCIM.Group(ctx, idp, group.ID)
	require.NoError(t, err)
	assert.Empty(t, group.Members)
	again, err := w.deps.SCIM.CreatePerson(ctx, idp, person)
	require.NoError(t, err)
	assert.NotEqual(t, ada.ID, again.ID)
}
