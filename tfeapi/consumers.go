package tfeapi

import (
	"context"

	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/ids"
)

// listConsumers lists the workspaces whose runs may read this one's state.
func (s *server) listConsumers(r *request) (answer, error) {
	workspace, err := id[ids.Workspace](r)
	if err != nil {
		return answer{}, err
	}
	p, err := parsePaging(r.query)
	if err != nil {
		return answer{}, err
	}
	named, err := r.choice("show_only_configured")
	if err != nil {
		return answer{}, err
	}
	list, total, err := s.Workspaces.Consumers(r.ctx, r.actor, workspace, named != nil && *named, p.page())
	if err != nil {
		return answer{}, err
	}
	items := make([]*workspaceView, 0, len(list))
	for _, w := range list {
		items = append(items, s.newWorkspaceView(r.actor, w))
	}
	return page(items, p, total), nil
}

// changeConsumers does change with the workspaces that the body lists.
func (s *server) changeConsumers(change func(context.Context, authz.Actor, ids.Workspace, []ids.Workspace) error) func(r *request) (answer, error) {
	return func(r *request) (answer, error) {
		workspace, err := id[ids.Workspace](r)
		if err != nil {
			return answer{}, err
		}
		list, err := identifiers[ids.Workspace](r, "workspaces")
		if err != nil {
			return answer{}, err
		}
		return noContent(), change(r.ctx, r.actor, workspace, list)
	}
}
