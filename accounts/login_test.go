package accounts_test

import (
	"crypto/sha256"
	"encoding/base64"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/postgres"
)

const (
	verifier = "3a1c3d5e-0b7a-4c39-9a53-51f6f0a3d1c2.123456789"
	callback = "http://localhost:10007/login"
)

func challenge(verifier string) string {
	sum := sha256.Sum256([]byte(verifier))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

var request = accounts.LoginRequest{Client: accounts.LoginClient, RedirectURI: callback, Challenge: challenge(verifier)}

func (w world) createCode(session string) string {
	w.Helper()
	code, err := w.CreateLoginCode(ctx, session, request, "192.0.2.7")
	require.NoError(w, err)
	return code
}

func exchange(code string) accounts.LoginExchange {
	return accounts.LoginExchange{Code: code, Client: accounts.LoginClient, RedirectURI: callback, Verifier: verifier}
}

func (w world) refuses(x accounts.LoginExchange, why string) {
	w.Helper()
	token, _, err := w.RedeemLoginCode(ctx, x)
	assert.Truef(w, fault.HasCode(err, "invalid_grant"), "%s: %v", why, err)
	assert.Empty(w, token, why)
}

func TestALoginCodeGivesItsUserAToken(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada := w.withPassword("ada")
	code := w.createCode(w.signIn("ada"))
	assert.NotContains(t, w.dump(), code[4:])

	plain, token, err := w.RedeemLoginCode(ctx, exchange(code))
	require.NoError(t, err)
	actor, err := w.Authenticate(ctx, plain)
	require.NoError(t, err)
	assert.Equal(t, ada.ID, actor.User)
	assert.Equal(t, "tofu login from 192.0.2.7, for 365 days", token.Description)
	assert.WithinDuration(t, token.CreatedAt.AddDate(0, 0, 365), *token.ExpiresAt, time.Minute)
	tokens, err := w.UserTokens(ctx, actor, ada.ID)
	require.NoError(t, err)
	assert.Equal(t, []accounts.Token{token}, tokens, "an ordinary token of the user's own")
	assert.Equal(t, 1, w.count("select count(*) from audit_entries where action = 'token.created' and actor_id = @user and object_id = @id",
		postgres.Args{"user": ada.ID, "id": token.ID}))
}

func TestALoginCodeUsedAgainRevokesItsToken(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.withPassword("ada")
	code := w.createCode(w.signIn("ada"))
	plain, token, err := w.RedeemLoginCode(ctx, exchange(code))
	require.NoError(t, err)
	w.refuses(exchange(code), "a second time")
	_, err = w.Authenticate(ctx, plain)
	assert.True(t, fault.Is(err, fault.Unauthenticated), "nobody knows who has it")
	assert.Equal(t, 1, w.count("select count(*) from audit_entries where action = 'token.revoked' and object_id = @id and reason <> ''", postgres.Args{"id": token.ID}))
	w.refuses(exchange(code), "a third time")
}

func TestALoginCodeUsedManyTimesAtOnceGivesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.withPassword("ada")
	code := w.createCode(w.signIn("ada"))
	given := make([]string, 8)
	var all sync.WaitGroup
	for i := range given {
		all.Go(func() { given[i], _, _ = w.RedeemLoginCode(ctx, exchange(code)) })
	}
	all.Wait()
	plain := ""
	for _, token := range given {
		if token != "" {
			assert.Empty(t, plain, "one token at most")
			plain = token
		}
	}
	require.NotEmpty(t, plain)
	_, err := w.Authenticate(ctx, plain)
	assert.True(t, fault.Is(err, fault.Unauthenticated))
	assert.Equal(t, 1, w.count("select count(*) from tokens", nil))
}

func TestALoginCodeIsBoundToItsRequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.withPassword("ada")
	session := w.signIn("ada")
	for name, spoil := range map[string]func(*accounts.LoginExchange){
		"another client":              func(x *accounts.LoginExchange) { x.Client = "other" },
		"another port":                func(x *accounts.LoginExchange) { x.RedirectURI = "http://localhost:10008/login" },
		"another name":                func(x *accounts.LoginExchange) { x.RedirectURI = "http://127.0.0.1:10007/login" },
		"no verifier":                 func(x *accounts.LoginExchange) { x.Verifier = "" },
		"another verifier":            func(x *accounts.LoginExchange) { x.Verifier += "0" },
		"the challenge as a verifier": func(x *accounts.LoginExchange) { x.Verifier = request.Challenge },
	} {
		code := w.createCode(session)
		x := exchange(code)
		spoil(&x)
		w.refuses(x, name)
		w.refuses(exchange(code), name+": the code is spent all the same")
	}
	empty := request
	empty.Challenge = challenge("")
	code, err := w.CreateLoginCode(ctx, session, empty, "")
	require.NoError(t, err)
	x := exchange(code)
	x.Verifier = ""
	w.refuses(x, "a verifier of nothing proves nothing")
	for name, code := range map[string]string{
		"none": "", "unknown": "hfc_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "NUL": "hfc_\x00", "a session": session,
	} {
		w.refuses(exchange(code), name)
	}
	assert.Zero(t, w.count("select count(*) from tokens", nil))
}

