package migrations_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/migrations"
)

// upTo applies the migrations up to this number, as an older server has.
func upTo(t *testing.T, address string, number int64) {
	t.Helper()
	config, err := pgx.ParseConfig(address)
	require.NoError(t, err)
	db := stdlib.OpenDB(*config)
	defer func() { _ = db.Close() }()
	provider, err := goose.NewProvider(goose.DialectPostgres, db, migrations.Files)
	require.NoError(t, err)
	_, err = provider.UpTo(ctx, number)
	require.NoError(t, err)
}

// oldRuns are runs as a server without stages left them, one for each way. An attempt
// began a minute after its run came to the step, and took half a minute.
var oldRuns = []struct {
	name                            string
	history                         []string
	confirmed, planOnly, hasChanges bool
	attempts                        map[string]string // status by phase
	stages                          []string
	receipts                        []string
}{
	{name: "unaccepted"},
	{name: "waits", history: []string{"queued"}, attempts: map[string]string{"plan": "pending"}, stages: []string{"plan pending att-waits-plan"}},
	{name: "plans", history: []string{"queued", "planning"}, attempts: map[string]string{"plan": "running"}, stages: []string{"plan running att-plans-plan"}},
	{
		name: "plan-failed", history: []string{"queued", "planning", "plan_failed"}, attempts: map[string]string{"plan": "finished"},
		stages: []string{"plan failed att-plan-failed-plan"}, receipts: []string{"plan failed null null 30"},
	},
	{name: "never-taken", history: []string{"queued", "canceled"}, attempts: map[string]string{"plan": "canceled"}, stages: []string{"plan canceled att-never-taken-plan"}},
	{
		name: "plan-only", history: []string{"queued", "planning", "plan_complete", "policy_evaluating", "policy_passed", "succeeded"}, planOnly: true, hasChanges: true,
		attempts: map[string]string{"plan": "finished"}, stages: []string{"plan succeeded att-plan-only-plan", "policy succeeded -"}, receipts: []string{"plan succeeded 5 null 30"},
	},
	{
		name: "no-changes", history: []string{"queued", "planning", "plan_complete", "policy_evaluating", "policy_passed", "succeeded"},
		attempts: map[string]string{"plan": "finished"}, receipts: []string{"plan succeeded 5 null 30"},
		stages: []string{"plan succeeded att-no-changes-plan", "policy succeeded -", "approval skipped -", "apply skipped -"},
	},
	{
		name: "undecided", history: []string{"queued", "planning", "plan_complete", "policy_evaluating", "policy_passed", "awaiting_approval"}, hasChanges: true,
		attempts: map[string]string{"plan": "finished"}, stages: []string{"plan succeeded att-undecided-plan", "policy succeeded -", "approval pending -"},
		receipts: []string{"plan succeeded 5 null 30"},
	},
	{
		name: "rejected", history: []string{"queued", "planning", "plan_complete", "policy_evaluating", "policy_passed", "awaiting_approval", "rejected"}, hasChanges: true,
		attempts: map[string]string{"plan": "finished"}, stages: []string{"plan succeeded att-rejected-plan", "policy succeeded -", "approval rejected -"},
		receipts: []string{"plan succeeded 5 null 30"},
	},
	{
		name: "applies", history: []string{"queued", "planning", "plan_complete", "policy_evaluating", "policy_passed", "awaiting_approval", "applying"}, hasChanges: true, confirmed: true,
		attempts: map[string]string{"plan": "finished", "apply": "running"}, receipts: []string{"plan succeeded 5 null 30"},
		stages: []string{"plan succeeded att-applies-plan", "policy succeeded -", "approval succeeded -", "apply running att-applies-apply"},
	},
	{
		name: "applied", history: []string{"queued", "planning", "plan_complete", "policy_evaluating", "policy_passed", "awaiting_approval", "applying", "succeeded"}, hasChanges: true, confirmed: true,
		attempts: map[string]string{"plan": "finished", "apply": "finished"}, receipts: []string{"plan succeeded 5 null 30", "apply succeeded 5 sv-1 30"},
		stages: []string{"plan succeeded att-applied-plan", "policy succeeded -", "approval succeeded -", "apply succeeded att-applied-apply"},
	},
	{
		name: "recovered", hasChanges: true, confirmed: true,
		history:  []string{"queued", "planning", "plan_complete", "policy_evaluating", "policy_passed", "awaiting_approval", "applying", "apply_failed", "needs_recovery"},
		attempts: map[string]string{"plan": "finished", "apply": "finished"}, receipts: []string{"plan succeeded 5 null 30", "apply failed null null 30"},
		stages: []string{"plan succeeded att-recovered-plan", "policy succeeded -", "approval succeeded -", "apply failed att-recovered-apply"},
	},
	{
		name: "called-off", hasChanges: true, confirmed: true,
		history:  []string{"queued", "planning", "plan_complete", "policy_evaluating", "policy_passed", "awaiting_approval", "canceled"},
		attempts: map[string]string{"plan": "finished", "apply": "canceled"}, receipts: []string{"plan succeeded 5 null 30"},
		stages: []string{"plan succeeded att-called-off-plan", "policy succeeded -", "approval succeeded -", "apply canceled att-called-off-apply"},
	},
}

