package accounts

import (
	"context"
	"slices"

	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// once gives each id one time; never nil, which would be NULL.
func once[T ids.Any](list []T) []T {
	sorted := append([]T{}, list...)
	slices.Sort(sorted)
	return slices.Compact(sorted)
}

// setScope replaces the lists that are given.
func setScope(ctx context.Context, tx postgres.Tx, org ids.Organization, id ids.RunnerGroup, c PoolChanges) error {
	workspaces := func(list *[]ids.Workspace, allowed bool, relation string) error {
		if list == nil {
			return nil
		}
		args := postgres.Args{"id": id, "organization_id": org, "allowed": allowed, "ids": once(*list)}
		return replace(ctx, tx, "RunnerGroupWorkspaces", args, len(once(*list)), relation)
	}
	if err := workspaces(c.AllowedWorkspaces, true, "allowed-workspaces"); err != nil {
		return err
	}
	if err := workspaces(c.ExcludedWorkspaces, false, "excluded-workspaces"); err != nil {
		return err
	}
	if c.AllowedProjects == nil {
		return nil
	}
	args := postgres.Args{"id": id, "organization_id": org, "ids": once(*c.AllowedProjects)}
	return replace(ctx, tx, "RunnerGroupProjects", args, len(once(*c.AllowedProjects)), "allowed-projects")
}

// replace empties a list of a pool and fills it; all of the wanted ids must be found.
func replace(ctx context.Context, tx postgres.Tx, list string, args postgres.Args, wanted int, relation string) error {
	if _, err := postgres.Exec(ctx, tx, queries.Get(list+"Clear"), args); err != nil {
		return err
	}
	n, err := postgres.Exec(ctx, tx, queries.Get(list+"Set"), args)
	if err != nil {
		return err
	}
	if n != int64(wanted) {
		return fault.New(fault.NotFound, "not_found", "One of those that %s names is not there, or not in the pool's organization.", relation).At("/data/relationships/" + relation)
	}
	return nil
}

func poolNameTaken(err error) error {
	if violates(err, "runner_groups_name") {
		return Taken("name", "Name")
	}
	return err
}

// DrainPool says that nothing more is offered to the runners of a pool, or that it is
// again. What they execute goes on. For owners.
func DrainPool(ctx context.Context, tx postgres.Tx, actor authz.Actor, id ids.RunnerGroup, drain bool) (Pool, error) {
	before, err := AllowedPool(ctx, tx, actor, authz.AgentPoolsManage, id)
	if err != nil || before.Draining == drain {
		return before, err
	}
	n, err := postgres.Exec(ctx, tx, queries.Get("RunnerGroupDrain"), postgres.Args{"id": id, "draining": drain})
	if err == nil && n == 0 {
		err = fault.Missing("agent pool", string(id))
	}
	if err != nil {
		return Pool{}, err
	}
	after, err := AllowedPool(ctx, tx, actor, authz.AgentPoolsManage, id)
	if err != nil {
		return Pool{}, err
	}
	action := "runner-group.resumed"
	if drain {
		action = "runner-group.drained"
	}
	return after, recordPool(ctx, tx, actor, after.Organization, id, action, nil)
}

// DeletePool ends a pool and its tokens at once, in the caller's transaction. For
// owners. One that a workspace names is a Conflict "pool_in_use": its runs would wait
// for ever. What its runners were offered is the caller's to give back.
func DeletePool(ctx context.Context, tx postgres.Tx, actor authz.Actor, id ids.RunnerGroup) error {
	p, err := AllowedPool(ctx, tx, actor, authz.AgentPoolsManage, id)
	if err != nil {
		return err
	}
	n, err := postgres.Exec(ctx, tx, queries.Get("RunnerGroupDelete"), postgres.Args{"id": id})
	if err != nil {
		return err
	}
	if n == 0 {
		return fault.Missing("agent pool", string(id))
	}
	users, err := postgres.Values[ids.Workspace](ctx, tx, queries.Get("RunnerGroupUsers"), postgres.Args{"id": id})
	if err != nil {
		return err
	}
	if len(users) > 0 {
		return fault.New(fault.Conflict, "pool_in_use", "%d workspaces have their runs on agent pool %q, such as %s. Give them another pool or execution mode first.", len(users), p.Name, users[0])
	}
	defaults, err := postgres.Values[string](ctx, tx, queries.Get("RunnerGroupDefaultOf"), postgres.Args{"id": id})
	if err != nil {
		return err
	}
	if len(defaults) > 0 {
		return fault.New(fault.Conflict, "pool_in_use", "Agent pool %q is where the workspaces of %q go by default. Give it another default first.", p.Name, defaults[0])
	}
	return recordPool(ctx, tx, actor, p.Organization, id, "runner-group.deleted", map[string]any{"name": p.Name})
}

// NoSuchPool is the answer for an agent pool that the organization does not have.
func NoSuchPool() error { return Invalid("agent-pool-id", "The provided agent pool does not exist") }

// CheckPool refuses a pool that a workspace may not use: an unknown one, or one whose
// scope leaves the workspace out, is Invalid. The pool cannot be deleted until the
// caller's transaction ends.
func CheckPool(ctx context.Context, tx postgres.Tx, workspace ids.Workspace, id ids.RunnerGroup) error {
	allows, err := postgres.Value[bool](ctx, tx, queries.Get("PoolAllows"), postgres.Args{"id": id, "workspace_id": workspace})
	switch {
	case postgres.NoRow(err):
		return NoSuchPool()
	case err != nil:
		return err
	case !allows:
		return Invalid("agent-pool-id", "The provided agent pool may not be used by this workspace. Allow the workspace in the pool's settings first")
	}
	return nil
}
