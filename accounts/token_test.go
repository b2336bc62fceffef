package accounts_test

import (
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

func TestAuthenticateGivesTheUserWithItsRoles(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one, two, gone := w.organization("one"), w.organization("two"), w.organization("gone")
	ada := w.user("ada")
	require.NoError(t, w.AddMember(ctx, system, one.ID, ada.ID, authz.Owner))
	require.NoError(t, w.AddMember(ctx, system, two.ID, ada.ID, authz.Owner))
	require.NoError(t, w.AddMember(ctx, system, two.ID, ada.ID, authz.Member), "a second call changes the role")
	require.NoError(t, w.AddMember(ctx, system, gone.ID, ada.ID, authz.Owner))
	w.exec("update organizations set deleted_at = clock_timestamp() where id = @id", postgres.Args{"id": gone.ID})

	actor := w.actor(ada)
	assert.Equal(t, authz.Actor{
		Kind: authz.UserActor, User: ada.ID, Name: "ada",
		Roles: map[ids.Organization]authz.Role{one.ID: authz.Owner, two.ID: authz.Member}, Token: actor.Token,
		Grants: map[ids.Organization]authz.Grants{one.ID: {Teams: []ids.Team{w.owners(one)}}},
	}, actor)
	tokens, err := w.UserTokens(ctx, actor, ada.ID)
	require.NoError(t, err)
	assert.Equal(t, tokens[0].ID, actor.Token)

	loner := w.actor(w.user("loner"))
	assert.Empty(t, loner.Roles)
	assert.False(t, loner.SiteAdmin)
}

func TestAuthenticateRefusesWhatDoesNotCount(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada := w.user("ada")
	expired, expiring, err := w.CreateUserToken(ctx, system, ada.ID, "", time.Hour)
	require.NoError(t, err)
	w.exec("update tokens set expires_at = clock_timestamp() where id = @id", postgres.Args{"id": expiring.ID})
	revoked, revoking, err := w.CreateUserToken(ctx, system, ada.ID, "", 0)
	require.NoError(t, err)
	_, err = w.Authenticate(ctx, revoked)
	require.NoError(t, err, "it counts until it is revoked")
	require.NoError(t, w.RevokeUserToken(ctx, system, revoking.ID))
	group, _, err := w.CreateRunnerGroup(ctx, system, "", "all")
	require.NoError(t, err)

	unknown := "hfu_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
	for name, token := range map[string]string{
		"expired": expired, "revoked": revoked, "unknown": unknown, "none": "", "a runner group's": group,
		"with NUL": "hfu_\x00", "too long": unknown + "A", "of another prefix": "hfr_" + revoked[4:],
	} {
		_, err := w.Authenticate(ctx, token)
		assert.Truef(t, fault.Is(err, fault.Unauthenticated), "%s: %v", name, err)
	}
	assert.True(t, fault.Is(w.RevokeUserToken(ctx, system, revoking.ID), fault.NotFound), "a second time")
}

func TestTokensAreStoredAsDigests(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada := w.user("ada")
	plain, token, err := w.CreateUserToken(ctx, system, ada.ID, "laptop", 0)
	require.NoError(t, err)
	group, _, err := w.CreateRunnerGroup(ctx, system, "", "all")
	require.NoError(t, err)

	assert.Regexp(t, regexp.MustCompile(`^hfu_[A-Za-z0-9_-]{43}$`), plain)
	assert.Regexp(t, regexp.MustCompile(`^hfr_[A-Za-z0-9_-]{43}$`), group)
	dump := w.dump()
	assert.Contains(t, dump, "laptop", "the dump shows what is stored")
	assert.NotContains(t, dump, plain[4:])
	assert.NotContains(t, dump, group[4:])
	require.NotNil(t, token.ExpiresAt)
	assert.WithinDuration(t, token.CreatedAt.AddDate(2, 0, 0), *token.ExpiresAt, time.Minute, "two years when no lifetime is given")
}

func TestUsersMakeAndRevokeOnlyTheirOwnTokens(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada, bob := w.user("ada"), w.user("bob")
	asAda, asBob := w.actor(ada), w.actor(bob)
	_, own, err := w.CreateUserToken(ctx, asAda, ada.ID, "", time.Hour)
	require.NoError(t, err)
	assert.WithinDuration(t, own.CreatedAt.Add(time.Hour), *own.ExpiresAt, time.Minute)

	_, _, foreign := w.CreateUserToken(ctx, asBob, ada.ID, "", 0)
	_, _, unknown := w.CreateUserToken(ctx, asBob, "user-nobody", "", 0)
	assert.True(t, fault.Is(foreign, fault.NotFound))
	assert.True(t, fault.Is(unknown, fault.NotFound))
	_, _, err = w.CreateUserToken(ctx, system, "user-nobody", "", 0)
	assert.True(t, fault.Is(err, fault.NotFound))
	assert.True(t, fault.Is(w.RevokeUserToken(ctx, asBob, own.ID), fault.NotFound))
	assert.NoError(t, w.RevokeUserToken(ctx, asAda, own.ID))

	_, _, err = w.CreateUserToken(ctx, asAda, ada.ID, "", -time.Second)
	assert.True(t, fault.Is(err, fault.Invalid))
	_, _, err = w.CreateUserToken(ctx, asAda, ada.ID, "a\x00b", 0)
	assert.True(t, fault.Is(err, fault.Invalid))
}

func TestRunnerGroups(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	org := w.organization("one")
	forAll, all, err := w.CreateRunnerGroup(ctx, system, "", "all")
	require.NoError(t, err)
	forOne, one, err := w.CreateRunnerGroup(ctx, system, org.ID, "only one")
	require.NoError(t, err)

	got, err := w.RunnerGroupByToken(ctx, forAll)
	require.NoError(t, err)
	assert.Equal(t, all, got)
	assert.Empty(t, got.Organization)
	got, err = w.RunnerGroupByToken(ctx, forOne)
	require.NoError(t, err)
	assert.Equal(t, one, got)
	assert.Equal(t, org.ID, got.Organization)

	w.exec("update organizations set deleted_at = clock_timestamp() where id = @id", postgres.Args{"id": org.ID})
	for name, token := range map[string]string{"deleted organization": forOne, "none": "", "unknown": "hfr_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"} {
		_, err = w.RunnerGroupByToken(ctx, token)
		assert.Truef(t, fault.Is(err, fault.Unauthenticated), name)
	}
	_, _, err = w.CreateRunnerGroup(ctx, system, org.ID, "late")
	assert.True(t, fault.Is(err, fault.NotFound))
	_, _, err = w.CreateRunnerGroup(ctx, system, "", "a/b")
	assert.True(t, fault.Is(err, fault.Invalid))
	_, _, err = w.CreateRunnerGroup(ctx, w.actor(w.user("ada")), "", "mine")
	assert.True(t, fault.Is(err, fault.Forbidden))
}
