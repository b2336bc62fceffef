package web_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestALoginFromTheBrowserToTheToken(t *testing.T) {
	s := newSite(t)
	b := s.browser()
	asked := b.get(loginPath())
	require.Equal(t, http.StatusSeeOther, asked.status)
	form := b.get(asked.location())
	require.Equal(t, 200, form.status)
	assert.Contains(t, form.text, "A program on your machine wants to log in here.")
	signedIn := b.signIn("ann", password, form.fields().Get("next"))
	require.Equal(t, http.StatusSeeOther, signedIn.status)

	page := b.get(signedIn.location())
	require.Equal(t, 200, page.status, "back at the same request")
	for _, told := range []string{s.host, "<code>ann</code>", "localhost:10007", "everything that you may do here", "365 days"} {
		assert.Contains(t, page.text, told)
	}
	assert.Contains(t, page.header.Get("Content-Security-Policy"), "form-action 'self' http://localhost:10007", "browsers hold the answer's redirect to it")

	allowed := b.consent(page, "allow")
	require.Equal(t, http.StatusSeeOther, allowed.status)
	back, err := url.Parse(allowed.location())
	require.NoError(t, err)
	assert.Equal(t, callback, "http://"+back.Host+back.Path)
	assert.Equal(t, "a&b=c d", back.Query().Get("state"))

	status, body := s.redeem(exchange(back.Query().Get("code")))
	require.Equal(t, 200, status, body)
	assert.Equal(t, "bearer", body["token_type"])
	token := body["access_token"].(string)
	account := s.account(bearer(token))
	require.Equal(t, 200, account.status)
	assert.Contains(t, account.text, `"username":"ann"`)
	assert.Contains(t, b.get("/app/settings/tokens").text, "tofu login from 127.0.0.1, for 365 days")
	assert.Contains(t, s.log.String(), "route=/oauth/authorize", "what was asked for is logged by its template")
	assert.NotContains(t, s.log.String(), token)
	assert.NotContains(t, s.log.String(), back.Query().Get("code"))
}

func TestALoginWithAnExpiredSessionGoesOnAfterSigningIn(t *testing.T) {
	s := newSite(t)
	b := s.signedIn("ann")
	page := b.get(loginPath())
	s.exec("update sessions set created_at = clock_timestamp() - interval '8 days'")
	for _, asked := range []answer{b.get(loginPath()), b.consent(page, "allow")} {
		require.Equal(t, http.StatusSeeOther, asked.status)
		require.True(t, strings.HasPrefix(asked.location(), "/sign-in?"), asked.location())
		fields := s.browser().get(asked.location()).fields()
		assert.Equal(t, loginPath(), fields.Get("next"), "the original request")
	}
	require.Equal(t, loginPath(), b.signIn("ann", password, loginPath()).location())
	status, body := s.redeem(exchange(b.code()))
	assert.Equal(t, 200, status, body)
}

func TestALoginThatIsNotAllowed(t *testing.T) {
	s := newSite(t)
	b := s.signedIn("ann")
	refused := b.consent(b.get(loginPath()), "refuse")
	assert.Equal(t, 200, refused.status)
	assert.Empty(t, refused.location())
	assert.Contains(t, refused.text, "Nothing was allowed")

	switched := b.consent(b.get(loginPath()), "switch")
	require.Equal(t, http.StatusSeeOther, switched.status)
	assert.Empty(t, b.cookie())
	require.Equal(t, loginPath(), b.signIn("bob", password, b.get(switched.location()).fields().Get("next")).location())
	assert.Contains(t, b.get(loginPath()).text, "<code>bob</code>")
}

func TestNobodyIsSentElsewhere(t *testing.T) {
	s := newSite(t)
	b := s.signedIn("ann")
	page := b.get(loginPath())
	for _, target := range []string{
		"", "https://evil.example/login", "http://evil.example:10007/login", "http://localhost:10007@evil.example/login", "//evil.example:10007/login",
		"http://localhost:80/login", "http://localhost:10100/login", "http://localhost:10007/other", "http://localhost:10007/login?x=", "javascript:alert(1)",
	} {
		query := loginQuery()
		query.Set("redirect_uri", target)
		asked := b.get("/oauth/authorize?" + query.Encode())
		assert.Equalf(t, 422, asked.status, "%q", target)
		assert.Emptyf(t, asked.location(), "%q", target)
		assert.NotContains(t, asked.text, "evil.example")
		form := page.fields()
		form.Set("redirect_uri", target)
		form.Set("decision", "allow")
		sent := b.post("/oauth/authorize", form)
		assert.Equalf(t, 422, sent.status, "%q", target)
		assert.Emptyf(t, sent.location(), "%q", target)
	}
	for _, next := range []string{
		"https://evil.example/", "//evil.example/app/", `/\evil.example/app/`, `\\evil.example`, "/app/..//evil.example", "/app/%2F%2Fevil.example",
		"/app/%5Cevil", "https:evil.example", "javascript:alert(1)", "/app/%0d%0aSet-Cookie:x", "/%09/evil.example", "/api/v2/ping", "/sign-out", "app/x",
		"/oauth/authorizex", "/app/%zz", "/app/" + strings.Repeat("a", 5000), "http://user@/app/", "/",
	} {
		for _, got := range []string{b.signIn("ann", password, next).location(), b.get("/sign-in?" + url.Values{"next": {next}}.Encode()).fields().Get("next")} {
			assert.Equalf(t, "/app/settings/tokens", got, "%q", next)
		}
	}
	for _, next := range []string{"/app/acme/shop/runs/run-x", "/app/settings/tokens?source=terraform-login", loginPath()} {
		assert.Equal(t, next, b.signIn("ann", password, next).location())
	}
}

