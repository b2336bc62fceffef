-- fragment: RunColumns
r.id, coalesce((select s.plan_id from runs s where s.id = r.source_run_id), r.plan_id) as plan_id, r.apply_id, r.organization_id, o.name as organization_name, r.workspace_id, w.project_id, w.name as workspace_name, w.client_encrypted, r.durable_status, r.durable_reason,
    r.status_message, r.queue_seq, r.message, r.source, r.created_by, r.plan_only, r.save_plan, r.is_destroy, r.refresh, r.refresh_only, r.auto_apply,
    r.allow_empty_apply, r.target_addrs, r.replace_addrs, r.structured_output, r.generate_config, r.generated_config, r.configuration_version_id, r.configuration_object_id, r.terraform_version, r.working_directory,
    r.run_variables_sealed, r.variables_sealed, coalesce(r.predecessor_version_id, '') as predecessor_version_id, r.admitted_at, r.fence_epoch, r.fence_released_at,
    r.has_changes, r.resource_additions, r.resource_changes, r.resource_destructions, r.resource_imports, coalesce(r.plan_object_id, '') as plan_object_id,
    coalesce(r.plan_json_object_id, '') as plan_json_object_id, coalesce(r.plan_json_redacted_object_id, '') as plan_json_redacted_object_id,
    coalesce(r.lock_file_object_id, '') as lock_file_object_id, r.plan_tofu_version, r.plan_tofu_digest,
    r.plan_finished_at, coalesce(r.plan_finished_at > clock_timestamp() - interval '4 seconds', false) as plan_just_finished, r.approval_expires_at, r.confirmed_at, r.cancel_requested_at, coalesce(r.resulting_version_id, '') as resulting_version_id,
    r.recovered_at, r.created_at, r.finished_at, r.operation, r.round, coalesce(r.source_run_id, '') as source_run_id, coalesce(r.replan_of, '') as replan_of, r.force_cancel_available_at,
    coalesce(r.force_cancel_available_at <= clock_timestamp(), false) as force_cancel_due,
    r.runner_version, r.runner_digest, coalesce(r.approval_rule, '{}') as approval_rule, r.plan_note,
    array(select a.reviewer_id from approvals a where a.run_id = r.id and a.round = r.round and a.decision = 'approved' and a.reviewer_id is not null order by a.id) as approvers, r.policy_sets, r.policy_scope, r.policy_version, r.policy_digest,
    case when r.durable_status in ('plan_complete', 'policy_evaluating') then r.waiting_reason
         when r.durable_status = 'queued' or (r.durable_status = 'awaiting_approval' and r.confirmed_at is not null)
         then coalesce((select c.reason from closed_organizations c where c.organization_id = r.organization_id), r.waiting_reason) else '' end as gate_reason,
    array(select p.id from runs p where p.source_run_id = r.id order by p.queue_seq) as promoted_runs,
    coalesce((select a.status from attempts a where a.run_id = r.id and a.round = r.round and a.phase = 'plan' order by a.created_at desc, a.id limit 1), '') as plan_attempt,
    coalesce((select a.status from attempts a where a.run_id = r.id and a.round = r.round and a.phase = 'apply' order by a.created_at desc, a.id limit 1), '') as apply_attempt,
    coalesce((select a.log_truncated from attempts a where a.run_id = coalesce(r.source_run_id, r.id) and (a.round = r.round or r.source_run_id is not null) and a.phase = 'plan'
              order by a.created_at desc, a.id limit 1), false) as plan_log_truncated,
    coalesce((select a.log_truncated from attempts a where a.run_id = r.id and a.round = r.round and a.phase = 'apply' order by a.created_at desc, a.id limit 1), false) as apply_log_truncated,
    array(select t.id || ' ' || t.stage || ' ' || t.status from task_stages t where t.run_id = r.id and t.round = r.round
          order by array_position(array['pre_plan', 'post_plan', 'pre_apply'], t.stage)) as task_stages,
    coalesce((select c.id from cost_estimates c where c.run_id = r.id and c.round = r.round), '') as cost_estimate_id,
    r.workflow_definition, r.application_build_sha,
    coalesce((select f.holder_kind from workspace_fences f where f.workspace_id = r.workspace_id), '') as holder_kind,
    coalesce((select f.holder_id from workspace_fences f where f.workspace_id = r.workspace_id), '') as holder_id,
    coalesce((select f.holder_name from workspace_fences f where f.workspace_id = r.workspace_id), '') as holder_name,
    coalesce((select f.recovery_held from workspace_fences f where f.workspace_id = r.workspace_id), false) as holder_held,
    array(select c.id from comments c where c.run_id = r.id order by c.created_at, c.id) as comments,
    case when r.confirmed_at is null then '' else
        coalesce((select a.reviewer_id from approvals a where a.run_id = r.id and a.decision = 'approved' and a.round = r.round order by a.id limit 1), '') end as confirmed_by

