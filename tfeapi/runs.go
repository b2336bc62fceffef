package tfeapi

import (
	"strings"

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

// listWorkspaceRuns leaves out the runs that only plan unless filter[operation] asks
// for them: they wait for nobody, and a waiting client counts what is in front of it.
func (s *server) listWorkspaceRuns(r *request) (answer, error) {
	workspace, err := id[ids.Workspace](r)
	if err != nil {
		return answer{}, err
	}
	p, err := parsePaging(r.query)
	if err != nil {
		return answer{}, err
	}
	planOnly := strings.Contains(r.query.Get("filter[operation]"), "plan_only")
	list, total, err := s.Runs.List(r.ctx, r.actor, workspace, runs.Filter{PlanOnly: planOnly, Limit: p.limit(), Offset: p.offset()})
	if err != nil {
		return answer{}, err
	}
	items, err := s.runDocuments(r, list)
	if err != nil {
		return answer{}, err
	}
	return page(items, p, total), nil
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
		Message: a.Message.Or(""), Source: runSource(r), PlanOnly: a.PlanOnly.Or(false), SavePlan: a.SavePlan.Or(false), IsDestroy: a.IsDestroy.Or(false),
		Refresh: a.Refresh.Pointer(), RefreshOnly: a.RefreshOnly.Or(false), AutoApply: a.AutoApply.Pointer(), AllowEmptyApply: a.AllowEmptyApply.Or(false),
		TargetAddrs: a.TargetAddrs.Value, ReplaceAddrs: a.ReplaceAddrs.Value, GenerateConfig: a.GenerateConfig.Or(false),
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
