package tfeapi

import (
	"slices"
	"strconv"

	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/runs"
)

// runDocument gives the view of a run with the variables it was given.
func (s *server) runDocument(r *request, d runs.Detail) (*runView, error) {
	variables, err := s.Runs.Variables(r.ctx, r.actor, d.Run)
	if err != nil {
		return nil, err
	}
	return newRunView(r.actor, d, variables), nil
}

func (s *server) runDocuments(r *request, list []runs.Detail) ([]*runView, error) {
	items := make([]*runView, 0, len(list))
	for _, d := range list {
		view, err := s.runDocument(r, d)
		if err != nil {
			return nil, err
		}
		items = append(items, view)
	}
	return items, nil
}

// readRun draws run and plan from one reading, so that a finished plan is never
// beside a run that does not know it yet (NC-14).
func (s *server) readRun(r *request) (answer, error) {
	d, err := s.runOfPath(r)
	if err != nil {
		return answer{}, err
	}
	view, err := s.runDocument(r, d)
	if err != nil {
		return answer{}, err
	}
	included, err := s.runIncludes(r, d)
	if err != nil {
		return answer{}, err
	}
	return ok(view, included...), nil
}

func (s *server) runOfPath(r *request) (runs.Detail, error) {
	run, err := id[ids.Run](r)
	if err != nil {
		return runs.Detail{}, err
	}
	return s.Runs.Get(r.ctx, r.actor, run)
}

func (s *server) runIncludes(r *request, d runs.Detail) (included []view, err error) {
	asked := r.includes()
	if asked["plan"] {
		included = append(included, s.newPlanView(r.actor, d))
	}
	if asked["apply"] {
		included = append(included, s.newApplyView(r.actor, d))
	}
	if asked["cost-estimate"] && d.CostEstimateID != "" {
		c, err := s.Runs.Cost(r.ctx, r.actor, d.CostEstimateID)
		if err != nil {
			return nil, err
		}
		included = append(included, newCostView(c))
	}
	if asked["task-stages"] && len(d.TaskStages) > 0 {
		stages, err := s.Runs.TaskStagesOf(r.ctx, r.actor, d.ID)
		if err != nil {
			return nil, err
		}
		for _, stage := range stages {
			included = append(included, newTaskStageView(stage))
		}
	}
	if asked["workspace"] {
		view, err := s.workspaceOfRun(r, d)
		if err != nil {
			return nil, err
		}
		if view != nil {
			included = append(included, view)
		}
	}
	if asked["created-by"] {
		u, err := s.Accounts.User(r.ctx, r.actor, d.CreatedBy)
		switch {
		case err == nil:
			included = append(included, newUserView(r.actor, u))
		case !fault.Is(err, fault.NotFound): // one whom the reader may not see, such as an operator, is left out
			return nil, err
		}
	}
	if asked["configuration-version"] {
		c, err := s.Runs.Configuration(r.ctx, r.actor, d.ConfigurationVersionID)
		if err != nil {
			return nil, err
		}
		included = append(included, newConfigurationView(c))
	}
	return included, nil
}

// workspaceOfRun gives the workspace as it is included with a run; nil when it is
// deleted, as a teardown's is when the run has ended.
func (s *server) workspaceOfRun(r *request, d runs.Detail) (*workspaceView, error) {
	w, err := s.Workspaces.Get(r.ctx, r.actor, d.WorkspaceID)
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	view := s.newWorkspaceView(r.actor, w)
	// The client reads here whether to draw the run that it asks for, which was settled
	// when the run began: the workspace may have been changed since.
	view.StructuredRunOutputEnabled = d.StructuredOutput
	return view, nil
}

// listWorkspaceRuns leaves out the runs that only plan unless a filter asks for them: they
// wait for nobody, and a waiting client counts what is in front of it.
func (s *server) listWorkspaceRuns(r *request) (answer, error) {
	workspace, err := id[ids.Workspace](r)
	if err != nil {
		return answer{}, err
	}
	p, err := parsePaging(r.query)
	if err != nil {
		return answer{}, err
	}
	f, err := runFilter(r, p)
	if err != nil {
		return answer{}, err
	}
	list, total, err := s.Runs.List(r.ctx, r.actor, workspace, f)
	if err != nil {
		return answer{}, err
	}
	items, included, err := s.runList(r, list)
	if err != nil {
		return answer{}, err
	}
	return page(items, p, total, included...), nil
}

// listOrganizationRuns gives the runs of all workspaces. They are not counted.
func (s *server) listOrganizationRuns(r *request) (answer, error) {
	p, err := parsePaging(r.query)
	if err != nil {
		return answer{}, err
	}
	f, err := runFilter(r, p)
	if err != nil {
		return answer{}, err
	}
	list, more, err := s.Runs.OrganizationRuns(r.ctx, r.actor, r.vars["organization"], f)
	if err != nil {
		return answer{}, err
	}
	items, included, err := s.runList(r, list)
	if err != nil {
		return answer{}, err
	}
	drawn := page(items, p, 0, included...)
	drawn.document.page = p.uncounted(more)
	return drawn, nil
}

