package scim

import (
	"context"
	"time"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/audit"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// Link is that a team follows a group.
type Link struct {
	Team      ids.Team
	Group     ids.SCIMGroup
	GroupName string
	Paused    bool
	UpdatedAt time.Time
}

// onTeam finds the team and its link, if it has one.
func (s *Service) onTeam(ctx context.Context, name string, actor authz.Actor, team ids.Team, fn func(tx postgres.Tx, now Settings, t accounts.Team, linked *Link) error) error {
	return s.onSettings(ctx, name, actor, func(tx postgres.Tx, now Settings) error {
		t, err := accounts.VisibleTeam(ctx, tx, actor, team)
		if err != nil {
			return err
		}
		links, err := postgres.All[Link](ctx, tx, Queries.Get("Links"), postgres.Args{"teams": []ids.Team{team}})
		if err != nil {
			return err
		}
		var linked *Link
		if len(links) > 0 {
			linked = &links[0]
		}
		return fn(tx, now, t, linked)
	})
}

// LinkTeam lets the team follow the group, from now on: it has the group's members, and no
// others. Errors: NotFound; Conflict "already_linked", "scim_off"; Forbidden "owners_team": owners
// are made by hand; Invalid for the group of the site admins.
func (s *Service) LinkTeam(ctx context.Context, actor authz.Actor, team ids.Team, group ids.SCIMGroup) error {
	return s.onTeam(ctx, "scim.link-team", actor, team, func(tx postgres.Tx, now Settings, t accounts.Team, linked *Link) error {
		g, err := loadGroup(ctx, tx, group)
		switch {
		case err != nil:
			return err
		case !now.Enabled:
			return fault.New(fault.Conflict, "scim_off", "SCIM is off. Turn it on first.")
		case t.IsOwners:
			return fault.New(fault.Forbidden, "owners_team", "Owners team SCIM linking is not yet supported: owners are made by hand.")
		case linked != nil:
			return fault.New(fault.Conflict, "conflict", "Team is already linked to a SCIM group")
		case now.SiteAdminGroup == group:
			return accounts.Invalid("scim-group-id", "The site admin group cannot be linked to a team")
		}
		if _, err := postgres.Exec(ctx, tx, Queries.Get("LinkInsert"), postgres.Args{"team_id": team, "group_id": group}); err != nil {
			return err
		}
		return settleLink(ctx, tx, actor, t, "team.linked", map[string]any{"group": group, "display_name": g.DisplayName})
	})
}

// PauseLink leaves the team as it is until the link goes on, and then brings it up to date. A team
// without a link is Conflict "conflict".
func (s *Service) PauseLink(ctx context.Context, actor authz.Actor, team ids.Team, paused bool) error {
	return s.onTeam(ctx, "scim.pause-link", actor, team, func(tx postgres.Tx, _ Settings, t accounts.Team, linked *Link) error {
		if linked == nil {
			return notLinked()
		}
		if linked.Paused == paused {
			return nil
		}
		if _, err := postgres.Exec(ctx, tx, Queries.Get("LinkPause"), postgres.Args{"team_id": team, "paused": paused}); err != nil {
			return err
		}
		action := map[bool]string{true: "team.link-paused", false: "team.link-resumed"}[paused]
		return settleLink(ctx, tx, actor, t, action, map[string]any{"group": linked.Group})
	})
}

// UnlinkTeam lets the team go. It keeps the members that it has.
func (s *Service) UnlinkTeam(ctx context.Context, actor authz.Actor, team ids.Team) error {
	return s.onTeam(ctx, "scim.unlink-team", actor, team, func(tx postgres.Tx, _ Settings, t accounts.Team, linked *Link) error {
		if linked == nil {
			return notLinked()
		}
		if _, err := postgres.Exec(ctx, tx, Queries.Get("LinkDelete"), postgres.Args{"team_id": team}); err != nil {
			return err
		}
		return settleLink(ctx, tx, actor, t, "team.unlinked", map[string]any{"group": linked.Group})
	})
}

func notLinked() error {
	return fault.New(fault.Conflict, "conflict", "Team is not linked to a SCIM group")
}

// settleLink brings the one team up to date after its link has changed.
func settleLink(ctx context.Context, tx postgres.Tx, actor authz.Actor, t accounts.Team, action string, details map[string]any) error {
	if err := settleStanding(ctx, tx, actor); err != nil {
		return err
	}
	teams, err := postgres.Values[ids.Team](ctx, tx, Queries.Get("FollowingTeam"), postgres.Args{"team_id": t.ID})
	if err != nil {
		return err
	}
	if err := follow(ctx, tx, actor, teams); err != nil {
		return err
	}
	e := entry(actor, action, "team", string(t.ID), details)
	e.Organization = t.Organization
	return audit.Append(ctx, tx, e)
}

// Links gives those of the teams, by team; on is false while SCIM is off. It asks about no right:
// whoever calls it shows the teams anyway.
func (s *Service) Links(ctx context.Context, teams []ids.Team) (links map[ids.Team]Link, on bool, err error) {
	err = postgres.InSnapshot(ctx, s.db, "scim.links", func(tx postgres.Tx) error {
		settings, err := postgres.One[Settings](ctx, tx, Queries.Get("Settings"), postgres.Args{})
		if err != nil || !settings.Enabled {
			return err
		}
		on = true
		rows, err := postgres.All[Link](ctx, tx, Queries.Get("Links"), postgres.Args{"teams": append([]ids.Team{}, teams...)})
		links = make(map[ids.Team]Link, len(rows))
		for _, l := range rows {
			links[l.Team] = l
		}
		return err
	})
	return links, on, err
}
