package accounts

import (
	"context"
	"regexp"
	"slices"

	"github.com/holdfast-run/holdfast/audit"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// Team is a group of members of an organization with rights of its own. The owners team
// has all rights and is always there.
type Team struct {
	ID                         ids.Team
	Organization               ids.Organization
	OrganizationName           string
	Name                       string
	IsOwners                   bool
	Provisioned                bool   // its members come from an identity provider alone
	Visibility                 string // VisibleSecret or VisibleOrganization
	AllowMemberTokenManagement bool   // its members may make its tokens
	SSOTeamID                  *string
	Access                     []string // what it may do in the whole organization, such as "manage-workspaces"
	ServiceUser                ids.User // the account in whose name its tokens work; empty before the first token
	Users                      []ids.User
	Memberships                []ids.Membership // also of those who are only invited
}

// Who sees a team: its members and those who manage teams, or everybody in the organization.
const (
	VisibleSecret       = "secret"
	VisibleOrganization = "organization"
)

// OrganizationAccess lists what a team may be allowed in its whole organization, by the
// names of the API. Each is a level of authz with "organization:" before it.
var OrganizationAccess = []string{
	"manage-policies", "manage-policy-overrides", "delegate-policy-overrides", "manage-workspaces", "manage-projects", "read-workspaces",
	"read-projects", "manage-vcs-settings", "manage-providers", "manage-modules", "manage-run-tasks", "manage-membership", "manage-teams",
	"manage-organization-access", "access-secret-teams", "manage-agent-pools",
}

func (t Team) object() authz.Object {
	return authz.Object{Organization: t.Organization, Noun: "team", Name: string(t.ID)}
}

// visibleTo tells whether the actor may know that the team is there.
func (t Team) visibleTo(actor authz.Actor) bool {
	if !authz.Can(actor, authz.OrganizationRead, t.object()) {
		return false
	}
	return t.Visibility == VisibleOrganization || actor.InTeam(t.Organization, t.ID) || seesSecretTeams(actor, t.Organization)
}

func seesSecretTeams(actor authz.Actor, org ids.Organization) bool {
	object := authz.Object{Organization: org}
	return authz.Can(actor, authz.TeamsReadSecret, object) || authz.Can(actor, authz.TeamsManage, object)
}

// TeamSettings are what a team can be told. nil means: not said. Access holds only what
// is said about each name.
type TeamSettings struct {
	Name                       *string
	Visibility                 *string
	AllowMemberTokenManagement *bool
	SSOTeamID                  *string // empty takes it away
	Access                     map[string]bool
}

var teamName = regexp.MustCompile(`^[A-Za-z0-9_ -]{1,255}$`)

func (n TeamSettings) check() error {
	if n.Name != nil && !teamName.MatchString(*n.Name) {
		return Invalid("name", "Name may only contain letters, numbers, spaces, - and _, at most 255 of them")
	}
	if n.Visibility != nil && *n.Visibility != VisibleSecret && *n.Visibility != VisibleOrganization {
		return Invalid("visibility", "Visibility must be %s or %s", VisibleSecret, VisibleOrganization)
	}
	for name := range n.Access {
		if !slices.Contains(OrganizationAccess, name) {
			return Invalid("organization-access", "Organization access %q is not known", name)
		}
	}
	if n.SSOTeamID != nil {
		return CheckText("sso-team-id", "SSO team id", *n.SSOTeamID, 255)
	}
	return nil
}

// changed gives the access that results, in the order of OrganizationAccess.
func (n TeamSettings) changed(before []string) []string {
	after := []string{}
	for _, name := range OrganizationAccess {
		said, ok := n.Access[name]
		if said || (!ok && slices.Contains(before, name)) {
			after = append(after, name)
		}
	}
	return after
}

func (n TeamSettings) args(id ids.Team, access []string) postgres.Args {
	return postgres.Args{
		"id": id, "name": n.Name, "visibility": n.Visibility, "allow_member_token_management": n.AllowMemberTokenManagement, "sso_team_id": n.SSOTeamID, "access": access,
	}
}

// CreateTeam makes a team without members. A name in use or against the rule is Invalid.
// What the team may do in the whole organization is said only by those who may say it
// (TeamsAccess), and never more than the actor may do itself (ER-10).
func (s *Service) CreateTeam(ctx context.Context, actor authz.Actor, organization string, n TeamSettings) (Team, error) {
	var team Team
	err := postgres.InTx(ctx, s.db, "accounts.create-team", func(tx postgres.Tx) error {
		org, err := AllowedOrganization(ctx, tx, actor, authz.TeamsManage, organization)
		if err != nil {
			return err
		}
		if n.Name == nil {
			return Invalid("name", "Name can't be blank")
		}
		if err := n.check(); err != nil {
			return err
		}
		access := n.changed(nil)
		if err := mayGiveAccess(actor, org.ID, nil, access); err != nil {
			return err
		}
		id := ids.New[ids.Team]()
		args := n.args(id, access)
		args["organization_id"] = org.ID
		_, err = postgres.Exec(ctx, tx, queries.Get("TeamInsert"), args)
		if violates(err, "teams_name") {
			return Taken("name", "Name")
		}
		if err != nil {
			return err
		}
		if err := auditTeam(ctx, tx, actor, org.ID, id, "team.created", map[string]any{"name": *n.Name, "access": access}); err != nil {
			return err
		}
		team, err = loadTeam(ctx, tx, id)
		return err
	})
	return team, err
}

// UpdateTeam changes what is said and leaves the rest. It is refused like CreateTeam. The
// owners team keeps its name and its rights: to change them is Invalid.
func (s *Service) UpdateTeam(ctx context.Context, actor authz.Actor, id ids.Team, n TeamSettings) (Team, error) {
	var team Team
	err := postgres.InTx(ctx, s.db, "accounts.update-team", func(tx postgres.Tx) error {
		before, err := lockTeam(ctx, tx, actor, id)
		if err != nil {
			return err
		}
		access := n.changed(before.Access)
		granting := !slices.Equal(access, before.Access)
		settings := n.Name != nil || n.Visibility != nil || n.AllowMemberTokenManagement != nil || n.SSOTeamID != nil
		if settings || !granting {
			if err := authz.Allow(actor, authz.TeamsManage, before.object()); err != nil {
				return err
			}
		}
		if err := n.check(); err != nil {
			return err
		}
		if before.IsOwners {
			if err := onlyOwners(actor, before.Organization, "change the owners team"); err != nil {
				return err
			}
			if (n.Name != nil && *n.Name != before.Name) || granting {
				return Invalid("name", "The owners team has all rights and keeps its name")
			}
		}
		if err := mayGiveAccess(actor, before.Organization, before.Access, access); err != nil {
			return err
		}
		_, err = postgres.Exec(ctx, tx, queries.Get("TeamUpdate"), n.args(id, access))
		if violates(err, "teams_name") {
			return Taken("name", "Name")
		}
		if err != nil {
			return err
		}
		if err := auditTeam(ctx, tx, actor, before.Organization, id, "team.updated", map[string]any{"access_before": before.Access, "access": access}); err != nil {
			return err
		}
		team, err = loadTeam(ctx, tx, id)
		return err
	})
	return team, err
}

// mayGiveAccess asks whether actor may change what a team may do in the organization.
// Nobody but an owner gives what it does not have; the organization's own token is as
// free as in Terraform Cloud.
func mayGiveAccess(actor authz.Actor, org ids.Organization, before, after []string) error {
	if slices.Equal(before, after) {
		return nil
	}
	if err := authz.Allow(actor, authz.TeamsAccess, authz.Object{Organization: org, Noun: "organization", Name: string(org)}); err != nil {
		return err
	}
	added := slices.DeleteFunc(slices.Clone(after), func(name string) bool { return slices.Contains(before, name) })
	return noMoreThanOwn(actor, org, added)
}

// noMoreThanOwn refuses access that the actor does not have itself.
func noMoreThanOwn(actor authz.Actor, org ids.Organization, access []string) error {
	if actor.IsOwner(org) || actor.Kind == authz.OrganizationActor {
		return nil
	}
	for _, name := range access {
		if missing := authz.Beyond(actor, []authz.Level{authz.Level("organization:" + name)}, authz.Object{Organization: org}); missing != "" {
			return fault.New(fault.Forbidden, "forbidden", "You cannot give or join %s, because you do not have %s yourself. Ask an owner of the organization for it.", name, missing)
		}
	}
	return nil
}

// DeleteTeam takes a team away with its rights and its tokens. The owners team stays, and one that an
// approval rule names is Conflict "team_reviews".
func (s *Service) DeleteTeam(ctx context.Context, actor authz.Actor, id ids.Team) error {
	return postgres.InTx(ctx, s.db, "accounts.delete-team", func(tx postgres.Tx) error {
		team, err := lockTeam(ctx, tx, actor, id)
		if err != nil {
			return err
		}
		if err := authz.Allow(actor, authz.TeamsManage, team.object()); err != nil {
			return err
		}
		if team.IsOwners {
			return fault.New(fault.Conflict, "owners_team", "The owners team cannot be deleted.")
		}
		if err := refuseReviewers(ctx, tx, actor, team); err != nil {
			return err
		}
		if err := auditTeam(ctx, tx, actor, team.Organization, id, "team.deleted", map[string]any{"name": team.Name}); err != nil {
			return err
		}
		_, err = postgres.Exec(ctx, tx, queries.Get("TeamDelete"), postgres.Args{"id": id})
		return err
	})
}

// Team gives a team that the actor sees.
func (s *Service) Team(ctx context.Context, actor authz.Actor, id ids.Team) (Team, error) {
	var team Team
	err := postgres.InOneStatement(ctx, s.db, "accounts.team", func(tx postgres.Tx) (err error) {
		team, err = VisibleTeam(ctx, tx, actor, id)
		return err
	})
	return team, err
}

// TeamFilter selects teams. Names are exact; Query is a part of the name in any case.
type TeamFilter struct {
	Names []string
	Query string
	Page  Page
}

// Teams gives the organization's teams that the actor sees, by name, and how many
// match in all.
func (s *Service) Teams(ctx context.Context, actor authz.Actor, organization string, filter TeamFilter) (teams []Team, total int, err error) {
	err = postgres.InSnapshot(ctx, s.db, "accounts.teams", func(tx postgres.Tx) error {
		org, err := AllowedOrganization(ctx, tx, actor, authz.OrganizationRead, organization)
		if err != nil || !Storable(filter.Query) || slices.ContainsFunc(filter.Names, func(n string) bool { return !Storable(n) }) {
			return err
		}
		own := append([]ids.Team{}, actor.Grants[org.ID].Teams...)
		args := postgres.Args{
			"organization_id": org.ID, "secret": seesSecretTeams(actor, org.ID), "own": own, "names": append([]string{}, filter.Names...), "query": filter.Query,
			"limit": filter.Page.Limit(), "offset": filter.Page.Offset(),
		}
		if teams, err = postgres.All[Team](ctx, tx, queries.Get("Teams"), args); err != nil {
			return err
		}
		total, err = postgres.Value[int](ctx, tx, queries.Get("TeamsCount"), args)
		return err
	})
	return teams, total, err
}

func loadTeam(ctx context.Context, tx postgres.Tx, id ids.Team) (Team, error) {
	team, err := postgres.One[Team](ctx, tx, queries.Get("TeamByID"), postgres.Args{"id": id})
	if postgres.NoRow(err) {
		return Team{}, fault.Missing("team", string(id))
	}
	return team, err
}

// VisibleTeam gives a team the actor sees; any other is NotFound.
func VisibleTeam(ctx context.Context, tx postgres.Tx, actor authz.Actor, id ids.Team) (Team, error) {
	team, err := loadTeam(ctx, tx, id)
	if err != nil {
		return Team{}, err
	}
	if !team.visibleTo(actor) {
		return Team{}, fault.Missing("team", string(id))
	}
	return team, nil
}

// lockTeam is VisibleTeam, with the team's row locked before it is read.
func lockTeam(ctx context.Context, tx postgres.Tx, actor authz.Actor, id ids.Team) (Team, error) {
	if _, err := postgres.Values[ids.Team](ctx, tx, queries.Get("TeamLock"), postgres.Args{"id": id}); err != nil {
		return Team{}, err
	}
	return VisibleTeam(ctx, tx, actor, id)
}

func auditTeam(ctx context.Context, tx postgres.Tx, actor authz.Actor, org ids.Organization, id ids.Team, action string, details map[string]any) error {
	return audit.Append(ctx, tx, audit.Entry{Organization: org, Actor: actor, Action: action, ObjectKind: "team", ObjectID: string(id), Details: details})
}
