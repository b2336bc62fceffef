package tfeapi

import (
	"bytes"
	"crypto/md5"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/hashicorp/go-tfe"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/authz"
)

func TestClientOrganizationsAndAccount(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	me, err := w.client.Users.ReadCurrent(ctx)
	require.NoError(t, err)
	assert.Equal(t, "ann", me.Username)
	assert.Equal(t, "ann@acme.test", me.Email)

	list, err := w.client.Organizations.List(ctx, nil)
	require.NoError(t, err)
	require.Len(t, list.Items, 1)
	read, err := w.client.Organizations.Read(ctx, "acme")
	require.NoError(t, err)
	assert.Equal(t, list.Items[0], read)
	assert.True(t, read.Permissions.CanCreateWorkspace)
	assert.False(t, read.CreatedAt.IsZero())

	rights, err := w.client.Organizations.ReadEntitlements(ctx, "acme")
	require.NoError(t, err)
	assert.True(t, rights.Operations)
	assert.True(t, rights.StateStorage)

	_, err = w.client.Organizations.Read(ctx, "nobody")
	assert.Equal(t, tfe.ErrResourceNotFound, err)
	name, email := "other", "x@y.test"
	_, err = w.client.Organizations.Create(ctx, tfe.OrganizationCreateOptions{Name: &name, Email: &email})
	assert.ErrorContains(t, err, "organization:create")
	_, err = w.as("wrong").Organizations.Read(ctx, "acme")
	assert.Equal(t, tfe.ErrUnauthorized, err)
}

func TestClientProjects(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	p, err := w.client.Projects.Create(ctx, "acme", tfe.ProjectCreateOptions{Name: "Payments"})
	require.NoError(t, err)
	read, err := w.client.Projects.Read(ctx, p.ID)
	require.NoError(t, err)
	assert.Equal(t, p, read)
	list, err := w.client.Projects.List(ctx, "acme", &tfe.ProjectListOptions{Name: "Payments"})
	require.NoError(t, err)
	assert.Equal(t, []*tfe.Project{p}, list.Items)
	list, err = w.client.Projects.List(ctx, "acme", &tfe.ProjectListOptions{Name: "absent"})
	require.NoError(t, err, "an unknown name must not be 404")
	assert.Empty(t, list.Items)
	_, err = w.client.Projects.Create(ctx, "acme", tfe.ProjectCreateOptions{Name: "a/b"})
	assert.ErrorContains(t, err, "invalid attribute\n\nName may only contain")
}

