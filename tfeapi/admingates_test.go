package tfeapi

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/hashicorp/go-tfe"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/authz"
)

// siteAdmin makes one and gives its token.
func (w *world) siteAdmin() string {
	w.Helper()
	u, err := w.deps.Accounts.CreateUser(w.Context(), authz.System(), accounts.NewUser{Username: "root", SiteAdmin: true})
	require.NoError(w, err)
	token, _, err := w.deps.Accounts.CreateUserToken(w.Context(), authz.System(), u.ID, "test", 0)
	require.NoError(w, err)
	return token
}

func attributesOf(t *testing.T, body string) map[string]any {
	t.Helper()
	var said struct {
		Data struct {
			ID         string
			Type       string
			Attributes map[string]any
		}
	}
	require.NoError(t, json.Unmarshal([]byte(body), &said), body)
	return said.Data.Attributes
}

const denyRuns = `{"data":{"type":"launch-controls","attributes":{"deny-runs":true,"reason":"moving the store"}}}`

// TestLaunchControlsAnswer503: with what a client needs to wait, and without a run.
func TestLaunchControlsAnswer503(t *testing.T) {
	w := newWorld(t)
	root, ws := w.siteAdmin(), w.workspace("app")
	w.runner()
	there := w.queue(ws, tfe.RunCreateOptions{})
	response, body := w.send("PUT", "/api/v2/admin/launch-controls", root, denyRuns)
	require.Equal(t, 200, response.StatusCode, body)
	assert.Equal(t, true, attributesOf(t, body)["deny-runs"])
	_, read := w.send("GET", "/api/v2/admin/launch-controls", root, "")
	assert.Equal(t, body, read)

	create := `{"data":{"type":"runs","attributes":{"message":"another"},"relationships":{"workspace":{"data":{"type":"workspaces","id":"` + ws.ID + `"}}}}}`
	response, body = w.send("POST", "/api/v2/runs", w.ann, create)
	assert.Equal(t, 503, response.StatusCode)
	assert.Equal(t, "60", response.Header.Get("Retry-After"))
	assert.Contains(t, body, `"code":"service_unavailable"`)
	assert.Contains(t, body, "moving the store")
	list, err := w.client.Runs.List(t.Context(), ws.ID, nil)
	require.NoError(t, err)
	require.Len(t, list.Items, 1)
	assert.Equal(t, there.ID, list.Items[0].ID)
	_, body = w.send("GET", "/api/v2/runs/"+there.ID, w.ann, "")
	assert.Contains(t, attributesOf(t, body)["waiting-reason"], "moving the store")

	response, body = w.send("PUT", "/api/v2/admin/launch-controls", root, `{"data":{"type":"launch-controls","attributes":{}}}`)
	require.Equal(t, 200, response.StatusCode, body)
	response, _ = w.send("POST", "/api/v2/runs", w.ann, create)
	assert.Equal(t, 201, response.StatusCode)
	_, body = w.send("GET", "/api/v2/runs/"+there.ID, w.ann, "")
	assert.Equal(t, "waiting for a runner to plan", attributesOf(t, body)["waiting-reason"])
}

func TestSuspensionAndRegionOfAnOrganization(t *testing.T) {
	w := newWorld(t)
	root, ws := w.siteAdmin(), w.workspace("app")
	w.runner()
	const address = "/api/v2/admin/organizations/acme/suspension"
	create := `{"data":{"type":"runs","attributes":{"message":"another"},"relationships":{"workspace":{"data":{"type":"workspaces","id":"` + ws.ID + `"}}}}}`
	_, body := w.send("GET", address, root, "")
	assert.Equal(t, map[string]any{"suspended": false, "suspended-at": nil, "reason": ""}, attributesOf(t, body))
	response, body := w.send("PUT", address, root, `{"data":{"type":"organization-suspensions","attributes":{"suspended":true,"reason":"unpaid"}}}`)
	require.Equal(t, 200, response.StatusCode, body)
	assert.NotEmpty(t, attributesOf(t, body)["suspended-at"])
	response, body = w.send("POST", "/api/v2/runs", w.ann, create)
	assert.Equal(t, 403, response.StatusCode)
	assert.Contains(t, body, `"code":"organization_suspended"`)
	_, _ = w.send("PUT", address, root, `{"data":{"type":"organization-suspensions","attributes":{"suspended":false}}}`)

	_, body = w.send("PATCH", "/api/v2/admin/organizations/acme", root, `{"data":{"attributes":{"region":"eu-north-1"}}}`)
	assert.Equal(t, "eu-north-1", attributesOf(t, body)["region"])
	_, body = w.send("PATCH", "/api/v2/admin/organizations/acme", root, `{"data":{"type":"","attributes":{"access-beta-tools":true}}}`)
	assert.Equal(t, "eu-north-1", attributesOf(t, body)["region"], "what is not named stays")
	_, _ = w.send("PUT", "/api/v2/admin/launch-controls", root, `{"data":{"type":"launch-controls","attributes":{"closed-regions":["eu-north-1"]}}}`)
	response, _ = w.send("POST", "/api/v2/runs", w.ann, create)
	assert.Equal(t, 503, response.StatusCode)
}

func TestAllowListsAreReplacedWhole(t *testing.T) {
	w := newWorld(t)
	root := w.siteAdmin()
	digest := strings.Repeat("ab", 32)
	for _, kind := range []string{"runner-releases", "policy-runtime-releases"} {
		address := "/api/v2/admin/" + kind
		set := func(items string) (int, string) {
			response, body := w.send("PUT", address, root, `{"data":[`+items+`]}`)
			return response.StatusCode, body
		}
		status, body := set(`{"type":"` + kind + `","attributes":{"version":"1.0","digest":"` + digest + `"}}`)
		require.Equal(t, 200, status, body)
		assert.Contains(t, body, `"id":"1.0@`+digest+`"`)
		_, read := w.send("GET", address, root, "")
		assert.Equal(t, body, read)
		status, _ = set(`{"type":"` + kind + `","attributes":{"version":"1.0","digest":"short"}}`)
		assert.Equal(t, 422, status)
		_, read = w.send("GET", address, root, "")
		assert.Equal(t, body, read, "a refused list changes nothing")
		status, body = set("")
		assert.Equal(t, 200, status)
		assert.Contains(t, body, `"data":[]`)
	}
}

func TestGatesAreForSiteAdmins(t *testing.T) {
	w := newWorld(t)
	for _, address := range []string{"launch-controls", "organizations/acme/suspension", "runner-releases", "policy-runtime-releases"} {
		for _, token := range []string{w.ann, w.bob} {
			for _, method := range []string{"GET", "PUT"} {
				response, _ := w.send(method, "/api/v2/admin/"+address, token, `{"data":null}`)
				assert.Equal(t, 404, response.StatusCode, "%s %s", method, address)
			}
		}
	}
}
