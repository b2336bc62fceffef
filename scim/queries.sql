-- The statements of package scim.

-- name: Settings
select s.enabled, s.paused, coalesce(s.site_admin_group, '') as site_admin_group, coalesce(g.display_name, '') as site_admin_group_name,
       s.site_admin_confirmed_at is not null as confirmed
  from scim_settings s left join scim_groups g on g.id = s.site_admin_group;

-- name: SettingsLock
-- Taken by everything that changes any of this, so that it happens one after the other.
select one from scim_settings for update;

-- name: SettingsSet
update scim_settings
   set enabled = @enabled, paused = @paused, site_admin_group = nullif(@site_admin_group::text, ''),
       site_admin_confirmed_at = case when @confirmed::boolean then coalesce(site_admin_confirmed_at, clock_timestamp()) end;

-- name: Admins
select m.user_id from scim_settings s join scim_group_members m on m.group_id = s.site_admin_group
 where s.enabled and s.site_admin_confirmed_at is not null order by m.user_id;

-- fragment: Following
-- Links that act: their teams have the members of the group.
scim_mappings l join scim_settings s on s.enabled and not s.paused and not l.paused

-- name: FollowingTeams
select l.team_id from {Following} order by l.team_id;

-- name: FollowingTeam
select l.team_id from {Following} where l.team_id = @team_id;

-- name: FollowingTeamsOfGroup
select l.team_id from {Following} where l.group_id = @group_id order by l.team_id;

-- name: FollowingTeamsOfPerson
select l.team_id from {Following} where l.group_id in (select m.group_id from scim_group_members m where m.user_id = @user_id) order by l.team_id;

-- name: TeamsKept
-- Teams whose members are changed by the identity provider alone.
select l.team_id from {Following} join saml_settings y on y.team_management order by l.team_id;

-- name: TeamsOfGroup
select team_id from scim_mappings where group_id = @group_id order by team_id;

-- name: MembersForTeam
select m.user_id from scim_mappings l join scim_group_members m on m.group_id = l.group_id where l.team_id = @team_id order by m.user_id;

-- name: Links
select l.team_id as team, l.group_id as "group", g.display_name as group_name, l.paused, greatest(l.updated_at, g.updated_at) as updated_at
  from scim_mappings l join scim_groups g on g.id = l.group_id
 where l.team_id = any(@teams::text[]);

-- name: LinkInsert
insert into scim_mappings (team_id, group_id) values (@team_id, @group_id);

-- name: LinkPause
update scim_mappings set paused = @paused, updated_at = clock_timestamp() where team_id = @team_id and paused <> @paused;

-- name: LinkDelete
delete from scim_mappings where team_id = @team_id;

-- fragment: PersonColumns
p.user_id as id, p.user_name, coalesce(p.external_id, '') as external_id, u.email, p.active, p.attributes, p.created_at, p.updated_at

-- name: PersonNamed
select exists (select from scim_users where lower(user_name) = lower(@user_name));

-- name: PersonInsert
-- An account that is somebody's already is left alone, and the count shows it.
insert into scim_users (user_id, user_name, external_id, active, attributes)
values (@user_id, @user_name, nullif(@external_id::text, ''), @active, @attributes::jsonb)
on conflict (user_id) do nothing;

-- name: PersonUpdate
update scim_users
   set user_name = @user_name, external_id = nullif(@external_id::text, ''), active = @active, attributes = @attributes::jsonb, updated_at = clock_timestamp()
 where user_id = @user_id;

-- name: PersonDelete
delete from scim_users where user_id = @id;

-- name: PersonByID
select {PersonColumns} from scim_users p join users u on u.id = p.user_id where p.user_id = @id;

-- name: EmailUsed
select exists (select from users where lower(email) = lower(@email) and email <> '' and id <> @id and not service_account);

-- fragment: SelectedPeople
scim_users p join users u on u.id = p.user_id
 where (@id::text is null or p.user_id = @id)
   and (@user_name::text is null or lower(p.user_name) = lower(@user_name))
   and (@external_id::text is null or p.external_id = @external_id)
   and (@display_name::text is null or lower(p.attributes ->> 'displayName') = lower(@display_name))
   and (@email::text is null or (lower(u.email) = lower(@email) and u.email <> ''))

-- name: People
select {PersonColumns} from {SelectedPeople}
 order by p.created_at, p.user_id limit @limit offset @offset;

-- name: PeopleCount
select count(*) from {SelectedPeople};