func TestALoginCodeLastsAMinuteAndNoLongerThanItsSession(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	asAda := w.actor(w.withPassword("ada"))
	session := w.signIn("ada")
	late := w.createCode(session)
	w.exec("update login_codes set created_at = clock_timestamp() - interval '60 seconds'", nil)
	w.refuses(exchange(late), "after a minute")

	code, othersCode := w.createCode(session), w.createCode(w.signIn("ada"))
	require.NoError(t, w.SignOut(ctx, asAda, session))
	w.refuses(exchange(code), "its session was signed out")
	_, _, err := w.RedeemLoginCode(ctx, exchange(othersCode))
	require.NoError(t, err, "that of another session counts")

	_, err = w.CreateLoginCode(ctx, session, request, "")
	assert.True(t, fault.Is(err, fault.Unauthenticated), "a session that is over gives no code")
	_, err = w.CreateLoginCode(ctx, "hfs_x", request, "")
	assert.True(t, fault.Is(err, fault.Unauthenticated))
}

func TestLoginRequests(t *testing.T) {
	t.Parallel()
	ok := func(redirect string) {
		r := request
		r.RedirectURI = redirect
		assert.NoErrorf(t, r.Check(), "%q", redirect)
	}
	for _, good := range []string{callback, "http://127.0.0.1:10000/login", "http://localhost:10000/login", "http://localhost:10099/login"} {
		ok(good)
	}
	for _, bad := range []string{
		"", "http://localhost:9999/login", "http://localhost:10100/login", "http://localhost:010007/login", "http://localhost/login",
		"https://localhost:10007/login", "http://localhost:10007/login/", "http://localhost:10007/", "http://localhost:10007/login?x=1",
		"http://localhost:10007/login#x", "http://localhost:10007/login\n", "http://evil.example:10007/login", "http://localhost.evil.example:10007/login",
		"http://localhost:10007@evil.example/login", "http://user@localhost:10007/login", "http://LOCALHOST:10007/login", "http://[::1]:10007/login",
		"//localhost:10007/login", "javascript:alert(1)", "http://127.0.0.1.evil.example:10007/login", "http://127x0x0x1:10007/login",
		"http://localhost:99999999999999999999/login", " http://localhost:10007/login",
	} {
		r := request
		r.RedirectURI = bad
		assert.Truef(t, fault.HasCode(r.Check(), "invalid_redirect_uri"), "%q: %v", bad, r.Check())
	}
	for _, bad := range []string{"", "short", request.Challenge + "A", request.Challenge[:42] + "=", request.Challenge[:42] + "/", request.Challenge[:42] + "\n"} {
		r := request
		r.Challenge = bad
		assert.Truef(t, fault.HasCode(r.Check(), "invalid_challenge"), "%q", bad)
	}
	r := request
	r.Client = "holdfast-cli\x00"
	assert.True(t, fault.HasCode(r.Check(), "invalid_client"))
	_, err := accounts.New(nil, nil).CreateLoginCode(ctx, "", r, "")
	assert.True(t, fault.HasCode(err, "invalid_client"), "whoever makes a code checks")
}

func TestUserTokensListsThoseThatCount(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada, bob := w.user("ada"), w.user("bob")
	make := func(user accounts.User, description string) accounts.Token {
		_, token, err := w.CreateUserToken(ctx, system, user.ID, description, 0)
		require.NoError(t, err)
		return token
	}
	first, second := make(ada, "first"), make(ada, "second")
	make(bob, "foreign")
	require.NoError(t, w.RevokeUserToken(ctx, system, make(ada, "revoked").ID))
	w.exec("update tokens set expires_at = clock_timestamp() where id = @id", postgres.Args{"id": make(ada, "expired").ID})
	tokens, err := w.UserTokens(ctx, system, ada.ID)
	require.NoError(t, err)
	assert.Equal(t, []accounts.Token{second, first}, tokens)
	_, err = w.UserTokens(ctx, w.actor(bob), ada.ID)
	assert.True(t, fault.Is(err, fault.NotFound))
}
