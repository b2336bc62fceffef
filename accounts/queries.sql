-- The statements of package accounts. Deadlines are compared with clock_timestamp().

-- fragment: UserCounts
-- Neither suspended by a site admin nor deactivated by an identity provider.
u.suspended_at is null and u.deactivated_at is null

-- fragment: ActorColumns
coalesce(u.id, '') as user_id, coalesce(u.username, '') as username, coalesce((u.site_admin or u.provisioned_admin) and {UserCounts}, false) as site_admin, coalesce(u.service_account, false) as service_account,
       u.deactivated_at is not null as deactivated,
       rights.organizations, rights.roles, rights.grant_organizations, rights.grant_scopes, rights.grant_levels

-- fragment: ActorRights
-- What the user u may do: its role in each organization that exists, and what its teams give, as rows of organization, scope
-- (the id of a team, which gives in all of the organization, or of a project or workspace) and the names of levels. The account of a
-- team is as good as a member of it. In a disabled organization nobody has any, and a suspended user nowhere.
-- Each request asks this, and to set up a part of the statement costs more than to execute it: nothing is looked up twice.
cross join lateral (
    with places as materialized (
        select x.organization_id, x.role, x.team_id
          from (select m.organization_id, m.role, null as team_id from memberships m where m.user_id = u.id and m.status = 'active'
                union all
                select t.organization_id, case when t.is_owners then 'owner' else 'member' end, t.id from teams t where t.service_user_id = u.id) x
          join organizations o on o.id = x.organization_id and o.deleted_at is null and o.disabled_at is null and {UserCounts}
    ), mine as materialized (
        select t.id, t.organization_id, t.organization_access
          from (select tm.team_id as id from places join team_memberships tm on tm.organization_id = places.organization_id and tm.user_id = u.id
                 where places.team_id is null
                union all
                select places.team_id from places where places.team_id is not null
                union all
                select s.id from places join teams s on s.organization_id = places.organization_id and s.is_owners
                 where places.role = 'owner' and places.team_id is null) member
          join teams t on t.id = member.id
    )
    select roles.organizations, roles.roles, granted.grant_organizations, granted.grant_scopes, granted.grant_levels
      from (select coalesce(array_agg(organization_id), '{}') as organizations, coalesce(array_agg(role), '{}') as roles from places) roles,
           (select coalesce(array_agg(g.organization_id), '{}') as grant_organizations, coalesce(array_agg(g.scope), '{}') as grant_scopes, coalesce(array_agg(g.levels), '{}') as grant_levels
              from (select organization_id, id as scope, array_to_string(organization_access, ' ') as levels from mine
                    union all
                    select a.organization_id, a.project_id, array_to_string(a.levels, ' ') from mine join team_projects a on a.team_id = mine.id
                    union all
                    select a.organization_id, a.workspace_id, array_to_string(a.levels, ' ') from mine join team_workspaces a on a.team_id = mine.id) g) granted) rights

-- fragment: SessionCounts
-- An organization can end the sessions of its members sooner.
s.ended_at is null
       and s.seen_at > clock_timestamp() - least(interval '12 hours', (select make_interval(mins => min(o.session_timeout))
            from memberships m join organizations o on o.id = m.organization_id and o.deleted_at is null where m.user_id = s.user_id))
       and s.created_at > clock_timestamp() - least(interval '7 days', (select make_interval(mins => min(o.session_remember))
            from memberships m join organizations o on o.id = m.organization_id and o.deleted_at is null where m.user_id = s.user_id))

-- fragment: TokenCounts
t.revoked_at is null and (t.expires_at is null or t.expires_at > clock_timestamp())

