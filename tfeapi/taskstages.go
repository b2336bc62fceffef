package tfeapi

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/clock"
	"github.com/holdfast-run/holdfast/envelope"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/runs"
	"github.com/holdfast-run/holdfast/runtasks"
)

// taskStageView is what a run asks at one point: its run tasks, or its policies (newPolicyStageView).
// Nothing of it can be overridden: what is mandatory and failed has ended the run.
type taskStageView struct {
	ID               string               `jsonapi:"primary,task-stages"`
	Stage            string               `jsonapi:"attr,stage"`
	Status           string               `jsonapi:"attr,status"`
	StatusTimestamps map[string]string    `jsonapi:"attr,status-timestamps"`
	CreatedAt        time.Time            `jsonapi:"attr,created-at,iso8601"`
	UpdatedAt        time.Time            `jsonapi:"attr,updated-at,iso8601"`
	Permissions      taskStagePermissions `jsonapi:"attr,permissions"`
	Actions          policyCheckActions   `jsonapi:"attr,actions"`
	related          relations
}

type taskStagePermissions struct {
	CanOverridePolicy bool `json:"can-override-policy"`
	CanOverrideTasks  bool `json:"can-override-tasks"`
	CanOverride       bool `json:"can-override"`
}

func (v *taskStageView) relations() relations { return v.related }

func newTaskStageView(t runtasks.TaskStage) *taskStageView {
	results := make([]ref, 0, len(t.Results))
	for _, r := range t.Results {
		results = append(results, ref{"task-results", string(r.ID)})
	}
	v := &taskStageView{
		ID: string(t.ID), Stage: string(t.Stage), Status: string(t.Status), StatusTimestamps: map[string]string{}, CreatedAt: t.CreatedAt, UpdatedAt: t.UpdatedAt(),
		related: relations{"run": ref{"runs", string(t.RunID)}, "task-results": results, "policy-evaluations": []ref{}},
	}
	if t.StartedAt != nil {
		v.StatusTimestamps["running-at"] = rfc3339(*t.StartedAt)
	}
	if t.EndedAt != nil {
		v.StatusTimestamps[string(t.Status)+"-at"] = rfc3339(*t.EndedAt)
	}
	return v
}

func taskStageRefs(r runs.Run) []ref { return refs("task-stages", r.TaskStageIDs()) }

// taskResultView is what one task was asked and said. Its task's address is not shown to who reads runs.
type taskResultView struct {
	ID               string            `jsonapi:"primary,task-results"`
	Status           string            `jsonapi:"attr,status"`
	Message          string            `jsonapi:"attr,message"`
	StatusTimestamps map[string]string `jsonapi:"attr,status-timestamps"`
	URL              string            `jsonapi:"attr,url"`
	CreatedAt        time.Time         `jsonapi:"attr,created-at,iso8601"`
	UpdatedAt        time.Time         `jsonapi:"attr,updated-at,iso8601"`
	TaskID           string            `jsonapi:"attr,task-id"`
	TaskName         string            `jsonapi:"attr,task-name"`
	TaskURL          *string           `jsonapi:"attr,task-url"`
	AgentPoolID      *string           `jsonapi:"attr,agent-pool-id"`
	WorkspaceTaskID  string            `jsonapi:"attr,workspace-task-id"`
	Enforcement      string            `jsonapi:"attr,workspace-task-enforcement-level"`
	related          relations
}

func (v *taskResultView) relations() relations { return v.related }

func newTaskResultView(r runtasks.Result) *taskResultView {
	stage := ref{"task-stages", string(r.StageID)}
	v := &taskResultView{
		ID: string(r.ID), Status: string(r.Status), Message: r.Message, StatusTimestamps: map[string]string{}, URL: r.URL, CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt,
		TaskID: string(r.TaskID), TaskName: r.TaskName, WorkspaceTaskID: string(r.WorkspaceTaskID), Enforcement: string(r.Enforcement),
		related: relations{"task-stage": stage, "task_stage": stage}, // the second is how the client spells it
	}
	if r.AcceptedAt != nil {
		v.StatusTimestamps["running-at"] = rfc3339(*r.AcceptedAt)
	}
	if r.EndedAt != nil {
		v.StatusTimestamps[string(r.Status)+"-at"] = rfc3339(*r.EndedAt)
	}
	return v
}

