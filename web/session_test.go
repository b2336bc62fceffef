package web_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/authz"
)

func TestSignInAndOut(t *testing.T) {
	s := newSite(t)
	b := s.browser()
	form := b.get("/sign-in")
	for _, label := range []string{`<label for="username">`, `id="username"`, `<label for="password">`, `id="password"`, `autocomplete="current-password"`} {
		assert.Contains(t, form.text, label)
	}
	wrong := b.signIn(`ann"><i>`, "wrong", "")
	assert.Equal(t, 401, wrong.status)
	assert.Contains(t, wrong.text, "The username or the password is wrong.")
	assert.Contains(t, wrong.text, `value="ann&#34;&gt;&lt;i&gt;"`, "what was typed is kept, escaped")
	assert.Empty(t, b.cookie())
	assert.NotContains(t, b.signIn("ann", "sesame-opened", "").text, "sesame-opened")

	right := b.signIn("ann", password, "")
	require.Equal(t, http.StatusSeeOther, right.status)
	assert.Equal(t, "/app/settings/tokens", right.location())
	cookie := right.header.Get("Set-Cookie")
	assert.Regexp(t, `^__Host-holdfast-session=hfs_[A-Za-z0-9_-]{43}; Path=/; HttpOnly; Secure; SameSite=Lax$`, cookie)
	first := b.cookie()
	b.signIn("ann", password, "")
	assert.NotEqual(t, first, b.cookie(), "each sign-in is a session of its own")

	page := b.get("/app/settings/tokens")
	require.Equal(t, 200, page.status)
	assert.Equal(t, 405, b.get("/sign-out").status, "a link signs nobody out")
	out := b.post("/sign-out", page.fields())
	require.Equal(t, http.StatusSeeOther, out.status)
	kept := http.Header{"Cookie": {"__Host-holdfast-session=" + page.fields().Get("form_token")}}
	assert.Equal(t, http.StatusSeeOther, s.browser().do("GET", "/app/settings/tokens", nil, kept).status, "the form token is not the session")
	assert.Empty(t, b.cookie())
	assert.Equal(t, "/sign-in?next=%2Fapp%2Fsettings%2Ftokens", b.get("/app/settings/tokens").location())
}

func TestGuessingIsLimited(t *testing.T) {
	s := newSite(t)
	b := s.browser()
	for range 10 {
		require.Equal(t, 401, b.signIn("ann", "wrong", "").status)
	}
	limited := b.signIn("ann", password, loginPath())
	assert.Equal(t, 429, limited.status)
	assert.Contains(t, limited.text, "Try again in 15 minutes.")
	assert.Equal(t, loginPath(), limited.fields().Get("next"), "the login is not lost")
	assert.Empty(t, b.cookie())
	assert.Equal(t, http.StatusSeeOther, b.signIn("bob", password, "").status)
}

func TestTheAddressOfASignIn(t *testing.T) {
	s := newSite(t)
	code := func(forwarded ...string) string {
		b := s.signedIn("ann")
		page := b.get(loginPath())
		form := page.fields()
		form.Set("decision", "allow")
		sent := b.do("POST", "/oauth/authorize", strings.NewReader(form.Encode()), http.Header{
			"Content-Type": {"application/x-www-form-urlencoded"}, "X-Forwarded-For": forwarded,
		})
		back, err := url.Parse(sent.location())
		require.NoError(t, err)
		return back.Query().Get("code")
	}
	for want, forwarded := range map[string][]string{
		"127.0.0.1":         nil,
		"203.0.113.9":       {"203.0.113.9"},
		"203.0.113.8":       {"198.51.100.1, 203.0.113.8, 10.0.0.2"},
		"203.0.113.7":       {"198.51.100.1", "203.0.113.7, 10.0.0.2"},
		"10.0.0.3":          {"nonsense, 10.0.0.3"},
		"2001:db8:1:2::/64": {"2001:db8:1:2:3:4:5:6"},
		"203.0.113.6":       {"::ffff:203.0.113.6"},
	} {
		s.redeem(exchange(code(forwarded...)))
		assert.Contains(t, s.signedIn("ann").get("/app/settings/tokens").text, "tofu login from "+want+", for")
	}
}

