package tfeapi

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/hashicorp/go-tfe"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTheAuditTrailIsReadWithATokenOfTheOrganization(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	ws := w.workspace("app")
	_, err := w.client.Workspaces.Lock(ctx, ws.ID, tfe.WorkspaceLockOptions{Reason: tfe.String("care")})
	require.NoError(t, err)
	kind := tfe.AuditTrailToken
	made, err := w.client.OrganizationTokens.CreateWithOptions(ctx, "acme", tfe.OrganizationTokenCreateOptions{TokenType: &kind})
	require.NoError(t, err)

	response, text := w.send(http.MethodGet, w.url+"/api/v2/organization/audit-trail?page%5Bsize%5D=2", made.Token, "")
	require.Equal(t, http.StatusOK, response.StatusCode, text)
	var trail auditTrail
	require.NoError(t, json.Unmarshal([]byte(text), &trail))
	require.Len(t, trail.Data, 2)
	assert.Equal(t, "token.created", trail.Data[0].Resource.Action)
	locked := trail.Data[1]
	assert.Equal(t, "workspace.locked", locked.Resource.Action)
	assert.Equal(t, ws.ID, locked.Resource.ID)
	assert.Equal(t, "care", locked.Resource.Meta["reason"])
	assert.Equal(t, "Client", locked.Auth.Type)
	assert.Len(t, locked.Request.ID, 16, "as the answer to the request named it")
	assert.Equal(t, 1, trail.Pagination.CurrentPage)
	assert.Greater(t, trail.Pagination.TotalCount, 2)

	since := locked.Timestamp.Format("2006-01-02T15:04:05.999999999Z07:00")
	response, text = w.send(http.MethodGet, w.url+"/api/v2/organization/audit-trail?since="+since, made.Token, "")
	require.Equal(t, http.StatusOK, response.StatusCode, text)
	require.NoError(t, json.Unmarshal([]byte(text), &trail))
	assert.Len(t, trail.Data, 1)

	response, _ = w.send(http.MethodGet, w.url+"/api/v2/organization/audit-trail?since=yesterday", made.Token, "")
	assert.Equal(t, http.StatusBadRequest, response.StatusCode)
	response, _ = w.send(http.MethodGet, w.url+"/api/v2/organization/audit-trail", w.ann, "")
	assert.Equal(t, http.StatusNotFound, response.StatusCode, "an owner's token names no organization")
}