-- name: RunInsert
insert into runs (id, plan_id, apply_id, organization_id, workspace_id, queue_seq, message, source, created_by, plan_only, save_plan, is_destroy, refresh, refresh_only,
    auto_apply, allow_empty_apply, target_addrs, replace_addrs, structured_output, generate_config, configuration_version_id, configuration_object_id, terraform_version, working_directory,
    run_variables_sealed, variables_sealed, operation, workflow_definition, application_build_sha)
values (@id, @plan_id, @apply_id, @organization_id, @workspace_id, nextval('run_queue_seq'), @message, @source, @created_by, @plan_only, @save_plan, @is_destroy, @refresh, @refresh_only,
    @auto_apply, @allow_empty_apply, @target_addrs, @replace_addrs, @structured_output, @generate_config, @configuration_version_id, @configuration_object_id, @terraform_version, @working_directory,
    @run_variables_sealed, @variables_sealed, @operation, @workflow_definition, @application_build_sha);

-- name: RunReplan
-- A new run with the inputs of another and a plan to come (RL-37).
insert into runs (id, plan_id, apply_id, organization_id, workspace_id, queue_seq, message, source, created_by, plan_only, save_plan, is_destroy, refresh, refresh_only,
    auto_apply, allow_empty_apply, target_addrs, replace_addrs, structured_output, generate_config, configuration_version_id, configuration_object_id, terraform_version, working_directory,
    run_variables_sealed, variables_sealed, operation, replan_of, workflow_definition, application_build_sha)
select @id, @plan_id, @apply_id, r.organization_id, r.workspace_id, nextval('run_queue_seq'), @message, @source, @created_by, r.plan_only, r.save_plan, r.is_destroy, r.refresh, r.refresh_only,
    r.auto_apply and @may_apply::boolean, r.allow_empty_apply, coalesce(@target_addrs::text[], r.target_addrs), r.replace_addrs, w.structured_run_output_enabled, r.generate_config,
    r.configuration_version_id, r.configuration_object_id, r.terraform_version, r.working_directory, @run_variables_sealed, @variables_sealed, r.operation, r.id,
    @workflow_definition, @application_build_sha
  from runs r join workspaces w on w.id = r.workspace_id where r.id = @from_id;

-- name: RunPromote
-- A new run that applies the plan of another: its inputs and its evidence, to the byte (PL-15).
insert into runs (id, plan_id, apply_id, organization_id, workspace_id, queue_seq, message, source, created_by, is_destroy, refresh, refresh_only,
    auto_apply, target_addrs, replace_addrs, structured_output, generate_config, configuration_version_id, configuration_object_id, terraform_version, working_directory,
    run_variables_sealed, variables_sealed, operation, source_run_id, predecessor_version_id, admitted_at, has_changes, resource_additions, resource_changes, resource_destructions, resource_imports,
    plan_object_id, plan_json_object_id, plan_json_redacted_object_id, generated_config, lock_file_object_id, plan_tofu_version, plan_tofu_digest, plan_finished_at, approval_expires_at,
    workflow_definition, application_build_sha, policy_scope, policy_version, policy_digest)
select @id, @plan_id, @apply_id, r.organization_id, r.workspace_id, nextval('run_queue_seq'), @message, @source, @created_by, r.is_destroy, r.refresh, r.refresh_only,
    @auto_apply, r.target_addrs, r.replace_addrs, r.structured_output, r.generate_config, r.configuration_version_id, r.configuration_object_id, r.terraform_version, r.working_directory,
    @run_variables_sealed, @variables_sealed, 'apply', r.id, r.predecessor_version_id, clock_timestamp(), r.has_changes, r.resource_additions, r.resource_changes, r.resource_destructions, r.resource_imports,
    r.plan_object_id, r.plan_json_object_id, r.plan_json_redacted_object_id, r.generated_config, r.lock_file_object_id, r.plan_tofu_version, r.plan_tofu_digest, r.plan_finished_at,
    clock_timestamp() + make_interval(secs => @lifetime_seconds::double precision), @workflow_definition, @application_build_sha, r.policy_scope, r.policy_version, r.policy_digest
  from runs r where r.id = @from_id and r.plan_object_id is not null and r.has_changes;

