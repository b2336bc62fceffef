package tfeapi

import (
	"strings"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
)

// teamView is a team on the wire.
type teamView struct {
	ID                         string          `jsonapi:"primary,teams"`
	Name                       string          `jsonapi:"attr,name"`
	SSOTeamID                  *string         `jsonapi:"attr,sso-team-id"`
	UsersCount                 int             `jsonapi:"attr,users-count"`
	Visibility                 string          `jsonapi:"attr,visibility"`
	AllowMemberTokenManagement bool            `jsonapi:"attr,allow-member-token-management"`
	OrganizationAccess         map[string]bool `jsonapi:"attr,organization-access"`
	Permissions                teamPermissions `jsonapi:"attr,permissions"`
	related                    relations
}

type teamPermissions struct {
	CanDestroy                  bool `json:"can-destroy"`
	CanUpdateMembership         bool `json:"can-update-membership"`
	CanUpdateOrganizationAccess bool `json:"can-update-organization-access"`
	CanUpdateAPIToken           bool `json:"can-update-api-token"`
	CanUpdateVisibility         bool `json:"can-update-visibility"`
	CanUpdateName               bool `json:"can-update-name"`
	CanUpdateSSOTeamID          bool `json:"can-update-sso-team-id"`
	CanUpdateTokenManagement    bool `json:"can-update-member-token-management"`
	CanViewAPIToken             bool `json:"can-view-api-token"`
}

func (v *teamView) relations() relations { return v.related }

func newTeamView(actor authz.Actor, t accounts.Team) *teamView {
	can := func(action authz.Action) bool {
		return authz.Can(actor, action, authz.Object{Organization: t.Organization})
	}
	access := make(map[string]bool, len(accounts.OrganizationAccess))
	for _, name := range accounts.OrganizationAccess {
		access[name] = t.IsOwners
	}
	for _, name := range t.Access {
		access[name] = true
	}
	owner := actor.IsOwner(t.Organization)
	users, memberships := make([]ref, 0, len(t.Users)), make([]ref, 0, len(t.Memberships))
	for _, user := range t.Users {
		users = append(users, ref{"users", string(user)})
	}
	for _, membership := range t.Memberships {
		memberships = append(memberships, ref{"organization-memberships", string(membership)})
	}
	return &teamView{
		ID: string(t.ID), Name: t.Name, SSOTeamID: t.SSOTeamID, UsersCount: len(t.Users), Visibility: t.Visibility,
		AllowMemberTokenManagement: t.AllowMemberTokenManagement, OrganizationAccess: access,
		Permissions: teamPermissions{
			CanDestroy: can(authz.TeamsManage) && !t.IsOwners, CanUpdateMembership: can(authz.MembershipManage) && (owner || !t.IsOwners),
			CanUpdateOrganizationAccess: can(authz.TeamsAccess) && !t.IsOwners, CanUpdateAPIToken: owner || (can(authz.TeamsManage) && !t.IsOwners),
			CanUpdateVisibility: can(authz.TeamsManage), CanUpdateSSOTeamID: can(authz.TeamsManage), CanUpdateTokenManagement: can(authz.TeamsManage),
			CanViewAPIToken: owner || (can(authz.TeamsManage) && !t.IsOwners), CanUpdateName: can(authz.TeamsManage) && !t.IsOwners,
		},
		related: relations{"organization": ref{"organizations", t.OrganizationName}, "users": users, "organization-memberships": memberships},
	}
}

// teamIncludes gives what belongs to the teams in full when it is asked for, with as many
// statements for many teams as for one.
func (s *server) teamIncludes(r *request, teams ...accounts.Team) (included []view, err error) {
	var users []ids.User
	var memberships []ids.Membership
	for _, t := range teams {
		users, memberships = append(users, t.Users...), append(memberships, t.Memberships...)
	}
	if r.includes()["users"] {
		if included, err = s.userViews(r, users); err != nil {
			return nil, err
		}
	}
	if r.includes()["organization-memberships"] {
		list, err := s.Accounts.ShowMemberships(r.ctx, r.actor, memberships)
		if err != nil {
			return nil, err
		}
		for _, m := range list {
			included = append(included, newMembershipView(m))
		}
	}
	return included, nil
}

// userViews draws users who are named by something that the actor sees.
func (s *server) userViews(r *request, users []ids.User) ([]view, error) {
	found, err := s.Accounts.ShowUsers(r.ctx, users)
	if err != nil {
		return nil, err
	}
	drawn := make([]view, 0, len(found))
	for _, u := range found {
		drawn = append(drawn, newUserView(r.actor, u))
	}
	return drawn, nil
}

