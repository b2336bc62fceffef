package tfeapi

// teamRoutes is the part of the surface that is about who may do what: teams, who
// belongs to them, what they may do, and tokens.
func (s *server) teamRoutes() []route {
	const (
		api          = "/api/v2/"
		organization = api + "organizations/{organization}"
		team         = api + "teams/{id}"
	)
	return []route{
		{method: get, path: organization + "/teams", handle: s.listTeams},
		{method: post, path: organization + "/teams", handle: s.createTeam},
		{method: get, path: team, handle: s.readTeam},
		{method: patch, path: team, handle: s.updateTeam},
		{method: del, path: team, handle: s.deleteTeam},
		{method: post, path: team + "/relationships/users", handle: s.addTeamUsers},
		{method: del, path: team + "/relationships/users", handle: s.removeTeamUsers},
		{method: post, path: team + "/relationships/organization-memberships", handle: s.addTeamMemberships},
		{method: del, path: team + "/relationships/organization-memberships", handle: s.removeTeamMemberships},

		{method: get, path: organization + "/organization-memberships", handle: s.listMemberships},
		{method: post, path: organization + "/organization-memberships", handle: s.createMembership},
		{method: get, path: api + "organization-memberships/{id}", handle: s.readMembership},
		{method: del, path: api + "organization-memberships/{id}", handle: s.deleteMembership},

		{method: get, path: api + "team-workspaces", handle: s.listTeamWorkspaces},
		{method: post, path: api + "team-workspaces", handle: s.createTeamWorkspace},
		{method: get, path: api + "team-workspaces/{id}", handle: s.readTeamWorkspace},
		{method: patch, path: api + "team-workspaces/{id}", handle: s.updateTeamWorkspace},
		{method: del, path: api + "team-workspaces/{id}", handle: s.deleteTeamWorkspace},
		{method: get, path: api + "team-projects", handle: s.listTeamProjects},
		{method: post, path: api + "team-projects", handle: s.createTeamProject},
		{method: get, path: api + "team-projects/{id}", handle: s.readTeamProject},
		{method: patch, path: api + "team-projects/{id}", handle: s.updateTeamProject},
		{method: del, path: api + "team-projects/{id}", handle: s.deleteTeamProject},

		{method: get, path: organization + "/authentication-token", handle: s.readOrganizationToken},
		{method: post, path: organization + "/authentication-token", handle: s.createOrganizationToken},
		{method: del, path: organization + "/authentication-token", handle: s.deleteOrganizationToken},
		{method: get, path: organization + "/team-tokens", handle: s.listTeamTokens},
		{method: get, path: team + "/authentication-token", handle: s.readTeamToken},
		{method: post, path: team + "/authentication-token", handle: s.createTeamToken},
		{method: del, path: team + "/authentication-token", handle: s.deleteTeamToken},
		{method: get, path: team + "/authentication-tokens", handle: s.listTokensOfTeam},
		{method: post, path: team + "/authentication-tokens", handle: s.createTeamToken},
		{method: get, path: api + "users/{id}/authentication-tokens", handle: s.listUserTokens},
		{method: post, path: api + "users/{id}/authentication-tokens", handle: s.createUserToken},
		{method: get, path: api + "authentication-tokens/{id}", handle: s.readToken},
		{method: del, path: api + "authentication-tokens/{id}", handle: s.deleteToken},
	}
}
