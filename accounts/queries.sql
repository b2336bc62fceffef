-- The statements of package accounts. Deadlines are compared with clock_timestamp().

-- fragment: ActorColumns
u.id as user_id, u.username, u.site_admin,
       coalesce(array_agg(m.organization_id order by m.organization_id) filter (where m.organization_id is not null), '{}') as organizations,
       coalesce(array_agg(m.role order by m.organization_id) filter (where m.organization_id is not null), '{}') as roles

-- fragment: ActorRoles
left join (memberships m join organizations o on o.id = m.organization_id and o.deleted_at is null) on m.user_id = u.id

-- fragment: SessionCounts
s.ended_at is null and s.seen_at > clock_timestamp() - interval '12 hours' and s.created_at > clock_timestamp() - interval '7 days'

-- name: TokenActor
-- The user behind a token that counts, with its roles in organizations that exist.
select {ActorColumns}
  from tokens t
  join users u on u.id = t.user_id
  {ActorRoles}
 where t.hash = @hash and t.revoked_at is null and (t.expires_at is null or t.expires_at > clock_timestamp())
 group by u.id;

-- name: UserActor
-- A user with its roles as they are now, whoever asks.
select {ActorColumns}
  from users u
  {ActorRoles}
 where u.id = @user_id
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

-- name: UserTokens
select id, user_id, description, created_at, expires_at
  from tokens
 where user_id = @user_id and revoked_at is null and (expires_at is null or expires_at > clock_timestamp())
 order by created_at desc, id;

-- name: SessionInsert
-- Only while the password is the one that was checked; the lock makes a change of it wait.
insert into sessions (hash, user_id)
select @hash, id from users where id = @user_id and password_hash = @password_hash for share;

-- name: SessionActor
-- The user behind a session that counts. Its idle time and its whole life are bounded.
select {ActorColumns}
  from sessions s
  join users u on u.id = s.user_id
  {ActorRoles}
 where s.hash = @hash and {SessionCounts}
 group by u.id;

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

-- name: UserPassword
select id, username, email, site_admin, created_at, coalesce(password_hash, '') as password_hash from users where username = @username;

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

-- name: OrganizationUpdate
update organizations
   set name = coalesce(@name::text, name), email = coalesce(@email::text, email)
 where id = @id and deleted_at is null
returning id, name, email, created_at;

-- name: OrganizationTombstone
update organizations set deleted_at = clock_timestamp() where id = @id and deleted_at is null;

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
