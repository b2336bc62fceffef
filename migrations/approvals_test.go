package migrations_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/approvals"
	"github.com/holdfast-run/holdfast/migrations"
)

// A decision of an older server gets what it covers as one digest, as if it were made now, and still
// starts its apply.
func TestOldDecisionsAreBound(t *testing.T) {
	t.Parallel()
	address := empty(t)
	upTo(t, address, 33)
	conn := connect(t, address)
	defer func() { _ = conn.Close(ctx) }()
	_, err := conn.Exec(ctx, `set session_replication_role = replica;
		insert into state_versions (id, organization_id, workspace_id, epoch, holder_kind, holder_id, declared_serial, declared_md5, expires_at, sha256)
		values ('sv-1', 'org-1', 'ws-1', 1, 'user', 'user-1', 1, 'm', clock_timestamp(), 'the state');
		insert into users (id, username) values ('user-1', 'ada');
		insert into runs (id, plan_id, apply_id, organization_id, workspace_id, queue_seq, created_by, configuration_version_id, configuration_object_id, run_variables_sealed, variables_sealed) values
		('run-1', 'plan-1', 'apply-1', 'org-1', 'ws-1', 1, 'user-1', 'cv-1', 'obj-1', '', ''), ('run-2', 'plan-2', 'apply-2', 'org-1', 'ws-1', 2, 'user-1', 'cv-1', 'obj-1', '', '');
		insert into approvals (run_id, reviewer_id, requester_id, decision, source, plan_digest, configuration_digest, lock_file_digest, predecessor_version_id, policy_result_digest) values
		('run-1', 'user-1', 'user-1', 'approved', 'native', 'p', 'c', 'l', 'sv-1', 'r'),
		('run-2', 'user-1', 'user-1', 'rejected', 'native', 'p', 'c', '', '', '');
		set session_replication_role = origin`)
	require.NoError(t, err)
	require.NoError(t, migrations.Up(ctx, address))
	for run, want := range map[string]approvals.Binding{
		"run-1": {Plan: "p", Configuration: "c", LockFile: "l", Predecessor: "sv-1", PredecessorSHA256: "the state", PolicyResult: "r"},
		"run-2": {Plan: "p", Configuration: "c"},
	} {
		var digest, id string
		require.NoError(t, conn.QueryRow(ctx, "select binding_digest, public_id from approvals where run_id = $1", run).Scan(&digest, &id))
		assert.Equal(t, want.Digest(), digest, run)
		assert.Regexp(t, `^apv-[1-9a-z]{16}$`, id)
	}
}
