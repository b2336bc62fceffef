package registry

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// Provider is one provider, with all of its versions.
type Provider struct {
	ID               ids.RegistryProvider
	Organization     ids.Organization
	OrganizationName string
	Registry         Name
	Namespace        string
	Name             string
	CreatedAt        time.Time
	UpdatedAt        time.Time
	Versions         []ids.RegistryProviderVersion // the newest version first
}

// ProviderAddress names a provider of an organization.
type ProviderAddress struct {
	Registry        Name
	Namespace, Name string
}

func (a ProviderAddress) String() string { return a.Namespace + "/" + a.Name }

func (a ProviderAddress) check(org accounts.Organization) error {
	if err := checkPart("name", "Name", a.Name); err != nil {
		return err
	}
	unknown := accounts.Invalid("registry-name", "Registry name is not included in the list")
	switch {
	case a.Registry == "":
		return errors.Join(accounts.Invalid("registry-name", "Registry name can't be blank"), unknown)
	case a.Registry == Private && a.Namespace != org.Name:
		return accounts.Invalid("namespace", "Namespace must be %s, the organization's name, in the private registry", org.Name)
	case a.Registry != Private && a.Registry != Public:
		return unknown
	case a.Registry == Public:
		return checkPart("namespace", "Namespace", a.Namespace)
	}
	return nil
}

// CreateProvider makes a provider; its versions follow by CreateProviderVersion.
func (s *Service) CreateProvider(ctx context.Context, actor authz.Actor, organization string, a ProviderAddress) (p Provider, err error) {
	err = postgres.InTx(ctx, s.db, "registry.create-provider", func(tx postgres.Tx) error {
		org, err := accounts.AllowedOrganization(ctx, tx, actor, authz.ProvidersManage, organization)
		if err != nil {
			return err
		}
		if err := a.check(org); err != nil {
			return err
		}
		namespace, _ := storedNamespace(a.Registry, a.Namespace, org)
		id := ids.New[ids.RegistryProvider]()
		_, err = postgres.Exec(ctx, tx, Queries.Get("ProviderInsert"), postgres.Args{"id": id, "organization_id": org.ID, "registry_name": string(a.Registry), "namespace": namespace, "name": a.Name})
		if _, constraint := postgres.Violation(err); constraint == "registry_providers_address" {
			return accounts.Taken("name", "Name")
		}
		if err != nil {
			return err
		}
		if p, err = loadProvider(ctx, tx, id); err != nil {
			return err
		}
		return record(ctx, tx, actor, org.ID, "registry-provider.created", "registry-provider", string(id), map[string]any{"registry": a.Registry, "provider": a.String()})
	})
	return p, err
}

func (p Provider) address() ProviderAddress { return ProviderAddress{p.Registry, p.Namespace, p.Name} }

func loadProvider(ctx context.Context, tx postgres.Tx, id ids.RegistryProvider) (Provider, error) {
	p, err := postgres.One[Provider](ctx, tx, Queries.Get("ProviderGet"), postgres.Args{"id": id})
	if postgres.NoRow(err) {
		return Provider{}, fault.Missing("registry provider", string(id))
	}
	return p, err
}

// Provider gives one provider by its id.
func (s *Service) Provider(ctx context.Context, actor authz.Actor, id ids.RegistryProvider) (p Provider, err error) {
	err = postgres.InOneStatement(ctx, s.db, "registry.provider", func(tx postgres.Tx) error {
		if p, err = loadProvider(ctx, tx, id); err != nil {
			return err
		}
		return allow(actor, authz.OrganizationRead, p.Organization, "registry provider", string(id))
	})
	return p, err
}

// ProviderAt gives one provider by its address.
func (s *Service) ProviderAt(ctx context.Context, actor authz.Actor, organization string, a ProviderAddress) (p Provider, err error) {
	err = postgres.InSnapshot(ctx, s.db, "registry.provider-at", func(tx postgres.Tx) error {
		p, err = providerAt(ctx, tx, actor, authz.OrganizationRead, organization, a)
		return err
	})
	return p, err
}

func providerAt(ctx context.Context, tx postgres.Tx, actor authz.Actor, action authz.Action, organization string, a ProviderAddress) (Provider, error) {
	org, err := accounts.AllowedOrganization(ctx, tx, actor, action, organization)
	if err != nil {
		return Provider{}, err
	}
	return providerIn(ctx, tx, org, a)
}

