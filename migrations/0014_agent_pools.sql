-- +goose Up
-- Groups of runners are agent pools: with many tokens, labels, a scope and a drain. Attempts say which runners may execute them.
-- The server of before goes on to work on this schema: it knows the token that a group was made with, and sets none of the new columns.

alter table runner_groups
    alter column token_hash drop not null, -- kept for the server of before; the tokens are in runner_tokens
    add column organization_scoped boolean not null default true, -- false: only for the workspaces and projects that are listed
    add column takes_remote boolean not null default true, -- also takes runs of workspaces that name no pool
    add column launcher text not null default 'local' constraint runner_groups_launcher check (launcher in ('local', 'docker', 'kubernetes', 'github-actions')),
    add column labels text[] not null default '{}',
    add column draining_since timestamptz, -- nothing is offered to its runners
    add column deleted_at timestamptz,
    add constraint runner_groups_organization unique (organization_id, id);
create unique index runner_groups_name on runner_groups (organization_id, name) where organization_id is not null and deleted_at is null;

-- A token is stored as its SHA-256, like those of users.
create table runner_tokens (
    id           text primary key,
    group_id     text not null references runner_groups,
    hash         bytea not null constraint runner_tokens_hash unique constraint runner_tokens_hash_size check (octet_length(hash) = 32),
    description  text not null default '',
    created_by   text references users, -- null when the server itself made it
    created_at   timestamptz not null default clock_timestamp(),
    last_used_at timestamptz,
    revoked_at   timestamptz
);
create index runner_tokens_group on runner_tokens (group_id);
insert into runner_tokens (id, group_id, hash, description, created_at)
select 'at-' || translate(substr(md5(id || token_hash::text), 1, 16), '0', 'z'), id, token_hash, 'made with the group', created_at from runner_groups where token_hash is not null;

create table runner_group_workspaces (
    group_id        text not null,
    organization_id text not null,
    workspace_id    text not null,
    allowed         boolean not null, -- false: excluded, whatever else allows it
    primary key (group_id, workspace_id, allowed),
    foreign key (organization_id, group_id) references runner_groups (organization_id, id),
    foreign key (organization_id, workspace_id) references workspaces (organization_id, id)
);

create table runner_group_projects (
    group_id        text not null,
    organization_id text not null,
    project_id      text not null,
    primary key (group_id, project_id),
    foreign key (organization_id, group_id) references runner_groups (organization_id, id),
    foreign key (organization_id, project_id) references projects (organization_id, id)
);

alter table workspaces
    add column agent_pool_id text,
    add column runner_selector text[] not null default '{}', -- labels that a runner must have
    add foreign key (organization_id, agent_pool_id) references runner_groups (organization_id, id);
create index workspaces_agent_pool on workspaces (agent_pool_id) where agent_pool_id is not null;

alter table runners
    add column token_id text references runner_tokens,
    add column labels text[] not null default '{}',
    add column tofu_versions text[] not null default '{}',
    add column ip_address text not null default '',
    add column draining_since timestamptz; -- told to end after what it has
create index runners_group on runners (group_id, created_at);

-- Which runners may execute an attempt, settled when it is made.
alter table attempts
    add column pool_id text, -- only this group; null: any that takes runs of its organization
    add column selector text[] not null default '{}',
    add column claim_seq bigint, -- drawn at each claim: the largest of an organization is its last turn
    add foreign key (organization_id, pool_id) references runner_groups (organization_id, id);
create sequence attempt_claims;
drop index attempts_pending;
create index attempts_pending on attempts (organization_id, (phase <> 'apply'), speculative, created_at, id) where status = 'pending' and pool_id is null;
create index attempts_pending_pool on attempts (pool_id, (phase <> 'apply'), speculative, created_at, id) where status = 'pending' and pool_id is not null;
create index attempts_turns on attempts (organization_id, claim_seq desc) where claim_seq is not null;
create index attempts_runner on attempts (runner_id) where status in ('assigned', 'running');
