package migrations_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/internal/testdb"
)

// someRows are two organizations with a workspace each, and a run with an attempt in the first.
const someRows = `
insert into organizations (id, name) values ('org-a', 'acme'), ('org-b', 'beta');
insert into users (id, username) values ('user-1', 'ada'), ('user-2', 'bob');
insert into memberships (organization_id, user_id, role) values ('org-a', 'user-1', 'owner');
insert into tokens (id, user_id, hash) values ('at-1', 'user-1', decode(repeat('aa', 32), 'hex'));
insert into runner_groups (id, name, token_hash) values ('apool-1', 'g', decode(repeat('bb', 32), 'hex'));
insert into organization_keys (organization_id, version, root_version, wrapped) values ('org-a', 1, 1, ''), ('org-b', 1, 1, '');
insert into projects (id, organization_id, name, is_default) values ('prj-a', 'org-a', 'p', true), ('prj-b', 'org-b', 'p', true);
insert into workspaces (id, organization_id, project_id, name) values ('ws-a', 'org-a', 'prj-a', 'w'), ('ws-a2', 'org-a', 'prj-a', 'w2'), ('ws-b', 'org-b', 'prj-b', 'w');
insert into workspaces (id, organization_id, project_id, name, deleted_at) values ('ws-gone', 'org-a', 'prj-a', 'w', clock_timestamp());
insert into workspace_fences (workspace_id, organization_id) values ('ws-a', 'org-a'), ('ws-b', 'org-b');
insert into variables (id, organization_id, workspace_id, key, category, value_sealed) values ('var-1', 'org-a', 'ws-a', 'k', 'env', '');
insert into objects (id, organization_id, workspace_id, kind, key_version, wrapped_dek) values ('obj-a', 'org-a', 'ws-a', 'configuration', 1, ''), ('obj-b', 'org-b', 'ws-b', 'configuration', 1, '');
insert into state_versions (id, organization_id, workspace_id, epoch, holder_kind, holder_id, declared_serial, declared_md5, expires_at)
values ('sv-a', 'org-a', 'ws-a', 1, 'user', 'user-1', 1, 'm', clock_timestamp()), ('sv-b', 'org-b', 'ws-b', 1, 'user', 'user-1', 1, 'm', clock_timestamp());
insert into configuration_versions (id, organization_id, workspace_id, status, object_id)
values ('cv-a', 'org-a', 'ws-a', 'uploaded', 'obj-a'), ('cv-b', 'org-b', 'ws-b', 'uploaded', 'obj-b');
insert into runs (id, plan_id, apply_id, organization_id, workspace_id, queue_seq, created_by, configuration_version_id, configuration_object_id, run_variables_sealed, variables_sealed, fence_epoch)
values ('run-a', 'plan-a', 'apply-a', 'org-a', 'ws-a', 1, 'user-1', 'cv-a', 'obj-a', '', '', 1),
       ('run-a2', 'plan-a2', 'apply-a2', 'org-a', 'ws-a', 2, 'user-1', 'cv-a', 'obj-a', '', '', null);
insert into attempts (id, organization_id, workspace_id, run_id, phase, tofu_version) values ('att-a', 'org-a', 'ws-a', 'run-a', 'plan', '1.12.6');
insert into run_history (run_id, position, from_status, to_status, actor_kind, actor_id) values ('run-a2', 0, 'dispatch_pending', 'queued', 'system', 's');
insert into attempts (id, organization_id, workspace_id, run_id, phase, status, tofu_version) values ('att-a0', 'org-a', 'ws-a', 'run-a', 'plan', 'finished', '1.12.6');
insert into run_stages (id, organization_id, run_id, position, kind, status, attempt_id, started_at, finished_at)
values ('stg-a', 'org-a', 'run-a', 0, 'plan', 'succeeded', 'att-a0', clock_timestamp(), clock_timestamp()), ('stg-a2', 'org-a', 'run-a', 1, 'policy', 'running', null, clock_timestamp(), null);
insert into run_receipts (id, organization_id, workspace_id, run_id, stage_id, attempt_id, kind, result, tofu_version, started_at, finished_at)
values ('rcpt-a', 'org-a', 'ws-a', 'run-a', 'stg-a', 'att-a0', 'plan', 'succeeded', '1.12.6', clock_timestamp(), clock_timestamp());
insert into policy_checks (id, run_id, durable_status) values ('polchk-a', 'run-a', 'running');
insert into policy_checks (id, run_id, round, durable_status, input_digest) values ('polchk-b', 'run-a', 2, 'running', 'i');
insert into policy_sets (id, organization_id, name, kind) values ('polset-a', 'org-a', 's', 'opa'), ('polset-b', 'org-b', 's', 'opa');
insert into policies (id, organization_id, name, kind, enforcement_level) values ('pol-a', 'org-a', 'p', 'opa', 'advisory');
insert into policy_set_versions (id, organization_id, policy_set_id, source, status) values ('polsetver-a', 'org-a', 'polset-a', 'tfe-api', 'pending');
insert into policy_set_parameters (id, organization_id, policy_set_id, key, value_sealed, sensitive) values ('var-p', 'org-a', 'polset-a', 'k', '', false);
insert into approvals (run_id, reviewer_id, requester_id, decision, source, plan_digest, configuration_digest, lock_file_digest, policy_result_digest, binding_digest)
values ('run-a', 'user-1', 'user-1', 'approved', 'native', '', '', '', '', 'd');
insert into approval_rules (organization_id, workspace_id) values ('org-a', 'ws-a');
insert into approval_arbitrations (organization_id, run_id, round, wait_error) values ('org-a', 'run-a', 1, 'w');
insert into runners (id, group_id, name) values ('agent-1', 'apool-1', 'r');
insert into runner_groups (id, organization_id, name) values ('apool-a', 'org-a', 'pool'), ('apool-b', 'org-b', 'pool');
insert into runner_tokens (id, group_id, hash) values ('at-r', 'apool-1', decode(repeat('ee', 32), 'hex'));
insert into attempt_sessions (jti, attempt_id, phase, sandbox_id, bootstrap_expires_at) values ('jti-1', 'att-a', 'plan', 's', clock_timestamp());
insert into database_identity (system_identifier, timeline) values ('1', 1);
insert into tags (id, organization_id, name) values ('tag-1', 'org-a', 't');
insert into tag_bindings (id, organization_id, workspace_id, key) values ('tb-1', 'org-a', 'ws-a', 'k');
insert into sessions (hash, user_id) values (decode(repeat('cc', 32), 'hex'), 'user-1');
insert into totp_factors (user_id, root_version, secret_sealed, confirmed_at) values ('user-1', 1, '', clock_timestamp());
insert into login_codes (hash, session, client, redirect_uri, challenge, description) values (decode(repeat('dd', 32), 'hex'), decode(repeat('cc', 32), 'hex'), '', '', '', '');
insert into emergency_states (id, organization_id, workspace_id, run_id, attempt_id, sandbox_id, object_id, size, sha256, obstacle, late)
values ('es-a', 'org-a', 'ws-a', 'run-a', 'att-a0', '', 'obj-a', 1, 's', 'malformed', false);
insert into late_reports (attempt_id, digest, outcome, exit_code, tofu_started, errored_state, message) values ('att-a0', 'd', 'errored', 1, true, false, '');
insert into recovery_operations (id, organization_id, workspace_id, run_id, resolution, principal_id, lease_expires_at, request_digest, reason, fence_epoch, from_status, publications, writer_proven, target_version_id)
values ('rcv-a', 'org-a', 'ws-a', 'run-a', 'current_state_verified', 'user-1', clock_timestamp(), 'd', 'r', 1, 'apply_failed', 0, true, '');
` + registryRows + lostRow

