package tfeapi

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/hashicorp/go-tfe"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/runs"
)

// leakedMatrix is everything that a leaked token of a run is answered other than 403, by
// phase: plan, and apply after its start. A route that is not here must be 403 for both.
var leakedMatrix = map[string][2]int{
	"GET /api/v2/organizations/{organization}/entitlement-set":        {200, 200},
	"GET /api/v2/organizations/{organization}/workspaces/{workspace}": {200, 200},
	"GET /api/v2/workspaces/{id}":                                     {200, 200},
	"GET /api/v2/workspaces/{id}/current-state-version":               {200, 200},
	"GET /api/v2/workspaces/{id}/current-state-version-outputs":       {200, 200},
	"GET /api/v2/state-versions/{id}":                                 {200, 200},
	"GET /api/v2/state-versions/{id}/outputs":                         {200, 200},
	"GET /api/v2/state-versions/{id}/download":                        {200, 200},
	"GET /api/v2/state-versions/{id}/json-download":                   {404, 404}, // this state was sent without one
	"POST /api/v2/workspaces/{id}/actions/lock":                       {403, 200}, // changes nothing
	"POST /api/v2/workspaces/{id}/actions/unlock":                     {403, 200}, // changes nothing
	"POST /api/v2/workspaces/{id}/state-versions":                     {403, 400}, // the body of this test is empty
}

// leak is a world in which a run of workspace app has a predecessor state, and another
// workspace has what the run must not see.
type leak struct {
	*world
	app, other         *tfe.Workspace
	old, current, next string // state versions: app's before the predecessor, the predecessor, and other's
	run                *tfe.Run
	plan, apply        session
}

func newLeak(t *testing.T) *leak {
	w := newWorld(t)
	l := &leak{world: w, app: w.workspace("app"), other: w.workspace("other")}
	l.old, l.current, l.next = l.push(l.app, 1), l.push(l.app, 2), l.push(l.other, 1)
	group := w.runner()
	l.run = w.queue(l.app, tfe.RunCreateOptions{})
	l.plan = w.accept(group)
	return l
}

// toApply brings the run to its started apply.
func (l *leak) toApply() {
	l.Helper()
	group := l.runner()
	l.world.plan(l.plan, "planned\n")
	require.NoError(l, l.client.Runs.Apply(l.Context(), l.run.ID, tfe.RunApplyOptions{}))
	l.apply = l.accept(group)
	_, err := l.deps.Runs.StartApply(l.Context(), l.apply.actor, l.apply.ManifestDigest, "sandbox", "digest")
	require.NoError(l, err)
}

// push publishes a state as ann does under her own lock.
func (l *leak) push(ws *tfe.Workspace, serial int64) string {
	l.Helper()
	ctx := l.Context()
	_, err := l.client.Workspaces.Lock(ctx, ws.ID, tfe.WorkspaceLockOptions{})
	require.NoError(l, err)
	lineage, data := "l-1", stateFile(int(serial))
	v, err := l.client.StateVersions.Create(ctx, ws.ID, tfe.StateVersionCreateOptions{Lineage: &lineage, MD5: md5Of(data), Serial: &serial})
	require.NoError(l, err)
	response, _ := l.send("PUT", v.UploadURL, "", string(data))
	require.Equal(l, 200, response.StatusCode)
	_, err = l.client.Workspaces.Unlock(ctx, ws.ID)
	require.NoError(l, err)
	return v.ID
}

// address fills in a route's template with the things of a workspace.
func (l *leak) address(rt route, ws *tfe.Workspace, version string) string {
	id := "nothing"
	switch path := strings.TrimPrefix(rt.path, "/api/v2/"); {
	case strings.HasPrefix(path, "workspaces/"):
		id = ws.ID
	case strings.HasPrefix(path, "state-versions/"):
		id = version
	case strings.HasPrefix(path, "runs/"):
		id = l.run.ID
	case strings.HasPrefix(path, "plans/"):
		id = l.run.Plan.ID
	case strings.HasPrefix(path, "applies/"):
		id = l.run.Apply.ID
	case strings.HasPrefix(path, "configuration-versions/"):
		id = l.run.ConfigurationVersion.ID
	}
	return strings.NewReplacer("{organization}", "acme", "{workspace}", ws.Name, "{id}", id).Replace(rt.path)
}

// walk calls every route that takes a bearer token, and gives the status of each.
func (l *leak) walk(token string, ws *tfe.Workspace, version string) map[string]int {
	l.Helper()
	statuses := map[string]int{}
	for _, rt := range (&server{Deps: l.deps}).routes() {
		if rt.open {
			continue
		}
		response, body := l.send(rt.method, l.address(rt, ws, version), token, "{}")
		statuses[rt.method+" "+rt.path] = response.StatusCode
		if response.StatusCode == http.StatusForbidden {
			assert.Contains(l, body, `"code":"forbidden"`)
		}
	}
	return statuses
}

