package tfeapi

import (
	"net/http"
	"testing"

	"github.com/hashicorp/go-tfe"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestWhatWasDeletedComesBack: ST-23, of a workspace and of an organization.
func TestWhatWasDeletedComesBack(t *testing.T) {
	w := newWorld(t)
	w.runner()
	ctx, root, ws := t.Context(), w.siteAdmin(), w.workspace("app")
	variable, err := w.client.Variables.Create(ctx, ws.ID, tfe.VariableCreateOptions{Key: tfe.String("k"), Value: tfe.String("v"), Category: tfe.Category(tfe.CategoryTerraform)})
	require.NoError(t, err)
	run := w.queue(ws, tfe.RunCreateOptions{})
	undelete := func(path, token string, status int, code string) {
		t.Helper()
		answer, text := w.send(http.MethodPost, "/api/v2/admin/"+path+"/actions/undelete", token, "")
		require.Equal(t, status, answer.StatusCode, text)
		assert.Contains(t, text, code)
	}

	undelete("workspaces/"+ws.ID, root, 404, "not_found") // it lives
	require.NoError(t, w.client.Workspaces.DeleteByID(ctx, ws.ID))
	undelete("workspaces/"+ws.ID, w.ann, 404, "not_found") // her own, and she is no site admin
	other := w.workspace("app")
	undelete("workspaces/"+ws.ID, root, 409, "name_taken")
	require.NoError(t, w.client.Workspaces.DeleteByID(ctx, other.ID))
	undelete("workspaces/"+ws.ID, root, 200, `"name":"app"`)

	back, err := w.client.Workspaces.Read(ctx, "acme", "app")
	require.NoError(t, err)
	assert.Equal(t, ws.ID, back.ID)
	assert.False(t, back.Locked)
	kept, err := w.client.Variables.Read(ctx, ws.ID, variable.ID)
	require.NoError(t, err)
	assert.Equal(t, "v", kept.Value)
	assert.Equal(t, tfe.RunCanceled, w.read(run).Status)
	w.queue(back, tfe.RunCreateOptions{})

	undelete("organizations/acme", root, 404, "not_found")
	require.NoError(t, w.client.Organizations.Delete(ctx, "acme"))
	undelete("workspaces/"+ws.ID, root, 404, "not_found") // its organization is not there
	undelete("organizations/acme", w.ann, 404, "not_found")
	undelete("organizations/acme", root, 200, `"name":"acme"`)
	undelete("workspaces/"+ws.ID, root, 200, `"name":"app"`)
	_, err = w.client.Workspaces.Read(ctx, "acme", "app")
	require.NoError(t, err, "its members are members again")
}
