-- name: Record
insert into approvals (public_id, run_id, reviewer_id, requester_id, decision, source, comment, plan_digest, configuration_digest, lock_file_digest, predecessor_version_id, predecessor_sha256,
    policy_result_digest, binding_digest, reviewer_teams, round)
values (@public_id, @run_id, nullif(@reviewer_id::text, ''), @requester_id, @decision, @source, @comment, @plan_digest, @configuration_digest, @lock_file_digest, @predecessor_version_id, @predecessor_sha256,
    @policy_result_digest, @binding_digest, @reviewer_teams, coalesce((select round from runs where id = @run_id), 1))
on conflict on constraint approvals_one_each do nothing;

-- name: Approved
-- Of the round that the run is in.
select id, plan_digest, configuration_digest, lock_file_digest, predecessor_version_id, predecessor_sha256, policy_result_digest, spent_at is not null as spent
  from approvals where run_id = @run_id and decision = 'approved' and round = (select round from runs where id = @run_id) order by id for update;

-- name: Spend
update approvals set spent_at = clock_timestamp() where id = any (@ids::bigint[]) and spent_at is null;

-- name: Votes
select coalesce(a.reviewer_id, '') as reviewer, a.requester_id as requester, a.source, a.reviewer_teams as teams,
    coalesce((select t.id from teams t where t.service_user_id = a.requester_id), '') as requester_team
  from approvals a where a.run_id = @run_id and a.decision = 'approved' and a.round = (select round from runs where id = @run_id) order by a.id;

-- name: TeamOfAccount
-- Whose token works in the name of this account; none of most.
select id from teams where service_user_id = @user_id;

-- name: List
select a.public_id as id, a.run_id, coalesce((select u.username from users u where u.id = a.reviewer_id), '') as reviewer, coalesce((select s.plan_id from runs s where s.id = r.source_run_id), r.plan_id) as plan_id, a.round, coalesce(a.reviewer_id, '') as reviewer_id,
    a.requester_id, a.decision, a.source, a.comment, a.decided_at, a.reviewer_teams,
    a.plan_digest, a.configuration_digest, a.lock_file_digest, a.predecessor_version_id, a.predecessor_sha256, a.policy_result_digest, a.binding_digest, a.spent_at
  from approvals a join runs r on r.id = a.run_id where a.run_id = @run_id order by a.id;

-- name: Rules
-- What is said at a place and around it, the widest first.
select coalesce(project_id, '') as project_id, coalesce(workspace_id, '') as workspace_id, mode, required_approvals as required, exclude_requester, reviewer_teams as reviewers, environment_class as class
  from approval_rules
 where organization_id = @organization_id
   and (project_id is null or project_id = nullif(@project_id::text, ''))
   and (workspace_id is null or workspace_id = nullif(@workspace_id::text, ''))
 order by workspace_id is not null, project_id is not null;

-- name: IsProduction
select is_production(@workspace_id);

-- name: RuleAt
-- Makes the row of a place, and locks it.
insert into approval_rules (organization_id, project_id, workspace_id)
values (@organization_id, case when @workspace_id::text = '' then nullif(@project_id::text, '') end, nullif(@workspace_id::text, ''))
on conflict on constraint approval_rules_once do update set updated_at = clock_timestamp();

-- name: RuleWrite
update approval_rules
   set mode = @mode, required_approvals = @required, exclude_requester = @exclude, reviewer_teams = @reviewers, environment_class = @class, updated_at = clock_timestamp()
 where organization_id = @organization_id and workspace_id is not distinct from nullif(@workspace_id::text, '')
   and project_id is not distinct from case when @workspace_id::text = '' then nullif(@project_id::text, '') end;

-- name: TeamNames
select id, name from teams where id = any (@teams::text[]);

-- name: UnknownTeams
-- Those that are known stay until the end of the transaction: a team that is being deleted is unknown.
with known as (select t.id from teams t where t.id = any (@teams::text[]) and t.organization_id = @organization_id for key share)
select wanted from unnest(@teams::text[]) as wanted where not exists (select from known where known.id = wanted);