func TestClientWorkspaces(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	made := w.workspace("app")
	read, err := w.client.Workspaces.Read(ctx, "acme", "app")
	require.NoError(t, err)
	byID, err := w.client.Workspaces.ReadByID(ctx, made.ID)
	require.NoError(t, err)
	list, err := w.client.Workspaces.List(ctx, "acme", nil)
	require.NoError(t, err)
	assert.Equal(t, made, read)
	assert.Equal(t, made, byID)
	assert.Equal(t, []*tfe.Workspace{made}, list.Items)

	assert.Equal(t, "latest", made.TerraformVersion)
	assert.Equal(t, "remote", made.ExecutionMode)
	assert.Nil(t, made.VCSRepo)
	assert.Nil(t, made.CurrentRun)
	assert.Nil(t, made.LockedBy)
	assert.Equal(t, "acme", made.Organization.Name)
	assert.NotEmpty(t, made.Project.ID)
	assert.True(t, made.Permissions.CanQueueRun && made.Permissions.CanQueueApply && *made.Permissions.CanForceDelete)
	assert.Contains(t, made.Links["self"], "/api/v2/organizations/acme/workspaces/app")
	assert.Contains(t, made.Links["self-html"], "/app/acme/workspaces/app")

	version, mode := "1.12.6", "local"
	changed, err := w.client.Workspaces.UpdateByID(ctx, made.ID, tfe.WorkspaceUpdateOptions{TerraformVersion: &version, ExecutionMode: &mode})
	require.NoError(t, err)
	assert.Equal(t, version, changed.TerraformVersion)
	assert.False(t, changed.Operations)
	assert.Equal(t, made.Project, changed.Project, "what is not said stays")
	text := "by name"
	changed, err = w.client.Workspaces.Update(ctx, "acme", "app", tfe.WorkspaceUpdateOptions{Description: &text})
	require.NoError(t, err)
	assert.Equal(t, text, changed.Description)
	wrong := "nonexisting"
	_, err = w.client.Workspaces.UpdateByID(ctx, made.ID, tfe.WorkspaceUpdateOptions{TerraformVersion: &wrong})
	assert.ErrorContains(t, err, "invalid attribute\n\nTerraform version")

	bobs, err := w.as(w.bob).Workspaces.Read(ctx, "acme", "app")
	require.NoError(t, err)
	assert.False(t, bobs.Permissions.CanQueueRun)
	_, err = w.as(w.bob).Workspaces.UpdateByID(ctx, made.ID, tfe.WorkspaceUpdateOptions{Description: &text})
	assert.ErrorContains(t, err, "workspace:update")

	for i := range 24 {
		w.workspace(fmt.Sprintf("more-%02d", i))
	}
	list, err = w.client.Workspaces.List(ctx, "acme", &tfe.WorkspaceListOptions{ListOptions: tfe.ListOptions{PageNumber: 2}})
	require.NoError(t, err)
	assert.Len(t, list.Items, 5)
	assert.Equal(t, tfe.Pagination{CurrentPage: 2, PreviousPage: 1, TotalPages: 2, TotalCount: 25}, *list.Pagination)
	list, err = w.client.Workspaces.List(ctx, "acme", &tfe.WorkspaceListOptions{Search: "MORE-0"})
	require.NoError(t, err)
	assert.Equal(t, 10, list.TotalCount)
	list, err = w.client.Workspaces.List(ctx, "acme", &tfe.WorkspaceListOptions{Tags: "a"})
	require.NoError(t, err)
	assert.Empty(t, list.Items)

	require.NoError(t, w.client.Workspaces.SafeDeleteByID(ctx, made.ID))
	_, err = w.client.Workspaces.ReadByID(ctx, made.ID)
	assert.Equal(t, tfe.ErrResourceNotFound, err)
	require.NoError(t, w.client.Workspaces.Delete(ctx, "acme", "more-00"))
	assert.Equal(t, tfe.ErrResourceNotFound, w.client.Workspaces.Delete(ctx, "acme", "more-00"))
}

func TestClientVariables(t *testing.T) {
	w := newWorld(t)
	ctx, ws := t.Context(), w.workspace("app")
	make := func(key, value string, category tfe.CategoryType, sensitive bool) (*tfe.Variable, error) {
		return w.client.Variables.Create(ctx, ws.ID, tfe.VariableCreateOptions{Key: &key, Value: &value, Category: &category, Sensitive: &sensitive})
	}
	plain, err := make("region", "eu", tfe.CategoryTerraform, false)
	require.NoError(t, err)
	secret, err := make("password", "hunter2", tfe.CategoryTerraform, true)
	require.NoError(t, err)
	assert.Equal(t, "eu", plain.Value)
	assert.Empty(t, secret.Value)
	for _, v := range []*tfe.Variable{plain, secret} {
		read, err := w.client.Variables.Read(ctx, ws.ID, v.ID)
		require.NoError(t, err)
		assert.Equal(t, v, read)
	}
	list, err := w.client.Variables.List(ctx, ws.ID, nil)
	require.NoError(t, err)
	assert.ElementsMatch(t, []*tfe.Variable{plain, secret}, list.Items)

	empty := ""
	changed, err := w.client.Variables.Update(ctx, ws.ID, plain.ID, tfe.VariableUpdateOptions{Value: &empty})
	require.NoError(t, err)
	assert.Empty(t, changed.Value)
	assert.Equal(t, "region", changed.Key)
	_, err = make("TF_DATA_DIR", "x", tfe.CategoryEnv, false)
	assert.ErrorContains(t, err, "reserved_variable")
	require.NoError(t, w.client.Variables.Delete(ctx, ws.ID, plain.ID))
	_, err = w.client.Variables.Read(ctx, ws.ID, plain.ID)
	assert.Equal(t, tfe.ErrResourceNotFound, err)
}

