package registry

import (
	"context"
	"time"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// Component is a record of a component for stacks.
type Component struct {
	ID               ids.RegistryComponent
	Organization     ids.Organization
	OrganizationName string
	Name             string
	CreatedAt        time.Time
	UpdatedAt        time.Time
}

// CreateComponent makes a component.
func (s *Service) CreateComponent(ctx context.Context, actor authz.Actor, organization, name string) (c Component, err error) {
	err = postgres.InTx(ctx, s.db, "registry.create-component", func(tx postgres.Tx) error {
		org, err := accounts.AllowedOrganization(ctx, tx, actor, authz.ModulesManage, organization)
		if err != nil {
			return err
		}
		if err := checkPart("name", "Name", name); err != nil {
			return err
		}
		id := ids.New[ids.RegistryComponent]()
		_, err = postgres.Exec(ctx, tx, Queries.Get("ComponentInsert"), postgres.Args{"id": id, "organization_id": org.ID, "name": name})
		if _, constraint := postgres.Violation(err); constraint == "registry_components_name" {
			return accounts.Taken("name", "Name")
		}
		if err != nil {
			return err
		}
		if c, err = allowedComponent(ctx, tx, actor, authz.ModulesManage, id); err != nil {
			return err
		}
		return record(ctx, tx, actor, org.ID, "registry-component.created", "registry-component", string(id), map[string]any{"name": name})
	})
	return c, err
}

func allowedComponent(ctx context.Context, tx postgres.Tx, actor authz.Actor, action authz.Action, id ids.RegistryComponent) (Component, error) {
	c, err := postgres.One[Component](ctx, tx, Queries.Get("ComponentGet"), postgres.Args{"id": id})
	if postgres.NoRow(err) {
		return Component{}, fault.Missing("registry component", string(id))
	}
	if err != nil {
		return Component{}, err
	}
	return c, allow(actor, action, c.Organization, "registry component", string(id))
}

// BindComponent replaces the pairs of key and value on a component.
func (s *Service) BindComponent(ctx context.Context, actor authz.Actor, id ids.RegistryComponent, wanted *[]TagBinding) (c Component, err error) {
	err = postgres.InTx(ctx, s.db, "registry.update-component", func(tx postgres.Tx) error {
		if c, err = allowedComponent(ctx, tx, actor, authz.ModulesManage, id); err != nil {
			return err
		}
		n, err := postgres.Exec(ctx, tx, Queries.Get("ComponentTouched"), postgres.Args{"id": id}) // and locked
		if err != nil {
			return err
		}
		if n == 0 {
			return fault.Missing("registry component", string(id))
		}
		if err := setBindings(ctx, tx, c.Organization, bound{Component: id}, wanted); err != nil {
			return err
		}
		return record(ctx, tx, actor, c.Organization, "registry-component.updated", "registry-component", string(id), map[string]any{"name": c.Name})
	})
	return c, err
}

// ComponentBindings gives the pairs on a component by key.
func (s *Service) ComponentBindings(ctx context.Context, actor authz.Actor, id ids.RegistryComponent) (pairs []TagBinding, err error) {
	err = postgres.InSnapshot(ctx, s.db, "registry.component-bindings", func(tx postgres.Tx) error {
		if _, err := allowedComponent(ctx, tx, actor, authz.OrganizationRead, id); err != nil {
			return err
		}
		pairs, err = bindings(ctx, tx, bound{Component: id})
		return err
	})
	return pairs, err
}

// DeleteComponent removes a component.
func (s *Service) DeleteComponent(ctx context.Context, actor authz.Actor, id ids.RegistryComponent) error {
	return postgres.InTx(ctx, s.db, "registry.delete-component", func(tx postgres.Tx) error {
		c, err := allowedComponent(ctx, tx, actor, authz.ModulesManage, id)
		if err != nil {
			return err
		}
		n, err := postgres.Exec(ctx, tx, Queries.Get("ComponentDelete"), postgres.Args{"id": id})
		if err != nil {
			return err
		}
		if n == 0 {
			return fault.Missing("registry component", string(id))
		}
		return record(ctx, tx, actor, c.Organization, "registry-component.deleted", "registry-component", string(id), map[string]any{"name": c.Name})
	})
}