-- name: TokenActor
-- Whoever a token that counts stands for, with all it may do. A token without a user is the organization's.
select {ActorColumns}, t.id as token, t.kind as token_kind,
       -- Of those that it would get into, where no user does so by a token.
       array(select b.id from organizations b
              where not b.user_tokens_enabled and b.deleted_at is null and t.kind = 'user'
                and (u.site_admin or u.provisioned_admin or exists (select from memberships m where m.organization_id = b.id and m.user_id = u.id and m.status = 'active'))) as barred,
       coalesce(team.id, '') as team, coalesce(team.name, '') as team_name, coalesce(o.id, '') as organization, coalesce(o.name, '') as organization_name
  from tokens t
  left join organizations o on o.id = t.organization_id and o.deleted_at is null and o.disabled_at is null
  left join teams team on team.id = t.team_id
  left join users u on u.id = coalesce(t.user_id, team.service_user_id)
  {ActorRights}
 where t.hash = @hash and {TokenCounts} and (t.organization_id is null or o.id is not null) and {UserCounts};

-- name: UserActor
-- A user, or the account of a team, with its rights as they are now, whoever asks.
select {ActorColumns}, '' as token, '' as token_kind, '{}'::text[] as barred,
       coalesce(team.id, '') as team, coalesce(team.name, '') as team_name, '' as organization, '' as organization_name
  from users u
  left join teams team on team.service_user_id = u.id
  {ActorRights}
 where u.id = @user_id;

-- fragment: TokenColumns
t.id, t.kind, coalesce(t.user_id, '') as "user", coalesce(t.organization_id, '') as organization, coalesce(t.team_id, '') as team, t.description,
       coalesce(t.created_by, '') as created_by, t.created_at, t.expires_at

-- name: TokenInsert
-- For one user, team or organization; it ends at the instant that is given, else after the lifetime, else after two years.
insert into tokens as t (id, kind, user_id, organization_id, team_id, hash, description, created_by, expires_at)
values (@id, @kind, nullif(@user_id::text, ''), nullif(@organization_id::text, ''), nullif(@team_id::text, ''), @hash, @description, nullif(@created_by::text, ''),
        coalesce(@expires_at::timestamptz, clock_timestamp() + case when @seconds::float8 = 0 then interval '2 years' else make_interval(secs => @seconds::float8) end))
returning {TokenColumns};

-- name: TokenOwner
select user_id from tokens where id = @id and kind = 'user' and revoked_at is null;

-- name: TokenRevoke
update tokens set revoked_at = clock_timestamp() where id = @id and user_id = @user_id and revoked_at is null;

-- name: UserTokens
select {TokenColumns}
  from tokens t
 where t.user_id = @user_id and {TokenCounts}
 order by t.created_at desc, t.id;

-- name: SessionInsert
-- Only while the password is the one that was checked; the lock makes a change of it wait.
insert into sessions (hash, user_id)
select @hash, id from users u where id = @user_id and password_hash = @password_hash and {UserCounts} for share;

-- name: SessionActor
-- The user behind a session that counts. Its idle time and its whole life are bounded.
select {ActorColumns}, '' as token, 'user' as token_kind, '{}'::text[] as barred, '' as team, '' as team_name, '' as organization, '' as organization_name
  from sessions s
  join users u on u.id = s.user_id and {UserCounts}
  {ActorRights}
 where s.hash = @hash and {SessionCounts};

-- name: SessionSeen
-- Written at most once a minute: a page view is no reason for a write.
update sessions set seen_at = clock_timestamp() where hash = @hash and ended_at is null and seen_at < clock_timestamp() - interval '1 minute';

-- name: SessionEnd
update sessions set ended_at = clock_timestamp() where hash = @hash and user_id = @user_id and ended_at is null;

-- name: SessionsEnd
update sessions set ended_at = clock_timestamp() where user_id = @user_id and ended_at is null;

-- name: SessionsPrune
-- The codes of a session go with it. By then none of them has counted for a week.
delete from sessions where created_at < clock_timestamp() - interval '14 days';

-- name: LoginCodeInsert
-- Only a session that counts gives codes.
insert into login_codes (hash, session, client, redirect_uri, challenge, description)
select @hash, s.hash, @client, @redirect_uri, @challenge, @description
  from sessions s
 where s.hash = @session and {SessionCounts};

