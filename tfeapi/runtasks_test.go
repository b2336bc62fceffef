package tfeapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-tfe"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/ids"
)

func (w *world) task(url string, key *string) *tfe.RunTask {
	w.Helper()
	t, err := w.client.RunTasks.Create(w.Context(), "acme", tfe.RunTaskCreateOptions{Name: "checker", URL: url, Description: tfe.String("it checks"), Category: "task", HMACKey: key})
	require.NoError(w, err)
	return t
}

func TestClientRunTasks(t *testing.T) {
	w := newWorld(t)
	ctx, service := t.Context(), newSink(t)
	entitled, err := w.client.Organizations.ReadEntitlements(ctx, "acme")
	require.NoError(t, err)
	assert.Equal(t, []bool{true, true, false}, []bool{entitled.RunTasks, entitled.GlobalRunTasks, entitled.PrivateRunTasks})

	task := w.task(service.url, tfe.String("the key"))
	var test map[string]any
	require.NoError(t, json.Unmarshal(<-service.bodies, &test))
	assert.Equal(t, "test", test["stage"])
	assert.Equal(t, []string{"checker", service.url, "it checks", "task", "acme"}, []string{task.Name, task.URL, task.Description, task.Category, task.Organization.Name})
	assert.Nil(t, task.HMACKey, "it is never shown")
	assert.True(t, task.Enabled)
	assert.False(t, task.Global.Enabled)
	_, err = w.client.RunTasks.Create(ctx, "acme", tfe.RunTaskCreateOptions{Name: "checker", URL: service.url, Category: "task"})
	assert.ErrorContains(t, err, "has already been taken")
	_, err = w.client.RunTasks.Create(ctx, "acme", tfe.RunTaskCreateOptions{Name: "pool", URL: service.url, Category: "task", AgentPool: &tfe.AgentPool{ID: "apool-none"}})
	assert.ErrorContains(t, err, "The provided agent pool does not exist")
	service.status = http.StatusInternalServerError
	_, err = w.client.RunTasks.Create(ctx, "acme", tfe.RunTaskCreateOptions{Name: "dead", URL: service.url, Category: "task"})
	assert.ErrorContains(t, err, "did not take a test request")
	service.status = http.StatusOK

	stages, level := []tfe.Stage{tfe.PostPlan, tfe.PrePlan}, tfe.Mandatory
	changed, err := w.client.RunTasks.Update(ctx, task.ID, tfe.RunTaskUpdateOptions{
		Name: tfe.String("judge"), Enabled: tfe.Bool(false), Global: &tfe.GlobalRunTaskOptions{Enabled: tfe.Bool(true), Stages: &stages, EnforcementLevel: &level},
	})
	require.NoError(t, err)
	assert.Equal(t, &tfe.GlobalRunTask{Enabled: true, Stages: stages, EnforcementLevel: level}, changed.Global)
	assert.Equal(t, "judge", changed.Name)
	assert.False(t, changed.Enabled)
	listed, err := w.client.RunTasks.List(ctx, "acme", nil)
	require.NoError(t, err)
	require.Len(t, listed.Items, 1)
	assert.Equal(t, changed, listed.Items[0])

	t.Log("a workspace asks it")
	ws := w.workspace("shop")
	wt, err := w.client.WorkspaceRunTasks.Create(ctx, ws.ID, tfe.WorkspaceRunTaskCreateOptions{EnforcementLevel: tfe.Mandatory, RunTask: task, Stages: &[]tfe.Stage{tfe.PrePlan, tfe.PostPlan}})
	require.NoError(t, err)
	assert.Equal(t, []tfe.Stage{tfe.PrePlan, tfe.PostPlan}, wt.Stages)
	assert.Equal(t, tfe.PrePlan, wt.Stage)
	assert.Equal(t, task.ID, wt.RunTask.ID)
	_, err = w.client.WorkspaceRunTasks.Create(ctx, ws.ID, tfe.WorkspaceRunTaskCreateOptions{EnforcementLevel: tfe.Advisory, RunTask: task})
	assert.ErrorContains(t, err, "already")
	post := tfe.PreApply
	wt, err = w.client.WorkspaceRunTasks.Update(ctx, ws.ID, wt.ID, tfe.WorkspaceRunTaskUpdateOptions{EnforcementLevel: tfe.Advisory, Stage: &post})
	require.NoError(t, err)
	assert.Equal(t, []tfe.Stage{tfe.PreApply}, wt.Stages)
	read, err := w.client.WorkspaceRunTasks.Read(ctx, ws.ID, wt.ID)
	require.NoError(t, err)
	assert.Equal(t, wt, read)
	with, err := w.client.RunTasks.ReadWithOptions(ctx, task.ID, &tfe.RunTaskReadOptions{Include: []tfe.RunTaskIncludeOpt{tfe.RunTaskWorkspaceTasks}})
	require.NoError(t, err)
	require.Len(t, with.WorkspaceRunTasks, 1)
	assert.Equal(t, tfe.Advisory, with.WorkspaceRunTasks[0].EnforcementLevel)
	all, err := w.client.WorkspaceRunTasks.List(ctx, ws.ID, nil)
	require.NoError(t, err)
	assert.Len(t, all.Items, 1)
	other := w.workspace("other")
	_, err = w.client.WorkspaceRunTasks.Read(ctx, other.ID, wt.ID)
	assert.Equal(t, tfe.ErrResourceNotFound, err)

	t.Log("who may not")
	bob := w.as(w.bob)
	seen, err := bob.RunTasks.Read(ctx, task.ID)
	require.NoError(t, err)
	assert.Empty(t, seen.URL, "the address is for who administers it")
	_, err = bob.RunTasks.Update(ctx, task.ID, tfe.RunTaskUpdateOptions{Name: tfe.String("x")})
	assert.Error(t, err)
	assert.Error(t, bob.RunTasks.Delete(ctx, task.ID))
	_, err = bob.WorkspaceRunTasks.Create(ctx, other.ID, tfe.WorkspaceRunTaskCreateOptions{EnforcementLevel: tfe.Advisory, RunTask: task})
	assert.Error(t, err)
	assert.Error(t, bob.WorkspaceRunTasks.Delete(ctx, ws.ID, wt.ID))

	require.NoError(t, w.client.WorkspaceRunTasks.Delete(ctx, ws.ID, wt.ID))
	assert.Equal(t, tfe.ErrResourceNotFound, w.client.WorkspaceRunTasks.Delete(ctx, ws.ID, wt.ID))
	require.NoError(t, w.client.RunTasks.Delete(ctx, task.ID))
	_, err = w.client.RunTasks.Read(ctx, task.ID)
	assert.Equal(t, tfe.ErrResourceNotFound, err)
}

