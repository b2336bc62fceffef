package tfeapi

import (
	"time"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/runtasks"
)

// taskView is a run task on the wire. Its key is never shown, and its address only to who may
// administer it.
type taskView struct {
	ID          string      `jsonapi:"primary,tasks"`
	Name        string      `jsonapi:"attr,name"`
	URL         string      `jsonapi:"attr,url"`
	Description string      `jsonapi:"attr,description"`
	Category    string      `jsonapi:"attr,category"`
	HMACKey     *string     `jsonapi:"attr,hmac-key"`
	Enabled     bool        `jsonapi:"attr,enabled"`
	Global      *taskGlobal `jsonapi:"attr,global-configuration"`
	CreatedAt   time.Time   `jsonapi:"attr,created-at,iso8601"`
	related     relations
}

type taskGlobal struct {
	Enabled     bool             `json:"enabled"`
	Stages      []runtasks.Stage `json:"stages"`
	Enforcement string           `json:"enforcement-level"`
}

func (v *taskView) relations() relations { return v.related }

func newTaskView(t runtasks.Task) *taskView {
	asking := make([]ref, 0, len(t.Workspaces))
	for _, wt := range t.Workspaces {
		asking = append(asking, ref{"workspace-tasks", string(wt.ID)})
	}
	view := &taskView{
		ID: string(t.ID), Name: t.Name, URL: t.URL, Description: t.Description, Category: "task", Enabled: t.Enabled, CreatedAt: t.CreatedAt,
		related: relations{"organization": ref{"organizations", t.OrganizationName}, "workspace-tasks": asking, "agent-pool": nil},
	}
	if t.GlobalEntitled {
		view.Global = &taskGlobal{Enabled: t.Global.Enabled, Stages: t.Global.Stages, Enforcement: string(t.Global.Enforcement)}
	}
	return view
}

func (s *server) taskIncludes(r *request, t runtasks.Task) (included []view) {
	if r.includes()["workspace-tasks"] {
		for _, wt := range t.Workspaces {
			included = append(included, newWorkspaceTaskView(wt))
		}
	}
	return included
}

type taskAttributes struct {
	Name        Opt[string] `json:"name"`
	URL         Opt[string] `json:"url"`
	Description Opt[string] `json:"description"`
	Category    Opt[string] `json:"category"`
	HMACKey     Opt[string] `json:"hmac-key"`
	Enabled     Opt[bool]   `json:"enabled"`
	Global      Opt[struct {
		Enabled     *bool                 `json:"enabled"`
		Stages      *[]runtasks.Stage     `json:"stages"`
		Enforcement *runtasks.Enforcement `json:"enforcement-level"`
	}] `json:"global-configuration"`
}

func readTaskInput(r *request) (c runtasks.TaskChanges, err error) {
	body, err := r.body()
	if err != nil {
		return c, err
	}
	in, err := decode[taskAttributes](body, "tasks")
	if err != nil {
		return c, err
	}
	a := in.Attributes
	if a.Category.Or("task") != "task" {
		return c, accounts.Invalid("category", "Category must be \"task\"")
	}
	pool, err := in.related("agent-pool", "agent-pools")
	if err != nil {
		return c, err
	}
	if pool != "" { // the server calls its tasks by itself: there is no pool that could
		return c, accounts.NoSuchPool()
	}
	c = runtasks.TaskChanges{Name: a.Name.Pointer(), URL: a.URL.Pointer(), Description: a.Description.Pointer(), Enabled: a.Enabled.Pointer()}
	if a.HMACKey.Present { // null takes it away
		key := a.HMACKey.Value
		c.HMACKey = &key
	}
	if a.Global.Set() {
		c.GlobalEnabled, c.GlobalStages, c.GlobalEnforcement = a.Global.Value.Enabled, a.Global.Value.Stages, a.Global.Value.Enforcement
	}
	return c, nil
}

func (s *server) listTasks(r *request) (answer, error) {
	p, err := parsePaging(r.query)
	if err != nil {
		return answer{}, err
	}
	found, total, err := s.RunTasks.List(r.ctx, r.actor, r.vars["organization"], p.page())
	if err != nil {
		return answer{}, err
	}
	items, included := make([]*taskView, 0, len(found)), []view{}
	for _, t := range found {
		items = append(items, newTaskView(t))
		included = append(included, s.taskIncludes(r, t)...)
	}
	return page(items, p, total, included...), nil
}

func (s *server) createTask(r *request) (answer, error) {
	c, err := readTaskInput(r)
	if err != nil {
		return answer{}, err
	}
	t, err := s.RunTasks.Create(r.ctx, r.actor, r.vars["organization"], c)
	if err != nil {
		return answer{}, err
	}
	return created(newTaskView(t)), nil
}

func (s *server) readTask(r *request) (answer, error) {
	which, err := id[ids.RunTask](r)
	if err != nil {
		return answer{}, err
	}
	t, err := s.RunTasks.Get(r.ctx, r.actor, which)
	if err != nil {
		return answer{}, err
	}
	return ok(newTaskView(t), s.taskIncludes(r, t)...), nil
}

func (s *server) updateTask(r *request) (answer, error) {
	which, err := id[ids.RunTask](r)
	if err != nil {
		return answer{}, err
	}
	c, err := readTaskInput(r)
	if err != nil {
		return answer{}, err
	}
	t, err := s.RunTasks.Update(r.ctx, r.actor, which, c)
	if err != nil {
		return answer{}, err
	}
	return ok(newTaskView(t)), nil
}

