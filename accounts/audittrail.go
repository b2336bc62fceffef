package accounts

import (
	"context"
	"time"

	"github.com/holdfast-run/holdfast/audit"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// AuditTrail gives a page of what was done in the organization whose token the actor has,
// the newest first, and how much that is in all. since leaves out what happened until then;
// zero leaves out nothing. NotFound for anybody else, as there is no organization named.
func (s *Service) AuditTrail(ctx context.Context, actor authz.Actor, since time.Time, limit, offset int) (org ids.Organization, page []audit.Record, total int, err error) {
	org = actor.Organization
	if actor.Kind != authz.OrganizationActor || !authz.Can(actor, authz.AuditRead, authz.Object{Organization: org}) {
		return "", nil, 0, fault.New(fault.NotFound, "not_found", "There is no audit trail for you here. It is read with a token of the organization, or with one of the kind %s.", AuditToken)
	}
	err = postgres.InSnapshot(ctx, s.db, "accounts.audit-trail", func(tx postgres.Tx) (err error) {
		page, total, err = audit.Trail(ctx, tx, org, since, limit, offset)
		return err
	})
	return org, page, total, err
}