// TestARunTaskOverTheAPI: what a service is sent, what it may read with the token in it, and how it answers.
func TestARunTaskOverTheAPI(t *testing.T) {
	w := newWorld(t)
	ctx, service := t.Context(), newSink(t)
	group, ws := w.runner(), w.workspace("shop")
	task := w.task(service.url, nil)
	<-service.bodies
	_, err := w.client.WorkspaceRunTasks.Create(ctx, ws.ID, tfe.WorkspaceRunTaskCreateOptions{EnforcementLevel: tfe.Mandatory, RunTask: task, Stages: &[]tfe.Stage{tfe.PrePlan, tfe.PostPlan}})
	require.NoError(t, err)
	run := w.queue(ws, tfe.RunCreateOptions{Message: tfe.String("five queues")})
	status := func() string { return string(w.read(run).Status) }
	assert.Equal(t, "pre_plan_running", status())
	with, err := w.client.Runs.ReadWithOptions(ctx, run.ID, &tfe.RunReadOptions{Include: []tfe.RunIncludeOpt{tfe.RunTaskStages}})
	require.NoError(t, err)
	require.Len(t, with.TaskStages, 2)
	assert.Equal(t, []tfe.Stage{tfe.PrePlan, tfe.PostPlan}, []tfe.Stage{with.TaskStages[0].Stage, with.TaskStages[1].Stage})

	type request struct {
		AccessToken string    `json:"access_token"`
		CallbackURL string    `json:"task_result_callback_url"`
		ResultID    string    `json:"task_result_id"`
		Enforcement string    `json:"task_result_enforcement_level"`
		PlanJSON    *string   `json:"plan_json_api_url"`
		Config      string    `json:"configuration_version_download_url"`
		Stage       string    `json:"stage"`
		RunID       string    `json:"run_id"`
		RunURL      string    `json:"run_app_url"`
		CreatedBy   string    `json:"run_created_by"`
		CreatedAt   time.Time `json:"run_created_at"`
	}
	asked := func() (q request) {
		sent, err := w.deps.RunTasks.Send(ctx, w.deps.Runs.ReportTask)
		require.NoError(t, err)
		require.Equal(t, 1, sent)
		require.NoError(t, json.Unmarshal(<-service.bodies, &q))
		return q
	}
	pre := asked()
	assert.Equal(t, []string{"pre_plan", run.ID, "mandatory", "ann", w.url + "/app/acme/shop/runs/" + run.ID}, []string{pre.Stage, pre.RunID, pre.Enforcement, pre.CreatedBy, pre.RunURL})
	assert.Nil(t, pre.PlanJSON, "there is no plan yet")
	response, body := w.send("GET", pre.Config, pre.AccessToken, "")
	assert.Equal(t, http.StatusOK, response.StatusCode)
	assert.Equal(t, string(configuration(t)), body)
	callback := func(q request, token string, s tfe.TaskResultStatus, message string) error {
		return w.client.RunTasksIntegration.Callback(ctx, q.CallbackURL, token, tfe.TaskResultCallbackRequestOptions{Status: s, Message: message, URL: "https://service.test/42"})
	}
	require.NoError(t, callback(pre, pre.AccessToken, tfe.TaskRunning, "on it"))
	require.NoError(t, callback(pre, pre.AccessToken, tfe.TaskPassed, "fine"))
	assert.Equal(t, "plan_queued", status())

	w.plan(w.accept(group), "planning\n")
	assert.Equal(t, "post_plan_running", status())
	plan, err := w.client.Plans.Read(ctx, run.Plan.ID)
	require.NoError(t, err)
	assert.Equal(t, tfe.PlanRunning, plan.Status, "who has seen its end looks once whether it can be applied")
	post := asked()
	require.NotNil(t, post.PlanJSON)
	response, body = w.send("GET", *post.PlanJSON, post.AccessToken, "")
	assert.Equal(t, http.StatusOK, response.StatusCode)
	assert.True(t, json.Valid([]byte(body)), body)

	t.Log("a token serves its one result, while that is open, and nothing else")
	for what, got := range map[string]int{
		"another result's token": first(w.send("GET", *post.PlanJSON, pre.AccessToken, "")),
		"no token":               first(w.send("GET", *post.PlanJSON, "", "")),
		"a user's token":         first(w.send("GET", *post.PlanJSON, w.ann, "")),
		"the API":                first(w.send("GET", "/api/v2/runs/"+run.ID, post.AccessToken, "")),
	} {
		assert.Equal(t, http.StatusUnauthorized, got, what)
	}
	assert.Equal(t, http.StatusConflict, first(w.send("GET", pre.Config, pre.AccessToken, "")), "it has ended")
	assert.Error(t, callback(post, pre.AccessToken, tfe.TaskPassed, ""))
	assert.Equal(t, http.StatusUnprocessableEntity, first(w.send("PATCH", post.CallbackURL, post.AccessToken, `{"data":{"type":"task-results","attributes":{"status":"errored"}}}`)))
	assert.Equal(t, http.StatusUnauthorized, first(w.send("PATCH", w.url+"/api/v2/task-results/"+string(ids.New[ids.TaskResult]())+"/callback", post.AccessToken, "{}")))

	t.Log("what it has found beside its answer")
	finds := func(status string, outcomes ...string) (code int, body string) {
		response, body := w.send("PATCH", post.CallbackURL, post.AccessToken, `{"data":{"type":"task-results","attributes":{"status":"`+status+`","message":"4 passed","url":"https://service.test/42"},
			"relationships":{"outcomes":{"data":[`+strings.Join(outcomes, ",")+`]}}}}`)
		return response.StatusCode, body
	}
	finding := func(attributes string) string {
		return `{"type":"task-result-outcomes","attributes":{` + attributes + `}}`
	}
	for attributes, says := range map[string]string{
		`"description":"x"`: "Outcome id can't be blank",
		`"outcome-id":"a","url":"` + strings.Repeat("u", 2001) + `"`:        "at most 2000 bytes",
		`"outcome-id":"a","tags":{"Status":[{"label":"x","level":"loud"}]}`: "none, info, warning or error",
		`"outcome-id":"a","tags":{"Status":[{"level":"info"}]}`:             "needs a label",
	} {
		code, body := finds("running", finding(`"outcome-id":"fine"`), finding(attributes))
		assert.Equal(t, http.StatusUnprocessableEntity, code, attributes)
		assert.Contains(t, body, says)
		assert.Contains(t, body, "/data/relationships/outcomes/data/1/attributes/")
	}
	code, body := finds("running", finding(`"outcome-id":"S3-1","description":"first","body":"# one","tags":{"Severity":[{"label":"High","level":"error"}],"Team":[{"label":"ops"}]}`), finding(`"outcome-id":"S3-2","description":"second"`))
	require.Equal(t, http.StatusOK, code, body)
	code, body = finds("passed", finding(`"outcome-id":"S3-2","description":"second, looked at again","url":"https://service.test/s3-2"`))
	require.Equal(t, http.StatusOK, code, body)
	found := func(query string) (list []string, meta string) {
		response, body := w.send("GET", "/api/v2/task-results/"+post.ResultID+"/outcomes"+query, w.ann, "")
		require.Equal(t, http.StatusOK, response.StatusCode, body)
		var doc struct {
			Data []struct {
				Type       string         `json:"type"`
				Attributes map[string]any `json:"attributes"`
			} `json:"data"`
			Meta struct {
				Pagination map[string]any `json:"pagination"`
			} `json:"meta"`
		}
		require.NoError(t, json.Unmarshal([]byte(body), &doc))
		for _, one := range doc.Data {
			a := one.Attributes
			list = append(list, fmt.Sprint(one.Type, " ", a["outcome-id"], " ", a["description"], " ", a["body"], " ", a["url"], " ", a["tags"]))
		}
		return list, fmt.Sprint(doc.Meta.Pagination["total-count"])
	}
	listed, total := found("")
	assert.Equal(t, []string{
		"task-result-outcomes S3-1 first # one  map[Severity:[map[label:High level:error]] Team:[map[label:ops]]]",
		"task-result-outcomes S3-2 second, looked at again  https://service.test/s3-2 map[]",
	}, listed)
	assert.Equal(t, "2", total)
	listed, total = found("?page%5Bnumber%5D=3&page%5Bsize%5D=1")
	assert.Empty(t, listed)
	assert.Equal(t, "2", total)
	for _, result := range []string{pre.ResultID, post.ResultID} {
		stranger, _ := w.send("GET", "/api/v2/task-results/"+result+"/outcomes", post.AccessToken, "")
		assert.Equal(t, http.StatusUnauthorized, stranger.StatusCode, "the token of the request reads none of it")
	}
	assert.Equal(t, "planned", status())
	assert.Equal(t, http.StatusConflict, first(w.send("PATCH", post.CallbackURL, post.AccessToken, `{"data":{"type":"task-results","attributes":{"status":"failed"}}}`)))
	stage, err := w.client.TaskStages.Read(ctx, with.TaskStages[1].ID, &tfe.TaskStageReadOptions{Include: []tfe.TaskStageIncludeOpt{tfe.TaskStageTaskResults}})
	require.NoError(t, err)
	assert.Equal(t, tfe.TaskStagePassed, stage.Status)
	assert.Equal(t, run.ID, stage.Run.ID)
	require.Len(t, stage.TaskResults, 1)
	one := stage.TaskResults[0]
	assert.Equal(t, []string{"passed", "4 passed", "https://service.test/42", "checker", "mandatory"}, []string{string(one.Status), one.Message, one.URL, one.TaskName, string(one.WorkspaceTaskEnforcementLevel)})
	result, err := w.client.TaskResults.Read(ctx, one.ID)
	require.NoError(t, err)
	assert.Equal(t, stage.ID, result.TaskStage.ID)
	stages, err := w.client.TaskStages.List(ctx, run.ID, nil)
	require.NoError(t, err)
	assert.Len(t, stages.Items, 2)
	_, err = w.client.TaskStages.Override(ctx, stage.ID, tfe.TaskStageOverrideOptions{})
	assert.ErrorContains(t, err, "waits for no override")

	t.Log("before the apply; and a run that asks nothing names no stages")
	before, err := w.client.WorkspaceRunTasks.List(ctx, ws.ID, nil)
	require.NoError(t, err)
	_, err = w.client.WorkspaceRunTasks.Update(ctx, ws.ID, before.Items[0].ID, tfe.WorkspaceRunTaskUpdateOptions{Stages: &[]tfe.Stage{tfe.PreApply}})
	require.NoError(t, err)
	require.NoError(t, w.client.Runs.Discard(ctx, run.ID, tfe.RunDiscardOptions{}))
	run = w.queue(ws, tfe.RunCreateOptions{})
	w.plan(w.accept(group), "planning\n")
	require.NoError(t, w.client.Runs.Apply(ctx, run.ID, tfe.RunApplyOptions{}))
	assert.Equal(t, "pre_apply_running", status())
	last := asked()
	require.NoError(t, callback(last, last.AccessToken, tfe.TaskFailed, "too dear"))
	assert.Equal(t, "errored", status())
	assert.Nil(t, w.queue(w.workspace("quiet"), tfe.RunCreateOptions{}).TaskStages)
}

func first(response *http.Response, _ string) int { return response.StatusCode }