-- name: Standings
select u.id as "user", p.user_id is not null as managed, coalesce(p.user_name, '') as user_name, coalesce(p.updated_at, u.created_at) as updated_at
  from users u join scim_settings s on s.enabled left join scim_users p on p.user_id = u.id
 where u.id = any(@users::text[]);

-- fragment: GroupColumns
g.id, g.display_name, coalesce(g.external_id, '') as external_id, g.created_at, g.updated_at

-- fragment: GroupMembers
array(select m.user_id from scim_group_members m where m.group_id = g.id order by m.user_id) as members,
       array(select p.user_name from scim_group_members m join scim_users p on p.user_id = m.user_id where m.group_id = g.id order by m.user_id) as names

-- name: GroupInsert
insert into scim_groups (id, display_name, external_id) values (@id, @display_name, nullif(@external_id::text, ''));

-- name: GroupUpdate
update scim_groups set display_name = @display_name, external_id = nullif(@external_id::text, ''), updated_at = clock_timestamp() where id = @id;

-- name: GroupDelete
-- Its links go with it.
delete from scim_groups where id = @id;

-- name: GroupsClear
delete from scim_groups;

-- name: GroupByID
select {GroupColumns}, {GroupMembers} from scim_groups g where g.id = @id;

-- fragment: SelectedGroups
scim_groups g
 where (@id::text is null or g.id = @id)
   and (@user_name::text is null)
   and (@external_id::text is null or g.external_id = @external_id)
   and (@display_name::text is null or lower(g.display_name) = lower(@display_name))
   and (@email::text is null)

-- name: Groups
select {GroupColumns},
       array(select m.user_id from scim_group_members m where m.group_id = g.id and @members::boolean order by m.user_id) as members,
       array(select p.user_name from scim_group_members m join scim_users p on p.user_id = m.user_id where m.group_id = g.id and @members::boolean order by m.user_id) as names
  from {SelectedGroups}
 order by g.created_at, g.id limit @limit offset @offset;

-- name: GroupsCount
select count(*) from {SelectedGroups};

-- name: GroupNames
select {GroupColumns}, '{}'::text[] as members, '{}'::text[] as names from scim_groups g
 where position(lower(@part::text) in lower(g.display_name)) > 0
 order by lower(g.display_name) collate "C", g.id limit @limit offset @offset;

-- name: GroupNamesCount
select count(*) from scim_groups g where position(lower(@part::text) in lower(g.display_name)) > 0;

-- name: MembersElse
delete from scim_group_members where group_id = @group_id and not user_id = any(@users::text[]);

-- name: MembersAdd
-- Who is not there is left out, and the count shows it.
insert into scim_group_members (group_id, user_id)
select @group_id, p.user_id from scim_users p where p.user_id = any(@users::text[])
on conflict (group_id, user_id) do nothing;

-- name: MembersCount
select count(*) from scim_group_members where group_id = @group_id and user_id = any(@users::text[]);

-- fragment: SAMLColumns
team_management, provider_type, idp_cert, old_idp_cert, certificate, slo_endpoint_url, sso_endpoint_url, attr_username, attr_groups, attr_site_admin, site_admin_role,
       session_timeout, signature_signing_method, signature_digest_method

-- name: SAML
select {SAMLColumns} from saml_settings;

-- name: SAMLUpdate
update saml_settings
   set team_management = coalesce(@team_management::boolean, team_management),
       provider_type = coalesce(@provider_type::text, provider_type),
       old_idp_cert = case when @idp_cert::text is null or @idp_cert = idp_cert then old_idp_cert else idp_cert end,
       idp_cert = coalesce(@idp_cert::text, idp_cert),
       certificate = coalesce(@certificate::text, certificate),
       slo_endpoint_url = coalesce(@slo_endpoint_url::text, slo_endpoint_url),
       sso_endpoint_url = coalesce(@sso_endpoint_url::text, sso_endpoint_url),
       attr_username = coalesce(@attr_username::text, attr_username),
       attr_groups = coalesce(@attr_groups::text, attr_groups),
       attr_site_admin = coalesce(@attr_site_admin::text, attr_site_admin),
       site_admin_role = coalesce(@site_admin_role::text, site_admin_role),
       session_timeout = coalesce(@session_timeout::integer, session_timeout),
       signature_signing_method = coalesce(@signature_signing_method::text, signature_signing_method),
       signature_digest_method = coalesce(@signature_digest_method::text, signature_digest_method)
returning {SAMLColumns};

-- name: SAMLForgetOld
update saml_settings set old_idp_cert = '' returning {SAMLColumns};
