package accounts

import (
	"context"
	"slices"
	"time"

	"github.com/holdfast-run/holdfast/audit"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// SiteOrganization is an organization as site admins see it.
type SiteOrganization struct {
	ID                    ids.Organization
	Name, Email           string
	CreatedAt             time.Time
	DisabledAt            *time.Time // nobody but site admins sees it since then, and nothing starts in it
	WorkspaceLimit        *int       // nil: the site's; 0: none
	PlanTimeoutSeconds    *int       // nil: the site's
	ApplyTimeoutSeconds   *int
	GlobalModuleSharing   bool // every organization may use its modules
	GlobalProviderSharing bool
	UserTokensEnabled     bool
	Owners                []ids.User
}

// SiteOrganizationChanges are what is said; what is nil stays. Of a site setting's kind: the
// times are whole seconds, and an organization takes them back only by another time.
type SiteOrganizationChanges struct {
	Disabled                                   *bool
	WorkspaceLimit                             *int
	NoWorkspaceLimit                           bool // of its own: the site's holds again
	PlanTimeout, ApplyTimeout                  *time.Duration
	GlobalModuleSharing, GlobalProviderSharing *bool
	UserTokensEnabled                          *bool // the way back when nobody has a token that reaches the organization
}

const mostModuleConsumers = 1000

// SiteOrganizations gives the organizations of the site by name, and how many match. query is
// a part of the name or e-mail address, in any case. Only for site admins, as is all that
// follows: to others it is NotFound.
func (s *Service) SiteOrganizations(ctx context.Context, actor authz.Actor, query string, page Page) (list []SiteOrganization, total int, err error) {
	if err := onlySiteAdmins(actor); err != nil {
		return nil, 0, err
	}
	err = postgres.InSnapshot(ctx, s.db, "accounts.site-organizations", func(tx postgres.Tx) error {
		list, total, err = siteOrganizations(ctx, tx, query, "", page)
		return err
	})
	return list, total, err
}

func siteOrganizations(ctx context.Context, tx postgres.Tx, query string, consumersOf ids.Organization, page Page) (list []SiteOrganization, total int, err error) {
	args := postgres.Args{"query": query, "consumers_of": consumersOf, "limit": page.Limit(), "offset": page.Offset()}
	if list, err = postgres.All[SiteOrganization](ctx, tx, queries.Get("SiteOrganizations"), args); err != nil {
		return nil, 0, err
	}
	total, err = postgres.Value[int](ctx, tx, queries.Get("SiteOrganizationsCount"), args)
	return list, total, err
}

// SiteOrganization gives an organization by its exact name, also a disabled one.
func (s *Service) SiteOrganization(ctx context.Context, actor authz.Actor, name string) (o SiteOrganization, err error) {
	if err := onlySiteAdmins(actor); err != nil {
		return o, err
	}
	err = postgres.InOneStatement(ctx, s.db, "accounts.site-organization", func(tx postgres.Tx) error {
		o, err = findSiteOrganization(ctx, tx, name)
		return err
	})
	return o, err
}

func findSiteOrganization(ctx context.Context, tx postgres.Tx, name string) (SiteOrganization, error) {
	if !organizationName.MatchString(name) {
		return SiteOrganization{}, fault.Missing("organization", name)
	}
	o, err := postgres.One[SiteOrganization](ctx, tx, queries.Get("SiteOrganization"), postgres.Args{"name": name})
	if postgres.NoRow(err) {
		return SiteOrganization{}, fault.Missing("organization", name)
	}
	return o, err
}

// SiteOrganizationsSome gives those of the organizations that there are, for showing them
// beside what names them.
func (s *Service) SiteOrganizationsSome(ctx context.Context, actor authz.Actor, list []ids.Organization) (found []SiteOrganization, err error) {
	if err := onlySiteAdmins(actor); err != nil || len(list) == 0 {
		return nil, err
	}
	err = postgres.InOneStatement(ctx, s.db, "accounts.site-organizations-some", func(tx postgres.Tx) error {
		found, err = postgres.All[SiteOrganization](ctx, tx, queries.Get("SiteOrganizationsSome"), postgres.Args{"ids": list})
		return err
	})
	return found, err
}

// UpdateSiteOrganization changes what is said. A limit that is negative, or a time shorter
// than a minute or longer than 30 days, is Invalid.
func (s *Service) UpdateSiteOrganization(ctx context.Context, actor authz.Actor, name string, c SiteOrganizationChanges) (o SiteOrganization, err error) {
	if err := onlySiteAdmins(actor); err != nil {
		return o, err
	}
	if c.WorkspaceLimit != nil && (*c.WorkspaceLimit < 0 || *c.WorkspaceLimit > 1_000_000) {
		return o, Invalid("workspace-limit", "Workspace limit must be 0 to 1000000; 0 is no limit")
	}
	args := postgres.Args{
		"disabled": c.Disabled, "workspace_limit": c.WorkspaceLimit, "no_workspace_limit": c.NoWorkspaceLimit,
		"global_module_sharing": c.GlobalModuleSharing, "global_provider_sharing": c.GlobalProviderSharing,
		"user_tokens_enabled": c.UserTokensEnabled,
	}
	for attribute, limit := range map[string]*time.Duration{"plan-timeout": c.PlanTimeout, "apply-timeout": c.ApplyTimeout} {
		column := map[string]string{"plan-timeout": "plan_timeout_seconds", "apply-timeout": "apply_timeout_seconds"}[attribute]
		if args[column], err = RunTimeout(attribute, limit); err != nil {
			return o, err
		}
	}
	err = postgres.InTx(ctx, s.db, "accounts.update-site-organization", func(tx postgres.Tx) error {
		before, err := findSiteOrganization(ctx, tx, name)
		if err != nil {
			return err
		}
		args["id"] = before.ID
		n, err := postgres.Exec(ctx, tx, queries.Get("SiteOrganizationUpdate"), args)
		if err == nil && n == 0 { // deleted since it was read
			err = fault.Missing("organization", name)
		}
		if err != nil {
			return err
		}
		if o, err = findSiteOrganization(ctx, tx, name); err != nil {
			return err
		}
		return audit.Append(ctx, tx, audit.Entry{
			Organization: o.ID, Actor: actor, Action: "organization.administered", ObjectKind: "organization", ObjectID: string(o.ID),
			Details: map[string]any{
				"disabled": o.DisabledAt != nil, "workspace_limit": o.WorkspaceLimit, "plan_timeout_seconds": o.PlanTimeoutSeconds, "apply_timeout_seconds": o.ApplyTimeoutSeconds,
				"global_module_sharing": o.GlobalModuleSharing, "global_provider_sharing": o.GlobalProviderSharing,
				"user_tokens_enabled": o.UserTokensEnabled,
			},
		})
	})
	return o, err
}

// RunTimeout gives a time limit of runs in seconds, nil for none that was said. One shorter
// than a minute or longer than 30 days is Invalid.
func RunTimeout(attribute string, d *time.Duration) (*int, error) {
	if d == nil {
		return nil, nil
	}
	if *d < time.Minute || *d > 30*24*time.Hour || *d%time.Second != 0 {
		return nil, Invalid(attribute, "It must be from 1m to 720h, in whole seconds, such as 30m or 2h")
	}
	n := int(*d / time.Second)
	return &n, nil
}

// ModuleConsumers gives the organizations that may use the modules of this one, by name.
func (s *Service) ModuleConsumers(ctx context.Context, actor authz.Actor, name string, page Page) (list []SiteOrganization, total int, err error) {
	if err := onlySiteAdmins(actor); err != nil {
		return nil, 0, err
	}
	err = postgres.InSnapshot(ctx, s.db, "accounts.module-consumers", func(tx postgres.Tx) error {
		o, err := findSiteOrganization(ctx, tx, name)
		if err != nil {
			return err
		}
		list, total, err = siteOrganizations(ctx, tx, "", o.ID, page)
		return err
	})
	return list, total, err
}

// SetModuleConsumers replaces them, and ends that every organization may use the modules. A
// name that no other organization has is NotFound.
func (s *Service) SetModuleConsumers(ctx context.Context, actor authz.Actor, name string, consumers []string) error {
	if err := onlySiteAdmins(actor); err != nil {
		return err
	}
	if len(consumers) > mostModuleConsumers {
		return fault.New(fault.Invalid, "invalid_attribute", "An organization has at most %d module consumers.", mostModuleConsumers).At("/data")
	}
	wanted := slices.Compact(slices.Sorted(slices.Values(consumers)))
	for _, consumer := range wanted {
		if !organizationName.MatchString(consumer) || consumer == name {
			return fault.Missing("organization", consumer)
		}
	}
	return postgres.InTx(ctx, s.db, "accounts.set-module-consumers", func(tx postgres.Tx) error {
		o, err := findSiteOrganization(ctx, tx, name)
		if err != nil {
			return err
		}
		if _, err := postgres.Exec(ctx, tx, queries.Get("ModuleConsumersClear"), postgres.Args{"id": o.ID}); err != nil {
			return err
		}
		n, err := postgres.Exec(ctx, tx, queries.Get("ModuleConsumersSet"), postgres.Args{"id": o.ID, "names": append([]string{}, wanted...)})
		if err != nil {
			return err
		}
		if int(n) != len(wanted) {
			return fault.New(fault.NotFound, "not_found", "One of the organizations does not exist, so none was set.")
		}
		no := false
		args := postgres.Args{
			"id": o.ID, "disabled": nil, "workspace_limit": nil, "no_workspace_limit": false, "plan_timeout_seconds": nil, "apply_timeout_seconds": nil,
			"global_module_sharing": &no, "global_provider_sharing": nil,
		}
		if _, err := postgres.Exec(ctx, tx, queries.Get("SiteOrganizationUpdate"), args); err != nil {
			return err
		}
		return audit.Append(ctx, tx, audit.Entry{
			Organization: o.ID, Actor: actor, Action: "organization.module-consumers-set", ObjectKind: "organization", ObjectID: string(o.ID),
			Details: map[string]any{"consumers": wanted},
		})
	})
}

// Shared is what an organization lets others use.
type Shared string

// What is shared.
const (
	SharedModules   Shared = "modules"
	SharedProviders Shared = "providers"
)

// SourceOf gives the organization called name for the use of its modules or providers: to whoever
// sees the organization, and to the people and runs of those with which it shares them. A
// disabled one shares with nobody. To others it is NotFound.
func SourceOf(ctx context.Context, tx postgres.Tx, actor authz.Actor, what Shared, name string) (Organization, error) {
	org, refusal := AllowedOrganization(ctx, tx, actor, authz.OrganizationRead, name)
	if !fault.Is(refusal, fault.NotFound) || !organizationName.MatchString(name) {
		return org, refusal
	}
	org, err := postgres.One[Organization](ctx, tx, queries.Get("SharingOrganization"), postgres.Args{
		"name": name, "what": string(what), "consumers": append([]ids.Organization{}, organizationsOf(actor)...),
	})
	if postgres.NoRow(err) {
		return Organization{}, refusal
	}
	return org, err
}

// mayMakeOrganizations refuses whoever may not make one more: users may where the site's
// settings let them, as many as these say.
func mayMakeOrganizations(ctx context.Context, tx postgres.Tx, actor authz.Actor) error {
	refusal := allowSite(actor, authz.OrganizationCreate)
	if refusal == nil || !actor.IsPerson() {
		return refusal
	}
	if err := lockUser(ctx, tx, actor.User); err != nil {
		return err
	}
	may, err := postgres.Value[bool](ctx, tx, queries.Get("MayMakeOrganizations"), postgres.Args{"user_id": actor.User})
	if err == nil && !may {
		err = refusal
	}
	return err
}

// MayMakeOrganizations tells whether the actor may make one more organization.
func (s *Service) MayMakeOrganizations(ctx context.Context, actor authz.Actor) (may bool, err error) {
	if authz.Can(actor, authz.OrganizationCreate, authz.Object{}) || !actor.IsPerson() {
		return actor.Kind == authz.SystemActor || actor.SiteAdmin, nil
	}
	err = postgres.InOneStatement(ctx, s.db, "accounts.may-make-organizations", func(tx postgres.Tx) error {
		may, err = postgres.Value[bool](ctx, tx, queries.Get("MayMakeOrganizations"), postgres.Args{"user_id": actor.User})
		return err
	})
	return may, err
}
