package tfeapi

import (
	"net/http"
	"testing"
	"time"

	"github.com/hashicorp/go-tfe"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/ids"
)

func (w *world) team(name string, access *tfe.OrganizationAccessOptions) *tfe.Team {
	w.Helper()
	team, err := w.client.Teams.Create(w.Context(), "acme", tfe.TeamCreateOptions{Name: &name, OrganizationAccess: access})
	require.NoError(w, err)
	return team
}

// member makes a user who belongs to acme and to the team, and gives a client of hers.
func (w *world) member(name string, team *tfe.Team) *tfe.Client {
	w.Helper()
	user, token := w.user(w.Context(), name)
	org, err := w.deps.Accounts.Organization(w.Context(), authz.System(), "acme")
	require.NoError(w, err)
	require.NoError(w, w.deps.Accounts.AddMember(w.Context(), authz.System(), org.ID, user, authz.Member))
	if team != nil {
		require.NoError(w, w.client.TeamMembers.Add(w.Context(), team.ID, tfe.TeamMemberAddOptions{Usernames: []string{name}}))
	}
	return w.as(token)
}

func (w *world) give(team *tfe.Team, ws *tfe.Workspace, access tfe.AccessType) *tfe.TeamAccess {
	w.Helper()
	given, err := w.client.TeamAccess.Add(w.Context(), tfe.TeamAccessAddOptions{Access: &access, Team: team, Workspace: ws})
	require.NoError(w, err)
	return given
}

func TestClientTeams(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	team := w.team("ops", &tfe.OrganizationAccessOptions{ManagePolicies: tfe.Bool(true)})
	assert.Equal(t, "secret", team.Visibility)
	assert.True(t, team.AllowMemberTokenManagement)
	assert.True(t, team.OrganizationAccess.ManagePolicies)
	assert.False(t, team.OrganizationAccess.ManageWorkspaces)
	assert.True(t, team.Permissions.CanDestroy)

	_, err := w.client.Teams.Create(ctx, "acme", tfe.TeamCreateOptions{Name: tfe.String("ops")})
	require.EqualError(t, err, "invalid attribute\n\nName has already been taken")

	list, err := w.client.Teams.List(ctx, "acme", nil)
	require.NoError(t, err)
	assert.Equal(t, 3, list.TotalCount, "owners, readers of the fixture, ops")
	assert.Contains(t, list.Items, team)
	found, err := w.client.Teams.List(ctx, "acme", &tfe.TeamListOptions{Query: "OP"})
	require.NoError(t, err)
	require.Len(t, found.Items, 1)
	found, err = w.client.Teams.List(ctx, "acme", &tfe.TeamListOptions{Names: []string{"owners"}})
	require.NoError(t, err)
	require.Len(t, found.Items, 1)
	owners := found.Items[0]
	assert.False(t, owners.Permissions.CanDestroy)
	assert.True(t, owners.OrganizationAccess.ManageWorkspaces)

	changed, err := w.client.Teams.Update(ctx, team.ID, tfe.TeamUpdateOptions{
		Name: tfe.String("foo bar"), Visibility: tfe.String("organization"), OrganizationAccess: &tfe.OrganizationAccessOptions{ManagePolicies: tfe.Bool(false), ManageModules: tfe.Bool(true)},
	})
	require.NoError(t, err)
	assert.Equal(t, "foo bar", changed.Name)
	assert.False(t, changed.OrganizationAccess.ManagePolicies)
	assert.True(t, changed.OrganizationAccess.ManageModules)
	_, err = w.client.Teams.Update(ctx, owners.ID, tfe.TeamUpdateOptions{Name: tfe.String("kings")})
	require.ErrorContains(t, err, "keeps its name")
	require.Error(t, w.client.Teams.Delete(ctx, owners.ID))

	require.NoError(t, w.client.TeamMembers.Add(ctx, team.ID, tfe.TeamMemberAddOptions{Usernames: []string{"bob"}}))
	users, err := w.client.TeamMembers.ListUsers(ctx, team.ID)
	require.NoError(t, err)
	require.Len(t, users, 1)
	assert.Equal(t, "bob", users[0].Username)
	memberships, err := w.client.TeamMembers.ListOrganizationMemberships(ctx, team.ID)
	require.NoError(t, err)
	require.Len(t, memberships, 1)
	assert.Equal(t, "bob@acme.test", memberships[0].Email)
	require.NoError(t, w.client.TeamMembers.Remove(ctx, team.ID, tfe.TeamMemberRemoveOptions{OrganizationMembershipIDs: []string{memberships[0].ID}}))
	users, err = w.client.TeamMembers.ListUsers(ctx, team.ID)
	require.NoError(t, err)
	assert.Empty(t, users)
	require.ErrorIs(t, w.client.TeamMembers.Add(ctx, team.ID, tfe.TeamMemberAddOptions{Usernames: []string{"stranger"}}), tfe.ErrResourceNotFound)

	require.NoError(t, w.client.Teams.Delete(ctx, team.ID))
	_, err = w.client.Teams.Read(ctx, team.ID)
	require.ErrorIs(t, err, tfe.ErrResourceNotFound)
}

