package tfeapi

import (
	"fmt"
	"strings"

	"github.com/hashicorp/go-tfe"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/site"
)

// addSettings makes one of everything that organizations, projects and workspaces are set up
// with, for newRights.
func (w *rights) addSettings() {
	w.Helper()
	ctx := w.Context()
	set, err := w.client.VariableSets.Create(ctx, "acme", &tfe.VariableSetCreateOptions{
		Name: text("ours"), Global: tfe.Bool(false), Parent: &tfe.Parent{Project: w.app.Project}, // of the project that all roles are about
	})
	require.NoError(w, err)
	variable, err := w.client.VariableSetVariables.Create(ctx, set.ID, &tfe.VariableSetVariableCreateOptions{Key: text("k"), Value: text("v"), Category: tfe.Category(tfe.CategoryEnv)})
	require.NoError(w, err)
	key, err := w.client.SSHKeys.Create(ctx, "acme", tfe.SSHKeyCreateOptions{Name: text("k"), Value: text("PRIVATE")})
	require.NoError(w, err)
	reserved, err := w.client.ReservedTagKeys.Create(ctx, "acme", tfe.ReservedTagKeyCreateOptions{Key: "env"})
	require.NoError(w, err)
	trigger, err := w.client.RunTriggers.Create(ctx, w.app.ID, tfe.RunTriggerCreateOptions{Sourceable: w.other})
	require.NoError(w, err)
	comment, err := w.client.Comments.Create(ctx, w.run.ID, tfe.CommentCreateOptions{Body: "hello"})
	require.NoError(w, err)
	query, err := w.client.QueryRuns.Create(ctx, tfe.QueryRunCreateOptions{Workspace: w.app, ConfigurationVersion: w.run.ConfigurationVersion})
	require.NoError(w, err)
	w.things["queries/"] = query.ID
	for begin, id := range map[string]string{"varsets/": set.ID, "ssh-keys/": key.ID, "reserved-tag-keys/": reserved.ID, "run-triggers/": trigger.ID, "comments/": comment.ID} {
		w.things[begin] = id
	}
	w.values["{set variable}"] = variable.ID
}

// addJudges makes one of everything that is asked or told about runs.
func (w *rights) addJudges() {
	w.Helper()
	ctx, service := w.Context(), newSink(w.T)
	set, policy := w.policySet(tfe.EnforcementAdvisory, forbidsAll, w.other)
	parameter, err := w.client.PolicySetParameters.Create(ctx, set.ID, tfe.PolicySetParameterCreateOptions{Key: text("k"), Value: text("v"), Category: tfe.Category(tfe.CategoryPolicySet)})
	require.NoError(w, err)
	hook, err := w.client.NotificationConfigurations.Create(ctx, w.app.ID, notificationOptions(service.url, false, tfe.NotificationTriggerCreated))
	require.NoError(w, err)
	task := w.task(service.url, nil)
	asked, err := w.client.WorkspaceRunTasks.Create(ctx, w.app.ID, tfe.WorkspaceRunTaskCreateOptions{EnforcementLevel: tfe.Advisory, RunTask: task})
	require.NoError(w, err)
	for begin, id := range map[string]string{
		"policy-sets/": set.ID, "policies/": policy.ID, "policy-set-versions/": set.CurrentVersion.ID, "notification-configurations/": hook.ID, "tasks/": task.ID,
	} {
		w.things[begin] = id
	}
	w.values["{parameter}"], w.values["{task}"] = parameter.ID, asked.ID
}

// addSite makes one of everything that the site's administration is about, and the records
// of VCS hosts.
func (w *rights) addSite() {
	w.Helper()
	ctx := w.Context()
	spare, err := w.client.Workspaces.Create(ctx, "acme", tfe.WorkspaceCreateOptions{Name: text("spare")})
	require.NoError(w, err)
	_, err = w.deps.Workspaces.CreateOrganization(ctx, authz.System(), accounts.NewOrganization{Name: "spare"})
	require.NoError(w, err)
	client, err := w.client.OAuthClients.Create(ctx, "acme", tfe.OAuthClientCreateOptions{
		APIURL: text("https://api.github.com"), HTTPURL: text("https://github.com"), ServiceProvider: tfe.ServiceProvider(tfe.ServiceProviderGithub), OAuthToken: text("t"),
	})
	require.NoError(w, err)
	for begin, id := range map[string]string{"admin/workspaces/": spare.ID, "admin/runs/": w.run.ID, "oauth-clients/": client.ID, "oauth-tokens/": client.OAuthTokens[0].ID} {
		w.things[begin] = id
	}
	for _, tool := range []site.Tool{site.Terraform, site.OPA, site.Sentinel} {
		versions, _, err := w.deps.Site.ToolVersions(ctx, authz.System(), tool, site.ToolVersionFilter{})
		require.NoError(w, err)
		w.things["admin/"+string(tool)+"-versions/"] = string(versions[0].ID)
	}
}