const lostRow = `insert into lost_recoveries (id, organization_id, workspace_id, run_id, principal_id, request_digest, reason, held_because, from_epoch, reservation_epoch)
values (gen_random_uuid(), 'org-a', 'ws-a', 'run-lost', 'user-1', 'd', 'r', 'b', 1, 2);insert into notification_configurations (id, organization_id, workspace_id, name, destination_type, enabled, url_sealed) values ('nc-a', 'org-a', 'ws-a', 'n', 'generic', true, '');
insert into notification_deliveries (organization_id, configuration_id, run_id, position, trigger) values ('org-a', 'nc-a', 'run-a', 0, 'run:created');
insert into run_tasks (id, organization_id, name, url_sealed) values ('task-a', 'org-a', 't', '');
insert into workspace_tasks (id, organization_id, workspace_id, task_id, enforcement, stages) values ('wstask-a', 'org-a', 'ws-a', 'task-a', 'advisory', '{pre_plan}');
insert into task_stages (id, organization_id, run_id, round, stage, status) values ('ts-a', 'org-a', 'run-a', 1, 'pre_plan', 'running'), ('ts-a2', 'org-a', 'run-a', 1, 'post_plan', 'pending');
insert into task_results (id, organization_id, stage_id, task_id, task_name, enforcement) values ('taskrs-a', 'org-a', 'ts-a', 'task-a', 't', 'advisory');
insert into task_result_outcomes (id, organization_id, result_id, outcome_id, description, body, url, tags) values ('taskrso-a', 'org-a', 'taskrs-a', 'o', '', '', '', '{}');
insert into cost_estimates (id, organization_id, run_id, round, error) values ('ce-a', 'org-a', 'run-a', 1, 'e');
`

// recoveryRow is another one, of the run and by the principal.
func recoveryRow(run, resolution, principal string) string {
	return fmt.Sprintf(`insert into recovery_operations (id, organization_id, workspace_id, run_id, resolution, principal_id, lease_expires_at, request_digest, reason, fence_epoch, from_status, publications, writer_proven, target_version_id)
values ('rcv-2', 'org-a', 'ws-a', '%s', '%s', '%s', clock_timestamp(), 'd', 'r', 1, 'apply_failed', 0, true, '')`, run, resolution, principal)
}

// decisions are rows about the run: id, reviewer, decision, source, digest.
func decisions(rows string) string {
	return `insert into approvals (public_id, run_id, reviewer_id, requester_id, decision, source, plan_digest, configuration_digest, lock_file_digest, policy_result_digest, binding_digest)
		select id, 'run-a', reviewer, 'user-1', decision, source, '', '', '', '', digest from (values ` + rows + `) as made (id, reviewer, decision, source, digest)`
}