func TestASecretTeamIsNotThereForOthers(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	team := w.team("ops", nil)
	bob := w.as(w.bob)
	_, err := bob.Teams.Read(ctx, team.ID)
	require.ErrorIs(t, err, tfe.ErrResourceNotFound)
	list, err := bob.Teams.List(ctx, "acme", nil)
	require.NoError(t, err)
	assert.Len(t, list.Items, 2, "owners, whom all may know, and the team he is in")
	require.ErrorIs(t, bob.TeamMembers.Add(ctx, team.ID, tfe.TeamMemberAddOptions{Usernames: []string{"bob"}}), tfe.ErrResourceNotFound)
	_, err = w.client.Teams.Update(ctx, team.ID, tfe.TeamUpdateOptions{Visibility: tfe.String("organization")})
	require.NoError(t, err)
	_, err = bob.Teams.Read(ctx, team.ID)
	require.NoError(t, err)
	err = bob.TeamMembers.Add(ctx, team.ID, tfe.TeamMemberAddOptions{Usernames: []string{"bob"}})
	require.ErrorContains(t, err, "membership:manage")
}

func TestClientMemberships(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	team := w.team("ops", nil)
	invited, err := w.client.OrganizationMemberships.Create(ctx, "acme", tfe.OrganizationMembershipCreateOptions{Email: tfe.String("new@acme.test"), Teams: []*tfe.Team{team}})
	require.NoError(t, err)
	assert.Equal(t, tfe.OrganizationMembershipInvited, invited.Status)
	require.Len(t, invited.Teams, 1)
	again, err := w.client.OrganizationMemberships.ReadWithOptions(ctx, invited.ID, tfe.OrganizationMembershipReadOptions{Include: []tfe.OrgMembershipIncludeOpt{tfe.OrgMembershipUser}})
	require.NoError(t, err)
	assert.Equal(t, invited, again)
	_, err = w.client.OrganizationMemberships.ReadWithOptions(ctx, invited.ID, tfe.OrganizationMembershipReadOptions{Include: []tfe.OrgMembershipIncludeOpt{"users"}})
	require.ErrorIs(t, err, tfe.ErrInvalidIncludeValue)
	read, err := w.client.OrganizationMemberships.Read(ctx, invited.ID)
	require.NoError(t, err)
	assert.Equal(t, &tfe.User{ID: invited.User.ID}, read.User)
	_, err = w.client.OrganizationMemberships.Create(ctx, "acme", tfe.OrganizationMembershipCreateOptions{Email: tfe.String("NEW@acme.test")})
	require.ErrorContains(t, err, "member of the organization already")

	list, err := w.client.OrganizationMemberships.List(ctx, "acme", &tfe.OrganizationMembershipListOptions{Status: tfe.OrganizationMembershipInvited})
	require.NoError(t, err)
	require.Len(t, list.Items, 1)

	w.enrol("bob", w.bob)
	list, err = w.client.OrganizationMemberships.List(ctx, "acme", &tfe.OrganizationMembershipListOptions{Include: []tfe.OrgMembershipIncludeOpt{tfe.OrgMembershipUser}})
	require.NoError(t, err)
	factors := map[string]*tfe.TwoFactor{}
	for _, m := range list.Items {
		factors[m.User.Username] = m.User.TwoFactor
	}
	assert.Equal(t, &tfe.TwoFactor{Enabled: true, Verified: true}, factors["bob"])
	assert.Equal(t, &tfe.TwoFactor{}, factors["ann"])
	require.NoError(t, w.client.TeamMembers.Add(ctx, team.ID, tfe.TeamMemberAddOptions{Usernames: []string{"bob"}}))
	_, shown := w.send("GET", "/api/v2/teams/"+team.ID+"?include=users", w.ann, "")
	assert.Contains(t, shown, `"username":"bob"`)
	assert.NotContains(t, shown, "two-factor", "elsewhere only users themselves are told")

	list, err = w.client.OrganizationMemberships.List(ctx, "acme", &tfe.OrganizationMembershipListOptions{Emails: []string{"bob@acme.test"}})
	require.NoError(t, err)
	require.Len(t, list.Items, 1)
	bob := list.Items[0]
	list, err = w.client.OrganizationMemberships.List(ctx, "acme", &tfe.OrganizationMembershipListOptions{Query: "ann"})
	require.NoError(t, err)
	require.Len(t, list.Items, 1)
	ann := list.Items[0]

	// The place is kept for whom a site admin makes with that address.
	user, err := w.deps.Accounts.CreateUser(ctx, authz.System(), accounts.NewUser{Username: "nina", Email: "New@acme.test"})
	require.NoError(t, err)
	assert.Equal(t, invited.User.ID, string(user.ID))
	read, err = w.client.OrganizationMemberships.Read(ctx, invited.ID)
	require.NoError(t, err)
	assert.Equal(t, tfe.OrganizationMembershipActive, read.Status)

	require.NoError(t, w.client.OrganizationMemberships.Delete(ctx, bob.ID))
	_, err = w.as(w.bob).Organizations.Read(ctx, "acme")
	require.ErrorIs(t, err, tfe.ErrResourceNotFound, "at once")
	require.ErrorContains(t, w.client.OrganizationMemberships.Delete(ctx, ann.ID), "needs an owner")
}

