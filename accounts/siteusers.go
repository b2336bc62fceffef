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

// SiteUser is a user as site admins see it.
type SiteUser struct {
	User
	ProvisionedAdmin bool               // made a site admin by an identity provider, and by nobody else undone
	SuspendedAt      *time.Time         // by a site admin
	DeactivatedAt    *time.Time         // by an identity provider
	TwoFactor        bool               // has a factor
	Organizations    []ids.Organization // it belongs to
}

// SiteUserFilter selects users. Query is a part of the name or e-mail address, in any case;
// nil is whatever it is.
type SiteUserFilter struct {
	Query            string
	Admin, Suspended *bool
	Page             Page
}

// SiteUsers gives the users of the site in the order in which they came, and how many match.
// Only for site admins, as is all that follows: to others it is NotFound.
func (s *Service) SiteUsers(ctx context.Context, actor authz.Actor, f SiteUserFilter) (list []SiteUser, total int, err error) {
	if err := onlySiteAdmins(actor); err != nil {
		return nil, 0, err
	}
	args := postgres.Args{"query": f.Query, "admin": f.Admin, "suspended": f.Suspended, "limit": f.Page.Limit(), "offset": f.Page.Offset()}
	err = postgres.InSnapshot(ctx, s.db, "accounts.site-users", func(tx postgres.Tx) error {
		if list, err = postgres.All[SiteUser](ctx, tx, queries.Get("SiteUsers"), args); err != nil {
			return err
		}
		total, err = postgres.Value[int](ctx, tx, queries.Get("SiteUsersCount"), args)
		return err
	})
	return list, total, err
}

// SiteUser gives a user of the site.
func (s *Service) SiteUser(ctx context.Context, actor authz.Actor, id ids.User) (u SiteUser, err error) {
	if err := onlySiteAdmins(actor); err != nil {
		return u, err
	}
	err = postgres.InOneStatement(ctx, s.db, "accounts.site-user", func(tx postgres.Tx) error {
		u, err = findSiteUser(ctx, tx, id)
		return err
	})
	return u, err
}

// SiteUsersSome gives those of the users that there are, for showing them beside what names
// them.
func (s *Service) SiteUsersSome(ctx context.Context, actor authz.Actor, list []ids.User) (found []SiteUser, err error) {
	if err := onlySiteAdmins(actor); err != nil || len(list) == 0 {
		return nil, err
	}
	err = postgres.InOneStatement(ctx, s.db, "accounts.site-users-some", func(tx postgres.Tx) error {
		found, err = postgres.All[SiteUser](ctx, tx, queries.Get("SiteUsersSome"), postgres.Args{"ids": list})
		return err
	})
	return found, err
}

func findSiteUser(ctx context.Context, tx postgres.Tx, id ids.User) (SiteUser, error) {
	u, err := postgres.One[SiteUser](ctx, tx, queries.Get("SiteUser"), postgres.Args{"id": id})
	if postgres.NoRow(err) {
		return SiteUser{}, fault.Missing("user", string(id))
	}
	return u, err
}

// onlySiteAdmins refuses everybody else as if there were nothing.
func onlySiteAdmins(actor authz.Actor) error {
	if authz.Can(actor, administer, authz.Object{}) {
		return nil
	}
	return fault.New(fault.NotFound, "not_found", "There is nothing at this address for you. It is for site admins.")
}

// SuspendUser shuts a user out: its tokens and sessions count no more, it cannot sign in, and
// nothing starts in its name. What it is a member of stays. Nobody suspends itself (Invalid).
func (s *Service) SuspendUser(ctx context.Context, actor authz.Actor, id ids.User) (SiteUser, error) {
	return s.onPerson(ctx, actor, id, "user.suspended", func(tx postgres.Tx, u SiteUser) error {
		if err := standsAbove(ctx, tx, actor, id); err != nil {
			return err
		}
		if _, err := postgres.Exec(ctx, tx, queries.Get("UserSuspend"), postgres.Args{"id": id}); err != nil {
			return err
		}
		_, err := postgres.Exec(ctx, tx, queries.Get("SessionsEnd"), postgres.Args{"user_id": id})
		return err
	})
}

// ShutOut tells whether nothing of the user counts, whoever has decided so.
func (u SiteUser) ShutOut() bool { return u.SuspendedAt != nil || u.DeactivatedAt != nil }

// UnsuspendUser lets a user in again, with the tokens it had. Whom only an identity provider shut
// out is let in by that alone: Conflict "user_deactivated".
func (s *Service) UnsuspendUser(ctx context.Context, actor authz.Actor, id ids.User) (SiteUser, error) {
	return s.onPerson(ctx, actor, id, "user.unsuspended", func(tx postgres.Tx, u SiteUser) error {
		if u.SuspendedAt == nil && u.DeactivatedAt != nil {
			return fault.New(fault.Conflict, "user_deactivated", "%s is not suspended: the identity provider has deactivated it. Activate it there, with SCIM turned on.", u.Username)
		}
		_, err := postgres.Exec(ctx, tx, queries.Get("UserUnsuspend"), postgres.Args{"id": id})
		return err
	})
}

// GrantSiteAdmin makes a user a site admin, who must have a name (Invalid). The actor must be
// stepped up (as RequireStepUp).
func (s *Service) GrantSiteAdmin(ctx context.Context, actor authz.Actor, id ids.User) (SiteUser, error) {
	return s.onPerson(ctx, actor, id, "user.admin-granted", func(tx postgres.Tx, u SiteUser) error {
		if u.Invited {
			return fault.New(fault.Invalid, "user_invited", "This is only an address that was invited. It can be made a site admin when there is a user with it.")
		}
		if err := s.demandStepUp(ctx, tx, actor); err != nil {
			return err
		}
		_, err := postgres.Exec(ctx, tx, queries.Get("SiteAdminSet"), postgres.Args{"id": id, "site_admin": true})
		return err
	})
}

