package accounts

import (
	"context"

	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// ExecutionMode says where tofu works.
type ExecutionMode string

// The execution modes.
const (
	Remote ExecutionMode = "remote" // on a runner, as runs
	Local  ExecutionMode = "local"  // on the user's machine; only the state is kept here
	Agent  ExecutionMode = "agent"  // as Remote, on the runners of one pool only
)

// Placement is where runs are executed. Pool is that of mode Agent, else empty.
type Placement struct {
	Mode ExecutionMode
	Pool ids.RunnerGroup
}

// Changed gives the placement after what is said about it. The mode and the pool go
// together: another combination is Invalid. prefix is what the attributes' names begin
// with, such as "default-", and name what people call the pool, such as "Default agent pool".
func (p Placement) Changed(prefix, name string, mode *ExecutionMode, pool *ids.RunnerGroup) (Placement, error) {
	after := p
	if mode != nil {
		after.Mode = *mode
	}
	if pool != nil {
		after.Pool = *pool
	}
	switch after.Mode {
	case Remote, Local:
		if pool != nil && *pool != "" {
			return p, Invalid(prefix+"agent-pool-id", "%s must not be specified unless using 'agent' execution mode", name)
		}
		after.Pool = ""
	case Agent:
		if after.Pool == "" {
			return p, Invalid(prefix+"agent-pool-id", "%s must be specified when using 'agent' execution mode", name)
		}
	default:
		return p, Invalid(prefix+"execution-mode", "Execution mode must be %s, %s or %s", Remote, Local, Agent)
	}
	return after, nil
}

// PoolOrNull is the pool for a statement.
func (p Placement) PoolOrNull() *ids.RunnerGroup {
	if p.Pool == "" {
		return nil
	}
	return &p.Pool
}

// HoldPool refuses a pool that the organization does not have. It cannot be deleted
// until the caller's transaction ends. No pool is fine.
func HoldPool(ctx context.Context, tx postgres.Tx, org ids.Organization, p Placement) error {
	if p.Pool == "" {
		return nil
	}
	_, err := postgres.Value[ids.RunnerGroup](ctx, tx, queries.Get("PoolHold"), postgres.Args{"id": p.Pool, "organization_id": org})
	if postgres.NoRow(err) {
		return NoSuchPool()
	}
	return err
}

// CheckPoolUsers refuses, as CheckPool does, when a workspace that is on the pool now may
// not use it.
func CheckPoolUsers(ctx context.Context, tx postgres.Tx, p Placement) error {
	if p.Pool == "" {
		return nil
	}
	out, err := postgres.Values[string](ctx, tx, queries.Get("PoolLeavesOut"), postgres.Args{"id": p.Pool})
	if err != nil || len(out) == 0 {
		return err
	}
	return Invalid("default-agent-pool-id", "The provided agent pool may not be used by workspace %q, which would be on it. Allow the workspace in the pool's settings first, or give it an execution mode of its own", out[0])
}
