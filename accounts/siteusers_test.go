package accounts_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// siteAdmin makes a site admin and gives it as a request by its token finds it.
func (w world) siteAdmin(name string) authz.Actor {
	w.Helper()
	u, err := w.CreateUser(ctx, system, accounts.NewUser{Username: name, SiteAdmin: true})
	require.NoError(w, err)
	return w.actor(u)
}

// TestASuspendedUserIsShutOut: no token, no sign-in, no right of something that starts in its
// name; and all of it is there again afterwards.
func TestASuspendedUserIsShutOut(t *testing.T) {
	w := newWorld(t)
	org := w.organization("acme")
	ann := w.member("ann", org, authz.Owner)
	token, _, err := w.CreateUserToken(ctx, system, ann.User, "", 0)
	require.NoError(t, err)
	require.NoError(t, w.SetPassword(ctx, system, "ann", password))
	session, err := w.SignIn(ctx, "ann", password, here)
	require.NoError(t, err)

	shown, err := w.SuspendUser(ctx, system, ann.User)
	require.NoError(t, err)
	assert.NotNil(t, shown.SuspendedAt)
	_, err = w.Authenticate(ctx, token)
	assert.True(t, fault.Is(err, fault.Unauthenticated), "%v", err)
	_, err = w.AuthenticateSession(ctx, session)
	require.Error(t, err)
	_, err = w.SignIn(ctx, "ann", password, here)
	require.Error(t, err)
	assert.Empty(t, w.again(ann).Roles)
	assert.Empty(t, w.again(ann).Grants)

	_, err = w.UnsuspendUser(ctx, system, ann.User)
	require.NoError(t, err)
	back, err := w.Authenticate(ctx, token)
	require.NoError(t, err)
	assert.True(t, back.IsOwner(org.ID))
	_, err = w.AuthenticateSession(ctx, session)
	require.Error(t, err, "what was ended stays so")
	assert.Equal(t, 1, w.audited("user.suspended"))
	assert.Equal(t, 1, w.audited("user.unsuspended"))
}

func TestADeletedUserIsForgotten(t *testing.T) {
	w := newWorld(t)
	org := w.organization("acme")
	ann, bob := w.member("ann", org, authz.Owner), w.member("bob", org, authz.Owner)
	token, _, err := w.CreateUserToken(ctx, system, bob.User, "", 0)
	require.NoError(t, err)
	require.NoError(t, w.DeleteUser(ctx, system, bob.User))
	_, err = w.Authenticate(ctx, token)
	assert.True(t, fault.Is(err, fault.Unauthenticated))
	_, err = w.UserByName(ctx, system, "bob")
	assert.True(t, fault.Is(err, fault.NotFound))
	_, err = w.SiteUser(ctx, system, bob.User)
	assert.True(t, fault.Is(err, fault.NotFound))
	assert.True(t, fault.Is(w.DeleteUser(ctx, system, bob.User), fault.NotFound))
	assert.NotEqual(t, bob.User, w.user("bob").ID, "the name is free")
	err = w.DeleteUser(ctx, system, ann.User)
	assert.True(t, fault.HasCode(err, "last_owner"), "%v", err)
	_, err = w.SiteUser(ctx, system, ann.User)
	require.NoError(t, err, "nothing of it happened")
	team := w.team(org, "ops")
	_, _, err = w.CreateTeamToken(ctx, system, team.ID, accounts.NewToken{})
	require.NoError(t, err)
	list, _, err := w.SiteUsers(ctx, system, accounts.SiteUserFilter{})
	require.NoError(t, err)
	for _, u := range list {
		if u.ServiceAccount {
			assert.True(t, fault.HasCode(w.DeleteUser(ctx, system, u.ID), "service_account"))
		}
	}
}

