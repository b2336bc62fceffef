-- The statements about what an identity provider says: who there is, and who belongs where.

-- name: ProvisionCandidates
-- Who has the address already. Who was made by an invitation comes last.
select id, invited, site_admin from users
 where lower(email) = lower(@email) and @email <> '' and not service_account and deleted_at is null
 order by invited, created_at, id limit 2 for update;

-- name: UsernameFree
-- The first of the names that nobody has.
select n.name from unnest(@names::text[]) with ordinality as n (name, place)
 where not exists (select from users u where u.username = n.name)
 order by n.place limit 1;

-- name: UserAdopt
-- Who was only an address so far gets a name with it.
update users set username = case when invited then @username else username end, invited = false where id = @id
returning {UserColumns};

-- name: UserDeactivate
update users set deactivated_at = clock_timestamp() where id = @id and deactivated_at is null;

-- name: UserReactivate
update users set deactivated_at = null where id = @id and deactivated_at is not null;

-- name: UserTokensEnd
update tokens set revoked_at = clock_timestamp() where user_id = @user_id and revoked_at is null;

-- name: OwnersLockOf
-- As OwnersLock, for all organizations that the user owns.
select t.id from teams t join memberships m on m.organization_id = t.organization_id and m.user_id = @user_id and m.role = 'owner'
 where t.is_owners order by t.id for update of t;

-- name: MembershipsDeleteOf
-- All but where nobody else could act as owner.
delete from memberships m
 where m.user_id = @user_id
   and (m.role <> 'owner' or exists (
        select from memberships x join users u on u.id = x.user_id and {UserCounts}
         where x.organization_id = m.organization_id and x.user_id <> m.user_id and x.role = 'owner' and x.status = 'active'));

-- name: MembersProvision
-- Who belongs to the organization already stays what it is.
insert into memberships (organization_id, user_id, role, status, provisioned)
select @organization_id, u.id, 'member', 'active', true from users u where u.id = any(@users::text[])
on conflict (organization_id, user_id) do update set status = 'active' where memberships.status = 'invited';

-- name: TeamMembersFollow
insert into team_memberships (organization_id, team_id, user_id)
select @organization_id, @team_id, u.id from users u where u.id = any(@users::text[])
on conflict (team_id, user_id) do nothing
returning user_id;

-- name: TeamMembersElse
delete from team_memberships where team_id = @team_id and not user_id = any(@users::text[])
returning user_id;

-- name: MembersUnprovision
-- Who came for a team that follows a group leaves with the last team.
delete from memberships m
 where m.organization_id = @organization_id and m.user_id = any(@users::text[]) and m.provisioned and m.role = 'member'
   and not exists (select from team_memberships tm where tm.organization_id = m.organization_id and tm.user_id = m.user_id)
returning m.user_id;

-- name: TeamsProvisioned
update teams set provisioned = not provisioned where provisioned <> (id = any(@teams::text[]));

-- name: AdminsProvisioned
update users set provisioned_admin = not provisioned_admin where provisioned_admin <> (id = any(@users::text[]))
returning id, provisioned_admin as given;

-- name: InProvisionedTeam
select exists (select from team_memberships tm join teams t on t.id = tm.team_id
                where tm.organization_id = @organization_id and tm.user_id = @user_id and t.provisioned);

-- fragment: SCIMTokenColumns
t.id, t.description, coalesce(t.created_by, '') as created_by, t.created_at, t.expires_at, t.last_used_at

-- fragment: SCIMTokenCounts
t.revoked_at is null and t.expires_at > clock_timestamp()

-- name: SCIMTokenInsert
insert into scim_tokens as t (id, hash, description, created_by, expires_at)
values (@id, @hash, @description, nullif(@created_by::text, ''), coalesce(@expires_at::timestamptz, clock_timestamp() + interval '365 days'))
returning {SCIMTokenColumns}, t.expires_at > clock_timestamp() + interval '29 days' and t.expires_at <= clock_timestamp() + interval '365 days 1 minute' as fits;

-- name: SCIMTokens
select {SCIMTokenColumns} from scim_tokens t where {SCIMTokenCounts} order by t.created_at desc, t.id;

-- name: SCIMTokenByID
select {SCIMTokenColumns} from scim_tokens t where t.id = @id and {SCIMTokenCounts};

-- name: SCIMTokenByHash
select {SCIMTokenColumns} from scim_tokens t where t.hash = @hash and {SCIMTokenCounts};

-- name: SCIMTokenUsed
-- Written at most once a minute.
update scim_tokens set last_used_at = clock_timestamp()
 where id = @id and (last_used_at is null or last_used_at < clock_timestamp() - interval '1 minute');

-- name: SCIMTokenEnd
update scim_tokens set revoked_at = clock_timestamp() where id = @id and revoked_at is null;

-- name: SCIMTokensEnd
update scim_tokens set revoked_at = clock_timestamp() where revoked_at is null;
