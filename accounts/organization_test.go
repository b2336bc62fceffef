package accounts_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

func TestCreateOrganizationMakesKeyOwnerAndAudit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	admin, err := w.CreateUser(ctx, system, accounts.NewUser{Username: "root", SiteAdmin: true})
	require.NoError(t, err)
	org, err := w.createOrganization(w.actor(admin), accounts.NewOrganization{Name: "acme", Email: "it@acme.example"})
	require.NoError(t, err)
	assert.Equal(t, []ids.Organization{org.ID}, w.keys.made)
	assert.Equal(t, authz.Owner, w.actor(admin).Roles[org.ID])
	assert.Equal(t, 1, w.count("select count(*) from audit_entries where organization_id = @id and action = 'organization.created'", postgres.Args{"id": org.ID}))

	found, err := w.Organization(ctx, w.actor(admin), "acme")
	require.NoError(t, err)
	assert.Equal(t, org, found)
}

func TestCreateOrganizationHoldsTheRules(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme := w.organization("acme")
	for _, name := range []string{"", "ab", strings.Repeat("a", 41), "a b c", "a.b.c", "a/b/c", "äcme", "abc\x00", "abc\n"} {
		_, err := w.createOrganization(system, accounts.NewOrganization{Name: name})
		assert.Truef(t, fault.Is(err, fault.Invalid), "%q", name)
		assert.ErrorContains(t, err, "Name may only contain")
	}
	_, err := w.createOrganization(system, accounts.NewOrganization{Name: "acme"})
	assert.True(t, fault.Is(err, fault.Invalid))
	assert.ErrorContains(t, err, "Name has already been taken")
	_, err = w.createOrganization(w.member("ada", acme, authz.Owner), accounts.NewOrganization{Name: "mine"})
	assert.True(t, fault.Is(err, fault.Forbidden))

	w.exec("update organizations set deleted_at = clock_timestamp() where id = @id", postgres.Args{"id": acme.ID})
	again := w.organization("acme")
	assert.NotEqual(t, acme.ID, again.ID, "the name of a deleted organization is free")
}

func TestForeignOrganizationsReadLikeUnknownOnes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mine := w.organization("mine")
	w.organization("theirs")
	ada := w.member("ada", mine, authz.Member)

	_, foreign := w.Organization(ctx, ada, "theirs")
	_, unknown := w.Organization(ctx, ada, "others")
	assert.True(t, fault.Is(foreign, fault.NotFound))
	require.Error(t, unknown)
	assert.Equal(t, strings.ReplaceAll(unknown.Error(), "others", "theirs"), foreign.Error())
	for _, name := range []string{"", "a b", "acme\x00", "Mine"} {
		_, err := w.Organization(ctx, ada, name)
		assert.Truef(t, fault.Is(err, fault.NotFound), "%q: %v", name, err)
	}
}

func TestOrganizationsShowsThoseTheActorSees(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var orgs []accounts.Organization
	for i := range 23 {
		orgs = append(orgs, w.organization(fmt.Sprintf("org-%02d", i)))
	}
	ada := w.member("ada", orgs[4], authz.Member)
	require.NoError(t, w.AddMember(ctx, system, orgs[2].ID, ada.User, authz.Owner))
	ada, loner := w.actor(accounts.User{ID: ada.User}), w.actor(w.user("loner"))

	got, total, err := w.Organizations(ctx, ada, accounts.OrganizationSearch{}, accounts.Page{Whole: true})
	require.NoError(t, err)
	assert.Equal(t, []accounts.Organization{orgs[2], orgs[4]}, got)
	assert.Equal(t, 2, total)
	got, total, err = w.Organizations(ctx, loner, accounts.OrganizationSearch{}, accounts.Page{Whole: true})
	require.NoError(t, err)
	assert.Empty(t, got)
	assert.Zero(t, total)
	attempt := authz.Actor{Kind: authz.AttemptActor, Organization: orgs[7].ID, Phase: authz.Plan}
	got, _, err = w.Organizations(ctx, attempt, accounts.OrganizationSearch{}, accounts.Page{Whole: true})
	require.NoError(t, err)
	assert.Equal(t, orgs[7:8], got)

	for _, c := range []struct {
		page accounts.Page
		want []accounts.Organization
	}{
		{accounts.Page{Whole: true}, orgs},
		{accounts.Page{}, orgs[:20]},
		{accounts.Page{Number: 1}, orgs[:20]},
		{accounts.Page{Number: 2}, orgs[20:]},
		{accounts.Page{Number: 3, Size: 5}, orgs[10:15]},
		{accounts.Page{Number: 1, Size: 1000}, orgs},
		{accounts.Page{Number: 999}, nil},
		{accounts.Page{Number: math.MaxInt, Size: 100}, nil},
		{accounts.Page{Number: -4, Size: -1}, orgs[:20]},
	} {
		got, total, err := w.Organizations(ctx, system, accounts.OrganizationSearch{}, c.page)
		require.NoErrorf(t, err, "%+v", c.page)
		assert.ElementsMatchf(t, c.want, got, "%+v", c.page)
		assert.Equal(t, 23, total)
	}
}

