package accounts

import (
	"context"
	"time"

	"github.com/holdfast-run/holdfast/audit"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/postgres"
)

// FeatureSet is what an organization has of what the server can do.
type FeatureSet string

// The feature sets. Those that are not free have everything; so has an organization that was
// never subscribed to one. What the free one lacks is said where the database is asked:
// has_global_run_tasks.
const (
	Free     FeatureSet = "free"
	Standard FeatureSet = "standard_entitlement"
	Business FeatureSet = "business"
)

// FeatureSets are all of them.
var FeatureSets = []FeatureSet{Free, Standard, Business}

// Subscribe gives an organization another feature set, until an instant or for good. From that
// instant on it has what is free. Only for site admins; Invalid for an instant that has passed.
func (s *Service) Subscribe(ctx context.Context, actor authz.Actor, name string, to FeatureSet, until *time.Time) (org Organization, err error) {
	if err := onlySiteAdmins(actor); err != nil {
		return Organization{}, err
	}
	err = postgres.InTx(ctx, s.db, "accounts.subscribe", func(tx postgres.Tx) error {
		before, err := postgres.One[Organization](ctx, tx, queries.Get("OrganizationByName"), postgres.Args{"name": name})
		if postgres.NoRow(err) {
			return fault.Missing("organization", name)
		}
		if err != nil {
			return err
		}
		org, err = postgres.One[Organization](ctx, tx, queries.Get("Subscribe"), postgres.Args{"id": before.ID, "feature_set": string(to), "ends_at": until})
		if postgres.NoRow(err) {
			if _, err := findOrganization(ctx, tx, before.ID); err != nil {
				return fault.Missing("organization", name) // deleted since it was read
			}
			return Invalid("end-at", "End at must be in the future")
		}
		if err != nil {
			return err
		}
		return audit.Append(ctx, tx, audit.Entry{
			Organization: org.ID, Actor: actor, Action: "organization.subscribed", ObjectKind: "organization", ObjectID: string(org.ID),
			Details: map[string]any{"feature_set_before": before.FeatureSet, "feature_set": to, "ends_at": until},
		})
	})
	return org, err
}
