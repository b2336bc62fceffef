package tfeapi

import (
	"time"

	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/workspaces"
)

// projectView is a project on the wire.
type projectView struct {
	ID                   string                   `jsonapi:"primary,projects"`
	Name                 string                   `jsonapi:"attr,name"`
	Description          string                   `jsonapi:"attr,description"`
	CreatedAt            time.Time                `jsonapi:"attr,created-at,iso8601"`
	DefaultExecutionMode string                   `jsonapi:"attr,default-execution-mode"`
	IsUnified            bool                     `jsonapi:"attr,is-unified"`
	SettingOverwrites    projectSettingOverwrites `jsonapi:"attr,setting-overwrites"`
	Permissions          projectPermissions       `jsonapi:"attr,permissions"`
	related              relations
}

// projectSettingOverwrites says which settings are not those of the organization.
type projectSettingOverwrites struct {
	ExecutionMode bool `json:"default-execution-mode"`
	AgentPool     bool `json:"default-agent-pool"`
}

type projectPermissions struct {
	CanRead            bool `json:"can-read"`
	CanUpdate          bool `json:"can-update"`
	CanDestroy         bool `json:"can-destroy"`
	CanCreateWorkspace bool `json:"can-create-workspace"`
}

func (v *projectView) relations() relations { return v.related }

func newProjectView(actor authz.Actor, p workspaces.Project) *projectView {
	can := func(action authz.Action) bool {
		return authz.Can(actor, action, authz.Object{Organization: p.Organization, Project: p.ID})
	}
	return &projectView{
		ID: string(p.ID), Name: p.Name, Description: p.Description, CreatedAt: p.CreatedAt, DefaultExecutionMode: string(p.ExecutionMode),
		SettingOverwrites: projectSettingOverwrites{ExecutionMode: !p.Inherits, AgentPool: !p.Inherits},
		Permissions: projectPermissions{
			CanRead: can(authz.ProjectRead), CanUpdate: can(authz.ProjectUpdate), CanDestroy: can(authz.ProjectDelete) && !p.IsDefault,
			CanCreateWorkspace: can(authz.WorkspaceCreate),
		},
		related: relations{"organization": ref{"organizations", p.OrganizationName}, "default-agent-pool": optional("agent-pools", p.AgentPool)},
	}
}

// projectViews draws projects, with their tag bindings where the request asks for them.
func (s *server) projectViews(r *request, list []workspaces.Project) (items []*projectView, included []view, err error) {
	items = make([]*projectView, 0, len(list))
	byID := map[string]*projectView{}
	for _, p := range list {
		item := newProjectView(r.actor, p)
		items, byID[item.ID] = append(items, item), item
	}
	if !r.includes()["effective-tag-bindings"] || len(list) == 0 {
		return items, nil, nil
	}
	bindings, err := s.Workspaces.ProjectsBindings(r.ctx, list)
	if err != nil {
		return nil, nil, err
	}
	for _, item := range items {
		item.related["effective-tag-bindings"] = []ref{}
	}
	for _, b := range bindings {
		drawn, id := newEffectiveBindingView(b)
		related := byID[b.Owner].related
		related["effective-tag-bindings"] = append(related["effective-tag-bindings"].([]ref), ref{"effective-tag-bindings", id})
		included = append(included, drawn)
	}
	return items, included, nil
}

// listProjects never answers 404 for a name that no project has: the client would crash.
func (s *server) listProjects(r *request) (answer, error) {
	p, err := parsePaging(r.query)
	if err != nil {
		return answer{}, err
	}
	filter := workspaces.ProjectFilter{Names: commaList(r.query, "filter[names]"), Search: r.query.Get("q")}
	if filter.Bindings, err = taggedFilter(r.query); err != nil {
		return answer{}, err
	}
	if filter.Sort, err = r.sorted("Projects", "name"); err != nil {
		return answer{}, err
	}
	if filter.May, err = permissionsFilter(r); err != nil {
		return answer{}, err
	}
	list, total, err := s.Workspaces.Projects(r.ctx, r.actor, r.vars["organization"], filter, p.page())
	if err != nil {
		return answer{}, err
	}
	items, included, err := s.projectViews(r, list)
	if err != nil {
		return answer{}, err
	}
	return page(items, p, total, included...), nil
}

