package tfeapi

import (
	"github.com/holdfast-run/holdfast/runs"
)

// organizationQueue gives the runs of the organization in the path that wait or
// work, oldest first, and counts those too that the actor does not see.
func (s *server) organizationQueue(r *request) ([]runs.QueueEntry, map[runs.Status]int, error) {
	o, err := s.Accounts.Organization(r.ctx, r.actor, r.vars["organization"])
	if err != nil {
		return nil, nil, err
	}
	return s.Runs.Queue(r.ctx, r.actor, o.ID, o.Name)
}

// runQueue numbers the runs: a waiting client subtracts how many are running from
// its own number.
func (s *server) runQueue(r *request) (answer, error) {
	queue, _, err := s.organizationQueue(r)
	if err != nil {
		return answer{}, err
	}
	details := make([]runs.Detail, 0, len(queue))
	for _, entry := range queue {
		details = append(details, entry.Detail)
	}
	items, err := s.runDocuments(r, details)
	if err != nil {
		return answer{}, err
	}
	for i, item := range items {
		item.PositionInQueue = queue[i].Position
	}
	return pageOf(r, items)
}

// capacityView counts the runs of an organization.
type capacityView struct {
	Organization string `jsonapi:"primary,organization-capacity"`
	Pending      int    `jsonapi:"attr,pending"`
	Running      int    `jsonapi:"attr,running"`
}

func (*capacityView) relations() relations { return nil }

func (s *server) capacity(r *request) (answer, error) {
	_, counts, err := s.organizationQueue(r)
	if err != nil {
		return answer{}, err
	}
	view := &capacityView{Organization: r.vars["organization"]}
	for status, n := range counts {
		switch status {
		case runs.DispatchPending, runs.Queued:
			view.Pending += n
		default:
			view.Running += n
		}
	}
	return ok(view), nil
}