// bodyOfSettings is bodyOf for these.
func (w *rights) bodyOfSettings(rt route) string {
	within := func(kind, attributes, relations string) string {
		return fmt.Sprintf(`{"data":{"type":%q,"attributes":{%s},"relationships":{%s}}}`, kind, attributes, relations)
	}
	relation := func(name, kind, id string) string {
		return fmt.Sprintf(`%q:{"data":{"type":%q,"id":%q}}`, name, kind, id)
	}
	switch {
	case strings.HasSuffix(rt.path, "/relationships/data-retention-policy"):
		return within("data-retention-policy-delete-olders", `"delete-older-than-n-days":30`, "")
	case strings.HasSuffix(rt.path, "/relationships/ssh-key"):
		return within("workspaces", fmt.Sprintf(`"id":%q`, w.things["ssh-keys/"]), "")
	case strings.HasSuffix(rt.path, "/relationships/remote-state-consumers"):
		return fmt.Sprintf(`{"data":[{"type":"workspaces","id":%q}]}`, w.other.ID)
	case strings.HasSuffix(rt.path, "/run-triggers"):
		return within("run-triggers", "", relation("sourceable", "workspaces", w.other.ID))
	case strings.HasSuffix(rt.path, "/comments"):
		return within("comments", `"body":"hello"`, "")
	case strings.HasSuffix(rt.path, "/plan-exports"):
		return within("plan-exports", `"data-type":"sentinel-mock-bundle-v0"`, relation("plan", "plans", w.run.Plan.ID))
	case strings.HasPrefix(rt.path, "/api/v2/workspaces/{id}/tasks"):
		return within("workspace-tasks", "", relation("task", "tasks", w.things["tasks/"]))
	case strings.HasSuffix(rt.path, "/varsets"):
		return within("varsets", `"name":"new"`, relation("parent", "projects", w.app.Project.ID))
	case strings.HasSuffix(rt.path, "/relationships/workspaces"), strings.HasSuffix(rt.path, "/relationships/workspace-exclusions"):
		return fmt.Sprintf(`{"data":[{"type":"workspaces","id":%q}]}`, w.app.ID)
	case strings.HasSuffix(rt.path, "/relationships/projects"), strings.HasSuffix(rt.path, "/relationships/project-exclusions"):
		return fmt.Sprintf(`{"data":[{"type":"projects","id":%q}]}`, w.app.Project.ID)
	case strings.HasSuffix(rt.path, "/relationships/policies"):
		return fmt.Sprintf(`{"data":[{"type":"policies","id":%q}]}`, w.things["policies/"])
	case strings.HasSuffix(rt.path, "/oauth-clients"), strings.HasSuffix(rt.path, "/oauth-clients/{id}"):
		return within("oauth-clients", `"service-provider":"github","api-url":"https://api.github.com","http-url":"https://github.com"`, "")
	case strings.HasSuffix(rt.path, "/oauth-tokens/{id}"):
		return within("oauth-tokens", `"ssh-key":"PRIVATE"`, "")
	case rt.path == "/api/v2/queries":
		return within("queries", "", relation("workspace", "workspaces", w.app.ID)+","+relation("configuration-version", "configuration-versions", w.run.ConfigurationVersion.ID))
	case strings.HasSuffix(rt.path, "/scim-group-mapping"):
		return within("scim-group-mappings", `"scim-group-id":"scimgroup-1","scim-sync-paused":true`, "")
	case rt.path == "/api/v2/account/update":
		return within("users", "", "")
	}
	return ""
}
