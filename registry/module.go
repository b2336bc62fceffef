package registry

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// Module is one module for one system.
type Module struct {
	ID               ids.RegistryModule
	Organization     ids.Organization
	OrganizationName string
	Registry         Name
	Namespace        string
	Name             string
	Provider         string
	NoCode           bool
	CreatedAt        time.Time
	UpdatedAt        time.Time
	Statuses         []byte // of its versions, as JSON
}

// VersionStatus is how far a version of a module is.
type VersionStatus struct {
	Version string `json:"version"`
	Status  string `json:"status"`
	Error   string `json:"error"`
}

// VersionStatuses are those of all of its versions, the newest version first.
func (m Module) VersionStatuses() (list []VersionStatus, err error) {
	if err = json.Unmarshal(m.Statuses, &list); err != nil {
		return nil, fmt.Errorf("read the versions of module %s: %w", m.ID, err)
	}
	return list, nil
}

// ModuleAddress names a module of an organization. An empty Provider stands for all of them.
type ModuleAddress struct {
	Registry                  Name
	Namespace, Name, Provider string
}

func (a ModuleAddress) String() string {
	text := a.Namespace + "/" + a.Name
	if a.Provider != "" {
		text += "/" + a.Provider
	}
	return text
}

// NewModule is what a client asks for. An empty Registry is the private one, for which
// Namespace is empty.
type NewModule struct {
	Registry                  Name
	Namespace, Name, Provider string
	NoCode                    bool
}

func (n NewModule) check() error {
	if err := checkPart("name", "Name", n.Name); err != nil {
		return err
	}
	if !systemPart.MatchString(n.Provider) {
		return accounts.Invalid("provider", "Provider must be small letters and digits, at most 64, such as aws")
	}
	switch n.Registry {
	case Private:
		if n.Namespace != "" {
			return accounts.Invalid("namespace", "Namespace is not said for the private registry: it is the organization's name")
		}
		return nil
	case Public:
		return checkPart("namespace", "Namespace", n.Namespace)
	}
	return accounts.Invalid("registry-name", "Registry name is not included in the list")
}

// CreateModule makes a module; its versions follow by CreateModuleVersion.
func (s *Service) CreateModule(ctx context.Context, actor authz.Actor, organization string, n NewModule) (m Module, err error) {
	if n.Registry == "" {
		n.Registry = Private
	}
	err = postgres.InTx(ctx, s.db, "registry.create-module", func(tx postgres.Tx) error {
		org, err := accounts.AllowedOrganization(ctx, tx, actor, authz.ModulesManage, organization)
		if err != nil {
			return err
		}
		if err := n.check(); err != nil {
			return err
		}
		id := ids.New[ids.RegistryModule]()
		_, err = postgres.Exec(ctx, tx, Queries.Get("ModuleInsert"), postgres.Args{
			"id": id, "organization_id": org.ID, "registry_name": string(n.Registry), "namespace": n.Namespace, "name": n.Name, "provider": n.Provider, "no_code": n.NoCode,
		})
		if _, constraint := postgres.Violation(err); constraint == "registry_modules_address" {
			return accounts.Taken("name", "Name")
		}
		if err != nil {
			return err
		}
		if m, err = loadModule(ctx, tx, id); err != nil {
			return err
		}
		return record(ctx, tx, actor, org.ID, "registry-module.created", "registry-module", string(id), map[string]any{"registry": n.Registry, "module": m.address().String()})
	})
	return m, err
}

func (m Module) address() ModuleAddress {
	return ModuleAddress{m.Registry, m.Namespace, m.Name, m.Provider}
}

func loadModule(ctx context.Context, tx postgres.Tx, id ids.RegistryModule) (Module, error) {
	m, err := postgres.One[Module](ctx, tx, Queries.Get("ModuleGet"), postgres.Args{"id": id})
	if postgres.NoRow(err) {
		return Module{}, fault.Missing("registry module", string(id))
	}
	return m, err
}

// Module gives one module by its id.
func (s *Service) Module(ctx context.Context, actor authz.Actor, id ids.RegistryModule) (m Module, err error) {
	err = postgres.InOneStatement(ctx, s.db, "registry.module", func(tx postgres.Tx) error {
		if m, err = loadModule(ctx, tx, id); err != nil {
			return err
		}
		return allow(actor, authz.OrganizationRead, m.Organization, "registry module", string(id))
	})
	return m, err
}

// ModuleAt gives one module by its address.
func (s *Service) ModuleAt(ctx context.Context, actor authz.Actor, organization string, a ModuleAddress) (m Module, err error) {
	err = postgres.InSnapshot(ctx, s.db, "registry.module-at", func(tx postgres.Tx) error {
		m, err = moduleAt(ctx, tx, actor, authz.OrganizationRead, organization, a)
		return err
	})
	return m, err
}

func moduleAt(ctx context.Context, tx postgres.Tx, actor authz.Actor, action authz.Action, organization string, a ModuleAddress) (Module, error) {
	org, err := accounts.AllowedOrganization(ctx, tx, actor, action, organization)
	if err != nil {
		return Module{}, err
	}
	return moduleIn(ctx, tx, org, a)
}