func (s *server) deleteTask(r *request) (answer, error) {
	which, err := id[ids.RunTask](r)
	if err != nil {
		return answer{}, err
	}
	return noContent(), s.RunTasks.Delete(r.ctx, r.actor, which)
}

// workspaceTaskView says that a workspace asks a task. stage is the first of its stages, for clients of old.
type workspaceTaskView struct {
	ID          string   `jsonapi:"primary,workspace-tasks"`
	Enforcement string   `jsonapi:"attr,enforcement-level"`
	Stage       string   `jsonapi:"attr,stage"`
	Stages      []string `jsonapi:"attr,stages"`
	related     relations
}

func (v *workspaceTaskView) relations() relations { return v.related }

func newWorkspaceTaskView(wt runtasks.WorkspaceTask) *workspaceTaskView {
	v := &workspaceTaskView{
		ID: string(wt.ID), Enforcement: string(wt.Enforcement), Stage: string(wt.Stages[0]),
		related: relations{"task": ref{"tasks", string(wt.TaskID)}, "workspace": ref{"workspaces", string(wt.WorkspaceID)}},
	}
	for _, stage := range wt.Stages {
		v.Stages = append(v.Stages, string(stage))
	}
	return v
}

type workspaceTaskAttributes struct {
	Enforcement Opt[runtasks.Enforcement] `json:"enforcement-level"`
	Stage       Opt[runtasks.Stage]       `json:"stage"`
	Stages      Opt[[]runtasks.Stage]     `json:"stages"`
}

// stages are those that a request names, in either way, or nil.
func (a workspaceTaskAttributes) stages() *[]runtasks.Stage {
	if a.Stages.Set() {
		return a.Stages.Pointer()
	}
	if a.Stage.Set() {
		return &[]runtasks.Stage{a.Stage.Value}
	}
	return nil
}

func (s *server) listWorkspaceTasks(r *request) (answer, error) {
	workspace, err := id[ids.Workspace](r)
	if err != nil {
		return answer{}, err
	}
	p, err := parsePaging(r.query)
	if err != nil {
		return answer{}, err
	}
	found, total, err := s.RunTasks.WorkspaceTasks(r.ctx, r.actor, workspace, p.page())
	if err != nil {
		return answer{}, err
	}
	items := make([]*workspaceTaskView, 0, len(found))
	for _, wt := range found {
		items = append(items, newWorkspaceTaskView(wt))
	}
	return page(items, p, total), nil
}

func (s *server) createWorkspaceTask(r *request) (answer, error) {
	workspace, err := id[ids.Workspace](r)
	if err != nil {
		return answer{}, err
	}
	body, err := r.body()
	if err != nil {
		return answer{}, err
	}
	in, err := decode[workspaceTaskAttributes](body, "workspace-tasks")
	if err != nil {
		return answer{}, err
	}
	named, err := in.required("task", "tasks")
	if err != nil {
		return answer{}, err
	}
	wt := runtasks.WorkspaceTask{WorkspaceID: workspace, Enforcement: in.Attributes.Enforcement.Or(runtasks.Advisory)}
	if wt.TaskID, err = ids.Parse[ids.RunTask](named); err != nil {
		return answer{}, err
	}
	if at := in.Attributes.stages(); at != nil {
		wt.Stages = *at
	}
	wt, err = s.RunTasks.Attach(r.ctx, r.actor, wt)
	if err != nil {
		return answer{}, err
	}
	return created(newWorkspaceTaskView(wt)), nil
}

// oneWorkspaceTask does something with the workspace task that the path names.
func (s *server) oneWorkspaceTask(r *request, do func(ids.Workspace, ids.WorkspaceTask) (runtasks.WorkspaceTask, error)) (answer, error) {
	workspace, err := id[ids.Workspace](r)
	if err != nil {
		return answer{}, err
	}
	which, err := ids.Parse[ids.WorkspaceTask](r.vars["task"])
	if err != nil {
		return answer{}, err
	}
	wt, err := do(workspace, which)
	if err != nil {
		return answer{}, err
	}
	return ok(newWorkspaceTaskView(wt)), nil
}

func (s *server) readWorkspaceTask(r *request) (answer, error) {
	return s.oneWorkspaceTask(r, func(workspace ids.Workspace, which ids.WorkspaceTask) (runtasks.WorkspaceTask, error) {
		return s.RunTasks.WorkspaceTask(r.ctx, r.actor, workspace, which)
	})
}

func (s *server) updateWorkspaceTask(r *request) (answer, error) {
	return s.oneWorkspaceTask(r, func(workspace ids.Workspace, which ids.WorkspaceTask) (wt runtasks.WorkspaceTask, err error) {
		body, err := r.body()
		if err != nil {
			return wt, err
		}
		in, err := decode[workspaceTaskAttributes](body, "workspace-tasks")
		if err != nil {
			return wt, err
		}
		return s.RunTasks.UpdateWorkspaceTask(r.ctx, r.actor, workspace, which, in.Attributes.Enforcement.Pointer(), in.Attributes.stages())
	})
}

func (s *server) deleteWorkspaceTask(r *request) (answer, error) {
	workspace, err := id[ids.Workspace](r)
	if err != nil {
		return answer{}, err
	}
	which, err := ids.Parse[ids.WorkspaceTask](r.vars["task"])
	if err != nil {
		return answer{}, err
	}
	return noContent(), s.RunTasks.Detach(r.ctx, r.actor, workspace, which)
}
