-- The statements about teams, who belongs to them and what they may do.

-- fragment: TeamColumns
t.id, t.organization_id as organization, o.name as organization_name, t.name, t.is_owners, t.provisioned, t.visibility, t.allow_member_token_management, t.sso_team_id,
       t.organization_access as access, coalesce(t.service_user_id, '') as service_user,
       case when t.is_owners
            then array(select m.user_id from memberships m where m.organization_id = t.organization_id and m.role = 'owner' and m.status = 'active' order by m.user_id)
            else array(select tm.user_id from team_memberships tm join memberships m on m.organization_id = tm.organization_id and m.user_id = tm.user_id and m.status = 'active'
                        where tm.team_id = t.id order by tm.user_id) end as users,
       case when t.is_owners
            then array(select m.id from memberships m where m.organization_id = t.organization_id and m.role = 'owner' order by m.user_id)
            else array(select m.id from team_memberships tm join memberships m on m.organization_id = tm.organization_id and m.user_id = tm.user_id
                        where tm.team_id = t.id order by tm.user_id) end as memberships

-- fragment: LivingTeams
teams t join organizations o on o.id = t.organization_id and o.deleted_at is null

-- fragment: TeamSelection
from {LivingTeams}
 where t.organization_id = @organization_id
   and (@secret::boolean or t.visibility = 'organization' or t.id = any(@own::text[]))
   and (cardinality(@names::text[]) = 0 or t.name = any(@names::text[]))
   and position(lower(@query::text) in lower(t.name)) > 0

-- name: TeamByID
select {TeamColumns} from {LivingTeams} where t.id = @id;

-- name: TeamsByID
select {TeamColumns} from {LivingTeams} where t.id = any(@ids::text[]) order by t.id;

-- name: TeamLock
select t.id from teams t where t.id = @id for update;

-- name: Teams
select {TeamColumns} {TeamSelection}
 order by t.name collate "C", t.id
 limit @limit offset @offset;

-- name: TeamsCount
select count(*) {TeamSelection};

-- name: TeamInsert
insert into teams (id, organization_id, name, visibility, allow_member_token_management, sso_team_id, organization_access)
values (@id, @organization_id, @name, coalesce(@visibility::text, 'secret'), coalesce(@allow_member_token_management::boolean, true), nullif(@sso_team_id::text, ''), @access);

-- name: TeamUpdate
-- Only what is given changes.
update teams
   set name = coalesce(@name::text, name),
       visibility = coalesce(@visibility::text, visibility),
       allow_member_token_management = coalesce(@allow_member_token_management::boolean, allow_member_token_management),
       sso_team_id = case when @sso_team_id::text is null then sso_team_id else nullif(@sso_team_id::text, '') end,
       organization_access = @access
 where id = @id;

-- name: TeamReviews
-- The places whose approval rule names a team. What is deleted asks for no approval.
select coalesce(w.project_id, a.project_id, '') as project_id, coalesce(a.workspace_id, '') as workspace_id, coalesce(w.name, p.name, o.name) as name
  from approval_rules a join organizations o on o.id = a.organization_id left join projects p on p.id = a.project_id left join workspaces w on w.id = a.workspace_id
 where a.organization_id = @organization_id and @id = any (a.reviewer_teams) and w.deleted_at is null
 order by a.workspace_id is not null, a.project_id is not null, name;

-- name: TeamDelete
-- Its members, what it may do and its tokens go with it. The owners team stays.
delete from teams where id = @id and not is_owners;

-- name: TeamMembersAdd
-- Who does not belong to the organization is left out, and the count shows it.
insert into team_memberships (organization_id, team_id, user_id)
select m.organization_id, @team_id, m.user_id
  from memberships m join users u on u.id = m.user_id
 where m.organization_id = @organization_id and not u.service_account and m.user_id = any(@users::text[])
on conflict (team_id, user_id) do nothing;

-- name: TeamMembersRemove
delete from team_memberships where team_id = @team_id and user_id = any(@users::text[]);

-- name: UsersByName
-- Members of the organization, by what they are called there.
select u.id from users u join memberships m on m.user_id = u.id and m.organization_id = @organization_id where u.username = any(@names::text[]) and not u.invited and not u.service_account;

-- name: UsersByMembership
select m.user_id from memberships m where m.organization_id = @organization_id and m.id = any(@ids::text[]);

-- name: OwnersSet
update memberships set role = @role where organization_id = @organization_id and user_id = any(@users::text[]) and status = 'active';

-- name: OwnersLock
-- Taken by whatever takes an owner away, so that the last one stays.
select id from teams where organization_id = @organization_id and is_owners for update;

-- name: OwnersCount
select count(*) from memberships m join users u on u.id = m.user_id and {UserCounts}
 where m.organization_id = @organization_id and m.role = 'owner' and m.status = 'active';

-- name: TeamServiceUser
-- The account in whose name the team's tokens work, made with the first of them.
with made as (
    insert into users (id, username, service_account)
    select @user_id, @username, true where not exists (select from teams where id = @id and service_user_id is not null)
    returning id
)
update teams set service_user_id = coalesce(service_user_id, (select id from made)) where id = @id;

-- name: TeamTokenReplace
-- The one token without a description gives way to the next.
update tokens set revoked_at = clock_timestamp() where team_id = @team_id and description = '' and revoked_at is null;

