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
    r.runner_version, r.runner_digest, coalesce(r.approval_rule, '{}') as approval_rule,
    array(select a.reviewer_id from approvals a where a.run_id = r.id and a.round = r.round and a.decision = 'approved' and a.reviewer_id is not null order by a.id) as approvers,
    case when r.durable_status = 'queued' or (r.durable_status = 'awaiting_approval' and r.confirmed_at is not null)
         then coalesce((select c.reason from closed_organizations c where c.organization_id = r.organization_id), r.waiting_reason) else '' end as gate_reason,
    array(select p.id from runs p where p.source_run_id = r.id order by p.queue_seq) as promoted_runs,
    coalesce((select a.status from attempts a where a.run_id = r.id and a.round = r.round and a.phase = 'plan' order by a.created_at desc, a.id limit 1), '') as plan_attempt,
    coalesce((select a.status from attempts a where a.run_id = r.id and a.round = r.round and a.phase = 'apply' order by a.created_at desc, a.id limit 1), '') as apply_attempt,
    r.workflow_definition, r.application_build_sha,
    coalesce((select f.holder_kind from workspace_fences f where f.workspace_id = r.workspace_id), '') as holder_kind,
    coalesce((select f.holder_id from workspace_fences f where f.workspace_id = r.workspace_id), '') as holder_id,
    coalesce((select f.holder_name from workspace_fences f where f.workspace_id = r.workspace_id), '') as holder_name,
    coalesce((select f.recovery_held from workspace_fences f where f.workspace_id = r.workspace_id), false) as holder_held

-- name: ConfigurationInsert
insert into configuration_versions (id, organization_id, workspace_id, auto_queue_runs, speculative, provisional, created_by)
values (@id, @organization_id, @workspace_id, @auto_queue_runs, @speculative, @provisional, @created_by);

-- name: ConfigurationGet
select id, organization_id, workspace_id, (select w.project_id from workspaces w where w.id = workspace_id) as project_id, status, error, auto_queue_runs, speculative, provisional, coalesce(object_id, '') as object_id, captured_at,
    coalesce(created_by, '') as created_by, created_at, uploaded_at
  from configuration_versions where id = @id;

-- name: ConfigurationLock
select id from configuration_versions where id = @id for update;

-- name: ConfigurationList
select id, organization_id, workspace_id, (select w.project_id from workspaces w where w.id = workspace_id) as project_id, status, error, auto_queue_runs, speculative, provisional, coalesce(object_id, '') as object_id, captured_at,
    coalesce(created_by, '') as created_by, created_at, uploaded_at
  from configuration_versions where workspace_id = @workspace_id order by created_at desc, id limit @limit offset @offset;

-- name: ConfigurationNewest
select id from configuration_versions
 where workspace_id = @workspace_id and status = 'uploaded' and not speculative
 order by created_at desc, id limit 1;

-- name: ConfigurationCount
select count(*) from configuration_versions where workspace_id = @workspace_id;

-- name: ConfigurationUploaded
-- A repeated upload replaces the bytes until a run has captured them (amendment 9).
update configuration_versions set status = 'uploaded', error = '', object_id = @object_id, uploaded_at = clock_timestamp()
 where id = @id and captured_at is null and status <> 'archived';

-- name: ConfigurationObjects
select object_id from configuration_versions where workspace_id = @workspace_id and object_id is not null order by created_at for update;

-- name: ConfigurationsArchive
update configuration_versions set status = 'archived', object_id = null where workspace_id = @workspace_id and status <> 'archived';

-- name: ConfigurationErrored
update configuration_versions set status = 'errored', error = @error where id = @id and status in ('pending', 'errored');

-- name: ConfigurationCapture
update configuration_versions set captured_at = coalesce(captured_at, clock_timestamp()) where id = @id and status = 'uploaded';

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
    workflow_definition, application_build_sha)