func (s *server) listTaskStages(r *request) (answer, error) {
	run, err := id[ids.Run](r)
	if err != nil {
		return answer{}, err
	}
	stages, err := s.Runs.TaskStagesOf(r.ctx, r.actor, run)
	if err != nil {
		return answer{}, err
	}
	checks, err := s.checksOf(r)
	if err != nil {
		return answer{}, err
	}
	items, included := make([]*taskStageView, 0, len(stages)+len(checks)), []view{}
	for _, stage := range stages {
		items = append(items, newTaskStageView(stage))
		included = append(included, taskStageIncludes(r, stage)...)
	}
	for _, check := range checks {
		items = append(items, newPolicyStageView(check))
	}
	return pageOf(r, items, included...)
}

func taskStageIncludes(r *request, stage runtasks.TaskStage) (included []view) {
	if r.includes()["task-results"] {
		for _, result := range stage.Results {
			included = append(included, newTaskResultView(result))
		}
	}
	return included
}

func (s *server) readTaskStage(r *request) (answer, error) {
	which, err := id[ids.TaskStage](r)
	if err != nil {
		return s.readPolicyStage(r)
	}
	stage, _, err := s.Runs.TaskStageByID(r.ctx, r.actor, which)
	switch {
	case fault.Is(err, fault.NotFound):
		return s.readPolicyStage(r)
	case err != nil:
		return answer{}, err
	}
	return ok(newTaskStageView(stage), taskStageIncludes(r, stage)...), nil
}

// readPolicyStage reads a stage that is no row of its own: the policy check, as clients of OPA read it.
func (s *server) readPolicyStage(r *request) (answer, error) {
	c, err := s.policyCheckOf(r, "ts-")
	if err != nil {
		return answer{}, err
	}
	var included []view
	if r.includes()["policy-evaluations"] {
		included = append(included, newEvaluationView(c))
	}
	return ok(newPolicyStageView(c), included...), nil
}

// overrideTaskStage has nothing to override, and says so to whoever may decide about the run.
func (s *server) overrideTaskStage(r *request) (answer, error) {
	which, err := id[ids.TaskStage](r)
	if err != nil {
		return s.overridePolicyStage(r)
	}
	stage, run, err := s.Runs.TaskStageByID(r.ctx, r.actor, which)
	switch {
	case fault.Is(err, fault.NotFound):
		return s.overridePolicyStage(r)
	case err != nil:
		return answer{}, err
	}
	if err := authz.Allow(r.actor, authz.RunApply, run.Object()); err != nil {
		return answer{}, err
	}
	return answer{}, fault.New(fault.Conflict, "task_stage_not_overridable",
		"The task stage %s is %s, and waits for no override. A mandatory run task that fails ends the run: make it advisory, or requeue the run when the task passes.", which, stage.Status)
}

func (s *server) overridePolicyStage(r *request) (answer, error) {
	c, err := s.policyCheckOf(r, "ts-")
	if err != nil {
		return answer{}, err
	}
	return answer{}, s.Runs.OverridePolicy(r.ctx, r.actor, c.detail.ID)
}

func (s *server) readTaskResult(r *request) (answer, error) {
	which, err := id[ids.TaskResult](r)
	if err != nil {
		return answer{}, err
	}
	result, err := s.Runs.TaskResultByID(r.ctx, r.actor, which)
	if err != nil {
		return answer{}, err
	}
	return ok(newTaskResultView(result)), nil
}

// taskTokenLifetime is longer than a service may take: when it may report is decided by the result itself.
const taskTokenLifetime = 24 * time.Hour

func taskSubject(id ids.TaskResult) string { return "run task " + string(id) }

// taskOfToken gives the result that the path names to the service that was asked: the token of its
// request is good for this one result, while it is open.
func (s *server) taskOfToken(r *request) (ids.TaskResult, error) {
	if err := s.Links.Verify(bearer(r.http), taskSubject(ids.TaskResult(r.vars["id"])), clock.Now()); err != nil {
		return "", fault.New(fault.Unauthenticated, "unauthenticated", "Send the access_token of the run task's request: Authorization: Bearer TOKEN.")
	}
	return id[ids.TaskResult](r)
}

type callbackAttributes struct {
	Status  Opt[runtasks.Status] `json:"status"`
	Message Opt[string]          `json:"message"`
	URL     Opt[string]          `json:"url"`
}

// taskCallback is how a service answers.
func (s *server) taskCallback(r *request) (answer, error) {
	which, err := s.taskOfToken(r)
	if err != nil {
		return answer{}, err
	}
	body, err := r.body()
	if err != nil {
		return answer{}, err
	}
	in, err := decode[callbackAttributes](body, "task-results")
	if err != nil {
		return answer{}, err
	}
	report := runtasks.Report{Status: in.Attributes.Status.Value, Message: in.Attributes.Message.Value, URL: in.Attributes.URL.Value}
	if err := report.Check(); err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusOK}, s.Runs.ReportTask(r.ctx, which, report)
}