func TestSiteUsersAreFound(t *testing.T) {
	w := newWorld(t)
	org := w.organization("acme")
	w.siteAdmin("root")
	ann := w.member("ann", org, authz.Owner)
	_, err := w.Invite(ctx, system, "acme", "new@example.com", nil)
	require.NoError(t, err)
	_, err = w.SuspendUser(ctx, system, ann.User)
	require.NoError(t, err)
	yes, no := true, false
	for _, c := range []struct {
		filter accounts.SiteUserFilter
		want   []string
	}{
		{accounts.SiteUserFilter{}, []string{"root", "ann", ""}},
		{accounts.SiteUserFilter{Query: "EXAMPLE"}, []string{""}},
		{accounts.SiteUserFilter{Query: "invited-"}, nil}, // a name that nobody is shown
		{accounts.SiteUserFilter{Query: "an"}, []string{"ann"}},
		{accounts.SiteUserFilter{Admin: &yes}, []string{"root"}},
		{accounts.SiteUserFilter{Suspended: &yes}, []string{"ann"}},
		{accounts.SiteUserFilter{Suspended: &no, Admin: &no}, []string{""}},
		{accounts.SiteUserFilter{Page: accounts.Page{Number: 9, Size: 2}}, nil},
	} {
		list, total, err := w.SiteUsers(ctx, system, c.filter)
		require.NoError(t, err)
		var names []string
		for _, u := range list {
			names = append(names, u.Username)
		}
		assert.Equal(t, c.want, names, "%+v", c.filter)
		if c.filter.Page.Number == 9 {
			assert.Equal(t, 3, total, "the real total")
		}
	}
}

// TestASiteAdminIsMadeSteppedUp, and nobody takes it from itself.
func TestASiteAdminIsMadeSteppedUp(t *testing.T) {
	w := newWorld(t)
	root, device := w.enrolled("root")
	w.exec("update users set site_admin = true where id = @id", postgres.Args{"id": root.User})
	root.SiteAdmin = true
	ann := w.user("ann")
	_, err := w.GrantSiteAdmin(ctx, root, ann.ID)
	assert.True(t, fault.HasCode(err, "step_up_required"), "%v", err)
	w.steppedUp(root, device)
	shown, err := w.GrantSiteAdmin(ctx, root, ann.ID)
	require.NoError(t, err)
	assert.True(t, shown.SiteAdmin)
	for name, do := range map[string]func() error{
		"revoke":  func() error { _, err := w.RevokeSiteAdmin(ctx, root, root.User); return err },
		"suspend": func() error { _, err := w.SuspendUser(ctx, root, root.User); return err },
		"delete":  func() error { return w.DeleteUser(ctx, root, root.User) },
	} {
		assert.True(t, fault.HasCode(do(), "own_account"), name)
	}
	shown, err = w.RevokeSiteAdmin(ctx, root, ann.ID)
	require.NoError(t, err)
	assert.False(t, shown.SiteAdmin)
	_, err = w.RevokeSiteAdmin(ctx, w.actor(ann), root.User)
	assert.True(t, fault.Is(err, fault.NotFound), "to others there is nothing here")
}

// TestTwoSiteAdminsCannotEndEachOther: however they race, one stays.
func TestTwoSiteAdminsCannotEndEachOther(t *testing.T) {
	w := newWorld(t)
	for i := range 10 {
		w.exec("update users set site_admin = false", nil)
		one, other := w.siteAdmin(fmt.Sprint("one-", i)), w.siteAdmin(fmt.Sprint("other-", i))
		begin := make(chan struct{})
		var racers sync.WaitGroup
		for actor, victim := range map[ids.User]authz.Actor{other.User: one, one.User: other} {
			racers.Go(func() {
				<-begin
				_, _ = w.RevokeSiteAdmin(ctx, victim, actor) // one of them may be refused
			})
		}
		close(begin)
		racers.Wait()
		assert.Equal(t, 1, w.count("select count(*) from users where site_admin", nil))
	}
}

// TestADisabledOrganizationIsGoneForItsMembers and is there for site admins.
func TestADisabledOrganizationIsGoneForItsMembers(t *testing.T) {
	w := newWorld(t)
	org := w.organization("acme")
	ann := w.member("ann", org, authz.Owner)
	token, _, err := w.CreateOrganizationToken(ctx, system, "acme", accounts.OrganizationToken, accounts.NewToken{})
	require.NoError(t, err)
	yes, no := true, false
	o, err := w.UpdateSiteOrganization(ctx, system, "acme", accounts.SiteOrganizationChanges{Disabled: &yes})
	require.NoError(t, err)
	assert.NotNil(t, o.DisabledAt)
	_, err = w.Organization(ctx, w.again(ann), "acme")
	assert.True(t, fault.Is(err, fault.NotFound), "%v", err)
	_, err = w.Authenticate(ctx, token)
	assert.True(t, fault.Is(err, fault.Unauthenticated), "%v", err)
	_, err = w.SiteOrganization(ctx, system, "acme")
	require.NoError(t, err)
	_, err = w.UpdateSiteOrganization(ctx, system, "acme", accounts.SiteOrganizationChanges{Disabled: &no})
	require.NoError(t, err)
	assert.True(t, w.again(ann).IsOwner(org.ID))
	_, err = w.UpdateSiteOrganization(ctx, ann, "acme", accounts.SiteOrganizationChanges{Disabled: &yes})
	assert.True(t, fault.Is(err, fault.NotFound))
}

