package tfeapi

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/runs"
)

// runEventView is one step of a run's history, or a comment, on the wire.
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

// commentEventID names the event that a comment is.
func commentEventID(id ids.Comment) string { return "re-" + string(id) }

func runEventRefs(d runs.Detail) []ref {
	refs := make([]ref, 0, len(d.History)+1+len(d.Comments))
	for i := range len(d.History) + 1 {
		refs = append(refs, ref{"run-events", runEventID(d, i)})
	}
	for _, c := range d.Comments {
		refs = append(refs, ref{"run-events", commentEventID(c)})
	}
	return refs
}

// newRunEventViews draws the history and the comments in the order of time.
func newRunEventViews(d runs.Detail, comments []runs.Comment) []*runEventView {
	events := []*runEventView{{
		ID: runEventID(d, 0), Action: "created", CreatedAt: d.CreatedAt,
		related: relations{"actor": optional("users", d.CreatedBy), "comment": nil},
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
	for _, c := range comments {
		events = append(events, &runEventView{
			ID: commentEventID(c.ID), Action: "commented", CreatedAt: c.CreatedAt,
			related: relations{"actor": optional("users", c.CreatedBy), "comment": ref{"comments", string(c.ID)}},
		})
	}
	slices.SortStableFunc(events, func(a, b *runEventView) int { return a.CreatedAt.Compare(b.CreatedAt) })
	return events
}

// listRunEvents must answer 200 for every run: the client aborts otherwise.
func (s *server) listRunEvents(r *request) (answer, error) {
	d, err := s.runOfPath(r)
	if err != nil {
		return answer{}, err
	}
	events, included, err := s.runEvents(r, d)
	if err != nil {
		return answer{}, err
	}
	return pageOf(r, events, included...)
}

// runEvents draws the events of a run, and what the request asks to have in full beside them.
func (s *server) runEvents(r *request, d runs.Detail) (events []*runEventView, included []view, err error) {
	var comments []runs.Comment
	if len(d.Comments) > 0 {
		if comments, err = s.Runs.Comments(r.ctx, r.actor, d.ID); err != nil {
			return nil, nil, err
		}
	}
	events = newRunEventViews(d, comments)
	asked := r.includes()
	if asked["comment"] {
		for _, c := range comments {
			included = append(included, newCommentView(c))
		}
	}
	if asked["actor"] {
		actors := map[string]bool{}
		for _, e := range events {
			if actor, ok := e.related["actor"].(ref); ok {
				actors[actor.id] = true
			}
		}
		for actor := range actors {
			u, err := s.Accounts.User(r.ctx, r.actor, ids.User(actor))
			switch {
			case err == nil:
				included = append(included, newUserView(r.actor, u))
			case !fault.Is(err, fault.NotFound): // one whom the reader may not see is left out
				return nil, nil, err
			}
		}
	}
	return events, included, nil
}

// readRunEvent finds the run that an event's id names, and the event in it.
func (s *server) readRunEvent(r *request) (answer, error) {
	missing := fault.Missing("run event", r.vars["id"])
	run, err := s.runOfEvent(r)
	if fault.Is(err, fault.NotFound) {
		return answer{}, missing
	}
	if err != nil {
		return answer{}, err
	}
	d, err := s.Runs.Get(r.ctx, r.actor, run)
	if fault.Is(err, fault.NotFound) {
		return answer{}, missing
	}
	if err != nil {
		return answer{}, err
	}
	events, included, err := s.runEvents(r, d)
	if err != nil {
		return answer{}, err
	}
	for _, e := range events {
		if e.ID == r.vars["id"] {
			return ok(e, included...), nil
		}
	}
	return answer{}, missing
}

func (s *server) runOfEvent(r *request) (ids.Run, error) {
	rest, _ := strings.CutPrefix(r.vars["id"], "re-")
	if strings.HasPrefix(rest, "wsc-") {
		comment, err := ids.Parse[ids.Comment](rest)
		if err != nil {
			return "", err
		}
		c, err := s.Runs.Comment(r.ctx, r.actor, comment)
		return c.Run, err
	}
	name, _, _ := strings.Cut(rest, "-")
	return ids.Parse[ids.Run]("run-" + name)
}
