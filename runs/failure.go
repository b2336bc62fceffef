package runs

import (
	"context"
	"fmt"

	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// FailureReason says why an attempt failed where that is not tofu's own doing.
type FailureReason string

// The reasons that a runner may give. Any other counts as none.
const (
	UnsupportedProvider FailureReason = "unsupported_provider" // a provider has no package for the runner's platform (QP-07)
	DispatchFailed      FailureReason = "dispatch_failed"      // what was to be executed could not be started (QP-09)
)

// or gives the reason as the run keeps it, or other when there is none.
func (f FailureReason) or(other string) string {
	switch f {
	case UnsupportedProvider, DispatchFailed:
		return string(f)
	}
	return other
}

// failPlan ends a run whose plan failed. What could not be dispatched fails alone and is
// not offered again (QP-09). Where a provider is unsupported, the runs that wait with the
// very same configuration are failed with it, before the workspace is free: each would
// only be promoted to fail like this one (QP-08). One with another configuration may have
// what this one lacks, and keeps its turn.
func failPlan(ctx context.Context, tx postgres.Tx, r *Run, actor authz.Actor, d Done) error {
	m := move{To: PlanFailed, Actor: actor, Reason: d.Reason.or("plan_failed"), Message: d.Message}
	if d.Reason == UnsupportedProvider && r.waitsForWorkspace() {
		list, err := postgres.Values[ids.Run](ctx, tx, Queries.Get("WaitingOfConfiguration"), postgres.Args{"workspace_id": r.WorkspaceID, "configuration_object_id": r.ConfigurationObjectID})
		if err != nil {
			return err
		}
		rest := move{To: PlanFailed, Actor: authz.System(), Reason: m.Reason, Message: join(fmt.Sprintf("%s has the same configuration and failed:", r.ID), d.Message)}
		if err := endWaiting(ctx, tx, list, rest); err != nil {
			return err
		}
	}
	return step(ctx, tx, r, m)
}