-- name: PromotionUnderWay
-- The promotion of a plan that goes on or has been applied, and whether it is the same request made again a moment ago.
select id, created_by = @created_by and message = @message and auto_apply = @auto_apply and finished_at is null
        and created_at > clock_timestamp() - make_interval(secs => @window_seconds::double precision) as same
  from runs where source_run_id = @from_id and durable_status not in ('rejected', 'expired', 'canceled')
 order by queue_seq desc limit 1;

-- name: RequeueClear
-- What a run has come to so far does not count any more; what it was asked for stays (OP-20, OP-21).
update runs
   set round = round + 1, queue_seq = nextval('run_queue_seq'), terraform_version = @terraform_version, status_message = '',
       predecessor_version_id = null, admitted_at = null, fence_epoch = null, fence_released_at = null,
       has_changes = null, resource_additions = 0, resource_changes = 0, resource_destructions = 0, resource_imports = 0,
       plan_object_id = null, plan_json_object_id = null, plan_json_redacted_object_id = null, generated_config = false, lock_file_object_id = null,
       plan_tofu_version = '', plan_tofu_digest = '', plan_finished_at = null, approval_expires_at = null, confirmed_at = null,
       cancel_requested_at = null, cancel_requested_by = null, force_cancel_available_at = null,
       policy_sets = 0, policy_scope = '', policy_version = '', policy_digest = '', plan_note = ''
 where id = @id and durable_status = @from_status and round = @round and (fence_epoch is null or fence_released_at is not null);

-- name: ApplyBegan
select exists (select 1 from attempts where run_id = @id and apply_started_at is not null);

-- name: WaitingBefore
-- The runs that a workspace would give its turn to before this one, youngest first.
select id from runs
 where workspace_id = @workspace_id and durable_status in ('dispatch_pending', 'queued') and not plan_only and admitted_at is null and queue_seq < @queue_seq
 order by queue_seq desc;

-- name: WaitingOfConfiguration
-- The runs that wait with the very configuration of another, youngest first.
select id from runs
 where workspace_id = @workspace_id and durable_status = 'queued' and not plan_only and admitted_at is null
   and configuration_object_id = @configuration_object_id
 order by queue_seq desc;

-- name: ForceCancelFrom
update runs set force_cancel_available_at = clock_timestamp() + make_interval(secs => @grace_seconds::double precision)
 where id = @id and finished_at is null and force_cancel_available_at is null;

-- name: RunReplayed
-- The run that the same person made of the same configuration a moment ago and that goes on (amendment 13).
select id from runs
 where configuration_version_id = @configuration_version_id and created_by = @created_by and message = @message
   and operation = @operation and plan_only = @plan_only and save_plan = @save_plan and is_destroy = @is_destroy and refresh = @refresh and refresh_only = @refresh_only and auto_apply = @auto_apply
   and target_addrs = @target_addrs and replace_addrs = @replace_addrs and generate_config = @generate_config and finished_at is null
   and allow_empty_apply = @allow_empty_apply and (@terraform_version::text = '' or terraform_version = @terraform_version) and source = @source
   and created_at > clock_timestamp() - make_interval(secs => @window_seconds::double precision)
 order by queue_seq desc limit 1;

-- name: RunNoted
-- Workspaces are listed by when they had a run last.
update workspaces set last_run_at = clock_timestamp() where id = @workspace_id;

-- name: RunGet
-- By its id, or the run of an attempt, or the head of a workspace's queue (QP-05): one statement, so that each connection plans
-- its many columns once.
select {RunColumns}
  from runs r join organizations o on o.id = r.organization_id join workspaces w on w.id = r.workspace_id
 where r.id = case when @attempt_id::text <> '' then (select a.run_id from attempts a where a.id = @attempt_id)
                   when @queue_of::text <> '' then (select q.id from runs q where q.workspace_id = @queue_of and q.durable_status = 'queued' and not q.plan_only and q.admitted_at is null
                                                     order by q.queue_seq limit 1)
                   else @id end;

-- name: RunLock
-- The run itself, or that of an attempt.
select id from runs where id = case when @attempt_id::text = '' then @id else (select a.run_id from attempts a where a.id = @attempt_id) end for update;

-- name: RunByPlan
select id from runs where plan_id = @id;

-- name: RunByApply
select id from runs where apply_id = @id;

-- name: RunsSome
select {RunColumns}
  from runs r join organizations o on o.id = r.organization_id join workspaces w on w.id = r.workspace_id
 where r.id = any(@ids::text[]) order by r.id;

