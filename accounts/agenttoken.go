package accounts

import (
	"context"
	"time"

	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// AgentToken is a token of a pool without its secret. Runners show it.
type AgentToken struct {
	ID           ids.Token
	Group        ids.RunnerGroup
	Organization ids.Organization
	Description  string
	CreatedBy    ids.User // empty when the server made it
	CreatedAt    time.Time
	LastUsedAt   *time.Time // to the minute; nil when no runner has polled with it
}

// CreateAgentToken makes a token for the runners of a pool and gives its plain text,
// which cannot be had again. For owners.
func (s *Service) CreateAgentToken(ctx context.Context, actor authz.Actor, pool ids.RunnerGroup, description string) (plain string, token AgentToken, err error) {
	if err := CheckText("description", "Description", description, 512); err != nil {
		return "", AgentToken{}, err
	}
	err = postgres.InTx(ctx, s.db, "accounts.create-agent-token", func(tx postgres.Tx) error {
		p, err := AllowedPool(ctx, tx, actor, authz.AgentPoolsManage, pool)
		if err != nil {
			return err
		}
		var id ids.Token
		if plain, id, err = insertAgentToken(ctx, tx, actor, p.Organization, pool, description); err != nil {
			return err
		}
		token, err = allowedAgentToken(ctx, tx, actor, authz.AgentPoolsManage, id)
		return err
	})
	if err != nil {
		return "", AgentToken{}, err
	}
	return plain, token, nil
}

func insertAgentToken(ctx context.Context, tx postgres.Tx, actor authz.Actor, org ids.Organization, pool ids.RunnerGroup, description string) (plain string, id ids.Token, err error) {
	plain, hash := newSecret(runnerGroupPrefix)
	id = ids.New[ids.Token]()
	_, err = postgres.Exec(ctx, tx, queries.Get("AgentTokenInsert"), postgres.Args{
		"id": id, "group_id": pool, "hash": hash, "description": description, "created_by": actor.User,
	})
	if err != nil {
		return "", "", err
	}
	return plain, id, recordPool(ctx, tx, actor, org, pool, "agent-token.created", map[string]any{"token": id, "description": description})
}

// AgentTokens gives the tokens of a pool that count, the oldest first, and how many
// there are in all. For owners.
func (s *Service) AgentTokens(ctx context.Context, actor authz.Actor, pool ids.RunnerGroup, page Page) (tokens []AgentToken, total int, err error) {
	err = postgres.InSnapshot(ctx, s.db, "accounts.agent-tokens", func(tx postgres.Tx) error {
		if _, err := AllowedPool(ctx, tx, actor, authz.AgentPoolsManage, pool); err != nil {
			return err
		}
		args := postgres.Args{"group_id": pool, "limit": page.Limit(), "offset": page.Offset()}
		if tokens, err = postgres.All[AgentToken](ctx, tx, queries.Get("AgentTokensOf"), args); err != nil {
			return err
		}
		total, err = postgres.Value[int](ctx, tx, queries.Get("AgentTokensCount"), args)
		return err
	})
	return tokens, total, err
}

// AgentToken gives a token of a pool by its id. For owners.
func (s *Service) AgentToken(ctx context.Context, actor authz.Actor, id ids.Token) (token AgentToken, err error) {
	err = postgres.InSnapshot(ctx, s.db, "accounts.agent-token", func(tx postgres.Tx) (err error) {
		token, err = allowedAgentToken(ctx, tx, actor, authz.AgentPoolsManage, id)
		return err
	})
	return token, err
}

func allowedAgentToken(ctx context.Context, tx postgres.Tx, actor authz.Actor, action authz.Action, id ids.Token) (AgentToken, error) {
	token, err := postgres.One[AgentToken](ctx, tx, queries.Get("AgentTokenByID"), postgres.Args{"id": id})
	if postgres.NoRow(err) {
		return AgentToken{}, fault.Missing("authentication token", string(id))
	}
	if err != nil {
		return AgentToken{}, err
	}
	return token, authz.Allow(actor, action, authz.Object{Organization: token.Organization, Noun: "authentication token", Name: string(id)})
}

// RevokeAgentToken ends a token at once, in the caller's transaction: no runner is
// known by it any more, a waiting one included. For owners. What its runners were
// offered is the caller's to give back.
func RevokeAgentToken(ctx context.Context, tx postgres.Tx, actor authz.Actor, id ids.Token) error {
	token, err := allowedAgentToken(ctx, tx, actor, authz.AgentPoolsManage, id)
	if err != nil {
		return err
	}
	hash, err := postgres.Value[[]byte](ctx, tx, queries.Get("AgentTokenRevoke"), postgres.Args{"id": id})
	if postgres.NoRow(err) {
		return fault.Missing("authentication token", string(id)) // somebody else revoked it just now
	}
	if err != nil {
		return err
	}
	if _, err := postgres.Exec(ctx, tx, queries.Get("AgentTokenForget"), postgres.Args{"hash": hash}); err != nil {
		return err
	}
	return recordPool(ctx, tx, actor, token.Organization, token.Group, "agent-token.revoked", map[string]any{"token": id})
}