func TestClientTeamAccess(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	team, ws := w.team("ops", nil), w.workspace("net")
	given := w.give(team, ws, tfe.AccessAdmin)
	read, err := w.client.TeamAccess.Read(ctx, given.ID)
	require.NoError(t, err)
	assert.Equal(t, []any{tfe.AccessAdmin, tfe.RunsPermissionApply, tfe.VariablesPermissionWrite, tfe.StateVersionsPermissionWrite, tfe.SentinelMocksPermissionRead, true, true},
		[]any{read.Access, read.Runs, read.Variables, read.StateVersions, read.SentinelMocks, read.WorkspaceLocking, read.RunTasks})
	assert.Equal(t, team.ID, read.Team.ID)
	assert.Equal(t, ws.ID, read.Workspace.ID)
	_, err = w.client.TeamAccess.Add(ctx, tfe.TeamAccessAddOptions{Access: tfe.Access(tfe.AccessRead), Team: team, Workspace: ws})
	require.Error(t, err, "a team has one access to a workspace")

	changed, err := w.client.TeamAccess.Update(ctx, given.ID, tfe.TeamAccessUpdateOptions{Access: tfe.Access(tfe.AccessCustom), Runs: tfe.RunsPermission(tfe.RunsPermissionPlan)})
	require.NoError(t, err)
	assert.Equal(t, tfe.AccessCustom, changed.Access)
	assert.Equal(t, tfe.RunsPermissionPlan, changed.Runs)
	assert.Equal(t, tfe.VariablesPermissionWrite, changed.Variables, "what was not said stays")
	list, err := w.client.TeamAccess.List(ctx, &tfe.TeamAccessListOptions{WorkspaceID: ws.ID})
	require.NoError(t, err)
	require.Len(t, list.Items, 1)
	require.NoError(t, w.client.TeamAccess.Remove(ctx, given.ID))
	require.ErrorIs(t, w.client.TeamAccess.Remove(ctx, given.ID), tfe.ErrResourceNotFound)

	_, err = w.client.TeamAccess.Add(ctx, tfe.TeamAccessAddOptions{Access: tfe.Access(tfe.AccessRead), Runs: tfe.RunsPermission(tfe.RunsPermissionApply), Team: team, Workspace: ws})
	require.EqualError(t, err, "invalid attribute\n\nRuns is read-only when access level is 'read'; use the 'custom' access level to set this attribute.")

	project, err := w.client.Projects.Create(ctx, "acme", tfe.ProjectCreateOptions{Name: "core"})
	require.NoError(t, err)
	inProject, err := w.client.TeamProjectAccess.Add(ctx, tfe.TeamProjectAccessAddOptions{
		Access: tfe.TeamProjectAccessCustom, Team: team, Project: project,
		ProjectAccess:   &tfe.TeamProjectAccessProjectPermissionsOptions{Settings: tfe.ProjectSettingsPermission(tfe.ProjectSettingsPermissionUpdate)},
		WorkspaceAccess: &tfe.TeamProjectAccessWorkspacePermissionsOptions{Runs: tfe.WorkspaceRunsPermission(tfe.WorkspaceRunsPermissionApply), Create: tfe.Bool(true), Move: tfe.Bool(true)},
	})
	require.NoError(t, err)
	project2, err := w.client.TeamProjectAccess.Read(ctx, inProject.ID)
	require.NoError(t, err)
	assert.Equal(t, inProject, project2)
	assert.Equal(t, tfe.ProjectSettingsPermissionUpdate, project2.ProjectAccess.ProjectSettingsPermission)
	assert.Equal(t, tfe.ProjectTeamsPermissionNone, project2.ProjectAccess.ProjectTeamsPermission)
	assert.Equal(t, tfe.WorkspaceRunsPermissionApply, project2.WorkspaceAccess.WorkspaceRunsPermission)
	assert.True(t, project2.WorkspaceAccess.WorkspaceCreatePermission)
	assert.False(t, project2.WorkspaceAccess.WorkspaceDeletePermission)
	level := tfe.TeamProjectAccessMaintain
	project2, err = w.client.TeamProjectAccess.Update(ctx, inProject.ID, tfe.TeamProjectAccessUpdateOptions{Access: &level})
	require.NoError(t, err)
	assert.True(t, project2.WorkspaceAccess.WorkspaceDeletePermission)
	require.NoError(t, w.client.TeamProjectAccess.Remove(ctx, inProject.ID))
}

