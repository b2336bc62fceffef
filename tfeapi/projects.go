package tfeapi

import (
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/workspaces"
)

// projectView is a project on the wire.
type projectView struct {
	ID                   string             `jsonapi:"primary,projects"`
	Name                 string             `jsonapi:"attr,name"`
	Description          string             `jsonapi:"attr,description"`
	CreatedAt            time.Time          `jsonapi:"attr,created-at,iso8601"`
	DefaultExecutionMode string             `jsonapi:"attr,default-execution-mode"`
	IsUnified            bool               `jsonapi:"attr,is-unified"`
	Permissions          projectPermissions `jsonapi:"attr,permissions"`
	organization         string
}

type projectPermissions struct {
	CanRead            bool `json:"can-read"`
	CanCreateWorkspace bool `json:"can-create-workspace"`
}

func (v *projectView) relations() relations {
	return relations{"organization": ref{"organizations", v.organization}}
}

func newProjectView(actor authz.Actor, p workspaces.Project, organization string) *projectView {
	object := authz.Object{Organization: p.Organization, Project: p.ID}
	return &projectView{
		ID: string(p.ID), Name: p.Name, Description: p.Description, CreatedAt: p.CreatedAt, DefaultExecutionMode: "remote",
		Permissions: projectPermissions{
			CanRead: authz.Can(actor, authz.ProjectRead, object), CanCreateWorkspace: authz.Can(actor, authz.WorkspaceCreate, object),
		},
		organization: organization,
	}
}

// listProjects never answers 404 for a name that no project has: the client would crash.
func (s *server) listProjects(r *request) (answer, error) {
	p, err := parsePaging(r.query)
	if err != nil {
		return answer{}, err
	}
	var filter workspaces.ProjectFilter
	if names := r.query.Get("filter[names]"); names != "" {
		filter.Names = strings.Split(names, ",")
	}
	list, total, err := s.Workspaces.Projects(r.ctx, r.actor, r.vars["organization"], filter, p.page())
	if err != nil {
		return answer{}, err
	}
	items := make([]*projectView, 0, len(list))
	for _, project := range list {
		items = append(items, newProjectView(r.actor, project, r.vars["organization"]))
	}
	return page(items, p, total), nil
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
	name, err := s.organizationName(r, p.Organization)
	if err != nil {
		return answer{}, err
	}
	return ok(newProjectView(r.actor, p, name)), nil
}

// organizationName finds the name of an organization that the actor sees.
func (s *server) organizationName(r *request, organization ids.Organization) (string, error) {
	visible, _, err := s.Accounts.Organizations(r.ctx, r.actor, accounts.Page{})
	if err != nil {
		return "", err
	}
	for _, o := range visible {
		if o.ID == organization {
			return o.Name, nil
		}
	}
	return "", fault.Missing("organization", string(organization))
}

func (s *server) createProject(r *request) (answer, error) {
	body, err := r.body()
	if err != nil {
		return answer{}, err
	}
	in, err := decode[struct {
		Name        Opt[string] `json:"name"`
		Description Opt[string] `json:"description"`
	}](body, "projects")
	if err != nil {
		return answer{}, err
	}
	p, err := s.Workspaces.CreateProject(r.ctx, r.actor, r.vars["organization"], workspaces.NewProject{
		Name: in.Attributes.Name.Or(""), Description: in.Attributes.Description.Or(""),
	})
	if err != nil {
		return answer{}, err
	}
	return created(newProjectView(r.actor, p, r.vars["organization"])), nil
}
