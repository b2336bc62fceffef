package accounts

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/audit"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// The prefixes tell people, and scanners for leaked secrets, what a token is.
const (
	userPrefix        = "hfu_"
	teamPrefix        = "hft_"
	orgPrefix         = "hfo_"
	runnerGroupPrefix = "hfr_"
	sessionPrefix     = "hfs_"
	codePrefix        = "hfc_"
	secretBytes       = 32
)

// TokenKind says for whom a token acts.
type TokenKind string

// The kinds of tokens.
const (
	UserToken         TokenKind = "user"
	TeamToken         TokenKind = "team"
	OrganizationToken TokenKind = "organization"
	AuditToken        TokenKind = "audit-trails" // an organization's, that reads its audit trail and nothing else
)

// Token is a token without its secret. One of User, Team and Organization says whose it is;
// a team's has the organization too.
type Token struct {
	ID           ids.Token
	Kind         TokenKind
	User         ids.User
	Organization ids.Organization
	Team         ids.Team
	Description  string
	CreatedBy    ids.User // empty when it was the server's operator
	CreatedAt    time.Time
	ExpiresAt    *time.Time // nil for one that never ends
}

// NewToken is what a token is made from. Without ExpiresAt it lasts two years.
type NewToken struct {
	Description string
	ExpiresAt   *time.Time
	lifetime    time.Duration // when there is no ExpiresAt; 0 is two years
}

// newSecret makes a token and the digest under which it is stored.
func newSecret(prefix string) (plain string, hash []byte) {
	secret := make([]byte, secretBytes)
	_, _ = rand.Read(secret) // never fails: crypto/rand aborts the program instead
	plain = prefix + base64.RawURLEncoding.EncodeToString(secret)
	return plain, digest(plain)
}

// digest needs no salt and no slow hash: a token has 256 random bits.
func digest(token string) []byte {
	sum := sha256.Sum256([]byte(token))
	return sum[:]
}

// wellFormed tells whether the text can be a token of that prefix at all.
func wellFormed(token, prefix string) bool {
	encoded, ok := strings.CutPrefix(token, prefix)
	secret, err := base64.RawURLEncoding.Strict().DecodeString(encoded)
	return ok && err == nil && len(secret) == secretBytes
}

func unauthenticated() error {
	return fault.New(fault.Unauthenticated, "unauthenticated", "The token is unknown, has expired or was revoked. Ask for a new one and log in again.")
}

// CreateUserToken makes a token that acts as user and gives its plain text, which
// cannot be had again. A lifetime of 0 is two years. Users make their own tokens,
// site admins those of everybody; a user the actor may not act for is NotFound.
func (s *Service) CreateUserToken(ctx context.Context, actor authz.Actor, user ids.User, description string, lifetime time.Duration) (string, Token, error) {
	if lifetime < 0 {
		return "", Token{}, inThePast()
	}
	return s.IssueUserToken(ctx, actor, user, NewToken{Description: description, lifetime: lifetime})
}

// IssueUserToken is CreateUserToken with the instant at which the token ends.
func (s *Service) IssueUserToken(ctx context.Context, actor authz.Actor, user ids.User, n NewToken) (plain string, token Token, err error) {
	if err := allowSelf(actor, user, string(user)); err != nil {
		return "", Token{}, err
	}
	if err := n.check(); err != nil {
		return "", Token{}, err
	}
	err = postgres.InTx(ctx, s.db, "accounts.create-token", func(tx postgres.Tx) error {
		found, err := findUser(ctx, tx, user)
		if err != nil {
			return err
		}
		if found.ServiceAccount || found.Invited { // nobody who could hold a token
			return fault.Missing("user", string(user))
		}
		plain, token, err = insertToken(ctx, tx, actor, Token{Kind: UserToken, User: user}, n)
		return err
	})
	if err != nil {
		return "", Token{}, err
	}
	return plain, token, nil
}

func (n NewToken) check() error { return CheckText("description", "Description", n.Description, 512) }

func inThePast() error { return Invalid("expired-at", "Expired at must be in the future") }

// insertToken makes a token for one that exists, with its audit entry.
func insertToken(ctx context.Context, tx postgres.Tx, actor authz.Actor, owner Token, n NewToken) (string, Token, error) {
	plain, hash := newSecret(map[TokenKind]string{UserToken: userPrefix, TeamToken: teamPrefix}[owner.Kind])
	if owner.Kind == OrganizationToken || owner.Kind == AuditToken {
		plain, hash = newSecret(orgPrefix)
	}
	token, err := postgres.One[Token](ctx, tx, queries.Get("TokenInsert"), postgres.Args{
		"id": ids.New[ids.Token](), "kind": string(owner.Kind), "user_id": owner.User, "organization_id": owner.Organization, "team_id": owner.Team,
		"hash": hash, "description": n.Description, "created_by": actor.User, "expires_at": n.ExpiresAt, "seconds": n.lifetime.Seconds(),
	})
	if err != nil {
		return "", Token{}, err
	}
	if token.ExpiresAt != nil && !token.ExpiresAt.After(token.CreatedAt) {
		return "", Token{}, inThePast()
	}
	return plain, token, audit.Append(ctx, tx, audit.Entry{
		Organization: token.Organization, Actor: actor, Action: "token.created", ObjectKind: "token", ObjectID: string(token.ID), Details: token.whose(),
	})
}

// whose tells the audit trail what the token acts for.
func (t Token) whose() map[string]any {
	details := map[string]any{"kind": t.Kind}
	switch t.Kind {
	case UserToken:
		details["user"] = t.User
	case TeamToken:
		details["team"] = t.Team
	}
	return details
}

// UserTokens gives the tokens of the user that count, the newest first. A user the
// actor may not act for is NotFound.
func (s *Service) UserTokens(ctx context.Context, actor authz.Actor, user ids.User) ([]Token, error) {
	if err := allowSelf(actor, user, string(user)); err != nil {
		return nil, err
	}
	var tokens []Token
	err := postgres.InSnapshot(ctx, s.db, "accounts.tokens", func(tx postgres.Tx) (err error) {
		tokens, err = postgres.All[Token](ctx, tx, queries.Get("UserTokens"), postgres.Args{"user_id": user})
		return err
	})
	return tokens, err
}

// RevokeUserToken ends a token at once. One that is unknown, already revoked or of
// a user the actor may not act for is NotFound.
func (s *Service) RevokeUserToken(ctx context.Context, actor authz.Actor, id ids.Token) error {
	return postgres.InTx(ctx, s.db, "accounts.revoke-token", func(tx postgres.Tx) error {
		owner, err := postgres.Value[ids.User](ctx, tx, queries.Get("TokenOwner"), postgres.Args{"id": id})
		if postgres.NoRow(err) || (err == nil && allowSelf(actor, owner, "") != nil) {
			return fault.Missing("token", string(id))
		}
		if err != nil {
			return err
		}
		n, err := postgres.Exec(ctx, tx, queries.Get("TokenRevoke"), postgres.Args{"id": id, "user_id": owner})
		if err != nil {
			return err
		}
		if n == 0 {
			return fault.Missing("token", string(id)) // somebody else revoked it just now
		}
		return audit.Append(ctx, tx, audit.Entry{
			Actor: actor, Action: "token.revoked", ObjectKind: "token", ObjectID: string(id), Details: map[string]any{"user": owner},
		})
	})
}