// refusals are statements on these rows that the schema must refuse, each by its own constraint.
var refusals = []struct{ sqlstate, constraint, sql string }{
	// accounts
	{"23505", "organizations_name", "insert into organizations (id, name) values ('org-c', 'acme')"},
	{"23505", "users_username", "insert into users (id, username) values ('user-3', 'ada')"},
	{"23514", "memberships_role", "update memberships set role = 'admin'"},
	{"23503", "memberships_user_id_fkey", "insert into memberships (organization_id, user_id, role) values ('org-a', 'user-9', 'member')"},
	{"23505", "memberships_pkey", "insert into memberships (organization_id, user_id, role) values ('org-a', 'user-1', 'member')"},
	{"23505", "tokens_hash", "insert into tokens (id, user_id, hash) values ('at-2', 'user-2', decode(repeat('aa', 32), 'hex'))"},
	{"23514", "tokens_hash_size", "insert into tokens (id, user_id, hash) values ('at-2', 'user-2', 'the token itself')"},
	{"23505", "runner_groups_token", "insert into runner_groups (id, name, token_hash) values ('apool-2', 'g', decode(repeat('bb', 32), 'hex'))"},
	{"23514", "runner_groups_token_size", "update runner_groups set token_hash = ''"},
	{"23514", "tokens_step_up", "update tokens set step_up_at = clock_timestamp()"},
	{"23514", "sessions_step_up", "update sessions set step_up_method = 'password+totp'"},
	{"23514", "users_totp_reset", "update users set totp_reset_at = clock_timestamp()"},
	{"23514", "users_totp_reset_confirmed", "update users set totp_reset_confirmed_at = clock_timestamp(), totp_reset_confirmed_by = 'user-2'"},
	{"23514", "users_totp_reset_second_admin", "update users set totp_reset_at = clock_timestamp(), totp_reset_by = 'user-2', totp_reset_confirmed_at = clock_timestamp(), totp_reset_confirmed_by = 'user-2' where id = 'user-1'"},
	{"23505", "totp_factors_pkey", "insert into totp_factors (user_id, root_version, secret_sealed) values ('user-1', 1, '')"},
	{"23514", "totp_factors_begun", "update totp_factors set confirmed_at = null, last_step = 1"},
	{"23503", "recovery_codes_user_id_fkey", "insert into recovery_codes (user_id, hash) values ('user-2', decode(repeat('ff', 32), 'hex'))"},
	{"23514", "recovery_codes_hash_size", "insert into recovery_codes (user_id, hash) values ('user-1', 'the code itself')"},

	// objects
	{"23514", "objects_status", "update objects set status = 'lost'"},
	{"23514", "objects_stored_complete", "update objects set status = 'stored'"},
	{"23514", "objects_removed_were_discarded", "update objects set removed_at = clock_timestamp()"},
	{"23503", "objects_organization_id_key_version_fkey", "update objects set key_version = 2"},

	// workspaces
	{"23505", "projects_name", "insert into projects (id, organization_id, name) values ('prj-2', 'org-a', 'p')"},
	{"23505", "projects_default", "insert into projects (id, organization_id, name, is_default) values ('prj-2', 'org-a', 'q', true)"},
	{"23514", "workspaces_execution_mode", "update workspaces set execution_mode = 'somewhere'"},
	{"23505", "workspaces_name", "insert into workspaces (id, organization_id, project_id, name) values ('ws-2', 'org-a', 'prj-a', 'w')"},
	{"23505", "workspaces_name", "update workspaces set deleted_at = null where id = 'ws-gone'"},
	{"23503", "workspaces_organization_id_project_id_fkey", "update workspaces set project_id = 'prj-b' where id = 'ws-a'"},
	{"23514", "variables_category", "update variables set category = 'secret'"},
	{"23505", "variables_key", "insert into variables (id, organization_id, workspace_id, key, category, value_sealed) values ('var-2', 'org-a', 'ws-a', 'k', 'env', '')"},
	{"23503", "variables_organization_id_workspace_id_fkey", "update variables set workspace_id = 'ws-b'"},
	{"23503", "workspace_fences_organization_id_workspace_id_fkey", "update workspace_fences set organization_id = 'org-b' where workspace_id = 'ws-a'"},

	// state
	{"23514", "state_versions_status", "update state_versions set status = 'lost'"},
	{"23505", "state_versions_retry", `insert into state_versions (id, organization_id, workspace_id, epoch, holder_kind, holder_id, declared_serial, declared_md5, expires_at)
		values ('sv-2', 'org-a', 'ws-a', 1, 'user', 'user-1', 1, 'm', clock_timestamp())`},
	{"23503", "state_versions_workspace_id_base_version_id_fkey", "update state_versions set base_version_id = 'sv-b' where id = 'sv-a'"},
	{"23503", "state_versions_workspace_id_rollback_of_id_fkey", "update state_versions set rollback_of_id = 'sv-b' where id = 'sv-a'"},

	// configurations
	{"23514", "configuration_versions_status", "update configuration_versions set status = 'lost', object_id = null"},
	{"23514", "configuration_versions_uploaded_whole", "update configuration_versions set object_id = null"},
	{"23514", "configuration_versions_uploaded_whole", "update configuration_versions set status = 'pending'"},
	{"23503", "configuration_versions_organization_id_workspace_id_fkey", "update configuration_versions set workspace_id = 'ws-b' where id = 'cv-a'"},
	{"23503", "configuration_versions_organization_id_object_id_fkey", "update configuration_versions set object_id = 'obj-b' where id = 'cv-a'"},

	// runs
	{"23505", "runs_plan_id_key", "update runs set plan_id = 'plan-a' where id = 'run-a2'"},
	{"23505", "runs_apply_id_key", "update runs set apply_id = 'apply-a' where id = 'run-a2'"},
	{"23505", "runs_one_active", "update runs set fence_epoch = 2 where id = 'run-a2'"},
	{"23514", "schema_compatibility_one_row", "insert into schema_compatibility (only_row, min_server) values (false, 1)"},
	{"23514", "runs_fence_release", "update runs set fence_released_at = clock_timestamp() where id = 'run-a2'"},
	{"23514", "runs_deadline_with_approval", "set local session_replication_role = replica; update runs set durable_status = 'awaiting_approval' where id = 'run-a'"}, // without the trigger, which would refuse the step
	{"23514", "runs_operation", "update runs set operation = 'execute' where id = 'run-a'"},
	{"23514", "runs_round", "update runs set round = 0 where id = 'run-a'"},
	{"23503", "runs_organization_id_source_run_id_fkey", "update runs set source_run_id = 'run-9' where id = 'run-a'"},
	{"23503", "runs_organization_id_replan_of_fkey", "update runs set replan_of = 'run-9' where id = 'run-a'"},
	{
		"23514", "run_requeues_before_its_apply",
		"update attempts set phase = 'apply', apply_started_at = clock_timestamp() where run_id = 'run-a'; update runs set durable_status = 'canceled' where id = 'run-a'; update runs set durable_status = 'queued' where id = 'run-a'",
	},
	{"23503", "runs_organization_id_workspace_id_fkey", "update runs set workspace_id = 'ws-b' where id = 'run-a'"},
	{"23503", "runs_organization_id_configuration_version_id_fkey", "update runs set configuration_version_id = 'cv-b' where id = 'run-a'"},
	{"23503", "runs_organization_id_configuration_object_id_fkey", "update runs set configuration_object_id = 'obj-b' where id = 'run-a'"},
	{"23503", "runs_organization_id_plan_object_id_fkey", "update runs set plan_object_id = 'obj-b' where id = 'run-a'"},
	{"23503", "runs_organization_id_plan_json_object_id_fkey", "update runs set plan_json_object_id = 'obj-b' where id = 'run-a'"},
	{"23503", "runs_organization_id_plan_json_redacted_object_id_fkey", "update runs set plan_json_redacted_object_id = 'obj-b' where id = 'run-a'"},
	{"23503", "runs_organization_id_lock_file_object_id_fkey", "update runs set lock_file_object_id = 'obj-b' where id = 'run-a'"},
	{"23503", "runs_workspace_id_predecessor_version_id_fkey", "update runs set predecessor_version_id = 'sv-b' where id = 'run-a'"},
	{"23503", "runs_workspace_id_resulting_version_id_fkey", "update runs set resulting_version_id = 'sv-b' where id = 'run-a'"},
	{"23503", "run_history_from_status_to_status_fkey", "insert into run_history (run_id, position, from_status, to_status, actor_kind, actor_id) values ('run-a', 1, 'queued', 'applying', 'system', 's')"},

	{"23514", "run_keeps_its_origin", "update runs set application_build_sha = 'another' where id = 'run-a'"},
	{"23514", "run_keeps_its_origin", "update runs set workflow_definition = 'another' where id = 'run-a'"},

	// stages and receipts
	{"23514", "run_stages_kind", "update run_stages set kind = 'deploy' where id = 'stg-a2'"},
	{"23514", "run_stages_status", "update run_stages set status = 'lost', finished_at = clock_timestamp() where id = 'stg-a2'"},
	{"23514", "run_stages_ended", "update run_stages set status = 'succeeded' where id = 'stg-a2'"},
	{"23514", "run_stages_ended", "update run_stages set finished_at = clock_timestamp() where id = 'stg-a2'"},
	{"23514", "run_stages_started", "update run_stages set started_at = null where id = 'stg-a2'"},
	{"23505", "run_stages_one_open", "insert into run_stages (id, organization_id, run_id, position, kind, status) values ('stg-3', 'org-a', 'run-a', 2, 'approval', 'pending')"},
	{"23505", "run_stages_run_id_position_key", "insert into run_stages (id, organization_id, run_id, position, kind, status, finished_at) values ('stg-3', 'org-a', 'run-a', 1, 'apply', 'skipped', clock_timestamp())"},
	{"23503", "run_stages_organization_id_run_id_fkey", "update run_stages set run_id = 'run-b' where id = 'stg-a2'"},
	{"23503", "run_stages_organization_id_attempt_id_fkey", "update run_stages set attempt_id = 'att-b' where id = 'stg-a2'"},
	{"23514", "run_receipts_kind", receipt("kind", "'policy'")},
	{"23514", "run_receipts_result", receipt("result", "'fine'")},
	{"23514", "run_receipts_duration", receipt("finished_at", "started_at - interval '1 second'")},
	{"23505", "run_receipts_stage", receipt("stage_id", "'stg-a'")},
	{"23503", "run_receipts_organization_id_run_id_fkey", receipt("run_id", "'run-b'")},
	{"23503", "run_receipts_organization_id_stage_id_fkey", receipt("stage_id", "'stg-b'")},
	{"23503", "run_receipts_organization_id_attempt_id_fkey", receipt("attempt_id", "'att-b'")},
	{"23503", "run_receipts_workspace_id_state_version_id_fkey", receipt("state_version_id", "'sv-b'")},
	{"23514", "evidence_is_append_only", "update run_receipts set result = 'failed'"},
	{"23514", "evidence_is_append_only", "delete from run_receipts"},
	{"23514", "evidence_is_append_only", "truncate run_receipts"},
	{"23514", "evidence_is_append_only", "update run_history set reason = 'another'"},
	{"23514", "evidence_is_append_only", "delete from run_history"},
	{"23514", "evidence_is_append_only", "truncate run_history"},
	{"23514", "evidence_is_append_only", "update run_stages set status = 'failed' where id = 'stg-a'"},
	{"23514", "evidence_is_append_only", "delete from run_stages where id = 'stg-a2'"},
	{"23514", "evidence_is_append_only", "truncate run_stages cascade"},
	{"23503", "run_history_run_id_fkey", "delete from runs where id = 'run-a2'"},

	// gates and authority
	{"23514", "launch_controls_singleton", "insert into launch_controls (singleton) values (false)"},
	{"23514", "allowed_releases_list", "insert into allowed_releases (list, version, digest) values ('server', '1', 'd')"},
	{"23505", "attempt_sessions_one", "insert into attempt_sessions (jti, attempt_id, phase, sandbox_id, bootstrap_expires_at) values ('jti-2', 'att-a', 'plan', 's', clock_timestamp())"},
	{"23505", "attempt_sessions_pkey", "insert into attempt_sessions (jti, attempt_id, phase, sandbox_id, bootstrap_expires_at) values ('jti-1', 'att-b', 'plan', 's', clock_timestamp())"},
	{"23514", "attempt_sessions_redeemed_whole", "update attempt_sessions set redeemed_at = clock_timestamp()"},
	{"23514", "database_identity_singleton", "insert into database_identity (singleton, system_identifier, timeline) values (false, '1', 1)"},

	// tags and sign-in
	{"23514", "tags_form", "update tags set name = 'a b'"},
	{"23505", "tags_name", "insert into tags (id, organization_id, name) values ('tag-2', 'org-a', 't')"},
	{"23503", "workspace_tags_organization_id_tag_id_fkey", "insert into workspace_tags (organization_id, workspace_id, tag_id) values ('org-b', 'ws-b', 'tag-1')"},
	{"23505", "tag_bindings_key", "insert into tag_bindings (id, organization_id, workspace_id, key) values ('tb-2', 'org-a', 'ws-a', 'k')"},
	{"23503", "tag_bindings_organization_id_workspace_id_fkey", "update tag_bindings set workspace_id = 'ws-b'"},
	{"23514", "sessions_hash_size", "insert into sessions (hash, user_id) values ('the cookie itself', 'user-1')"},
	{"23514", "login_codes_hash_size", "update login_codes set hash = 'the code itself'"},
	{"23514", "login_codes_token", "update login_codes set token_id = 'at-1'"},
	{"23514", "sign_in_attempts_subject_size", "insert into sign_in_attempts (subject, attempts) values ('ada', 1)"},

	// policy and approval
	{"23514", "policy_checks_status", "update policy_checks set durable_status = 'skipped', input_digest = '', result = '{}', result_digest = '', completed_at = clock_timestamp()"},
	{"23514", "policy_checks_complete", "update policy_checks set durable_status = 'passed'"},
	{"23505", "policy_checks_one_a_round", "insert into policy_checks (id, run_id, durable_status) values ('polchk-2', 'run-a', 'running')"},
	{"23514", "policy_input_is_bound_once", "update policy_checks set input_digest = 'x' where id = 'polchk-b'"},
	{"23514", "policy_sets_kind", "update policy_sets set kind = 'cedar'"},
	{"23514", "policy_sets_rego", "update policy_sets set rego_version = 'v2'"},
	{"23505", "policy_sets_name", "insert into policy_sets (id, organization_id, name, kind) values ('polset-2', 'org-a', 's', 'opa')"},
	{"23514", "policies_kind", "update policies set kind = 'cedar'"},
	{"23514", "policies_level", "update policies set enforcement_level = 'perhaps'"},
	{"23514", "policies_query_awaited", "update policies set query_awaited = 'data.q.deny'"},
	{"23514", "policies_query_awaited", "update policies set content_sealed = '', query = 'data.q.deny', query_awaited = 'data.q.deny'"},
	{"23505", "policies_name", "insert into policies (id, organization_id, name, kind, enforcement_level) values ('pol-2', 'org-a', 'p', 'opa', 'advisory')"},
	{"23514", "policy_set_versions_source", "update policy_set_versions set source = 'nowhere'"},
	{"23514", "policy_set_versions_status", "update policy_set_versions set status = 'perhaps'"},
	{"23514", "policy_set_versions_ready_whole", "update policy_set_versions set status = 'ready'"},
	{"23505", "policy_set_parameters_key", "insert into policy_set_parameters (id, organization_id, policy_set_id, key, value_sealed, sensitive) values ('var-p2', 'org-a', 'polset-a', 'k', '', false)"},
	{"23503", "policy_set_workspaces_organization_id_workspace_id_fkey", "insert into policy_set_workspaces (organization_id, policy_set_id, workspace_id, excluded) values ('org-a', 'polset-a', 'ws-b', false)"},
	{"23503", "policy_set_policies_organization_id_policy_set_id_fkey", "insert into policy_set_policies (organization_id, policy_set_id, policy_id) values ('org-a', 'polset-b', 'pol-a')"},
	{"23514", "approvals_decision", decisions("('apv-2', 'user-2', 'perhaps', 'native', 'd')")},
	{"23514", "approvals_source", decisions("('apv-2', 'user-2', 'approved', 'nobody', 'd')")},
	{"23505", "approvals_one_each", decisions("('apv-2', 'user-1', 'rejected', 'native', 'd')")},
	{"23514", "approvals_reviewer", decisions("('apv-2', null, 'approved', 'native', 'd')")},
	{"23514", "approvals_bound", decisions("('apv-2', 'user-2', 'approved', 'native', '')")},
	{"23505", "approvals_policy_once", decisions("('apv-2', null, 'approved', 'policy', 'd'), ('apv-3', null, 'approved', 'policy', 'd')")},
	{"23505", "approvals_public_id", decisions("('apv-2', 'user-2', 'approved', 'native', 'd'), ('apv-2', null, 'approved', 'policy', 'd')")},
	{"23514", "approvals_are_kept", "update approvals set comment = 'c'"},
	{"23505", "approval_rules_once", "insert into approval_rules (organization_id, workspace_id) values ('org-a', 'ws-a')"},
	{"23514", "approval_rules_mode", "update approval_rules set mode = 'vote'"},
	{"23514", "approval_rules_required", "update approval_rules set required_approvals = 0"},
	{"23514", "approval_rules_reviewers", "update approval_rules set reviewer_teams = '{}'"},
	{"23514", "approval_rules_place", "update approval_rules set project_id = 'prj-a'"},
	{"23514", "approval_rules_workspace_class", "update approval_rules set environment_class = 'production'"},
	{"23514", "approval_rules_class", "update approval_rules set workspace_id = null, environment_class = 'test'"},
	{"23503", "approval_rules_organization_id_workspace_id_fkey", "update approval_rules set workspace_id = 'ws-b'"},
	{"23514", "approval_arbitrations_outcome", "update approval_arbitrations set outcome = 'lost', arbitrated_at = clock_timestamp()"},
	{"23514", "approval_arbitrations_whole", "update approval_arbitrations set outcome = 'pending'"},
	{"23514", "runs_confirmed_by_enough", `update runs set confirmed_at = clock_timestamp(), approval_rule = '{"required-approvals":2}' where id = 'run-a'`},

	// runners and attempts
	{"23514", "runner_groups_launcher", "update runner_groups set launcher = 'ssh'"},
	{"23505", "runner_groups_name", "insert into runner_groups (id, organization_id, name) values ('apool-2', 'org-a', 'pool')"},
	{"23505", "runner_tokens_hash", "insert into runner_tokens (id, group_id, hash) values ('at-r2', 'apool-1', decode(repeat('ee', 32), 'hex'))"},
	{"23514", "runner_tokens_hash_size", "update runner_tokens set hash = 'the token itself'"},
	{"23503", "workspaces_organization_id_agent_pool_id_fkey", "update workspaces set agent_pool_id = 'apool-b' where id = 'ws-a'"},
	{"23503", "runner_group_workspaces_organization_id_workspace_id_fkey", "insert into runner_group_workspaces (group_id, organization_id, workspace_id, allowed) values ('apool-a', 'org-a', 'ws-b', true)"},
	{"23503", "runner_group_projects_organization_id_project_id_fkey", "insert into runner_group_projects (group_id, organization_id, project_id) values ('apool-a', 'org-a', 'prj-b')"},
	{"23503", "attempts_organization_id_pool_id_fkey", "update attempts set pool_id = 'apool-b'"},
	{"23514", "runners_status", "update runners set status = 'busy'"},
	{"23514", "attempts_phase", "update attempts set phase = 'destroy'"},
	{"23514", "attempts_status", "update attempts set status = 'done'"},
	{"23514", "attempts_started_is_apply", "update attempts set apply_started_at = clock_timestamp()"},
	{"23505", "attempts_one_per_phase", "insert into attempts (id, organization_id, workspace_id, run_id, phase, tofu_version) values ('att-2', 'org-a', 'ws-a', 'run-a', 'plan', '1.12.6')"},
	{"23503", "attempts_organization_id_run_id_fkey", "update attempts set organization_id = 'org-b', workspace_id = 'ws-b' where id = 'att-a'"},
	{"23503", "attempts_organization_id_workspace_id_fkey", "update attempts set workspace_id = 'ws-b'"},
	{"23503", "attempts_workspace_id_state_confirmed_id_fkey", "update attempts set state_confirmed_id = 'sv-b'"},
	{"23503", "attempts_organization_id_log_object_id_fkey", "update attempts set log_object_id = 'obj-b'"},
	{"23514", "attempts_json_log", "update attempts set json_log_size = 1"},
	{"23503", "attempts_organization_id_json_log_object_id_fkey", "update attempts set json_log_object_id = 'obj-b'"},
	{"23514", "log_chunks_stream", "insert into log_chunks (attempt_id, stream, start_at, size, sha256, sealed) values ('att-a', 'noise', 0, 1, '', '')"},
	{"23503", "attempt_artifacts_organization_id_attempt_id_fkey", "insert into attempt_artifacts (attempt_id, organization_id, kind, object_id, sha256) values ('att-a', 'org-b', 'plan', 'obj-b', '')"},
	{"23503", "attempt_artifacts_organization_id_object_id_fkey", "insert into attempt_artifacts (attempt_id, organization_id, kind, object_id, sha256) values ('att-a', 'org-a', 'plan', 'obj-b', '')"},

	{"23514", "commit_era_one_check", "insert into commit_era (one) values (false)"},

	// recovery
	{"23505", "emergency_states_once", "insert into emergency_states (id, organization_id, workspace_id, run_id, attempt_id, sandbox_id, object_id, size, sha256, obstacle, late) values ('es-2', 'org-a', 'ws-a', 'run-a', 'att-a0', '', 'obj-a', 1, 's', 'malformed', false)"},
	{"23514", "emergency_states_importable_whole", "insert into emergency_states (id, organization_id, workspace_id, run_id, attempt_id, sandbox_id, object_id, size, sha256, late) values ('es-2', 'org-a', 'ws-a', 'run-a', 'att-a0', '', 'obj-a', 1, 't', false)"},
	{"23503", "emergency_states_organization_id_object_id_fkey", "insert into emergency_states (id, organization_id, workspace_id, run_id, attempt_id, sandbox_id, object_id, size, sha256, obstacle, late) values ('es-2', 'org-a', 'ws-a', 'run-a', 'att-a0', '', 'obj-b', 1, 't', 'malformed', false)"},
	{"23514", "evidence_is_append_only", "update emergency_states set obstacle = 'client_encrypted'"},
	{"23514", "evidence_is_append_only", "delete from emergency_states"},
	{"23514", "evidence_is_append_only", "update late_reports set outcome = 'finished'"},
	{"23514", "evidence_is_append_only", "truncate late_reports"},
	{"23514", "recovery_operations_status", "update recovery_operations set status = 'lost'"},
	{"23514", "recovery_operations_resolution", recoveryRow("run-a2", "merge", "user-1")},
	{"23514", "recovery_operations_committed_whole", "update recovery_operations set status = 'committed'"},
	{"23514", "recovery_operations_import_has_emergency", recoveryRow("run-a2", "import_emergency_state", "user-1")},
	{"23505", "recovery_operations_one_open", recoveryRow("run-a", "current_state_verified", "user-1")},
	{"23503", "recovery_operations_principal", recoveryRow("run-a2", "current_state_verified", "user-9")},
	{"23505", "lost_recoveries_once", lostRow},
	{"23514", "evidence_is_append_only", "update lost_recoveries set reason = 'another'"},
	{"23514", "evidence_is_append_only", "truncate lost_recoveries"},
	{"23514", "workspaces_environment_class", "update workspaces set environment_class = 'test'"},
	{"23514", "workspaces_failed_apply", "update workspaces set failed_apply = 'release'"},
	{"23514", "workspaces_remote_state", "update workspaces set global_remote_state = true, project_remote_state = true"},
	{"23514", "remote_state_consumers_others", "insert into remote_state_consumers (organization_id, workspace_id, consumer_id) select organization_id, id, id from workspaces"},
	{"23514", "workspaces_production_is_held", "update workspaces set environment_class = 'production', failed_apply = 'release-when-proven'"},
	{"23514", "recovery_keeps_its_target", "update recovery_operations set target_sha256 = 'other'"},
	{"23514", "recovery_keeps_its_target", "update recovery_operations set owner_epoch = 0"},
	{"23514", "recovery_keeps_its_target", "delete from recovery_operations"},

	// notifications
	{"23514", "notification_configurations_destination", "update notification_configurations set destination_type = 'pigeon'"},
	{"23514", "notification_configurations_one_subscriber", "update notification_configurations set project_id = 'prj-a'"},
	{"23514", "notification_configurations_has_url", "update notification_configurations set url_sealed = null"},
	{"23514", "notification_configurations_disabled", "update notification_configurations set disabled_reason = 'dead'"},
	{"23503", "notification_configurations_organization_id_workspace_id_fkey", "update notification_configurations set workspace_id = 'ws-b'"},
	{"23503", "notification_users_organization_id_user_id_fkey", "insert into notification_users (organization_id, configuration_id, user_id) values ('org-a', 'nc-a', 'user-2')"},
	{"23514", "notification_deliveries_status", "update notification_deliveries set status = 'lost', ended_at = clock_timestamp()"},
	{"23514", "notification_deliveries_run", "update notification_deliveries set run_id = null"},
	{"23514", "notification_deliveries_answer", "update notification_deliveries set answer = repeat('x', 1025)"},
	{"23514", "notification_deliveries_ended", "update notification_deliveries set status = 'delivered'"},
	{"23503", "notification_deliveries_organization_id_configuration_id_fkey", "update notification_deliveries set configuration_id = 'nc-b'"},
	// costs
	{"23505", "cost_estimates_one_a_round", "insert into cost_estimates (id, organization_id, run_id, round, error) values ('ce-2', 'org-a', 'run-a', 1, 'e')"},
	{"23514", "cost_estimates_whole", "insert into cost_estimates (id, organization_id, run_id, round) values ('ce-2', 'org-a', 'run-a2', 1)"},
	{"23503", "cost_estimates_organization_id_run_id_fkey", "insert into cost_estimates (id, organization_id, run_id, round, error) values ('ce-2', 'org-a', 'run-b', 1, 'e')"},
	{"23503", "cost_estimates_organization_id_object_id_fkey", "insert into cost_estimates (id, organization_id, run_id, round, object_id, prior, proposed, delta) values ('ce-2', 'org-a', 'run-a2', 1, 'obj-b', '1', '1', '0')"},
	{"23514", "evidence_is_append_only", "update cost_estimates set error = 'other'"},

	// run tasks
	{"23514", "run_tasks_enforcement", "update run_tasks set global_enforcement = 'strict'"},
	{"23505", "run_tasks_name", "insert into run_tasks (id, organization_id, name, url_sealed) values ('task-2', 'org-a', 't', '')"},
	{"23514", "run_tasks_stages", "update run_tasks set global_stages = '{post_apply}'"},
	{"23514", "workspace_tasks_enforcement", "update workspace_tasks set enforcement = 'strict'"},
	{"23514", "workspace_tasks_stages", "update workspace_tasks set stages = '{}'"},
	{"23505", "workspace_tasks_once", "insert into workspace_tasks (id, organization_id, workspace_id, task_id, enforcement, stages) values ('wstask-2', 'org-a', 'ws-a', 'task-a', 'advisory', '{pre_plan}')"},
	{"23503", "workspace_tasks_organization_id_workspace_id_fkey", "update workspace_tasks set workspace_id = 'ws-b'"},
	{"23503", "workspace_tasks_organization_id_task_id_fkey", "update workspace_tasks set task_id = 'task-b'"},
	{"23514", "task_stages_stage", "update task_stages set stage = 'post_apply' where id = 'ts-a'"},
	{"23514", "task_stages_status", "update task_stages set status = 'lost', ended_at = clock_timestamp() where id = 'ts-a'"},
	{"23514", "task_stages_ended", "update task_stages set status = 'passed' where id = 'ts-a'"},
	{"23505", "task_stages_once", "insert into task_stages (id, organization_id, run_id, round, stage) values ('ts-3', 'org-a', 'run-a', 1, 'pre_plan')"},
	{"23505", "task_stages_one_running", "update task_stages set status = 'running' where id = 'ts-a2'"},
	{"23503", "task_stages_organization_id_run_id_fkey", "update task_stages set run_id = 'run-b' where id = 'ts-a'"},
	{"23514", "task_results_enforcement", "update task_results set enforcement = 'strict'"},
	{"23514", "task_results_status", "update task_results set status = 'lost', ended_at = clock_timestamp()"},
	{"23514", "task_results_ended", "update task_results set status = 'passed'"},
	{"23514", "task_results_running", "update task_results set status = 'running'"},
	{"23514", "task_result_outcomes_outcome_id", "update task_result_outcomes set outcome_id = ''"},
	{"23514", "task_result_outcomes_tags", "update task_result_outcomes set tags = '[]'"},
	{"23505", "task_result_outcomes_once", "insert into task_result_outcomes (id, organization_id, result_id, outcome_id, description, body, url, tags) values ('taskrso-b', 'org-a', 'taskrs-a', 'o', '', '', '', '{}')"},
	{"23503", "task_result_outcomes_organization_id_result_id_fkey", "update task_result_outcomes set organization_id = 'org-b'"},
	{"23505", "task_results_once", "insert into task_results (id, organization_id, stage_id, task_id, task_name, enforcement) values ('taskrs-2', 'org-a', 'ts-a', 'task-a', 't', 'advisory')"},
	{"23503", "task_results_organization_id_stage_id_fkey", "update task_results set stage_id = 'ts-b'"},
	{"23503", "notification_deliveries_organization_id_run_id_fkey", "update notification_deliveries set run_id = 'run-b'"},
}

