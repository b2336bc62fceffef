package accounts

import (
	"context"
	"strings"

	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// Authenticate gives the actor behind a token of a user, team or organization, with all
// it may do. A token that is unknown, expired or revoked is Unauthenticated; the answer
// does not say which.
func (s *Service) Authenticate(ctx context.Context, token string) (authz.Actor, error) {
	if !wellFormed(token, userPrefix) && !wellFormed(token, teamPrefix) && !wellFormed(token, orgPrefix) {
		return authz.Actor{}, unauthenticated()
	}
	return s.actor(ctx, "accounts.authenticate", "TokenActor", token, unauthenticated())
}

// ActorOf gives a user, or the account of a team, with the rights it has now, for an act
// that was asked for earlier and happens in its name. Who was deactivated since has none.
func ActorOf(ctx context.Context, tx postgres.Tx, user ids.User) (authz.Actor, error) {
	found, err := postgres.One[actorRow](ctx, tx, queries.Get("UserActor"), postgres.Args{"user_id": user})
	if postgres.NoRow(err) {
		return authz.Actor{}, fault.Missing("user", string(user))
	}
	if found.Deactivated {
		return authz.Actor{Kind: authz.UserActor, User: found.UserID, Name: found.Username}, err
	}
	return found.actor(), err
}

// actor gives the one whom the named statement finds by a secret's digest, or otherwise.
func (s *Service) actor(ctx context.Context, name, query, secret string, otherwise error) (authz.Actor, error) {
	var found actorRow
	err := postgres.InOneStatement(ctx, s.db, name, func(tx postgres.Tx) (err error) {
		found, err = postgres.One[actorRow](ctx, tx, queries.Get(query), postgres.Args{"hash": digest(secret)})
		if postgres.NoRow(err) {
			return otherwise
		}
		return err
	})
	if err != nil {
		return authz.Actor{}, err
	}
	return found.actor(), nil
}

// actorRow is an actor as one statement gives it: who it is, its roles, and a row for
// each thing that its teams give.
type actorRow struct {
	UserID             ids.User
	Username           string
	SiteAdmin          bool
	ServiceAccount     bool
	Deactivated        bool // found by what it is, not by what it shows
	Organizations      []ids.Organization
	Roles              []authz.Role
	GrantOrganizations []ids.Organization
	GrantScopes        []string
	GrantLevels        []string
	Barred             []ids.Organization
	Token              ids.Token // empty when it was none that showed who asks
	TokenKind          TokenKind
	Team               ids.Team
	TeamName           string
	Organization       ids.Organization
	OrganizationName   string
}

func (r actorRow) actor() authz.Actor {
	a := authz.Actor{Kind: authz.UserActor, User: r.UserID, Name: r.Username, SiteAdmin: r.SiteAdmin, Roles: r.roles(), Grants: r.grants(), Token: r.Token}
	for _, org := range r.Barred {
		if a.Barred == nil {
			a.Barred = map[ids.Organization]bool{}
		}
		a.Barred[org] = true
		delete(a.Roles, org)
		delete(a.Grants, org)
	}
	switch {
	case r.ServiceAccount: // of a team that may be gone, and then it has no rights
		a.Kind, a.Team, a.Name = authz.TeamActor, r.Team, r.TeamName
	case r.TokenKind == OrganizationToken || r.TokenKind == AuditToken:
		level := map[TokenKind]authz.Level{OrganizationToken: authz.OrganizationToken, AuditToken: authz.AuditToken}[r.TokenKind]
		a.Kind, a.Organization, a.Name = authz.OrganizationActor, r.Organization, r.OrganizationName
		a.Grants = map[ids.Organization]authz.Grants{r.Organization: {Levels: []authz.Level{level}}}
	}
	return a
}

func (r actorRow) roles() map[ids.Organization]authz.Role {
	roles := make(map[ids.Organization]authz.Role, len(r.Organizations))
	for i, org := range r.Organizations {
		roles[org] = r.Roles[i]
	}
	return roles
}

// grants sorts the rows by what their scope is the id of; nil when there are none.
func (r actorRow) grants() map[ids.Organization]authz.Grants {
	if len(r.GrantScopes) == 0 {
		return nil
	}
	all := map[ids.Organization]authz.Grants{}
	for i, org := range r.GrantOrganizations {
		g, scope, levels := all[org], r.GrantScopes[i], authz.ParseLevels(r.GrantLevels[i])
		switch {
		case strings.HasPrefix(scope, "team-"):
			g.Teams = append(g.Teams, ids.Team(scope))
			for _, access := range strings.Fields(r.GrantLevels[i]) {
				g.Levels = append(g.Levels, authz.Level("organization:"+access))
			}
		case strings.HasPrefix(scope, "prj-"):
			if g.Projects == nil {
				g.Projects = map[ids.Project][]authz.Level{}
			}
			g.Projects[ids.Project(scope)] = append(g.Projects[ids.Project(scope)], levels...)
		default:
			if g.Workspaces == nil {
				g.Workspaces = map[ids.Workspace][]authz.Level{}
			}
			g.Workspaces[ids.Workspace(scope)] = append(g.Workspaces[ids.Workspace(scope)], levels...)
		}
		all[org] = g
	}
	return all
}
