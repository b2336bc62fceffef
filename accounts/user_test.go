package accounts_test

import (
	"strings"
	"testing"

	"github.com/alexedwards/argon2id"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

func TestCreateUserHoldsTheRules(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	admin, err := w.CreateUser(ctx, system, accounts.NewUser{Username: "root", Email: "root@example.com", SiteAdmin: true})
	require.NoError(t, err)
	asAdmin := w.actor(admin)
	assert.True(t, asAdmin.SiteAdmin)
	ada, err := w.CreateUser(ctx, asAdmin, accounts.NewUser{Username: "ada"})
	require.NoError(t, err)
	assert.Equal(t, 2, w.count("select count(*) from audit_entries where action = 'user.created'", postgres.Args{}))

	_, err = w.CreateUser(ctx, w.actor(ada), accounts.NewUser{Username: "eve", SiteAdmin: true})
	assert.True(t, fault.Is(err, fault.Forbidden))
	_, err = w.CreateUser(ctx, asAdmin, accounts.NewUser{Username: "ada"})
	assert.True(t, fault.Is(err, fault.Invalid))
	assert.ErrorContains(t, err, "has already been taken")
	for _, n := range []accounts.NewUser{
		{Username: ""},
		{Username: "a b"},
		{Username: "a\x00"},
		{Username: strings.Repeat("a", 61)},
		{Username: "eve", Email: "nobody"},
		{Username: "eve", Email: "@x"},
		{Username: "eve", Email: "a b@c"},
		{Username: "eve", Email: "a@\x00"},
	} {
		_, err = w.CreateUser(ctx, asAdmin, n)
		assert.Truef(t, fault.Is(err, fault.Invalid), "%q: %v", n, err)
	}
}

func TestUsersSeeThemselvesAndTheirColleagues(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	org := w.organization("one")
	ada, bob := w.member("ada", org, authz.Member), w.member("bob", org, authz.Owner)
	stranger := w.actor(w.user("stranger"))

	me, err := w.Me(ctx, ada)
	require.NoError(t, err)
	assert.Equal(t, "ada", me.Username)
	colleague, err := w.User(ctx, ada, bob.User)
	require.NoError(t, err)
	assert.Equal(t, "bob", colleague.Username)

	_, hidden := w.UserByName(ctx, ada, "stranger")
	_, unknown := w.UserByName(ctx, ada, "nostranger")
	assert.True(t, fault.Is(hidden, fault.NotFound))
	require.Error(t, unknown)
	assert.Equal(t, strings.ReplaceAll(unknown.Error(), "nostranger", "stranger")[len("accounts.user: "):], hidden.Error()[len("accounts.user: "):], "both read the same")
	_, err = w.UserByName(ctx, stranger, "ada")
	assert.True(t, fault.Is(err, fault.NotFound))
	_, err = w.UserByName(ctx, system, "a\x00")
	assert.True(t, fault.Is(err, fault.NotFound))
	_, err = w.Me(ctx, system)
	assert.True(t, fault.Is(err, fault.NotFound))
}

func TestUsersByID(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada, bob := w.user("ada"), w.user("bob")
	require.NoError(t, postgres.InSnapshot(ctx, w.db, "test", func(tx postgres.Tx) error {
		users, err := w.Users(ctx, tx, ada.ID, bob.ID, "user-nobody")
		assert.Equal(t, map[ids.User]accounts.User{ada.ID: ada, bob.ID: bob}, users)
		return err
	}))
}

func TestSetPassword(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	asAda, asBob := w.actor(w.user("ada")), w.actor(w.user("bob"))
	const password = "correct horse battery"
	require.NoError(t, w.SetPassword(ctx, system, "ada", password))

	var hash string
	require.NoError(t, postgres.InTx(ctx, w.db, "test", func(tx postgres.Tx) (err error) {
		hash, err = postgres.Value[string](ctx, tx, "select password_hash from users where username = 'ada'", postgres.Args{})
		return err
	}))
	match, err := argon2id.ComparePasswordAndHash(password, hash)
	require.NoError(t, err)
	assert.True(t, match)
	assert.NotContains(t, w.dump(), password)

	for _, weak := range []string{"", "elevenchars", strings.Repeat("long", 300)} {
		err := w.SetPassword(ctx, asAda, "ada", weak)
		assert.Truef(t, fault.Is(err, fault.Invalid), "%q", weak)
	}
	assert.True(t, fault.Is(w.SetPassword(ctx, asBob, "ada", password), fault.NotFound))
	assert.True(t, fault.Is(w.SetPassword(ctx, system, "nobody", password), fault.NotFound))
	assert.NoError(t, w.SetPassword(ctx, system, "bob", password))
}

func TestColleaguesDoNotSetOneAnothersPasswords(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	org := w.organization("one")
	w.member("ada", org, authz.Member)
	bob := w.member("bob", org, authz.Owner)
	assert.True(t, fault.Is(w.SetPassword(ctx, bob, "ada", "correct horse battery"), fault.NotFound))
}

func TestAUserChangesNameAndAddress(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	admin, err := w.CreateUser(ctx, system, accounts.NewUser{Username: "root", SiteAdmin: true})
	require.NoError(t, err)
	name, address := "ruth", "ruth@example.com"
	changed, err := w.UpdateMe(ctx, w.actor(admin), &name, &address)
	require.NoError(t, err)
	assert.Equal(t, []string{string(admin.ID), name, address}, []string{string(changed.ID), changed.Username, changed.Email})
	changed, err = w.UpdateMe(ctx, w.actor(admin), nil, nil)
	require.NoError(t, err)
	assert.Equal(t, name, changed.Username, "what is not said stays")
}
