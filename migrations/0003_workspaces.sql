-- +goose Up
-- Projects, workspaces, their variables and the fence that decides who may write.

create table projects (
    id              text primary key,
    organization_id text not null references organizations,
    name            text not null,
    description     text not null default '',
    is_default      boolean not null default false,
    created_at      timestamptz not null default clock_timestamp(),
    unique (organization_id, id),
    constraint projects_name unique (organization_id, name)
);
create unique index projects_default on projects (organization_id) where is_default;

create table workspaces (
    id                            text primary key,
    organization_id               text not null references organizations,
    project_id                    text not null,
    name                          text not null,
    description                   text not null default '',
    execution_mode                text not null default 'remote' constraint workspaces_execution_mode check (execution_mode in ('remote', 'local', 'agent')),
    terraform_version             text not null default 'latest',
    working_directory             text not null default '',
    auto_apply                    boolean not null default false,
    allow_destroy_plan            boolean not null default true,
    structured_run_output_enabled boolean not null default false,
    created_at                    timestamptz not null default clock_timestamp(),
    updated_at                    timestamptz not null default clock_timestamp(),
    deleted_at                    timestamptz,
    unique (organization_id, id),
    foreign key (organization_id, project_id) references projects (organization_id, id)
);
-- A deleted workspace is a tombstone: its name is free again (ST-23).
create unique index workspaces_name on workspaces (organization_id, name) where deleted_at is null;

create table variables (
    id              text primary key,
    organization_id text not null,
    workspace_id    text not null,
    key             text not null,
    category        text not null constraint variables_category check (category in ('terraform', 'env')),
    value_sealed    bytea not null,
    hcl             boolean not null default false,
    sensitive       boolean not null default false,
    description     text not null default '',
    created_at      timestamptz not null default clock_timestamp(),
    foreign key (organization_id, workspace_id) references workspaces (organization_id, id),
    constraint variables_key unique (workspace_id, category, key)
);

-- The fence row is also the lineage lock: whoever moves the state pointer or the
-- queue of a workspace holds this row for update.
create table workspace_fences (
    workspace_id    text primary key references workspaces,
    organization_id text not null,
    epoch           bigint not null default 0,
    holder_kind     text constraint workspace_fences_holder_kind check (holder_kind in ('user', 'team', 'run', 'recovery')),
    holder_id       text,
    holder_name     text not null default '',
    reason          text not null default '',
    recovery_held   boolean not null default false,
    acquired_at     timestamptz,
    foreign key (organization_id, workspace_id) references workspaces (organization_id, id),
    constraint workspace_fences_holder_whole check ((holder_kind is null) = (holder_id is null) and (holder_kind is null) = (acquired_at is null)),
    constraint workspace_fences_held_by_run check (not recovery_held or holder_kind in ('run', 'recovery'))
);

-- +goose StatementBegin
create function fence_epoch_grows() returns trigger language plpgsql as $$
begin
    if new.epoch < old.epoch then
        raise exception 'the epoch of a fence only grows' using errcode = '23514', constraint = 'fence_epoch_grows';
    end if;
    if new.holder_kind is not null and (old.holder_kind is null or new.holder_id <> old.holder_id or new.holder_kind <> old.holder_kind) and new.epoch = old.epoch then
        raise exception 'a new holder needs a new epoch' using errcode = '23514', constraint = 'fence_epoch_grows';
    end if;
    return new;
end $$;
-- +goose StatementEnd
create trigger fence_epoch_grows before update on workspace_fences for each row execute function fence_epoch_grows();
