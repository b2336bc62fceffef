package tfeapi

import (
	"slices"
	"time"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
)

// tokenView is a token of a user, team or organization on the wire. Token is there in
// the answer to its creation only.
type tokenView struct {
	ID          string     `jsonapi:"primary,authentication-tokens"`
	CreatedAt   time.Time  `jsonapi:"attr,created-at,iso8601"`
	LastUsedAt  *time.Time `jsonapi:"attr,last-used-at,iso8601"`
	ExpiredAt   *time.Time `jsonapi:"attr,expired-at,iso8601"`
	Description *string    `jsonapi:"attr,description"`
	Token       *string    `jsonapi:"attr,token"`
	related     relations
}

func (v *tokenView) relations() relations { return v.related }

func newTokenView(t accounts.Token) *tokenView {
	v := &tokenView{ID: string(t.ID), CreatedAt: t.CreatedAt, ExpiredAt: t.ExpiresAt, Description: textOrNull(t.Description), related: relations{"created-by": optional("users", t.CreatedBy)}}
	switch t.Kind {
	case accounts.TeamToken:
		v.related["team"] = ref{"teams", string(t.Team)}
	case accounts.UserToken:
		v.Description = &t.Description
		if t.CreatedBy == "" {
			v.related["created-by"] = ref{"users", string(t.User)}
		}
	}
	return v
}

// readNewToken reads what a request says about a token. Clients name the document's
// type differently, and some send none.
func readNewToken(r *request) (n accounts.NewToken, err error) {
	body, err := r.body()
	if err != nil {
		return n, err
	}
	in, err := decodeUntyped[struct {
		Description Opt[string] `json:"description"`
		ExpiredAt   Opt[string] `json:"expired-at"`
	}](body)
	if err != nil {
		return n, err
	}
	n.Description = in.Attributes.Description.Or("")
	if in.Attributes.ExpiredAt.Set() {
		at, err := time.Parse(time.RFC3339, in.Attributes.ExpiredAt.Value)
		if err != nil {
			return n, accounts.Invalid("expired-at", "Expired at must be an instant such as 2026-01-31T12:00:00Z")
		}
		n.ExpiresAt = &at
	}
	return n, nil
}

func createdToken(plain string, t accounts.Token, err error) (answer, error) {
	if err != nil {
		return answer{}, err
	}
	drawn := newTokenView(t)
	drawn.Token = &plain
	return created(drawn), nil
}

func tokenViews(list []accounts.Token) []*tokenView {
	items := make([]*tokenView, 0, len(list))
	for _, t := range list {
		items = append(items, newTokenView(t))
	}
	return items
}

func tokenPage(list []accounts.Token, p paging, total int) answer {
	return page(tokenViews(list), p, total)
}

func (s *server) listUserTokens(r *request) (answer, error) {
	user, err := id[ids.User](r)
	if err != nil {
		return answer{}, err
	}
	list, err := s.Accounts.UserTokens(r.ctx, r.actor, user)
	if err != nil {
		return answer{}, err
	}
	return pageOf(r, tokenViews(list))
}

func (s *server) createUserToken(r *request) (answer, error) {
	user, err := id[ids.User](r)
	if err != nil {
		return answer{}, err
	}
	n, err := readNewToken(r)
	if err != nil {
		return answer{}, err
	}
	return createdToken(s.Accounts.IssueUserToken(r.ctx, r.actor, user, n))
}

func (s *server) createTeamToken(r *request) (answer, error) {
	team, err := id[ids.Team](r)
	if err != nil {
		return answer{}, err
	}
	n, err := readNewToken(r)
	if err != nil {
		return answer{}, err
	}
	return createdToken(s.Accounts.CreateTeamToken(r.ctx, r.actor, team, n))
}

func (s *server) readTeamToken(r *request) (answer, error) {
	team, err := id[ids.Team](r)
	if err != nil {
		return answer{}, err
	}
	t, err := s.Accounts.TeamToken(r.ctx, r.actor, team)
	return ok(newTokenView(t)), err
}