// receipt is a statement that writes another receipt, with one column of its own.
func receipt(column, value string) string {
	columns := []string{"organization_id", "workspace_id", "run_id", "stage_id", "attempt_id", "kind", "result", "tofu_version", "state_version_id", "started_at", "finished_at"}
	values := slices.Clone(columns)
	values[slices.Index(columns, "stage_id")] = "'stg-a2'"
	values[slices.Index(columns, column)] = value
	return "insert into run_receipts (id, " + strings.Join(columns, ", ") + ") select 'rcpt-2', " + strings.Join(values, ", ") + " from run_receipts"
}

func withRows(t *testing.T) *pgx.Conn {
	t.Helper()
	conn := connect(t, testdb.URL(t))
	t.Cleanup(func() { _ = conn.Close(ctx) })
	_, err := conn.Exec(ctx, someRows)
	require.NoError(t, err)
	return conn
}

func TestTheSchemaRefuses(t *testing.T) {
	conn := withRows(t)
	for _, r := range refusals {
		_, err := conn.Exec(ctx, "begin; "+r.sql)
		_, rollback := conn.Exec(ctx, "rollback")
		require.NoError(t, rollback)
		var refused *pgconn.PgError
		if assert.True(t, errors.As(err, &refused), "%s was accepted: %v", r.sql, err) {
			assert.Equal(t, r.sqlstate+" "+r.constraint, refused.Code+" "+refused.ConstraintName, "%s: %v", r.sql, err)
		}
	}
}