// runFilter reads what a list of runs is narrowed by.
func runFilter(r *request, p paging) (runs.Filter, error) {
	q := r.query
	f := runs.Filter{
		Sources: commaList(q, "filter[source]"), Operations: commaList(q, "filter[operation]"), User: q.Get("search[user]"), Search: q.Get("search[basic]"),
		Workspaces: commaList(q, "filter[workspace_names]"), Pools: commaList(q, "filter[agent_pool_names]"), Limit: p.limit(), Offset: p.offset(),
		Nothing: q.Get("search[commit]") != "", // no run here is of a commit
	}
	f.PlanOnly = slices.Contains(f.Operations, "plan_only")
	group := q.Get("filter[status_group]")
	statuses := slices.Concat(commaList(q, "filter[status]"), statusGroups[group])
	if len(statuses) > 0 || group != "" {
		f.Statuses = durableStatuses(statuses)
		f.Nothing = f.Nothing || len(f.Statuses) == 0
	}
	switch text := q.Get("filter[timeframe]"); text {
	case "":
	case "year":
		f.LastYear = true
	default:
		year, err := strconv.Atoi(text)
		if err != nil || year < 1 || year > 9999 {
			return f, fault.New(fault.Malformed, "invalid_parameter", "The query parameter filter[timeframe] must be a year such as 2026, or the word year for the last twelve months.")
		}
		f.Year = year
	}
	return f, nil
}

// statusGroups are what clients call several statuses together.
var statusGroups = map[string][]string{
	"non_final": {"pending", "plan_queued", "planning", "planned", "planned_and_saved", "confirmed", "apply_queued", "applying"},
	"final":     {"applied", "planned_and_finished", "discarded", "errored", "canceled"},
	"discardable": {
		"planned", "planned_and_saved", "pending",
	},
}

// runList draws runs, with their workspaces where the request asks for them.
func (s *server) runList(r *request, list []runs.Detail) (items []*runView, included []view, err error) {
	if items, err = s.runDocuments(r, list); err != nil || !r.includes()["workspace"] {
		return items, nil, err
	}
	wanted := make([]ids.Workspace, 0, len(list))
	for _, d := range list {
		wanted = append(wanted, d.WorkspaceID)
	}
	found, err := s.Workspaces.Some(r.ctx, r.actor, wanted)
	for _, w := range found {
		included = append(included, s.newWorkspaceView(r.actor, w))
	}
	return items, included, err
}

type runAttributes struct {
	Message         Opt[string]        `json:"message"`
	Operation       Opt[string]        `json:"operation"`
	Teardown        Opt[bool]          `json:"teardown"`
	PlanOnly        Opt[bool]          `json:"plan-only"`
	SavePlan        Opt[bool]          `json:"save-plan"`
	IsDestroy       Opt[bool]          `json:"is-destroy"`
	Refresh         Opt[bool]          `json:"refresh"`
	RefreshOnly     Opt[bool]          `json:"refresh-only"`
	AutoApply       Opt[bool]          `json:"auto-apply"`
	AllowEmptyApply Opt[bool]          `json:"allow-empty-apply"`
	TargetAddrs     Opt[[]string]      `json:"target-addrs"`
	ReplaceAddrs    Opt[[]string]      `json:"replace-addrs"`
	GenerateConfig  Opt[bool]          `json:"allow-config-generation"`
	Version         Opt[string]        `json:"terraform-version"`
	Variables       Opt[[]runVariable] `json:"variables"`
}

func (s *server) createRun(r *request) (answer, error) {
	wanted, err := runInput(r)
	if err != nil {
		return answer{}, err
	}
	d, isNew, err := s.Runs.Create(r.ctx, r.actor, wanted)
	return s.runAnswer(r, d, isNew, err)
}

func runInput(r *request) (n runs.NewRun, err error) {
	body, err := r.body()
	if err != nil {
		return n, err
	}
	in, err := decode[runAttributes](body, "runs")
	if err != nil {
		return n, err
	}
	workspace, err := in.required("workspace", "workspaces")
	if err != nil {
		return n, err
	}
	configuration, err := in.related("configuration-version", "configuration-versions")
	if err != nil {
		return n, err
	}
	a := in.Attributes
	n = runs.NewRun{
		Operation: runs.Operation(a.Operation.Or("")), Teardown: a.Teardown.Or(false),
		Message: messageOr(a.Message), Source: runSource(r), PlanOnly: a.PlanOnly.Or(false), SavePlan: a.SavePlan.Or(false), IsDestroy: a.IsDestroy.Or(false),
		Refresh: a.Refresh.Pointer(), RefreshOnly: a.RefreshOnly.Or(false), AutoApply: a.AutoApply.Pointer(), AllowEmptyApply: a.AllowEmptyApply.Or(false),
		TargetAddrs: a.TargetAddrs.Value, ReplaceAddrs: a.ReplaceAddrs.Value, GenerateConfig: a.GenerateConfig.Or(false), TerraformVersion: a.Version.Or(""),
	}
	for _, v := range a.Variables.Value {
		n.Variables = append(n.Variables, runs.Variable{Key: v.Key, Value: v.Value, HCL: true})
	}
	if n.Workspace, err = ids.Parse[ids.Workspace](workspace); err != nil {
		return n, err
	}
	if configuration != "" {
		n.Configuration, err = ids.Parse[ids.ConfigurationVersion](configuration)
	}
	return n, err
}

// messageOr gives a run that says nothing of itself a message for people.
func messageOr(said Opt[string]) string {
	if message := said.Or(""); message != "" {
		return message
	}
	return "Queued manually over the API"
}

// integrationHeader is on all requests of tofu's cloud integration, with the value
// "cloud", and on none of its remote backend.
const integrationHeader = "X-Terraform-Integration"

// runSource tells runs of the command line from those of scripts.
func runSource(r *request) string {
	if r.http.Header.Get(integrationHeader) != "" {
		return "terraform+cloud"
	}
	return "tfe-api"
}

type commentAttributes struct {
	Comment Opt[string] `json:"comment"`
}

// actOnRun reads the id and the comment of an action and does it. The client sends
// "{}" or nothing, and does not read the answer.
func actOnRun(r *request, act func(run ids.Run, comment string) error) (answer, error) {
	run, attributes, err := actionInput[commentAttributes](r)
	if err != nil {
		return answer{}, err
	}
	return accepted(), act(run, attributes.Comment.Or(""))
}
