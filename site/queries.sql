-- The statements of package site.

-- fragment: ToolVersionColumns
t.id, t.tool, t.version, t.archs, t.official, t.enabled, t.beta, t.deprecated, t.deprecated_reason, t.created_at,
       coalesce(u.usage, 0) as usage

-- fragment: ToolVersionsInUse
-- With how many workspaces, or policy sets, name each.
tool_versions t
  left join (select 'terraform' as tool, w.terraform_version as version, count(*) as usage from workspaces w where w.deleted_at is null group by 2
             union all
             select s.kind, s.policy_tool_version, count(*) from policy_sets s group by 1, 2) u on u.tool = t.tool and u.version = t.version

-- fragment: SelectedToolVersions
 where t.tool = @tool and (@version::text = '' or t.version = @version) and position(lower(@search::text) in lower(t.version)) > 0

-- name: ToolVersions
select {ToolVersionColumns} from {ToolVersionsInUse}
{SelectedToolVersions}
 order by case when t.version ~ '^[0-9]{1,20}(\.[0-9]{1,20})*(-|$)' then string_to_array(split_part(t.version, '-', 1), '.')::numeric[] end desc nulls last,
          position('-' in t.version) > 0, t.version collate "C" desc
 limit @limit offset @offset;

-- name: ToolVersionsCount
select count(*) from tool_versions t
{SelectedToolVersions};

-- name: ToolVersionByID
select {ToolVersionColumns} from {ToolVersionsInUse} where t.id = @id and t.tool = @tool;

-- name: ToolVersionLock
select t.id, t.tool, t.version, t.archs, t.official, t.enabled, t.beta, t.deprecated, t.deprecated_reason, t.created_at, 0 as usage
  from tool_versions t where t.id = @id and t.tool = @tool for update;

-- name: ToolVersionInsert
insert into tool_versions (id, tool, version, archs, official, enabled, beta, deprecated, deprecated_reason)
values (@id, @tool, @version, @archs::text::jsonb, @official, @enabled, @beta, @deprecated, @deprecated_reason);

-- name: ToolVersionUpdate
update tool_versions
   set version = @version, archs = @archs::text::jsonb, official = @official, enabled = @enabled, beta = @beta, deprecated = @deprecated, deprecated_reason = @deprecated_reason
 where id = @id and tool = @tool;

-- name: ToolVersionDelete
delete from tool_versions where id = @id;

-- name: Decisions
-- What the catalogue says about versions of a tool; nothing about those that it does not know.
select version, enabled, beta, deprecated, deprecated_reason from tool_versions where tool = @tool and version = any (@versions::text[]);

-- fragment: SettingsColumns
limit_user_organization_creation, api_rate_limiting_enabled, api_rate_limit, default_remote_state_access, plan_timeout_seconds, apply_timeout_seconds,
       limit_organizations_per_user, organizations_per_user, limit_workspaces_per_organization, workspaces_per_organization,
       support_email, login_help, footer, error_text, new_user

-- name: Settings
select {SettingsColumns} from site_settings;

-- name: SettingsUpdate
-- Only what is given changes.
update site_settings
   set limit_user_organization_creation = coalesce(@limit_user_organization_creation::boolean, limit_user_organization_creation),
       api_rate_limiting_enabled = coalesce(@api_rate_limiting_enabled::boolean, api_rate_limiting_enabled),
       api_rate_limit = coalesce(@api_rate_limit::integer, api_rate_limit),
       default_remote_state_access = coalesce(@default_remote_state_access::boolean, default_remote_state_access),
       plan_timeout_seconds = coalesce(@plan_timeout_seconds::integer, plan_timeout_seconds),
       apply_timeout_seconds = coalesce(@apply_timeout_seconds::integer, apply_timeout_seconds),
       limit_organizations_per_user = coalesce(@limit_organizations_per_user::boolean, limit_organizations_per_user),
       organizations_per_user = coalesce(@organizations_per_user::integer, organizations_per_user),
       limit_workspaces_per_organization = coalesce(@limit_workspaces_per_organization::boolean, limit_workspaces_per_organization),
       workspaces_per_organization = coalesce(@workspaces_per_organization::integer, workspaces_per_organization),
       support_email = coalesce(@support_email::text, support_email),
       login_help = coalesce(@login_help::text, login_help),
       footer = coalesce(@footer::text, footer),
       error_text = coalesce(@error_text::text, error_text),
       new_user = coalesce(@new_user::text, new_user)
returning {SettingsColumns};

-- fragment: SigningKeyColumns
id, root_version, private_sealed, public

-- name: SigningKeys
select {SigningKeyColumns} from signing_keys order by created_at desc, id;

-- name: SigningKeyNewest
select {SigningKeyColumns} from signing_keys order by created_at desc, id limit 1;

-- name: SigningKeyInsert
insert into signing_keys (id, root_version, private_sealed, public) values (@id, @root_version, @private_sealed, @public);

-- name: SigningKeysTrim
delete from signing_keys where id <> (select id from signing_keys order by created_at desc, id limit 1);
