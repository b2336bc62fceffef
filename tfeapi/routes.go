package tfeapi

import (
	"net/http"

	"github.com/holdfast-run/holdfast/gates"
)

// The methods, short, for the table.
const (
	get, post, put, patch, del = http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete
)

// routes is the whole surface, in reading order. The open routes are public or
// authenticated by the token at the end of their path.
func (s *server) routes() []route {
	const (
		api          = "/api/v2/"
		organization = api + "organizations/{organization}"
		byName       = organization + "/workspaces/{workspace}"
		workspace    = api + "workspaces/{id}"
		version      = api + "state-versions"
		pool         = api + "agent-pools/{id}"
	)
	return append(append(s.teamRoutes(), s.approvalRoutes()...), []route{
		{method: get, path: "/.well-known/terraform.json", open: true, handle: s.discovery},
		{method: get, path: "/healthz", open: true, handle: s.health},
		{method: get, path: "/readyz", open: true, handle: s.ready},
		{method: get, path: api + "ping", open: true, handle: s.ping},

		{method: get, path: api + "account/details", handle: s.accountDetails},
		{method: post, path: api + "account/actions/step-up", handle: s.stepUp},
		{method: get, path: api + "account/totp", handle: s.readFactor},
		{method: post, path: api + "account/totp", handle: s.beginTOTP},
		{method: del, path: api + "account/totp", handle: s.disableTOTP},
		{method: post, path: api + "account/totp/actions/confirm", handle: s.confirmTOTP},
		{method: post, path: api + "account/totp/recovery-codes", handle: s.newRecoveryCodes},
		{method: get, path: api + "organizations", handle: s.listOrganizations},
		{method: post, path: api + "organizations", handle: s.createOrganization},
		{method: get, path: organization, handle: s.readOrganization},
		{method: patch, path: organization, handle: s.updateOrganization},
		{method: del, path: organization, handle: s.deleteOrganization},
		{method: get, path: organization + "/entitlement-set", handle: s.entitlements},
		{method: get, path: organization + "/capacity", handle: s.capacity},
		{method: get, path: organization + "/runs/queue", handle: s.runQueue},
		{method: get, path: organization + "/held-workspaces", handle: s.listHeld},

		{method: get, path: organization + "/projects", handle: s.listProjects},
		{method: post, path: organization + "/projects", handle: s.createProject},
		{method: get, path: api + "projects/{id}", handle: s.readProject},

		{method: get, path: organization + "/agent-pools", handle: s.listPools},
		{method: post, path: organization + "/agent-pools", handle: s.createPool},
		{method: get, path: pool, handle: s.readPool},
		{method: patch, path: pool, handle: s.updatePool},
		{method: del, path: pool, handle: s.deletePool},
		{method: post, path: pool + "/actions/drain", handle: s.drainPool},
		{method: post, path: pool + "/actions/resume", handle: s.resumePool},
		{method: get, path: pool + "/agents", handle: s.listAgents},
		{method: get, path: pool + "/authentication-tokens", handle: s.listAgentTokens},
		{method: post, path: pool + "/authentication-tokens", handle: s.createAgentToken},
		{method: get, path: api + "agents/{id}", handle: s.readAgent},
		{method: del, path: api + "agents/{id}", handle: s.deleteAgent},
		{method: post, path: api + "agents/{id}/actions/drain", handle: s.drainAgent},

		{method: get, path: organization + "/tags", handle: s.listTags},
		{method: del, path: organization + "/tags", handle: s.deleteTags},
		{method: post, path: api + "tags/{id}/relationships/workspaces", handle: s.tagWorkspaces},

		{method: patch, path: api + "admin/organizations/{organization}", handle: s.updateAdminOrganization},
		{method: get, path: api + "admin/terraform-versions", handle: s.listVersions},
		{method: get, path: api + "admin/launch-controls", handle: s.readLaunchControls},
		{method: put, path: api + "admin/launch-controls", handle: s.setLaunchControls},
		{method: get, path: api + "admin/organizations/{organization}/suspension", handle: s.readSuspension},
		{method: put, path: api + "admin/organizations/{organization}/suspension", handle: s.setSuspension},
		{method: get, path: api + "admin/runner-releases", handle: s.readReleases(gates.Runner)},
		{method: put, path: api + "admin/runner-releases", handle: s.setReleases(gates.Runner)},
		{method: get, path: api + "admin/policy-runtime-releases", handle: s.readReleases(gates.PolicyRuntime)},
		{method: put, path: api + "admin/policy-runtime-releases", handle: s.setReleases(gates.PolicyRuntime)},
		{method: post, path: api + "admin/users/{id}/actions/disable_two_factor", handle: s.resetTOTP},
		{method: post, path: api + "admin/users/{id}/actions/confirm-two-factor-reset", handle: s.confirmTOTPReset},

		{method: get, path: organization + "/workspaces", handle: s.listWorkspaces},
		{method: post, path: organization + "/workspaces", handle: s.createWorkspace},
		{method: get, path: byName, handle: s.readWorkspaceByName},
		{method: patch, path: byName, handle: s.updateWorkspaceByName},
		{method: del, path: byName, handle: s.deleteWorkspaceByName},
		{method: post, path: byName + "/actions/safe-delete", handle: s.safeDeleteWorkspaceByName},
		{method: get, path: workspace, handle: s.readWorkspace},
		{method: patch, path: workspace, handle: s.updateWorkspace},
		{method: del, path: workspace, handle: s.deleteWorkspace},
		{method: post, path: workspace + "/actions/safe-delete", handle: s.safeDeleteWorkspace},
		{method: post, path: workspace + "/actions/lock", handle: s.lockWorkspace},
		{method: post, path: workspace + "/actions/unlock", handle: s.unlockWorkspace},
		{method: post, path: workspace + "/actions/force-unlock", handle: s.forceUnlockWorkspace},

		{method: get, path: workspace + "/relationships/tags", handle: s.listWorkspaceTags},
		{method: post, path: workspace + "/relationships/tags", handle: s.addWorkspaceTags},
		{method: del, path: workspace + "/relationships/tags", handle: s.removeWorkspaceTags},
		{method: get, path: workspace + "/tag-bindings", handle: s.listBindings},
		{method: patch, path: workspace + "/tag-bindings", handle: s.setBindings},
		{method: get, path: workspace + "/effective-tag-bindings", handle: s.listEffectiveBindings},

		{method: get, path: workspace + "/vars", handle: s.listVariables},
		{method: post, path: workspace + "/vars", handle: s.createVariable},
		{method: get, path: workspace + "/vars/{variable}", handle: s.readVariable},
		{method: patch, path: workspace + "/vars/{variable}", handle: s.updateVariable},
		{method: del, path: workspace + "/vars/{variable}", handle: s.deleteVariable},

		{method: get, path: workspace + "/current-state-version", handle: s.currentStateVersion},
		{method: get, path: workspace + "/current-state-version-outputs", handle: s.currentOutputs},
		{method: get, path: workspace + "/state-versions", handle: s.listStateVersions},
		{method: post, path: workspace + "/state-versions", handle: s.createStateVersion},
		{method: patch, path: workspace + "/state-versions", handle: s.rollbackState},
		{method: get, path: version, handle: s.searchStateVersions},
		{method: get, path: version + "/{id}", handle: s.readStateVersion},
		{method: get, path: version + "/{id}/outputs", handle: s.listOutputs},
		{method: get, path: version + "/{id}/download", handle: s.downloadState},
		{method: get, path: version + "/{id}/json-download", handle: s.downloadJSONState},
		{method: get, path: api + "state-version-outputs/{id}", handle: s.readOutput},

		{method: get, path: workspace + "/configuration-versions", handle: s.listConfigurationVersions},
		{method: post, path: workspace + "/configuration-versions", handle: s.createConfigurationVersion},
		{method: get, path: api + "configuration-versions/{id}", handle: s.readConfigurationVersion},
		{method: get, path: api + "configuration-versions/{id}/download", handle: s.downloadConfigurationVersion},

		{method: get, path: workspace + "/runs", handle: s.listWorkspaceRuns},
		{method: post, path: api + "runs", handle: s.createRun},
		{method: get, path: api + "runs/{id}", handle: s.readRun},
		{method: get, path: api + "runs/{id}/run-events", handle: s.listRunEvents},
		{method: get, path: api + "runs/{id}/review", handle: s.readReview},
		{method: get, path: api + "runs/{id}/stages", handle: s.listStages},
		{method: get, path: api + "runs/{id}/attempts", handle: s.listAttempts},
		{method: get, path: api + "runs/{id}/receipts", handle: s.listReceipts},
		{method: get, path: api + "runs/{id}/recovery", handle: s.readRecovery},
		{method: get, path: api + "runs/{id}/emergency-state", handle: s.downloadEmergencyState},
		{method: post, path: api + "runs/{id}/actions/recover", handle: s.recoverRun},
		{method: post, path: api + "runs/{id}/actions/apply", handle: s.applyRun},
		{method: post, path: api + "runs/{id}/actions/discard", handle: s.discardRun},
		{method: post, path: api + "runs/{id}/actions/cancel", handle: s.cancelRun},
		{method: post, path: api + "runs/{id}/actions/force-cancel", handle: s.forceCancelRun},
		{method: post, path: api + "runs/{id}/actions/force-execute", handle: s.forceExecuteRun},
		{method: post, path: api + "runs/{id}/actions/requeue", handle: s.requeueRun},
		{method: post, path: api + "runs/{id}/actions/replan", handle: s.replanRun},
		{method: post, path: api + "runs/{id}/actions/promote", handle: s.promoteRun},
		{method: get, path: api + "plans/{id}", handle: s.readPlan},
		{method: get, path: api + "plans/{id}/json-output", handle: s.planJSON},
		{method: get, path: api + "plans/{id}/json-output-redacted", handle: s.planJSONRedacted},
		{method: get, path: api + "applies/{id}", handle: s.readApply},

		{method: put, path: uploadStateLink.template(), open: true, handle: s.uploadState},
		{method: put, path: uploadJSONStateLink.template(), open: true, handle: s.uploadJSONState},
		{method: put, path: uploadConfigurationLink.template(), open: true, handle: s.uploadConfiguration},
		{method: get, path: planLogLink.template(), open: true, handle: s.planLog},
		{method: get, path: applyLogLink.template(), open: true, handle: s.applyLog},
	}...)
}
