package site

import (
	"context"
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/audit"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/postgres"
)

// Settings are those of the site. Each is done by the package that is named with it.
type Settings struct {
	LimitUserOrganizationCreation  bool   // only site admins make organizations (accounts)
	APIRateLimitingEnabled         bool   `db:"api_rate_limiting_enabled"` // (tfeapi)
	APIRateLimit                   int    `db:"api_rate_limit"`            // requests a second of whoever asks
	DefaultRemoteStateAccess       bool   // new workspaces share their state with all of the organization (workspaces)
	PlanTimeoutSeconds             int    // after which a plan is canceled; an organization may have another (runs)
	ApplyTimeoutSeconds            int    // the same for an apply
	LimitOrganizationsPerUser      bool   // (accounts)
	OrganizationsPerUser           int    // that a user may own; site admins as many as they like
	LimitWorkspacesPerOrganization bool   // (workspaces)
	WorkspacesPerOrganization      int    // where the organization has no limit of its own
	SupportEmail                   string // shown on the pages (web), as are those that follow
	LoginHelp                      string // to whoever signs in
	Footer                         string // on every page
	ErrorText                      string // beside an error
	NewUser                        string // to whoever belongs to no organization yet
}

// PlanTimeout and ApplyTimeout are the same as durations.
func (s Settings) PlanTimeout() time.Duration {
	return time.Duration(s.PlanTimeoutSeconds) * time.Second
}

// ApplyTimeout is after how long an apply is canceled.
func (s Settings) ApplyTimeout() time.Duration {
	return time.Duration(s.ApplyTimeoutSeconds) * time.Second
}

// SettingsChanges are what is said; what is nil stays.
type SettingsChanges struct {
	LimitUserOrganizationCreation, APIRateLimitingEnabled, DefaultRemoteStateAccess *bool
	LimitOrganizationsPerUser, LimitWorkspacesPerOrganization                       *bool
	APIRateLimit, OrganizationsPerUser, WorkspacesPerOrganization                   *int
	PlanTimeout, ApplyTimeout                                                       *time.Duration
	SupportEmail, LoginHelp, Footer, ErrorText, NewUser                             *string
}

const (
	longestText  = 4096
	highestLimit = 1_000_000
)

func (c SettingsChanges) check() error {
	if c.APIRateLimit != nil && (*c.APIRateLimit < 1 || *c.APIRateLimit > 100_000) {
		return accounts.Invalid("api-rate-limit", "API rate limit must be 1 to 100000 requests a second")
	}
	for field, n := range map[string]*int{"default-organizations-per-user-ceiling": c.OrganizationsPerUser, "default-workspaces-per-organization-ceiling": c.WorkspacesPerOrganization} {
		if n != nil && (*n < 0 || *n > highestLimit) {
			return accounts.Invalid(field, "The ceiling must be 0 to %d", highestLimit)
		}
	}
	for field, text := range map[string]*string{"support-email-address": c.SupportEmail, "login-help": c.LoginHelp, "footer": c.Footer, "error": c.ErrorText, "new-user": c.NewUser} {
		if text != nil {
			if err := accounts.CheckText(field, "It", *text, longestText); err != nil {
				return err
			}
		}
	}
	if e := c.SupportEmail; e != nil && *e != "" && !strings.Contains(*e, "@") {
		return accounts.Invalid("support-email-address", "Support email address is not an e-mail address")
	}
	return nil
}

// Settings gives those of the site.
func (s *Service) Settings(ctx context.Context, actor authz.Actor) (set Settings, err error) {
	if err := allowSite(actor); err != nil {
		return set, err
	}
	return s.Current(ctx)
}

// Current is Settings for the server itself.
func (s *Service) Current(ctx context.Context) (set Settings, err error) {
	err = postgres.InOneStatement(ctx, s.db, "site.settings", func(tx postgres.Tx) error {
		set, err = postgres.One[Settings](ctx, tx, Queries.Get("Settings"), nil)
		return err
	})
	if err == nil {
		s.noted(set)
	}
	return set, err
}

// Update changes what is said. A value out of its bounds is Invalid.
func (s *Service) Update(ctx context.Context, actor authz.Actor, c SettingsChanges) (set Settings, err error) {
	if err := allowSite(actor); err != nil {
		return set, err
	}
	if err := c.check(); err != nil {
		return set, err
	}
	plan, err := accounts.RunTimeout("plan-timeout", c.PlanTimeout)
	if err != nil {
		return set, err
	}
	apply, err := accounts.RunTimeout("apply-timeout", c.ApplyTimeout)
	if err != nil {
		return set, err
	}
	args := postgres.Args{
		"limit_user_organization_creation": c.LimitUserOrganizationCreation, "api_rate_limiting_enabled": c.APIRateLimitingEnabled, "api_rate_limit": c.APIRateLimit,
		"default_remote_state_access": c.DefaultRemoteStateAccess, "plan_timeout_seconds": plan, "apply_timeout_seconds": apply,
		"limit_organizations_per_user": c.LimitOrganizationsPerUser, "organizations_per_user": c.OrganizationsPerUser,
		"limit_workspaces_per_organization": c.LimitWorkspacesPerOrganization, "workspaces_per_organization": c.WorkspacesPerOrganization,
		"support_email": c.SupportEmail, "login_help": c.LoginHelp, "footer": c.Footer, "error_text": c.ErrorText, "new_user": c.NewUser,
	}
	err = postgres.InTx(ctx, s.db, "site.update", func(tx postgres.Tx) error {
		if set, err = postgres.One[Settings](ctx, tx, Queries.Get("SettingsUpdate"), args); err != nil {
			return err
		}
		said := map[string]any{}
		for name, value := range args {
			if !isNil(value) {
				said[name] = value
			}
		}
		return audit.Append(ctx, tx, audit.Entry{Actor: actor, Action: "site-settings.updated", ObjectKind: "site-settings", ObjectID: "site", Details: said})
	})
	if err == nil {
		s.noted(set)
	}
	return set, err
}

func isNil(value any) bool {
	switch v := value.(type) {
	case *bool:
		return v == nil
	case *int:
		return v == nil
	case *string:
		return v == nil
	}
	return false
}