// RevokeSiteAdmin makes a site admin a user like others. Nobody does it to itself (Invalid),
// so that one stays; of whom an identity provider has made one, only that takes it back (Conflict
// "provisioned_admin").
func (s *Service) RevokeSiteAdmin(ctx context.Context, actor authz.Actor, id ids.User) (SiteUser, error) {
	return s.onPerson(ctx, actor, id, "user.admin-revoked", func(tx postgres.Tx, u SiteUser) error {
		if u.ProvisionedAdmin {
			return fault.New(fault.Conflict, "provisioned_admin", "%s is a site admin as a member of a group that the identity provider keeps. Take it out of that group there, or suspend it.", u.Username)
		}
		if err := standsAbove(ctx, tx, actor, id); err != nil {
			return err
		}
		_, err := postgres.Exec(ctx, tx, queries.Get("SiteAdminSet"), postgres.Args{"id": id, "site_admin": false})
		return err
	})
}

// DeleteUser takes a user out of everything and forgets its name, address and password; what
// it has done stays, by its id. Nobody deletes itself (Invalid), and an organization keeps an
// owner (Conflict "last_owner").
func (s *Service) DeleteUser(ctx context.Context, actor authz.Actor, id ids.User) error {
	if err := onlySiteAdmins(actor); err != nil {
		return err
	}
	return postgres.InTx(ctx, s.db, "accounts.delete-user", func(tx postgres.Tx) error {
		// The organizations' locks come before the user's, as wherever an owner is taken away.
		owned, err := postgres.Values[ids.Organization](ctx, tx, queries.Get("OwnedOrganizations"), postgres.Args{"id": id})
		if err != nil {
			return err
		}
		for _, org := range owned {
			if _, err := postgres.Values[ids.Team](ctx, tx, queries.Get("OwnersLock"), postgres.Args{"organization_id": org}); err != nil {
				return err
			}
		}
		u, err := lockPerson(ctx, tx, id)
		if err != nil {
			return err
		}
		if err := standsAbove(ctx, tx, actor, id); err != nil {
			return err
		}
		for _, query := range []string{"UserMembershipsDelete", "UserTokensRevoke"} {
			if _, err := postgres.Exec(ctx, tx, queries.Get(query), postgres.Args{"id": id}); err != nil {
				return err
			}
		}
		for _, org := range owned {
			if err := anOwnerStays(ctx, tx, org); err != nil {
				return err
			}
		}
		if _, err := postgres.Exec(ctx, tx, queries.Get("SessionsEnd"), postgres.Args{"user_id": id}); err != nil {
			return err
		}
		if _, err := postgres.Exec(ctx, tx, queries.Get("UserTombstone"), postgres.Args{"id": id}); err != nil {
			return err
		}
		return audit.Append(ctx, tx, entryOf(actor, "user.deleted", id, map[string]any{"username": u.Username}))
	})
}

// onPerson changes a user under its lock and gives it as it is then.
func (s *Service) onPerson(ctx context.Context, actor authz.Actor, id ids.User, action string, change func(postgres.Tx, SiteUser) error) (u SiteUser, err error) {
	if err := onlySiteAdmins(actor); err != nil {
		return u, err
	}
	err = postgres.InTx(ctx, s.db, "accounts."+action, func(tx postgres.Tx) error {
		if u, err = lockPerson(ctx, tx, id); err != nil {
			return err
		}
		if err := change(tx, u); err != nil {
			return err
		}
		if u, err = findSiteUser(ctx, tx, id); err != nil {
			return err
		}
		return audit.Append(ctx, tx, entryOf(actor, action, id, map[string]any{"username": u.Username}))
	})
	return u, err
}

// lockPerson gives a user as it stands under its lock. The account of a team is none.
func lockPerson(ctx context.Context, tx postgres.Tx, id ids.User) (SiteUser, error) {
	_, err := postgres.Value[ids.User](ctx, tx, queries.Get("SiteUserLock"), postgres.Args{"id": id})
	if postgres.NoRow(err) {
		return SiteUser{}, fault.Missing("user", string(id))
	}
	if err != nil {
		return SiteUser{}, err
	}
	u, err := findSiteUser(ctx, tx, id)
	if err == nil && u.ServiceAccount {
		err = fault.New(fault.Invalid, "service_account", "This is the account of a team's tokens and goes with its team. Revoke the tokens or delete the team.")
	}
	return u, err
}

// standsAbove holds the actor as a site admin until the change is done, and refuses what
// somebody would do to itself: so one admin stays, however many act at once.
func standsAbove(ctx context.Context, tx postgres.Tx, actor authz.Actor, id ids.User) error {
	if actor.Kind == authz.SystemActor {
		return nil
	}
	if actor.User == id {
		return fault.New(fault.Invalid, "own_account", "You cannot do this to yourself. Another site admin can.")
	}
	_, err := postgres.Value[ids.User](ctx, tx, queries.Get("SiteAdminHold"), postgres.Args{"id": actor.User})
	if postgres.NoRow(err) {
		return fault.New(fault.NotFound, "not_found", "There is nothing at this address for you. It is for site admins.")
	}
	return err
}
