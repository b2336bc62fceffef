package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/hashicorp/go-tfe"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestUnknownThingsAre404(t *testing.T) {
	t.Parallel()
	for _, path := range []string{
		"/api/v2/organizations/nobody", "/api/v2/organizations/nobody/workspaces", "/api/v2/organizations/nobody/entitlement-set",
		"/api/v2/organizations/demo/workspaces/nothing", "/api/v2/workspaces/ws-0000000000000000", "/api/v2/workspaces/ws-0000000000000000/current-state-version",
		"/api/v2/runs/run-0000000000000000", "/api/v2/plans/plan-0000000000000000", "/api/v2/applies/apply-0000000000000000",
		"/api/v2/configuration-versions/cv-0000000000000000", "/api/v2/state-versions/sv-0000000000000000",
		"/api/v2/state-version-outputs/wsout-0000000000000000", "/api/v2/projects/prj-0000000000000000",
		"/api/v2/workspaces/nonsense", "/api/v2/runs/'%20or%201=1", "/api/v2/no/such/path",
	} {
		refused := shared.get(t, path).refusal(t, http.StatusNotFound)
		assert.Equal(t, "not found", refused.Title, path)
	}
}

func TestAWrongTokenIs401(t *testing.T) {
	t.Parallel()
	token := shared.token()
	other := map[byte]string{'a': "b"}[token[len(token)-1]]
	if other == "" {
		other = "a"
	}
	for name, wrong := range map[string]string{
		"none": "", "nonsense": "nonsense", "one letter off": token[:len(token)-1] + other, "very long": strings.Repeat("x", 5000),
	} {
		for _, path := range []string{"/api/v2/account/details", "/api/v2/organizations/demo", "/api/v2/workspaces/ws-0000000000000000", "/api/v2/runs/run-0000000000000000"} {
			shared.as(t, wrong, http.MethodGet, path, nil).refusal(t, http.StatusUnauthorized)
		}
		assert.Equal(t, http.StatusOK, shared.as(t, wrong, http.MethodGet, "/.well-known/terraform.json", nil).status, "discovery asks for no token: %s", name)
	}
}

func TestMalformedDocumentsAre400WithAPointer(t *testing.T) {
	t.Parallel()
	for body, pointer := range map[string]string{
		``:            "",
		`{`:           "",
		`[]`:          "",
		`{"data":[]}`: "/data",
		`{}`:          "/data",
		`{"data":{}}`: "/data/type",
		`{"data":{"type":"runs","attributes":{"name":"x"}}}`:                           "/data/type",
		`{"data":{"type":"workspaces","attributes":[]}}`:                               "/data/attributes",
		`{"data":{"type":"workspaces","attributes":{"name":7}}}`:                       "/data/attributes/name",
		`{"data":{"type":"workspaces","attributes":{"name":"x","auto-apply":"yes"}}}`:  "/data/attributes/auto-apply",
		`{"data":{"type":"workspaces","attributes":{"name":"x"}}} {"data":"trailing"}`: "",
	} {
		refused := shared.post(t, "/api/v2/organizations/demo/workspaces", body).refusal(t, http.StatusBadRequest)
		if pointer != "" {
			assert.Equal(t, pointer, refused.Source.Pointer, "%s: %s", body, refused.Detail)
		}
		assert.NotEmpty(t, refused.Detail, body)
	}
}

// Cases 77, 79 and 80.
func TestBadNamesAre422NamingTheRule(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "team a/prod", "eu.prod", "ümlaut", strings.Repeat("x", 91), "a\nb"} {
		r := shared.post(t, "/api/v2/organizations/demo/workspaces", fmt.Sprintf(`{"data":{"type":"workspaces","attributes":{"name":%q}}}`, name))
		refused := r.refusal(t, http.StatusUnprocessableEntity)
		assert.Equal(t, "/data/attributes/name", refused.Source.Pointer, name)
		assert.Regexp(t, `(?i)letters|blank|90`, refused.Detail, "the rule for %q", name)
	}
	w := shared.newWorkspace(t, workspaceName(t))
	twice := shared.post(t, "/api/v2/organizations/demo/workspaces", fmt.Sprintf(`{"data":{"type":"workspaces","attributes":{"name":%q}}}`, w.Name))
	assert.Contains(t, twice.refusal(t, http.StatusUnprocessableEntity).Detail, "taken")
}

