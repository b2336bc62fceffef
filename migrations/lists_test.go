package migrations_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestWorkspacesFromBeforeAreListedAndCounted: 0063 and 0064 take up those that are there, once, and
// what an older server changes afterwards.
func TestWorkspacesFromBeforeAreListedAndCounted(t *testing.T) {
	t.Parallel()
	address := empty(t)
	upTo(t, address, 62)
	conn := connect(t, address)
	defer func() { _ = conn.Close(ctx) }()
	exec := func(sql string) {
		t.Helper()
		_, err := conn.Exec(ctx, sql)
		require.NoError(t, err, sql)
	}
	exec(`insert into organizations (id, name) values ('org-1', 'acme');
		insert into projects (id, organization_id, name, is_default) values ('prj-1', 'org-1', 'p', true), ('prj-2', 'org-1', 'q', false);
		insert into workspaces (id, organization_id, project_id, name, deleted_at) values
			('ws-1', 'org-1', 'prj-1', 'One', null), ('ws-2', 'org-1', 'prj-1', 'two', null),
			('ws-3', 'org-1', 'prj-2', 'three', null), ('ws-4', 'org-1', 'prj-2', 'four', clock_timestamp())`)
	counts := func() map[string]int {
		t.Helper()
		rows, err := conn.Query(ctx, "select project_id, sum(living)::int from workspace_counts group by 1")
		require.NoError(t, err)
		found := map[string]int{}
		var project string
		var living int
		_, err = pgx.ForEachRow(rows, []any{&project, &living}, func() error { found[project] = living; return nil })
		require.NoError(t, err)
		return found
	}
	upTo(t, address, 64)
	assert.Equal(t, map[string]int{"prj-1": 2, "prj-2": 1}, counts())
	var names []string
	require.NoError(t, conn.QueryRow(ctx, "select array_agg(lower_name order by id) from listed_workspaces").Scan(&names))
	assert.Equal(t, []string{"one", "two", "three", "four"}, names)

	// A migration that was broken off after its last change is done again.
	exec("delete from goose_db_version where version_id = 64")
	upTo(t, address, 64)
	assert.Equal(t, map[string]int{"prj-1": 2, "prj-2": 1}, counts())

	for _, change := range []struct {
		sql  string
		want map[string]int
	}{
		{"update workspaces set deleted_at = null, project_id = 'prj-1', name = 'Vier' where id = 'ws-4'", map[string]int{"prj-1": 3, "prj-2": 1}},
		{"update workspaces set project_id = 'prj-2' where id = 'ws-1'", map[string]int{"prj-1": 2, "prj-2": 2}},
		{"update workspaces set deleted_at = clock_timestamp() where id = 'ws-3'", map[string]int{"prj-1": 2, "prj-2": 1}},
		{"delete from workspaces where id = 'ws-2'", map[string]int{"prj-1": 1, "prj-2": 1}},
	} {
		exec(change.sql)
		assert.Equal(t, change.want, counts(), change.sql)
	}
	require.NoError(t, conn.QueryRow(ctx, "select lower_name from listed_workspaces where id = 'ws-4'").Scan(&names[0]))
	assert.Equal(t, "vier", names[0])
}
