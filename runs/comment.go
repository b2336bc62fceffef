package runs

import (
	"context"
	"time"

	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// Comment is what somebody said about a run.
type Comment struct {
	ID        ids.Comment
	Run       ids.Run
	Body      string
	CreatedBy ids.User // empty: nobody who is a user
	CreatedAt time.Time
}

const maxComment = 10_000 // bytes

type commentRow struct {
	ID             ids.Comment
	OrganizationID ids.Organization
	WorkspaceID    ids.Workspace
	RunID          ids.Run
	BodySealed     []byte
	CreatedBy      ids.User
	CreatedAt      time.Time
}

func commentLabel(id ids.Comment) string { return "comment/" + string(id) }

func (s *Service) openComment(ctx context.Context, tx postgres.Tx, r commentRow) (Comment, error) {
	body, err := s.objects.OpenValue(ctx, tx, r.OrganizationID, commentLabel(r.ID), r.BodySealed)
	return Comment{ID: r.ID, Run: r.RunID, Body: string(body), CreatedBy: r.CreatedBy, CreatedAt: r.CreatedAt}, err
}

// Comments gives what was said about a run, oldest first.
func (s *Service) Comments(ctx context.Context, actor authz.Actor, run ids.Run) (list []Comment, err error) {
	err = postgres.InSnapshot(ctx, s.db, "runs.comments", func(tx postgres.Tx) error {
		r, err := load(ctx, tx, run)
		if err != nil {
			return err
		}
		if err := authz.Allow(actor, authz.RunRead, r.Object()); err != nil {
			return err
		}
		rows, err := postgres.All[commentRow](ctx, tx, Queries.Get("Comments"), postgres.Args{"run_id": run})
		if err != nil {
			return err
		}
		list = make([]Comment, 0, len(rows))
		for _, row := range rows {
			c, err := s.openComment(ctx, tx, row)
			if err != nil {
				return err
			}
			list = append(list, c)
		}
		return nil
	})
	return list, err
}

// Comment gives one comment.
func (s *Service) Comment(ctx context.Context, actor authz.Actor, id ids.Comment) (c Comment, err error) {
	err = postgres.InSnapshot(ctx, s.db, "runs.comment", func(tx postgres.Tx) error {
		row, err := postgres.One[commentRow](ctx, tx, Queries.Get("CommentByID"), postgres.Args{"id": id})
		if postgres.NoRow(err) {
			return fault.Missing("comment", string(id))
		}
		if err != nil {
			return err
		}
		if _, err := visibleRun(ctx, tx, actor, row.RunID); err != nil {
			return missingAs(err, "comment", string(id))
		}
		c, err = s.openComment(ctx, tx, row)
		return err
	})
	return c, err
}

// CommentOn says something about a run. For everybody who may queue runs there.
func (s *Service) CommentOn(ctx context.Context, actor authz.Actor, run ids.Run, body string) (c Comment, err error) {
	err = postgres.InTx(ctx, s.db, "runs.comment-on", func(tx postgres.Tx) error {
		r, err := load(ctx, tx, run)
		if err != nil {
			return err
		}
		if err := authz.Allow(actor, authz.RunQueue, r.Object()); err != nil {
			return err
		}
		if body == "" {
			return fault.New(fault.Invalid, "invalid_attribute", "Body can't be blank").At("/data/attributes/body")
		}
		c, err = s.comment(ctx, tx, actor, r, body)
		return err
	})
	return c, err
}

// comment keeps what came with an action, or by itself; no text is no comment.
func (s *Service) comment(ctx context.Context, tx postgres.Tx, actor authz.Actor, r Run, body string) (Comment, error) {
	if body == "" {
		return Comment{}, nil
	}
	if len(body) > maxComment {
		return Comment{}, fault.New(fault.Invalid, "invalid_attribute", "The comment is longer than %d bytes.", maxComment).At("/data/attributes/body")
	}
	id := ids.New[ids.Comment]()
	sealed, err := s.objects.SealValue(ctx, tx, r.OrganizationID, commentLabel(id), []byte(body))
	if err != nil {
		return Comment{}, err
	}
	row, err := postgres.One[commentRow](ctx, tx, Queries.Get("CommentInsert"), postgres.Args{
		"id": id, "organization_id": r.OrganizationID, "workspace_id": r.WorkspaceID, "run_id": r.ID, "body_sealed": sealed, "created_by": actor.User,
	})
	return Comment{ID: id, Run: r.ID, Body: body, CreatedBy: row.CreatedBy, CreatedAt: row.CreatedAt}, err
}