-- name: TeamTokenPlain
select {TokenColumns} from tokens t where t.team_id = @team_id and t.description = '' and {TokenCounts};

-- name: TeamTokensOf
select {TokenColumns} from tokens t where t.team_id = @team_id and {TokenCounts}
 order by t.created_at desc, t.id limit @limit offset @offset;

-- name: TeamTokensOfCount
select count(*) from tokens t where t.team_id = @team_id and {TokenCounts};

-- fragment: TokenExpiries
array_remove(array[
        case when t.expires_at is null or t.expires_at > clock_timestamp() then 'active' else 'expired' end,
        case when t.expires_at > clock_timestamp() and t.expires_at <= clock_timestamp() + interval '7 days' then 'expiring_in_7_days' end,
        case when t.expires_at > clock_timestamp() and t.expires_at <= clock_timestamp() + interval '30 days' then 'expiring_in_30_days' end,
        case when t.expires_at is null then 'no_expiration' end], null)

-- fragment: OrganizationTeamTokens
from tokens t join teams x on x.id = t.team_id left join users u on u.id = t.created_by
 where t.organization_id = @organization_id and t.kind = 'team'
   and case when cardinality(@expiries::text[]) = 0 then {TokenCounts} else t.revoked_at is null end
   and (@all::boolean or x.id = any(@own::text[]))
   and position(lower(@query::text) in lower(x.name)) > 0
   and (cardinality(@expiries::text[]) = 0 or {TokenExpiries} && @expiries::text[])

-- name: TeamTokens
select {TokenColumns}
  {OrganizationTeamTokens}
 order by case @sort::text when 'team-name' then x.name collate "C" when 'created-by' then u.username collate "C" end,
          case @sort::text when '-team-name' then x.name collate "C" when '-created-by' then u.username collate "C" end desc,
          case when @sort::text = 'expired-at' then t.expires_at end,
          case when @sort::text = '-expired-at' then t.expires_at end desc,
          t.created_at desc, t.id
 limit @limit offset @offset;

-- name: TeamTokensCount
select count(*) {OrganizationTeamTokens};

-- name: TokenByID
select {TokenColumns} from tokens t where t.id = @id and {TokenCounts};

-- name: TokenEnd
update tokens set revoked_at = clock_timestamp() where id = @id and revoked_at is null;

-- name: OrganizationTokenOf
select {TokenColumns} from tokens t where t.organization_id = @organization_id and t.kind = @kind and {TokenCounts};

-- name: OrganizationTokenEnd
-- Also one that has expired, so that another can take its place; none that counted is no row.
update tokens t set revoked_at = clock_timestamp()
 where t.organization_id = @organization_id and t.kind = @kind and t.revoked_at is null
returning t.expires_at is null or t.expires_at > clock_timestamp();

-- fragment: MembershipColumns
m.id, m.organization_id as organization, o.name as organization_name, m.user_id as user, m.role, m.status, u.email, m.created_at,
       exists (select from totp_factors f where f.user_id = u.id and f.confirmed_at is not null) as two_factor,
       array(select t.id from teams t where t.organization_id = m.organization_id and ((t.is_owners and m.role = 'owner')
                or exists (select from team_memberships tm where tm.team_id = t.id and tm.user_id = m.user_id)) order by t.id) as teams

-- fragment: LivingMemberships
memberships m join organizations o on o.id = m.organization_id and o.deleted_at is null join users u on u.id = m.user_id

-- fragment: MembershipSelection
from {LivingMemberships}
 where m.organization_id = @organization_id
   and (cardinality(@emails::text[]) = 0 or lower(u.email) = any(@emails::text[]))
   and (@status::text = '' or m.status = @status)
   and (position(lower(@query::text) in lower(u.email)) > 0 or (not u.invited and position(lower(@query::text) in lower(u.username)) > 0))

-- name: MembershipByID
select {MembershipColumns} from {LivingMemberships} where m.id = @id;

-- name: MembershipsByID
select {MembershipColumns} from {LivingMemberships} where m.id = any(@ids::text[]) order by m.id;

-- name: MembershipOf
select {MembershipColumns} from {LivingMemberships} where m.organization_id = @organization_id and m.user_id = @user_id;

-- name: Memberships
select {MembershipColumns} {MembershipSelection}
 order by m.created_at desc, m.id
 limit @limit offset @offset;

-- name: MembershipsCount
select count(*) {MembershipSelection};

-- name: UsersByEmail
-- Who was made by an invitation comes last.
select {UserColumns} from users where lower(email) = lower(@email) and not service_account and deleted_at is null order by invited, created_at, id limit 2;

-- name: UserInvite
insert into users (id, username, email, invited) values (@id, @username, @email, true) returning {UserColumns};

-- name: MembershipInsert
insert into memberships (id, organization_id, user_id, role, status) values (@id, @organization_id, @user_id, 'member', @status)
on conflict (organization_id, user_id) do nothing;

-- name: MembershipDelete
delete from memberships where id = @id;

-- name: UninvitedDelete
-- An address that nobody keeps a place for is forgotten.
delete from users u where u.id = @user_id and u.invited and not exists (select from memberships m where m.user_id = u.id);