// What a team was given holds in what its member may do, and in nothing else.
func TestRightsOfATeamInItsWorkspace(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	team, own, other := w.team("ops", nil), w.workspace("own"), w.workspace("other")
	cat := w.member("cat", team)
	_, err := cat.Workspaces.ReadByID(ctx, own.ID)
	require.ErrorIs(t, err, tfe.ErrResourceNotFound, "a member has nothing by itself")
	list, err := cat.Workspaces.List(ctx, "acme", nil)
	require.NoError(t, err)
	assert.Zero(t, list.TotalCount)

	given := w.give(team, own, tfe.AccessPlan)
	list, err = cat.Workspaces.List(ctx, "acme", nil)
	require.NoError(t, err)
	require.Len(t, list.Items, 1)
	assert.Equal(t, 1, list.TotalCount)
	seen := list.Items[0]
	assert.Equal(t, own.ID, seen.ID)
	assert.True(t, seen.Permissions.CanQueueRun)
	assert.False(t, seen.Permissions.CanQueueApply)
	assert.False(t, seen.Permissions.CanUpdate)
	projects, err := cat.Projects.List(ctx, "acme", nil)
	require.NoError(t, err)
	require.Len(t, projects.Items, 1, "the project of the workspace may be known")
	_, err = cat.ConfigurationVersions.Create(ctx, own.ID, tfe.ConfigurationVersionCreateOptions{})
	require.NoError(t, err)
	_, err = cat.Workspaces.Lock(ctx, own.ID, tfe.WorkspaceLockOptions{})
	require.ErrorContains(t, err, "workspace:lock")
	_, err = cat.Workspaces.ReadByID(ctx, other.ID)
	require.ErrorIs(t, err, tfe.ErrResourceNotFound)
	_, err = cat.Workspaces.Create(ctx, "acme", tfe.WorkspaceCreateOptions{Name: tfe.String("mine")})
	require.ErrorContains(t, err, "workspace:create")

	_, err = w.client.TeamAccess.Update(ctx, given.ID, tfe.TeamAccessUpdateOptions{Access: tfe.Access(tfe.AccessWrite)})
	require.NoError(t, err)
	locked, err := cat.Workspaces.Lock(ctx, own.ID, tfe.WorkspaceLockOptions{})
	require.NoError(t, err, "the next request has the new right")
	require.NotNil(t, locked.LockedBy.User, "a user holds it, not the team")
}

