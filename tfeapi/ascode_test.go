package tfeapi

import (
	"testing"

	"github.com/hashicorp/go-tfe"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestTheRequestsOfTheProviderAreReadBack sends what the provider hashicorp/tfe sends for an
// organization as code, with the values that it adds by itself, and reads it again as its next
// plan does: what comes back is what was said, so that such a plan is empty.
func TestTheRequestsOfTheProviderAreReadBack(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	on, off := tfe.Bool(true), tfe.Bool(false)

	project, err := w.client.Projects.Create(ctx, "acme", tfe.ProjectCreateOptions{
		Name: "platform", Description: tfe.String(""), TagBindings: []*tfe.TagBinding{{Key: "team", Value: "platform"}},
	})
	require.NoError(t, err)
	team, err := w.client.Teams.Create(ctx, "acme", tfe.TeamCreateOptions{
		Name: tfe.String("developers"), Visibility: tfe.String("organization"), AllowMemberTokenManagement: on,
		OrganizationAccess: &tfe.OrganizationAccessOptions{ManageWorkspaces: off, ReadProjects: off, ManageModules: off},
	})
	require.NoError(t, err)
	settings := &tfe.WorkspaceSettingOverwritesOptions{ExecutionMode: off, AgentPool: off}
	made, err := w.client.Workspaces.Create(ctx, "acme", tfe.WorkspaceCreateOptions{
		Name: tfe.String("network"), AllowDestroyPlan: on, AutoApply: off, AutoApplyRunTrigger: off, Description: tfe.String(""), AssessmentsEnabled: off,
		FileTriggersEnabled: on, QueueAllRuns: on, SpeculativeEnabled: on, StructuredRunOutputEnabled: on, WorkingDirectory: tfe.String(""),
		SettingOverwrites: settings, Project: project, Tags: []*tfe.Tag{{Name: "eu"}}, InheritsProjectAutoDestroy: off,
	})
	require.NoError(t, err)

	read := func() *tfe.Workspace {
		ws, err := w.client.Workspaces.ReadByIDWithOptions(ctx, made.ID, &tfe.WorkspaceReadOptions{Include: []tfe.WSIncludeOpt{tfe.WSEffectiveTagBindings}})
		require.NoError(t, err)
		return ws
	}
	check := func(ws *tfe.Workspace, description string) {
		t.Helper()
		assert.Equal(t, []bool{true, false, false, true, true, true, true, false}, []bool{
			ws.AllowDestroyPlan, ws.AutoApply, ws.AutoApplyRunTrigger, ws.FileTriggersEnabled, ws.QueueAllRuns, ws.SpeculativeEnabled, ws.StructuredRunOutputEnabled, ws.AssessmentsEnabled,
		})
		assert.Equal(t, description, ws.Description)
		assert.Equal(t, "remote", ws.ExecutionMode)
		assert.Equal(t, "acme", ws.Organization.Name)
		assert.Equal(t, project.ID, ws.Project.ID)
		assert.Equal(t, []string{"eu"}, ws.TagNames)
		assert.IsType(t, "", ws.Links["self-html"], "the provider takes it for a text")
		assert.NotNil(t, ws.Permissions.CanForceDelete, "without it the provider only deletes by force")
		assert.False(t, ws.AutoDestroyAt.IsSpecified(), "the provider fails on one that is there and null")
		assert.Nil(t, ws.VCSRepo)
		assert.False(t, ws.InheritsProjectAutoDestroy)
		require.Len(t, ws.EffectiveTagBindings, 1)
		assert.Equal(t, "platform", ws.EffectiveTagBindings[0].Value)
	}
	check(read(), "")
	assert.False(t, *read().SettingOverwrites.ExecutionMode)

	t.Log("tfe_workspace_settings repeats the mode that it read and says that it is not the workspace's own")
	_, err = w.client.Workspaces.UpdateByID(ctx, made.ID, tfe.WorkspaceUpdateOptions{
		GlobalRemoteState: off, ProjectRemoteState: off, SettingOverwrites: settings, AssessmentsEnabled: off, AutoApply: off, ExecutionMode: tfe.String("remote"), AgentPoolID: tfe.String(""),
	})
	require.NoError(t, err)
	check(read(), "")
	assert.False(t, *read().SettingOverwrites.ExecutionMode)
	consumers, err := w.client.Workspaces.ListRemoteStateConsumers(ctx, made.ID, nil)
	require.NoError(t, err)
	assert.Empty(t, consumers.Items)

	t.Log("an update says everything again")
	_, err = w.client.Workspaces.UpdateByID(ctx, made.ID, tfe.WorkspaceUpdateOptions{
		Name: tfe.String("network"), AllowDestroyPlan: on, AutoApply: off, AutoApplyRunTrigger: off, Description: tfe.String("VPCs"), FileTriggersEnabled: on, GlobalRemoteState: off,
		QueueAllRuns: on, SpeculativeEnabled: on, StructuredRunOutputEnabled: on, WorkingDirectory: tfe.String(""), TerraformVersion: tfe.String(made.TerraformVersion),
		TriggerPrefixes: []string{},
	})
	require.NoError(t, err)
	check(read(), "VPCs")

	access, err := w.client.TeamAccess.Add(ctx, tfe.TeamAccessAddOptions{Access: tfe.Access(tfe.AccessPlan), Team: team, Workspace: made})
	require.NoError(t, err)
	again, err := w.client.TeamAccess.Read(ctx, access.ID)
	require.NoError(t, err)
	assert.Equal(t, access, again)
	ofProject, err := w.client.TeamProjectAccess.Add(ctx, tfe.TeamProjectAccessAddOptions{Access: *tfe.ProjectAccess(tfe.TeamProjectAccessMaintain), Team: team, Project: project})
	require.NoError(t, err)
	readProject, err := w.client.TeamProjectAccess.Read(ctx, ofProject.ID)
	require.NoError(t, err)
	assert.Equal(t, ofProject, readProject)

	secret, err := w.client.Variables.Create(ctx, made.ID, tfe.VariableCreateOptions{
		Key: tfe.String("AWS_SECRET_ACCESS_KEY"), Value: tfe.String("s3cr3t"), Category: tfe.Category(tfe.CategoryEnv), HCL: off, Sensitive: on, Description: tfe.String(""),
	})
	require.NoError(t, err)
	readVariable, err := w.client.Variables.Read(ctx, made.ID, secret.ID)
	require.NoError(t, err)
	assert.Empty(t, readVariable.Value)
	assert.True(t, readVariable.Sensitive)
	assert.Equal(t, secret.VersionID, readVariable.VersionID, "another version would make the provider write it anew")

	set, err := w.client.VariableSets.Create(ctx, "acme", &tfe.VariableSetCreateOptions{Name: tfe.String("common"), Description: tfe.String(""), Global: off, Priority: off})
	require.NoError(t, err)
	require.NoError(t, w.client.VariableSets.ApplyToProjects(ctx, set.ID, tfe.VariableSetApplyToProjectsOptions{Projects: []*tfe.Project{project}}))
	require.NoError(t, w.client.VariableSets.ApplyToWorkspaces(ctx, set.ID, &tfe.VariableSetApplyToWorkspacesOptions{Workspaces: []*tfe.Workspace{made}}))
	include := []tfe.VariableSetIncludeOpt{tfe.VariableSetWorkspaces, tfe.VariableSetProjects}
	readSet, err := w.client.VariableSets.Read(ctx, set.ID, &tfe.VariableSetReadOptions{Include: &include})
	require.NoError(t, err)
	require.Len(t, readSet.Workspaces, 1)
	assert.Equal(t, made.ID, readSet.Workspaces[0].ID)
	require.Len(t, readSet.Projects, 1)
	assert.Equal(t, project.ID, readSet.Projects[0].ID)
	assert.NotNil(t, readSet.Organization, "the provider reads its name")
	require.NoError(t, w.client.Workspaces.SafeDeleteByID(ctx, made.ID))
}