select @id, @plan_id, @apply_id, r.organization_id, r.workspace_id, nextval('run_queue_seq'), @message, @source, @created_by, r.is_destroy, r.refresh, r.refresh_only,
    @auto_apply, r.target_addrs, r.replace_addrs, r.structured_output, r.generate_config, r.configuration_version_id, r.configuration_object_id, r.terraform_version, r.working_directory,
    @run_variables_sealed, @variables_sealed, 'apply', r.id, r.predecessor_version_id, clock_timestamp(), r.has_changes, r.resource_additions, r.resource_changes, r.resource_destructions, r.resource_imports,
    r.plan_object_id, r.plan_json_object_id, r.plan_json_redacted_object_id, r.generated_config, r.lock_file_object_id, r.plan_tofu_version, r.plan_tofu_digest, r.plan_finished_at,
    clock_timestamp() + make_interval(secs => @lifetime_seconds::double precision), @workflow_definition, @application_build_sha
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
       cancel_requested_at = null, cancel_requested_by = null, force_cancel_available_at = null
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
   and created_at > clock_timestamp() - make_interval(secs => @window_seconds::double precision)
 order by queue_seq desc limit 1;

-- name: RunGet
select {RunColumns}
  from runs r join organizations o on o.id = r.organization_id join workspaces w on w.id = r.workspace_id
 where r.id = @id;

-- name: RunWorkspace
select workspace_id from runs where id = @id;

-- name: RunLock
select id from runs where id = @id for update;

-- name: RunByPlan
select id from runs where plan_id = @id;

-- name: RunByApply
select id from runs where apply_id = @id;

-- name: RunList
select {RunColumns}
  from runs r join organizations o on o.id = r.organization_id join workspaces w on w.id = r.workspace_id
 where r.workspace_id = @workspace_id and (@include_plan_only::boolean or not r.plan_only)
 order by r.queue_seq desc limit @limit offset @offset;

-- name: RunCount
select count(*) from runs r where r.workspace_id = @workspace_id and (@include_plan_only::boolean or not r.plan_only);

-- name: QueueList
-- Runs of an organization that wait or work, in the order in which they were made.
select {RunColumns}
  from runs r join organizations o on o.id = r.organization_id join workspaces w on w.id = r.workspace_id
 where r.organization_id = @organization_id and r.finished_at is null
   and r.durable_status in ('dispatch_pending', 'queued', 'planning', 'applying')
 order by r.queue_seq;

-- name: StepRun
-- One step and its history. No row: the run was not in from_status.
with stepped as (
    update runs
       set durable_status = @to_status, durable_reason = @reason, status_message = case when @status_message = '' then status_message else @status_message end,
           finished_at = case when @final::boolean then coalesce(finished_at, clock_timestamp()) end
     where id = @id and durable_status = @from_status
    returning id
), history as (
    insert into run_history (run_id, position, from_status, to_status, reason, actor_kind, actor_id)
    select s.id, (select count(*) from run_history h where h.run_id = s.id), @from_status, @to_status, @reason, @actor_kind, @actor_id from stepped s)
select from stepped;

-- name: History
select run_id, from_status, to_status, reason, actor_kind, actor_id, at from run_history where run_id = any (@run_ids::text[]) order by run_id, position;

-- name: NextQueued
-- The head of a workspace's queue (QP-05).
select id from runs
 where workspace_id = @workspace_id and durable_status = 'queued' and not plan_only and admitted_at is null
 order by queue_seq limit 1 for update;

-- name: Admit
update runs set predecessor_version_id = nullif(@predecessor_version_id::text, ''), admitted_at = clock_timestamp(), fence_epoch = @fence_epoch
 where id = @id and durable_status = 'queued' and admitted_at is null;

-- name: FenceTaken
-- The fence of a run that was admitted without one, or that had lost its own.
update runs set fence_epoch = @fence_epoch
 where id = @id and admitted_at is not null and fence_released_at is null and fence_epoch is distinct from @fence_epoch;

-- name: FenceReleased
update runs set fence_released_at = clock_timestamp() where id = @id and fence_epoch is not null and fence_released_at is null;

