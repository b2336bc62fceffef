package tfeapi

import (
	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/authz"
)

// userView is a user on the wire. Only the user sees its own e-mail address.
type userView struct {
	ID               string          `jsonapi:"primary,users"`
	Username         string          `jsonapi:"attr,username"`
	Email            string          `jsonapi:"attr,email,omitempty"`
	AvatarURL        string          `jsonapi:"attr,avatar-url"`
	IsServiceAccount bool            `jsonapi:"attr,is-service-account"`
	IsSiteAdmin      bool            `jsonapi:"attr,is-site-admin"`
	TwoFactor        twoFactor       `jsonapi:"attr,two-factor"`
	Permissions      userPermissions `jsonapi:"attr,permissions"`
}

type twoFactor struct {
	Enabled  bool `json:"enabled"`
	Verified bool `json:"verified"`
}

type userPermissions struct {
	CanCreateOrganizations bool `json:"can-create-organizations"`
	CanChangeEmail         bool `json:"can-change-email"`
	CanChangeUsername      bool `json:"can-change-username"`
	CanManageUserTokens    bool `json:"can-manage-user-tokens"`
}

func (*userView) relations() relations { return nil }

func newUserView(actor authz.Actor, u accounts.User) *userView {
	v := &userView{ID: string(u.ID), Username: u.Username, IsSiteAdmin: u.SiteAdmin, IsServiceAccount: u.ServiceAccount}
	if actor.User == u.ID {
		v.Email = u.Email
		v.Permissions.CanCreateOrganizations = authz.Can(actor, authz.OrganizationCreate, authz.Object{})
	}
	return v
}

// accountDetails is how `tofu login` checks a token.
func (s *server) accountDetails(r *request) (answer, error) {
	u, err := s.Accounts.Me(r.ctx, r.actor)
	if err != nil {
		return answer{}, err
	}
	factor, err := s.Accounts.Factor(r.ctx, r.actor)
	if err != nil {
		return answer{}, err
	}
	view := newUserView(r.actor, u)
	view.TwoFactor = twoFactor{Enabled: factor.EnrolledAt != nil, Verified: factor.EnrolledAt != nil}
	return ok(view), nil
}