func TestAProjectCoversItsWorkspaces(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	team := w.team("ops", nil)
	cat := w.member("cat", team)
	project, err := w.client.Projects.Create(ctx, "acme", tfe.ProjectCreateOptions{Name: "core"})
	require.NoError(t, err)
	other := w.workspace("other")
	_, err = w.client.TeamProjectAccess.Add(ctx, tfe.TeamProjectAccessAddOptions{Access: tfe.TeamProjectAccessMaintain, Team: team, Project: project})
	require.NoError(t, err)
	made, err := cat.Workspaces.Create(ctx, "acme", tfe.WorkspaceCreateOptions{Name: tfe.String("mine"), Project: project})
	require.NoError(t, err)
	_, err = cat.Variables.Create(ctx, made.ID, tfe.VariableCreateOptions{Key: tfe.String("k"), Value: tfe.String("v"), Category: tfe.Category(tfe.CategoryEnv)})
	require.NoError(t, err)
	_, err = cat.Workspaces.Create(ctx, "acme", tfe.WorkspaceCreateOptions{Name: tfe.String("stray"), Project: other.Project})
	require.ErrorIs(t, err, tfe.ErrResourceNotFound, "a project that is not seen is none")
	_, err = cat.Workspaces.UpdateByID(ctx, made.ID, tfe.WorkspaceUpdateOptions{Project: other.Project})
	require.ErrorIs(t, err, tfe.ErrResourceNotFound, "nor can a workspace go there")

	_, err = w.client.Workspaces.UpdateByID(ctx, made.ID, tfe.WorkspaceUpdateOptions{Project: other.Project})
	require.NoError(t, err)
	_, err = cat.Workspaces.ReadByID(ctx, made.ID)
	require.ErrorIs(t, err, tfe.ErrResourceNotFound, "the right stays with the project")
}