func TestClientLocks(t *testing.T) {
	w := newWorld(t)
	ctx, ws, reason := t.Context(), w.workspace("app"), "maintenance"
	locked, err := w.client.Workspaces.Lock(ctx, ws.ID, tfe.WorkspaceLockOptions{Reason: &reason})
	require.NoError(t, err)
	assert.True(t, locked.Locked)
	require.NotNil(t, locked.LockedBy)
	require.NotNil(t, locked.LockedBy.User)
	_, err = w.client.Workspaces.Lock(ctx, ws.ID, tfe.WorkspaceLockOptions{})
	assert.Equal(t, tfe.ErrWorkspaceLocked, err)
	assert.Equal(t, tfe.ErrWorkspaceLockedCannotDelete, w.client.Workspaces.SafeDelete(ctx, "acme", "app"))

	eve, token := w.user(ctx, "eve")
	_ = eve
	_, err = w.as(token).Workspaces.Unlock(ctx, ws.ID)
	assert.Equal(t, tfe.ErrResourceNotFound, err, "who sees nothing gets 404")

	unlocked, err := w.client.Workspaces.Unlock(ctx, ws.ID)
	require.NoError(t, err)
	assert.Nil(t, unlocked.LockedBy)
	_, err = w.client.Workspaces.Unlock(ctx, ws.ID)
	assert.Equal(t, tfe.ErrWorkspaceNotLocked, err)
	_, err = w.client.Workspaces.ForceUnlock(ctx, ws.ID)
	assert.Equal(t, tfe.ErrWorkspaceNotLocked, err)

	_, err = w.client.Workspaces.Lock(ctx, ws.ID, tfe.WorkspaceLockOptions{})
	require.NoError(t, err)
	freed, err := w.client.Workspaces.ForceUnlock(ctx, ws.ID)
	require.NoError(t, err)
	assert.False(t, freed.Locked)
}

func stateFile(serial int) []byte {
	return fmt.Appendf(nil, `{"version":4,"terraform_version":"1.12.6","serial":%d,"lineage":"l-1","outputs":{"name":{"value":"v%d","type":"string"},`+
		`"secret":{"value":["s"],"type":["list","string"],"sensitive":true}},"resources":[{"mode":"managed","type":"terraform_data","name":"x",`+
		`"provider":"provider[\"terraform.io/builtin/terraform\"]","instances":[{"attributes":{}}]}]}`, serial, serial)
}

func md5Of(data []byte) *string {
	sum := md5.Sum(data)
	text := hex.EncodeToString(sum[:])
	return &text
}