-- name: LoginCodeSpend
update login_codes set used_at = clock_timestamp() where hash = @hash and used_at is null
returning client, redirect_uri, challenge, description, created_at > clock_timestamp() - interval '60 seconds' as fresh,
          coalesce((select s.user_id from sessions s where s.hash = login_codes.session and {SessionCounts}), '') as user_id;

-- name: LoginCodeTokenSet
update login_codes set token_id = @token_id where hash = @hash and used_at is not null and token_id is null;

-- name: LoginCodeToken
-- The token that a spent code gave, if it still counts.
select t.id, t.user_id
  from login_codes c
  join tokens t on t.id = c.token_id
 where c.hash = @hash and t.revoked_at is null;

-- name: SignInCount
-- Counts one more attempt; a window that is over starts anew. Gives how many there are in it now, and how long it still lasts.
insert into sign_in_attempts as a (subject, attempts) values (@subject, 1)
on conflict (subject) do update
   set attempts = case when a.since > clock_timestamp() - interval '15 minutes' then a.attempts + 1 else 1 end,
       since    = case when a.since > clock_timestamp() - interval '15 minutes' then a.since else clock_timestamp() end
returning attempts, extract(epoch from a.since + interval '15 minutes' - clock_timestamp())::float8 as seconds;

-- name: SignInForgive
-- A right password takes its own attempt back.
update sign_in_attempts set attempts = attempts - 1 where subject = @subject and attempts > 0;

-- name: SignInClear
delete from sign_in_attempts where subject = @subject;

-- name: SignInPrune
-- A few windows that are over: more than one attempt can add, so the table shrinks to those that count.
delete from sign_in_attempts
 where subject in (select subject from sign_in_attempts where since < clock_timestamp() - interval '15 minutes'
                    order by since limit 20 for update skip locked);

-- fragment: RunnerIsThere
-- Heard of within two of the longest polls, or at work.
(r.last_seen_at > clock_timestamp() - interval '2 minutes' or exists (select from attempts a where a.runner_id = r.id and a.status in ('assigned', 'running')))

-- fragment: PoolAllows
(g.organization_scoped
 or exists (select from runner_group_workspaces a where a.group_id = g.id and a.workspace_id = w.id and a.allowed)
 or exists (select from runner_group_projects a where a.group_id = g.id and a.project_id = w.project_id))
and not exists (select from runner_group_workspaces a where a.group_id = g.id and a.workspace_id = w.id and not a.allowed)

-- fragment: RunnerGroupColumns
g.id, coalesce(g.organization_id, '') as organization, g.name, g.organization_scoped, g.takes_remote, g.launcher, g.labels,
       g.draining_since is not null as draining, g.created_at

-- fragment: LivingRunnerGroups
runner_groups g left join organizations o on o.id = g.organization_id
 where g.deleted_at is null and (g.organization_id is null or o.deleted_at is null)

-- name: RunnerGroupByHash
select {RunnerGroupColumns}, t.id as token
  from runner_tokens t, {LivingRunnerGroups} and g.id = t.group_id and t.hash = @hash and t.revoked_at is null;

-- name: RunnerGroupInsert
insert into runner_groups (id, organization_id, name, organization_scoped, takes_remote, launcher, labels)
values (@id, nullif(@organization_id::text, ''), @name, coalesce(@organization_scoped::boolean, true), coalesce(@takes_remote::boolean, false),
        coalesce(@launcher::text, 'local'), coalesce(@labels::text[], '{}'));

-- name: RunnerGroupUpdate
-- Only what is given changes.
update runner_groups
   set name = coalesce(@name::text, name),
       organization_scoped = coalesce(@organization_scoped::boolean, organization_scoped),
       takes_remote = coalesce(@takes_remote::boolean, takes_remote),
       launcher = coalesce(@launcher::text, launcher),
       labels = coalesce(@labels::text[], labels)
 where id = @id and deleted_at is null;