-- name: CommentInsert
insert into comments (id, organization_id, workspace_id, run_id, body_sealed, created_by)
values (@id, @organization_id, @workspace_id, @run_id, @body_sealed, nullif(@created_by::text, ''))
returning id, organization_id, workspace_id, run_id, body_sealed, coalesce(created_by, '') as created_by, created_at;

-- name: Comments
select id, organization_id, workspace_id, run_id, body_sealed, coalesce(created_by, '') as created_by, created_at from comments where run_id = @run_id order by created_at, id;

-- name: CommentByID
select id, organization_id, workspace_id, run_id, body_sealed, coalesce(created_by, '') as created_by, created_at from comments where id = @id;

-- name: PlanExportInsert
insert into plan_exports (id, organization_id, workspace_id, run_id, data_type, expires_at)
values (@id, @organization_id, @workspace_id, @run_id, @data_type, clock_timestamp() + make_interval(secs => @seconds::float8));

-- name: PlanExportByID
select e.id, e.organization_id, w.project_id, e.workspace_id, e.run_id, r.plan_id, e.data_type, e.created_at, e.expires_at, e.expires_at <= clock_timestamp() as over
  from plan_exports e join runs r on r.id = e.run_id join workspaces w on w.id = e.workspace_id where e.id = @id;

-- name: PlanExportDelete
delete from plan_exports where id = @id;

-- fragment: TriggerColumns
t.id, t.organization_id as organization, w.project_id as project, t.workspace_id as workspace, w.name as workspace_name, t.source_id as source, f.name as source_name,
       coalesce(t.created_by, '') as created_by, t.created_at
  from run_triggers t
  join workspaces w on w.id = t.workspace_id and w.deleted_at is null
  join workspaces f on f.id = t.source_id and f.deleted_at is null

-- name: TriggerByID
select {TriggerColumns} where t.id = @id;

-- fragment: SelectedTriggers
 where case when @outbound::boolean then t.source_id else t.workspace_id end = @workspace_id
   and (@all::boolean or w.project_id = any(@projects::text[]) or w.id = any(@visible::text[]))

-- name: Triggers
select {TriggerColumns}
{SelectedTriggers}
 order by t.created_at desc, t.id limit @limit offset @offset;

-- name: TriggersCount
select count(*) from run_triggers t
  join workspaces w on w.id = t.workspace_id and w.deleted_at is null
  join workspaces f on f.id = t.source_id and f.deleted_at is null
{SelectedTriggers};

-- name: TriggerInsert
insert into run_triggers (id, organization_id, workspace_id, source_id, created_by)
values (@id, @organization_id, @workspace_id, @source_id, nullif(@created_by::text, ''))
on conflict on constraint run_triggers_once do nothing;

-- name: TriggerDelete
delete from run_triggers where id = @id;

-- name: TriggersNote
insert into triggered_runs (source_run_id, trigger_id, organization_id)
select @run_id, t.id, @organization_id from run_triggers t join workspaces w on w.id = t.workspace_id and w.deleted_at is null
 where t.source_id = @workspace_id
on conflict do nothing;

-- name: TriggeredDue
select source_run_id, trigger_id from triggered_runs order by created_at, trigger_id limit @limit;

-- name: TriggeredTake
delete from triggered_runs where source_run_id = @run_id and trigger_id = @trigger_id;

-- name: DestroysDue
select w.id, coalesce(w.automated_by, '') as automated_by from workspaces w join organizations o on o.id = w.organization_id and o.deleted_at is null
 where w.auto_destroy_due and w.auto_destroy_at <= clock_timestamp() and w.deleted_at is null
 order by w.auto_destroy_at limit @limit;

-- name: DestroyTake
update workspaces set auto_destroy_due = false where id = @id and auto_destroy_due and auto_destroy_at <= clock_timestamp() and deleted_at is null;

-- name: AssessmentsDue
-- What has no state has nothing that could drift.
select w.id, coalesce(w.automated_by, '') as automated_by from workspaces w join organizations o on o.id = w.organization_id and o.deleted_at is null
 where w.assessments_enabled and w.deleted_at is null and w.execution_mode <> 'local'
   and (w.assessed_at is null or w.assessed_at < clock_timestamp() - make_interval(hours => @hours::integer))
   and exists (select from current_states c where c.workspace_id = w.id)
 order by w.assessed_at nulls first limit @limit;

-- name: AssessmentTake
update workspaces set assessed_at = clock_timestamp()
 where id = @id and assessments_enabled and deleted_at is null and (assessed_at is null or assessed_at < clock_timestamp() - make_interval(hours => @hours::integer));

