package tfeapi

import (
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/runs"
)

// commentView is what somebody said about a run.
type commentView struct {
	ID      string `jsonapi:"primary,comments"`
	Body    string `jsonapi:"attr,body"`
	related relations
}

func (v *commentView) relations() relations { return v.related }

func newCommentView(c runs.Comment) *commentView {
	return &commentView{ID: string(c.ID), Body: c.Body, related: relations{"user": optional("users", c.CreatedBy), "run-event": ref{"run-events", commentEventID(c.ID)}}}
}

// listComments answers with all of them: the client reads one page only.
func (s *server) listComments(r *request) (answer, error) {
	run, err := id[ids.Run](r)
	if err != nil {
		return answer{}, err
	}
	list, err := s.Runs.Comments(r.ctx, r.actor, run)
	if err != nil {
		return answer{}, err
	}
	items := make([]*commentView, 0, len(list))
	for _, c := range list {
		items = append(items, newCommentView(c))
	}
	return pageOf(r, items)
}

func (s *server) createComment(r *request) (answer, error) {
	run, err := id[ids.Run](r)
	if err != nil {
		return answer{}, err
	}
	body, err := r.body()
	if err != nil {
		return answer{}, err
	}
	in, err := decode[struct {
		Body Opt[string] `json:"body"`
	}](body, "comments")
	if err != nil {
		return answer{}, err
	}
	c, err := s.Runs.CommentOn(r.ctx, r.actor, run, in.Attributes.Body.Or(""))
	if err != nil {
		return answer{}, err
	}
	return created(newCommentView(c)), nil
}

func (s *server) readComment(r *request) (answer, error) {
	comment, err := id[ids.Comment](r)
	if err != nil {
		return answer{}, err
	}
	c, err := s.Runs.Comment(r.ctx, r.actor, comment)
	if err != nil {
		return answer{}, err
	}
	return ok(newCommentView(c)), nil
}
