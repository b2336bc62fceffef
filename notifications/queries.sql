-- fragment: Columns
c.id, c.organization_id, coalesce(c.workspace_id, '') as workspace_id, coalesce(c.project_id, '') as project_id, c.name, c.destination_type, c.enabled, c.triggers,
    c.url_sealed, c.token_sealed, c.email_addresses, c.disabled_reason, c.created_at, c.updated_at,
    array(select u.user_id from notification_users u where u.configuration_id = c.id order by u.user_id) as users

-- name: Insert
insert into notification_configurations (id, organization_id, workspace_id, project_id, name, destination_type, enabled, triggers, url_sealed, token_sealed, email_addresses)
values (@id, @organization_id, nullif(@workspace_id, ''), nullif(@project_id, ''), @name, @destination_type, @enabled, @triggers, @url_sealed, @token_sealed, @email_addresses);

-- name: Get
select {Columns} from notification_configurations c where c.id = @id;

-- name: GetForUpdate
select id from notification_configurations where id = @id for no key update;

-- name: List
select {Columns} from notification_configurations c where c.workspace_id = @id or c.project_id = @id order by c.created_at, c.id limit @limit offset @offset;

-- name: Count
select count(*) from notification_configurations where workspace_id = @id or project_id = @id;

-- name: Update
-- What a person sets wipes out the note of the server.
update notification_configurations
   set name = @name, enabled = @enabled, triggers = @triggers, url_sealed = @url_sealed, token_sealed = @token_sealed, email_addresses = @email_addresses,
       given_up = case when @enabled::boolean then 0 else given_up end, disabled_reason = case when @enabled::boolean then '' else disabled_reason end,
       updated_at = clock_timestamp()
 where id = @id;

-- name: Delete
delete from notification_configurations where id = @id;

-- name: UsersClear
delete from notification_users where configuration_id = @id;

-- name: UsersAdd
-- Only members; the caller compares the number.
insert into notification_users (organization_id, configuration_id, user_id)
select m.organization_id, @id, m.user_id from memberships m where m.organization_id = @organization_id and m.user_id = any (@users::text[]);

-- name: Record
-- A pending delivery for each enabled configuration that asks for the trigger.
insert into notification_deliveries (organization_id, configuration_id, run_id, position, trigger)
select r.organization_id, c.id, r.id, (select max(h.position) from run_history h where h.run_id = r.id), @trigger
  from runs r join workspaces w on w.id = r.workspace_id
  join notification_configurations c on (c.workspace_id = w.id or c.project_id = w.project_id) and c.enabled and c.triggers @> array[@trigger]
 where r.id = @run_id
   for key share of c; -- one that is deleted meanwhile is not told, and the step goes on

-- name: Claim
-- The deliveries that are due, each for this server alone until its lease ends. One that
-- has an earlier one of its run before it waits, and a configuration is called once at a time.
with due as (
    select d.id from notification_deliveries d
     where d.status = 'pending' and d.due_at <= clock_timestamp() and (d.leased_until is null or d.leased_until <= clock_timestamp())
       and not exists (select from notification_deliveries e
                        where e.status = 'pending' and e.configuration_id = d.configuration_id and e.run_id = d.run_id and e.id < d.id)
       and not exists (select from notification_deliveries e
                        where e.status = 'pending' and e.configuration_id = d.configuration_id and e.leased_until > clock_timestamp() and e.id <> d.id)
     order by d.id limit @limit for update skip locked)
update notification_deliveries d
   set attempts = d.attempts + 1, leased_until = clock_timestamp() + make_interval(secs => @lease_seconds::double precision)
  from due where d.id = due.id
returning d.id, d.organization_id, d.configuration_id, d.attempts;

-- name: Event
-- What a delivery tells: the step of the run, and the run as it is known by now.
select d.trigger, r.id as run_id, r.message as run_message, r.created_at as run_created_at, coalesce(u.username, '') as run_created_by,
    r.workspace_id, w.name as workspace_name, o.name as organization_name,
    h.from_status, h.to_status, h.at, coalesce(a.username, h.actor_id) as by,
    r.auto_apply, r.save_plan, r.plan_only, coalesce(r.has_changes, false) as has_changes, r.plan_finished_at is not null and r.plan_finished_at <= h.at as plan_finished,
    exists (select from approvals p where p.run_id = r.id and p.source <> 'native' and p.decided_at >= h.at) as decided_at_once
  from notification_deliveries d join runs r on r.id = d.run_id join workspaces w on w.id = r.workspace_id join organizations o on o.id = r.organization_id
  join run_history h on h.run_id = d.run_id and h.position = d.position
  left join users u on u.id = r.created_by left join users a on h.actor_kind = 'user' and a.id = h.actor_id
 where d.id = @id;

-- name: Recipients
select u.email from memberships m join users u on u.id = m.user_id
 where m.organization_id = @organization_id and m.user_id = any (@users::text[]) and u.email <> '' and u.suspended_at is null and u.deactivated_at is null order by u.email;

-- name: End
update notification_deliveries
   set status = @status, ended_at = clock_timestamp(), leased_until = null, code = @code, answer = @answer, error = @error
 where id = @id and status = 'pending' and attempts = @attempts;

-- name: Retry
update notification_deliveries
   set due_at = clock_timestamp() + make_interval(secs => @pause_seconds::double precision), leased_until = null, code = @code, answer = @answer, error = @error
 where id = @id and status = 'pending' and attempts = @attempts;

-- name: Verified
-- A verification goes out at once and is only noted.
insert into notification_deliveries (organization_id, configuration_id, trigger, status, attempts, code, answer, error, ended_at)
values (@organization_id, @configuration_id, 'verification', @status, 1, @code, @answer, @error, clock_timestamp());

-- name: Answered
update notification_configurations set given_up = 0 where id = @id and given_up <> 0;

-- name: GaveUp
update notification_configurations set given_up = given_up + 1 where id = @id returning given_up;

-- name: Disable
update notification_configurations set enabled = false, disabled_reason = @reason, updated_at = clock_timestamp() where id = @id and enabled;

-- name: Drop
-- What nobody is told any more, because the configuration was disabled.
update notification_deliveries set status = 'dropped', ended_at = clock_timestamp(), leased_until = null, error = @error
 where configuration_id = @id and status = 'pending' and (leased_until is null or leased_until <= clock_timestamp());

-- name: Deliveries
select id, coalesce(run_id, '') as run_id, trigger, status, attempts, due_at, code, answer, error, created_at, ended_at
  from notification_deliveries where configuration_id = @id order by id desc limit @limit offset @offset;

-- name: DeliveriesCount
select count(*) from notification_deliveries where configuration_id = @id;

-- name: Responses
-- The newest answers of some configurations.
select configuration_id, code, answer, error, status, ended_at from (
    select d.configuration_id, d.code, d.answer, d.error, d.status, d.ended_at, row_number() over (partition by d.configuration_id order by d.id desc) as n
      from notification_deliveries d where d.configuration_id = any (@ids::text[]) and d.status in ('delivered', 'failed')) newest
 where n <= @most::integer order by configuration_id, n;

-- name: Forget
delete from notification_deliveries where id in (
    select id from notification_deliveries where status <> 'pending' and ended_at < clock_timestamp() - make_interval(secs => @keep_seconds::double precision) limit @limit);
