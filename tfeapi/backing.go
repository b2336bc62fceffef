package tfeapi

import (
	"context"

	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/ids"
)

// onBacking reads the id of the path and does something to the bytes of what it names.
func onBacking[T ids.Any](do func(ctx context.Context, actor authz.Actor, id T) error) func(r *request) (answer, error) {
	return func(r *request) (answer, error) {
		thing, err := id[T](r)
		if err != nil {
			return answer{}, err
		}
		return accepted(), do(r.ctx, r.actor, thing)
	}
}

// stateBackingRoutes and configurationBackingRoutes are the actions on the bytes of old versions.
func (s *server) stateBackingRoutes(version string) []route {
	return []route{
		{method: post, path: version + "/actions/soft_delete_backing_data", handle: onBacking(s.State.Hide)},
		{method: post, path: version + "/actions/restore_backing_data", handle: onBacking(s.State.Restore)},
		{method: post, path: version + "/actions/permanently_delete_backing_data", handle: onBacking(s.State.Delete)},
	}
}

func (s *server) configurationBackingRoutes(configuration string) []route {
	return []route{
		{method: post, path: configuration + "/actions/archive", handle: onBacking(s.Runs.Archive)},
		{method: post, path: configuration + "/actions/soft_delete_backing_data", handle: onBacking(s.Runs.HideConfiguration)},
		{method: post, path: configuration + "/actions/restore_backing_data", handle: onBacking(s.Runs.RestoreConfiguration)},
		{method: post, path: configuration + "/actions/permanently_delete_backing_data", handle: onBacking(s.Runs.DeleteConfiguration)},
	}
}
