-- +goose Up
-- What site admins decide about users, organizations, versions of tools, and the site itself.

alter table users
    add column suspended_at timestamptz, -- neither signs in nor is served by a token
    add column deleted_at   timestamptz; -- the row stays for what names it

alter table organizations
    add column disabled_at             timestamptz, -- nobody but site admins sees it, and nothing starts in it
    add column workspace_limit         integer constraint organizations_workspace_limit check (workspace_limit >= 0), -- 0 is none; null is the site's
    add column plan_timeout_seconds    integer constraint organizations_plan_timeout check (plan_timeout_seconds > 0), -- null is the site's
    add column apply_timeout_seconds   integer constraint organizations_apply_timeout check (apply_timeout_seconds > 0),
    add column global_module_sharing   boolean not null default false, -- every organization may use its modules
    add column global_provider_sharing boolean not null default false;

-- The organizations that may use another one's modules.
create table module_consumers (
    organization_id text not null references organizations,
    consumer_id     text not null references organizations constraint module_consumers_other check (consumer_id <> organization_id),
    primary key (organization_id, consumer_id)
);
create index module_consumers_consumer on module_consumers (consumer_id);

-- One row. What is not said stands as it was before there were settings.
create table site_settings (
    singleton                         boolean primary key default true constraint site_settings_singleton check (singleton),
    limit_user_organization_creation  boolean not null default true,
    api_rate_limiting_enabled         boolean not null default false,
    api_rate_limit                    integer not null default 30 constraint site_settings_api_rate_limit check (api_rate_limit between 1 and 100000),
    default_remote_state_access       boolean not null default false,
    plan_timeout_seconds              integer not null default 13800 constraint site_settings_plan_timeout check (plan_timeout_seconds > 0),
    apply_timeout_seconds             integer not null default 13800 constraint site_settings_apply_timeout check (apply_timeout_seconds > 0),
    limit_organizations_per_user      boolean not null default false,
    organizations_per_user            integer not null default 100 constraint site_settings_organizations check (organizations_per_user >= 0),
    limit_workspaces_per_organization boolean not null default false,
    workspaces_per_organization       integer not null default 1000 constraint site_settings_workspaces check (workspaces_per_organization >= 0),
    support_email                     text not null default '',
    login_help                        text not null default '',
    footer                            text not null default '',
    error_text                        text not null default '',
    new_user                          text not null default ''
);
insert into site_settings default values;

-- The catalogue of tools: what is decided about their versions.
create table tool_versions (
    id                text primary key,
    tool              text not null constraint tool_versions_tool check (tool in ('terraform', 'opa', 'sentinel')),
    version           text not null,
    archs             jsonb not null default '[]', -- where each build is found: url, sha, os, arch
    official          boolean not null default false,
    enabled           boolean not null default true,
    beta              boolean not null default false,
    deprecated        boolean not null default false,
    deprecated_reason text,
    created_at        timestamptz not null default clock_timestamp(),
    constraint tool_versions_version unique (tool, version),
    constraint tool_versions_deprecated check (deprecated or deprecated_reason is null)
);

-- The releases of Terraform that workspaces may have carried before they came here.
insert into tool_versions (id, tool, version, official)
select 'tool-' || translate(substr(md5('terraform' || v.version), 1, 16), '0', 'z'), 'terraform', v.version, true
  from (values (0, 11), (1, 9), (2, 9), (3, 10), (4, 7), (5, 7)) as minor (number, last),
       generate_series(0, minor.last) as patch (number),
       lateral (select '1.' || minor.number || '.' || patch.number as version) v;

-- No version of these can be chosen: policies are judged by the OPA of the server.
insert into tool_versions (id, tool, version, archs, official, enabled, deprecated, deprecated_reason)
select 'tool-' || translate(substr(md5(t.tool || t.version), 1, 16), '0', 'z'), t.tool, t.version,
       jsonb_build_array(jsonb_build_object('url', t.url, 'sha', 'unknown', 'os', 'linux', 'arch', 'amd64')), true, false, true, t.reason
  from (values ('opa', '0.59.0', 'https://github.com/open-policy-agent/opa/releases/download/v0.59.0/opa_linux_amd64_static', 'Policies are judged by the OPA that is part of the server.'),
               ('sentinel', '0.22.1', 'https://releases.hashicorp.com/sentinel/0.22.1/sentinel_0.22.1_linux_amd64.zip', 'This server cannot judge by Sentinel.')) as t (tool, version, url, reason);

-- What a runner brings stands in the catalogue.
insert into tool_versions (id, tool, version)
select 'tool-' || translate(substr(md5(random()::text || v.version), 1, 16), '0', 'z'), 'terraform', v.version from (select distinct version from runner_group_versions) v
on conflict (tool, version) do nothing;

-- +goose StatementBegin
create function enter_tool_version() returns trigger language plpgsql as $$
begin
    insert into tool_versions (id, tool, version) values ('tool-' || translate(substr(md5(random()::text || new.version), 1, 16), '0', 'z'), 'terraform', new.version)
    on conflict (tool, version) do nothing;
    return new;
end $$;
-- +goose StatementEnd
create trigger enter_tool_version after insert on runner_group_versions for each row execute function enter_tool_version();

-- The runs of all organizations are listed by when they were made.
create index runs_site on runs (queue_seq desc);

-- A disabled organization is closed like a suspended one.
create or replace view closed_organizations as
select o.id as organization_id,
       case when c.deny is null then 'The launch controls cannot be read.'
            when c.deny then 'Launch controls deny new starts. ' || c.reason
            when o.disabled_at is not null then 'The organization is disabled.'
            when g.suspended_at is not null then 'The organization is suspended. ' || g.suspended_reason
            else 'Region ' || g.region || ' is closed.'
        end as reason
  from organizations o
  left join organization_gates g on g.organization_id = o.id
  left join launch_controls c on true
 where coalesce(c.deny, true) or o.disabled_at is not null or g.suspended_at is not null or g.region = any (c.closed_regions);
