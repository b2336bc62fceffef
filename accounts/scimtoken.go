package accounts

import (
	"context"
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/audit"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

const scimPrefix = "hfi_"

// SCIMToken is what an identity provider proves itself by, without its secret.
type SCIMToken struct {
	ID          ids.Token
	Description string
	CreatedBy   ids.User // empty when it was the server's operator
	CreatedAt   time.Time
	ExpiresAt   time.Time
	LastUsedAt  *time.Time // to the minute
}

// NewSCIMToken makes a token of an identity provider and gives its plain text, which cannot be
// had again. It lasts a year, or from 29 to 365 days as asked; anything else, and no
// description, is Invalid. Package scim asks whether the actor may.
func NewSCIMToken(ctx context.Context, tx postgres.Tx, actor authz.Actor, n NewToken) (string, SCIMToken, error) {
	if strings.TrimSpace(n.Description) == "" {
		return "", SCIMToken{}, Invalid("description", "Description can't be blank")
	}
	if err := n.check(); err != nil {
		return "", SCIMToken{}, err
	}
	type row struct {
		SCIMToken
		Fits bool
	}
	plain, hash := newSecret(scimPrefix)
	made, err := postgres.One[row](ctx, tx, queries.Get("SCIMTokenInsert"), postgres.Args{
		"id": ids.New[ids.Token](), "hash": hash, "description": n.Description, "created_by": actor.User, "expires_at": n.ExpiresAt,
	})
	if err != nil {
		return "", SCIMToken{}, err
	}
	if !made.Fits {
		return "", SCIMToken{}, Invalid("expired-at", "Expired at must be from 29 to 365 days from now")
	}
	return plain, made.SCIMToken, audit.Append(ctx, tx, audit.Entry{
		Actor: actor, Action: "token.created", ObjectKind: "token", ObjectID: string(made.ID), Details: map[string]any{"kind": "scim"},
	})
}

// AuthenticateSCIM gives the actor behind a token of an identity provider. Any other token, and
// one that is unknown, expired or revoked, is Unauthenticated.
func (s *Service) AuthenticateSCIM(ctx context.Context, token string) (authz.Actor, error) {
	if !wellFormed(token, scimPrefix) {
		return authz.Actor{}, unauthenticated()
	}
	var found SCIMToken
	err := postgres.InOneStatement(ctx, s.db, "accounts.authenticate-scim", func(tx postgres.Tx) (err error) {
		found, err = postgres.One[SCIMToken](ctx, tx, queries.Get("SCIMTokenByHash"), postgres.Args{"hash": digest(token)})
		if postgres.NoRow(err) {
			return unauthenticated()
		}
		return err
	})
	if err != nil {
		return authz.Actor{}, err
	}
	err = postgres.InTx(ctx, s.db, "accounts.scim-token-used", func(tx postgres.Tx) error {
		_, err := postgres.Exec(ctx, tx, queries.Get("SCIMTokenUsed"), postgres.Args{"id": found.ID})
		return err
	})
	return authz.Actor{Kind: authz.SCIMActor, Token: found.ID, Name: found.Description}, err
}

// SCIMTokens gives those that count, the newest first. Only for site admins.
func (s *Service) SCIMTokens(ctx context.Context, actor authz.Actor) (list []SCIMToken, err error) {
	if err := allowSite(actor, administer); err != nil {
		return nil, err
	}
	err = postgres.InOneStatement(ctx, s.db, "accounts.scim-tokens", func(tx postgres.Tx) error {
		list, err = postgres.All[SCIMToken](ctx, tx, queries.Get("SCIMTokens"), postgres.Args{})
		return err
	})
	return list, err
}

// SCIMToken gives one that counts. To anybody but a site admin there is none.
func (s *Service) SCIMToken(ctx context.Context, actor authz.Actor, id ids.Token) (token SCIMToken, err error) {
	if allowSite(actor, administer) != nil {
		return SCIMToken{}, fault.Missing("authentication token", string(id))
	}
	err = postgres.InOneStatement(ctx, s.db, "accounts.scim-token", func(tx postgres.Tx) error {
		token, err = postgres.One[SCIMToken](ctx, tx, queries.Get("SCIMTokenByID"), postgres.Args{"id": id})
		if postgres.NoRow(err) {
			return fault.Missing("authentication token", string(id))
		}
		return err
	})
	return token, err
}

// RevokeSCIMToken ends a token at once. To anybody but a site admin there is none.
func (s *Service) RevokeSCIMToken(ctx context.Context, actor authz.Actor, id ids.Token) error {
	if allowSite(actor, administer) != nil {
		return fault.Missing("authentication token", string(id))
	}
	return postgres.InTx(ctx, s.db, "accounts.revoke-scim-token", func(tx postgres.Tx) error {
		n, err := postgres.Exec(ctx, tx, queries.Get("SCIMTokenEnd"), postgres.Args{"id": id})
		if err != nil {
			return err
		}
		if n == 0 {
			return fault.Missing("authentication token", string(id))
		}
		return audit.Append(ctx, tx, audit.Entry{Actor: actor, Action: "token.revoked", ObjectKind: "token", ObjectID: string(id), Details: map[string]any{"kind": "scim"}})
	})
}

// EndSCIMTokens revokes every token of an identity provider, and gives how many there were.
func EndSCIMTokens(ctx context.Context, tx postgres.Tx) (int64, error) {
	return postgres.Exec(ctx, tx, queries.Get("SCIMTokensEnd"), postgres.Args{})
}
