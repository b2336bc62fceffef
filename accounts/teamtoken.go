package accounts

import (
	"context"

	"github.com/holdfast-run/holdfast/audit"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// CreateTeamToken makes a token that acts as the team and gives its plain text, which
// cannot be had again. Without a description it takes the place of the one before; with
// one, that must be the team's only token of that description. For those who manage
// teams and, where the team says so, its members. A token of the owners team makes
// whoever has it an owner: only for owners, stepped up as for AddMember.
func (s *Service) CreateTeamToken(ctx context.Context, actor authz.Actor, id ids.Team, n NewToken) (plain string, token Token, err error) {
	if err := n.check(); err != nil {
		return "", Token{}, err
	}
	err = postgres.InTx(ctx, s.db, "accounts.create-team-token", func(tx postgres.Tx) error {
		team, err := lockTeam(ctx, tx, actor, id)
		if err != nil {
			return err
		}
		if err := s.mayIssueFor(ctx, tx, actor, team); err != nil {
			return err
		}
		account := postgres.Args{"id": id, "user_id": ids.New[ids.User](), "username": "api-" + string(id)}
		if _, err := postgres.Exec(ctx, tx, queries.Get("TeamServiceUser"), account); err != nil {
			return err
		}
		if n.Description == "" {
			if _, err := postgres.Exec(ctx, tx, queries.Get("TeamTokenReplace"), postgres.Args{"team_id": id}); err != nil {
				return err
			}
		}
		plain, token, err = insertToken(ctx, tx, actor, Token{Kind: TeamToken, Organization: team.Organization, Team: id}, n)
		if violates(err, "tokens_team_description") {
			return fault.New(fault.Invalid, "invalid_attributes", "Validation failed: Description has already been taken").At("/data/attributes/description")
		}
		return err
	})
	if err != nil {
		return "", Token{}, err
	}
	return plain, token, nil
}

// mayIssueFor asks whether the actor may make and take away the team's tokens.
func (s *Service) mayIssueFor(ctx context.Context, tx postgres.Tx, actor authz.Actor, team Team) error {
	if team.IsOwners {
		if err := onlyOwners(actor, team.Organization, "make a token of the owners team"); err != nil {
			return err
		}
		return s.demandStepUp(ctx, tx, actor)
	}
	if err := mayManageTokens(actor, team); err != nil {
		return err
	}
	return noMoreThanOwn(actor, team.Organization, team.Access)
}

func mayManageTokens(actor authz.Actor, team Team) error {
	if team.AllowMemberTokenManagement && actor.IsPerson() && actor.InTeam(team.Organization, team.ID) {
		return nil
	}
	if team.IsOwners {
		return onlyOwners(actor, team.Organization, "see the tokens of the owners team")
	}
	return authz.Allow(actor, authz.TeamsManage, team.object())
}

// TeamToken gives the team's token without a description. None is NotFound.
func (s *Service) TeamToken(ctx context.Context, actor authz.Actor, id ids.Team) (token Token, err error) {
	err = postgres.InSnapshot(ctx, s.db, "accounts.team-token", func(tx postgres.Tx) error {
		token, err = plainTeamToken(ctx, tx, actor, id)
		return err
	})
	return token, err
}

func plainTeamToken(ctx context.Context, tx postgres.Tx, actor authz.Actor, id ids.Team) (Token, error) {
	team, err := VisibleTeam(ctx, tx, actor, id)
	if err != nil {
		return Token{}, err
	}
	if err := mayManageTokens(actor, team); err != nil {
		return Token{}, err
	}
	token, err := postgres.One[Token](ctx, tx, queries.Get("TeamTokenPlain"), postgres.Args{"team_id": id})
	if postgres.NoRow(err) {
		return Token{}, fault.Missing("token of team", string(id))
	}
	return token, err
}

// RevokeTeamToken ends the team's token without a description at once.
func (s *Service) RevokeTeamToken(ctx context.Context, actor authz.Actor, id ids.Team) error {
	return postgres.InTx(ctx, s.db, "accounts.revoke-team-token", func(tx postgres.Tx) error {
		token, err := plainTeamToken(ctx, tx, actor, id)
		if err != nil {
			return err
		}
		return endToken(ctx, tx, actor, token)
	})
}

// TeamTokensOf gives the team's tokens that count, the newest first, and how many there are.
func (s *Service) TeamTokensOf(ctx context.Context, actor authz.Actor, id ids.Team, page Page) (tokens []Token, total int, err error) {
	err = postgres.InSnapshot(ctx, s.db, "accounts.tokens-of-team", func(tx postgres.Tx) error {
		team, err := VisibleTeam(ctx, tx, actor, id)
		if err != nil {
			return err
		}
		if err := mayManageTokens(actor, team); err != nil {
			return err
		}
		args := postgres.Args{"team_id": id, "limit": page.Limit(), "offset": page.Offset()}
		if tokens, err = postgres.All[Token](ctx, tx, queries.Get("TeamTokensOf"), args); err != nil {
			return err
		}
		total, err = postgres.Value[int](ctx, tx, queries.Get("TeamTokensOfCount"), args)
		return err
	})
	return tokens, total, err
}

// TeamTokenFilter selects tokens of teams. Query is a part of the team's name in any case; Sort
// is team-name, created-by or expired-at, or one of them with - before it. Expiries leaves those
// of one of these; without it they are those that count.
type TeamTokenFilter struct {
	Query, Sort string
	Expiries    []Expiry
	Page        Page
}

// Expiry is what the date on a token means now. A token may be of several.
type Expiry string

// Expiries are all that there are. Only a token that was not revoked is of one.
var Expiries = []Expiry{"active", "expiring_in_7_days", "expiring_in_30_days", "expired", "no_expiration"}

// TeamTokens gives the tokens of the organization's teams that count, or those of the wanted
// expiry: of all teams for who manages teams, else of the actor's own.
func (s *Service) TeamTokens(ctx context.Context, actor authz.Actor, organization string, filter TeamTokenFilter) (tokens []Token, total int, err error) {
	err = postgres.InSnapshot(ctx, s.db, "accounts.team-tokens", func(tx postgres.Tx) error {
		org, err := AllowedOrganization(ctx, tx, actor, authz.OrganizationRead, organization)
		if err != nil || !Storable(filter.Query) {
			return err
		}
		args := postgres.Args{
			"organization_id": org.ID, "all": authz.Can(actor, authz.TeamsManage, authz.Object{Organization: org.ID}), "own": append([]ids.Team{}, actor.Grants[org.ID].Teams...),
			"query": filter.Query, "sort": filter.Sort, "expiries": append([]Expiry{}, filter.Expiries...), "limit": filter.Page.Limit(), "offset": filter.Page.Offset(),
		}
		if tokens, err = postgres.All[Token](ctx, tx, queries.Get("TeamTokens"), args); err != nil {
			return err
		}
		total, err = postgres.Value[int](ctx, tx, queries.Get("TeamTokensCount"), args)
		return err
	})
	return tokens, total, err
}

// Token gives a token of a user or team by its id. One the actor has nothing to do
// with is NotFound.
func (s *Service) Token(ctx context.Context, actor authz.Actor, id ids.Token) (token Token, err error) {
	err = postgres.InSnapshot(ctx, s.db, "accounts.token", func(tx postgres.Tx) error {
		token, err = allowedToken(ctx, tx, actor, id)
		return err
	})
	return token, err
}

// RevokeToken ends a token of a user or team at once. It is refused like Token.
func (s *Service) RevokeToken(ctx context.Context, actor authz.Actor, id ids.Token) error {
	return postgres.InTx(ctx, s.db, "accounts.revoke-any-token", func(tx postgres.Tx) error {
		token, err := allowedToken(ctx, tx, actor, id)
		if err != nil {
			return err
		}
		return endToken(ctx, tx, actor, token)
	})
}

func allowedToken(ctx context.Context, tx postgres.Tx, actor authz.Actor, id ids.Token) (Token, error) {
	missing := fault.Missing("authentication token", string(id))
	token, err := postgres.One[Token](ctx, tx, queries.Get("TokenByID"), postgres.Args{"id": id})
	if postgres.NoRow(err) {
		return Token{}, missing
	}
	if err != nil {
		return Token{}, err
	}
	switch token.Kind {
	case UserToken:
		err = allowSelf(actor, token.User, "")
	case TeamToken:
		var team Team
		if team, err = VisibleTeam(ctx, tx, actor, token.Team); err == nil {
			err = mayManageTokens(actor, team)
		}
	default:
		err = authz.Allow(actor, authz.OrganizationTokens, authz.Object{Organization: token.Organization})
	}
	if fault.Is(err, fault.NotFound) || fault.Is(err, fault.Forbidden) { // that the token is there is a secret
		return Token{}, missing
	}
	return token, err
}

func endToken(ctx context.Context, tx postgres.Tx, actor authz.Actor, token Token) error {
	n, err := postgres.Exec(ctx, tx, queries.Get("TokenEnd"), postgres.Args{"id": token.ID})
	if err != nil {
		return err
	}
	if n == 0 {
		return fault.Missing("authentication token", string(token.ID)) // somebody else revoked it just now
	}
	return audit.Append(ctx, tx, audit.Entry{
		Organization: token.Organization, Actor: actor, Action: "token.revoked", ObjectKind: "token", ObjectID: string(token.ID), Details: token.whose(),
	})
}
