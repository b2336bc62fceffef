package tfeapi

import (
	"time"

	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/registry"
)

// componentView is a component on the wire: a record, so it is always pending and has no versions.
type componentView struct {
	ID              string    `jsonapi:"primary,registry-components"`
	Name            string    `jsonapi:"attr,name"`
	Namespace       string    `jsonapi:"attr,namespace"`
	Description     string    `jsonapi:"attr,description"`
	Status          string    `jsonapi:"attr,status"`
	VersionStatuses []string  `jsonapi:"attr,version-statuses"`
	CreatedAt       time.Time `jsonapi:"attr,created-at,iso8601"`
	UpdatedAt       time.Time `jsonapi:"attr,updated-at,iso8601"`
	organization    string
}

func (v *componentView) relations() relations {
	return relations{"organization": ref{"organizations", v.organization}}
}

func newComponentView(c registry.Component) *componentView {
	return &componentView{
		ID: string(c.ID), Name: c.Name, Namespace: c.OrganizationName, Status: "pending", VersionStatuses: []string{}, CreatedAt: c.CreatedAt, UpdatedAt: c.UpdatedAt, organization: c.OrganizationName,
	}
}

func (s *server) createComponent(r *request) (answer, error) {
	body, err := r.body()
	if err != nil {
		return answer{}, err
	}
	in, err := decode[struct {
		Name Opt[string] `json:"name"`
	}](body, "registry-components")
	if err != nil {
		return answer{}, err
	}
	c, err := s.Registry.CreateComponent(r.ctx, r.actor, r.vars["organization"], in.Attributes.Name.Or(""))
	if err != nil {
		return answer{}, err
	}
	return created(newComponentView(c)), nil
}

// updateComponent takes documents without a type, as go-tfe sends them.
func (s *server) updateComponent(r *request) (answer, error) {
	component, err := id[ids.RegistryComponent](r)
	if err != nil {
		return answer{}, err
	}
	body, err := r.body()
	if err != nil {
		return answer{}, err
	}
	in, err := decodeUntyped[struct{}](body)
	if err != nil {
		return answer{}, err
	}
	bindings, err := registryBindings(in)
	if err != nil {
		return answer{}, err
	}
	c, err := s.Registry.BindComponent(r.ctx, r.actor, component, bindings)
	if err != nil {
		return answer{}, err
	}
	return ok(newComponentView(c)), nil
}

func (s *server) listComponentBindings(r *request) (answer, error) {
	component, err := id[ids.RegistryComponent](r)
	if err != nil {
		return answer{}, err
	}
	pairs, err := s.Registry.ComponentBindings(r.ctx, r.actor, component)
	return pageOfBindings(r, pairs, err)
}

func (s *server) deleteComponent(r *request) (answer, error) {
	component, err := id[ids.RegistryComponent](r)
	if err != nil {
		return answer{}, err
	}
	return noContent(), s.Registry.DeleteComponent(r.ctx, r.actor, component)
}