func TestClientTokensOfTeamsAndOrganizations(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	team, ws := w.team("ops", nil), w.workspace("net")
	w.give(team, ws, tfe.AccessWrite)
	tomorrow := time.Now().UTC().Truncate(time.Second).Add(24 * time.Hour)

	first, err := w.client.TeamTokens.Create(ctx, team.ID)
	require.NoError(t, err)
	require.NotNil(t, first.CreatedBy.User)
	assert.WithinDuration(t, first.CreatedAt.AddDate(2, 0, 0), first.ExpiredAt, time.Minute)
	second, err := w.client.TeamTokens.CreateWithOptions(ctx, team.ID, tfe.TeamTokenCreateOptions{ExpiredAt: &tomorrow})
	require.NoError(t, err)
	assert.Equal(t, tomorrow, second.ExpiredAt)
	w.unauthorized(first.Token, "the token before is replaced")
	read, err := w.client.TeamTokens.Read(ctx, team.ID)
	require.NoError(t, err)
	assert.Equal(t, second.ID, read.ID)
	assert.Empty(t, read.Token)
	assert.Equal(t, team.ID, read.Team.ID)
	named, err := w.client.TeamTokens.CreateWithOptions(ctx, team.ID, tfe.TeamTokenCreateOptions{Description: tfe.String("ci")})
	require.NoError(t, err)
	_, err = w.client.TeamTokens.CreateWithOptions(ctx, team.ID, tfe.TeamTokenCreateOptions{Description: tfe.String("ci")})
	require.EqualError(t, err, tfe.ErrInvalidDescriptionConflict.Error())
	list, err := w.client.TeamTokens.List(ctx, "acme", &tfe.TeamTokenListOptions{Sort: "expired-at"})
	require.NoError(t, err)
	require.Len(t, list.Items, 2)
	assert.Equal(t, []string{second.ID, named.ID}, []string{list.Items[0].ID, list.Items[1].ID})

	machine := w.as(named.Token)
	locked, err := machine.Workspaces.Lock(ctx, ws.ID, tfe.WorkspaceLockOptions{})
	require.NoError(t, err)
	assert.Equal(t, team.ID, locked.LockedBy.Team.ID)
	_, err = w.client.Workspaces.Unlock(ctx, ws.ID)
	require.ErrorIs(t, err, tfe.ErrWorkspaceLockedByTeam)
	_, err = machine.Workspaces.Unlock(ctx, ws.ID)
	require.NoError(t, err)
	cv, err := machine.ConfigurationVersions.Create(ctx, ws.ID, tfe.ConfigurationVersionCreateOptions{})
	require.NoError(t, err)
	assert.NotEmpty(t, cv.ID)
	me, err := machine.Users.ReadCurrent(ctx)
	require.NoError(t, err)
	assert.True(t, me.IsServiceAccount)
	_, err = machine.OrganizationTokens.Create(ctx, "acme")
	require.Error(t, err)
	require.NoError(t, w.client.TeamTokens.DeleteByID(ctx, named.ID))
	w.unauthorized(named.Token, "a token that was deleted")
	require.NoError(t, w.client.Teams.Delete(ctx, team.ID))
	w.unauthorized(second.Token, "a token of a team that is gone")

	organization, err := w.client.OrganizationTokens.Create(ctx, "acme")
	require.NoError(t, err)
	bot := w.as(organization.Token)
	made, err := bot.Workspaces.Create(ctx, "acme", tfe.WorkspaceCreateOptions{Name: tfe.String("made-by-bot")})
	require.NoError(t, err)
	_, err = bot.Teams.Create(ctx, "acme", tfe.TeamCreateOptions{Name: tfe.String("by-bot"), OrganizationAccess: &tfe.OrganizationAccessOptions{ReadWorkspaces: tfe.Bool(true)}})
	require.NoError(t, err)
	_, err = bot.Runs.Create(ctx, tfe.RunCreateOptions{Workspace: made})
	require.ErrorContains(t, err, "run:queue")
	_, err = bot.ConfigurationVersions.Create(ctx, made.ID, tfe.ConfigurationVersionCreateOptions{})
	require.ErrorContains(t, err, "configuration:upload")
	_, err = bot.Workspaces.Lock(ctx, made.ID, tfe.WorkspaceLockOptions{})
	require.ErrorContains(t, err, "workspace:lock")
	_, err = bot.Organizations.Update(ctx, "acme", tfe.OrganizationUpdateOptions{Email: tfe.String("x@acme.test")})
	require.ErrorContains(t, err, "organization:settings")

	kind := tfe.AuditTrailToken
	trail, err := w.client.OrganizationTokens.CreateWithOptions(ctx, "acme", tfe.OrganizationTokenCreateOptions{TokenType: &kind})
	require.NoError(t, err)
	_, err = w.as(trail.Token).Organizations.Read(ctx, "acme")
	require.ErrorIs(t, err, tfe.ErrResourceNotFound, "it reads the audit trail and nothing else")
	_, err = bot.Organizations.Read(ctx, "acme")
	require.NoError(t, err, "the two kinds stand side by side")
	require.NoError(t, w.client.OrganizationTokens.Delete(ctx, "acme"))
	w.unauthorized(organization.Token, "the organization's token that was deleted")
	require.ErrorIs(t, w.client.OrganizationTokens.Delete(ctx, "acme"), tfe.ErrResourceNotFound)
}

// unauthorized asks who the token stands for and wants the answer for one that does not count.
func (w *world) unauthorized(token, why string) {
	w.Helper()
	request, err := http.NewRequestWithContext(w.Context(), http.MethodGet, w.url+"/api/v2/organizations/acme", nil)
	require.NoError(w, err)
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := http.DefaultClient.Do(request)
	require.NoError(w, err)
	require.NoError(w, response.Body.Close())
	assert.Equal(w, http.StatusUnauthorized, response.StatusCode, why)
}