-- name: PlanEvidence
update runs
   set has_changes = @has_changes, resource_additions = @additions, resource_changes = @changes, resource_destructions = @destructions, resource_imports = @imports,
       plan_object_id = nullif(@plan_object_id::text, ''), plan_json_object_id = @plan_json_object_id,
       plan_json_redacted_object_id = nullif(@plan_json_redacted_object_id::text, ''), generated_config = @generated_config, lock_file_object_id = nullif(@lock_file_object_id::text, ''),
       plan_tofu_version = @tofu_version, plan_tofu_digest = @tofu_digest, plan_finished_at = clock_timestamp()
 where id = @id and durable_status = 'planning' and has_changes is null;

-- name: PlainOutput
-- The runner that plans sends no events, so clients print its text instead of drawing.
update runs set structured_output = false where id = @id and durable_status = 'planning' and structured_output;

-- name: GeneratedConfig
-- What a plan that is about to fail has written.
update runs set plan_json_redacted_object_id = @plan_json_redacted_object_id, generated_config = true
 where id = @id and durable_status = 'planning' and plan_json_redacted_object_id is null;

-- name: PolicyReserve
insert into policy_checks (id, run_id, round, durable_status) values (@id, @run_id, @round, 'running');

-- name: PolicyRecord
update policy_checks
   set durable_status = 'passed', input_digest = @input_digest, result = @result, result_digest = @result_digest, completed_at = clock_timestamp()
 where run_id = @run_id and durable_status = 'running';

-- name: PolicyResultDigest
-- Of the run whose plan it is, as it was last planned.
select coalesce((select c.result_digest from runs r join runs s on s.id = coalesce(r.source_run_id, r.id) join policy_checks c on c.run_id = s.id and c.round = s.round
  where r.id = @run_id), '');

-- name: PolicyAllowed
-- Whether policies were asked about the plan that the run applies, and allowed it.
select exists (select from runs r join runs s on s.id = coalesce(r.source_run_id, r.id) join policy_checks c on c.run_id = s.id and c.round = s.round
  where r.id = @run_id and c.durable_status = 'passed' and coalesce((c.result ->> 'policy_sets')::integer, 0) > 0);

-- name: ApprovalDeadline
update runs set approval_expires_at = clock_timestamp() + make_interval(secs => @lifetime_seconds::double precision)
 where id = @id and durable_status = 'policy_passed' and approval_expires_at is null;

-- name: PinApprovalRule
-- When the plan comes to its decision.
update runs set approval_rule = @rule where id = @id and durable_status in ('policy_passed', 'dispatch_pending') and confirmed_at is null;

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

-- name: StageEnd
-- The step at hand. Nobody rejects what a runner executes: it is canceled then.
update run_stages
   set status = case when kind in ('plan', 'apply') and @status in ('rejected', 'expired') then 'canceled' when status = 'pending' then @unbegun else @status end, finished_at = clock_timestamp()
 where run_id = @run_id and finished_at is null
returning id;

-- name: StageBegin
update run_stages set status = 'running', started_at = clock_timestamp() where run_id = @run_id and kind = @kind and status = 'pending';

-- name: StageAttempt
-- The newest, until one has begun: a gate may have sent back the one before.
update run_stages set attempt_id = @attempt_id where run_id = @run_id and kind = @kind and status = 'pending';

-- name: StageInsert
insert into run_stages (id, organization_id, run_id, position, kind, status, attempt_id, started_at, finished_at)
select @id, @organization_id, @run_id, count(*), @kind, @status::text,
    (select a.id from attempts a where a.run_id = @run_id and a.phase = @kind and a.status in ('pending', 'assigned', 'running')),
    case when @status = 'running' then clock_timestamp() end, case when @status not in ('pending', 'running') then clock_timestamp() end
  from run_stages where run_id = @run_id;

