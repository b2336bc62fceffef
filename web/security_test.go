package web_test

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/clock"
	"github.com/holdfast-run/holdfast/postgres"
)

const securityPage = "/app/settings/security"

var (
	shownSecret = regexp.MustCompile(`<pre id="secret">([A-Z2-7]+)</pre>`)
	shownCodes  = regexp.MustCompile(`(?s)<pre id="recovery-codes">(.*?)</pre>`)
)

// act sends a form of the page.
func (b *browser) act(action string, fields ...string) answer {
	b.Helper()
	form := b.get(securityPage).fields()
	for i := 0; i < len(fields); i += 2 {
		form.Set(fields[i], fields[i+1])
	}
	return b.post(securityPage+"/"+action, form)
}

func (b *browser) codeOf(secret string) string {
	b.Helper()
	b.exec("update totp_factors set last_step = 0") // the half minute may be that of the code before
	code, err := accounts.CurrentCode(secret, clock.Now())
	require.NoError(b, err)
	return code
}

func TestASecondFactorIsEnrolledAndUsedOnItsPage(t *testing.T) {
	s := newSite(t)
	b := s.signedIn("ann")
	assert.Contains(t, b.get("/app/settings/tokens").text, `href="/app/settings/security"`)
	empty := b.get(securityPage)
	require.Equal(t, 200, empty.status)
	assert.Contains(t, empty.text, "You have no second factor.")
	wrong := b.act("begin", "password", "another horse battery")
	assert.Equal(t, 403, wrong.status)
	assert.Contains(t, wrong.text, "The password is wrong")
	begun := b.act("begin", "password", password)
	require.Equal(t, 200, begun.status, begun.text)
	secret := shownSecret.FindStringSubmatch(begun.text)
	require.NotNil(t, secret)
	assert.Contains(t, begun.text, "otpauth://totp/Holdfast:ann@"+s.host)
	refused := b.act("confirm", "code", "no code")
	assert.Equal(t, 422, refused.status)
	assert.Contains(t, refused.text, "The code is wrong")
	assert.NotContains(t, refused.text, secret[1], "it is shown once")
	confirmed := b.act("confirm", "code", b.codeOf(secret[1]))
	require.Equal(t, 200, confirmed.status, confirmed.text)
	codes := strings.Fields(shownCodes.FindStringSubmatch(confirmed.text)[1])
	require.Len(t, codes, 10)

	page := b.get(securityPage)
	assert.NotContains(t, page.text, codes[0], "they are shown once")
	assert.Contains(t, page.text, "<td>10</td>")
	for _, action := range []string{"disable", "recovery-codes"} {
		early := b.act(action)
		assert.Equal(t, 403, early.status)
		assert.Contains(t, early.text, "Prove once more who you are, with the form below.")
	}
	assert.Equal(t, 403, b.act("step-up", "password", password, "code", "000000 ").status)
	require.Equal(t, 200, b.act("step-up", "password", password, "code", b.codeOf(secret[1])).status)
	assert.Contains(t, b.get(securityPage).text, "<td>until ")
	other := s.signedIn("ann")
	assert.Contains(t, other.get(securityPage).text, "<td>no</td>", "another session of the user is not stepped up")
	require.Equal(t, 200, other.act("step-up", "password", password, "code", codes[0]).status, "by a recovery code")
	anew := b.act("recovery-codes")
	require.Equal(t, 200, anew.status)
	assert.NotContains(t, anew.text, codes[1])
	assert.Len(t, strings.Fields(shownCodes.FindStringSubmatch(anew.text)[1]), 10)
	gone := b.act("disable")
	require.Equal(t, 200, gone.status)
	assert.Contains(t, gone.text, "You have no second factor.")
	for _, kept := range append(codes, secret[1], password) {
		assert.NotContains(t, s.log.String(), kept)
	}
}

func TestThePageOfSecurityIsItsUsers(t *testing.T) {
	s := newSite(t)
	stranger := s.browser()
	assert.Equal(t, "/sign-in?next=%2Fapp%2Fsettings%2Fsecurity", stranger.get(securityPage).location())
	for _, action := range []string{"begin", "confirm", "step-up", "recovery-codes", "disable"} {
		assert.Equal(t, "/sign-in?next=%2Fapp%2Fsettings%2Fsecurity", stranger.post(securityPage+"/"+action, url.Values{}).location(), action)
		b := s.signedIn("ann")
		assert.Equal(t, http.StatusForbidden, b.post(securityPage+"/"+action, url.Values{"password": {password}}).status, "no form token")
		assert.Equal(t, http.StatusForbidden, b.postFrom("cross-site", securityPage+"/"+action, b.get(securityPage).fields()).status)
		assert.Equal(t, http.StatusMethodNotAllowed, b.get(securityPage+"/"+action).status)
	}
	assert.Zero(t, s.count("select count(*) from totp_factors"))
	policy := s.signedIn("ann").get(securityPage).header.Get("Content-Security-Policy")
	assert.Contains(t, policy, "default-src 'none'")
	assert.NotContains(t, policy, "script")
}

func TestAFactorAfterAResetIsExplained(t *testing.T) {
	s := newSite(t)
	ctx := t.Context()
	_, err := s.accounts.ProvisionTOTP(ctx, authz.System(), s.ann, "x")
	require.NoError(t, err)
	_, err = s.accounts.ResetTOTP(ctx, authz.System(), s.ann.ID)
	require.NoError(t, err)
	made, err := s.accounts.ProvisionTOTP(ctx, authz.System(), s.ann, "x")
	require.NoError(t, err)
	b := s.signedIn("ann")
	stepped := b.act("step-up", "password", password, "code", b.codeOf(made.Secret))
	require.Equal(t, 200, stepped.status)
	assert.Contains(t, stepped.text, "because your factor before was reset")
	early := b.act("disable")
	assert.Equal(t, 403, early.status)
	assert.Contains(t, early.text, "Your second factor was reset.")
}

func (s *site) count(sql string) (n int) {
	s.Helper()
	require.NoError(s, postgres.InTx(s.Context(), s.db, "test", func(tx postgres.Tx) (err error) {
		n, err = postgres.Value[int](s.Context(), tx, sql, postgres.Args{})
		return err
	}))
	return n
}
