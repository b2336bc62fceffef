package tfeapi

import (
	"net/http"
	"time"

	"github.com/holdfast-run/holdfast/audit"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
)

// auditTrail is a page of what was done in an organization. It is no JSON:API: neither is
// Terraform Cloud's.
type auditTrail struct {
	Data       []auditEvent    `json:"data"`
	Pagination auditPagination `json:"pagination"`
}

type auditEvent struct {
	ID        string        `json:"id"`
	Version   string        `json:"version"`
	Type      string        `json:"type"`
	Timestamp time.Time     `json:"timestamp"`
	Auth      auditAuth     `json:"auth"`
	Request   auditRequest  `json:"request"`
	Resource  auditResource `json:"resource"`
}

// auditAuth says who did it.
type auditAuth struct {
	AccessorID     string  `json:"accessor_id"`
	Description    string  `json:"description"`
	Type           string  `json:"type"`
	ImpersonatorID *string `json:"impersonator_id"` // nobody acts as somebody else here
	OrganizationID string  `json:"organization_id"`
}

type auditRequest struct {
	ID string `json:"id"`
}

type auditResource struct {
	ID     string         `json:"id"`
	Type   string         `json:"type"`
	Action string         `json:"action"`
	Meta   map[string]any `json:"meta"`
}

type auditPagination struct {
	CurrentPage int  `json:"current_page"`
	PrevPage    *int `json:"prev_page"`
	NextPage    *int `json:"next_page"`
	TotalPages  int  `json:"total_pages"`
	TotalCount  int  `json:"total_count"`
}

// accessorTypes are the kinds of actors in the words of Terraform Cloud; other kinds keep their own.
var accessorTypes = map[string]string{"user": "Client", "team": "Team", "organization": "Organization"}

func newAuditEvent(org ids.Organization, e audit.Record) auditEvent {
	meta := e.Details
	if e.Reason != "" {
		meta["reason"] = e.Reason
	}
	kind, known := accessorTypes[e.ActorKind]
	if !known {
		kind = e.ActorKind
	}
	return auditEvent{
		ID: string(e.ID), Version: "0", Type: "Resource", Timestamp: e.At,
		Auth:     auditAuth{AccessorID: e.ActorID, Description: e.ActorKind + " " + e.ActorID, Type: kind, OrganizationID: string(org)},
		Request:  auditRequest{ID: e.Request},
		Resource: auditResource{ID: e.ObjectID, Type: e.ObjectKind, Action: e.Action, Meta: meta},
	}
}

// listAuditTrail answers with what was done in the organization whose token is shown.
func (s *server) listAuditTrail(r *request) (answer, error) {
	p, err := parsePaging(r.query)
	if err != nil {
		return answer{}, err
	}
	var since time.Time
	if text := r.query.Get("since"); text != "" {
		if since, err = time.Parse(time.RFC3339, text); err != nil {
			return answer{}, fault.New(fault.Malformed, "invalid_parameter", "since is %q, which is no time such as 2027-01-31T15:00:00Z.", text)
		}
	}
	org, list, total, err := s.Accounts.AuditTrail(r.ctx, r.actor, since, p.limit(), p.offset())
	if err != nil {
		return answer{}, err
	}
	of := p.of(total)
	trail := auditTrail{Data: make([]auditEvent, 0, len(list)), Pagination: auditPagination{
		CurrentPage: of.CurrentPage, PrevPage: of.PreviousPage, NextPage: of.NextPage, TotalPages: of.TotalPages, TotalCount: of.TotalCount,
	}}
	for _, e := range list {
		trail.Data = append(trail.Data, newAuditEvent(org, e))
	}
	return answer{status: http.StatusOK, json: trail}, nil
}
