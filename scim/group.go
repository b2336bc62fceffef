package scim

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/audit"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// Group is a group as the identity provider keeps it. Several may have the same name.
type Group struct {
	ID          ids.SCIMGroup
	DisplayName string
	ExternalID  string
	Members     []ids.User // in the order of their ids
	Names       []string   // what each of the members is called, in the same order
	CreatedAt   time.Time
	UpdatedAt   time.Time
}

func (g Group) check() error {
	if strings.TrimSpace(g.DisplayName) == "" {
		return accounts.Invalid("displayName", "displayName must not be empty")
	}
	if err := accounts.CheckText("displayName", "displayName", g.DisplayName, maxName); err != nil {
		return err
	}
	return accounts.CheckText("externalId", "externalId", g.ExternalID, maxName)
}

func (g Group) args() postgres.Args {
	return postgres.Args{"id": g.ID, "display_name": g.DisplayName, "external_id": g.ExternalID}
}

// CreateGroup makes a group. Errors: Invalid for a name that is empty, or a member that is not
// there.
func (s *Service) CreateGroup(ctx context.Context, actor authz.Actor, g Group) (made Group, err error) {
	if err := g.check(); err != nil {
		return Group{}, err
	}
	err = s.provisioning(ctx, "scim.create-group", actor, func(tx postgres.Tx) error {
		g.ID = ids.New[ids.SCIMGroup]()
		if _, err := postgres.Exec(ctx, tx, Queries.Get("GroupInsert"), g.args()); err != nil {
			return err
		}
		if err := setMembers(ctx, tx, g.ID, g.Members); err != nil {
			return err
		}
		if made, err = loadGroup(ctx, tx, g.ID); err != nil {
			return err
		}
		return auditGroup(ctx, tx, actor, "scim.group-created", made)
	})
	return made, err
}

func auditGroup(ctx context.Context, tx postgres.Tx, actor authz.Actor, action string, g Group) error {
	return audit.Append(ctx, tx, entry(actor, action, "scim-group", string(g.ID), map[string]any{"display_name": g.DisplayName, "members": len(g.Members)}))
}

// setMembers makes exactly the users the members of the group.
func setMembers(ctx context.Context, tx postgres.Tx, id ids.SCIMGroup, users []ids.User) error {
	wanted := append([]ids.User{}, users...)
	slices.Sort(wanted)
	wanted = slices.Compact(wanted)
	args := postgres.Args{"group_id": id, "users": wanted}
	if _, err := postgres.Exec(ctx, tx, Queries.Get("MembersElse"), args); err != nil {
		return err
	}
	if _, err := postgres.Exec(ctx, tx, Queries.Get("MembersAdd"), args); err != nil {
		return err
	}
	n, err := postgres.Value[int](ctx, tx, Queries.Get("MembersCount"), args)
	if err == nil && n < len(wanted) {
		return accounts.Invalid("members", "One of the members is not there: every member is the id of a user of /scim/v2/Users. A group in a group cannot be kept")
	}
	return err
}

// Group gives one by its id.
func (s *Service) Group(ctx context.Context, actor authz.Actor, id ids.SCIMGroup) (g Group, err error) {
	err = s.reading(ctx, "scim.group", actor, func(tx postgres.Tx) error {
		g, err = loadGroup(ctx, tx, id)
		return err
	})
	return g, err
}

func loadGroup(ctx context.Context, tx postgres.Tx, id ids.SCIMGroup) (Group, error) {
	if !accounts.Storable(string(id)) {
		return Group{}, missingGroup(id)
	}
	g, err := postgres.One[Group](ctx, tx, Queries.Get("GroupByID"), postgres.Args{"id": id})
	if postgres.NoRow(err) {
		return Group{}, missingGroup(id)
	}
	return g, err
}

// Groups gives those that match, the oldest first, and how many match in all. Without members
// it is quicker.
func (s *Service) Groups(ctx context.Context, actor authz.Actor, m Match, page Page, members bool) (list []Group, total int, err error) {
	err = s.reading(ctx, "scim.groups", actor, func(tx postgres.Tx) error {
		if !m.storable() {
			return nil
		}
		args := m.args(page)
		args["members"] = members
		if list, err = postgres.All[Group](ctx, tx, Queries.Get("Groups"), args); err != nil {
			return err
		}
		total, err = postgres.Value[int](ctx, tx, Queries.Get("GroupsCount"), args)
		return err
	})
	return list, total, err
}