// taskPlanJSON gives the plan to the service that is asked about it.
func (s *server) taskPlanJSON(r *request) (answer, error) {
	which, err := s.taskOfToken(r)
	if err != nil {
		return answer{}, err
	}
	run, err := s.Runs.OfTask(r.ctx, which)
	if err != nil {
		return answer{}, err
	}
	body, object, err := s.Runs.PlanJSON(r.ctx, authz.System(), run.PlanID)
	if err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusOK, stream: body, size: object.Size, mediaType: "application/json"}, nil
}

// taskConfiguration gives the configuration to the service that is asked about it.
func (s *server) taskConfiguration(r *request) (answer, error) {
	which, err := s.taskOfToken(r)
	if err != nil {
		return answer{}, err
	}
	run, err := s.Runs.OfTask(r.ctx, which)
	if err != nil {
		return answer{}, err
	}
	body, err := s.Runs.DownloadConfiguration(r.ctx, authz.System(), run.ConfigurationVersionID)
	if err != nil {
		return answer{}, err
	}
	return download(body, unknownSize), nil
}

// taskDocument is the request to a run task, version 1.
type taskDocument struct {
	PayloadVersion   int            `json:"payload_version"`
	AccessToken      string         `json:"access_token"`
	Capabilities     map[string]any `json:"capabilities"`
	Stage            string         `json:"stage"`
	IsSpeculative    bool           `json:"is_speculative"`
	TaskResultID     string         `json:"task_result_id"`
	Enforcement      string         `json:"task_result_enforcement_level"`
	CallbackURL      string         `json:"task_result_callback_url"`
	RunAppURL        string         `json:"run_app_url"`
	RunID            string         `json:"run_id"`
	RunMessage       string         `json:"run_message"`
	RunCreatedAt     time.Time      `json:"run_created_at"`
	RunCreatedBy     string         `json:"run_created_by"`
	WorkspaceID      string         `json:"workspace_id"`
	WorkspaceName    string         `json:"workspace_name"`
	WorkspaceAppURL  string         `json:"workspace_app_url"`
	Organization     string         `json:"organization_name"`
	PlanJSONURL      *string        `json:"plan_json_api_url"`
	Configuration    string         `json:"configuration_version_id"`
	ConfigurationURL string         `json:"configuration_version_download_url"`
	WorkingDirectory string         `json:"workspace_working_directory"`
	VCSRepoURL       *string        `json:"vcs_repo_url"`
	VCSBranch        *string        `json:"vcs_branch"`
	VCSPullRequest   *string        `json:"vcs_pull_request_url"`
	VCSCommitURL     *string        `json:"vcs_commit_url"`
}

// RunTaskDocument draws requests to run tasks, whose answers come to the server at address. The
// token in a request serves its one result.
func RunTaskDocument(address string, links *envelope.Links) func(runtasks.Request) ([]byte, error) {
	return func(r runtasks.Request) ([]byte, error) {
		doc := taskDocument{PayloadVersion: 1, Capabilities: map[string]any{"outcomes": false}}
		if r.Test {
			doc.Stage, doc.AccessToken, doc.TaskResultID, doc.Enforcement = "test", "test-token", "taskrs-test", "test"
			doc.RunCreatedAt = clock.Now().UTC().Truncate(time.Second)
			return json.Marshal(doc)
		}
		app, api := address+"/app/"+r.OrganizationName+"/"+r.WorkspaceName, address+"/api/v2/task-results/"+string(r.ID)
		doc.AccessToken = links.Mint(taskSubject(r.ID), clock.Now().Add(taskTokenLifetime))
		doc.Stage, doc.IsSpeculative, doc.TaskResultID, doc.Enforcement, doc.CallbackURL = string(r.Stage), r.PlanOnly, string(r.ID), string(r.Enforcement), api+"/callback"
		doc.RunAppURL, doc.RunID, doc.RunMessage, doc.RunCreatedAt, doc.RunCreatedBy = app+"/runs/"+string(r.RunID), string(r.RunID), r.RunMessage, r.RunCreatedAt.UTC(), r.RunCreatedBy
		doc.WorkspaceID, doc.WorkspaceName, doc.WorkspaceAppURL, doc.Organization = string(r.WorkspaceID), r.WorkspaceName, app, r.OrganizationName
		doc.Configuration, doc.ConfigurationURL, doc.WorkingDirectory = string(r.ConfigurationVersionID), api+"/configuration", r.WorkingDirectory
		if r.HasPlan {
			plan := api + "/plan-json-output"
			doc.PlanJSONURL = &plan
		}
		return json.Marshal(doc)
	}
}
