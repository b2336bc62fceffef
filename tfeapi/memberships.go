package tfeapi

import (
	"maps"
	"slices"
	"time"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
)

// membershipView is on the wire that a user belongs to an organization.
type membershipView struct {
	ID        string    `jsonapi:"primary,organization-memberships"`
	Status    string    `jsonapi:"attr,status"`
	Email     string    `jsonapi:"attr,email"`
	CreatedAt time.Time `jsonapi:"attr,created-at,iso8601"`
	related   relations
}

func (v *membershipView) relations() relations { return v.related }

func newMembershipView(m accounts.Membership) *membershipView {
	teams := make([]ref, 0, len(m.Teams))
	for _, team := range m.Teams {
		teams = append(teams, ref{"teams", string(team)})
	}
	return &membershipView{
		ID: string(m.ID), Status: m.Status, Email: m.Email, CreatedAt: m.CreatedAt,
		related: relations{"organization": ref{"organizations", m.OrganizationName}, "user": ref{"users", string(m.User)}, "teams": teams},
	}
}

// membershipIncludes gives the users and teams of memberships in full, with as many
// statements for many as for one.
func (s *server) membershipIncludes(r *request, wanted includes, list ...accounts.Membership) (included []view, err error) {
	var users []ids.User
	var teams []ids.Team
	for _, m := range list {
		users, teams = append(users, m.User), append(teams, m.Teams...)
	}
	if wanted["user"] {
		if included, err = s.memberViews(r, users, list); err != nil {
			return nil, err
		}
	}
	if wanted["teams"] {
		found, err := s.Accounts.ShowTeams(r.ctx, r.actor, teams)
		if err != nil {
			return nil, err
		}
		drawn, err := s.teamViews(r, found...)
		if err != nil {
			return nil, err
		}
		for _, v := range drawn {
			included = append(included, v)
		}
	}
	return included, nil
}

// memberViews draws users with what their memberships tell of them: their addresses, and whether
// they have a second factor.
func (s *server) memberViews(r *request, users []ids.User, list []accounts.Membership) ([]view, error) {
	found, err := s.Accounts.ShowUsers(r.ctx, users)
	if err != nil {
		return nil, err
	}
	of := map[ids.User]accounts.Membership{}
	for _, m := range list {
		of[m.User] = m
	}
	drawn := make([]view, 0, len(found))
	for _, u := range found {
		v := newUserView(r.actor, u)
		v.Email, v.TwoFactor = of[u.ID].Email, newTwoFactor(of[u.ID].TwoFactor)
		drawn = append(drawn, v)
	}
	return drawn, nil
}

// membershipInclude reads what to include. Here clients expect what cannot be included
// to be refused, in these words.
func membershipInclude(r *request) (includes, error) {
	wanted := r.includes()
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		if name != "user" && name != "teams" && name != "" {
			return nil, fault.New(fault.Malformed, "invalid_parameter", "Invalid include parameter: a membership includes user and teams, not %q.", name)
		}
	}
	return wanted, nil
}

func (s *server) listMemberships(r *request) (answer, error) {
	p, err := parsePaging(r.query)
	if err != nil {
		return answer{}, err
	}
	filter := accounts.MembershipFilter{Emails: commaList(r.query, "filter[email]"), Status: r.query.Get("filter[status]"), Query: r.query.Get("q"), Page: p.page()}
	switch filter.Status {
	case "", accounts.StatusActive, accounts.StatusInvited:
	default:
		return answer{}, fault.New(fault.Malformed, "invalid_parameter", "A membership is active or invited, never %q.", filter.Status)
	}
	wanted, err := membershipInclude(r)
	if err != nil {
		return answer{}, err
	}
	list, total, err := s.Accounts.Memberships(r.ctx, r.actor, r.vars["organization"], filter)
	if err != nil {
		return answer{}, err
	}
	items := make([]*membershipView, 0, len(list))
	for _, m := range list {
		items = append(items, newMembershipView(m))
	}
	included, err := s.membershipIncludes(r, wanted, list...)
	return page(items, p, total, included...), err
}

func (s *server) createMembership(r *request) (answer, error) {
	body, err := r.body()
	if err != nil {
		return answer{}, err
	}
	in, err := decode[struct {
		Email Opt[string] `json:"email"`
	}](body, "organization-memberships")
	if err != nil {
		return answer{}, err
	}
	teams, err := relatedIDs[ids.Team](in, "teams", "teams")
	if err != nil {
		return answer{}, err
	}
	if teams == nil {
		teams = &[]ids.Team{}
	}
	m, err := s.Accounts.Invite(r.ctx, r.actor, r.vars["organization"], in.Attributes.Email.Or(""), *teams)
	if err != nil {
		return answer{}, err
	}
	drawn := created(newMembershipView(m))
	drawn.document.included, err = s.membershipIncludes(r, includes{"user": true}, m)
	return drawn, err
}

func (s *server) readMembership(r *request) (answer, error) {
	membership, err := id[ids.Membership](r)
	if err != nil {
		return answer{}, err
	}
	wanted, err := membershipInclude(r)
	if err != nil {
		return answer{}, err
	}
	m, err := s.Accounts.Membership(r.ctx, r.actor, membership)
	if err != nil {
		return answer{}, err
	}
	included, err := s.membershipIncludes(r, wanted, m)
	return ok(newMembershipView(m), included...), err
}

func (s *server) deleteMembership(r *request) (answer, error) {
	membership, err := id[ids.Membership](r)
	if err != nil {
		return answer{}, err
	}
	return noContent(), s.Accounts.RemoveMembership(r.ctx, r.actor, membership)
}