// moduleIn finds a module whose organization was allowed.
func moduleIn(ctx context.Context, tx postgres.Tx, org accounts.Organization, a ModuleAddress) (Module, error) {
	namespace, ok := storedNamespace(a.Registry, a.Namespace, org)
	if !ok || !accounts.Storable(a.String()) {
		return Module{}, fault.Missing("registry module", a.String())
	}
	m, err := postgres.One[Module](ctx, tx, Queries.Get("ModuleAt"), postgres.Args{
		"organization_id": org.ID, "registry_name": string(a.Registry), "namespace": namespace, "name": a.Name, "provider": a.Provider,
	})
	if postgres.NoRow(err) {
		return Module{}, fault.Missing("registry module", a.String())
	}
	return m, err
}

// ModuleFilter selects modules. Empty members match all.
type ModuleFilter struct {
	Search       string // a part of namespace, name or provider, in any case
	Provider     string
	Registry     Name
	Organization string // its name: another than the list's matches nothing
	Page         Page
}

// Modules gives a page of an organization's modules by name, and counts all that match.
func (s *Service) Modules(ctx context.Context, actor authz.Actor, organization string, f ModuleFilter) (page []Module, total int, err error) {
	err = postgres.InSnapshot(ctx, s.db, "registry.modules", func(tx postgres.Tx) error {
		org, err := accounts.AllowedOrganization(ctx, tx, actor, authz.OrganizationRead, organization)
		if err != nil {
			return err
		}
		page, total, err = list[Module](ctx, tx, "ModuleList", "ModuleCount", postgres.Args{
			"organization_id": org.ID, "search": f.Search, "provider": f.Provider, "registry_name": string(f.Registry), "organization_name": f.Organization, "limit": f.Page.Limit, "offset": f.Page.Offset,
		})
		return err
	})
	return page, total, err
}

// ModuleChanges are what an update says; what is nil stays.
type ModuleChanges struct {
	NoCode   *bool
	Bindings *[]TagBinding
}

// UpdateModule changes what is said of a module.
func (s *Service) UpdateModule(ctx context.Context, actor authz.Actor, organization string, a ModuleAddress, c ModuleChanges) (m Module, err error) {
	err = postgres.InTx(ctx, s.db, "registry.update-module", func(tx postgres.Tx) error {
		if m, err = moduleAt(ctx, tx, actor, authz.ModulesManage, organization, a); err != nil {
			return err
		}
		n, err := postgres.Exec(ctx, tx, Queries.Get("ModuleUpdate"), postgres.Args{"id": m.ID, "no_code": c.NoCode})
		if err != nil {
			return err
		}
		if n == 0 {
			return fault.Missing("registry module", a.String())
		}
		if err := setBindings(ctx, tx, m.Organization, bound{Module: m.ID}, c.Bindings); err != nil {
			return err
		}
		if err := record(ctx, tx, actor, m.Organization, "registry-module.updated", "registry-module", string(m.ID), map[string]any{"module": a.String(), "no_code": c.NoCode}); err != nil {
			return err
		}
		m, err = loadModule(ctx, tx, m.ID)
		return err
	})
	return m, err
}

// DeleteModules removes the module at an address with its versions; without a Provider all
// modules of that name, and without a Registry those of both. None is NotFound.
func (s *Service) DeleteModules(ctx context.Context, actor authz.Actor, organization string, a ModuleAddress) error {
	return postgres.InTx(ctx, s.db, "registry.delete-modules", func(tx postgres.Tx) error {
		org, err := accounts.AllowedOrganization(ctx, tx, actor, authz.ModulesManage, organization)
		if err != nil {
			return err
		}
		namespace := ""
		if a.Registry != "" {
			var ok bool
			if namespace, ok = storedNamespace(a.Registry, a.Namespace, org); !ok {
				return fault.Missing("registry module", a.String())
			}
		}
		if !accounts.Storable(a.String()) {
			return fault.Missing("registry module", a.String())
		}
		found, err := postgres.All[Module](ctx, tx, Queries.Get("ModulesLock"), postgres.Args{
			"organization_id": org.ID, "registry_name": string(a.Registry), "namespace": namespace, "name": a.Name, "provider": a.Provider,
		})
		if err != nil {
			return err
		}
		if len(found) == 0 {
			return fault.Missing("registry module", a.String())
		}
		for _, m := range found {
			if err := s.deleteModule(ctx, tx, actor, m); err != nil {
				return err
			}
		}
		return nil
	})
}

// deleteModule removes a module that is locked, and gives its bytes up.
func (s *Service) deleteModule(ctx context.Context, tx postgres.Tx, actor authz.Actor, m Module) error {
	if err := s.discardAll(ctx, tx, m.Organization, "ModuleObjects", postgres.Args{"module_id": m.ID}); err != nil {
		return err
	}
	if _, err := postgres.Exec(ctx, tx, Queries.Get("ModuleDelete"), postgres.Args{"id": m.ID}); err != nil {
		return err
	}
	return record(ctx, tx, actor, m.Organization, "registry-module.deleted", "registry-module", string(m.ID), map[string]any{"registry": m.Registry, "module": m.address().String()})
}

// discardAll gives up the objects that a statement lists. It locks their rows, so that no upload
// puts another one there before they are deleted.
func (s *Service) discardAll(ctx context.Context, tx postgres.Tx, org ids.Organization, statement string, args postgres.Args) error {
	objects, err := postgres.Values[ids.Object](ctx, tx, Queries.Get(statement), args)
	if err != nil {
		return err
	}
	for _, id := range objects {
		if id == "" { // nothing came yet
			continue
		}
		if err := s.objects.Discard(ctx, tx, org, id); err != nil {
			return err
		}
	}
	return nil
}
