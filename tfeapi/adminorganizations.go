package tfeapi

import (
	"time"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/site"
)

// adminOrganizationView is an organization as site admins see it. Every one has the beta
// tools; whether tofu can become root is a matter of the runner's host, and nothing here keeps
// it from that. The times that begin with terraform-build-worker are other names of the two.
type adminOrganizationView struct {
	ID                    string `jsonapi:"primary,organizations"`
	Name                  string `jsonapi:"attr,name"`
	ExternalID            string `jsonapi:"attr,external-id"`
	NotificationEmail     string `jsonapi:"attr,notification-email"`
	AccessBetaTools       bool   `jsonapi:"attr,access-beta-tools"`
	SudoEnabled           bool   `jsonapi:"attr,terraform-worker-sudo-enabled"`
	SSOEnabled            bool   `jsonapi:"attr,sso-enabled"`
	IsDisabled            bool   `jsonapi:"attr,is-disabled"`
	GlobalModuleSharing   bool   `jsonapi:"attr,global-module-sharing"`
	GlobalProviderSharing bool   `jsonapi:"attr,global-provider-sharing"`
	UserTokensEnabled     bool   `jsonapi:"attr,user-tokens-enabled"`
	WorkspaceLimit        *int   `jsonapi:"attr,workspace-limit"`
	PlanTimeout           string `jsonapi:"attr,plan-timeout"`
	ApplyTimeout          string `jsonapi:"attr,apply-timeout"`
	WorkerPlanTimeout     string `jsonapi:"attr,terraform-build-worker-plan-timeout"`
	WorkerApplyTimeout    string `jsonapi:"attr,terraform-build-worker-apply-timeout"`
	Region                string `jsonapi:"attr,region"`
	owners                []ref
}

func (v *adminOrganizationView) relations() relations {
	return relations{"owners": v.owners, "module-consumers": nil}
}

// adminOrganizationViews draws organizations with two statements for all of them.
func (s *server) adminOrganizationViews(r *request, list []accounts.SiteOrganization) ([]view, error) {
	if len(list) == 0 {
		return []view{}, nil
	}
	settings, err := s.Site.Settings(r.ctx, r.actor)
	if err != nil {
		return nil, err
	}
	wanted := make([]ids.Organization, 0, len(list))
	for _, o := range list {
		wanted = append(wanted, o.ID)
	}
	regions, err := s.Gates.Regions(r.ctx, r.actor, wanted)
	if err != nil {
		return nil, err
	}
	out := make([]view, 0, len(list))
	for _, o := range list {
		out = append(out, newAdminOrganizationView(o, settings, regions[o.ID]))
	}
	return out, nil
}

func newAdminOrganizationView(o accounts.SiteOrganization, settings site.Settings, region string) *adminOrganizationView {
	owners := make([]ref, 0, len(o.Owners))
	for _, u := range o.Owners {
		owners = append(owners, ref{"users", string(u)})
	}
	plan, apply := shortDuration(orElse(o.PlanTimeoutSeconds, settings.PlanTimeoutSeconds)), shortDuration(orElse(o.ApplyTimeoutSeconds, settings.ApplyTimeoutSeconds))
	return &adminOrganizationView{
		ID: o.Name, Name: o.Name, ExternalID: string(o.ID), NotificationEmail: o.Email, AccessBetaTools: true, SudoEnabled: true, IsDisabled: o.DisabledAt != nil,
		GlobalModuleSharing: o.GlobalModuleSharing, GlobalProviderSharing: o.GlobalProviderSharing, UserTokensEnabled: o.UserTokensEnabled, WorkspaceLimit: o.WorkspaceLimit,
		PlanTimeout: plan, ApplyTimeout: apply, WorkerPlanTimeout: plan, WorkerApplyTimeout: apply, Region: region, owners: owners,
	}
}

func orElse(n *int, otherwise int) int {
	if n != nil {
		return *n
	}
	return otherwise
}

// ownersIncluded gives the owners of organizations in full.
func (s *server) ownersIncluded(r *request, list []accounts.SiteOrganization) ([]view, error) {
	var owners []ids.User
	for _, o := range list {
		owners = append(owners, o.Owners...)
	}
	users, err := s.Accounts.SiteUsersSome(r.ctx, r.actor, owners)
	if err != nil {
		return nil, err
	}
	out := make([]view, 0, len(users))
	for _, u := range users {
		out = append(out, newAdminUserView(u, nil))
	}
	return out, nil
}

func (s *server) adminOrganizationPage(r *request, p paging, list []accounts.SiteOrganization, total int, err error) (answer, error) {
	if err != nil {
		return answer{}, err
	}
	items, err := s.adminOrganizationViews(r, list)
	if err != nil {
		return answer{}, err
	}
	var included []view
	if r.includes()["owners"] {
		if included, err = s.ownersIncluded(r, list); err != nil {
			return answer{}, err
		}
	}
	return page(items, p, total, included...), nil
}

func (s *server) adminOrganizationAnswer(r *request, o accounts.SiteOrganization, err error) (answer, error) {
	drawn, err := s.adminOrganizationPage(r, paging{number: 1, size: 1}, []accounts.SiteOrganization{o}, 1, err)
	if err != nil {
		return answer{}, err
	}
	return ok(drawn.document.many[0], drawn.document.included...), nil
}

// listAdminOrganizations gives the organizations of the site. q is a part of the name or of
// the notification address.
func (s *server) listAdminOrganizations(r *request) (answer, error) {
	if err := siteAdmin(r); err != nil {
		return answer{}, err
	}
	p, err := parsePaging(r.query)
	if err != nil {
		return answer{}, err
	}
	list, total, err := s.Accounts.SiteOrganizations(r.ctx, r.actor, r.query.Get("q"), p.page())
	return s.adminOrganizationPage(r, p, list, total, err)
}