// TestRunsFromBeforeGetTheirStagesAndReceipts: 0017 makes of the history what a server
// of today would have written.
func TestRunsFromBeforeGetTheirStagesAndReceipts(t *testing.T) {
	address := empty(t)
	upTo(t, address, 10)
	conn := connect(t, address)
	defer func() { _ = conn.Close(ctx) }()
	exec := func(sql string, args ...any) {
		t.Helper()
		_, err := conn.Exec(ctx, sql, args...)
		require.NoError(t, err, sql)
	}
	exec(`insert into organizations (id, name) values ('org-1', 'acme');
		insert into users (id, username) values ('user-1', 'ada');
		insert into organization_keys (organization_id, version, root_version, wrapped) values ('org-1', 1, 1, '');
		insert into projects (id, organization_id, name) values ('prj-1', 'org-1', 'p');
		insert into workspaces (id, organization_id, project_id, name) values ('ws-1', 'org-1', 'prj-1', 'w');
		insert into objects (id, organization_id, workspace_id, kind, key_version, wrapped_dek) values ('obj-1', 'org-1', 'ws-1', 'configuration', 1, '');
		insert into state_versions (id, organization_id, workspace_id, epoch, holder_kind, holder_id, declared_serial, declared_md5, expires_at)
		values ('sv-1', 'org-1', 'ws-1', 1, 'user', 'user-1', 1, 'm', clock_timestamp());
		insert into configuration_versions (id, organization_id, workspace_id, status, object_id) values ('cv-1', 'org-1', 'ws-1', 'uploaded', 'obj-1')`)
	for _, r := range oldRuns {
		exec(`insert into runs (id, plan_id, apply_id, organization_id, workspace_id, queue_seq, created_by, configuration_version_id, configuration_object_id, run_variables_sealed, variables_sealed,
				plan_only, has_changes, resource_additions, confirmed_at, approval_expires_at, resulting_version_id)
			values ($1, $1 || 'p', $1 || 'a', 'org-1', 'ws-1', 1, 'user-1', 'cv-1', 'obj-1', '', '', $2, $3, 5, case when $4 then timestamptz '2026-01-01 00:06:30Z' end, clock_timestamp(), $5)`,
			r.name, r.planOnly, r.hasChanges, r.confirmed, map[bool]any{true: "sv-1", false: nil}[r.name == "applied"])
		from := "dispatch_pending"
		for i, to := range r.history {
			exec("insert into run_history (run_id, position, from_status, to_status, actor_kind, actor_id, at) values ($1, $2, $3, $4, 'system', 's', timestamptz '2026-01-01Z' + make_interval(mins => $2 + 1))", r.name, i, from, to)
			exec("update runs set durable_status = $2 where id = $1", r.name, to)
			from = to
		}
		for phase, status := range r.attempts {
			exec(`insert into attempts (id, organization_id, workspace_id, run_id, phase, status, tofu_version, accepted_at, finished_at)
				values ('att-' || $1 || '-' || $2, 'org-1', 'ws-1', $1, $2, $3, '1.12.6', case when $3 in ('running', 'finished') then timestamptz '2026-01-01Z' end,
					case when $3 = 'finished' then timestamptz '2026-01-01 00:00:30Z' end)`, r.name, phase, status)
		}
	}
	require.NoError(t, migrations.Up(ctx, address))

	texts := func(sql string, args ...any) []string {
		t.Helper()
		rows, err := conn.Query(ctx, sql, args...)
		require.NoError(t, err)
		list, err := pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(t, err)
		return list
	}
	for _, r := range oldRuns {
		assert.Equal(t, orNone(r.stages), texts("select kind || ' ' || status || ' ' || coalesce(attempt_id, '-') from run_stages where run_id = $1 order by position", r.name), r.name)
		assert.Equal(t, orNone(r.receipts), texts(`select c.kind || ' ' || c.result || ' ' || coalesce(c.resource_additions::text, 'null') || ' ' || coalesce(c.state_version_id, 'null')
			|| ' ' || extract(epoch from c.finished_at - c.started_at)::int from run_receipts c join run_stages s on s.id = c.stage_id where c.run_id = $1 order by s.position`, r.name), r.name)
	}
	assert.Equal(t, []string{"unrecorded unrecorded"}, texts("select distinct workflow_definition || ' ' || application_build_sha from runs"))
	assert.Empty(t, texts("select id from run_stages where id !~ '^stg-[1-9a-g]{16}$' union all select id from run_receipts where id !~ '^rcpt-[1-9a-g]{16}$'"), "ids of their kind")
	assert.Equal(t, []string{"2026-01-01 00:06:00 2026-01-01 00:06:30", "2026-01-01 00:06:30 2026-01-01 00:08:00"}, texts(`select to_char(created_at at time zone 'utc', 'YYYY-MM-DD HH24:MI:SS') || ' '
		|| to_char(finished_at at time zone 'utc', 'YYYY-MM-DD HH24:MI:SS') from run_stages where run_id = 'applied' and kind in ('approval', 'apply') order by position`))
}

func orNone(list []string) []string { return append([]string{}, list...) }
