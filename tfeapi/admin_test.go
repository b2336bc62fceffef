package tfeapi

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hashicorp/go-tfe"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestSettingsThatDoNothingAreOff: they are shown as off, and whoever turns one on is refused with
// what to do instead; nothing of a secret that came with it is kept.
func TestSettingsThatDoNothingAreOff(t *testing.T) {
	w := newWorld(t)
	root := w.siteAdmin()
	for address, attributes := range map[string]string{
		"cost-estimation-settings": `"enabled":true,"aws-access-key-id":"HUSH","aws-secret-key":"HUSH"`,
		"smtp-settings":            `"enabled":true,"host":"mail","password":"HUSH"`,
		"twilio-settings":          `"enabled":true,"auth-token":"HUSH"`,
	} {
		response, body := w.send("PATCH", "/api/v2/admin/"+address, root, `{"data":{"attributes":{`+attributes+`}}}`)
		assert.Equal(t, 422, response.StatusCode, address)
		assert.Contains(t, body, `"code":"setting_not_available"`)
		assert.NotContains(t, body, "HUSH")
		_, body = w.send("GET", "/api/v2/admin/"+address, root, "")
		assert.Equal(t, false, attributesOf(t, body)["enabled"], address)
		assert.NotContains(t, body, "HUSH")
	}
	for _, attribute := range []string{"require-two-factor-for-admins", "send-passing-statuses-for-untriggered-speculative-plans", "allow-speculative-plans-on-pull-requests-from-forks"} {
		response, _ := w.send("PATCH", "/api/v2/admin/general-settings", root, `{"data":{"attributes":{"`+attribute+`":true}}}`)
		assert.Equal(t, 422, response.StatusCode, attribute)
	}
	response, _ := w.send("PATCH", "/api/v2/admin/organizations/acme", root, `{"data":{"attributes":{"access-beta-tools":false}}}`)
	assert.Equal(t, 422, response.StatusCode)
	response, _ = w.send("PATCH", "/api/v2/admin/twilio-settings/verify", root, `{"data":{"attributes":{"test-number":"555"}}}`)
	assert.Equal(t, 422, response.StatusCode)
	_, body := w.send("PATCH", "/api/v2/admin/general-settings", root, `{"data":{"attributes":{"plan-timeout":"90m","apply-timeout":"24h"}}}`)
	said := attributesOf(t, body)
	assert.Equal(t, []any{"1h30m", "24h", "1h30m"}, []any{said["plan-timeout"], said["apply-timeout"], said["terraform-build-worker-plan-timeout"]})
	response, _ = w.send("PATCH", "/api/v2/admin/general-settings", root, `{"data":{"attributes":{"plan-timeout":"soon"}}}`)
	assert.Equal(t, 422, response.StatusCode)
}

// TestWhatSiteAdminsSeeOfOthers: that something is there, and nothing of what is in it.
func TestWhatSiteAdminsSeeOfOthers(t *testing.T) {
	w := newWorld(t)
	root := w.siteAdmin()
	ws := w.workspace("app")
	w.runner()
	run := w.queue(ws, tfe.RunCreateOptions{Message: text("HUSH"), Variables: []*tfe.RunVariable{{Key: "k", Value: `"HUSH"`}}})
	_, body := w.send("GET", "/api/v2/admin/runs?q="+run.ID+"&include=workspace", root, "")
	assert.Contains(t, body, ws.ID)
	assert.NotContains(t, body, "HUSH")
	response, body := w.send("GET", "/api/v2/admin/runs?include=workpsace", root, "")
	assert.Equal(t, 400, response.StatusCode)
	assert.Contains(t, body, "Invalid include parameter")
	response, _ = w.send("GET", "/api/v2/admin/runs?filter[from]=yesterday", root, "")
	assert.Equal(t, 400, response.StatusCode)
	for status, want := range map[string]int{"pending,plan_queued": 1, "applied": 0, "nonsense": 0} {
		_, body = w.send("GET", "/api/v2/admin/runs?filter[status]="+status, root, "")
		assert.Equal(t, want, strings.Count(body, `"type":"runs"`), status)
		_, body = w.send("GET", "/api/v2/admin/workspaces?filter[current_run][status]="+status, root, "")
		assert.Equal(t, want, strings.Count(body, `"type":"workspaces"`), status)
	}
	response, _ = w.send("GET", "/api/v2/admin/workspaces?sort=size", root, "")
	assert.Equal(t, 400, response.StatusCode)
	_, body = w.send("GET", "/api/v2/admin/workspaces?page[number]=7&page[size]=1", root, "")
	assert.Contains(t, body, `"data":[]`)
	assert.Contains(t, body, `"total-count":1`)
	response, _ = w.send("POST", "/api/v2/admin/runs/"+run.ID+"/actions/force-cancel", w.ann, "")
	assert.Equal(t, 404, response.StatusCode, "an owner is no site admin")
}

// TestSigningKeysForEverybody: others find the keys, and only site admins change them.
func TestSigningKeysForEverybody(t *testing.T) {
	w := newWorld(t)
	root := w.siteAdmin()
	keys := func() int {
		response, body := w.send("GET", "/.well-known/jwks", "", "")
		require.Equal(t, 200, response.StatusCode)
		assert.NotContains(t, body, `"d":`, "no private part")
		return strings.Count(body, `"kid"`)
	}
	assert.Zero(t, keys())
	for range 2 {
		response, _ := w.send("POST", "/api/v2/admin/oidc-settings/actions/rotate-key", root, "")
		assert.Equal(t, 204, response.StatusCode)
	}
	assert.Equal(t, 2, keys())
	response, _ := w.send("POST", "/api/v2/admin/oidc-settings/actions/trim-key", w.ann, "")
	assert.Equal(t, 404, response.StatusCode)
	response, _ = w.send("POST", "/api/v2/admin/oidc-settings/actions/trim-key", root, "")
	assert.Equal(t, 204, response.StatusCode)
	assert.Equal(t, 1, keys())
	_, body := w.send("GET", "/.well-known/openid-configuration", "", "")
	assert.Contains(t, body, fmt.Sprintf(`"jwks_uri":"%s/.well-known/jwks"`, w.url))
}