func TestClientUserTokens(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	me, err := w.client.Users.ReadCurrent(ctx)
	require.NoError(t, err)
	tomorrow := time.Now().UTC().Truncate(time.Second).Add(24 * time.Hour)
	made, err := w.client.UserTokens.Create(ctx, me.ID, tfe.UserTokenCreateOptions{Description: "laptop", ExpiredAt: &tomorrow})
	require.NoError(t, err)
	assert.Equal(t, tomorrow, made.ExpiredAt)
	plain := made.Token
	made.Token = ""
	read, err := w.client.UserTokens.Read(ctx, made.ID)
	require.NoError(t, err)
	assert.Equal(t, made, read)
	yesterday := tomorrow.Add(-48 * time.Hour)
	_, err = w.client.UserTokens.Create(ctx, me.ID, tfe.UserTokenCreateOptions{ExpiredAt: &yesterday})
	require.ErrorContains(t, err, "must be in the future")

	_, err = w.as(w.bob).UserTokens.Read(ctx, made.ID)
	require.ErrorIs(t, err, tfe.ErrResourceNotFound)
	require.ErrorIs(t, w.as(w.bob).UserTokens.Delete(ctx, made.ID), tfe.ErrResourceNotFound)
	_, err = w.as(w.bob).UserTokens.List(ctx, me.ID)
	require.ErrorIs(t, err, tfe.ErrResourceNotFound)
	require.NoError(t, w.client.UserTokens.Delete(ctx, made.ID))
	w.unauthorized(plain, "a token that was deleted")
}

// Whoever may manage teams cannot make itself more than it is.
func TestNobodyGivesMoreThanItHas(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	managers := w.team("managers", &tfe.OrganizationAccessOptions{ManageTeams: tfe.Bool(true), ManageOrganizationAccess: tfe.Bool(true)})
	admins := w.team("admins", &tfe.OrganizationAccessOptions{ManageWorkspaces: tfe.Bool(true)})
	cat := w.member("cat", managers)

	_, err := cat.Teams.Update(ctx, managers.ID, tfe.TeamUpdateOptions{OrganizationAccess: &tfe.OrganizationAccessOptions{ManageWorkspaces: tfe.Bool(true)}})
	require.ErrorContains(t, err, "do not have")
	err = cat.TeamMembers.Add(ctx, admins.ID, tfe.TeamMemberAddOptions{Usernames: []string{"cat"}})
	require.ErrorContains(t, err, "do not have")
	_, err = cat.TeamTokens.Create(ctx, admins.ID)
	require.ErrorContains(t, err, "do not have")
	own, err := cat.Teams.Create(ctx, "acme", tfe.TeamCreateOptions{Name: tfe.String("own"), OrganizationAccess: &tfe.OrganizationAccessOptions{ManageTeams: tfe.Bool(true)}})
	require.NoError(t, err, "what it has it may give")
	found, err := cat.Teams.List(ctx, "acme", &tfe.TeamListOptions{Names: []string{"owners"}})
	require.NoError(t, err)
	for _, refusal := range []error{
		cat.TeamMembers.Add(ctx, found.Items[0].ID, tfe.TeamMemberAddOptions{Usernames: []string{"cat"}}),
		cat.TeamMembers.Remove(ctx, found.Items[0].ID, tfe.TeamMemberRemoveOptions{Usernames: []string{"ann"}}),
	} {
		require.ErrorContains(t, refusal, "Only an owner")
	}
	_, err = cat.TeamTokens.Create(ctx, found.Items[0].ID)
	require.ErrorContains(t, err, "Only an owner")

	project, err := w.client.Projects.Create(ctx, "acme", tfe.ProjectCreateOptions{Name: "core"})
	require.NoError(t, err)
	_, err = w.client.TeamProjectAccess.Add(ctx, tfe.TeamProjectAccessAddOptions{
		Access: tfe.TeamProjectAccessCustom, Team: managers, Project: project,
		ProjectAccess: &tfe.TeamProjectAccessProjectPermissionsOptions{Teams: tfe.ProjectTeamsPermission(tfe.ProjectTeamsPermissionManage)},
	})
	require.NoError(t, err)
	_, err = cat.TeamProjectAccess.Add(ctx, tfe.TeamProjectAccessAddOptions{Access: tfe.TeamProjectAccessAdmin, Team: own, Project: project})
	require.ErrorContains(t, err, "do not have")
}

