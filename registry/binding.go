package registry

import (
	"context"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// TagBinding is a pair of key and value on a module, provider or component.
type TagBinding struct {
	ID         ids.TagBinding
	Key, Value string
}

const (
	maxBindings     = 50
	maxBindingKey   = 128
	maxBindingValue = 256
)

// bound is what pairs are on: one of its members is set.
type bound struct {
	Module    ids.RegistryModule
	Provider  ids.RegistryProvider
	Component ids.RegistryComponent
}

func (b bound) args() postgres.Args {
	return postgres.Args{"module_id": string(b.Module), "provider_id": string(b.Provider), "component_id": string(b.Component)}
}

// setBindings replaces all pairs; nil leaves them.
func setBindings(ctx context.Context, tx postgres.Tx, org ids.Organization, of bound, wanted *[]TagBinding) error {
	if wanted == nil {
		return nil
	}
	if len(*wanted) > maxBindings {
		return accounts.Invalid("tag-bindings", "Tag bindings are at most %d", maxBindings)
	}
	if _, err := postgres.Exec(ctx, tx, Queries.Get("BindingsClear"), of.args()); err != nil {
		return err
	}
	args, fresh, keys, values := of.args(), []string{}, []string{}, []string{}
	seen := map[string]bool{}
	for _, b := range *wanted {
		switch {
		case b.Key == "":
			return accounts.Invalid("key", "Key can't be blank")
		case seen[b.Key]:
			return accounts.Invalid("key", "Key %q is there twice", b.Key)
		}
		if err := accounts.CheckText("key", "Key", b.Key, maxBindingKey); err != nil {
			return err
		}
		if err := accounts.CheckText("value", "Value", b.Value, maxBindingValue); err != nil {
			return err
		}
		seen[b.Key] = true
		fresh, keys, values = append(fresh, string(ids.New[ids.TagBinding]())), append(keys, b.Key), append(values, b.Value)
	}
	args["organization_id"], args["ids"], args["keys"], args["values"] = org, fresh, keys, values
	_, err := postgres.Exec(ctx, tx, Queries.Get("BindingsInsert"), args)
	return err
}

func bindings(ctx context.Context, tx postgres.Tx, of bound) ([]TagBinding, error) {
	return postgres.All[TagBinding](ctx, tx, Queries.Get("BindingList"), of.args())
}

// ModuleBindings gives the pairs on a module by key.
func (s *Service) ModuleBindings(ctx context.Context, actor authz.Actor, id ids.RegistryModule) (pairs []TagBinding, err error) {
	err = postgres.InSnapshot(ctx, s.db, "registry.module-bindings", func(tx postgres.Tx) error {
		m, err := loadModule(ctx, tx, id)
		if err != nil {
			return err
		}
		if err := allow(actor, authz.OrganizationRead, m.Organization, "registry module", string(id)); err != nil {
			return err
		}
		pairs, err = bindings(ctx, tx, bound{Module: id})
		return err
	})
	return pairs, err
}

// ProviderBindings gives the pairs on a provider by key.
func (s *Service) ProviderBindings(ctx context.Context, actor authz.Actor, id ids.RegistryProvider) (pairs []TagBinding, err error) {
	err = postgres.InSnapshot(ctx, s.db, "registry.provider-bindings", func(tx postgres.Tx) error {
		p, err := loadProvider(ctx, tx, id)
		if err != nil {
			return err
		}
		if err := allow(actor, authz.OrganizationRead, p.Organization, "registry provider", string(id)); err != nil {
			return err
		}
		pairs, err = bindings(ctx, tx, bound{Provider: id})
		return err
	})
	return pairs, err
}
