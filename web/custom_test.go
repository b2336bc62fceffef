package web_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestThePagesSayWhatTheSiteAdminsSay, as text: no markup of theirs is on a page.
func TestThePagesSayWhatTheSiteAdminsSay(t *testing.T) {
	s := newSite(t)
	before := s.browser().get("/sign-in")
	assert.NotContains(t, before.text, "<footer>")
	s.exec(`update site_settings set footer = '<p>Run by <b>Platform</b></p>', login_help = 'Ask <script>alert(1)</script> &lt;ops&gt;', new_user = '<a href="#">New?</a>',
		error_text = '<em>Call us</em>', support_email = 'help@example.com'`)
	page := s.browser().get("/sign-in")
	assert.Contains(t, page.text, "<footer><p>Run by Platform</p></footer>")
	assert.Contains(t, page.text, "<p>Ask alert(1) &lt;ops&gt;</p>")
	assert.Contains(t, page.text, "<p>New?</p>")
	assert.NotContains(t, page.text, "<script")
	assert.NotContains(t, page.text, "Call us", "nothing has failed")
	problem := s.browser().get("/oauth/authorize?client_id=nobody")
	assert.Contains(t, problem.text, "<p>Call us</p>")
	assert.Contains(t, problem.text, `<a href="mailto:help@example.com">help@example.com</a>`)
}