// GroupNames gives the groups with that part of a name, in any case, by name, for site admins,
// and how many match in all.
func (s *Service) GroupNames(ctx context.Context, actor authz.Actor, part string, page Page) (list []Group, total int, err error) {
	if err := allowSite(actor); err != nil {
		return nil, 0, err
	}
	if !accounts.Storable(part) {
		return nil, 0, nil
	}
	args := postgres.Args{"part": part, "limit": page.Limit, "offset": page.Offset}
	err = postgres.InSnapshot(ctx, s.db, "scim.group-names", func(tx postgres.Tx) error {
		if list, err = postgres.All[Group](ctx, tx, Queries.Get("GroupNames"), args); err != nil {
			return err
		}
		total, err = postgres.Value[int](ctx, tx, Queries.Get("GroupNamesCount"), args)
		return err
	})
	return list, total, err
}

// ChangeGroup gives the group as it is to change, and keeps what that makes of it, and with it the
// members of the teams that follow it. change may be called more than once. Errors:
// NotFound, those of change, and those of CreateGroup.
func (s *Service) ChangeGroup(ctx context.Context, actor authz.Actor, id ids.SCIMGroup, change func(Group) (Group, error)) (after Group, err error) {
	err = s.provisioning(ctx, "scim.change-group", actor, func(tx postgres.Tx) error {
		before, err := loadGroup(ctx, tx, id)
		if err != nil {
			return err
		}
		members := slices.Clone(before.Members)
		g, err := change(before)
		if err != nil {
			return err
		}
		g.ID = id
		if err := g.check(); err != nil {
			return err
		}
		if _, err := postgres.Exec(ctx, tx, Queries.Get("GroupUpdate"), g.args()); err != nil {
			return err
		}
		if !slices.Equal(members, g.Members) {
			if err := s.changeMembers(ctx, tx, actor, g); err != nil {
				return err
			}
		}
		if after, err = loadGroup(ctx, tx, id); err != nil {
			return err
		}
		return auditGroup(ctx, tx, actor, "scim.group-changed", after)
	})
	return after, err
}

func (s *Service) changeMembers(ctx context.Context, tx postgres.Tx, actor authz.Actor, g Group) error {
	if err := setMembers(ctx, tx, g.ID, g.Members); err != nil {
		return err
	}
	if err := settleAdmins(ctx, tx, actor); err != nil {
		return err
	}
	teams, err := postgres.Values[ids.Team](ctx, tx, Queries.Get("FollowingTeamsOfGroup"), postgres.Args{"group_id": g.ID})
	if err != nil {
		return err
	}
	return follow(ctx, tx, actor, teams)
}

// DeleteGroup takes the group away, and its members out of the teams that follow it. Those teams
// are linked no more. Errors: NotFound; Conflict "site_admin_group" for the group of the site admins.
func (s *Service) DeleteGroup(ctx context.Context, actor authz.Actor, id ids.SCIMGroup) error {
	return s.provisioning(ctx, "scim.delete-group", actor, func(tx postgres.Tx) error {
		g, err := loadGroup(ctx, tx, id)
		if err != nil {
			return err
		}
		settings, err := postgres.One[Settings](ctx, tx, Queries.Get("Settings"), postgres.Args{})
		if err != nil {
			return err
		}
		if settings.SiteAdminGroup == id {
			return fault.New(fault.Conflict, "site_admin_group", "This is the group of the site admins. A site admin takes that away first.")
		}
		g.Members = nil
		if err := s.changeMembers(ctx, tx, actor, g); err != nil {
			return err
		}
		if _, err := postgres.Exec(ctx, tx, Queries.Get("GroupDelete"), postgres.Args{"id": id}); err != nil {
			return err
		}
		if err := settleStanding(ctx, tx, actor); err != nil {
			return err
		}
		return auditGroup(ctx, tx, actor, "scim.group-deleted", g)
	})
}
