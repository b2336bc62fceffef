package runs

import (
	"context"
	"io"

	"github.com/holdfast-run/holdfast/artifacts"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
)

// PlanJSON gives a plan as `tofu show -json` printed it, values included, so it
// takes the right to read state. The caller closes the reader. NotFound until the
// plan is stored.
func (s *Service) PlanJSON(ctx context.Context, actor authz.Actor, id ids.Plan) (io.ReadCloser, artifacts.Object, error) {
	d, err := s.ByPlan(ctx, actor, id)
	if err != nil {
		return nil, artifacts.Object{}, err
	}
	if err := authz.Allow(actor, authz.StateRead, d.Object()); err != nil {
		return nil, artifacts.Object{}, err
	}
	if d.PlanJSONObjectID == "" {
		return nil, artifacts.Object{}, fault.New(fault.NotFound, "no_plan", "Plan %s is not finished, so it has no JSON form.", id)
	}
	return s.objects.Open(ctx, d.OrganizationID, d.PlanJSONObjectID)
}

// PlanJSONRedacted gives what a client draws a plan from: what changes, without
// sensitive values, and the schemas of the types in it. It takes the right to read
// runs. The caller closes the reader. NotFound until the plan is stored; a plan that
// failed has it only where it has generated configuration.
func (s *Service) PlanJSONRedacted(ctx context.Context, actor authz.Actor, id ids.Plan) (io.ReadCloser, artifacts.Object, error) {
	d, err := s.ByPlan(ctx, actor, id)
	if err != nil {
		return nil, artifacts.Object{}, err
	}
	if d.PlanJSONRedactedObject == "" {
		return nil, artifacts.Object{}, fault.New(fault.NotFound, "no_plan", "Plan %s is not finished, so it has no JSON form.", id)
	}
	return s.objects.Open(ctx, d.OrganizationID, d.PlanJSONRedactedObject)
}
