package web_test

import (
	"html"
	"net/http"
	"net/url"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/authz"
)

var newToken = regexp.MustCompile(`<pre id="new-token">(hfu_[A-Za-z0-9_-]{43})</pre>`)

func TestTokensAreCreatedListedAndRevoked(t *testing.T) {
	s := newSite(t)
	b := s.signedIn("ann")
	empty := b.get("/app/settings/tokens")
	require.Equal(t, 200, empty.status)
	assert.Contains(t, empty.text, "You have no tokens.")
	assert.Contains(t, empty.text, `<label for="description">`)
	form := empty.fields()
	form.Set("description", "<b>laptop</b>")
	form.Set("days", "90")

	made := b.post("/app/settings/tokens", form)
	require.Equal(t, 200, made.status, made.text)
	shown := newToken.FindStringSubmatch(made.text)
	require.NotNil(t, shown)
	assert.Equal(t, 200, s.account(bearer(shown[1])).status)
	tokens, err := s.accounts.UserTokens(t.Context(), authz.System(), s.ann.ID)
	require.NoError(t, err)
	require.Len(t, tokens, 1)
	assert.WithinDuration(t, tokens[0].CreatedAt.Add(90*24*time.Hour), *tokens[0].ExpiresAt, time.Minute)

	list := b.get("/app/settings/tokens")
	assert.NotContains(t, list.text, "hfu_", "it is shown once")
	assert.Contains(t, list.text, html.EscapeString("<b>laptop</b>"))
	assert.Contains(t, list.text, tokens[0].CreatedAt.UTC().Format("2006-01-02 15:04 UTC"))
	assert.Contains(t, list.text, tokens[0].ExpiresAt.UTC().Format("2006-01-02 15:04 UTC"))
	assert.NotContains(t, s.log.String(), shown[1])

	revoke := "/app/settings/tokens/" + string(tokens[0].ID) + "/revoke"
	assert.Equal(t, 405, b.get(revoke).status)
	bob := s.signedIn("bob")
	assert.NotContains(t, bob.get("/app/settings/tokens").text, "laptop")
	bob.post(revoke, bob.get("/app/settings/tokens").fields())
	assert.Equal(t, 200, s.account(bearer(shown[1])).status, "another user's token is out of reach")
	for range 2 { // the second time it is gone already
		assert.Equal(t, "/app/settings/tokens", b.post(revoke, form).location())
		assert.Equal(t, 401, s.account(bearer(shown[1])).status)
	}
	assert.Contains(t, b.get("/app/settings/tokens").text, "You have no tokens.")
}

func TestASiteAdminRevokesOwnTokensHere(t *testing.T) {
	s := newSite(t)
	s.exec("update users set site_admin = true where username = 'bob'")
	plain, token, err := s.accounts.CreateUserToken(t.Context(), authz.System(), s.ann.ID, "", 0)
	require.NoError(t, err)
	bob := s.signedIn("bob")
	require.Equal(t, http.StatusSeeOther, bob.post("/app/settings/tokens/"+string(token.ID)+"/revoke", bob.get("/app/settings/tokens").fields()).status)
	assert.Equal(t, 200, s.account(bearer(plain)).status)
}

func TestTokensThatAreNotMade(t *testing.T) {
	s := newSite(t)
	b := s.signedIn("ann")
	form := b.get("/app/settings/tokens").fields()
	for name, c := range map[string][2]string{
		"no description": {"", "30"}, "no lifetime": {"x", ""}, "no end": {"x", "0"}, "longer than offered": {"x", "100000"}, "negative": {"x", "-1"}, "NUL": {"x\x00", "30"},
	} {
		form.Set("description", c[0])
		form.Set("days", c[1])
		sent := b.post("/app/settings/tokens", form)
		assert.Equal(t, 422, sent.status, name)
		assert.Contains(t, sent.text, `role="alert"`, name)
	}
	tokens, err := s.accounts.UserTokens(t.Context(), authz.System(), s.ann.ID)
	require.NoError(t, err)
	assert.Empty(t, tokens)
}

// TestTheTokenPageOfALogin is the way a client goes that cannot take a code.
func TestTheTokenPageOfALogin(t *testing.T) {
	s := newSite(t)
	b := s.browser()
	asked := b.get("/app/settings/tokens?source=terraform-login")
	require.Equal(t, http.StatusSeeOther, asked.status)
	next := b.get(asked.location()).fields().Get("next")
	page := b.get(b.signIn("ann", password, next).location())
	require.Equal(t, 200, page.status)
	assert.Contains(t, page.text, "Your terminal waits for a token.")
	made := b.post("/app/settings/tokens", url.Values{
		"form_token": page.fields()["form_token"], "source": page.fields()["source"], "description": {"login"}, "days": {"365"},
	})
	assert.Contains(t, made.text, "paste it into your terminal")
	shown := newToken.FindStringSubmatch(made.text)
	require.NotNil(t, shown)
	account := s.account(bearer(shown[1]))
	assert.Equal(t, 200, account.status)
	assert.Contains(t, account.text, `"type":"users"`)
	assert.Contains(t, account.text, `"username":"ann"`)
}