// To make an owner takes more than a token, also by way of the team (RC-12's step-up).
func TestTheOwnersTeamTakesAStepUp(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	found, err := w.client.Teams.List(ctx, "acme", &tfe.TeamListOptions{Names: []string{"owners"}})
	require.NoError(t, err)
	owners := ids.Team(found.Items[0].ID)
	err = w.client.TeamMembers.Add(ctx, string(owners), tfe.TeamMemberAddOptions{Usernames: []string{"bob"}})
	require.ErrorContains(t, err, "second factor")
	_, err = w.client.TeamTokens.Create(ctx, string(owners))
	require.ErrorContains(t, err, "second factor")
	secret, _ := w.enrol("ann", w.ann)
	err = w.client.TeamMembers.Add(ctx, string(owners), tfe.TeamMemberAddOptions{Usernames: []string{"bob"}})
	require.ErrorContains(t, err, "Prove once more")
	w.stepUp(secret, w.ann)
	require.NoError(t, w.client.TeamMembers.Add(ctx, string(owners), tfe.TeamMemberAddOptions{Usernames: []string{"bob"}}))
	made, err := w.client.TeamTokens.Create(ctx, string(owners))
	require.NoError(t, err)
	require.ErrorContains(t, w.as(made.Token).TeamMembers.Add(ctx, string(owners), tfe.TeamMemberAddOptions{Usernames: []string{"bob"}}), "Only a person")
	require.NoError(t, w.deps.Accounts.AddTeamMembers(ctx, authz.System(), owners, accounts.TeamMembers{Usernames: []string{"bob"}}), "the host's operator needs none")
	bob, err := w.as(w.bob).Workspaces.Create(ctx, "acme", tfe.WorkspaceCreateOptions{Name: tfe.String("of-bob")})
	require.NoError(t, err)
	assert.True(t, bob.Permissions.CanDestroy)
	require.NoError(t, w.client.TeamMembers.Remove(ctx, string(owners), tfe.TeamMemberRemoveOptions{Usernames: []string{"bob"}}))
	require.ErrorContains(t, w.client.TeamMembers.Remove(ctx, string(owners), tfe.TeamMemberRemoveOptions{Usernames: []string{"ann"}}), "needs an owner")
}

// RC-10 and RC-11 on the wire: one right to recover without the other.
func TestRecoverIsACustomAccess(t *testing.T) {
	w := newWorld(t)
	team, ws := w.team("ops", nil), w.workspace("net")
	body := `{"data":{"type":"team-workspaces","attributes":{"access":"custom","run-recover":true},"relationships":{"team":{"data":{"type":"teams","id":"` + team.ID + `"}},"workspace":{"data":{"type":"workspaces","id":"` + ws.ID + `"}}}}}`
	reply := w.ask(w.ann, "POST", "/api/v2/team-workspaces", body)
	require.Equal(t, http.StatusCreated, reply.status, reply.body)
	assert.Equal(t, []any{"custom", "read", "none", true, false}, reply.attributes("access", "runs", "state-versions", "run-recover", "state-recover"))
	w.member("cat", team)
	actor := w.actorOf("cat")
	object := authz.Object{Organization: ids.Organization(w.externalID("acme")), Workspace: ids.Workspace(ws.ID), Noun: "workspace"}
	assert.True(t, authz.Can(actor, authz.RunRecover, object))
	assert.False(t, authz.Can(actor, authz.StateRecover, object))
}

func (w *world) externalID(organization string) string {
	w.Helper()
	o, err := w.client.Organizations.Read(w.Context(), organization)
	require.NoError(w, err)
	return o.ExternalID
}

func (w *world) actorOf(username string) authz.Actor {
	w.Helper()
	user, err := w.deps.Accounts.UserByName(w.Context(), authz.System(), username)
	require.NoError(w, err)
	token, _, err := w.deps.Accounts.CreateUserToken(w.Context(), authz.System(), user.ID, "", 0)
	require.NoError(w, err)
	actor, err := w.deps.Authenticate(w.Context(), token)
	require.NoError(w, err)
	return actor
}