func (s *server) readAdminOrganization(r *request) (answer, error) {
	if err := siteAdmin(r); err != nil {
		return answer{}, err
	}
	o, err := s.Accounts.SiteOrganization(r.ctx, r.actor, r.vars["organization"])
	return s.adminOrganizationAnswer(r, o, err)
}

func (s *server) deleteAdminOrganization(r *request) (answer, error) {
	if err := siteAdmin(r); err != nil {
		return answer{}, err
	}
	return s.deleteOrganization(r)
}

type adminOrganizationAttributes struct {
	AccessBetaTools       Opt[bool]   `json:"access-beta-tools"`
	SudoEnabled           Opt[bool]   `json:"terraform-worker-sudo-enabled"`
	IsDisabled            Opt[bool]   `json:"is-disabled"`
	GlobalModuleSharing   Opt[bool]   `json:"global-module-sharing"`
	GlobalProviderSharing Opt[bool]   `json:"global-provider-sharing"`
	UserTokensEnabled     Opt[bool]   `json:"user-tokens-enabled"`
	WorkspaceLimit        Opt[int]    `json:"workspace-limit"`
	PlanTimeout           Opt[string] `json:"plan-timeout"`
	ApplyTimeout          Opt[string] `json:"apply-timeout"`
	WorkerPlanTimeout     Opt[string] `json:"terraform-build-worker-plan-timeout"`
	WorkerApplyTimeout    Opt[string] `json:"terraform-build-worker-apply-timeout"`
	Region                Opt[string] `json:"region"`
}

// changes refuses what this server cannot do, rather than keep it.
func (a adminOrganizationAttributes) changes() (c accounts.SiteOrganizationChanges, err error) {
	if !a.AccessBetaTools.Or(true) {
		return c, accounts.Invalid("access-beta-tools", "No organization can be kept from beta tools on this server")
	}
	if !a.SudoEnabled.Or(true) {
		return c, accounts.Invalid("terraform-worker-sudo-enabled", "What tofu can do on a runner's host is decided there. Give the organization an agent pool of its own whose runners cannot become root")
	}
	c = accounts.SiteOrganizationChanges{
		Disabled: a.IsDisabled.Pointer(), WorkspaceLimit: a.WorkspaceLimit.Pointer(), NoWorkspaceLimit: a.WorkspaceLimit.Null,
		GlobalModuleSharing: a.GlobalModuleSharing.Pointer(), GlobalProviderSharing: a.GlobalProviderSharing.Pointer(),
		UserTokensEnabled: a.UserTokensEnabled.Pointer(),
	}
	for _, text := range []struct {
		said Opt[string]
		name string
		to   **time.Duration
	}{
		{a.WorkerPlanTimeout, "terraform-build-worker-plan-timeout", &c.PlanTimeout}, {a.PlanTimeout, "plan-timeout", &c.PlanTimeout},
		{a.WorkerApplyTimeout, "terraform-build-worker-apply-timeout", &c.ApplyTimeout}, {a.ApplyTimeout, "apply-timeout", &c.ApplyTimeout},
	} {
		d, err := durationOf(text.name, text.said)
		if err != nil {
			return c, err
		}
		if d != nil {
			*text.to = d
		}
	}
	return c, nil
}

// durationOf reads a time such as 30m or 24h; absent, null and empty are nil.
func durationOf(attribute string, o Opt[string]) (*time.Duration, error) {
	if o.Or("") == "" {
		return nil, nil
	}
	d, err := time.ParseDuration(o.Value)
	if err != nil {
		return nil, accounts.Invalid(attribute, "It must be a time such as 30m or 24h")
	}
	return &d, nil
}

// updateAdminOrganization changes what is said. Clients send it without the type of the
// document.
func (s *server) updateAdminOrganization(r *request) (answer, error) {
	if err := siteAdmin(r); err != nil {
		return answer{}, err
	}
	body, err := r.body()
	if err != nil {
		return answer{}, err
	}
	in, err := decodeUntyped[adminOrganizationAttributes](body)
	if err != nil {
		return answer{}, err
	}
	changes, err := in.Attributes.changes()
	if err != nil {
		return answer{}, err
	}
	o, err := s.Accounts.UpdateSiteOrganization(r.ctx, r.actor, r.vars["organization"], changes)
	if region := in.Attributes.Region.Pointer(); err == nil && region != nil {
		_, err = s.Gates.SetRegion(r.ctx, r.actor, o.Name, *region)
	}
	return s.adminOrganizationAnswer(r, o, err)
}

func (s *server) listModuleConsumers(r *request) (answer, error) {
	if err := siteAdmin(r); err != nil {
		return answer{}, err
	}
	p, err := parsePaging(r.query)
	if err != nil {
		return answer{}, err
	}
	list, total, err := s.Accounts.ModuleConsumers(r.ctx, r.actor, r.vars["organization"], p.page())
	return s.adminOrganizationPage(r, p, list, total, err)
}

// setModuleConsumers takes the names of the organizations.
func (s *server) setModuleConsumers(r *request) (answer, error) {
	if err := siteAdmin(r); err != nil {
		return answer{}, err
	}
	body, err := r.body()
	if err != nil {
		return answer{}, err
	}
	items, err := decodeMany[struct{}](body, "organizations", "")
	if err != nil {
		return answer{}, err
	}
	names := make([]string, 0, len(items))
	for _, item := range items {
		if !accounts.Storable(item.ID) {
			return answer{}, fault.Missing("organization", "")
		}
		names = append(names, item.ID)
	}
	return noContent(), s.Accounts.SetModuleConsumers(r.ctx, r.actor, r.vars["organization"], names)
}
