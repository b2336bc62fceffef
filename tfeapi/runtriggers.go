package tfeapi

import (
	"time"

	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/runs"
)

// runTriggerView is a run trigger on the wire.
type runTriggerView struct {
	ID             string    `jsonapi:"primary,run-triggers"`
	CreatedAt      time.Time `jsonapi:"attr,created-at,iso8601"`
	WorkspaceName  string    `jsonapi:"attr,workspace-name"`
	SourceableName string    `jsonapi:"attr,sourceable-name"`
	related        relations
}

func (v *runTriggerView) relations() relations { return v.related }

func newRunTriggerView(t runs.Trigger) *runTriggerView {
	return &runTriggerView{
		ID: string(t.ID), CreatedAt: t.CreatedAt, WorkspaceName: t.WorkspaceName, SourceableName: t.SourceName,
		related: relations{"workspace": ref{"workspaces", string(t.Workspace)}, "sourceable": ref{"workspaces", string(t.Source)}},
	}
}

// triggerIncludes gives the workspaces of triggers that the request asks for.
func (s *server) triggerIncludes(r *request, list ...runs.Trigger) (included []view, err error) {
	asked := r.includes()
	var wanted []ids.Workspace
	for _, t := range list {
		if asked["workspace"] {
			wanted = append(wanted, t.Workspace)
		}
		if asked["sourceable"] {
			wanted = append(wanted, t.Source)
		}
	}
	found, err := s.Workspaces.Some(r.ctx, r.actor, wanted)
	for _, w := range found {
		included = append(included, s.newWorkspaceView(r.actor, w))
	}
	return included, err
}

func (s *server) listRunTriggers(r *request) (answer, error) {
	workspace, err := id[ids.Workspace](r)
	if err != nil {
		return answer{}, err
	}
	p, err := parsePaging(r.query)
	if err != nil {
		return answer{}, err
	}
	kind := r.query.Get("filter[run-trigger][type]")
	if kind != "inbound" && kind != "outbound" {
		return answer{}, fault.New(fault.Malformed, "invalid_parameter", "The query parameter filter[run-trigger][type] must be inbound or outbound.")
	}
	list, total, err := s.Runs.Triggers(r.ctx, r.actor, workspace, kind == "outbound", p.limit(), p.offset())
	if err != nil {
		return answer{}, err
	}
	items := make([]*runTriggerView, 0, len(list))
	for _, t := range list {
		items = append(items, newRunTriggerView(t))
	}
	included, err := s.triggerIncludes(r, list...)
	return page(items, p, total, included...), err
}

func (s *server) createRunTrigger(r *request) (answer, error) {
	workspace, err := id[ids.Workspace](r)
	if err != nil {
		return answer{}, err
	}
	body, err := r.body()
	if err != nil {
		return answer{}, err
	}
	in, err := decode[struct{}](body, "run-triggers")
	if err != nil {
		return answer{}, err
	}
	text, err := in.required("sourceable", "workspaces")
	if err != nil {
		return answer{}, err
	}
	source, err := ids.Parse[ids.Workspace](text)
	if err != nil {
		return answer{}, err
	}
	t, err := s.Runs.CreateTrigger(r.ctx, r.actor, workspace, source)
	if err != nil {
		return answer{}, err
	}
	return created(newRunTriggerView(t)), nil
}

func (s *server) readRunTrigger(r *request) (answer, error) {
	trigger, err := id[ids.RunTrigger](r)
	if err != nil {
		return answer{}, err
	}
	t, err := s.Runs.Trigger(r.ctx, r.actor, trigger)
	if err != nil {
		return answer{}, err
	}
	included, err := s.triggerIncludes(r, t)
	return ok(newRunTriggerView(t), included...), err
}

func (s *server) deleteRunTrigger(r *request) (answer, error) {
	trigger, err := id[ids.RunTrigger](r)
	if err != nil {
		return answer{}, err
	}
	return noContent(), s.Runs.DeleteTrigger(r.ctx, r.actor, trigger)
}
