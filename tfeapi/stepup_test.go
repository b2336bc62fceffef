package tfeapi

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-tfe"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/clock"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/postgres"
)

const stepUpPassword = "correct horse battery"

// attributes are those of an answer's one resource, after its status and type were compared.
func (w *world) attributes(status int, kind, method, path, token, body string) map[string]any {
	w.Helper()
	response, text := w.send(method, path, token, body)
	require.Equal(w, status, response.StatusCode, text)
	var doc struct {
		Data struct {
			Type       string
			Attributes map[string]any
		}
	}
	require.NoError(w, json.Unmarshal([]byte(text), &doc), text)
	require.Equal(w, kind, doc.Data.Type)
	return doc.Data.Attributes
}

// enrol gives the user of that token a password and a factor, all over the wire, and the secret.
func (w *world) enrol(name, token string) (secret string, recoveryCodes []any) {
	w.Helper()
	require.NoError(w, w.deps.Accounts.SetPassword(w.Context(), authz.System(), name, stepUpPassword))
	begun := w.attributes(201, "totp-factors", "POST", "/api/v2/account/totp", token, `{"data":{"type":"totp-factors","attributes":{"password":"`+stepUpPassword+`"}}}`)
	secret = begun["secret"].(string)
	assert.Contains(w, begun["otpauth-uri"], "secret="+secret)
	confirmed := w.attributes(200, "totp-factors", "POST", "/api/v2/account/totp/actions/confirm", token, `{"data":{"attributes":{"code":"`+code(w.T, secret)+`"}}}`)
	assert.NotContains(w, confirmed, "secret")
	return secret, confirmed["recovery-codes"].([]any)
}

func code(t *testing.T, secret string) string {
	t.Helper()
	code, err := accounts.CurrentCode(secret, clock.Now())
	require.NoError(t, err)
	return code
}

func (w *world) stepUp(secret, token string) map[string]any {
	w.Helper()
	w.exec("update totp_factors set last_step = 0", postgres.Args{}) // the half minute may be that of the code before
	return w.attributes(200, "step-ups", "POST", "/api/v2/account/actions/step-up", token, `{"data":{"attributes":{"password":"`+stepUpPassword+`","code":"`+code(w.T, secret)+`"}}}`)
}

// TestAStepUpOnTheWire holds ER-11 and the challenge of RFC 9470.
func TestAStepUpOnTheWire(t *testing.T) {
	w := newWorld(t)
	response, text := w.send("DELETE", "/api/v2/account/totp", w.ann, "")
	assert.Equal(t, 403, response.StatusCode)
	assert.Contains(t, text, `"code":"step_up_not_enrolled"`)
	assert.Empty(t, response.Header.Get("WWW-Authenticate"))

	secret, recoveryCodes := w.enrol("ann", w.ann)
	state := w.attributes(200, "totp-factors", "GET", "/api/v2/account/totp", w.ann, "")
	assert.Equal(t, true, state["enrolled"])
	assert.Nil(t, state["stepped-up-until"])
	assert.NotContains(t, state, "secret")
	assert.NotContains(t, state, "recovery-codes", "they are shown once")
	assert.Equal(t, float64(10), state["recovery-codes-left"])
	assert.Equal(t, map[string]any{"enabled": true, "verified": true}, w.attributes(200, "users", "GET", "/api/v2/account/details", w.ann, "")["two-factor"])

	response, text = w.send("DELETE", "/api/v2/account/totp", w.ann, "")
	assert.Equal(t, 403, response.StatusCode)
	assert.Contains(t, text, `"code":"step_up_required"`)
	assert.Contains(t, text, `"meta":{"max-age":900}`)
	assert.Equal(t, stepUpChallenge, response.Header.Get("WWW-Authenticate"))

	done := w.stepUp(secret, w.ann)
	assert.Equal(t, "password+totp", done["method"])
	assert.Equal(t, float64(900), done["max-age"])
	at, err := time.Parse(time.RFC3339, done["stepped-up-at"].(string))
	require.NoError(t, err)
	until, err := time.Parse(time.RFC3339, done["expires-at"].(string))
	require.NoError(t, err)
	assert.Equal(t, 15*time.Minute, until.Sub(at))
	made := w.attributes(201, "totp-factors", "POST", "/api/v2/account/totp/recovery-codes", w.ann, "")
	assert.Len(t, made["recovery-codes"], 10)
	assert.NotEqual(t, recoveryCodes, made["recovery-codes"])
	assert.NotNil(t, made["stepped-up-until"])

	w.exec("update tokens set step_up_at = step_up_at - interval '901 seconds'", postgres.Args{})
	response, _ = w.send("DELETE", "/api/v2/account/totp", w.ann, "")
	assert.Equal(t, 403, response.StatusCode)
	byCode := w.attributes(200, "step-ups", "POST", "/api/v2/account/actions/step-up", w.ann,
		`{"password":"`+stepUpPassword+`","recovery-code":"`+made["recovery-codes"].([]any)[0].(string)+`"}`)
	assert.Equal(t, float64(9), byCode["recovery-codes-left"])
	response, _ = w.send("DELETE", "/api/v2/account/totp", w.ann, "")
	assert.Equal(t, 204, response.StatusCode)
	assert.Equal(t, map[string]any{"enabled": false, "verified": false}, w.attributes(200, "users", "GET", "/api/v2/account/details", w.ann, "")["two-factor"])
}

