package web

import (
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/holdfast-run/holdfast/fault"
)

func refused(t *testing.T, method, address string, err error) *httptest.ResponseRecorder {
	t.Helper()
	w, r := httptest.NewRecorder(), httptest.NewRequest(method, address, nil)
	r.PostForm = url.Values{"client_id": {"tofu"}}
	Deps{Log: slog.New(slog.NewTextHandler(t.Output(), nil))}.refuse(w, r, err)
	return w
}

func TestRefusalsSayWhatIsWrong(t *testing.T) {
	for kind, status := range map[fault.Kind]int{
		fault.Malformed: 400, fault.Invalid: 422, fault.Forbidden: 403, fault.NotFound: 404,
		fault.Conflict: 409, fault.Exhausted: 429, fault.Unavailable: 503, fault.Unknown: 503,
	} {
		w := refused(t, "GET", "/app/settings/tokens", fault.New(kind, "a_code", "Say it so."))
		assert.Equal(t, status, w.Code, kind)
		assert.Contains(t, w.Body.String(), "Say it so.", kind)
	}
	w := refused(t, "GET", "/app/settings/tokens", errors.New("inner matter"))
	assert.Equal(t, http.StatusInternalServerError, w.Code)
	assert.NotContains(t, w.Body.String(), "inner matter")
}

// TestWhoIsSignedOutMeanwhileSignsInAgain: the session ends while its form is handled.
func TestWhoIsSignedOutMeanwhileSignsInAgain(t *testing.T) {
	w := refused(t, "POST", authorizePath, fault.New(fault.Unauthenticated, "session_over", "You are signed out."))
	assert.Equal(t, http.StatusSeeOther, w.Code)
	assert.True(t, strings.HasPrefix(w.Header().Get("Location"), signInPath+"?next=%2Foauth%2Fauthorize%3Fclient_id%3Dtofu"), w.Header())
}
