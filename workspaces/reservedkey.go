package workspaces

import (
	"context"
	"regexp"
	"time"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/audit"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// ReservedKey is a key of tag bindings to which an organization has given a meaning.
type ReservedKey struct {
	ID               ids.ReservedTagKey
	Organization     ids.Organization
	Key              string
	DisableOverrides bool // what a project says of it, its workspaces cannot say otherwise
	CreatedAt        time.Time
	UpdatedAt        time.Time
}

var reservedKeyRule = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9 _:/.-]{0,127}$`)

func checkReservedKey(key string) error {
	if !reservedKeyRule.MatchString(key) {
		return accounts.Invalid("key", "Key is invalid")
	}
	return nil
}

// ReservedKeys gives the organization's reserved keys in their order, and how many there are.
func (s *Service) ReservedKeys(ctx context.Context, actor authz.Actor, organization string, page Page) (list []ReservedKey, total int, err error) {
	err = postgres.InSnapshot(ctx, s.db, "workspaces.reserved-keys", func(tx postgres.Tx) error {
		org, err := accounts.AllowedOrganization(ctx, tx, actor, authz.OrganizationRead, organization)
		if err != nil {
			return err
		}
		args := postgres.Args{"organization_id": org.ID, "limit": page.Limit(), "offset": page.Offset()}
		if list, err = postgres.All[ReservedKey](ctx, tx, queries.Get("ReservedKeys"), args); err != nil {
			return err
		}
		total, err = postgres.Value[int](ctx, tx, queries.Get("ReservedKeysCount"), args)
		return err
	})
	return list, total, err
}

// ReserveKey reserves a key. One that is in use or against the rule is Invalid. For owners.
func (s *Service) ReserveKey(ctx context.Context, actor authz.Actor, organization, key string, disableOverrides bool) (reserved ReservedKey, err error) {
	err = postgres.InTx(ctx, s.db, "workspaces.reserve-key", func(tx postgres.Tx) error {
		org, err := accounts.AllowedOrganization(ctx, tx, actor, authz.OrganizationUpdate, organization)
		if err != nil {
			return err
		}
		if err := checkReservedKey(key); err != nil {
			return err
		}
		reserved, err = postgres.One[ReservedKey](ctx, tx, queries.Get("ReservedKeyInsert"), postgres.Args{
			"id": ids.New[ids.ReservedTagKey](), "organization_id": org.ID, "key": key, "disable_overrides": disableOverrides,
		})
		if err != nil {
			return reservedKeyTaken(err)
		}
		return recordReservedKey(ctx, tx, actor, reserved, "reserved-tag-key.created")
	})
	return reserved, err
}

func reservedKeyTaken(err error) error {
	if violates(err, "reserved_tag_keys_key") {
		return accounts.Taken("key", "Key")
	}
	return err
}

// UpdateReservedKey changes what is said of it. It is refused like ReserveKey.
func (s *Service) UpdateReservedKey(ctx context.Context, actor authz.Actor, id ids.ReservedTagKey, key *string, disableOverrides *bool) (reserved ReservedKey, err error) {
	err = postgres.InTx(ctx, s.db, "workspaces.update-reserved-key", func(tx postgres.Tx) error {
		if _, err := allowedReservedKey(ctx, tx, actor, id); err != nil {
			return err
		}
		if key != nil {
			if err := checkReservedKey(*key); err != nil {
				return err
			}
		}
		reserved, err = postgres.One[ReservedKey](ctx, tx, queries.Get("ReservedKeyUpdate"), postgres.Args{"id": id, "key": key, "disable_overrides": disableOverrides})
		if postgres.NoRow(err) {
			return fault.Missing("reserved tag key", string(id)) // deleted since it was read
		}
		if err != nil {
			return reservedKeyTaken(err)
		}
		return recordReservedKey(ctx, tx, actor, reserved, "reserved-tag-key.updated")
	})
	return reserved, err
}

// FreeKey takes the reservation back; pairs with the key stay.
func (s *Service) FreeKey(ctx context.Context, actor authz.Actor, id ids.ReservedTagKey) error {
	return postgres.InTx(ctx, s.db, "workspaces.free-key", func(tx postgres.Tx) error {
		reserved, err := allowedReservedKey(ctx, tx, actor, id)
		if err != nil {
			return err
		}
		n, err := postgres.Exec(ctx, tx, queries.Get("ReservedKeyDelete"), postgres.Args{"id": id})
		if err != nil {
			return err
		}
		if n == 0 {
			return fault.Missing("reserved tag key", string(id))
		}
		return recordReservedKey(ctx, tx, actor, reserved, "reserved-tag-key.deleted")
	})
}

func allowedReservedKey(ctx context.Context, tx postgres.Tx, actor authz.Actor, id ids.ReservedTagKey) (ReservedKey, error) {
	reserved, err := postgres.One[ReservedKey](ctx, tx, queries.Get("ReservedKeyByID"), postgres.Args{"id": id})
	if postgres.NoRow(err) {
		return ReservedKey{}, fault.Missing("reserved tag key", string(id))
	}
	if err != nil {
		return ReservedKey{}, err
	}
	return reserved, authz.Allow(actor, authz.OrganizationUpdate, authz.Object{Organization: reserved.Organization, Noun: "reserved tag key", Name: string(id)})
}

func recordReservedKey(ctx context.Context, tx postgres.Tx, actor authz.Actor, k ReservedKey, action string) error {
	return audit.Append(ctx, tx, audit.Entry{
		Organization: k.Organization, Actor: actor, Action: action, ObjectKind: "reserved-tag-key", ObjectID: string(k.ID),
		Details: map[string]any{"key": k.Key, "disable_overrides": k.DisableOverrides},
	})
}