// TestUsersMakeOrganizationsWhereTheSiteLetsThem, as many as it says.
func TestUsersMakeOrganizationsWhereTheSiteLetsThem(t *testing.T) {
	w := newWorld(t)
	eve := w.actor(w.user("eve"))
	_, err := w.createOrganization(eve, accounts.NewOrganization{Name: "mine"})
	assert.True(t, fault.Is(err, fault.Forbidden), "%v", err)
	may, err := w.MayMakeOrganizations(ctx, eve)
	require.NoError(t, err)
	assert.False(t, may)
	w.exec("update site_settings set limit_user_organization_creation = false, limit_organizations_per_user = true, organizations_per_user = 1", nil)
	may, err = w.MayMakeOrganizations(ctx, eve)
	require.NoError(t, err)
	assert.True(t, may)
	mine, err := w.createOrganization(eve, accounts.NewOrganization{Name: "mine"})
	require.NoError(t, err)
	assert.True(t, w.again(eve).IsOwner(mine.ID))
	_, err = w.createOrganization(eve, accounts.NewOrganization{Name: "more"})
	assert.True(t, fault.Is(err, fault.Forbidden), "%v", err)
	_, err = w.createOrganization(system, accounts.NewOrganization{Name: "more"})
	require.NoError(t, err)
}

// TestModulesAreSharedWithWhomASiteAdminNames: with their people and their runs, and providers apart.
func TestModulesAreSharedWithWhomASiteAdminNames(t *testing.T) {
	w := newWorld(t)
	acme, other, third := w.organization("acme"), w.organization("other"), w.organization("third")
	mine, ann, eve := w.member("mine", acme, authz.Member), w.member("ann", other, authz.Member), w.member("eve", third, authz.Member)
	run := authz.Actor{Kind: authz.AttemptActor, Phase: authz.Plan, Organization: other.ID, Attempt: "att-1"}
	nobody := w.actor(w.user("nobody"))
	uses := func(what accounts.Shared) (who []string) {
		for name, actor := range map[string]authz.Actor{"mine": mine, "ann": ann, "eve": eve, "run": run, "nobody": nobody} {
			err := postgres.InTx(ctx, w.db, "test", func(tx postgres.Tx) error {
				_, err := accounts.SourceOf(ctx, tx, actor, what, "acme")
				return err
			})
			if err == nil {
				who = append(who, name)
			} else {
				assert.True(t, fault.Is(err, fault.NotFound), "%s: %v", name, err)
			}
		}
		return who
	}
	assert.ElementsMatch(t, []string{"mine"}, uses(accounts.SharedModules))
	yes := true
	_, err := w.UpdateSiteOrganization(ctx, system, "acme", accounts.SiteOrganizationChanges{GlobalModuleSharing: &yes})
	require.NoError(t, err)
	assert.ElementsMatch(t, []string{"mine", "ann", "eve", "run"}, uses(accounts.SharedModules), "every organization")
	assert.ElementsMatch(t, []string{"mine"}, uses(accounts.SharedProviders))
	require.NoError(t, w.SetModuleConsumers(ctx, system, "acme", []string{"other", "other"}))
	assert.ElementsMatch(t, []string{"mine", "ann", "run"}, uses(accounts.SharedModules), "it is not for everybody any more")
	list, total, err := w.ModuleConsumers(ctx, system, "acme", accounts.Page{})
	require.NoError(t, err)
	require.Equal(t, 1, total)
	assert.Equal(t, "other", list[0].Name)
	for _, wrong := range [][]string{{"third", "nobody"}, {"acme"}} {
		assert.True(t, fault.Is(w.SetModuleConsumers(ctx, system, "acme", wrong), fault.NotFound), "%v", wrong)
	}
	assert.ElementsMatch(t, []string{"mine", "ann", "run"}, uses(accounts.SharedModules), "nothing was changed")
	_, err = w.UpdateSiteOrganization(ctx, system, "acme", accounts.SiteOrganizationChanges{Disabled: &yes, GlobalProviderSharing: &yes})
	require.NoError(t, err)
	assert.ElementsMatch(t, []string{"mine"}, uses(accounts.SharedProviders), "a disabled one shares nothing, and who was read before knows it still")
}
