package accounts

import (
	"context"
	"slices"

	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// TeamMembers says who: by the names or by the memberships of members of the organization.
type TeamMembers struct {
	Usernames   []string
	Memberships []ids.Membership
}

// AddTeamMembers makes members of the organization members of the team, all or none:
// one who does not belong to the organization is NotFound, one who is in the team already
// stays. Only owners make owners, stepped up as for AddMember.
func (s *Service) AddTeamMembers(ctx context.Context, actor authz.Actor, id ids.Team, who TeamMembers) error {
	return s.onTeamMembers(ctx, "accounts.add-team-members", actor, id, who, func(tx postgres.Tx, team Team, users []ids.User) error {
		if err := noMoreThanOwn(actor, team.Organization, team.Access); err != nil {
			return err
		}
		if team.IsOwners {
			if err := onlyOwners(actor, team.Organization, "make an owner"); err != nil {
				return err
			}
			if err := s.demandStepUp(ctx, tx, actor); err != nil {
				return err
			}
			n, err := postgres.Exec(ctx, tx, queries.Get("OwnersSet"), postgres.Args{"organization_id": team.Organization, "users": users, "role": string(authz.Owner)})
			if err == nil && int(n) < len(users) {
				return fault.New(fault.Conflict, "only_invited", "Who is only invited cannot be an owner. Wait until the invitation is taken.")
			}
			return auditMembers(ctx, tx, actor, team, "team.members-added", users, err)
		}
		_, err := postgres.Exec(ctx, tx, queries.Get("TeamMembersAdd"), postgres.Args{"organization_id": team.Organization, "team_id": id, "users": users})
		return auditMembers(ctx, tx, actor, team, "team.members-added", users, err)
	})
}

// RemoveTeamMembers takes members out of the team. Who is not in it is no error. The
// organization keeps at least one owner: Conflict "last_owner".
func (s *Service) RemoveTeamMembers(ctx context.Context, actor authz.Actor, id ids.Team, who TeamMembers) error {
	return s.onTeamMembers(ctx, "accounts.remove-team-members", actor, id, who, func(tx postgres.Tx, team Team, users []ids.User) error {
		if team.IsOwners {
			if err := onlyOwners(actor, team.Organization, "take an owner away"); err != nil {
				return err
			}
			leaving := slices.DeleteFunc(users, func(u ids.User) bool { return !slices.Contains(team.Users, u) })
			_, err := postgres.Exec(ctx, tx, queries.Get("OwnersSet"), postgres.Args{"organization_id": team.Organization, "users": leaving, "role": string(authz.Member)})
			if err == nil {
				err = anOwnerStays(ctx, tx, team.Organization)
			}
			return auditMembers(ctx, tx, actor, team, "team.members-removed", leaving, err)
		}
		_, err := postgres.Exec(ctx, tx, queries.Get("TeamMembersRemove"), postgres.Args{"team_id": id, "users": users})
		return auditMembers(ctx, tx, actor, team, "team.members-removed", users, err)
	})
}

// onTeamMembers finds the team and the users for an actor who may change who belongs to it.
func (s *Service) onTeamMembers(ctx context.Context, name string, actor authz.Actor, id ids.Team, who TeamMembers, change func(postgres.Tx, Team, []ids.User) error) error {
	return postgres.InTx(ctx, s.db, name, func(tx postgres.Tx) error {
		team, err := lockTeam(ctx, tx, actor, id)
		if err != nil {
			return err
		}
		if err := authz.Allow(actor, authz.MembershipManage, team.object()); err != nil {
			return err
		}
		if err := team.byHand(); err != nil {
			return err
		}
		users, err := who.find(ctx, tx, team.Organization)
		if err != nil {
			return err
		}
		return change(tx, team, users)
	})
}

// find gives the users; one that is not there is NotFound.
func (m TeamMembers) find(ctx context.Context, tx postgres.Tx, org ids.Organization) ([]ids.User, error) {
	names := append([]string{}, m.Usernames...)
	slices.Sort(names)
	names = slices.Compact(names)
	for _, name := range names {
		if !usernameRule.MatchString(name) {
			return nil, fault.Missing("user", name)
		}
	}
	memberships := append([]ids.Membership{}, m.Memberships...)
	slices.Sort(memberships)
	memberships = slices.Compact(memberships)
	named, err := postgres.Values[ids.User](ctx, tx, queries.Get("UsersByName"), postgres.Args{"organization_id": org, "names": names})
	if err != nil {
		return nil, err
	}
	if len(named) < len(names) {
		return nil, fault.New(fault.NotFound, "not_found", "One of the users is not a member of the organization.")
	}
	bound, err := postgres.Values[ids.User](ctx, tx, queries.Get("UsersByMembership"), postgres.Args{"organization_id": org, "ids": memberships})
	if err != nil {
		return nil, err
	}
	if len(bound) < len(memberships) {
		return nil, fault.New(fault.NotFound, "not_found", "One of the organization memberships is not there.")
	}
	return append(named, bound...), nil
}

// anOwnerStays refuses to leave an organization without an owner. The caller holds the
// row of the owners team, so two owners cannot take each other away at once.
func anOwnerStays(ctx context.Context, tx postgres.Tx, org ids.Organization) error {
	n, err := postgres.Value[int](ctx, tx, queries.Get("OwnersCount"), postgres.Args{"organization_id": org})
	if err == nil && n == 0 {
		return fault.New(fault.Conflict, "last_owner", "An organization needs an owner. Make somebody else an owner first.")
	}
	return err
}

func auditMembers(ctx context.Context, tx postgres.Tx, actor authz.Actor, team Team, action string, users []ids.User, err error) error {
	if err != nil {
		return err
	}
	return auditTeam(ctx, tx, actor, team.Organization, team.ID, action, map[string]any{"users": users})
}
