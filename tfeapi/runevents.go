package tfeapi

import (
	"fmt"
	"time"

	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/runs"
)

// runEventView is one step of a run's history on the wire.
type runEventView struct {
	ID          string    `jsonapi:"primary,run-events"`
	Action      string    `jsonapi:"attr,action"`
	CreatedAt   time.Time `jsonapi:"attr,created-at,iso8601"`
	Description string    `jsonapi:"attr,description"`
	related     relations
}

func (v *runEventView) relations() relations { return v.related }

// runEventID names an event by its run and its place in the history; 0 is the creation.
func runEventID(d runs.Detail, position int) string {
	return fmt.Sprintf("re-%s-%d", string(d.ID)[len("run-"):], position)
}

func runEventRefs(d runs.Detail) []ref {
	refs := make([]ref, 0, len(d.History)+1)
	for i := range len(d.History) + 1 {
		refs = append(refs, ref{"run-events", runEventID(d, i)})
	}
	return refs
}

func newRunEventViews(d runs.Detail) []*runEventView {
	events := []*runEventView{{
		ID: runEventID(d, 0), Action: "created", CreatedAt: d.CreatedAt,
		related: relations{"actor": ref{"users", string(d.CreatedBy)}, "comment": nil},
	}}
	for i, step := range d.History {
		event := &runEventView{
			ID: runEventID(d, i+1), Action: string(step.ToStatus), CreatedAt: step.At, Description: step.Reason,
			related: relations{"actor": nil, "comment": nil},
		}
		if step.ActorKind == authz.UserActor {
			event.related["actor"] = ref{"users", step.ActorID}
		}
		if step.ToStatus == d.DurableStatus && d.StatusMessage != "" {
			event.Description = d.StatusMessage
		}
		events = append(events, event)
	}
	return events
}

// listRunEvents must answer 200 for every run: the client aborts otherwise.
func (s *server) listRunEvents(r *request) (answer, error) {
	d, err := s.runOfPath(r)
	if err != nil {
		return answer{}, err
	}
	return all(newRunEventViews(d)), nil
}