-- name: RunnerGroupDrain
update runner_groups
   set draining_since = case when @draining::boolean then coalesce(draining_since, clock_timestamp()) end
 where id = @id and deleted_at is null;

-- name: RunnerGroupDelete
-- Its tokens count no more with it.
update runner_groups set deleted_at = clock_timestamp(), token_hash = null where id = @id and deleted_at is null;

-- name: RunnerGroupUsers
-- The workspaces whose runs would wait for it for ever.
select id from workspaces where agent_pool_id = @id and execution_mode = 'agent' and deleted_at is null order by id;

-- name: RunnerGroupDefaultOf
-- The organizations and projects whose workspaces go on it when nothing else is said.
select o.name from organizations o where o.default_agent_pool_id = @id and o.deleted_at is null
union all
select p.name from projects p where p.default_agent_pool_id = @id and p.deleted_at is null
order by 1;

-- name: PoolHold
select id from runner_groups where id = @id and organization_id = @organization_id and deleted_at is null for share;

-- name: PoolLeavesOut
-- Workspaces on a pool that may not use it.
select w.name from workspaces w join runner_groups g on g.id = w.agent_pool_id
 where g.id = @id and w.execution_mode = 'agent' and w.deleted_at is null and not ({PoolAllows})
 order by w.name limit 1;

-- name: RunnerGroupWorkspacesClear
delete from runner_group_workspaces where group_id = @id and allowed = @allowed;

-- name: RunnerGroupWorkspacesSet
-- A workspace that does not live, or is another organization's, is left out, and the count shows it.
insert into runner_group_workspaces (group_id, organization_id, workspace_id, allowed)
select @id, w.organization_id, w.id, @allowed
  from workspaces w where w.id = any (@ids::text[]) and w.organization_id = @organization_id and w.deleted_at is null;

-- name: RunnerGroupProjectsClear
delete from runner_group_projects where group_id = @id;

-- name: RunnerGroupProjectsSet
insert into runner_group_projects (group_id, organization_id, project_id)
select @id, p.organization_id, p.id from projects p where p.id = any (@ids::text[]) and p.organization_id = @organization_id;

-- fragment: PoolColumns
{RunnerGroupColumns}, '' as token, coalesce(o.name, '') as organization_name,
       (select count(*) from runners r where r.group_id = g.id and {RunnerIsThere}) as agent_count,
       array(select w.id from workspaces w where w.agent_pool_id = g.id and w.execution_mode = 'agent' and w.deleted_at is null order by w.id) as workspaces,
       array(select a.workspace_id from runner_group_workspaces a join workspaces w on w.id = a.workspace_id and w.deleted_at is null
              where a.group_id = g.id and a.allowed order by a.workspace_id) as allowed_workspaces,
       array(select a.workspace_id from runner_group_workspaces a join workspaces w on w.id = a.workspace_id and w.deleted_at is null
              where a.group_id = g.id and not a.allowed order by a.workspace_id) as excluded_workspaces,
       array(select a.project_id from runner_group_projects a where a.group_id = g.id order by a.project_id) as allowed_projects

-- name: PoolByID
select {PoolColumns} from {LivingRunnerGroups} and g.id = @id;

-- fragment: SelectedPools
{LivingRunnerGroups} and g.organization_id = @organization_id
   and position(lower(@search::text) in lower(g.name)) > 0
   and (@workspace::text = '' or exists (select from workspaces w where w.organization_id = g.organization_id and w.name = @workspace and w.deleted_at is null and {PoolAllows}))
   and (@project::text = '' or g.organization_scoped
        or exists (select from runner_group_projects a join projects p on p.id = a.project_id where a.group_id = g.id and p.name = @project))

-- name: Pools
select {PoolColumns} from {SelectedPools}
 order by case @sort::text when 'name' then g.name end collate "C", case @sort when '-name' then g.name end collate "C" desc,
          case @sort when '-created-at' then g.created_at end desc, g.created_at, g.id
 limit @limit offset @offset;

-- name: PoolsCount
select count(*) from {SelectedPools};

