package tfeapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/fault"
)

func TestEveryKindHasARow(t *testing.T) {
	for _, kind := range fault.Kinds() {
		row, ok := wireErrors[kind]
		assert.Truef(t, ok && row.status >= 400, "%s", kind)
	}
	assert.Len(t, wireErrors, len(fault.Kinds()))
}

func TestErrorDocuments(t *testing.T) {
	secret := errors.New("pq: password is hunter2")
	rows := []struct {
		err        error
		want       string
		status     int
		retryAfter string
	}{
		{fault.New(fault.Internal, "x", "secret").Because(secret), `{"id":"rq","status":"500","code":"internal","title":"internal server error"}`, 500, ""},
		{secret, `{"id":"rq","status":"500","code":"internal","title":"internal server error"}`, 500, ""},
		{fault.New(fault.Unknown, "outcome_unknown", "Look."), `{"status":"503","code":"outcome_unknown","title":"outcome_unknown","detail":"Look."}`, 503, "5"},
		{malformed("/data/type", "Wrong."), `{"status":"400","code":"malformed","title":"invalid JSON:API document","detail":"Wrong.","source":{"pointer":"/data/type"}}`, 400, ""},
		{fault.New(fault.Unauthenticated, "unauthenticated", "Log in."), `{"status":"401","code":"unauthenticated","title":"unauthorized","detail":"Log in."}`, 401, ""},
		{fault.New(fault.Forbidden, "separate_approver_required", "Ask."), `{"status":"403","code":"separate_approver_required","title":"separate_approver_required","detail":"Ask."}`, 403, ""},
		{fault.New(fault.Forbidden, "step_up_required", "Again.").With("max-age", 900), `{"status":"403","code":"step_up_required","title":"step_up_required","detail":"Again.","meta":{"max-age":900}}`, 403, ""},
		{fmt.Errorf("wrapped: %w", fault.Missing("run", "run-1")), `{"status":"404","code":"not_found","title":"not found","detail":"run \"run-1\" was not found, or you are not allowed to see it."}`, 404, ""},
		{fault.New(fault.Conflict, "APPROVAL_EXPIRED", "Late.").Because(secret), `{"status":"409","code":"APPROVAL_EXPIRED","title":"APPROVAL_EXPIRED","detail":"Late."}`, 409, ""},
		{fault.New(fault.Locked, "workspace_locked", "The workspace is locked by User u."), `{"status":"409","code":"workspace_locked","title":"workspace_locked","detail":"The workspace is locked by User u."}`, 409, ""},
		{fault.New(fault.RecoveryHeld, "workspace_recovery_pending", "Recover."), `{"status":"423","code":"workspace_recovery_pending","title":"Workspace locked","detail":"Recover."}`, 423, ""},
		{fault.New(fault.TooLarge, "artifact_too_large", "Big."), `{"status":"413","code":"artifact_too_large","title":"artifact_too_large","detail":"Big."}`, 413, ""},
		{fault.New(fault.Invalid, "invalid_attribute", "Name may not.").At("/data/attributes/name"), `{"status":"422","code":"invalid_attribute","title":"invalid attribute","detail":"Name may not.","source":{"pointer":"/data/attributes/name"}}`, 422, ""},
		{fmt.Errorf("wrapped: %w", errors.Join(fault.New(fault.Invalid, "a", "One."), fault.New(fault.Invalid, "b", "Two."))), `{"status":"422","code":"a","title":"a","detail":"One."},{"status":"422","code":"b","title":"b","detail":"Two."}`, 422, ""},
		{errors.Join(fault.New(fault.Invalid, "a", "One."), secret), `{"status":"422","code":"a","title":"a","detail":"One."}`, 422, ""},
		{fault.New(fault.Invalid, "reserved_variable", "No."), `{"status":"422","code":"reserved_variable","title":"reserved_variable","detail":"No."}`, 422, ""},
		{fault.New(fault.Exhausted, "quota_exceeded", "Wait."), `{"status":"429","code":"quota_exceeded","title":"quota_exceeded","detail":"Wait."}`, 429, ""},
		{fault.New(fault.Unavailable, "service_unavailable", "Not now."), `{"status":"503","code":"service_unavailable","title":"service_unavailable","detail":"Not now."}`, 503, "60"},
		{fault.New(fault.Unavailable, "database_unavailable", "Down.").Because(secret), `{"status":"503","code":"database_unavailable","title":"database_unavailable","detail":"Down."}`, 503, "5"},
	}
	for _, row := range rows {
		w := httptest.NewRecorder()
		status := writeError(w, httptest.NewRequest("GET", "/", nil), row.err, "rq")
		assert.Equal(t, row.status, status)
		assert.Equal(t, row.status, w.Code)
		assert.Equal(t, mediaType, w.Header().Get("Content-Type"))
		assert.Equal(t, map[string]string{"step_up_required": stepUpChallenge, "unauthenticated": "Bearer"}[codeOf(row.err)], w.Header().Get("WWW-Authenticate"), "%v", row.err)
		assert.Equal(t, row.retryAfter, w.Header().Get("Retry-After"), "%v", row.err)
		assert.JSONEq(t, `{"errors":[`+row.want+`]}`, w.Body.String())
		assert.NotContains(t, w.Body.String(), "hunter2")
	}
}

const stepUpChallenge = `Bearer error="insufficient_user_authentication", error_description="Prove once more who you are", max_age=900`

func codeOf(err error) string {
	var classified *fault.Error
	if errors.As(err, &classified) {
		return classified.Code
	}
	return ""
}

func TestAClientThatLeftGetsNoAnswer(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := httptest.NewRecorder()
	status := writeError(w, httptest.NewRequest("GET", "/", nil).WithContext(ctx), fmt.Errorf("query: %w", ctx.Err()), "rq")
	assert.Equal(t, statusClientGone, status)
	assert.Empty(t, w.Body.String())
}

func TestACancelOfOurOwnIsAnError(t *testing.T) {
	w := httptest.NewRecorder()
	assert.Equal(t, 500, writeError(w, httptest.NewRequest("GET", "/", nil), context.Canceled, "rq"))
	var body map[string]any
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &body))
}
