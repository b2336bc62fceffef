package migrations_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/migrations"
)

// TestOldRunsGetTheirOperation: what native clients asked for says what a run was for.
func TestOldRunsGetTheirOperation(t *testing.T) {
	address := empty(t)
	upTo(t, address, 10)
	conn := connect(t, address)
	defer func() { _ = conn.Close(ctx) }()
	_, err := conn.Exec(ctx, `
insert into organizations (id, name) values ('org-a', 'acme');
insert into users (id, username) values ('user-1', 'ada');
insert into organization_keys (organization_id, version, root_version, wrapped) values ('org-a', 1, 1, '');
insert into projects (id, organization_id, name, is_default) values ('prj-a', 'org-a', 'p', true);
insert into workspaces (id, organization_id, project_id, name) values ('ws-a', 'org-a', 'prj-a', 'w');
insert into workspace_fences (workspace_id, organization_id) values ('ws-a', 'org-a');
insert into objects (id, organization_id, workspace_id, kind, key_version, wrapped_dek) values ('obj-a', 'org-a', 'ws-a', 'configuration', 1, '');
insert into configuration_versions (id, organization_id, workspace_id, status, object_id, speculative)
values ('cv-a', 'org-a', 'ws-a', 'uploaded', 'obj-a', false), ('cv-s', 'org-a', 'ws-a', 'uploaded', 'obj-a', true);
insert into runs (id, plan_id, apply_id, organization_id, workspace_id, queue_seq, created_by, configuration_version_id, configuration_object_id, run_variables_sealed, variables_sealed,
    plan_only, save_plan, is_destroy, cancel_requested_at)
select o.id, o.id, o.id, 'org-a', 'ws-a', 9, 'user-1', o.cv, 'obj-a', '', '', o.plan_only, o.save_plan, o.is_destroy, '2026-01-01T00:00:00Z'
  from (values ('run-apply', 'cv-a', false, false, false), ('run-destroy', 'cv-a', false, false, true), ('run-plan', 'cv-a', false, true, true),
               ('run-plan-only', 'cv-a', true, false, true), ('run-preview', 'cv-s', true, false, false)) as o (id, cv, plan_only, save_plan, is_destroy)`)
	require.NoError(t, err)
	require.NoError(t, migrations.Up(ctx, address))
	rows, err := conn.Query(ctx, "select id || ' ' || operation || ' ' || (force_cancel_available_at - cancel_requested_at) from runs where queue_seq = 9 order by id")
	require.NoError(t, err)
	got, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	assert.Equal(t, []string{
		"run-apply apply 00:05:00", "run-destroy destroy 00:05:00", "run-plan plan 00:05:00", "run-plan-only plan-only 00:05:00", "run-preview preview 00:05:00",
	}, got)
}
