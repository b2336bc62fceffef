package accounts

import (
	"context"
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/audit"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// Membership is that a user belongs to an organization.
type Membership struct {
	ID               ids.Membership
	Organization     ids.Organization
	OrganizationName string
	User             ids.User
	Role             authz.Role
	Status           string // StatusActive or StatusInvited
	Email            string
	TwoFactor        bool // the user has a second factor
	CreatedAt        time.Time
	Teams            []ids.Team
}

// What a membership is. Who is invited has no rights yet.
const (
	StatusActive  = "active"
	StatusInvited = "invited"
)

// Invite makes the user with that e-mail address a member of the organization and of
// the teams. Without such a user the place is kept until a site admin makes one with that
// address. Errors: Invalid for an address that is none, that a member has already, or
// that several users have; NotFound for a team the actor does not see; and those of
// AddTeamMembers.
func (s *Service) Invite(ctx context.Context, actor authz.Actor, organization, email string, teams []ids.Team) (Membership, error) {
	var m Membership
	err := postgres.InTx(ctx, s.db, "accounts.invite", func(tx postgres.Tx) error {
		org, err := AllowedOrganization(ctx, tx, actor, authz.MembershipManage, organization)
		if err != nil {
			return err
		}
		if err := checkEmail(email); err != nil || email == "" {
			return Invalid("email", "Email is not an e-mail address")
		}
		user, err := invitee(ctx, tx, email)
		if err != nil {
			return err
		}
		status := StatusActive
		if user.Invited {
			status = StatusInvited
		}
		n, err := postgres.Exec(ctx, tx, queries.Get("MembershipInsert"), postgres.Args{
			"id": ids.New[ids.Membership](), "organization_id": org.ID, "user_id": user.ID, "status": status,
		})
		if err != nil {
			return err
		}
		if n == 0 {
			return Invalid("email", "Email belongs to a member of the organization already")
		}
		for _, id := range teams {
			if err := s.joinTeam(ctx, tx, actor, org.ID, id, user.ID); err != nil {
				return err
			}
		}
		if m, err = postgres.One[Membership](ctx, tx, queries.Get("MembershipOf"), postgres.Args{"organization_id": org.ID, "user_id": user.ID}); err != nil {
			return err
		}
		return audit.Append(ctx, tx, audit.Entry{
			Organization: org.ID, Actor: actor, Action: "member.invited", ObjectKind: "user", ObjectID: string(user.ID), Details: map[string]any{"status": status, "teams": teams},
		})
	})
	return m, err
}

// invitee gives the user with that address, or keeps a place for it.
func invitee(ctx context.Context, tx postgres.Tx, email string) (User, error) {
	found, err := postgres.All[User](ctx, tx, queries.Get("UsersByEmail"), postgres.Args{"email": email})
	switch {
	case err != nil:
		return User{}, err
	case len(found) == 2 && !found[1].Invited:
		return User{}, Invalid("email", "Email belongs to several users. Ask a site admin to give them different ones")
	case len(found) > 0:
		return found[0], nil
	}
	id := ids.New[ids.User]()
	return postgres.One[User](ctx, tx, queries.Get("UserInvite"), postgres.Args{"id": id, "username": "invited-" + string(id), "email": email})
}

// joinTeam puts a new member into a team that is not that of the owners.
func (s *Service) joinTeam(ctx context.Context, tx postgres.Tx, actor authz.Actor, org ids.Organization, id ids.Team, user ids.User) error {
	team, err := lockTeam(ctx, tx, actor, id)
	if err != nil {
		return err
	}
	if team.Organization != org {
		return fault.Missing("team", string(id))
	}
	if team.IsOwners {
		return fault.New(fault.Conflict, "owners_team", "Nobody is invited as an owner. Invite first, and add to the owners team when the membership is active.")
	}
	if err := noMoreThanOwn(actor, org, team.Access); err != nil {
		return err
	}
	if err := team.byHand(); err != nil {
		return err
	}
	_, err = postgres.Exec(ctx, tx, queries.Get("TeamMembersAdd"), postgres.Args{"organization_id": org, "team_id": id, "users": []ids.User{user}})
	return err
}

// MembershipFilter selects memberships. Query is a part of the e-mail address or
// username in any case.
type MembershipFilter struct {
	Emails []string
	Status string // empty: any
	Query  string
	Page   Page
}

// Memberships gives those of the organization, the newest first, and how many match in all.
func (s *Service) Memberships(ctx context.Context, actor authz.Actor, organization string, filter MembershipFilter) (list []Membership, total int, err error) {
	emails := []string{}
	for _, email := range filter.Emails {
		if Storable(email) {
			emails = append(emails, strings.ToLower(email))
		}
	}
	err = postgres.InSnapshot(ctx, s.db, "accounts.memberships", func(tx postgres.Tx) error {
		org, err := AllowedOrganization(ctx, tx, actor, authz.OrganizationRead, organization)
		if err != nil || !Storable(filter.Query) || !Storable(filter.Status) || len(emails) < len(filter.Emails) {
			return err
		}
		args := postgres.Args{
			"organization_id": org.ID, "emails": emails, "status": filter.Status, "query": filter.Query, "limit": filter.Page.Limit(), "offset": filter.Page.Offset(),
		}
		if list, err = postgres.All[Membership](ctx, tx, queries.Get("Memberships"), args); err != nil {
			return err
		}
		total, err = postgres.Value[int](ctx, tx, queries.Get("MembershipsCount"), args)
		return err
	})
	for i := range list {
		list[i].hideTeams(actor)
	}
	return list, total, err
}

// Membership gives one by its id. One of an organization the actor does not belong to is NotFound.
func (s *Service) Membership(ctx context.Context, actor authz.Actor, id ids.Membership) (m Membership, err error) {
	err = postgres.InOneStatement(ctx, s.db, "accounts.membership", func(tx postgres.Tx) error {
		m, err = visibleMembership(ctx, tx, actor, id)
		return err
	})
	m.hideTeams(actor)
	return m, err
}

func visibleMembership(ctx context.Context, tx postgres.Tx, actor authz.Actor, id ids.Membership) (Membership, error) {
	m, err := postgres.One[Membership](ctx, tx, queries.Get("MembershipByID"), postgres.Args{"id": id})
	if postgres.NoRow(err) {
		return Membership{}, fault.Missing("organization membership", string(id))
	}
	if err != nil {
		return Membership{}, err
	}
	return m, authz.Allow(actor, authz.OrganizationRead, m.object())
}

func (m Membership) object() authz.Object {
	return authz.Object{Organization: m.Organization, Noun: "organization membership", Name: string(m.ID)}
}

// hideTeams leaves out those that whoever asks may not know of.
func (m *Membership) hideTeams(actor authz.Actor) {
	if seesSecretTeams(actor, m.Organization) || m.User == actor.User {
		return
	}
	own := []ids.Team{}
	for _, team := range m.Teams {
		if actor.InTeam(m.Organization, team) {
			own = append(own, team)
		}
	}
	m.Teams = own
}

// RemoveMembership takes a user out of the organization and of its teams. Members leave by
// themselves; only owners remove an owner, and never the last one (Conflict "last_owner").
func (s *Service) RemoveMembership(ctx context.Context, actor authz.Actor, id ids.Membership) error {
	return postgres.InTx(ctx, s.db, "accounts.remove-membership", func(tx postgres.Tx) error {
		m, err := visibleMembership(ctx, tx, actor, id)
		if err != nil {
			return err
		}
		if self := actor.IsPerson() && actor.User == m.User; !self {
			if err := authz.Allow(actor, authz.MembershipManage, m.object()); err != nil {
				return err
			}
		}
		if _, err := postgres.Values[ids.Team](ctx, tx, queries.Get("OwnersLock"), postgres.Args{"organization_id": m.Organization}); err != nil {
			return err
		}
		if m, err = visibleMembership(ctx, tx, actor, id); err != nil { // as it stands under the lock
			return err
		}
		if m.Role == authz.Owner {
			if err := onlyOwners(actor, m.Organization, "take an owner away"); err != nil {
				return err
			}
		}
		kept, err := postgres.Value[bool](ctx, tx, queries.Get("InProvisionedTeam"), postgres.Args{"organization_id": m.Organization, "user_id": m.User})
		if err != nil {
			return err
		}
		if kept {
			return fault.New(fault.Conflict, "team_provisioned", "The identity provider has put this member into a team. Take the member out of the group there, or have a site admin pause the link.")
		}
		if _, err := postgres.Exec(ctx, tx, queries.Get("MembershipDelete"), postgres.Args{"id": id}); err != nil {
			return err
		}
		if m.Role == authz.Owner {
			if err := anOwnerStays(ctx, tx, m.Organization); err != nil {
				return err
			}
		}
		if _, err := postgres.Exec(ctx, tx, queries.Get("UninvitedDelete"), postgres.Args{"user_id": m.User}); err != nil {
			return err
		}
		return audit.Append(ctx, tx, audit.Entry{
			Organization: m.Organization, Actor: actor, Action: "member.removed", ObjectKind: "user", ObjectID: string(m.User),
		})
	})
}
