package tfeapi

import (
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/workspaces"
)

// workspaceDocument gives the view of a workspace, with the run it shows as current.
func (s *server) workspaceDocument(r *request, w workspaces.Workspace) (*workspaceView, error) {
	current, err := s.Runs.Current(r.ctx, w.ID)
	if err != nil {
		return nil, err
	}
	return s.newWorkspaceView(r.actor, w, current), nil
}

// workspaceAnswer answers with a workspace and what the request asks to include.
func (s *server) workspaceAnswer(r *request, w workspaces.Workspace, err error) (answer, error) {
	if err != nil {
		return answer{}, err
	}
	drawn, err := s.workspaceDocument(r, w)
	if err != nil {
		return answer{}, err
	}
	var included []view
	asked := r.includes()
	if asked["organization"] {
		o, err := s.Accounts.Organization(r.ctx, r.actor, w.OrganizationName)
		if err != nil {
			return answer{}, err
		}
		included = append(included, newOrganizationView(r.actor, o))
	}
	if asked["project"] {
		p, err := s.Workspaces.Project(r.ctx, r.actor, w.Project)
		if err != nil {
			return answer{}, err
		}
		included = append(included, newProjectView(r.actor, p, w.OrganizationName))
	}
	if asked["current-run"] && drawn.currentRun != "" {
		detail, err := s.Runs.Get(r.ctx, r.actor, drawn.currentRun)
		if err != nil {
			return answer{}, err
		}
		run, err := s.runDocument(r, detail)
		if err != nil {
			return answer{}, err
		}
		included = append(included, run)
	}
	return ok(drawn, included...), nil
}

func (s *server) listWorkspaces(r *request) (answer, error) {
	p, err := parsePaging(r.query)
	if err != nil {
		return answer{}, err
	}
	filter := workspaces.Filter{SearchName: r.query.Get("search[name]"), Page: p.page()}
	if project := r.query.Get("filter[project][id]"); project != "" {
		if filter.Project, err = ids.Parse[ids.Project](project); err != nil {
			return answer{}, err
		}
	}
	list, total, err := s.Workspaces.List(r.ctx, r.actor, r.vars["organization"], filter)
	if err != nil {
		return answer{}, err
	}
	if r.query.Get("search[tags]") != "" {
		list, total = nil, 0 // no workspace has a tag
	}
	items := make([]*workspaceView, 0, len(list))
	for _, w := range list {
		view, err := s.workspaceDocument(r, w)
		if err != nil {
			return answer{}, err
		}
		items = append(items, view)
	}
	return page(items, p, total), nil
}

func (s *server) readWorkspace(r *request) (answer, error) {
	workspace, err := id[ids.Workspace](r)
	if err != nil {
		return answer{}, err
	}
	w, err := s.Workspaces.Get(r.ctx, r.actor, workspace)
	return s.workspaceAnswer(r, w, err)
}

func (s *server) readWorkspaceByName(r *request) (answer, error) {
	w, err := s.namedWorkspace(r)
	return s.workspaceAnswer(r, w, err)
}

// namedWorkspace is the workspace that the path names by organization and name.
func (s *server) namedWorkspace(r *request) (workspaces.Workspace, error) {
	return s.Workspaces.GetByName(r.ctx, r.actor, r.vars["organization"], r.vars["workspace"])
}

type workspaceAttributes struct {
	Name             Opt[string] `json:"name"`
	Description      Opt[string] `json:"description"`
	ExecutionMode    Opt[string] `json:"execution-mode"`
	Operations       Opt[bool]   `json:"operations"` // the older way to say the mode
	TerraformVersion Opt[string] `json:"terraform-version"`
	WorkingDirectory Opt[string] `json:"working-directory"`
	AutoApply        Opt[bool]   `json:"auto-apply"`
	AllowDestroyPlan Opt[bool]   `json:"allow-destroy-plan"`
}

// workspaceInput reads the name and the settings out of a request.
func workspaceInput(r *request) (name *string, settings workspaces.Settings, err error) {
	body, err := r.body()
	if err != nil {
		return nil, settings, err
	}
	in, err := decode[workspaceAttributes](body, "workspaces")
	if err != nil {
		return nil, settings, err
	}
	a := in.Attributes
	settings = workspaces.Settings{
		Description: textOrEmpty(a.Description), WorkingDirectory: textOrEmpty(a.WorkingDirectory),
		TerraformVersion: a.TerraformVersion.Pointer(), AutoApply: a.AutoApply.Pointer(), AllowDestroyPlan: a.AllowDestroyPlan.Pointer(),
	}
	switch {
	case a.ExecutionMode.Set():
		mode := workspaces.ExecutionMode(a.ExecutionMode.Value)
		settings.ExecutionMode = &mode
	case a.Operations.Set():
		mode := workspaces.Local
		if a.Operations.Value {
			mode = workspaces.Remote
		}
		settings.ExecutionMode = &mode
	}
	text, err := in.related("project", "projects")
	if err != nil || text == "" {
		return a.Name.Pointer(), settings, err
	}
	project, err := ids.Parse[ids.Project](text)
	settings.Project = &project
	return a.Name.Pointer(), settings, err
}

// textOrEmpty takes null for a text as the wish to clear it.
func textOrEmpty(o Opt[string]) *string {
	if o.Null {
		return new(string)
	}
	return o.Pointer()
}

func (s *server) createWorkspace(r *request) (answer, error) {
	name, settings, err := workspaceInput(r)
	if err != nil {
		return answer{}, err
	}
	wanted := workspaces.NewWorkspace{Settings: settings}
	if name != nil {
		wanted.Name = *name
	}
	w, err := s.Workspaces.Create(r.ctx, r.actor, r.vars["organization"], wanted)
	if err != nil {
		return answer{}, err
	}
	view, err := s.workspaceDocument(r, w)
	if err != nil {
		return answer{}, err
	}
	return created(view), nil
}

func (s *server) updateWorkspace(r *request) (answer, error) {
	workspace, err := id[ids.Workspace](r)
	if err != nil {
		return answer{}, err
	}
	return s.changeWorkspace(r, workspace)
}

func (s *server) updateWorkspaceByName(r *request) (answer, error) {
	w, err := s.namedWorkspace(r)
	if err != nil {
		return answer{}, err
	}
	return s.changeWorkspace(r, w.ID)
}

func (s *server) changeWorkspace(r *request, workspace ids.Workspace) (answer, error) {
	name, settings, err := workspaceInput(r)
	if err != nil {
		return answer{}, err
	}
	w, err := s.Workspaces.Update(r.ctx, r.actor, workspace, workspaces.Changes{Name: name, Settings: settings})
	return s.workspaceAnswer(r, w, err)
}