// permissionsFilter reads which rights of the actor a list of projects is narrowed by. False, like
// leaving it out, selects nothing away.
func permissionsFilter(r *request) (may []authz.Action, err error) {
	for name, action := range map[string]authz.Action{"create-workspace": authz.WorkspaceCreate, "update": authz.ProjectUpdate} {
		wanted, err := r.choice("filter[permissions][" + name + "]")
		if err != nil {
			return nil, err
		}
		if wanted != nil && *wanted {
			may = append(may, action)
		}
	}
	return may, nil
}

func (s *server) readProject(r *request) (answer, error) {
	project, err := id[ids.Project](r)
	if err != nil {
		return answer{}, err
	}
	p, err := s.Workspaces.Project(r.ctx, r.actor, project)
	if err != nil {
		return answer{}, err
	}
	items, included, err := s.projectViews(r, []workspaces.Project{p})
	if err != nil {
		return answer{}, err
	}
	return ok(items[0], included...), nil
}

type projectAttributes struct {
	Name                 Opt[string]                        `json:"name"`
	Description          Opt[string]                        `json:"description"`
	DefaultExecutionMode Opt[string]                        `json:"default-execution-mode"`
	DefaultAgentPoolID   Opt[string]                        `json:"default-agent-pool-id"`
	SettingOverwrites    Opt[projectSettingOverwritesInput] `json:"setting-overwrites"`
}

type projectSettingOverwritesInput struct {
	ExecutionMode *bool `json:"default-execution-mode"`
	AgentPool     *bool `json:"default-agent-pool"`
}

// projectInput reads what a request says about a project.
func projectInput(r *request) (c workspaces.ProjectChanges, err error) {
	body, err := r.body()
	if err != nil {
		return c, err
	}
	in, err := decode[projectAttributes](body, "projects")
	if err != nil {
		return c, err
	}
	a := in.Attributes
	c = workspaces.ProjectChanges{Name: a.Name.Pointer(), Description: textOrEmpty(a.Description)}
	c.ExecutionMode = (*workspaces.ExecutionMode)(a.DefaultExecutionMode.Pointer())
	if c.AgentPool, err = agentPool(a.DefaultAgentPoolID); err != nil {
		return c, err
	}
	if c.InheritMode, err = inheritMode(a.SettingOverwrites.Value.ExecutionMode, a.SettingOverwrites.Value.AgentPool); err != nil {
		return c, err
	}
	bindings, given, err := relatedMany[bindingAttributes](in, "tag-bindings", "tag-bindings")
	if given {
		wanted := bindingsOf(bindings)
		c.Bindings = &wanted
	}
	return c, err
}

func (s *server) createProject(r *request) (answer, error) {
	c, err := projectInput(r)
	if err != nil {
		return answer{}, err
	}
	p, err := s.Workspaces.CreateProject(r.ctx, r.actor, r.vars["organization"], workspaces.NewProject{
		Name: orEmpty(c.Name), Description: orEmpty(c.Description), ProjectSettings: c.ProjectSettings,
	})
	if err != nil {
		return answer{}, err
	}
	return created(newProjectView(r.actor, p)), nil
}

func (s *server) updateProject(r *request) (answer, error) {
	project, err := id[ids.Project](r)
	if err != nil {
		return answer{}, err
	}
	c, err := projectInput(r)
	if err != nil {
		return answer{}, err
	}
	p, err := s.Workspaces.UpdateProject(r.ctx, r.actor, project, c)
	if err != nil {
		return answer{}, err
	}
	return ok(newProjectView(r.actor, p)), nil
}

func (s *server) deleteProject(r *request) (answer, error) {
	project, err := id[ids.Project](r)
	if err != nil {
		return answer{}, err
	}
	return noContent(), s.Workspaces.DeleteProject(r.ctx, r.actor, project)
}