-- name: QueueList
-- Runs of an organization that wait or work, in the order in which they were made.
select {RunColumns}
  from runs r join organizations o on o.id = r.organization_id join workspaces w on w.id = r.workspace_id
 where r.organization_id = @organization_id and r.finished_at is null
   and r.durable_status in ('dispatch_pending', 'queued', 'planning', 'applying')
 order by r.queue_seq;

-- fragment: StepSets
durable_status = @to_status, durable_reason = @reason, status_message = case when @status_message = '' then status_message else @status_message end,
           finished_at = case when @final::boolean then coalesce(finished_at, clock_timestamp()) end,
           fence_released_at = case when @releases::boolean and fence_epoch is not null then coalesce(fence_released_at, clock_timestamp()) else fence_released_at end

-- fragment: StepHistory
insert into run_history (run_id, position, from_status, to_status, reason, actor_kind, actor_id)
select s.id, (select count(*) from run_history h where h.run_id = s.id), @from_status, @to_status, @reason, @actor_kind, @actor_id from stepped s

-- name: StepRun
-- One step and its history; with releases, the run is noted to have given its workspace back. No row: it was not in from_status.
with stepped as (
    update runs set {StepSets}
     where id = @id and durable_status = @from_status
    returning id)
{StepHistory};

-- name: StepToPlanning
-- The step with what is bound by it: the release that plans, and whether clients draw the run. A runner that sends no events
-- leaves them to print its text.
with stepped as (
    update runs set {StepSets}, runner_version = @version, runner_digest = @digest, structured_output = structured_output and @json_log::boolean
     where id = @id and durable_status = @from_status
    returning id)
{StepHistory};

-- name: StepToPlanComplete
-- The step with what the plan is, once.
with stepped as (
    update runs set {StepSets},
           has_changes = @has_changes, resource_additions = @additions, resource_changes = @changes, resource_destructions = @destructions, resource_imports = @imports,
           plan_object_id = nullif(@plan_object_id::text, ''), plan_json_object_id = @plan_json_object_id,
           plan_json_redacted_object_id = nullif(@plan_json_redacted_object_id::text, ''), generated_config = @generated_config, lock_file_object_id = nullif(@lock_file_object_id::text, ''),
           plan_tofu_version = @tofu_version, plan_tofu_digest = @tofu_digest, plan_finished_at = clock_timestamp(), plan_note = @note
     where id = @id and durable_status = @from_status and has_changes is null
    returning id)
{StepHistory};

-- name: History
select run_id, from_status, to_status, reason, actor_kind, actor_id, at from run_history where run_id = any (@run_ids::text[]) order by run_id, position;

-- name: NextQueuedLock
-- The head of a workspace's queue; the workspace is locked.
select id from runs
 where workspace_id = @workspace_id and durable_status = 'queued' and not plan_only and admitted_at is null
 order by queue_seq limit 1 for update;

-- name: Admit
-- The workspace is locked, so its state stays what it is.
update runs set predecessor_version_id = (select c.state_version_id from current_states c where c.workspace_id = runs.workspace_id),
       admitted_at = clock_timestamp(), fence_epoch = @fence_epoch
 where id = @id and durable_status = 'queued' and admitted_at is null;

-- name: FenceTaken
-- The fence of a run that was admitted without one, or that had lost its own.
update runs set fence_epoch = @fence_epoch
 where id = @id and admitted_at is not null and fence_released_at is null and fence_epoch is distinct from @fence_epoch;

-- name: FenceReleased
update runs set fence_released_at = clock_timestamp() where id = @id and fence_epoch is not null and fence_released_at is null;

-- name: GeneratedConfig
-- What a plan that is about to fail has written.
update runs set plan_json_redacted_object_id = @plan_json_redacted_object_id, generated_config = true
 where id = @id and durable_status = 'planning' and plan_json_redacted_object_id is null;

-- name: PolicyReserve
insert into policy_checks (id, run_id, round, durable_status) values (@id, @run_id, @round, 'running');

-- name: PolicyPassedAtOnce
-- The check of a plan that no policy set has a say about, reserved, bound to the plan and passed (amendment 1).
insert into policy_checks (id, run_id, round, durable_status, input_digest, evaluating_at, evaluation, result, result_digest, completed_at)
values (@id, @run_id, @round, 'passed', @input_digest::text, clock_timestamp(), @evaluation::text, (@evaluation::text)::jsonb, encode(sha256(convert_to(@input_digest::text || @evaluation::text, 'UTF8')), 'hex'), clock_timestamp());

-- name: PolicyScope
-- What has a say about the run, fixed before it begins.
update runs set policy_sets = @sets, policy_scope = @scope where id = @id and durable_status in ('dispatch_pending', 'queued') and admitted_at is null;

