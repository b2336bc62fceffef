package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// madeRun gives the id of the run that a request has made.
func madeRun(t *testing.T, r reply) string {
	t.Helper()
	require.Equal(t, http.StatusCreated, r.status, r.body)
	var document struct{ Data struct{ ID string } }
	require.NoError(t, json.Unmarshal([]byte(r.body), &document))
	return document.Data.ID
}

// TestAPlanIsPromotedAndItsWorkspaceTornDown: a plan is made in one run and applied, to
// the byte, by another, and at last everything goes, the workspace with it.
func TestAPlanIsPromotedAndItsWorkspaceTornDown(t *testing.T) {
	ws := shared.newWorkspace(t, "promoted").ID
	shared.upload(t, ws, map[string]string{"main.tf": `
resource "terraform_data" "x" { input = plantimestamp() }
output "x" { value = terraform_data.x.output }
`})
	run := func(attributes string) string {
		return madeRun(t, shared.post(t, "/api/v2/runs", fmt.Sprintf(`{"data":{"type":"runs","attributes":{%s},"relationships":{"workspace":{"data":{"type":"workspaces","id":%q}}}}}`, attributes, ws)))
	}
	plan := run(`"operation":"plan"`)
	shared.reaches(t, plan, "succeeded")
	assert.Equal(t, "planned_and_saved", shared.runFacts(t, plan).Status)

	promotion := madeRun(t, shared.post(t, "/api/v2/runs/"+plan+"/actions/promote", `{"auto-apply":true}`))
	facts := shared.ended(t, promotion)
	assert.Equal(t, "applied", facts.Status, facts.StatusMessage)
	assert.NotEmpty(t, shared.outputs(t, ws)["x"])
	assert.Equal(t, http.StatusConflict, shared.post(t, "/api/v2/runs/"+plan+"/actions/promote", "").status)

	teardown := run(`"operation":"teardown","auto-apply":true`)
	facts = shared.ended(t, teardown)
	assert.Equal(t, "applied", facts.Status, facts.StatusMessage)
	assert.Equal(t, http.StatusNotFound, shared.get(t, "/api/v2/workspaces/"+ws).status)
	assert.Equal(t, "applied", shared.runFacts(t, promotion).Status, "history is kept")
}

// TestAFailedRunIsRequeued: what made it fail is mended outside, and the same run goes on.
func TestAFailedRunIsRequeued(t *testing.T) {
	ws := shared.newWorkspace(t, "requeued").ID
	file := t.TempDir() + "/input"
	run := shared.newRun(t, ws, fmt.Sprintf("resource \"terraform_data\" \"x\" { input = file(%q) }", file)).ID
	assert.Equal(t, "plan_failed", shared.ended(t, run).DurableStatus)
	require.NoError(t, os.WriteFile(file, []byte("now it is there"), 0o644))
	r := shared.post(t, "/api/v2/runs/"+run+"/actions/requeue", "")
	require.Equal(t, http.StatusOK, r.status, r.body)
	facts := shared.ended(t, run)
	assert.Equal(t, "applied", facts.Status, facts.StatusMessage)
	assert.Empty(t, facts.DurableReason)
}
