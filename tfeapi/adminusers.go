package tfeapi

import (
	"context"
	"time"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/ids"
)

// adminUserView is a user as site admins see it.
type adminUserView struct {
	ID               string     `jsonapi:"primary,users"`
	Username         string     `jsonapi:"attr,username"`
	Email            string     `jsonapi:"attr,email"`
	AvatarURL        string     `jsonapi:"attr,avatar-url"`
	TwoFactor        *twoFactor `jsonapi:"attr,two-factor"`
	IsAdmin          bool       `jsonapi:"attr,is-admin"`
	IsSuspended      bool       `jsonapi:"attr,is-suspended"`
	IsServiceAccount bool       `jsonapi:"attr,is-service-account"`

	// By whom it is shut out (extensions): a site admin, or the identity provider.
	SuspendedAt   *time.Time `jsonapi:"attr,suspended-at,iso8601"`
	DeactivatedAt *time.Time `jsonapi:"attr,deactivated-at,iso8601"`

	// While SCIM is on.
	IsSCIMManaged *bool      `jsonapi:"attr,is-scim-managed,omitempty"`
	SCIMUsername  *string    `jsonapi:"attr,scim-username,omitempty"`
	SCIMUpdatedAt *time.Time `jsonapi:"attr,scim-updated-at,iso8601,omitempty"`

	related relations
}

func (v *adminUserView) relations() relations { return v.related }

// newAdminUserView names the user's organizations as far as they are in names.
func newAdminUserView(u accounts.SiteUser, names map[ids.Organization]string) *adminUserView {
	organizations := []ref{}
	for _, org := range u.Organizations {
		if name, known := names[org]; known {
			organizations = append(organizations, ref{"organizations", name})
		}
	}
	return &adminUserView{
		ID: string(u.ID), Username: u.Username, Email: u.Email, AvatarURL: "/api/v2/users/" + string(u.ID) + "/avatar",
		TwoFactor: newTwoFactor(u.TwoFactor), IsAdmin: u.SiteAdmin, IsSuspended: u.ShutOut(), SuspendedAt: u.SuspendedAt, DeactivatedAt: u.DeactivatedAt, IsServiceAccount: u.ServiceAccount,
		related: relations{"organizations": organizations},
	}
}

// adminUserViews draws users, with their organizations in full where they are asked for:
// as many statements for many as for one.
func (s *server) adminUserViews(r *request, users ...accounts.SiteUser) (items []*adminUserView, included []view, err error) {
	var wanted []ids.Organization
	for _, u := range users {
		wanted = append(wanted, u.Organizations...)
	}
	found, err := s.Accounts.SiteOrganizationsSome(r.ctx, r.actor, wanted)
	if err != nil {
		return nil, nil, err
	}
	names := map[ids.Organization]string{}
	for _, o := range found {
		names[o.ID] = o.Name
	}
	standings, err := s.SCIM.Standings(r.ctx, siteUserIDs(users))
	if err != nil {
		return nil, nil, err
	}
	for _, u := range users {
		v := newAdminUserView(u, names)
		v.IsSCIMManaged, v.SCIMUsername, v.SCIMUpdatedAt = provisioned(standings, u.ID)
		items = append(items, v)
	}
	if r.includes()["organizations"] {
		if included, err = s.adminOrganizationViews(r, found); err != nil {
			return nil, nil, err
		}
	}
	return items, included, nil
}

func siteUserIDs(users []accounts.SiteUser) []ids.User {
	list := make([]ids.User, 0, len(users))
	for _, u := range users {
		list = append(list, u.ID)
	}
	return list
}

// listAdminUsers gives the users of the site. q is a part of the name or address.
func (s *server) listAdminUsers(r *request) (answer, error) {
	if err := siteAdmin(r); err != nil {
		return answer{}, err
	}
	p, err := parsePaging(r.query)
	if err != nil {
		return answer{}, err
	}
	admin, err := r.choice("filter[admin]")
	if err != nil {
		return answer{}, err
	}
	suspended, err := r.choice("filter[suspended]")
	if err != nil {
		return answer{}, err
	}
	users, total, err := s.Accounts.SiteUsers(r.ctx, r.actor, accounts.SiteUserFilter{Query: r.query.Get("q"), Admin: admin, Suspended: suspended, Page: p.page()})
	if err != nil {
		return answer{}, err
	}
	items, included, err := s.adminUserViews(r, users...)
	if err != nil {
		return answer{}, err
	}
	return page(items, p, total, included...), nil
}

// onUser gives a handler that does something to a user and shows it then.
func (s *server) onUser(do func(context.Context, authz.Actor, ids.User) (accounts.SiteUser, error)) func(*request) (answer, error) {
	return func(r *request) (answer, error) {
		if err := siteAdmin(r); err != nil {
			return answer{}, err
		}
		which, err := id[ids.User](r)
		if err != nil {
			return answer{}, err
		}
		u, err := do(r.ctx, r.actor, which)
		if err != nil {
			return answer{}, err
		}
		items, included, err := s.adminUserViews(r, u)
		if err != nil {
			return answer{}, err
		}
		return ok(items[0], included...), nil
	}
}

func (s *server) deleteUser(r *request) (answer, error) {
	if err := siteAdmin(r); err != nil {
		return answer{}, err
	}
	which, err := id[ids.User](r)
	if err != nil {
		return answer{}, err
	}
	return noContent(), s.Accounts.DeleteUser(r.ctx, r.actor, which)
}