func (s *server) deleteTeamToken(r *request) (answer, error) {
	team, err := id[ids.Team](r)
	if err != nil {
		return answer{}, err
	}
	return noContent(), s.Accounts.RevokeTeamToken(r.ctx, r.actor, team)
}

func (s *server) listTokensOfTeam(r *request) (answer, error) {
	team, err := id[ids.Team](r)
	if err != nil {
		return answer{}, err
	}
	p, err := parsePaging(r.query)
	if err != nil {
		return answer{}, err
	}
	list, total, err := s.Accounts.TeamTokensOf(r.ctx, r.actor, team, p.page())
	return tokenPage(list, p, total), err
}

func (s *server) listTeamTokens(r *request) (answer, error) {
	p, err := parsePaging(r.query)
	if err != nil {
		return answer{}, err
	}
	filter := accounts.TeamTokenFilter{Query: r.query.Get("q"), Page: p.page()}
	if filter.Sort, err = r.sorted("Team tokens", "team-name", "created-by", "expired-at"); err != nil {
		return answer{}, err
	}
	for _, expiry := range commaList(r.query, "filter[expiry_status]") {
		if !slices.Contains(accounts.Expiries, accounts.Expiry(expiry)) {
			return answer{}, fault.New(fault.Malformed, "invalid_parameter", "No token has the expiry status %q. Ask for some of %s, with commas between them.", expiry, accounts.Expiries)
		}
		filter.Expiries = append(filter.Expiries, accounts.Expiry(expiry))
	}
	list, total, err := s.Accounts.TeamTokens(r.ctx, r.actor, r.vars["organization"], filter)
	return tokenPage(list, p, total), err
}

// organizationTokenKind reads the parameter token: without it, the organization's own token.
func organizationTokenKind(r *request) accounts.TokenKind {
	if kind := r.query.Get("token"); kind != "" {
		return accounts.TokenKind(kind)
	}
	return accounts.OrganizationToken
}

func (s *server) createOrganizationToken(r *request) (answer, error) {
	n, err := readNewToken(r)
	if err != nil {
		return answer{}, err
	}
	return createdToken(s.Accounts.CreateOrganizationToken(r.ctx, r.actor, r.vars["organization"], organizationTokenKind(r), n))
}

func (s *server) readOrganizationToken(r *request) (answer, error) {
	t, err := s.Accounts.OrganizationToken(r.ctx, r.actor, r.vars["organization"], organizationTokenKind(r))
	return ok(newTokenView(t)), err
}

func (s *server) deleteOrganizationToken(r *request) (answer, error) {
	return noContent(), s.Accounts.RevokeOrganizationToken(r.ctx, r.actor, r.vars["organization"], organizationTokenKind(r))
}

// readToken reads a token of any kind: one of a user, team or organization, else of an
// agent pool.
func (s *server) readToken(r *request) (answer, error) {
	token, err := id[ids.Token](r)
	if err != nil {
		return answer{}, fault.Missing("authentication token", r.vars["id"])
	}
	t, err := s.Accounts.Token(r.ctx, r.actor, token)
	if fault.Is(err, fault.NotFound) {
		if found, err := s.Accounts.SCIMToken(r.ctx, r.actor, token); err == nil {
			return ok(newSCIMTokenView(found)), nil
		}
		return s.readAgentToken(r)
	}
	return ok(newTokenView(t)), err
}

func (s *server) deleteToken(r *request) (answer, error) {
	token, err := id[ids.Token](r)
	if err != nil {
		return answer{}, fault.Missing("authentication token", r.vars["id"])
	}
	err = s.Accounts.RevokeToken(r.ctx, r.actor, token)
	if fault.Is(err, fault.NotFound) {
		if err := s.Accounts.RevokeSCIMToken(r.ctx, r.actor, token); !fault.Is(err, fault.NotFound) {
			return noContent(), err
		}
		return s.deleteAgentToken(r)
	}
	return noContent(), err
}