-- name: PoolAllows
-- Whether a workspace may use a pool of its organization; the lock keeps the pool from being deleted meanwhile.
select {PoolAllows}
  from workspaces w, {LivingRunnerGroups} and g.organization_id = w.organization_id and g.id = @id and w.id = @workspace_id for share of g;

-- name: AgentTokenInsert
insert into runner_tokens (id, group_id, hash, description, created_by) values (@id, @group_id, @hash, @description, nullif(@created_by::text, ''));

-- fragment: AgentTokens
select t.id, t.group_id as "group", coalesce(g.organization_id, '') as organization, t.description, coalesce(t.created_by, '') as created_by, t.created_at, t.last_used_at
  from runner_tokens t, {LivingRunnerGroups} and g.id = t.group_id and t.revoked_at is null

-- name: AgentTokenByID
{AgentTokens} and t.id = @id;

-- name: AgentTokensOf
{AgentTokens} and g.id = @group_id
 order by t.created_at, t.id limit @limit offset @offset;

-- name: AgentTokensCount
select count(*) from runner_tokens where group_id = @group_id and revoked_at is null;

-- name: AgentTokenRevoke
update runner_tokens set revoked_at = clock_timestamp() where id = @id and revoked_at is null returning hash;

-- name: AgentTokenForget
-- The server of before looks here.
update runner_groups set token_hash = null where token_hash = @hash;

-- fragment: UserColumns
id, case when invited then '' else username end as username, email, site_admin or provisioned_admin as site_admin, service_account, invited, created_at

-- name: UserClaim
-- Who was only an address so far becomes the user with that address.
update users set username = @username, email = @email, site_admin = @site_admin, invited = false
 where id = (select u.id from users u where u.invited and lower(u.email) = lower(@email) order by u.created_at limit 1 for update)
returning {UserColumns};

-- name: MembershipsAccept
update memberships set status = 'active' where user_id = @user_id and status = 'invited';

-- name: UserUpdate
update users set username = coalesce(@username::text, username), email = coalesce(@email::text, email) where id = @id
returning {UserColumns};

-- name: UserInsert
insert into users (id, username, email, site_admin)
values (@id, @username, @email, @site_admin)
returning {UserColumns};

-- name: UserByID
select {UserColumns} from users where id = @id;

-- name: UserByName
select {UserColumns} from users where username = @username and not invited and deleted_at is null;

-- name: UsersByID
select {UserColumns} from users where id = any(@ids::text[]);

-- name: UserBelongs
select exists (select from memberships where user_id = @user_id and organization_id = any(@organizations::text[]));

-- name: UserPassword
select {UserColumns}, coalesce(password_hash, '') as password_hash from users u where username = @username and {UserCounts} and deleted_at is null;

-- name: UserPasswordSet
update users set password_hash = @password_hash where id = @id and username = @username;

-- name: MemberSet
insert into memberships (organization_id, user_id, role)
values (@organization_id, @user_id, @role)
on conflict (organization_id, user_id) do update set role = excluded.role, status = 'active';

-- fragment: OrganizationColumns
organizations.id, organizations.name, organizations.email, organizations.created_at,
       coalesce((select p.id from projects p where p.organization_id = organizations.id and p.is_default), '') as default_project,
       organizations.default_execution_mode, coalesce(organizations.default_agent_pool_id, '') as default_agent_pool,
       organizations.session_timeout, organizations.session_remember, organizations.force_delete_allowed, organizations.user_tokens_enabled,
       organizations.aggregated_commit_status, organizations.passing_commit_statuses, organizations.speculative_plan_management,
       feature_set_now(organizations.feature_set, organizations.feature_set_ends_at) as feature_set, organizations.feature_set_ends_at,
       coalesce(organizations.feature_set_ends_at <= clock_timestamp(), false) as feature_set_ended,
       has_global_run_tasks(organizations.feature_set, organizations.feature_set_ends_at) as global_run_tasks,
       coalesce((select d.id from data_retention_policies d where d.organization_id = organizations.id and d.workspace_id is null), '') as retention_id,
       (select d.days from data_retention_policies d where d.organization_id = organizations.id and d.workspace_id is null) as retention_days

