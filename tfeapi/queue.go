package tfeapi

import (
	"github.com/holdfast-run/holdfast/runs"
)

// organizationQueue gives the runs of the organization in the path that wait or
// work, oldest first.
func (s *server) organizationQueue(r *request) ([]runs.Detail, error) {
	o, err := s.Accounts.Organization(r.ctx, r.actor, r.vars["organization"])
	if err != nil {
		return nil, err
	}
	return s.Runs.Queue(r.ctx, r.actor, o.ID, o.Name)
}

// runQueue numbers the runs: a waiting client subtracts how many are running from
// its own number.
func (s *server) runQueue(r *request) (answer, error) {
	queue, err := s.organizationQueue(r)
	if err != nil {
		return answer{}, err
	}
	items, err := s.runDocuments(r, queue)
	if err != nil {
		return answer{}, err
	}
	for i, item := range items {
		item.PositionInQueue = i + 1
	}
	return all(items), nil
}

// capacityView counts the runs of an organization.
type capacityView struct {
	Organization string `jsonapi:"primary,organization-capacity"`
	Pending      int    `jsonapi:"attr,pending"`
	Running      int    `jsonapi:"attr,running"`
}

func (*capacityView) relations() relations { return nil }

func (s *server) capacity(r *request) (answer, error) {
	queue, err := s.organizationQueue(r)
	if err != nil {
		return answer{}, err
	}
	view := &capacityView{Organization: r.vars["organization"]}
	for _, d := range queue {
		switch d.DurableStatus {
		case runs.DispatchPending, runs.Queued:
			view.Pending++
		default:
			view.Running++
		}
	}
	return ok(view), nil
}
