package tfeapi

import (
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/workspaces"
)

// teamWorkspaceView is on the wire what a team may do in a workspace. Its attributes
// run-recover, state-recover and production-act are this server's own.
type teamWorkspaceView struct {
	ID               string `jsonapi:"primary,team-workspaces"`
	Access           string `jsonapi:"attr,access"`
	Runs             string `jsonapi:"attr,runs"`
	Variables        string `jsonapi:"attr,variables"`
	StateVersions    string `jsonapi:"attr,state-versions"`
	SentinelMocks    string `jsonapi:"attr,sentinel-mocks"`
	WorkspaceLocking bool   `jsonapi:"attr,workspace-locking"`
	RunTasks         bool   `jsonapi:"attr,run-tasks"`
	PolicyOverrides  bool   `jsonapi:"attr,policy-overrides"`
	RunRecover       bool   `jsonapi:"attr,run-recover"`
	StateRecover     bool   `jsonapi:"attr,state-recover"`
	ProductionAct    bool   `jsonapi:"attr,production-act"`
	related          relations
}

func (v *teamWorkspaceView) relations() relations { return v.related }

func newTeamWorkspaceView(t workspaces.TeamAccess) *teamWorkspaceView {
	a := t.Access
	return &teamWorkspaceView{
		ID: t.ID, Access: a.Level, Runs: a.Runs, Variables: a.Variables, StateVersions: a.StateVersions, SentinelMocks: a.SentinelMocks,
		WorkspaceLocking: a.Locking, RunTasks: a.RunTasks, PolicyOverrides: a.PolicyOverrides, RunRecover: a.RunRecover, StateRecover: a.StateRecover, ProductionAct: a.ProductionAct,
		related: relations{"team": ref{"teams", string(t.Team)}, "workspace": ref{"workspaces", string(t.Workspace)}},
	}
}

type teamWorkspaceAttributes struct {
	Access           Opt[string] `json:"access"`
	Runs             Opt[string] `json:"runs"`
	Variables        Opt[string] `json:"variables"`
	StateVersions    Opt[string] `json:"state-versions"`
	SentinelMocks    Opt[string] `json:"sentinel-mocks"`
	WorkspaceLocking Opt[bool]   `json:"workspace-locking"`
	RunTasks         Opt[bool]   `json:"run-tasks"`
	PolicyOverrides  Opt[bool]   `json:"policy-overrides"`
	RunRecover       Opt[bool]   `json:"run-recover"`
	StateRecover     Opt[bool]   `json:"state-recover"`
	ProductionAct    Opt[bool]   `json:"production-act"`
}

func readTeamWorkspace(r *request) (in input[teamWorkspaceAttributes], said workspaces.AccessChanges, err error) {
	body, err := r.body()
	if err != nil {
		return in, said, err
	}
	if in, err = decode[teamWorkspaceAttributes](body, "team-workspaces"); err != nil {
		return in, said, err
	}
	a := in.Attributes
	return in, workspaces.AccessChanges{
		Level: a.Access.Pointer(), Runs: a.Runs.Pointer(), Variables: a.Variables.Pointer(), StateVersions: a.StateVersions.Pointer(), SentinelMocks: a.SentinelMocks.Pointer(),
		Locking: a.WorkspaceLocking.Pointer(), RunTasks: a.RunTasks.Pointer(), PolicyOverrides: a.PolicyOverrides.Pointer(),
		RunRecover: a.RunRecover.Pointer(), StateRecover: a.StateRecover.Pointer(), ProductionAct: a.ProductionAct.Pointer(),
	}, nil
}

// requiredID is required for a relation, read as an id.
func requiredID[T ids.Any, A any](in input[A], name, kind string) (T, error) {
	text, err := in.required(name, kind)
	if err != nil {
		return "", err
	}
	return ids.Parse[T](text)
}

func (s *server) createTeamWorkspace(r *request) (answer, error) {
	in, said, err := readTeamWorkspace(r)
	if err != nil {
		return answer{}, err
	}
	n := workspaces.NewTeamAccess{Access: said}
	if n.Workspace, err = requiredID[ids.Workspace](in, "workspace", "workspaces"); err != nil {
		return answer{}, err
	}
	if n.Team, err = requiredID[ids.Team](in, "team", "teams"); err != nil {
		return answer{}, err
	}
	t, err := s.Workspaces.GiveWorkspace(r.ctx, r.actor, n)
	return created(newTeamWorkspaceView(t)), err
}