func TestClientState(t *testing.T) {
	w := newWorld(t)
	ctx, ws := t.Context(), w.workspace("app")
	_, err := w.client.StateVersions.ReadCurrent(ctx, ws.ID)
	assert.Equal(t, tfe.ErrResourceNotFound, err)
	outputs, err := w.client.StateVersionOutputs.ReadCurrent(ctx, ws.ID)
	require.NoError(t, err, "no state is no error for outputs")
	assert.Empty(t, outputs.Items)

	lineage, first := "l-1", stateFile(1)
	upload := func(serial int64, data []byte) (*tfe.StateVersion, error) {
		return w.client.StateVersions.Upload(ctx, ws.ID, tfe.StateVersionUploadOptions{
			StateVersionCreateOptions: tfe.StateVersionCreateOptions{Lineage: &lineage, MD5: md5Of(data), Serial: &serial},
			RawState:                  data, RawJSONState: []byte(`{"format_version":"1.0"}`),
		})
	}
	_, err = upload(1, first)
	assert.ErrorContains(t, err, "workspace_not_locked")
	_, err = w.client.Workspaces.Lock(ctx, ws.ID, tfe.WorkspaceLockOptions{})
	require.NoError(t, err)
	sv, err := upload(1, first)
	require.NoError(t, err)
	assert.Equal(t, tfe.StateVersionFinalized, sv.Status)

	current, err := w.client.StateVersions.ReadCurrent(ctx, ws.ID)
	require.NoError(t, err)
	read, err := w.client.StateVersions.Read(ctx, sv.ID)
	require.NoError(t, err)
	assert.Equal(t, current, read)
	assert.Empty(t, read.UploadURL, "a finalized version takes no more bytes")
	bytes, err := w.client.StateVersions.Download(ctx, read.DownloadURL)
	require.NoError(t, err)
	assert.Equal(t, first, bytes)
	list, err := w.client.StateVersions.List(ctx, &tfe.StateVersionListOptions{Organization: "acme", Workspace: "app"})
	require.NoError(t, err)
	require.Len(t, list.Items, 1)
	assert.Equal(t, sv.ID, list.Items[0].ID)

	outputs, err = w.client.StateVersionOutputs.ReadCurrent(ctx, ws.ID)
	require.NoError(t, err)
	require.Len(t, outputs.Items, 2)
	for _, o := range outputs.Items {
		one, err := w.client.StateVersionOutputs.Read(ctx, o.ID)
		require.NoError(t, err)
		assert.NotNil(t, one.DetailedType)
		switch o.Name {
		case "name":
			assert.Equal(t, "v1", o.Value)
			assert.Equal(t, "string", o.Type)
		case "secret":
			assert.Nil(t, o.Value, "the list of a workspace hides sensitive values")
			assert.Equal(t, []any{"s"}, one.Value)
			assert.Equal(t, "array", o.Type)
		}
	}

	repeated, err := upload(1, first)
	require.NoError(t, err, "the same create and the same bytes again")
	assert.Equal(t, sv.ID, repeated.ID)
	_, err = upload(1, stateFile(0))
	assert.ErrorContains(t, err, "stale_serial")

	second := stateFile(2)
	inline, err := w.client.StateVersions.Create(ctx, ws.ID, tfe.StateVersionCreateOptions{
		Lineage: &lineage, MD5: md5Of(second), Serial: number(2), State: text64(second), JSONState: text64([]byte(`{}`)),
	})
	require.NoError(t, err)
	assert.Equal(t, tfe.StateVersionFinalized, inline.Status)
	bad := "%%%"
	_, err = w.client.StateVersions.Create(ctx, ws.ID, tfe.StateVersionCreateOptions{Lineage: &lineage, MD5: md5Of(second), Serial: number(3), State: &bad})
	assert.ErrorContains(t, err, "base64")
}

func number(n int64) *int64 { return &n }

func text64(data []byte) *string {
	text := base64.StdEncoding.EncodeToString(data)
	return &text
}

// send is a request without the client, for what it does not show.
func (w *world) send(method, address, token, body string) (*http.Response, string) {
	w.Helper()
	if !strings.HasPrefix(address, "http") {
		address = w.url + address
	}
	r, err := http.NewRequestWithContext(w.Context(), method, address, strings.NewReader(body))
	require.NoError(w, err)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := http.DefaultClient.Do(r)
	require.NoError(w, err)
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	require.NoError(w, err)
	return response, string(text)
}