func TestLoginRequestsThatAreRefused(t *testing.T) {
	s := newSite(t)
	b := s.signedIn("ann")
	form := b.get(loginPath()).fields()
	for name, spoil := range map[string]func(url.Values){
		"another client":            func(v url.Values) { v.Set("client_id", "other") },
		"no client":                 func(v url.Values) { v.Del("client_id") },
		"a token at once":           func(v url.Values) { v.Set("response_type", "token") },
		"no challenge":              func(v url.Values) { v.Del("code_challenge") },
		"a broken challenge":        func(v url.Values) { v.Set("code_challenge", "x") },
		"the plain method":          func(v url.Values) { v.Set("code_challenge_method", "plain") },
		"no method, which is plain": func(v url.Values) { v.Del("code_challenge_method") },
		"a scope":                   func(v url.Values) { v.Set("scope", "admin") },
		"an endless state":          func(v url.Values) { v.Set("state", strings.Repeat("x", 513)) },
	} {
		query := loginQuery()
		spoil(query)
		asked := b.get("/oauth/authorize?" + query.Encode())
		assert.Equal(t, 422, asked.status, name)
		assert.Contains(t, asked.text, `role="alert"`, name)
		spoiled := url.Values{"decision": {"allow"}}
		for field, values := range form {
			spoiled[field] = values
		}
		spoil(spoiled)
		sent := b.post("/oauth/authorize", spoiled)
		assert.Equal(t, 422, sent.status, name)
		assert.Empty(t, sent.location(), name)
	}
	assert.Equal(t, 400, b.get(loginPath()+"&redirect_uri=http%3A%2F%2Flocalhost%3A10008%2Flogin").status, "twice the same parameter")
}

func TestTheTokenAddressRefuses(t *testing.T) {
	s := newSite(t)
	b := s.signedIn("ann")
	for name, c := range map[string]struct {
		spoil func(url.Values)
		error string
	}{
		"no verifier":      {func(v url.Values) { v.Del("code_verifier") }, "invalid_grant"},
		"a wrong verifier": {func(v url.Values) { v.Set("code_verifier", "wrong") }, "invalid_grant"},
		"another port":     {func(v url.Values) { v.Set("redirect_uri", "http://localhost:10008/login") }, "invalid_grant"},
		"another client":   {func(v url.Values) { v.Set("client_id", "other") }, "invalid_grant"},
		"no code":          {func(v url.Values) { v.Del("code") }, "invalid_grant"},
		"an unknown code":  {func(v url.Values) { v.Set("code", "hfc_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA") }, "invalid_grant"},
		"a NUL":            {func(v url.Values) { v.Set("code", "hfc_\x00") }, "invalid_grant"},
		"a session":        {func(v url.Values) { v.Set("code", b.cookie()) }, "invalid_grant"},
		"no grant type":    {func(v url.Values) { v.Del("grant_type") }, "unsupported_grant_type"},
		"the password":     {func(v url.Values) { v.Set("grant_type", "password") }, "unsupported_grant_type"},
		"two codes":        {func(v url.Values) { v.Add("code", "x") }, "invalid_request"},
		"an endless form":  {func(v url.Values) { v.Set("x", strings.Repeat("x", 100_000)) }, "invalid_request"},
	} {
		form := exchange(b.code())
		c.spoil(form)
		status, body := s.redeem(form)
		assert.Equal(t, 400, status, name)
		assert.Equal(t, c.error, body["error"], name)
		assert.NotContains(t, body, "access_token", name)
	}

	late := b.code()
	s.exec("update login_codes set created_at = clock_timestamp() - interval '61 seconds'")
	status, body := s.redeem(exchange(late))
	assert.Equal(t, 400, status, "after a minute")
	assert.Equal(t, "invalid_grant", body["error"])

	assert.Equal(t, 405, b.get("/oauth/token").status, "a code does not stand in an address")
}

func TestACodeUsedTwiceIsWorthNothing(t *testing.T) {
	s := newSite(t)
	code := s.signedIn("ann").code()
	_, body := s.redeem(exchange(code))
	token := body["access_token"].(string)
	require.Equal(t, 200, s.account(bearer(token)).status)
	status, _ := s.redeem(exchange(code))
	assert.Equal(t, 400, status)
	assert.Equal(t, 401, s.account(bearer(token)).status)
}

func TestACodeBelongsToItsSession(t *testing.T) {
	s := newSite(t)
	ann, annElsewhere, bob := s.signedIn("ann"), s.signedIn("ann"), s.signedIn("bob")
	stolen := bob.get(loginPath())
	for name, b := range map[string]*browser{"another user's form": ann, "another browser's form": annElsewhere} {
		page := stolen
		if b == annElsewhere {
			page = ann.get(loginPath())
		}
		sent := b.consent(page, "allow")
		assert.Equal(t, http.StatusForbidden, sent.status, name)
		assert.Empty(t, sent.location(), name)
	}

	code, other := ann.code(), annElsewhere.code()
	form := ann.get("/app/settings/tokens").fields()
	require.Equal(t, http.StatusSeeOther, ann.post("/sign-out", form).status)
	status, _ := s.redeem(exchange(code))
	assert.Equal(t, 400, status, "signed out before the exchange")
	status, _ = s.redeem(exchange(other))
	assert.Equal(t, 200, status)
}