// provedBesideTheirOwner are constraints whose refusal is tested by the package that owns the table.
var provedBesideTheirOwner = []string{
	"workspace_fences_held_by_run", "workspace_fences_holder_kind", "workspace_fences_holder_whole", // fence
	"state_versions_declared_serial", "state_versions_finalized_complete", // state
}

// TestEveryRuleIsRefusedOnce keeps the table above complete: each check and each unique
// rule of the schema stands in it, but for the bare uniqueness of ids.
func TestEveryRuleIsRefusedOnce(t *testing.T) {
	conn := connect(t, testdb.URL(t))
	defer func() { _ = conn.Close(ctx) }()
	rows, err := conn.Query(ctx, `
		select conname::text from pg_constraint where connamespace = 'public'::regnamespace and contype = 'c'
		union
		select i.indexrelid::regclass::text from pg_index i join pg_class c on c.oid = i.indrelid
		 where c.relnamespace = 'public'::regnamespace and i.indisunique and not i.indisprimary
		   and not exists (select from pg_attribute a where a.attrelid = i.indrelid and a.attname = 'id' and a.attnum = any (i.indkey::int2[]))`)
	require.NoError(t, err)
	rules, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	assert.Greater(t, len(rules), 30)
	for _, name := range rules {
		if slices.Contains(provedBesideTheirOwner, name) || name == "state_outputs_state_version_id_position_key" { // positions are counted by one loop
			continue
		}
		assert.True(t, slices.ContainsFunc(refusals, func(r struct{ sqlstate, constraint, sql string }) bool { return r.constraint == name }), "no statement here is refused by %s", name)
	}
}

// TestNoReferenceCrossesTenants: where both tables belong to an organization or a
// workspace, the reference carries it.
func TestNoReferenceCrossesTenants(t *testing.T) {
	conn := connect(t, testdb.URL(t))
	defer func() { _ = conn.Close(ctx) }()
	rows, err := conn.Query(ctx, `
		with tenant as (select attrelid from pg_attribute where attname = 'organization_id' and attnotnull and attnum > 0)
		select k.conname::text from pg_constraint k
		 where k.contype = 'f' and k.connamespace = 'public'::regnamespace
		   and k.conrelid in (select attrelid from tenant) and k.confrelid in (select attrelid from tenant)
		   and not exists (select from pg_attribute a where a.attrelid = k.conrelid and a.attnum = any (k.conkey) and a.attname in ('organization_id', 'workspace_id'))`)
	require.NoError(t, err)
	crossing, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	assert.Empty(t, crossing)
}
