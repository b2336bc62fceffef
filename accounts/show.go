package accounts

import (
	"context"

	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// ShowUsers gives the users that something names which whoever asks may see. It asks
// nobody for permission.
func (s *Service) ShowUsers(ctx context.Context, users []ids.User) (found []User, err error) {
	err = postgres.InOneStatement(ctx, s.db, "accounts.show-users", func(tx postgres.Tx) error {
		found, err = postgres.All[User](ctx, tx, queries.Get("UsersByID"), postgres.Args{"ids": append([]ids.User{}, users...)})
		return err
	})
	return found, err
}

// ShowMemberships gives those among the memberships whose organization the actor belongs to.
func (s *Service) ShowMemberships(ctx context.Context, actor authz.Actor, memberships []ids.Membership) ([]Membership, error) {
	var found []Membership
	err := postgres.InOneStatement(ctx, s.db, "accounts.show-memberships", func(tx postgres.Tx) (err error) {
		found, err = postgres.All[Membership](ctx, tx, queries.Get("MembershipsByID"), postgres.Args{"ids": append([]ids.Membership{}, memberships...)})
		return err
	})
	visible := make([]Membership, 0, len(found))
	for _, m := range found {
		if authz.Can(actor, authz.OrganizationRead, m.object()) {
			m.hideTeams(actor)
			visible = append(visible, m)
		}
	}
	return visible, err
}

// ShowTeams gives those among the teams that the actor sees.
func (s *Service) ShowTeams(ctx context.Context, actor authz.Actor, teams []ids.Team) ([]Team, error) {
	var found []Team
	err := postgres.InOneStatement(ctx, s.db, "accounts.show-teams", func(tx postgres.Tx) (err error) {
		found, err = postgres.All[Team](ctx, tx, queries.Get("TeamsByID"), postgres.Args{"ids": append([]ids.Team{}, teams...)})
		return err
	})
	visible := make([]Team, 0, len(found))
	for _, t := range found {
		if t.visibleTo(actor) {
			visible = append(visible, t)
		}
	}
	return visible, err
}