-- name: StageList
select id, run_id, position, kind, status, coalesce(attempt_id, '') as attempt_id, created_at, started_at, finished_at
  from run_stages where run_id = @run_id order by position limit @limit offset @offset;

-- name: StageCount
select count(*) from run_stages where run_id = @run_id;

-- name: ReceiptInsert
-- Of a stage that a runner has worked on; no row for one that none did.
insert into run_receipts (id, organization_id, workspace_id, run_id, stage_id, attempt_id, kind, result, reason, exit_code, has_changes, resource_additions, resource_changes,
    resource_destructions, resource_imports, digests, tofu_version, tofu_digest, state_version_id, started_at, finished_at)
select @id, s.organization_id, r.workspace_id, s.run_id, s.id, a.id, s.kind, s.status, @reason, a.exit_code,
    case when done.all then r.has_changes end, case when done.all then r.resource_additions end, case when done.all then r.resource_changes end,
    case when done.all then r.resource_destructions end, case when done.all then r.resource_imports end,
    coalesce((select jsonb_object_agg(t.kind, t.sha256) from attempt_artifacts t where t.attempt_id = a.id), '{}'), a.tofu_version, r.plan_tofu_digest,
    case when s.kind = 'apply' then coalesce(r.resulting_version_id,
        (select v.id from state_versions v where v.attempt_id = a.id and v.status = 'finalized' order by v.finalized_at desc, v.id limit 1),
        case when done.all then r.predecessor_version_id end) end,
    a.accepted_at, greatest(coalesce(a.finished_at, s.finished_at), a.accepted_at)
  from run_stages s join runs r on r.id = s.run_id join attempts a on a.id = s.attempt_id
       cross join lateral (select s.status = 'succeeded' as "all") as done
 where s.id = @stage_id and s.kind in ('plan', 'apply') and a.accepted_at is not null;

-- name: ReceiptList
select c.id, c.run_id, c.stage_id, c.attempt_id, c.kind, c.result, c.reason, c.exit_code, c.has_changes, c.resource_additions, c.resource_changes, c.resource_destructions,
    c.resource_imports, c.digests, c.tofu_version, c.tofu_digest, coalesce(c.state_version_id, '') as state_version_id, c.started_at, c.finished_at
  from run_receipts c join run_stages s on s.id = c.stage_id where c.run_id = @run_id order by s.position limit @limit offset @offset;

-- name: ReceiptCount
select count(*) from run_receipts where run_id = @run_id;

-- name: PolicyCheck
-- The newest of the run.
select id, durable_status, coalesce(input_digest, '') as input_digest, coalesce(result_digest, '') as result_digest, completed_at
  from policy_checks where run_id = @run_id order by created_at desc limit 1;

-- name: PinRelease
update runs set runner_version = @version, runner_digest = @digest where id = @id and durable_status = 'planning';

-- name: WaitsFor
update runs set waiting_reason = @reason where id = @id and finished_at is null and waiting_reason <> @reason;

-- name: KeptAtGate
-- Approved runs whose apply is not prepared, in organizations that are open again. Those that a
-- withdrawn release keeps come last, so that they are in nobody's way.
select r.id from runs r
 where r.durable_status = 'awaiting_approval' and r.confirmed_at is not null and r.cancel_requested_at is null
   and not exists (select from attempts a where a.run_id = r.id and a.phase = 'apply' and a.status in ('pending', 'assigned', 'running'))
   and r.organization_id not in (select c.organization_id from closed_organizations c)
 order by exists (select from allowed_releases a) and not exists (select from allowed_releases a where a.version = r.runner_version and a.digest = r.runner_digest), r.queue_seq
 limit @limit;

-- fragment: Primary
-- The cluster and the timeline that this connection writes to.
select c.system_identifier::text as system_identifier, ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::bigint as timeline from pg_control_system() c

-- name: PrimaryTrusted
-- Also before the first one was noted.
select not exists (select from database_identity d, ({Primary}) p where (d.system_identifier, d.timeline) <> (p.system_identifier, p.timeline));

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