-- name: OrganizationInsert
insert into organizations (id, name, email, default_execution_mode, default_agent_pool_id, session_timeout, session_remember, force_delete_allowed, user_tokens_enabled,
                           aggregated_commit_status, passing_commit_statuses, speculative_plan_management)
values (@id, @name::text, @email::text, @default_execution_mode, @default_agent_pool_id, nullif(@session_timeout::integer, 0), nullif(@session_remember::integer, 0),
        coalesce(@force_delete_allowed::boolean, true), coalesce(@user_tokens_enabled::boolean, true),
        coalesce(@aggregated_commit_status::boolean, false), coalesce(@passing_commit_statuses::boolean, false), coalesce(@speculative_plan_management::boolean, false))
returning {OrganizationColumns};

-- name: OrganizationUpdate
update organizations
   set name = coalesce(@name::text, name), email = coalesce(@email::text, email),
       default_execution_mode = @default_execution_mode, default_agent_pool_id = @default_agent_pool_id,
       session_timeout = nullif(coalesce(@session_timeout::integer, session_timeout), 0),
       session_remember = nullif(coalesce(@session_remember::integer, session_remember), 0),
       force_delete_allowed = coalesce(@force_delete_allowed::boolean, force_delete_allowed),
       user_tokens_enabled = coalesce(@user_tokens_enabled::boolean, user_tokens_enabled),
       aggregated_commit_status = coalesce(@aggregated_commit_status::boolean, aggregated_commit_status),
       passing_commit_statuses = coalesce(@passing_commit_statuses::boolean, passing_commit_statuses),
       speculative_plan_management = coalesce(@speculative_plan_management::boolean, speculative_plan_management)
 where id = @id and deleted_at is null
returning {OrganizationColumns};

-- name: OrganizationTombstone
update organizations set deleted_at = clock_timestamp() where id = @id and deleted_at is null;

-- name: OrganizationUndelete
update organizations set deleted_at = null
 where id = (select o.id from organizations o where o.name = @name and o.deleted_at is not null order by o.deleted_at desc limit 1) and deleted_at is not null
returning id;

-- name: OrganizationByName
select {OrganizationColumns} from organizations where name = @name and deleted_at is null;

-- name: OrganizationByID
select {OrganizationColumns} from organizations where id = @id and deleted_at is null;

-- name: OrganizationLock
-- Against others who change it; rows may refer to it meanwhile.
select id from organizations where id = @id for no key update;

-- fragment: SelectedOrganizations
from organizations
 where deleted_at is null and (@all::boolean or id = any(@visible::text[])) and not id = any(@barred::text[])
   and (position(lower(@search::text) in lower(name)) > 0 or position(lower(@search::text) in lower(email)) > 0)
   and position(lower(@name::text) in lower(name)) > 0 and position(lower(@email::text) in lower(email)) > 0

-- name: Organizations
select {OrganizationColumns} {SelectedOrganizations}
 order by name collate "C"
 limit @limit offset @offset;

-- name: OrganizationsCount
select count(*) {SelectedOrganizations};

-- fragment: SteppedUp
coalesce((select t.step_up_at from tokens t where t.id = @token and t.user_id = u.id and {TokenCounts}),
                (select s.step_up_at from sessions s where s.hash = @session and s.user_id = u.id and {SessionCounts}))

-- fragment: StepUpColumns
f.confirmed_at is not null as enrolled, {SteppedUp} as step_up_at,
       coalesce({SteppedUp} >= clock_timestamp() - make_interval(secs => @window::float8), false) as fresh,
       case when f.after_reset and u.totp_reset_confirmed_at is null and f.confirmed_at > clock_timestamp() - interval '24 hours'
            then f.confirmed_at + interval '24 hours' end as held_until

