package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

type requestKey struct{}

// InRequest has the entries that are made with the context name the request.
func InRequest(ctx context.Context, request string) context.Context {
	return context.WithValue(ctx, requestKey{}, request)
}

func requestOf(ctx context.Context) string {
	request, _ := ctx.Value(requestKey{}).(string)
	return request
}

// Record is an entry as it is read again.
type Record struct {
	ID         ids.AuditEntry
	ActorKind  string
	ActorID    string
	Action     string
	ObjectKind string
	ObjectID   string
	Reason     string
	Details    map[string]any
	Request    string // empty for what the server did by itself
	At         time.Time
}

type row struct {
	ID                                                                           ids.AuditEntry
	ActorKind, ActorID, Action, ObjectKind, ObjectID, Reason, Details, RequestID string
	At                                                                           time.Time
}

// Trail gives a page of what was done in an organization, the newest first, and how much
// that is in all. A since that is not zero leaves out what happened until then (RE-09).
func Trail(ctx context.Context, tx postgres.Tx, org ids.Organization, since time.Time, limit, offset int) (page []Record, total int, err error) {
	args := postgres.Args{"organization_id": org, "since": nil, "limit": limit, "offset": offset}
	if !since.IsZero() {
		args["since"] = since
	}
	rows, err := postgres.All[row](ctx, tx, Queries.Get("Trail"), args)
	if err != nil {
		return nil, 0, fmt.Errorf("read the audit trail: %w", err)
	}
	for _, r := range rows {
		record := Record{
			ID: r.ID, ActorKind: r.ActorKind, ActorID: r.ActorID, Action: r.Action, ObjectKind: r.ObjectKind, ObjectID: r.ObjectID, Reason: r.Reason, Request: r.RequestID, At: r.At,
		}
		if err := json.Unmarshal([]byte(r.Details), &record.Details); err != nil {
			return nil, 0, fmt.Errorf("audit entry %s: %w", r.ID, err)
		}
		page = append(page, record)
	}
	total, err = postgres.Value[int](ctx, tx, Queries.Get("TrailCount"), args)
	return page, total, err
}
