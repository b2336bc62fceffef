-- What site admins do with the users and organizations of the whole site.

-- fragment: SiteUserColumns
u.id, case when u.invited then '' else u.username end as username, u.email, u.site_admin or u.provisioned_admin as site_admin, u.provisioned_admin, u.service_account, u.invited, u.created_at,
       u.suspended_at, u.deactivated_at,
       exists (select from totp_factors f where f.user_id = u.id and f.confirmed_at is not null) as two_factor,
       array(select m.organization_id from memberships m join organizations o on o.id = m.organization_id and o.deleted_at is null
              where m.user_id = u.id and m.status = 'active' order by o.name collate "C") as organizations

-- fragment: SelectedSiteUsers
 where u.deleted_at is null
   and (@query::text = '' or position(lower(@query::text) in lower(u.email)) > 0 or (not u.invited and position(lower(@query::text) in lower(u.username)) > 0))
   and (@admin::boolean is null or (u.site_admin or u.provisioned_admin) = @admin::boolean)
   and (@suspended::boolean is null or (coalesce(u.suspended_at, u.deactivated_at) is not null) = @suspended::boolean)

-- name: SiteUsers
select {SiteUserColumns} from users u
{SelectedSiteUsers}
 order by u.created_at, u.id limit @limit offset @offset;

-- name: SiteUsersCount
select count(*) from users u
{SelectedSiteUsers};

-- name: SiteUser
select {SiteUserColumns} from users u where u.id = @id and u.deleted_at is null;

-- name: SiteUsersSome
select {SiteUserColumns} from users u where u.id = any (@ids::text[]) and u.deleted_at is null order by u.id;

-- name: SiteUserLock
select id from users where id = @id and deleted_at is null for update;

-- name: SiteAdminHold
-- Whoever takes something from another must still be a site admin when it is done, so that two cannot do it to each other.
select id from users u where id = @id and (site_admin or provisioned_admin) and {UserCounts} and deleted_at is null for share;

-- name: UserSuspend
update users set suspended_at = clock_timestamp() where id = @id and suspended_at is null;

-- name: UserUnsuspend
update users set suspended_at = null where id = @id and suspended_at is not null;

-- name: SiteAdminSet
update users set site_admin = @site_admin where id = @id and site_admin <> @site_admin;

-- name: OwnedOrganizations
select m.organization_id from memberships m join organizations o on o.id = m.organization_id and o.deleted_at is null
 where m.user_id = @id and m.role = 'owner' and m.status = 'active' order by m.organization_id;

-- name: UserMembershipsDelete
delete from memberships where user_id = @id;

-- name: UserTokensRevoke
update tokens set revoked_at = clock_timestamp() where user_id = @id and revoked_at is null;

-- name: UserTombstone
-- The row stays for what names it; what was known of the person goes, and the name is free.
update users
   set deleted_at = clock_timestamp(), username = 'deleted-' || id, email = '', password_hash = null, site_admin = false, provisioned_admin = false, invited = false
 where id = @id and deleted_at is null;

-- name: MayMakeOrganizations
-- Whether a user who is no site admin may make one more organization.
select not s.limit_user_organization_creation
       and (not s.limit_organizations_per_user
            or s.organizations_per_user > (select count(*) from memberships m join organizations o on o.id = m.organization_id and o.deleted_at is null
                                            where m.user_id = @user_id and m.role = 'owner' and m.status = 'active'))
  from site_settings s;

-- fragment: SiteOrganizationColumns
o.id, o.name, o.email, o.created_at, o.disabled_at, o.workspace_limit, o.plan_timeout_seconds, o.apply_timeout_seconds, o.global_module_sharing, o.global_provider_sharing, o.user_tokens_enabled,
       array(select m.user_id from memberships m where m.organization_id = o.id and m.role = 'owner' and m.status = 'active' order by m.user_id) as owners

-- fragment: SelectedSiteOrganizations
 where o.deleted_at is null
   and (@query::text = '' or position(lower(@query::text) in lower(o.name)) > 0 or position(lower(@query::text) in lower(o.email)) > 0)
   and (@consumers_of::text = '' or exists (select from module_consumers c where c.organization_id = @consumers_of and c.consumer_id = o.id))

-- name: SiteOrganizations
select {SiteOrganizationColumns} from organizations o
{SelectedSiteOrganizations}
 order by o.name collate "C" limit @limit offset @offset;

-- name: SiteOrganizationsCount
select count(*) from organizations o
{SelectedSiteOrganizations};

-- name: SiteOrganization
select {SiteOrganizationColumns} from organizations o where o.name = @name and o.deleted_at is null;

-- name: SiteOrganizationsSome
select {SiteOrganizationColumns} from organizations o where o.id = any (@ids::text[]) order by o.name collate "C";

-- name: SiteOrganizationUpdate
-- Only what is given changes.
update organizations
   set disabled_at = case when @disabled::boolean is null then disabled_at when @disabled::boolean then coalesce(disabled_at, clock_timestamp()) end,
       workspace_limit = case when @no_workspace_limit::boolean then null else coalesce(@workspace_limit::integer, workspace_limit) end,
       plan_timeout_seconds = coalesce(@plan_timeout_seconds::integer, plan_timeout_seconds),
       apply_timeout_seconds = coalesce(@apply_timeout_seconds::integer, apply_timeout_seconds),
       global_module_sharing = coalesce(@global_module_sharing::boolean, global_module_sharing),
       global_provider_sharing = coalesce(@global_provider_sharing::boolean, global_provider_sharing),
       user_tokens_enabled = coalesce(@user_tokens_enabled::boolean, user_tokens_enabled)
 where id = @id and deleted_at is null;

-- name: Subscribe
-- One that would have ended already is not begun.
update organizations set feature_set = @feature_set, feature_set_ends_at = @ends_at::timestamptz
 where id = @id and deleted_at is null and (@ends_at::timestamptz is null or @ends_at::timestamptz > clock_timestamp())
returning {OrganizationColumns};

-- name: ModuleConsumersClear
delete from module_consumers where organization_id = @id;

-- name: ModuleConsumersSet
-- A name that no organization has is left out, and the count shows it.
insert into module_consumers (organization_id, consumer_id)
select @id, o.id from organizations o where o.name = any (@names::text[]) and o.deleted_at is null and o.id <> @id;

-- name: SharingOrganization
-- The organization of that name where it lets one of these use its modules, or its providers.
select {OrganizationColumns} from organizations
 where name = @name and deleted_at is null and disabled_at is null and cardinality(@consumers::text[]) > 0
   and case @what::text when 'modules' then global_module_sharing
                or exists (select from module_consumers c where c.organization_id = organizations.id and c.consumer_id = any (@consumers::text[]))
            else global_provider_sharing end;
