-- The statements of package accounts. Deadlines are compared with clock_timestamp().

-- name: TokenActor
-- The user behind a token that counts, with its roles in organizations that exist.
select u.id as user_id, u.username, u.site_admin,
       coalesce(array_agg(m.organization_id order by m.organization_id) filter (where m.organization_id is not null), '{}') as organizations,
       coalesce(array_agg(m.role order by m.organization_id) filter (where m.organization_id is not null), '{}') as roles
  from tokens t
  join users u on u.id = t.user_id
  left join (memberships m join organizations o on o.id = m.organization_id and o.deleted_at is null) on m.user_id = u.id
 where t.hash = @hash and t.revoked_at is null and (t.expires_at is null or t.expires_at > clock_timestamp())
 group by u.id;

-- name: TokenInsert
insert into tokens (id, user_id, hash, description, expires_at)
values (@id, @user_id, @hash, @description,
        clock_timestamp() + case when @seconds::float8 = 0 then interval '2 years' else make_interval(secs => @seconds::float8) end)
returning id, user_id, description, created_at, expires_at;

-- name: TokenOwner
select user_id from tokens where id = @id and revoked_at is null;

-- name: TokenRevoke
update tokens set revoked_at = clock_timestamp() where id = @id and user_id = @user_id and revoked_at is null;

-- name: RunnerGroupByHash
select g.id, coalesce(g.organization_id, '') as organization, g.name
  from runner_groups g
  left join organizations o on o.id = g.organization_id
 where g.token_hash = @hash and (g.organization_id is null or o.deleted_at is null);

-- name: RunnerGroupInsert
insert into runner_groups (id, organization_id, name, token_hash)
values (@id, nullif(@organization_id::text, ''), @name, @hash);

-- name: UserInsert
insert into users (id, username, email, site_admin)
values (@id, @username, @email, @site_admin)
returning id, username, email, site_admin, created_at;

-- name: UserByID
select id, username, email, site_admin, created_at from users where id = @id;

-- name: UserByName
select id, username, email, site_admin, created_at from users where username = @username;

-- name: UsersByID
select id, username, email, site_admin, created_at from users where id = any(@ids::text[]);

-- name: UserBelongs
select exists (select from memberships where user_id = @user_id and organization_id = any(@organizations::text[]));

-- name: UserPasswordSet
update users set password_hash = @password_hash where id = @id and username = @username;

-- name: MemberSet
insert into memberships (organization_id, user_id, role)
values (@organization_id, @user_id, @role)
on conflict (organization_id, user_id) do update set role = excluded.role;

-- name: OrganizationInsert
insert into organizations (id, name, email)
values (@id, @name, @email)
returning id, name, email, created_at;

-- name: OrganizationByName
select id, name, email, created_at from organizations where name = @name and deleted_at is null;

-- name: OrganizationByID
select id, name, email, created_at from organizations where id = @id and deleted_at is null;

-- name: Organizations
select id, name, email, created_at
  from organizations
 where deleted_at is null and (@all::boolean or id = any(@visible::text[]))
 order by name collate "C"
 limit @limit offset @offset;

-- name: OrganizationsCount
select count(*) from organizations where deleted_at is null and (@all::boolean or id = any(@visible::text[]));