// Amendment 26, and case 88.
func TestVariablesThatWouldSteerTheRunnerAreRefused(t *testing.T) {
	t.Parallel()
	w := shared.newWorkspace(t, workspaceName(t))
	variable := func(key, category string) reply {
		return shared.post(t, "/api/v2/workspaces/"+w.ID+"/vars", fmt.Sprintf(
			`{"data":{"type":"vars","attributes":{"key":%q,"value":"x","category":%q}}}`, key, category))
	}
	for _, key := range []string{
		"TF_STATE_PERSIST_INTERVAL", "TF_CLI_ARGS", "TF_CLI_ARGS_plan", "TF_CLI_CONFIG_FILE", "TF_DATA_DIR", "TF_WORKSPACE", "TF_FORCE_LOCAL_BACKEND",
		"TF_TOKEN_localhost", "TF_CLOUD_HOSTNAME", "TFE_RUN_ID", "TFC_RUN_ID", "TF_REATTACH_PROVIDERS", "TF_PLUGIN_CACHE_DIR", "LD_PRELOAD", "PATH",
		"SSL_CERT_FILE", "HOLDFAST_ADDRESS",
	} {
		refused := variable(key, "env").refusal(t, http.StatusUnprocessableEntity)
		assert.Equal(t, "reserved_variable", refused.Code, key)
		assert.Contains(t, refused.Detail, key)
	}
	assert.Equal(t, http.StatusCreated, variable("PATH", "terraform").status, "as an input variable it steers nothing")
	assert.Equal(t, "/data/attributes/category", variable("x", "").refusal(t, http.StatusUnprocessableEntity).Source.Pointer)
	for name, attributes := range map[string]string{"no category": `"key":"x","value":"y"`, "null": `"key":"x","value":"y","category":null`, "unknown": `"key":"x","value":"y","category":"policy"`} {
		r := shared.post(t, "/api/v2/workspaces/"+w.ID+"/vars", `{"data":{"type":"vars","attributes":{`+attributes+`}}}`)
		assert.Equal(t, "/data/attributes/category", r.refusal(t, http.StatusUnprocessableEntity).Source.Pointer, name)
	}
	nul := shared.post(t, "/api/v2/workspaces/"+w.ID+"/vars", `{"data":{"type":"vars","attributes":{"key":"x","value":"a\u0000b","category":"env"}}}`)
	assert.Equal(t, "/data/attributes/value", nul.refusal(t, http.StatusBadRequest).Source.Pointer, "no environment can hold it (case 86)")
}

