package vcs

import (
	"context"
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/audit"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// Token is what an organization proves itself by to a VCS host; nobody is shown it.
type Token struct {
	ID           ids.OAuthToken
	Client       ids.OAuthClient
	Organization ids.Organization
	HasSSHKey    bool `db:"has_ssh_key"`
	CreatedAt    time.Time
}

func (t Token) object() authz.Object {
	return authz.Object{Organization: t.Organization, Noun: "OAuth token", Name: string(t.ID)}
}

func tokenLabel(id ids.OAuthToken, what string) string {
	return "oauth-token/" + string(id) + "/" + what
}

// replaceToken gives the client one token in place of those it has.
func (s *Service) replaceToken(ctx context.Context, tx postgres.Tx, org ids.Organization, client ids.OAuthClient, token string) error {
	if _, err := postgres.Exec(ctx, tx, Queries.Get("TokensClear"), postgres.Args{"client_id": client}); err != nil {
		return err
	}
	id := ids.New[ids.OAuthToken]()
	sealed, err := s.sealer.SealValue(ctx, tx, org, tokenLabel(id, "token"), []byte(token))
	if err != nil {
		return err
	}
	_, err = postgres.Exec(ctx, tx, Queries.Get("TokenInsert"), postgres.Args{"id": id, "organization_id": org, "client_id": client, "token_sealed": sealed})
	return err
}

// Tokens gives the tokens of an organization, or of one client where it is not empty, by when
// they were made, and how many there are.
func (s *Service) Tokens(ctx context.Context, actor authz.Actor, organization string, client ids.OAuthClient, provider string, page accounts.Page) (list []Token, total int, err error) {
	err = postgres.InSnapshot(ctx, s.db, "vcs.tokens", func(tx postgres.Tx) error {
		var org ids.Organization
		if client != "" {
			c, err := find(ctx, tx, actor, authz.OrganizationRead, client)
			if err != nil {
				return err
			}
			org = c.Organization
		} else {
			o, err := accounts.AllowedOrganization(ctx, tx, actor, authz.OrganizationRead, organization)
			if err != nil {
				return err
			}
			org = o.ID
		}
		args := postgres.Args{"organization_id": org, "client_id": client, "provider": provider, "limit": page.Limit(), "offset": page.Offset()}
		if list, err = postgres.All[Token](ctx, tx, Queries.Get("Tokens"), args); err != nil {
			return err
		}
		total, err = postgres.Value[int](ctx, tx, Queries.Get("TokensCount"), args)
		return err
	})
	return list, total, err
}

// Token gives a token.
func (s *Service) Token(ctx context.Context, actor authz.Actor, id ids.OAuthToken) (t Token, err error) {
	err = postgres.InOneStatement(ctx, s.db, "vcs.token", func(tx postgres.Tx) error {
		t, err = findToken(ctx, tx, actor, authz.OrganizationRead, id)
		return err
	})
	return t, err
}

// SomeTokens gives those of the tokens that the actor may know of, with one statement.
func (s *Service) SomeTokens(ctx context.Context, actor authz.Actor, list []ids.OAuthToken) (found []Token, err error) {
	if len(list) == 0 {
		return nil, nil
	}
	err = postgres.InOneStatement(ctx, s.db, "vcs.some-tokens", func(tx postgres.Tx) error {
		rows, err := postgres.All[Token](ctx, tx, Queries.Get("TokensSome"), postgres.Args{"ids": list})
		for _, t := range rows {
			if authz.Can(actor, authz.OrganizationRead, t.object()) {
				found = append(found, t)
			}
		}
		return err
	})
	return found, err
}

func findToken(ctx context.Context, tx postgres.Tx, actor authz.Actor, action authz.Action, id ids.OAuthToken) (Token, error) {
	t, err := postgres.One[Token](ctx, tx, Queries.Get("Token"), postgres.Args{"id": id})
	if postgres.NoRow(err) {
		return Token{}, fault.Missing("OAuth token", string(id))
	}
	if err != nil {
		return Token{}, err
	}
	if err := authz.Allow(actor, action, t.object()); err != nil {
		return Token{}, err
	}
	return t, nil
}

// SetSSHKey gives a token a private key for submodules, in place of the one it has. A blank
// one is Invalid.
func (s *Service) SetSSHKey(ctx context.Context, actor authz.Actor, id ids.OAuthToken, key string) (t Token, err error) {
	err = postgres.InTx(ctx, s.db, "vcs.set-ssh-key", func(tx postgres.Tx) error {
		before, err := findToken(ctx, tx, actor, authz.VCSManage, id)
		if err != nil {
			return err
		}
		if strings.TrimSpace(key) == "" {
			return accounts.Invalid("ssh-key", "SSH key can't be blank")
		}
		if err := accounts.CheckText("ssh-key", "SSH key", key, longestKey); err != nil {
			return err
		}
		sealed, err := s.sealer.SealValue(ctx, tx, before.Organization, tokenLabel(id, "ssh-key"), []byte(key))
		if err != nil {
			return err
		}
		n, err := postgres.Exec(ctx, tx, Queries.Get("TokenSSHKey"), postgres.Args{"id": id, "ssh_key_sealed": sealed})
		if err == nil && n == 0 {
			err = fault.Missing("OAuth token", string(id))
		}
		if err != nil {
			return err
		}
		if t, err = findToken(ctx, tx, actor, authz.VCSManage, id); err != nil {
			return err
		}
		return recordToken(ctx, tx, actor, t, "oauth-token.ssh-key-set")
	})
	return t, err
}

// DeleteToken forgets a token.
func (s *Service) DeleteToken(ctx context.Context, actor authz.Actor, id ids.OAuthToken) error {
	return postgres.InTx(ctx, s.db, "vcs.delete-token", func(tx postgres.Tx) error {
		t, err := findToken(ctx, tx, actor, authz.VCSManage, id)
		if err != nil {
			return err
		}
		n, err := postgres.Exec(ctx, tx, Queries.Get("TokenDelete"), postgres.Args{"id": id})
		if err == nil && n == 0 {
			err = fault.Missing("OAuth token", string(id))
		}
		if err != nil {
			return err
		}
		return recordToken(ctx, tx, actor, t, "oauth-token.deleted")
	})
}

func recordToken(ctx context.Context, tx postgres.Tx, actor authz.Actor, t Token, action string) error {
	return audit.Append(ctx, tx, audit.Entry{
		Organization: t.Organization, Actor: actor, Action: action, ObjectKind: "oauth-token", ObjectID: string(t.ID), Details: map[string]any{"oauth_client": t.Client},
	})
}