-- name: PolicyRow
-- The check of the round that the run is in.
select c.id, c.durable_status, coalesce(c.input_digest, '') as input_digest, coalesce(c.input_object_id, '') as input_object_id, c.tries
  from policy_checks c join runs r on r.id = c.run_id and r.round = c.round where c.run_id = @run_id;

-- name: PolicyBind
update policy_checks set input_digest = @input_digest, input_object_id = nullif(@input_object_id::text, ''), evaluating_at = clock_timestamp()
 where id = @id and durable_status = 'running' and input_digest is null;

-- name: PolicyRecord
-- Never without an input (PO-15, PO-16). The digest is of the exact bytes.
update policy_checks
   set durable_status = @status, evaluation = @evaluation, result = @result, completed_at = clock_timestamp(), claimed_until = null,
       result_digest = encode(sha256(convert_to(input_digest || @evaluation, 'UTF8')), 'hex')
 where id = @id and durable_status = 'running' and input_digest = @input_digest;

-- name: PolicyRelease
update runs set policy_version = @version, policy_digest = @digest where id = @id and durable_status = 'policy_evaluating';

-- name: PolicyClaim
-- The oldest check that waits for somebody to evaluate it, and not for the run tasks before it.
update policy_checks set claimed_until = clock_timestamp() + make_interval(secs => @lease_seconds::double precision), tries = tries + 1
 where id = (select c.id from policy_checks c join runs r on r.id = c.run_id and r.round = c.round
              where c.durable_status = 'running' and r.durable_status in ('plan_complete', 'policy_evaluating') and (c.claimed_until is null or c.claimed_until < clock_timestamp())
                and not exists (select from task_stages t where t.run_id = c.run_id and t.status = 'running')
              order by c.created_at, c.id limit 1 for update of c skip locked)
returning id, run_id, tries;

-- name: PolicyRenew
update policy_checks set claimed_until = clock_timestamp() + make_interval(secs => @lease_seconds::double precision) where id = @id and durable_status = 'running' and claimed_until is not null;

-- name: PolicyReturn
-- Given back: counted says whether it was a try.
update policy_checks set claimed_until = clock_timestamp() + make_interval(secs => @pause_seconds::double precision), tries = tries - case when @counted::boolean then 0 else 1 end, last_error = @last_error
 where id = @id and durable_status = 'running';

-- name: PolicyResultDigest
-- Of the run whose plan it is, as it was last planned. Empty when the result is not the one that was recorded.
select coalesce((select c.result_digest from runs r join runs s on s.id = coalesce(r.source_run_id, r.id) join policy_checks c on c.run_id = s.id and c.round = s.round
  where r.id = @run_id and c.result_digest = encode(sha256(convert_to(c.input_digest || c.evaluation, 'UTF8')), 'hex')), '');

-- name: PolicyAllowed
-- Whether policies were asked about the plan that the run applies, and allowed it.
select exists (select from runs r join runs s on s.id = coalesce(r.source_run_id, r.id) join policy_checks c on c.run_id = s.id and c.round = s.round
  where r.id = @run_id and c.durable_status = 'passed' and coalesce((c.result ->> 'policy_sets')::integer, 0) > 0);

-- name: PinApprovalRule
-- When the plan comes to its decision, and until when that may take.
update runs set approval_rule = @rule, approval_expires_at = coalesce(approval_expires_at, clock_timestamp() + make_interval(secs => @lifetime_seconds::double precision))
 where id = @id and durable_status in ('policy_passed', 'dispatch_pending') and confirmed_at is null;

-- name: ApprovalOpen
select confirmed_at is null and approval_expires_at > clock_timestamp() from runs where id = @id;

-- name: Confirm
update runs set confirmed_at = clock_timestamp()
 where id = @id and durable_status = 'awaiting_approval' and confirmed_at is null and approval_expires_at > clock_timestamp();

-- name: RequestCancel
update runs set cancel_requested_at = clock_timestamp(), cancel_requested_by = nullif(@user_id::text, '')
 where id = @id and durable_status in ('planning', 'awaiting_approval', 'applying') and cancel_requested_at is null;

-- name: ResultingVersion
update runs set resulting_version_id = @version_id where id = @id and durable_status = 'applying' and resulting_version_id is null;

-- name: MarkRecovered
update runs set recovered_at = clock_timestamp(), recovered_reason = @reason where id = @id and durable_status = 'needs_recovery' and recovered_at is null;

-- name: Unfinished
select id from runs where workspace_id = @workspace_id and finished_at is null order by queue_seq;

