-- The statements about teams, who belongs to them and what they may do.

-- fragment: TeamColumns
t.id, t.organization_id as organization, o.name as organization_name, t.name, t.is_owners, t.visibility, t.allow_member_token_management, t.sso_team_id,
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
select count(*) from memberships where organization_id = @organization_id and role = 'owner' and status = 'active';