func TestStateAnswersAskForSnapshots(t *testing.T) {
	w := newWorld(t)
	ws := w.workspace("app")
	response, _ := w.send("GET", "/api/v2/workspaces/"+ws.ID+"/current-state-version", w.ann, "")
	assert.Equal(t, 404, response.StatusCode)
	assert.Equal(t, "20", response.Header.Get("X-Terraform-Snapshot-Interval"), "also on the 404 (NC-20)")
	assert.Equal(t, mediaType, response.Header.Get("Content-Type"))

	response, _ = w.send("POST", "/api/v2/workspaces/"+ws.ID+"/actions/lock", w.ann, `{"data":{"type":"","attributes":{"reason":"r"}}}`)
	assert.Equal(t, 200, response.StatusCode)
	data := stateFile(1)
	create := fmt.Sprintf(`{"data":{"type":"state-versions","attributes":{"serial":1,"md5":%q,"lineage":"l-1"}}}`, *md5Of(data))
	response, _ = w.send("POST", "/api/v2/workspaces/"+ws.ID+"/state-versions", w.ann, create)
	assert.Equal(t, 201, response.StatusCode)
	assert.Equal(t, "20", response.Header.Get("X-Terraform-Snapshot-Interval"))
	response, _ = w.send("POST", "/api/v2/workspaces/"+ws.ID+"/actions/unlock", w.ann, "")
	assert.Equal(t, 409, response.StatusCode, "an upload is still open")

	for body, pointer := range map[string]string{
		`{"data":{"type":"state-versions","attributes":{"md5":"x"}}}`:              "/data/attributes/serial",
		`{"data":{"type":"state-versions","attributes":{"serial":-1,"md5":"x"}}}`:  "/data/attributes/serial",
		`{"data":{"type":"state-versions","attributes":{"serial":"1","md5":"x"}}}`: "/data/attributes/serial",
		`{"data":{"type":"state-versions","attributes":{"serial":1}}}`:             "/data/attributes/md5",
		`{"data":{"type":"state"}}`:                                                "/data/type",
	} {
		_, text := w.send("POST", "/api/v2/workspaces/"+ws.ID+"/state-versions", w.ann, body)
		assert.Contains(t, text, `"pointer":"`+pointer+`"`, body)
	}
}

func TestUploadLinks(t *testing.T) {
	w := newWorld(t)
	ctx, ws := t.Context(), w.workspace("app")
	cv, err := w.client.ConfigurationVersions.Create(ctx, ws.ID, tfe.ConfigurationVersionCreateOptions{})
	require.NoError(t, err)
	broken := cv.UploadURL[:len(cv.UploadURL)-10] + "nonexisting"
	response, _ := w.send("PUT", broken, "", "x")
	assert.Equal(t, 404, response.StatusCode)
	other, err := w.client.ConfigurationVersions.Create(ctx, ws.ID, tfe.ConfigurationVersionCreateOptions{})
	require.NoError(t, err)
	response, _ = w.send("PUT", strings.Replace(cv.UploadURL, cv.ID, other.ID, 1), "", "x")
	assert.Equal(t, 404, response.StatusCode, "a link is good for one thing only")
	response, _ = w.send("GET", "/api/v2/configuration-versions/"+cv.ID+"/download", w.ann, "")
	assert.Equal(t, 404, response.StatusCode, "nothing has been uploaded")

	archive := configuration(t)
	for range 2 {
		require.NoError(t, w.client.ConfigurationVersions.UploadTarGzip(ctx, cv.UploadURL, bytes.NewReader(archive)), "and once more")
	}
	read, err := w.client.ConfigurationVersions.Read(ctx, cv.ID)
	require.NoError(t, err)
	assert.Equal(t, tfe.ConfigurationUploaded, read.Status)
	assert.Empty(t, read.UploadURL)
	got, err := w.client.ConfigurationVersions.Download(ctx, cv.ID)
	require.NoError(t, err)
	assert.Equal(t, archive, got)
	list, err := w.client.ConfigurationVersions.List(ctx, ws.ID, nil)
	require.NoError(t, err)
	assert.Equal(t, 2, list.TotalCount)
	assert.Contains(t, list.Items, read)
}

func TestAStoreThatIsDownIsA503(t *testing.T) {
	w := newWorld(t)
	cv, err := w.client.ConfigurationVersions.Create(t.Context(), w.workspace("app").ID, tfe.ConfigurationVersionCreateOptions{})
	require.NoError(t, err)
	w.store.SetDown(true)
	response, _ := w.send("PUT", cv.UploadURL, "", string(configuration(t)))
	assert.Equal(t, 503, response.StatusCode)
	assert.NotEmpty(t, response.Header.Get("Retry-After"))
	response, _ = w.send("GET", "/readyz", "", "")
	assert.Equal(t, 503, response.StatusCode)
	w.store.SetDown(false)
	response, _ = w.send("PUT", cv.UploadURL, "", string(configuration(t)))
	assert.Equal(t, 200, response.StatusCode, "nothing was lost by it")
}

