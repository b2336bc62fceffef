package accounts

import (
	"context"

	"github.com/holdfast-run/holdfast/audit"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// UndeleteOrganization makes an organization of the youngest tombstone of that name again,
// with its members, teams and projects (ST-23). It is for site admins. Its workspaces
// were deleted one by one, and come back one by one.
// Errors: NotFound for anybody else, and when none of that name is deleted; Conflict
// "name_taken" when another organization has the name by now.
func (s *Service) UndeleteOrganization(ctx context.Context, actor authz.Actor, name string) error {
	missing := fault.Missing("deleted organization", name)
	if allowSite(actor, authz.OrganizationCreate) != nil || !organizationName.MatchString(name) {
		return missing
	}
	return postgres.InTx(ctx, s.db, "accounts.undelete-organization", func(tx postgres.Tx) error {
		id, err := postgres.Value[ids.Organization](ctx, tx, queries.Get("OrganizationUndelete"), postgres.Args{"name": name})
		switch _, constraint := postgres.Violation(err); {
		case constraint == "organizations_name":
			return fault.New(fault.Conflict, "name_taken", "Another organization is called %q by now.", name)
		case postgres.NoRow(err):
			return missing
		case err != nil:
			return err
		}
		return audit.Append(ctx, tx, audit.Entry{
			Organization: id, Actor: actor, Action: "organization.undeleted", ObjectKind: "organization", ObjectID: string(id),
		})
	})
}
