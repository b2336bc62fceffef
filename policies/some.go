package policies

import (
	"context"

	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// SomePolicies gives those of the policies that the actor sees, by id and with one statement, for
// showing them beside the sets that hold them.
func (s *Service) SomePolicies(ctx context.Context, actor authz.Actor, list []ids.Policy) (found []Policy, err error) {
	return some(ctx, s.db, actor, "PoliciesSome", list, func(p Policy) ids.Organization { return p.Organization })
}

// SomeVersions is SomePolicies for versions of sets.
func (s *Service) SomeVersions(ctx context.Context, actor authz.Actor, list []ids.PolicySetVersion) (found []Version, err error) {
	return some(ctx, s.db, actor, "VersionsSome", list, func(v Version) ids.Organization { return v.Organization })
}

func some[T any, ID ~string](ctx context.Context, db *postgres.DB, actor authz.Actor, statement string, list []ID, organization func(T) ids.Organization) (found []T, err error) {
	if len(list) == 0 {
		return nil, nil
	}
	wanted := make([]string, 0, len(list))
	for _, id := range list {
		wanted = append(wanted, string(id))
	}
	err = postgres.InOneStatement(ctx, db, "policies.some", func(tx postgres.Tx) error {
		rows, err := postgres.All[T](ctx, tx, Queries.Get(statement), postgres.Args{"ids": wanted})
		for _, row := range rows {
			if authz.Can(actor, authz.PoliciesRead, authz.Object{Organization: organization(row)}) {
				found = append(found, row)
			}
		}
		return err
	})
	return found, err
}