func TestClientRuns(t *testing.T) {
	w := newWorld(t)
	w.runner()
	ctx, ws := t.Context(), w.workspace("app")
	cv, err := w.client.ConfigurationVersions.Create(ctx, ws.ID, tfe.ConfigurationVersionCreateOptions{})
	require.NoError(t, err)
	require.NoError(t, w.client.ConfigurationVersions.UploadTarGzip(ctx, cv.UploadURL, bytes.NewReader(configuration(t))))

	message := "hello"
	options := tfe.RunCreateOptions{
		Workspace: ws, ConfigurationVersion: cv, Message: &message, TargetAddrs: []string{"terraform_data.x"},
		Variables: []*tfe.RunVariable{{Key: "a", Value: `"1"`}},
	}
	run, err := w.client.Runs.Create(ctx, options)
	require.NoError(t, err)
	assert.Equal(t, tfe.RunPlanQueued, run.Status)
	assert.True(t, run.Actions.IsCancelable)
	assert.False(t, run.Actions.IsConfirmable)
	assert.Equal(t, []*tfe.RunVariableAttr{{Key: "a", Value: `"1"`}}, run.Variables)
	assert.Empty(t, run.PolicyChecks)
	assert.Nil(t, run.CostEstimate)
	assert.False(t, run.StatusTimestamps.PlanQueueableAt.IsZero())
	assert.NotEmpty(t, run.RunEvents)
	read, err := w.client.Runs.Read(ctx, run.ID)
	require.NoError(t, err)
	assert.Equal(t, run, read)
	list, err := w.client.Runs.List(ctx, ws.ID, nil)
	require.NoError(t, err)
	assert.Equal(t, []*tfe.Run{run}, list.Items)

	same, err := w.client.Runs.Create(ctx, options)
	require.NoError(t, err)
	assert.Equal(t, run.ID, same.ID, "a repeated POST is the same run (amendment 13)")

	full, err := w.client.Runs.ReadWithOptions(ctx, run.ID, &tfe.RunReadOptions{Include: []tfe.RunIncludeOpt{tfe.RunWorkspace, tfe.RunPlan, tfe.RunTaskStages}})
	require.NoError(t, err)
	assert.Equal(t, "app", full.Workspace.Name)
	assert.Equal(t, tfe.PlanQueued, full.Plan.Status)
	withRun, err := w.client.Workspaces.ReadWithOptions(ctx, "acme", "app", &tfe.WorkspaceReadOptions{Include: []tfe.WSIncludeOpt{tfe.WSCurrentRun}})
	require.NoError(t, err)
	assert.Equal(t, tfe.RunPlanQueued, withRun.CurrentRun.Status)
	assert.Equal(t, run.ID, withRun.LockedBy.Run.ID)

	plan, err := w.client.Plans.Read(ctx, run.Plan.ID)
	require.NoError(t, err)
	apply, err := w.client.Applies.Read(ctx, run.Apply.ID)
	require.NoError(t, err)
	for _, address := range []string{plan.LogReadURL, apply.LogReadURL} {
		response, text := w.send("GET", address+"?limit=10&offset=0", "", "")
		assert.Equal(t, 200, response.StatusCode)
		assert.Equal(t, "\x02", text)
	}
	_, err = w.client.Plans.ReadJSONOutput(ctx, run.Plan.ID)
	assert.Equal(t, tfe.ErrResourceNotFound, err)

	events, err := w.client.RunEvents.List(ctx, run.ID, nil)
	require.NoError(t, err)
	assert.Len(t, events.Items, len(run.RunEvents))
	queue, err := w.client.Organizations.ReadRunQueue(ctx, "acme", tfe.ReadRunQueueOptions{})
	require.NoError(t, err)
	require.Len(t, queue.Items, 1)
	assert.Equal(t, 1, queue.Items[0].PositionInQueue)
	capacity, err := w.client.Organizations.ReadCapacity(ctx, "acme")
	require.NoError(t, err)
	assert.Equal(t, 1, capacity.Pending)

	err = w.client.Runs.Apply(ctx, run.ID, tfe.RunApplyOptions{})
	assert.ErrorContains(t, err, "invalid_transition")
	assert.Error(t, w.client.Runs.ForceCancel(ctx, run.ID, tfe.RunForceCancelOptions{}))
	require.NoError(t, w.client.Runs.Cancel(ctx, run.ID, tfe.RunCancelOptions{}))
	gone, err := w.client.Runs.Read(ctx, run.ID)
	require.NoError(t, err)
	assert.Equal(t, tfe.RunCanceled, gone.Status)
	assert.False(t, gone.CanceledAt.IsZero())
	assert.True(t, gone.ForceCancelAvailableAt.After(gone.CanceledAt))
	_, text := w.send("GET", plan.LogReadURL+"?limit=65536&offset=0", "", "")
	assert.True(t, strings.HasPrefix(text, "\x02") && strings.HasSuffix(text, "\x03"), "%q", text)
	assert.Equal(t, tfe.ErrResourceNotFound, w.client.Runs.Cancel(ctx, "run-1234567890123456", tfe.RunCancelOptions{}))
}

