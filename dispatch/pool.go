package dispatch

import (
	"context"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/audit"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// UpdatePool changes a pool (accounts.UpdatePool) and lets its waiting runners look
// whether something fits them now.
func (s *Service) UpdatePool(ctx context.Context, actor authz.Actor, id ids.RunnerGroup, c accounts.PoolChanges) (p accounts.Pool, err error) {
	err = postgres.InTx(ctx, s.db, "dispatch.update-pool", func(tx postgres.Tx) error {
		if p, err = accounts.UpdatePool(ctx, tx, actor, id, c); err != nil {
			return err
		}
		return notifyLook(ctx, tx)
	})
	return p, err
}

// DrainPool stops, or begins again, to offer attempts to the runners of a pool
// (accounts.DrainPool). They stay connected, and what they execute goes on.
func (s *Service) DrainPool(ctx context.Context, actor authz.Actor, id ids.RunnerGroup, drain bool) (p accounts.Pool, err error) {
	err = postgres.InTx(ctx, s.db, "dispatch.drain-pool", func(tx postgres.Tx) error {
		if p, err = accounts.DrainPool(ctx, tx, actor, id, drain); err != nil {
			return err
		}
		return notifyLook(ctx, tx)
	})
	return p, err
}

// DeletePool ends a pool and its tokens (accounts.DeletePool). What its runners were
// offered and never began goes back to the queue; what they execute goes on.
func (s *Service) DeletePool(ctx context.Context, actor authz.Actor, id ids.RunnerGroup) error {
	return postgres.InTx(ctx, s.db, "dispatch.delete-pool", func(tx postgres.Tx) error {
		if err := accounts.DeletePool(ctx, tx, actor, id); err != nil {
			return err
		}
		return giveBack(ctx, tx, postgres.Args{"whole_group_id": id})
	})
}

// RevokeAgentToken ends a token at once (accounts.RevokeAgentToken). What was offered
// to those who came with it goes back to the queue, because they cannot accept it.
func (s *Service) RevokeAgentToken(ctx context.Context, actor authz.Actor, id ids.Token) error {
	return postgres.InTx(ctx, s.db, "dispatch.revoke-agent-token", func(tx postgres.Tx) error {
		if err := accounts.RevokeAgentToken(ctx, tx, actor, id); err != nil {
			return err
		}
		return giveBack(ctx, tx, postgres.Args{"token_id": id})
	})
}

// DrainAgent tells a runner to end after the attempt it has; it takes no new one. A
// waiting one is told at once. For owners.
func (s *Service) DrainAgent(ctx context.Context, actor authz.Actor, id ids.Runner) (a Agent, err error) {
	err = postgres.InTx(ctx, s.db, "dispatch.drain-agent", func(tx postgres.Tx) error {
		before, err := allowedAgent(ctx, tx, actor, authz.AgentPoolsManage, id)
		if err != nil {
			return err
		}
		if before.Draining {
			a = before
			return nil
		}
		if _, err := postgres.Exec(ctx, tx, Queries.Get("DrainRunner"), postgres.Args{"id": id}); err != nil {
			return err
		}
		if err := notifyDrain(ctx, tx, id); err != nil {
			return err
		}
		if a, err = allowedAgent(ctx, tx, actor, authz.AgentPoolsManage, id); err != nil {
			return err
		}
		return recordAgent(ctx, tx, actor, a, "agent.drained")
	})
	return a, err
}

// DeleteAgent removes the record of a runner that is gone. For owners. One that is
// there is a Conflict "agent_there": drain it first.
func (s *Service) DeleteAgent(ctx context.Context, actor authz.Actor, id ids.Runner) error {
	return postgres.InTx(ctx, s.db, "dispatch.delete-agent", func(tx postgres.Tx) error {
		a, err := allowedAgent(ctx, tx, actor, authz.AgentPoolsManage, id)
		if err != nil {
			return err
		}
		if a.Status != AgentUnknown {
			return fault.New(fault.Conflict, "agent_there", "Agent %s is %s. Drain it, and its record goes when it has ended.", id, a.Status)
		}
		if _, err := postgres.Exec(ctx, tx, Queries.Get("Deregister"), postgres.Args{"id": id, "group_id": a.Group}); err != nil {
			return err
		}
		return recordAgent(ctx, tx, actor, a, "agent.deleted")
	})
}

func recordAgent(ctx context.Context, tx postgres.Tx, actor authz.Actor, a Agent, action string) error {
	return audit.Append(ctx, tx, audit.Entry{Organization: a.Organization, Actor: actor, Action: action, ObjectKind: "agent", ObjectID: string(a.ID), Details: map[string]any{"name": a.Name}})
}
