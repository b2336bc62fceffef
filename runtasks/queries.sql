-- fragment: TaskColumns
t.id, t.organization_id, o.name as organization_name, t.name, t.description, t.enabled, t.url_sealed, t.hmac_key_sealed, t.global_enabled, t.global_stages, t.global_enforcement, has_global_run_tasks(o.feature_set, o.feature_set_ends_at) as global_entitled, t.created_at

-- name: TaskInsert
insert into run_tasks (id, organization_id, name, description, enabled, url_sealed, hmac_key_sealed, global_enabled, global_stages, global_enforcement)
values (@id, @organization_id, @name, @description, @enabled, @url_sealed, @hmac_key_sealed, @global_enabled, @global_stages, @global_enforcement);

-- name: TaskUpdate
update run_tasks
   set name = @name, description = @description, enabled = @enabled, url_sealed = @url_sealed, hmac_key_sealed = @hmac_key_sealed,
       global_enabled = @global_enabled, global_stages = @global_stages, global_enforcement = @global_enforcement
 where id = @id;

-- name: TaskLock
select id from run_tasks where id = @id for no key update;

-- name: TaskDelete
delete from run_tasks where id = @id;

-- name: TaskGet
select {TaskColumns} from run_tasks t join organizations o on o.id = t.organization_id where t.id = @id;

-- name: TaskList
select {TaskColumns} from run_tasks t join organizations o on o.id = t.organization_id where t.organization_id = @organization_id order by t.created_at, t.id limit @limit offset @offset;

-- name: TaskCount
select count(*) from run_tasks where organization_id = @organization_id;

-- fragment: WorkspaceTaskColumns
wt.id, wt.organization_id, (select w.project_id from workspaces w where w.id = wt.workspace_id) as project_id, wt.workspace_id, wt.task_id, wt.enforcement, wt.stages

-- name: WorkspaceTasksOf
-- Who asks these tasks.
select {WorkspaceTaskColumns} from workspace_tasks wt join workspaces w on w.id = wt.workspace_id where wt.task_id = any (@task_ids::text[]) and w.deleted_at is null order by wt.created_at, wt.id;

-- name: WorkspaceTaskInsert
insert into workspace_tasks (id, organization_id, workspace_id, task_id, enforcement, stages) values (@id, @organization_id, @workspace_id, @task_id, @enforcement, @stages);

-- name: WorkspaceTaskUpdate
update workspace_tasks set enforcement = @enforcement, stages = @stages where id = @id and workspace_id = @workspace_id;

-- name: WorkspaceTaskDelete
delete from workspace_tasks where id = @id and workspace_id = @workspace_id;

-- name: WorkspaceTaskGet
select {WorkspaceTaskColumns} from workspace_tasks wt where wt.id = @id and wt.workspace_id = @workspace_id;

-- name: WorkspaceTaskList
select {WorkspaceTaskColumns} from workspace_tasks wt where wt.workspace_id = @workspace_id order by wt.created_at, wt.id limit @limit offset @offset;

-- name: WorkspaceTaskCount
select count(*) from workspace_tasks where workspace_id = @workspace_id;

-- name: Wanted
-- What a run asks by now: each task once in a stage, the stricter way where it is asked twice.
select task_id, name, stage, max(workspace_task_id) as workspace_task_id, max(enforcement) as enforcement from (
    select t.id as task_id, t.name, s.stage, wt.id as workspace_task_id, wt.enforcement
      from workspace_tasks wt join run_tasks t on t.id = wt.task_id cross join unnest(wt.stages) as s (stage)
     where wt.workspace_id = @workspace_id and t.enabled
    union all
    select t.id, t.name, s.stage, '', t.global_enforcement
      from run_tasks t join organizations o on o.id = t.organization_id cross join unnest(t.global_stages) as s (stage)
     where t.organization_id = @organization_id and t.enabled and t.global_enabled and has_global_run_tasks(o.feature_set, o.feature_set_ends_at)) asked
 where stage = any (@stages::text[]) group by task_id, name, stage order by stage, name, task_id;

-- name: StageInsert
insert into task_stages (id, organization_id, run_id, round, stage) values (@id, @organization_id, @run_id, @round, @stage);

-- name: ResultInsert
insert into task_results (id, organization_id, stage_id, task_id, task_name, workspace_task_id, enforcement)
values (@id, @organization_id, @stage_id, @task_id, @task_name, @workspace_task_id, @enforcement);

-- name: StageBegin
update task_stages set status = 'running', started_at = clock_timestamp() where run_id = @run_id and round = @round and stage = @stage and status = 'pending' returning id;

-- name: ResultsDue
update task_results set due_at = clock_timestamp() where stage_id = @stage_id and status = 'pending';

-- name: StageEnd
update task_stages set status = @status, ended_at = clock_timestamp() where id = @id and status = 'running';

-- name: StagesClose
-- The run has ended: what was not asked is never asked.
update task_stages set status = case status when 'running' then 'canceled' else 'unreachable' end, ended_at = clock_timestamp()
 where run_id = @run_id and status in ('pending', 'running');