// TestALeakedTokenOfARun walks every route of the API with the tokens of both phases.
func TestALeakedTokenOfARun(t *testing.T) {
	l := newLeak(t)
	compare := func(phase int, got map[string]int) {
		t.Helper()
		for at, status := range got {
			want, listed := leakedMatrix[at]
			if !listed {
				want = [2]int{403, 403}
			}
			assert.Equal(t, want[phase], status, "phase %d: %s", phase, at)
		}
		for at := range leakedMatrix {
			assert.Contains(t, got, at, "the matrix names a route that is not there")
		}
	}
	compare(0, l.walk(l.plan.Token, l.app, l.current))
	l.toApply()
	before := fenceOf(l)
	compare(1, l.walk(l.apply.Token, l.app, l.current))
	assert.Equal(t, before, fenceOf(l), "lock and unlock of a run change nothing")

	t.Log("another workspace, and another state of its own, are not there")
	for at, status := range l.walk(l.apply.Token, l.other, l.next) {
		_, listed := leakedMatrix[at]
		if ofTheOrganization, malformed := strings.HasSuffix(at, "/entitlement-set"), strings.HasPrefix(at, "POST") && strings.HasSuffix(at, "/state-versions"); listed && !ofTheOrganization && !malformed {
			assert.Equal(t, 404, status, at)
		}
	}
	response, _ := l.send("GET", "/api/v2/state-versions/"+l.old+"/download", l.apply.Token, "")
	assert.Equal(t, 404, response.StatusCode, "history is nothing for a run")
	data := string(stateFile(3))
	create := fmt.Sprintf(`{"data":{"type":"state-versions","attributes":{"serial":3,"md5":%q,"lineage":"l-1"}}}`, *md5Of([]byte(data)))
	response, body := l.send("POST", "/api/v2/workspaces/"+l.app.ID+"/state-versions", l.apply.Token, create) // with a body that can be read
	assert.Equal(t, 201, response.StatusCode, body)
	response, _ = l.send("POST", "/api/v2/workspaces/"+l.other.ID+"/state-versions", l.apply.Token, create)
	assert.Equal(t, 404, response.StatusCode)
}

func fenceOf(l *leak) (text string) {
	l.Helper()
	require.NoError(l, postgres.InSnapshot(l.Context(), l.db, "test", func(tx postgres.Tx) (err error) {
		text, err = postgres.Value[string](l.Context(), tx, "select f::text from workspace_fences f where workspace_id = @w", postgres.Args{"w": l.app.ID})
		return err
	}))
	return text
}

// TestALeakedTokenDiesWithItsSession: at once, however the session ended.
func TestALeakedTokenDiesWithItsSession(t *testing.T) {
	for name, end := range map[string]func(*leak) string{
		"done": func(l *leak) string {
			l.world.plan(l.plan, "planned\n")
			return l.plan.Token
		},
		"lost": func(l *leak) string {
			l.exec("update attempts set heartbeat_at = clock_timestamp() - interval '1 hour' where id = @id", l.plan)
			require.NoError(l, l.deps.Runs.ReapSilent(l.Context()))
			return l.plan.Token
		},
		"canceled": func(l *leak) string {
			require.NoError(l, l.client.Runs.Cancel(l.Context(), l.run.ID, tfe.RunCancelOptions{}))
			require.NoError(l, l.deps.Runs.Done(l.Context(), l.plan.id, runs.Done{Outcome: runs.OutcomeCanceled}))
			return l.plan.Token
		},
		"expired": func(l *leak) string {
			l.toApply()
			l.exec("update attempts set token_expires_at = clock_timestamp() where id = @id", l.apply)
			return l.apply.Token
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLeak(t)
			token := end(l)
			for at, status := range l.walk(token, l.app, l.current) {
				assert.Equal(t, 401, status, at)
			}
		})
	}
}

func (l *leak) exec(sql string, s session) {
	l.Helper()
	require.NoError(l, postgres.InTx(l.Context(), l.db, "test", func(tx postgres.Tx) error {
		_, err := postgres.Exec(l.Context(), tx, sql, postgres.Args{"id": s.id})
		return err
	}))
}

// TestAnUnknownTokenOfARunIsNoBare401: 423, and the workspace is held.
func TestAnUnknownTokenOfARunIsNoBare401(t *testing.T) {
	l := newLeak(t)
	l.toApply()
	l.exec("delete from attempt_sessions where attempt_id = @id", l.apply)
	response, body := l.send("GET", "/api/v2/workspaces/"+l.app.ID+"/current-state-version", l.apply.Token, "")
	assert.Equal(t, 423, response.StatusCode)
	assert.Contains(t, body, `"code":"authority_lost"`)
	_, err := l.client.Runs.Create(l.Context(), tfe.RunCreateOptions{Workspace: l.app})
	assert.ErrorContains(t, err, "Workspace locked")
	_, err = l.client.Runs.Create(l.Context(), tfe.RunCreateOptions{Workspace: l.app, PlanOnly: tfe.Bool(true)})
	assert.ErrorContains(t, err, "Workspace locked")
	assert.False(t, bytes.Contains([]byte(body), []byte(l.apply.Token)))
}