func TestRefusalsOfAStepUpOnTheWire(t *testing.T) {
	w := newWorld(t)
	w.enrol("ann", w.ann)
	refused := func(status int, code, body string) {
		t.Helper()
		response, text := w.send("POST", "/api/v2/account/actions/step-up", w.ann, body)
		assert.Equal(t, status, response.StatusCode, text)
		assert.Contains(t, text, `"code":"`+code+`"`)
		assert.Empty(t, response.Header.Get("WWW-Authenticate"))
	}
	refused(422, "invalid_attribute", `{}`)
	refused(422, "invalid_attribute", `{"password":"x","code":"123456","recovery-code":"y"}`)
	refused(400, "malformed", `{"data":{"attributes":{"password":17}}}`)
	for range 5 {
		refused(403, "step_up_failed", `{"password":"x","code":"000000"}`)
	}
	refused(429, "too_many_step_ups", `{"password":"x","code":"000000"}`)
	response, _ := w.send("POST", "/api/v2/account/actions/step-up", "", `{}`)
	assert.Equal(t, 401, response.StatusCode)
}

func TestAnAttemptCannotStepUp(t *testing.T) {
	w := newWorld(t)
	w.deps.Authenticate = func(context.Context, string) (authz.Actor, error) {
		return authz.Actor{Kind: authz.AttemptActor, Attempt: "att-1", Phase: authz.Apply}, nil
	}
	server := New(w.deps)
	for _, path := range []string{"account/actions/step-up", "account/totp", "account/totp/actions/confirm", "account/totp/recovery-codes"} {
		status, text := asked(server, "/api/v2/"+path, http.Header{"Authorization": {"Bearer x"}})
		assert.Equal(t, 403, status, path)
		assert.Contains(t, text, "use a user's token", path)
	}
}

// An admin's reset has the name and the answer that clients know.
func TestAResetOfAFactorOnTheWire(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	w.enrol("ann", w.ann)
	ann, err := w.deps.Accounts.Authenticate(ctx, w.ann)
	require.NoError(t, err)
	assert.ErrorIs(t, disable2FA(w, w.bob, string(ann.User)), tfe.ErrResourceNotFound, "for site admins")

	admin := func(name string) (token string) {
		_, token = w.user(ctx, name)
		w.exec("update users set site_admin = true where username = '"+name+"'", postgres.Args{})
		secret, _ := w.enrol(name, token)
		assert.Error(t, disable2FA(w, token, string(ann.User)), "not stepped up")
		w.stepUp(secret, token)
		return token
	}
	one, two := admin("one"), admin("two")
	user, err := w.as(one).Admin.Users.Disable2FA(ctx, string(ann.User))
	require.NoError(t, err)
	assert.Equal(t, []any{string(ann.User), "ann", "ann@acme.test", &tfe.TwoFactor{}}, []any{user.ID, user.Username, user.Email, user.TwoFactor})

	secret, _ := w.enrol("ann", w.ann)
	w.stepUp(secret, w.ann)
	assert.NotNil(t, w.attributes(200, "totp-factors", "GET", "/api/v2/account/totp", w.ann, "")["held-until"])
	response, text := w.send("DELETE", "/api/v2/account/totp", w.ann, "")
	assert.Equal(t, 403, response.StatusCode)
	assert.Contains(t, text, `"code":"factor_too_new"`)
	confirm := "/api/v2/admin/users/" + string(ann.User) + "/actions/confirm-two-factor-reset"
	for token, want := range map[string]int{w.bob: 404, one: 403} {
		response, _ = w.send("POST", confirm, token, "")
		assert.Equal(t, want, response.StatusCode)
	}
	assert.Equal(t, map[string]any{"enabled": true, "verified": true}, w.attributes(200, "users", "POST", confirm, two, "")["two-factor"])
	response, _ = w.send("DELETE", "/api/v2/account/totp", w.ann, "")
	assert.Equal(t, 204, response.StatusCode)
}

func disable2FA(w *world, token, user string) error {
	_, err := w.as(token).Admin.Users.Disable2FA(w.Context(), user)
	return err
}

// asked posts a wrong proof to the server itself.
func asked(server http.Handler, path string, header http.Header) (status int, text string) {
	r := httptest.NewRequest("POST", path, strings.NewReader(`{"password":"x","code":"000000"}`))
	r.Header = header
	w := httptest.NewRecorder()
	server.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// TestAFailedStepUpIsCountedWhereItComesFrom: many users behind one address share its limit.
func TestAFailedStepUpIsCountedWhereItComesFrom(t *testing.T) {
	w := newWorld(t)
	w.enrol("ann", w.ann)
	deps := w.deps
	deps.ClientAddress = func(r *http.Request) string { return r.Header.Get("X-Test-From") }
	w.exec("delete from sign_in_attempts", postgres.Args{})
	ann, err := w.deps.Accounts.Authenticate(t.Context(), w.ann)
	require.NoError(t, err)
	for range 30 {
		_, err := w.deps.Accounts.ConfirmTOTP(t.Context(), ann, "000000", "office")
		require.False(t, fault.HasCode(err, "too_many_step_ups") && strings.Contains(err.Error(), "from your address"), err)
	}
	for from, where := range map[string]string{"office": "from your address", "home": "as this user"} {
		status, text := asked(New(deps), "/api/v2/account/actions/step-up", http.Header{"Authorization": {"Bearer " + w.ann}, "X-Test-From": {from}})
		assert.Equal(t, 429, status)
		assert.Contains(t, text, where)
	}
}
