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

	"GET /api/registry/v1/modules/{namespace}/{module}/{system}/versions":                  {200, 200},
	"GET /api/registry/v1/modules/{namespace}/{module}/{system}/{version}/download":        {204, 204},
	"GET /api/registry/v1/providers/{namespace}/{provider}/versions":                       {200, 200},
	"GET /api/registry/v1/providers/{namespace}/{provider}/{version}/download/{os}/{arch}": {200, 200},
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
	return strings.NewReplacer("{organization}", "acme", "{workspace}", ws.Name, "{id}", id,
		"{namespace}", "acme", "{module}", "vpc", "{system}", "aws", "{provider}", "cloud", "{version}", "1.0.0", "{os}", "linux", "{arch}", "amd64").Replace(rt.path)
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
	l.publishModule("vpc", "aws", "1.0.0")
	l.publishProvider("cloud", "1.0.0")
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
		if ofTheOrganization, malformed := strings.HasSuffix(at, "/entitlement-set") || strings.HasPrefix(at, "GET /api/registry/"), strings.HasPrefix(at, "POST") && strings.HasSuffix(at, "/state-versions"); listed && !ofTheOrganization && !malformed {
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

// TestARunReadsWhatIsSharedWithIt: the current state of another workspace, and nothing else of it.
func TestARunReadsWhatIsSharedWithIt(t *testing.T) {
	l := newLeak(t)
	l.publishModule("vpc", "aws", "1.0.0")
	l.publishProvider("cloud", "1.0.0")
	second := l.push(l.other, 2)
	third := l.push(l.other, 3)
	consumers := []*tfe.Workspace{{ID: l.app.ID}}
	require.NoError(t, l.client.Workspaces.AddRemoteStateConsumers(t.Context(), l.other.ID, tfe.WorkspaceAddRemoteStateConsumersOptions{Workspaces: consumers}))
	reads := map[string]int{"GET /api/v2/organizations/{organization}/entitlement-set": 200}
	for at, status := range leakedMatrix {
		if strings.HasPrefix(at, "GET ") {
			reads[at] = status[0]
		}
	}
	all := func(token string) {
		t.Helper()
		for at, status := range l.walk(token, l.other, third) {
			if want, listed := reads[at]; listed {
				assert.Equal(t, want, status, at)
				continue
			}
			assert.Contains(t, []int{400, 403, 404}, status, at)
		}
		_, body := l.send("GET", "/api/v2/workspaces/"+l.other.ID+"/current-state-version", token, "")
		assert.Contains(t, body, third)
		response, _ := l.send("GET", "/api/v2/state-versions/"+second+"/download", token, "")
		assert.Equal(t, 200, response.StatusCode, "it was current a moment ago")
		response, _ = l.send("GET", "/api/v2/state-versions/"+l.next+"/download", token, "")
		assert.Equal(t, 404, response.StatusCode, "history is nothing for a run")
		_, body = l.send("GET", "/api/v2/workspaces/"+l.app.ID+"/current-state-version", token, "")
		assert.Contains(t, body, l.current, "its own is what its run began with")
	}
	all(l.plan.Token)
	l.toApply()
	all(l.apply.Token)
	list, err := l.client.Workspaces.ListRemoteStateConsumers(t.Context(), l.other.ID, nil)
	require.NoError(t, err)
	require.Len(t, list.Items, 1)
	assert.Equal(t, l.app.ID, list.Items[0].ID)

	require.NoError(t, l.client.Workspaces.RemoveRemoteStateConsumers(t.Context(), l.other.ID, tfe.WorkspaceRemoveRemoteStateConsumersOptions{Workspaces: consumers}))
	for at, status := range l.walk(l.apply.Token, l.other, third) {
		if reads[at] != 0 && !strings.HasSuffix(at, "/entitlement-set") && !strings.HasPrefix(at, "GET /api/registry/") { // these are of the organization
			assert.Equal(t, 404, status, at)
		}
	}
}

// TestRemoteStateSharingOnTheWire is what go-tfe's own suite asks, and what it does not.
func TestRemoteStateSharingOnTheWire(t *testing.T) {
	w := newWorld(t)
	source, a, b := w.workspace("source"), w.workspace("a"), w.workspace("b")
	assert.False(t, source.GlobalRemoteState || source.ProjectRemoteState, "nothing is shared unless it is said")
	require.NoError(t, w.client.Workspaces.UpdateRemoteStateConsumers(t.Context(), source.ID, tfe.WorkspaceUpdateRemoteStateConsumersOptions{Workspaces: []*tfe.Workspace{a, b}}))
	require.NoError(t, w.client.Workspaces.UpdateRemoteStateConsumers(t.Context(), source.ID, tfe.WorkspaceUpdateRemoteStateConsumersOptions{Workspaces: []*tfe.Workspace{b}}))
	list, err := w.client.Workspaces.ListRemoteStateConsumers(t.Context(), source.ID, nil)
	require.NoError(t, err)
	assert.Equal(t, []*tfe.Workspace{b}, list.Items)
	for _, option := range []tfe.WorkspaceUpdateOptions{{GlobalRemoteState: tfe.Bool(true)}, {ProjectRemoteState: tfe.Bool(true), GlobalRemoteState: tfe.Bool(false)}} {
		changed, err := w.client.Workspaces.UpdateByID(t.Context(), source.ID, option)
		require.NoError(t, err)
		assert.Equal(t, []bool{option.ProjectRemoteState == nil, option.ProjectRemoteState != nil}, []bool{changed.GlobalRemoteState, changed.ProjectRemoteState})
		list, err = w.client.Workspaces.ListRemoteStateConsumers(t.Context(), source.ID, nil)
		require.NoError(t, err)
		assert.Equal(t, []*tfe.Workspace{a, b}, list.Items)
	}
	_, err = w.client.Workspaces.UpdateByID(t.Context(), source.ID, tfe.WorkspaceUpdateOptions{GlobalRemoteState: tfe.Bool(true)})
	require.ErrorContains(t, err, tfe.ErrInvalidRemoteStateOptions.Error())
	made, err := w.client.Workspaces.Create(t.Context(), "acme", tfe.WorkspaceCreateOptions{Name: tfe.String("made"), GlobalRemoteState: tfe.Bool(true)})
	require.NoError(t, err)
	assert.True(t, made.GlobalRemoteState)
	for _, body := range []string{"{}", `{"data":[]}`, `{"data":[{"type":"workspaces","id":"nonsense"}]}`, `{"data":[{"type":"workspaces","id":"` + source.ID + `"}]}`} {
		response, _ := w.send("POST", "/api/v2/workspaces/"+source.ID+"/relationships/remote-state-consumers", w.ann, body)
		assert.Contains(t, []int{400, 404, 422}, response.StatusCode, body)
	}
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