func (s *server) listTeams(r *request) (answer, error) {
	p, err := parsePaging(r.query)
	if err != nil {
		return answer{}, err
	}
	filter := accounts.TeamFilter{Names: commaList(r.query, "filter[names]"), Query: r.query.Get("q"), Page: p.page()}
	list, total, err := s.Accounts.Teams(r.ctx, r.actor, r.vars["organization"], filter)
	if err != nil {
		return answer{}, err
	}
	items := make([]*teamView, 0, len(list))
	for _, t := range list {
		items = append(items, newTeamView(r.actor, t))
	}
	included, err := s.teamIncludes(r, list...)
	return page(items, p, total, included...), err
}

type teamAttributes struct {
	Name                       Opt[string]          `json:"name"`
	SSOTeamID                  Opt[string]          `json:"sso-team-id"`
	Visibility                 Opt[string]          `json:"visibility"`
	AllowMemberTokenManagement Opt[bool]            `json:"allow-member-token-management"`
	OrganizationAccess         Opt[map[string]bool] `json:"organization-access"`
}

func readTeamSettings(r *request) (said accounts.TeamSettings, err error) {
	body, err := r.body()
	if err != nil {
		return said, err
	}
	in, err := decode[teamAttributes](body, "teams")
	if err != nil {
		return said, err
	}
	a := in.Attributes
	said = accounts.TeamSettings{
		Name: a.Name.Pointer(), Visibility: a.Visibility.Pointer(), AllowMemberTokenManagement: a.AllowMemberTokenManagement.Pointer(),
		SSOTeamID: a.SSOTeamID.Pointer(), Access: a.OrganizationAccess.Value,
	}
	if a.SSOTeamID.Null {
		none := ""
		said.SSOTeamID = &none
	}
	return said, nil
}

func (s *server) createTeam(r *request) (answer, error) {
	said, err := readTeamSettings(r)
	if err != nil {
		return answer{}, err
	}
	t, err := s.Accounts.CreateTeam(r.ctx, r.actor, r.vars["organization"], said)
	return created(newTeamView(r.actor, t)), err
}

func (s *server) readTeam(r *request) (answer, error) {
	team, err := id[ids.Team](r)
	if err != nil {
		return answer{}, err
	}
	t, err := s.Accounts.Team(r.ctx, r.actor, team)
	if err != nil {
		return answer{}, err
	}
	included, err := s.teamIncludes(r, t)
	return ok(newTeamView(r.actor, t), included...), err
}

func (s *server) updateTeam(r *request) (answer, error) {
	team, err := id[ids.Team](r)
	if err != nil {
		return answer{}, err
	}
	said, err := readTeamSettings(r)
	if err != nil {
		return answer{}, err
	}
	t, err := s.Accounts.UpdateTeam(r.ctx, r.actor, team, said)
	return ok(newTeamView(r.actor, t)), err
}

func (s *server) deleteTeam(r *request) (answer, error) {
	team, err := id[ids.Team](r)
	if err != nil {
		return answer{}, err
	}
	return noContent(), s.Accounts.DeleteTeam(r.ctx, r.actor, team)
}

func (s *server) addTeamUsers(r *request) (answer, error) {
	team, who, err := readTeamUsers(r)
	if err != nil {
		return answer{}, err
	}
	return noContent(), s.Accounts.AddTeamMembers(r.ctx, r.actor, team, who)
}

func (s *server) removeTeamUsers(r *request) (answer, error) {
	team, who, err := readTeamUsers(r)
	if err != nil {
		return answer{}, err
	}
	return noContent(), s.Accounts.RemoveTeamMembers(r.ctx, r.actor, team, who)
}

// readTeamUsers reads a list of users, whose ids here are their names.
func readTeamUsers(r *request) (team ids.Team, who accounts.TeamMembers, err error) {
	if team, err = id[ids.Team](r); err != nil {
		return team, who, err
	}
	body, err := r.body()
	if err != nil {
		return team, who, err
	}
	items, err := decodeMany[struct{}](body, "users", "")
	if err != nil {
		return team, who, err
	}
	for _, item := range items {
		who.Usernames = append(who.Usernames, strings.TrimSpace(item.ID))
	}
	if len(items) == 0 {
		return team, who, fault.New(fault.Malformed, "malformed", "The document names none of the users.").At("/data")
	}
	return team, who, nil
}

func (s *server) addTeamMemberships(r *request) (answer, error) {
	team, who, err := readTeamMemberships(r)
	if err != nil {
		return answer{}, err
	}
	return noContent(), s.Accounts.AddTeamMembers(r.ctx, r.actor, team, who)
}

func (s *server) removeTeamMemberships(r *request) (answer, error) {
	team, who, err := readTeamMemberships(r)
	if err != nil {
		return answer{}, err
	}
	return noContent(), s.Accounts.RemoveTeamMembers(r.ctx, r.actor, team, who)
}

func readTeamMemberships(r *request) (team ids.Team, who accounts.TeamMembers, err error) {
	if team, err = id[ids.Team](r); err != nil {
		return team, who, err
	}
	who.Memberships, err = identifiers[ids.Membership](r, "organization-memberships")
	return team, who, err
}
