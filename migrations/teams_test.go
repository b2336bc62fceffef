package migrations_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/migrations"
)

// Until teams came, a member could read everything. Whoever was one keeps that right by a
// team; whoever comes later has what teams give.
func TestOldMembersKeepTheRightToRead(t *testing.T) {
	address := empty(t)
	upTo(t, address, 19)
	conn := connect(t, address)
	for _, sql := range []string{
		"insert into organizations (id, name) values ('org-1', 'one'), ('org-2', 'two')",
		"insert into users (id, username) values ('user-1', 'ann'), ('user-2', 'bob'), ('user-3', 'cat')",
		"insert into memberships (organization_id, user_id, role) values ('org-1', 'user-1', 'owner'), ('org-1', 'user-2', 'member'), ('org-2', 'user-1', 'owner')",
		"insert into tokens (id, user_id, hash) values ('at-1', 'user-1', sha256('x'))",
	} {
		_, err := conn.Exec(ctx, sql)
		require.NoError(t, err)
	}
	require.NoError(t, migrations.Up(ctx, address))
	_, err := conn.Exec(ctx, "insert into organizations (id, name) values ('org-3', 'three')") // as a server of before does
	require.NoError(t, err)

	rows, err := conn.Query(ctx, `select t.organization_id || ' ' || t.name || ' ' || array_to_string(t.organization_access, ',') || ' ' ||
		coalesce((select string_agg(user_id, ',') from team_memberships m where m.team_id = t.id), '') from teams t order by 1`)
	require.NoError(t, err)
	teams, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	assert.Equal(t, []string{"org-1 members read-workspaces,read-projects user-2", "org-1 owners  ", "org-2 owners  ", "org-3 owners  "}, teams)

	var kinds string
	require.NoError(t, conn.QueryRow(ctx, "select string_agg(kind || ' ' || user_id, ',') from tokens").Scan(&kinds))
	assert.Equal(t, "user user-1", kinds)
}

// What the tables of teams and tokens refuse. Each statement brings what it needs.
func init() {
	const (
		team      = "insert into teams (id, organization_id, name) values ('team-a', 'org-a', 'ops'), ('team-b', 'org-a', 'dev'); "
		workspace = "insert into team_workspaces (id, organization_id, team_id, workspace_id, levels) values "
		project   = "insert into team_projects (id, organization_id, team_id, project_id, levels) select "
		token     = "insert into tokens (id, kind, user_id, organization_id, team_id, description, hash) values "
	)
	refusals = append(refusals, []struct{ sqlstate, constraint, sql string }{
		{"23514", "memberships_status", "update memberships set status = 'gone'"},
		{"23514", "users_invited", "insert into users (id, username, invited, site_admin) values ('user-i', 'i', true, true)"},
		{"23514", "teams_visibility", team + "update teams set visibility = 'public'"},
		{"23514", "teams_organization_access", team + "update teams set organization_access = '{manage-everything}'"},
		{"23505", "teams_name", team + "insert into teams (id, organization_id, name) values ('team-c', 'org-a', 'ops')"},
		{"23505", "teams_owners", "insert into teams (id, organization_id, name, is_owners) values ('team-c', 'org-a', 'kings', true)"},
		{"23505", "teams_service_user", team + "insert into users (id, username, service_account) values ('user-s', 's', true); update teams set service_user_id = 'user-s' where not is_owners"},
		{"23514", "team_memberships_owners", "insert into team_memberships (organization_id, team_id, user_id) select m.organization_id, t.id, m.user_id from memberships m join teams t on t.organization_id = m.organization_id and t.is_owners"},
		{"23503", "team_memberships_organization_id_user_id_fkey", team + "insert into users (id, username) values ('user-s', 's'); insert into team_memberships (organization_id, team_id, user_id) values ('org-a', 'team-a', 'user-s')"},
		{"23514", "team_workspaces_levels", team + workspace + "('tws-1', 'org-a', 'team-a', 'ws-a', '{}')"},
		{"23514", "team_workspaces_levels", team + workspace + "('tws-1', 'org-a', 'team-a', 'ws-a', '{organization:owner}')"},
		{"23505", "team_workspaces_once", team + workspace + "('tws-1', 'org-a', 'team-a', 'ws-a', '{workspace:read}'), ('tws-2', 'org-a', 'team-a', 'ws-a', '{workspace:admin}')"},
		{"23503", "team_workspaces_organization_id_workspace_id_fkey", team + workspace + "('tws-1', 'org-a', 'team-a', 'ws-b', '{workspace:read}')"},
		{"23514", "team_projects_levels", team + project + "'tprj-1', 'org-a', 'team-a', id, '{organization:owner}' from projects where organization_id = 'org-a' limit 1"},
		{"23505", "team_projects_once", team + project + "'tprj-' || n, 'org-a', 'team-a', (select min(id) from projects where organization_id = 'org-a'), '{project:read}' from generate_series(1, 2) n"},
		{"23514", "tokens_kind", team + token + "('at-k', 'robot', null, 'org-a', null, '', sha256('k'))"},
		{"23514", "tokens_whose", team + token + "('at-k', 'team', null, 'org-a', null, '', sha256('k'))"},
		{"23514", "tokens_whose", team + token + "('at-k', 'user', null, null, null, '', sha256('k'))"},
		{"23505", "tokens_one_of_organization", token + "('at-k', 'organization', null, 'org-a', null, '', sha256('k')), ('at-l', 'organization', null, 'org-a', null, '', sha256('l'))"},
		{"23505", "tokens_team_description", team + token + "('at-k', 'team', null, 'org-a', 'team-a', 'ci', sha256('k')), ('at-l', 'team', null, 'org-a', 'team-a', 'ci', sha256('l'))"},
	}...)
}
