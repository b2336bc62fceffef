-- +goose Up
-- What organizations and projects settle for the workspaces in them, and what workspaces can be told besides.
-- The server of before goes on to work on this schema: it sets none of the new columns.

alter table organizations
    add column default_execution_mode text not null default 'remote' constraint organizations_execution_mode check (default_execution_mode in ('remote', 'local', 'agent')),
    add column default_agent_pool_id text, -- of mode agent
    add column session_timeout integer constraint organizations_session_timeout check (session_timeout between 1 and 20160), -- minutes without use after which its members are signed out
    add column session_remember integer constraint organizations_session_remember check (session_remember between 1 and 20160), -- minutes after which they are signed out in any case
    add column force_delete_allowed boolean not null default true, -- also to those who are no owners
    add foreign key (id, default_agent_pool_id) references runner_groups (organization_id, id),
    add constraint organizations_pool_with_mode check ((default_execution_mode = 'agent') = (default_agent_pool_id is not null));
create index organizations_agent_pool on organizations (default_agent_pool_id) where default_agent_pool_id is not null;

alter table projects
    add column default_execution_mode text constraint projects_execution_mode check (default_execution_mode in ('remote', 'local', 'agent')), -- null: the organization's
    add column default_agent_pool_id text,
    add column deleted_at timestamptz,
    add foreign key (organization_id, default_agent_pool_id) references runner_groups (organization_id, id),
    add constraint projects_pool_with_mode check (coalesce(default_execution_mode, '') = 'agent' or default_agent_pool_id is null),
    drop constraint projects_name;
create unique index projects_name on projects (organization_id, name) where deleted_at is null;
create index projects_agent_pool on projects (default_agent_pool_id) where default_agent_pool_id is not null;

-- execution_mode and agent_pool_id of a workspace are what holds; where they are inherited, a
-- change of the project or organization writes them anew in its own transaction.
alter table workspaces
    add column execution_mode_inherited boolean not null default false,
    add column auto_apply_run_trigger boolean not null default false,
    add column queue_all_runs boolean not null default false,
    add column assessments_enabled boolean not null default false,
    add column auto_destroy_at timestamptz,
    add column file_triggers_enabled boolean not null default false,
    add column trigger_prefixes text[] not null default '{}',
    add column trigger_patterns text[] not null default '{}',
    add column source_name text not null default '',
    add column source_url text not null default '',
    add column last_run_at timestamptz, -- when the newest run that can apply was made
    add constraint workspaces_triggers check (trigger_prefixes = '{}' or trigger_patterns = '{}');
update workspaces w set last_run_at = (select max(r.created_at) from runs r where r.workspace_id = w.id and not r.plan_only);
create index workspaces_last_run on workspaces (organization_id, last_run_at desc nulls last, name collate "C") where deleted_at is null;
create index workspaces_project on workspaces (project_id) where deleted_at is null;
create index workspaces_auto_destroy on workspaces (auto_destroy_at) where auto_destroy_at is not null and deleted_at is null;

-- Pairs of key and value on a project, which its workspaces have too unless they have the key themselves.
create table project_tag_bindings (
    id              text primary key,
    organization_id text not null,
    project_id      text not null,
    key             text not null,
    value           text not null default '',
    created_at      timestamptz not null default clock_timestamp(),
    foreign key (organization_id, project_id) references projects (organization_id, id),
    constraint project_tag_bindings_key unique (project_id, key)
);

-- Keys of such pairs that an organization has given a meaning.
create table reserved_tag_keys (
    id                text primary key,
    organization_id   text not null references organizations,
    key               text not null,
    disable_overrides boolean not null default false, -- a workspace cannot have the key with a value of its own when its project has it
    created_at        timestamptz not null default clock_timestamp(),
    updated_at        timestamptz not null default clock_timestamp(),
    constraint reserved_tag_keys_key unique (organization_id, key)
);

-- How long the bytes of old versions are kept: by an organization, or by one workspace of its own.
create table data_retention_policies (
    id              text primary key,
    organization_id text not null references organizations,
    workspace_id    text,
    days            integer constraint data_retention_policies_days check (days between 1 and 36500), -- null: nothing is deleted
    created_at      timestamptz not null default clock_timestamp(),
    foreign key (organization_id, workspace_id) references workspaces (organization_id, id)
);
create unique index data_retention_policies_owner on data_retention_policies (organization_id, coalesce(workspace_id, ''));