func TestARunWithoutARunnerSaysWhy(t *testing.T) {
	w := newWorld(t)
	ctx, ws := t.Context(), w.workspace("app")
	cv, err := w.client.ConfigurationVersions.Create(ctx, ws.ID, tfe.ConfigurationVersionCreateOptions{})
	require.NoError(t, err)
	_, err = w.client.Runs.Create(ctx, tfe.RunCreateOptions{Workspace: ws, ConfigurationVersion: cv})
	assert.ErrorContains(t, err, "configuration_not_uploaded")
	require.NoError(t, w.client.ConfigurationVersions.UploadTarGzip(ctx, cv.UploadURL, bytes.NewReader(configuration(t))))
	run, err := w.client.Runs.Create(ctx, tfe.RunCreateOptions{Workspace: ws, ConfigurationVersion: cv})
	require.NoError(t, err)
	assert.Equal(t, tfe.RunErrored, run.Status)
	plan, err := w.client.Plans.Read(ctx, run.Plan.ID)
	require.NoError(t, err)
	_, text := w.send("GET", plan.LogReadURL+"?limit=65536&offset=0", "", "")
	assert.Contains(t, text, "No runner has connected")
}

// TestARunsCreatorWhomTheReaderMaySeeIsIncluded: a site admin belongs to no organization.
func TestARunsCreatorWhomTheReaderMaySeeIsIncluded(t *testing.T) {
	w := newWorld(t)
	ctx, ws := t.Context(), w.workspace("app")
	admin, err := w.deps.Accounts.CreateUser(ctx, authz.System(), accounts.NewUser{Username: "root", Email: "root@acme.test", SiteAdmin: true})
	require.NoError(t, err)
	token, _, err := w.deps.Accounts.CreateUserToken(ctx, authz.System(), admin.ID, "test", 0)
	require.NoError(t, err)
	owners := w.queue(ws, tfe.RunCreateOptions{})
	w.client = w.as(token)
	admins := w.queue(ws, tfe.RunCreateOptions{})
	read := func(run *tfe.Run) string {
		response, text := w.send("GET", "/api/v2/runs/"+run.ID+"?include=created_by,workspace", w.bob, "")
		require.Equal(t, 200, response.StatusCode, text)
		return text
	}
	assert.Contains(t, read(owners), `"username":"ann"`)
	assert.NotContains(t, read(admins), `"root"`)
	assert.Contains(t, read(admins), `"type":"workspaces","id":"`+ws.ID)
}