// A stranger must not even learn which ids exist.
func TestAnotherOrganizationIsNotThere(t *testing.T) {
	t.Parallel()
	_, err := shared.api.Organizations.Create(ctx, tfe.OrganizationCreateOptions{Name: tfe.String("strangers"), Email: tfe.String("s@example.com")})
	require.NoError(t, err)
	created := shared.holdfast("admin", "users", "create", "stranger", "--org", "strangers", "--role", "owner")
	require.Equal(t, 0, created.code, created.said)
	stranger := strings.TrimSpace(created.stdout)
	require.Equal(t, http.StatusOK, shared.as(t, stranger, http.MethodGet, "/api/v2/organizations/strangers", nil).status)

	w := shared.newWorkspace(t, workspaceName(t))
	r := shared.newRun(t, w.ID, `output "a" { value = "b" }`)
	require.Equal(t, "applied", shared.ended(t, r.ID).Status)
	run, err := shared.api.Runs.Read(ctx, r.ID)
	require.NoError(t, err)
	sv, err := shared.api.StateVersions.ReadCurrent(ctx, w.ID)
	require.NoError(t, err)

	for path, id := range map[string]string{
		"/api/v2/organizations/ID":                    "demo",
		"/api/v2/organizations/ID/workspaces":         "demo",
		"/api/v2/organizations/ID/runs/queue":         "demo",
		"/api/v2/organizations/demo/workspaces/ID":    w.Name,
		"/api/v2/workspaces/ID":                       w.ID,
		"/api/v2/workspaces/ID/vars":                  w.ID,
		"/api/v2/workspaces/ID/runs":                  w.ID,
		"/api/v2/workspaces/ID/current-state-version": w.ID,
		"/api/v2/runs/ID":                             r.ID,
		"/api/v2/runs/ID/run-events":                  r.ID,
		"/api/v2/plans/ID":                            run.Plan.ID,
		"/api/v2/plans/ID/json-output":                run.Plan.ID,
		"/api/v2/applies/ID":                          run.Apply.ID,
		"/api/v2/configuration-versions/ID":           run.ConfigurationVersion.ID,
		"/api/v2/state-versions/ID":                   sv.ID,
		"/api/v2/state-versions/ID/download":          sv.ID,
	} {
		unknown := swapEnd(id)
		theirs := shared.as(t, stranger, http.MethodGet, strings.Replace(path, "ID", id, 1), nil)
		nobodys := shared.as(t, stranger, http.MethodGet, strings.Replace(path, "ID", unknown, 1), nil)
		theirs.refusal(t, http.StatusNotFound)
		assert.Equal(t, strings.ReplaceAll(nobodys.body, unknown, "ID"), strings.ReplaceAll(theirs.body, id, "ID"), path)
	}
	for _, path := range []string{"/api/v2/workspaces/" + w.ID + "/actions/lock", "/api/v2/workspaces/" + w.ID + "/actions/force-unlock", "/api/v2/runs/" + r.ID + "/actions/cancel"} {
		shared.as(t, stranger, http.MethodPost, path, strings.NewReader("{}")).refusal(t, http.StatusNotFound)
	}
}

func TestAMemberReadsAndDecidesNothing(t *testing.T) {
	t.Parallel()
	created := shared.holdfast("admin", "users", "create", "member", "--org", "demo", "--role", "member")
	require.Equal(t, 0, created.code, created.said)
	member := strings.TrimSpace(created.stdout)
	team := shared.post(t, "/api/v2/organizations/demo/teams", `{"data":{"type":"teams","attributes":{"name":"readers","organization-access":{"read-workspaces":true}}}}`)
	require.Equal(t, http.StatusCreated, team.status, team.body)
	var made struct{ Data struct{ ID string } }
	require.NoError(t, json.Unmarshal([]byte(team.body), &made))
	joined := shared.post(t, "/api/v2/teams/"+made.Data.ID+"/relationships/users", `{"data":[{"type":"users","id":"member"}]}`)
	require.Equal(t, http.StatusNoContent, joined.status, joined.body)
	w := lockedWorkspace(t)
	require.Equal(t, http.StatusOK, shared.as(t, member, http.MethodGet, "/api/v2/workspaces/"+w, nil).status)
	for path, body := range map[string]string{
		"/api/v2/organizations/demo/workspaces":               `{"data":{"type":"workspaces","attributes":{"name":"of-a-member"}}}`,
		"/api/v2/workspaces/" + w + "/actions/unlock":         "",
		"/api/v2/workspaces/" + w + "/actions/force-unlock":   "",
		"/api/v2/workspaces/" + w + "/vars":                   `{"data":{"type":"vars","attributes":{"key":"k","value":"v","category":"env"}}}`,
		"/api/v2/workspaces/" + w + "/state-versions":         `{"data":{"type":"state-versions","attributes":{"serial":1,"lineage":"l","md5":"d41d8cd98f00b204e9800998ecf8427e"}}}`,
		"/api/v2/workspaces/" + w + "/configuration-versions": `{"data":{"type":"configuration-versions","attributes":{}}}`,
	} {
		shared.as(t, member, http.MethodPost, path, strings.NewReader(body)).refusal(t, http.StatusForbidden)
	}
}

// swapEnd gives another id of the same form.
func swapEnd(id string) string {
	last := "0"
	if strings.HasSuffix(id, last) {
		last = "1"
	}
	return id[:len(id)-1] + last
}