-- name: ExpiredApprovals
-- Those whose arbitration nobody has asked for yet.
select r.id from runs r
 where r.durable_status = 'awaiting_approval' and r.confirmed_at is null and r.approval_expires_at <= clock_timestamp()
   and not exists (select from approval_arbitrations a where a.run_id = r.id and a.outcome is null)
 order by r.approval_expires_at limit @limit;

-- name: RequestArbitration
-- The same reason again asks again.
insert into approval_arbitrations (organization_id, run_id, round, wait_error)
select organization_id, id, round, @wait_error from runs where id = @run_id and durable_status = 'awaiting_approval'
on conflict (run_id, round, wait_error) do update set requested_at = clock_timestamp(), outcome = null, arbitrated_at = null;

-- name: OpenArbitrations
select distinct run_id from approval_arbitrations where outcome is null limit @limit;

-- name: Arbitrated
update approval_arbitrations set outcome = @outcome, arbitrated_at = clock_timestamp() where run_id = @run_id and outcome is null;

-- name: Arbitrations
select wait_error, requested_at, coalesce(outcome, '') as outcome, arbitrated_at from approval_arbitrations where run_id = @run_id order by requested_at, wait_error limit 20;

-- name: ApprovalExpired
select durable_status = 'awaiting_approval' and confirmed_at is null and approval_expires_at <= clock_timestamp() from runs where id = @id;

-- name: StaleSavedPlans
-- Plans that do not hold the workspace, of a state that is not current any more.
select r.id from runs r left join current_states c on c.workspace_id = r.workspace_id
 where r.durable_status = 'awaiting_approval' and r.fence_epoch is null and r.confirmed_at is null and r.predecessor_version_id is distinct from c.state_version_id
 order by r.queue_seq limit @limit;

-- name: ApplyingRun
select coalesce((select id from runs where workspace_id = @workspace_id and durable_status = 'applying' limit 1), '');

-- name: Announced
-- The state versions that an attempt announced, whatever became of them.
select count(*) from state_versions where attempt_id = @attempt_id;

-- name: WaitingWorkspaces
-- Free workspaces with a waiting head: none, unless something was left undone.
select distinct r.workspace_id from runs r join workspace_fences f on f.workspace_id = r.workspace_id
 where r.durable_status = 'queued' and not r.plan_only and r.admitted_at is null and f.holder_kind is null limit @limit;

-- name: PublicationChain
-- How many publications of this attempt lie between a version and the predecessor
-- of its run, when they form an unbroken chain; else nothing (ST-03).
with recursive chain as (
    select v.id, v.base_version_id, 1 as length from state_versions v where v.id = @version_id and v.attempt_id = @attempt_id and v.sandbox_id = @sandbox_id and v.epoch = @epoch
    union all
    select b.id, b.base_version_id, c.length + 1 from chain c join state_versions b on b.id = c.base_version_id
     where b.attempt_id = @attempt_id and b.sandbox_id = @sandbox_id and b.epoch = @epoch and c.length <= 1024
)
select max(length) from chain where exists (select 1 from chain c where coalesce(c.base_version_id, '') = @predecessor_version_id::text) and (select max(length) from chain) <= 1024;

-- name: Figures
-- What an operator watches: runs that wait for their workspace, workspaces that are held, and how
-- long, in the last quarter of an hour, a workspace stood free while its next run waited.
with waiting as (
    select created_at from runs where durable_status in ('dispatch_pending', 'queued') and not plan_only and admitted_at is null
), held as (
    select finished_at from runs where fence_epoch is not null and fence_released_at is null and finished_at is not null
), promoted as (
    select extract(epoch from n.admitted_at - p.fence_released_at) as seconds
      from runs n cross join lateral (
          select fence_released_at from runs where workspace_id = n.workspace_id and fence_epoch < n.fence_epoch order by fence_epoch desc limit 1) p
     where n.admitted_at > clock_timestamp() - interval '15 minutes' and p.fence_released_at > n.created_at
)
select (select count(*) from waiting)::int as waiting,
       coalesce((select extract(epoch from clock_timestamp() - min(created_at)) from waiting), 0)::double precision as oldest_waiting,
       (select count(*) from held)::int as held,
       coalesce((select extract(epoch from clock_timestamp() - min(finished_at)) from held), 0)::double precision as oldest_held,
       coalesce((select percentile_cont(0.5) within group (order by seconds) from promoted), 0)::double precision as promotion_median,
       coalesce((select percentile_cont(0.99) within group (order by seconds) from promoted), 0)::double precision as promotion_p99;

