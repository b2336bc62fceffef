package tfeapi

import (
	"crypto/sha256"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/ids"
)

// userView is a user on the wire. Only the user sees its own e-mail address.
type userView struct {
	ID               string          `jsonapi:"primary,users"`
	Username         string          `jsonapi:"attr,username"`
	Email            string          `jsonapi:"attr,email,omitempty"`
	AvatarURL        string          `jsonapi:"attr,avatar-url"`
	IsServiceAccount bool            `jsonapi:"attr,is-service-account"`
	IsSiteAdmin      bool            `jsonapi:"attr,is-site-admin"`
	TwoFactor        *twoFactor      `jsonapi:"attr,two-factor,omitempty"` // of the user itself, and where memberships are shown
	Permissions      userPermissions `jsonapi:"attr,permissions"`

	// Of the user itself and for site admins, while SCIM is on.
	IsSCIMManaged *bool      `jsonapi:"attr,is-scim-managed,omitempty"`
	SCIMUsername  *string    `jsonapi:"attr,scim-username,omitempty"`
	SCIMUpdatedAt *time.Time `jsonapi:"attr,scim-updated-at,iso8601,omitempty"`
}

type twoFactor struct {
	Enabled  bool `json:"enabled"`
	Verified bool `json:"verified"`
}

func newTwoFactor(has bool) *twoFactor { return &twoFactor{Enabled: has, Verified: has} }

type userPermissions struct {
	CanCreateOrganizations bool `json:"can-create-organizations"`
	CanChangeEmail         bool `json:"can-change-email"`
	CanChangeUsername      bool `json:"can-change-username"`
	CanManageUserTokens    bool `json:"can-manage-user-tokens"`
}

func (*userView) relations() relations { return nil }

func newUserView(actor authz.Actor, u accounts.User) *userView {
	v := &userView{ID: string(u.ID), Username: u.Username, IsSiteAdmin: u.SiteAdmin, IsServiceAccount: u.ServiceAccount, AvatarURL: "/api/v2/users/" + string(u.ID) + "/avatar"}
	if actor.User == u.ID {
		v.Email = u.Email
		v.Permissions.CanChangeEmail, v.Permissions.CanChangeUsername = true, true
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
	view.TwoFactor = newTwoFactor(factor.EnrolledAt != nil)
	view, err = s.withStanding(r, view, u.ID)
	return ok(view), err
}

// updateAccount changes the name and address of the user who asks.
func (s *server) updateAccount(r *request) (answer, error) {
	body, err := r.body()
	if err != nil {
		return answer{}, err
	}
	in, err := decode[struct {
		Username Opt[string] `json:"username"`
		Email    Opt[string] `json:"email"`
	}](body, "users")
	if err != nil {
		return answer{}, err
	}
	if _, err := s.Accounts.UpdateMe(r.ctx, r.actor, in.Attributes.Username.Pointer(), textOrEmpty(in.Attributes.Email)); err != nil {
		return answer{}, err
	}
	return s.accountDetails(r)
}

// avatar draws a picture that is the same for a user every time, and tells nothing else.
func (s *server) avatar(r *request) (answer, error) {
	user, err := id[ids.User](r)
	if err != nil {
		return answer{}, err
	}
	sum := sha256.Sum256([]byte(user))
	picture := fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 2 2"><rect width="2" height="2" fill="hsl(%d,45%%,45%%)"/><circle cx="1" cy="0.8" r="0.4" fill="#fff"/><path d="M0.2 2a0.8 0.7 0 0 1 1.6 0z" fill="#fff"/></svg>`, (int(sum[0])<<8+int(sum[1]))%360)
	drawn := download(io.NopCloser(strings.NewReader(picture)), int64(len(picture)))
	drawn.mediaType = "image/svg+xml"
	return drawn, nil
}