func TestAddMember(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	org, other := w.organization("one"), w.organization("two")
	owner, member := w.member("ada", org, authz.Owner), w.member("bob", org, authz.Member)
	eve := w.user("eve")

	assert.True(t, fault.Is(w.AddMember(ctx, member, org.ID, eve.ID, authz.Member), fault.Forbidden))
	assert.True(t, fault.Is(w.AddMember(ctx, owner, other.ID, eve.ID, authz.Member), fault.NotFound))
	assert.True(t, fault.Is(w.AddMember(ctx, owner, org.ID, "user-nobody", authz.Member), fault.NotFound))
	assert.True(t, fault.Is(w.AddMember(ctx, owner, org.ID, eve.ID, "king"), fault.Invalid))
	assert.Empty(t, w.actor(eve).Roles)
	require.NoError(t, w.AddMember(ctx, owner, org.ID, eve.ID, authz.Member))
	assert.Equal(t, map[ids.Organization]authz.Role{org.ID: authz.Member}, w.actor(eve).Roles)
}

func TestAnOrganizationWithoutItsKeyIsNotMade(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	broken := accounts.New(w.db, noKeys{})
	err := postgres.InTx(ctx, w.db, "test", func(tx postgres.Tx) error {
		_, err := broken.CreateOrganization(ctx, tx, system, accounts.NewOrganization{Name: "acme"})
		return err
	})
	assert.ErrorIs(t, err, errNoKeys)
	assert.Zero(t, w.count("select count(*) from organizations", postgres.Args{}))
}

var errNoKeys = errors.New("the key ring is away")

// Whoever changes an organization at the same time as others reads what it is to fit under its
// lock: it undoes nothing of theirs, and what does not fit any more is refused.
func TestAnOrganizationThatOthersChangeToo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	org := w.organization("acme")
	on, local, email := true, accounts.Local, "people@example.com"
	update := func(tx postgres.Tx, c accounts.OrganizationChanges) error {
		_, err := accounts.UpdateOrganization(ctx, tx, system, org.Name, c)
		return err
	}
	outcome := map[string]chan error{}
	require.NoError(t, postgres.InTx(ctx, w.db, "test", func(tx postgres.Tx) error {
		if err := update(tx, accounts.OrganizationChanges{OrganizationSettings: accounts.OrganizationSettings{DefaultExecutionMode: &local, AggregatedCommitStatus: &on}}); err != nil {
			return err
		}
		for name, c := range map[string]accounts.OrganizationChanges{
			"address": {Email: &email}, "status": {OrganizationSettings: accounts.OrganizationSettings{PassingCommitStatuses: &on}},
		} {
			done := make(chan error, 1)
			outcome[name] = done
			go func() {
				done <- postgres.InTx(ctx, w.db, "test", func(tx postgres.Tx) error { return update(tx, c) })
			}()
		}
		require.Eventually(t, func() bool {
			return w.count("select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'", nil) == len(outcome)
		}, 30*time.Second, 10*time.Millisecond)
		return nil
	}))
	require.NoError(t, <-outcome["address"])
	assert.True(t, fault.HasCode(<-outcome["status"], "invalid_attribute"))
	now, err := w.Organization(ctx, system, org.Name)
	require.NoError(t, err)
	assert.Equal(t, []any{local, email, true, false}, []any{now.DefaultExecutionMode, now.Email, now.AggregatedCommitStatus, now.PassingCommitStatuses})
}
