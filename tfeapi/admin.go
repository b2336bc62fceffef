package tfeapi

import (
	"slices"

	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/site"
)

// siteAdmin refuses anybody else as if there were nothing here.
func siteAdmin(r *request) error {
	if !authz.Can(r.actor, authz.OrganizationCreate, authz.Object{}) {
		return fault.New(fault.NotFound, "not_found", "There is nothing at this address for you. It is for site admins.")
	}
	return nil
}

// adminRoutes are those of the site's administration that only site admins reach, beside the
// gates.
func (s *server) adminRoutes() []route {
	const (
		admin        = "/api/v2/admin/"
		user         = admin + "users/{id}"
		organization = admin + "organizations/{organization}"
		consumers    = organization + "/relationships/module-consumers"
	)
	return append(slices.Concat(s.toolRoutes(site.Terraform), s.toolRoutes(site.OPA), s.toolRoutes(site.Sentinel)), []route{
		{method: get, path: admin + "users", handle: s.listAdminUsers},
		{method: get, path: user, handle: s.onUser(s.Accounts.SiteUser)},
		{method: del, path: user, handle: s.deleteUser},
		{method: post, path: user + "/actions/suspend", handle: s.onUser(s.Accounts.SuspendUser)},
		{method: post, path: user + "/actions/unsuspend", handle: s.onUser(s.Accounts.UnsuspendUser)},
		{method: post, path: user + "/actions/grant_admin", handle: s.onUser(s.Accounts.GrantSiteAdmin)},
		{method: post, path: user + "/actions/revoke_admin", handle: s.onUser(s.Accounts.RevokeSiteAdmin)},

		{method: get, path: admin + "organizations", handle: s.listAdminOrganizations},
		{method: get, path: organization, handle: s.readAdminOrganization},
		{method: patch, path: organization, handle: s.updateAdminOrganization},
		{method: del, path: organization, handle: s.deleteAdminOrganization},
		{method: get, path: consumers, handle: s.listModuleConsumers},
		{method: patch, path: consumers, handle: s.setModuleConsumers},

		{method: get, path: admin + "workspaces", handle: s.listAdminWorkspaces},
		{method: get, path: admin + "workspaces/{id}", handle: s.readAdminWorkspace},
		{method: del, path: admin + "workspaces/{id}", handle: s.deleteAdminWorkspace},
		{method: get, path: admin + "runs", handle: s.listAdminRuns},
		{method: post, path: admin + "runs/{id}/actions/force-cancel", handle: s.forceCancelAdminRun},

		{method: get, path: admin + "general-settings", handle: s.readGeneralSettings},
		{method: patch, path: admin + "general-settings", handle: s.updateGeneralSettings},
		{method: get, path: admin + "customization-settings", handle: s.readCustomization},
		{method: patch, path: admin + "customization-settings", handle: s.updateCustomization},
		{method: get, path: admin + "cost-estimation-settings", handle: s.readCostSettings},
		{method: patch, path: admin + "cost-estimation-settings", handle: s.updateCostSettings},
		{method: post, path: admin + "oidc-settings/actions/rotate-key", handle: onSigningKeys(s.Identity.Rotate)},
		{method: post, path: admin + "oidc-settings/actions/trim-key", handle: onSigningKeys(s.Identity.Trim)},
		{method: get, path: admin + "smtp-settings", handle: s.readSMTP},
		{method: patch, path: admin + "smtp-settings", handle: s.updateSMTP},
		{method: get, path: admin + "twilio-settings", handle: s.readTwilio},
		{method: patch, path: admin + "twilio-settings", handle: s.updateTwilio},
		{method: patch, path: admin + "twilio-settings/verify", handle: s.verifyTwilio},
	}...)
}
