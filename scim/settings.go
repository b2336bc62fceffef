package scim

import (
	"context"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/audit"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// Settings are those of the site.
type Settings struct {
	Enabled            bool
	Paused             bool          // the identity provider reads and changes nothing
	SiteAdminGroup     ids.SCIMGroup // empty: none
	SiteAdminGroupName string
	Confirmed          bool // its members are site admins
}

// SettingsChange says what changes; nil leaves as it is. An empty SiteAdminGroup takes it away.
type SettingsChange struct {
	Enabled, Paused *bool
	SiteAdminGroup  *ids.SCIMGroup
}

// Settings gives those of the site, for site admins.
func (s *Service) Settings(ctx context.Context, actor authz.Actor) (found Settings, err error) {
	if err := allowSite(actor); err != nil {
		return Settings{}, err
	}
	err = postgres.InOneStatement(ctx, s.db, "scim.settings", func(tx postgres.Tx) error {
		found, err = postgres.One[Settings](ctx, tx, Queries.Get("Settings"), postgres.Args{})
		return err
	})
	return found, err
}

func lockSettings(ctx context.Context, tx postgres.Tx) (Settings, error) {
	if _, err := postgres.Value[bool](ctx, tx, Queries.Get("SettingsLock"), postgres.Args{}); err != nil {
		return Settings{}, err
	}
	return postgres.One[Settings](ctx, tx, Queries.Get("Settings"), postgres.Args{})
}

// ChangeSettings changes what is said. To turn SCIM off is TurnOff. A site admin group counts at once when the
// actor is stepped up; else it is kept, and counts when somebody stepped up says it again: whoever
// stole a token makes no site admins with it. Errors: Invalid for a group that is not there or
// that a team follows.
func (s *Service) ChangeSettings(ctx context.Context, actor authz.Actor, change SettingsChange) (after Settings, err error) {
	err = s.onSettings(ctx, "scim.change-settings", actor, func(tx postgres.Tx, now Settings) error {
		if change.Enabled != nil && !*change.Enabled && now.Enabled {
			if err := turnOff(ctx, tx, actor); err != nil {
				return err
			}
			now = Settings{}
		}
		if change.Enabled != nil {
			now.Enabled = *change.Enabled
		}
		if change.Paused != nil {
			now.Paused = *change.Paused
		}
		if group := change.SiteAdminGroup; group != nil {
			if now.SiteAdminGroup, now.Confirmed, err = s.siteAdminGroup(ctx, tx, actor, *group); err != nil {
				return err
			}
		}
		if !now.Enabled && (now.Paused || now.SiteAdminGroup != "") {
			return fault.New(fault.Conflict, "scim_off", "SCIM is off. Turn it on first.")
		}
		_, err := postgres.Exec(ctx, tx, Queries.Get("SettingsSet"), postgres.Args{
			"enabled": now.Enabled, "paused": now.Paused, "site_admin_group": now.SiteAdminGroup, "confirmed": now.Confirmed,
		})
		if err != nil {
			return err
		}
		if err := settle(ctx, tx, actor); err != nil {
			return err
		}
		if after, err = postgres.One[Settings](ctx, tx, Queries.Get("Settings"), postgres.Args{}); err != nil {
			return err
		}
		return audit.Append(ctx, tx, entry(actor, "scim.settings-changed", "site", "scim", map[string]any{
			"enabled": after.Enabled, "paused": after.Paused, "site_admin_group": after.SiteAdminGroup, "confirmed": after.Confirmed,
		}))
	})
	return after, err
}

// siteAdminGroup checks the group, and tells whether it counts by the word of this actor.
func (s *Service) siteAdminGroup(ctx context.Context, tx postgres.Tx, actor authz.Actor, group ids.SCIMGroup) (ids.SCIMGroup, bool, error) {
	if group == "" {
		return "", false, nil
	}
	if _, err := loadGroup(ctx, tx, group); err != nil {
		return "", false, accounts.Invalid("site-admin-group-scim-id", "Site admin group is not there: no SCIM group has the id %q", group)
	}
	teams, err := postgres.Values[ids.Team](ctx, tx, Queries.Get("TeamsOfGroup"), postgres.Args{"group_id": group})
	if err != nil {
		return "", false, err
	}
	if len(teams) > 0 {
		return "", false, accounts.Invalid("site-admin-group-scim-id", "Site admin group is followed by a team. Take that link away first")
	}
	if actor.Kind == authz.SystemActor {
		return group, true, nil
	}
	err = s.stepUp(ctx, tx, actor)
	if fault.Is(err, fault.Forbidden) {
		return group, false, nil
	}
	return group, err == nil, err
}

// TurnOff turns SCIM off, which is no error where it is off already: its tokens are revoked, and the groups, links and
// the site admin group are gone, so that nobody is a site admin by it any more. Persons keep their accounts,
// and teams the members that they have.
func (s *Service) TurnOff(ctx context.Context, actor authz.Actor) error {
	return s.onSettings(ctx, "scim.turn-off", actor, func(tx postgres.Tx, now Settings) error {
		if !now.Enabled {
			return nil
		}
		if err := turnOff(ctx, tx, actor); err != nil {
			return err
		}
		return settle(ctx, tx, actor)
	})
}

func turnOff(ctx context.Context, tx postgres.Tx, actor authz.Actor) error {
	tokens, err := accounts.EndSCIMTokens(ctx, tx)
	if err != nil {
		return err
	}
	if _, err := postgres.Exec(ctx, tx, Queries.Get("SettingsSet"), postgres.Args{"enabled": false, "paused": false, "site_admin_group": ids.SCIMGroup(""), "confirmed": false}); err != nil {
		return err
	}
	groups, err := postgres.Exec(ctx, tx, Queries.Get("GroupsClear"), postgres.Args{}) // with their members and links
	if err != nil {
		return err
	}
	return audit.Append(ctx, tx, entry(actor, "scim.turned-off", "site", "scim", map[string]any{"tokens": tokens, "groups": groups}))
}

// CreateToken makes a token for an identity provider and gives its plain text, once. Only for site
// admins, while SCIM is on (Conflict "scim_off").
func (s *Service) CreateToken(ctx context.Context, actor authz.Actor, n accounts.NewToken) (plain string, token accounts.SCIMToken, err error) {
	err = s.onSettings(ctx, "scim.create-token", actor, func(tx postgres.Tx, now Settings) error {
		if !now.Enabled {
			return fault.New(fault.Conflict, "scim_off", "SCIM is off. Turn it on before you make a token for an identity provider.")
		}
		plain, token, err = accounts.NewSCIMToken(ctx, tx, actor, n)
		return err
	})
	if err != nil {
		return "", accounts.SCIMToken{}, err
	}
	return plain, token, nil
}

// settle brings what follows from settings, groups and links up to date: who is a site admin,
// which teams are the identity provider's alone, and who is in them. The caller holds the settings.
func settle(ctx context.Context, tx postgres.Tx, actor authz.Actor) error {
	if err := settleStanding(ctx, tx, actor); err != nil {
		return err
	}
	teams, err := postgres.Values[ids.Team](ctx, tx, Queries.Get("FollowingTeams"), postgres.Args{})
	if err != nil {
		return err
	}
	return follow(ctx, tx, actor, teams)
}

func settleStanding(ctx context.Context, tx postgres.Tx, actor authz.Actor) error {
	if err := settleAdmins(ctx, tx, actor); err != nil {
		return err
	}
	alone, err := postgres.Values[ids.Team](ctx, tx, Queries.Get("TeamsKept"), postgres.Args{})
	if err != nil {
		return err
	}
	return accounts.KeepProvisioned(ctx, tx, alone)
}

func settleAdmins(ctx context.Context, tx postgres.Tx, actor authz.Actor) error {
	admins, err := postgres.Values[ids.User](ctx, tx, Queries.Get("Admins"), postgres.Args{})
	if err != nil {
		return err
	}
	return accounts.KeepAdmins(ctx, tx, actor, admins)
}

// follow gives the teams the members of their groups.
func follow(ctx context.Context, tx postgres.Tx, actor authz.Actor, teams []ids.Team) error {
	for _, team := range teams {
		members, err := postgres.Values[ids.User](ctx, tx, Queries.Get("MembersForTeam"), postgres.Args{"team_id": team})
		if err != nil {
			return err
		}
		if err := accounts.FollowTeam(ctx, tx, actor, team, members); err != nil {
			return err
		}
	}
	return nil
}