// providerIn finds a provider whose organization was allowed.
func providerIn(ctx context.Context, tx postgres.Tx, org accounts.Organization, a ProviderAddress) (Provider, error) {
	namespace, ok := storedNamespace(a.Registry, a.Namespace, org)
	if !ok || !accounts.Storable(a.String()) {
		return Provider{}, fault.Missing("registry provider", a.String())
	}
	p, err := postgres.One[Provider](ctx, tx, Queries.Get("ProviderAt"), postgres.Args{"organization_id": org.ID, "registry_name": string(a.Registry), "namespace": namespace, "name": a.Name})
	if postgres.NoRow(err) {
		return Provider{}, fault.Missing("registry provider", a.String())
	}
	return p, err
}

// ProviderFilter selects providers. Empty members match all.
type ProviderFilter struct {
	Search       string // a part of namespace or name, in any case
	Registry     Name
	Organization string // its name: another than the list's matches nothing
	Page         Page
}

// Providers gives a page of an organization's providers by name, and counts all that match.
func (s *Service) Providers(ctx context.Context, actor authz.Actor, organization string, f ProviderFilter) (page []Provider, total int, err error) {
	err = postgres.InSnapshot(ctx, s.db, "registry.providers", func(tx postgres.Tx) error {
		org, err := accounts.AllowedOrganization(ctx, tx, actor, authz.OrganizationRead, organization)
		if err != nil {
			return err
		}
		page, total, err = list[Provider](ctx, tx, "ProviderList", "ProviderCount", postgres.Args{
			"organization_id": org.ID, "search": f.Search, "registry_name": string(f.Registry), "organization_name": f.Organization, "limit": f.Page.Limit, "offset": f.Page.Offset,
		})
		return err
	})
	return page, total, err
}

// BindProvider replaces the pairs of key and value on a provider.
func (s *Service) BindProvider(ctx context.Context, actor authz.Actor, organization string, a ProviderAddress, bindings *[]TagBinding) (p Provider, err error) {
	err = postgres.InTx(ctx, s.db, "registry.update-provider", func(tx postgres.Tx) error {
		if p, err = s.lockedProvider(ctx, tx, actor, organization, a); err != nil {
			return err
		}
		if err := setBindings(ctx, tx, p.Organization, bound{Provider: p.ID}, bindings); err != nil {
			return err
		}
		return record(ctx, tx, actor, p.Organization, "registry-provider.updated", "registry-provider", string(p.ID), map[string]any{"provider": a.String()})
	})
	return p, err
}

// lockedProvider gives a provider that the actor may manage, and keeps others from changing it.
func (s *Service) lockedProvider(ctx context.Context, tx postgres.Tx, actor authz.Actor, organization string, a ProviderAddress) (Provider, error) {
	p, err := providerAt(ctx, tx, actor, authz.ProvidersManage, organization, a)
	if err != nil {
		return Provider{}, err
	}
	_, err = postgres.Value[ids.RegistryProvider](ctx, tx, Queries.Get("ProviderLock"), postgres.Args{"id": p.ID})
	if postgres.NoRow(err) { // deleted since it was read
		return Provider{}, fault.Missing("registry provider", a.String())
	}
	return p, err
}

// DeleteProvider removes a provider with all of its versions.
func (s *Service) DeleteProvider(ctx context.Context, actor authz.Actor, organization string, a ProviderAddress) error {
	return postgres.InTx(ctx, s.db, "registry.delete-provider", func(tx postgres.Tx) error {
		p, err := s.lockedProvider(ctx, tx, actor, organization, a)
		if err != nil {
			return err
		}
		if err := s.discardAll(ctx, tx, p.Organization, "ProviderObjects", postgres.Args{"provider_id": p.ID}); err != nil {
			return err
		}
		if _, err := postgres.Exec(ctx, tx, Queries.Get("ProviderDelete"), postgres.Args{"id": p.ID}); err != nil {
			return err
		}
		return record(ctx, tx, actor, p.Organization, "registry-provider.deleted", "registry-provider", string(p.ID), map[string]any{"registry": p.Registry, "provider": p.address().String()})
	})
}