func (s *server) listTeamWorkspaces(r *request) (answer, error) {
	p, err := parsePaging(r.query)
	if err != nil {
		return answer{}, err
	}
	workspace, err := ids.Parse[ids.Workspace](r.query.Get("filter[workspace][id]"))
	if err != nil {
		return answer{}, err
	}
	list, total, err := s.Workspaces.WorkspaceAccesses(r.ctx, r.actor, workspace, ids.Team(r.query.Get("filter[team][id]")), p.page())
	if err != nil {
		return answer{}, err
	}
	items := make([]*teamWorkspaceView, 0, len(list))
	for _, t := range list {
		items = append(items, newTeamWorkspaceView(t))
	}
	return page(items, p, total), nil
}

func (s *server) readTeamWorkspace(r *request) (answer, error) {
	access, err := id[ids.TeamWorkspace](r)
	if err != nil {
		return answer{}, err
	}
	t, err := s.Workspaces.WorkspaceAccess(r.ctx, r.actor, access)
	return ok(newTeamWorkspaceView(t)), err
}

func (s *server) updateTeamWorkspace(r *request) (answer, error) {
	access, err := id[ids.TeamWorkspace](r)
	if err != nil {
		return answer{}, err
	}
	_, said, err := readTeamWorkspace(r)
	if err != nil {
		return answer{}, err
	}
	t, err := s.Workspaces.ChangeWorkspaceAccess(r.ctx, r.actor, access, said)
	return ok(newTeamWorkspaceView(t)), err
}

func (s *server) deleteTeamWorkspace(r *request) (answer, error) {
	access, err := id[ids.TeamWorkspace](r)
	if err != nil {
		return answer{}, err
	}
	return noContent(), s.Workspaces.TakeWorkspaceAccess(r.ctx, r.actor, access)
}

// teamProjectView is on the wire what a team may do in a project and its workspaces.
type teamProjectView struct {
	ID              string               `jsonapi:"primary,team-projects"`
	Access          string               `jsonapi:"attr,access"`
	ProjectAccess   projectAccessView    `jsonapi:"attr,project-access"`
	WorkspaceAccess workspacesAccessView `jsonapi:"attr,workspace-access"`
	related         relations
}

type projectAccessView struct {
	Settings     string `json:"settings"`
	Teams        string `json:"teams"`
	VariableSets string `json:"variable-sets"`
}

type workspacesAccessView struct {
	Runs            string `json:"runs"`
	SentinelMocks   string `json:"sentinel-mocks"`
	StateVersions   string `json:"state-versions"`
	Variables       string `json:"variables"`
	Create          bool   `json:"create"`
	Locking         bool   `json:"locking"`
	Move            bool   `json:"move"`
	Delete          bool   `json:"delete"`
	RunTasks        bool   `json:"run-tasks"`
	PolicyOverrides bool   `json:"policy-overrides"`
	RunRecover      bool   `json:"run-recover"`
	StateRecover    bool   `json:"state-recover"`
	ProductionAct   bool   `json:"production-act"`
}

func (v *teamProjectView) relations() relations { return v.related }

func newTeamProjectView(t workspaces.TeamAccess) *teamProjectView {
	a := t.Access
	return &teamProjectView{
		ID: t.ID, Access: a.Level, ProjectAccess: projectAccessView{a.Settings, a.Teams, a.VariableSets},
		WorkspaceAccess: workspacesAccessView{
			Runs: a.Runs, SentinelMocks: a.SentinelMocks, StateVersions: a.StateVersions, Variables: a.Variables, Create: a.Create, Locking: a.Locking,
			Move: a.Move, Delete: a.Delete, RunTasks: a.RunTasks, PolicyOverrides: a.PolicyOverrides, RunRecover: a.RunRecover, StateRecover: a.StateRecover, ProductionAct: a.ProductionAct,
		},
		related: relations{"team": ref{"teams", string(t.Team)}, "project": ref{"projects", string(t.Project)}},
	}
}