-- name: ResultsClose
update task_results r set status = case s.status when 'unreachable' then 'unreachable' else 'canceled' end, ended_at = clock_timestamp(), updated_at = clock_timestamp(), leased_until = null
  from task_stages s where s.id = r.stage_id and s.run_id = @run_id and s.ended_at is not null and r.status in ('pending', 'running');

-- name: ResultStage
-- Whose result it is, and whether it is still open.
select s.run_id, s.id as stage_id, s.stage, s.status as stage_status, r.status, r.enforcement, r.task_name from task_results r join task_stages s on s.id = r.stage_id where r.id = @id;

-- name: ResultReport
update task_results
   set status = @status, message = @message, url = @url, updated_at = clock_timestamp(), leased_until = null,
       accepted_at = coalesce(accepted_at, case when @accepted::boolean then clock_timestamp() end),
       progress_at = coalesce(progress_at, case when @progress::boolean then clock_timestamp() end),
       ended_at = case when @ended::boolean then clock_timestamp() end
 where id = @id and status in ('pending', 'running');

-- name: StageTally
-- How a stage stands: results that are open, and mandatory ones that are not passed.
select count(*) filter (where status in ('pending', 'running')) as open,
       count(*) filter (where enforcement = 'mandatory' and status not in ('pending', 'running', 'passed')) as failed,
       coalesce(string_agg(task_name || case when message = '' then '' else ': ' || message end, '; ' order by task_name)
                filter (where enforcement = 'mandatory' and status not in ('pending', 'running', 'passed')), '') as why
  from task_results where stage_id = @stage_id;

-- name: Claim
-- Requests that are to be sent, each by this server alone until its lease ends.
with due as (
    select r.id from task_results r join task_stages s on s.id = r.stage_id
     where r.status = 'pending' and s.status = 'running' and r.due_at <= clock_timestamp() and (r.leased_until is null or r.leased_until <= clock_timestamp())
     order by r.due_at, r.id limit @limit for update of r skip locked)
update task_results r set attempts = r.attempts + 1, leased_until = clock_timestamp() + make_interval(secs => @lease_seconds::double precision)
  from due where r.id = due.id returning r.id, r.task_id, r.attempts;

-- name: Retry
update task_results set due_at = clock_timestamp() + make_interval(secs => @pause_seconds::double precision), leased_until = null, updated_at = clock_timestamp()
 where id = @id and status = 'pending' and attempts = @attempts;

-- name: Request
select r.id, s.stage, r.enforcement, s.run_id, n.message as run_message, n.created_at as run_created_at, coalesce(u.username, '') as run_created_by, n.plan_only,
    n.plan_id, n.configuration_version_id, n.working_directory, n.workspace_id, w.name as workspace_name, o.name as organization_name, n.plan_json_object_id is not null as has_plan
  from task_results r join task_stages s on s.id = r.stage_id join runs n on n.id = s.run_id join workspaces w on w.id = n.workspace_id join organizations o on o.id = n.organization_id
  left join users u on u.id = n.created_by
 where r.id = @id;

-- name: Overdue
-- Open results of services that took the request and then said nothing for too long, or not enough.
select r.id from task_results r join task_stages s on s.id = r.stage_id
 where r.status = 'running' and s.status = 'running'
   and ((r.progress_at is null and r.accepted_at <= clock_timestamp() - make_interval(secs => @progress_seconds::double precision))
        or r.accepted_at <= clock_timestamp() - make_interval(secs => @ttl_seconds::double precision))
 order by r.accepted_at limit @limit;

-- name: IsOverdue
select exists (select from task_results r where r.id = @id and r.status = 'running'
   and ((r.progress_at is null and r.accepted_at <= clock_timestamp() - make_interval(secs => @progress_seconds::double precision))
        or r.accepted_at <= clock_timestamp() - make_interval(secs => @ttl_seconds::double precision)));

-- name: Stages
select id, run_id, stage, status, created_at, started_at, ended_at from task_stages where run_id = @run_id and round = @round
 order by array_position(array['pre_plan', 'post_plan', 'pre_apply'], stage);

-- name: StageByID
select id, run_id, stage, status, created_at, started_at, ended_at from task_stages where id = @id;

-- name: Results
select id, stage_id, task_id, task_name, workspace_task_id, enforcement, status, message, url, accepted_at, created_at, updated_at, ended_at
  from task_results where stage_id = any (@stage_ids::text[]) order by stage_id, task_name, id;

-- name: ResultByID
select id, stage_id, task_id, task_name, workspace_task_id, enforcement, status, message, url, accepted_at, created_at, updated_at, ended_at from task_results where id = @id;

-- name: OutcomeKeep
insert into task_result_outcomes (id, organization_id, result_id, outcome_id, description, body, url, tags)
select @id, r.organization_id, r.id, @outcome_id, @description, @body, @url, @tags::jsonb from task_results r where r.id = @result_id
on conflict on constraint task_result_outcomes_once do update set description = excluded.description, body = excluded.body, url = excluded.url, tags = excluded.tags;

-- name: OutcomeSum
select count(*) as outcomes, coalesce(sum(octet_length(body)), 0)::bigint as bytes from task_result_outcomes where result_id = @result_id;

-- name: OutcomeList
select id, result_id, outcome_id, description, body, url, tags, created_at from task_result_outcomes where result_id = @result_id order by position limit @limit offset @offset;