-- name: StepUpRequired
-- The lock makes a reset of the factor wait until what depends on it is done.
select {StepUpColumns}
  from users u left join totp_factors f on f.user_id = u.id
 where u.id = @user_id for share of u;

-- name: FactorState
select {StepUpColumns}, f.confirmed_at as enrolled_at, (select count(*) from recovery_codes c where c.user_id = u.id and c.used_at is null) as recovery_codes
  from users u left join totp_factors f on f.user_id = u.id
 where u.id = @user_id;

-- name: TokenStepUp
update tokens t set step_up_at = clock_timestamp(), step_up_method = @method
 where t.id = @token and t.user_id = @user_id and {TokenCounts}
returning t.step_up_at;

-- name: SessionStepUp
update sessions s set step_up_at = clock_timestamp(), step_up_method = @method
 where s.hash = @session and s.user_id = @user_id and {SessionCounts}
returning s.step_up_at;

-- name: TokenStepUpsClear
update tokens set step_up_at = null, step_up_method = null where user_id = @user_id and step_up_at is not null;

-- name: SessionStepUpsClear
update sessions set step_up_at = null, step_up_method = null where user_id = @user_id and step_up_at is not null;

-- name: UserLock
-- All that changes a user's factor takes this first, so that it happens one after the other.
select id from users where id = @user_id for update;

-- name: PasswordHash
select coalesce(password_hash, '') from users where id = @user_id;

-- name: Factor
-- With the time step of a code of now.
select f.root_version, f.secret_sealed, f.last_step, f.confirmed_at is not null as confirmed,
       f.created_at < clock_timestamp() - interval '15 minutes' as abandoned, floor(extract(epoch from clock_timestamp()) / 30)::bigint as step
  from totp_factors f
 where f.user_id = @user_id for update;

-- name: FactorBegin
-- Again replaces what was begun, never what is confirmed.
insert into totp_factors as f (user_id, root_version, secret_sealed) values (@user_id, @root_version, @secret_sealed)
on conflict (user_id) do update
   set root_version = excluded.root_version, secret_sealed = excluded.secret_sealed, created_at = clock_timestamp()
 where f.confirmed_at is null;

-- name: FactorConfirm
update totp_factors f
   set confirmed_at = clock_timestamp(), last_step = @step,
       after_reset = (select u.totp_reset_at is not null from users u where u.id = f.user_id)
 where f.user_id = @user_id and f.confirmed_at is null;

-- name: FactorUse
update totp_factors set last_step = @step where user_id = @user_id and confirmed_at is not null and last_step < @step;

-- name: FactorDelete
-- Its recovery codes go with it.
delete from totp_factors where user_id = @user_id and confirmed_at is not null;

-- name: RecoveryCodesClear
delete from recovery_codes where user_id = @user_id;

-- name: RecoveryCodesInsert
insert into recovery_codes (user_id, hash) select @user_id, unnest(@hashes::bytea[]);

-- name: RecoveryCodeUse
update recovery_codes set used_at = clock_timestamp() where user_id = @user_id and hash = @hash and used_at is null;

-- name: FactorWasReset
update users
   set totp_reset_at = clock_timestamp(), totp_reset_by = @by, totp_reset_confirmed_at = null, totp_reset_confirmed_by = null
 where id = @user_id;

-- name: FactorResetForget
-- Its user took away by itself, stepped up, the factor that came after the reset.
update users
   set totp_reset_at = null, totp_reset_by = null, totp_reset_confirmed_at = null, totp_reset_confirmed_by = null
 where id = @user_id and totp_reset_at is not null;

-- name: FactorResetConfirm
update users
   set totp_reset_confirmed_at = clock_timestamp(), totp_reset_confirmed_by = @by
 where id = @user_id and totp_reset_at is not null and totp_reset_confirmed_at is null and totp_reset_by <> @by;

-- name: FactorResetIsOwn
select coalesce(totp_reset_by = @by and totp_reset_confirmed_at is null, false) from users where id = @user_id;