type teamProjectAttributes struct {
	Access        Opt[string] `json:"access"`
	ProjectAccess Opt[struct {
		Settings     *string `json:"settings"`
		Teams        *string `json:"teams"`
		VariableSets *string `json:"variable-sets"`
	}] `json:"project-access"`
	WorkspaceAccess Opt[struct {
		Runs            *string `json:"runs"`
		SentinelMocks   *string `json:"sentinel-mocks"`
		StateVersions   *string `json:"state-versions"`
		Variables       *string `json:"variables"`
		Create          *bool   `json:"create"`
		Locking         *bool   `json:"locking"`
		Move            *bool   `json:"move"`
		Delete          *bool   `json:"delete"`
		RunTasks        *bool   `json:"run-tasks"`
		PolicyOverrides *bool   `json:"policy-overrides"`
		RunRecover      *bool   `json:"run-recover"`
		StateRecover    *bool   `json:"state-recover"`
		ProductionAct   *bool   `json:"production-act"`
	}] `json:"workspace-access"`
}

func readTeamProject(r *request) (in input[teamProjectAttributes], said workspaces.AccessChanges, err error) {
	body, err := r.body()
	if err != nil {
		return in, said, err
	}
	if in, err = decode[teamProjectAttributes](body, "team-projects"); err != nil {
		return in, said, err
	}
	p, w := in.Attributes.ProjectAccess.Value, in.Attributes.WorkspaceAccess.Value
	return in, workspaces.AccessChanges{
		Level: in.Attributes.Access.Pointer(), Settings: p.Settings, Teams: p.Teams, VariableSets: p.VariableSets,
		Runs: w.Runs, SentinelMocks: w.SentinelMocks, StateVersions: w.StateVersions, Variables: w.Variables, Create: w.Create, Locking: w.Locking,
		Move: w.Move, Delete: w.Delete, RunTasks: w.RunTasks, PolicyOverrides: w.PolicyOverrides, RunRecover: w.RunRecover, StateRecover: w.StateRecover, ProductionAct: w.ProductionAct,
	}, nil
}

func (s *server) createTeamProject(r *request) (answer, error) {
	in, said, err := readTeamProject(r)
	if err != nil {
		return answer{}, err
	}
	n := workspaces.NewTeamAccess{Access: said}
	if n.Project, err = requiredID[ids.Project](in, "project", "projects"); err != nil {
		return answer{}, err
	}
	if n.Team, err = requiredID[ids.Team](in, "team", "teams"); err != nil {
		return answer{}, err
	}
	t, err := s.Workspaces.GiveProject(r.ctx, r.actor, n)
	return created(newTeamProjectView(t)), err
}

func (s *server) listTeamProjects(r *request) (answer, error) {
	p, err := parsePaging(r.query)
	if err != nil {
		return answer{}, err
	}
	project, err := ids.Parse[ids.Project](r.query.Get("filter[project][id]"))
	if err != nil {
		return answer{}, err
	}
	list, total, err := s.Workspaces.ProjectAccesses(r.ctx, r.actor, project, ids.Team(r.query.Get("filter[team][id]")), p.page())
	if err != nil {
		return answer{}, err
	}
	items := make([]*teamProjectView, 0, len(list))
	for _, t := range list {
		items = append(items, newTeamProjectView(t))
	}
	return page(items, p, total), nil
}

func (s *server) readTeamProject(r *request) (answer, error) {
	access, err := id[ids.TeamProject](r)
	if err != nil {
		return answer{}, err
	}
	t, err := s.Workspaces.ProjectAccess(r.ctx, r.actor, access)
	return ok(newTeamProjectView(t)), err
}

func (s *server) updateTeamProject(r *request) (answer, error) {
	access, err := id[ids.TeamProject](r)
	if err != nil {
		return answer{}, err
	}
	_, said, err := readTeamProject(r)
	if err != nil {
		return answer{}, err
	}
	t, err := s.Workspaces.ChangeProjectAccess(r.ctx, r.actor, access, said)
	return ok(newTeamProjectView(t)), err
}

func (s *server) deleteTeamProject(r *request) (answer, error) {
	access, err := id[ids.TeamProject](r)
	if err != nil {
		return answer{}, err
	}
	return noContent(), s.Workspaces.TakeProjectAccess(r.ctx, r.actor, access)
}