-- name: PolicyCheck
-- The newest of the run.
select id, run_id, durable_status, coalesce(input_digest, '') as input_digest, coalesce(input_object_id, '') as input_object_id, coalesce(result_digest, '') as result_digest,
    evaluation, created_at, evaluating_at, completed_at
  from policy_checks where run_id = @run_id order by round desc limit 1;

-- name: PolicyCheckByID
select id, run_id, durable_status, coalesce(input_digest, '') as input_digest, coalesce(input_object_id, '') as input_object_id, coalesce(result_digest, '') as result_digest,
    evaluation, created_at, evaluating_at, completed_at
  from policy_checks where run_id = @run_id and id = @id;

-- name: WaitsFor
update runs set waiting_reason = @reason where id = @id and finished_at is null and waiting_reason <> @reason;

-- name: KeptAtGate
-- Approved runs whose apply is not prepared, in organizations that are open again. Those that a
-- withdrawn release keeps come last, so that they are in nobody's way.
select r.id from runs r
 where r.durable_status = 'awaiting_approval' and r.confirmed_at is not null and r.cancel_requested_at is null
   and not exists (select from attempts a where a.run_id = r.id and a.phase = 'apply' and a.status in ('pending', 'assigned', 'running'))
   and r.organization_id not in (select c.organization_id from closed_organizations c)
 order by (exists (select from allowed_releases a where a.list = 'runner') and not exists (select from allowed_releases a where a.list = 'runner' and a.version = r.runner_version and a.digest = r.runner_digest))
       or (r.policy_version <> '' and exists (select from allowed_releases a where a.list = 'policy-runtime')
           and not exists (select from allowed_releases a where a.list = 'policy-runtime' and a.version = r.policy_version and a.digest = r.policy_digest)), r.queue_seq
 limit @limit;

-- fragment: Primary
-- The cluster and the timeline that this connection writes to.
select c.system_identifier::text as system_identifier, ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::bigint as timeline from pg_control_system() c

-- name: PrimaryTrusted
-- Also before the first one was noted.
select not exists (select from database_identity d, ({Primary}) p where (d.system_identifier, d.timeline) <> (p.system_identifier, p.timeline)) as trusted;

-- name: NotePrimary
insert into database_identity (system_identifier, timeline) select p.system_identifier, p.timeline from ({Primary}) p on conflict do nothing;

-- name: SuspectPrimary
update database_identity d set suspect_since = clock_timestamp()
  from ({Primary}) p where d.suspect_since is null and (d.system_identifier, d.timeline) <> (p.system_identifier, p.timeline);

-- name: TrustPrimary
-- Once nothing that applies has been silent since.
update database_identity d set system_identifier = p.system_identifier, timeline = p.timeline, noted_at = clock_timestamp(), suspect_since = null
  from ({Primary}) p
 where d.suspect_since is not null
   and not exists (select from runs r join attempts a on a.run_id = r.id and a.phase = 'apply' and a.status = 'running'
                    where r.durable_status = 'applying' and a.heartbeat_at <= d.suspect_since);

-- name: Admitted
-- Runs that go on and might be applying without the database knowing.
select id from runs where finished_at is null and admitted_at is not null and durable_status <> 'applying' and id > @after order by id limit @limit;

-- name: LateReportInsert
insert into late_reports (attempt_id, digest, outcome, exit_code, tofu_started, errored_state, message)
select @attempt_id, @digest, @outcome, @exit_code, @tofu_started, @errored_state, @message
 where (select count(*) from late_reports where attempt_id = @attempt_id) < @most::integer
on conflict (attempt_id, digest) do nothing;

-- name: LateReports
select outcome, exit_code, tofu_started, errored_state, message, received_at from late_reports where attempt_id = @attempt_id order by received_at, digest;


-- name: Pending
select id from runs where durable_status = 'dispatch_pending' and not (select coalesce((select intake_paused from launch_controls), false)) order by queue_seq limit @limit;

-- name: PendingBefore
select exists (select from runs where workspace_id = @workspace_id and durable_status = 'dispatch_pending' and queue_seq < @queue_seq);

-- name: CostInsert
insert into cost_estimates (id, organization_id, run_id, round, object_id, error, currency, prior, proposed, delta, resources, matched)
values (@id, @organization_id, @run_id, @round, nullif(@object_id, ''), @error, @currency, @prior, @proposed, @delta, @resources, @matched);

-- name: CostGet
select id, organization_id, run_id, coalesce(object_id, '') as object_id, error, currency, prior, proposed, delta, resources, matched, created_at from cost_estimates where id = @id;