// TestForms: what another site sends, or a page of another session, does nothing.
func TestForms(t *testing.T) {
	s := newSite(t)
	b := s.signedIn("ann")
	fields := b.get(loginPath()).fields()
	fields.Set("decision", "allow")
	fields.Set("description", "mine")
	fields.Set("days", "30")
	fields.Set("username", "ann")
	fields.Set("password", password)
	tokens, err := s.accounts.UserTokens(t.Context(), authz.System(), s.ann.ID)
	require.NoError(t, err)
	require.Empty(t, tokens)
	_, token, err := s.accounts.CreateUserToken(t.Context(), authz.System(), s.ann.ID, "first", 0)
	require.NoError(t, err)

	forms := []string{"/sign-out", "/oauth/authorize", "/app/settings/tokens", "/app/settings/tokens/" + string(token.ID) + "/revoke"}
	for _, path := range append([]string{"/sign-in"}, forms...) {
		for _, where := range []string{"cross-site", "same-site", "nonsense"} {
			assert.Equalf(t, 403, b.postFrom(where, path, fields).status, "%s from %s", path, where)
		}
		foreign := b.do("POST", path, strings.NewReader(fields.Encode()), http.Header{
			"Content-Type": {"application/x-www-form-urlencoded"}, "Origin": {"https://evil.example"},
		})
		assert.Equalf(t, 403, foreign.status, "%s from an old browser", path)
	}
	for _, path := range forms {
		for name, formToken := range map[string]string{"none": "", "another's": s.signedIn("bob").get("/app/settings/tokens").fields().Get("form_token"), "cut": fields.Get("form_token")[1:]} {
			spoiled := url.Values{}
			for field, values := range fields {
				spoiled[field] = values
			}
			spoiled.Set("form_token", formToken)
			assert.Equalf(t, 403, b.post(path, spoiled).status, "%s with form token: %s", path, name)
		}
		assert.Equalf(t, http.StatusSeeOther, s.browser().post(path, fields).status, "%s without a session", path)
	}
	left, err := s.accounts.UserTokens(t.Context(), authz.System(), s.ann.ID)
	require.NoError(t, err)
	assert.Len(t, left, 1, "nothing was made or revoked")
	assert.Equal(t, 200, b.get("/app/settings/tokens").status, "nobody was signed out")

	sameOrigin := b.do("POST", "/app/settings/tokens", strings.NewReader(fields.Encode()), http.Header{
		"Content-Type": {"application/x-www-form-urlencoded"}, "Origin": {"https://" + s.host},
	})
	assert.Equal(t, 200, sameOrigin.status, "an old browser on our own page")
}

func TestTheAPIIgnoresCookies(t *testing.T) {
	s := newSite(t)
	b := s.signedIn("ann")
	require.NotEmpty(t, b.cookie())
	require.Equal(t, 200, b.get("/app/settings/tokens").status)
	for _, path := range []string{"/api/v2/account/details", "/api/v2/organizations", "/api/v2/organizations/acme/workspaces"} {
		assert.Equal(t, 401, b.get(path).status, path)
	}
	created := b.do("POST", "/api/v2/organizations/acme/workspaces", strings.NewReader(`{"data":{"type":"workspaces","attributes":{"name":"x"}}}`),
		http.Header{"Content-Type": {"application/vnd.api+json"}})
	assert.Equal(t, 401, created.status)
	assert.Equal(t, 401, s.account(bearer(b.cookie())).status, "the session is no token either")
	assert.Equal(t, 200, b.get("/.well-known/terraform.json").status)
}

func TestEveryPageForbidsScriptsFramesAndCopies(t *testing.T) {
	s := newSite(t)
	b, stranger := s.signedIn("ann"), s.browser()
	run := s.run()
	form := b.get("/app/settings/tokens").fields()
	for name, page := range map[string]answer{
		"sign-in": stranger.get("/sign-in"), "wrong password": stranger.signIn("ann", "wrong", ""), "signed in": stranger.signIn("bob", password, ""),
		"consent": b.get(loginPath()), "refused login": b.get("/oauth/authorize"), "token": b.post("/oauth/token", url.Values{}),
		"tokens": b.get("/app/settings/tokens"), "new token": b.post("/app/settings/tokens", url.Values{"form_token": form["form_token"], "description": {"x"}, "days": {"30"}}),
		"a foreign form": b.postFrom("cross-site", "/sign-out", form), "an old form": b.post("/sign-out", url.Values{}), "not signed in": s.browser().get("/app/settings/tokens"),
		"run": b.get(run), "run of a stranger": s.browser().get(run), "no such run": b.get("/app/acme/shop/runs/x"), "no page": b.get("/app/x"),
		"no method": b.get("/oauth/token"), "style": b.get("/app/holdfast.css"),
	} {
		policy := page.header.Get("Content-Security-Policy")
		assert.Contains(t, policy, "default-src 'none'; style-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'", name)
		assert.NotContains(t, policy, "unsafe", name)
		assert.Equal(t, "DENY", page.header.Get("X-Frame-Options"), name)
		assert.Equal(t, "no-store", page.header.Get("Cache-Control"), name)
		assert.Equal(t, "nosniff", page.header.Get("X-Content-Type-Options"), name)
		for _, forbidden := range []string{"<script", "javascript:", "style=", "<style", "onclick", "http-equiv"} {
			assert.NotContains(t, page.text, forbidden, name)
		}
	}
	assert.Contains(t, b.get("/app/holdfast.css").header.Get("Content-Type"), "text/css")
}

func TestARunIsShownToWhoIsSignedInAndMaySeeIt(t *testing.T) {
	s := newSite(t)
	run := s.run()
	stranger := s.browser()
	told := stranger.get(run)
	assert.Equal(t, 200, told.status)
	assert.NotContains(t, told.text, "Status")
	assert.Contains(t, told.text, `href="/sign-in?next=`+url.QueryEscape(run)+`"`)

	ann := s.browser()
	require.Equal(t, run, ann.signIn("ann", password, run).location())
	page := ann.get(run)
	assert.Equal(t, 200, page.status)
	assert.Contains(t, page.text, `<th scope="row">Status</th>`)
	assert.Equal(t, 404, ann.get(strings.Replace(run, "shop", "other", 1)).status)
	assert.Equal(t, 404, s.signedIn("bob").get(run).status, "as one that does not exist")
	s.exec("update sessions set ended_at = clock_timestamp()")
	assert.Equal(t, told.text, ann.get(run).text, "a session that is over is none")
}
