-- +goose Up
-- Groups of variables for many workspaces, private keys for fetching modules, and runs that start after the apply of another workspace.

-- Grows with each change, so that a reader can tell what it read.
alter table variables add column version_id text not null default md5(random()::text || clock_timestamp()::text);

create table variable_sets (
    id              text primary key,
    organization_id text not null references organizations,
    project_id      text, -- whose it is; null: the organization's
    name            text not null,
    description     text not null default '',
    global          boolean not null default false, -- for all workspaces of whoever owns it
    priority        boolean not null default false, -- goes before what is said more specifically
    created_at      timestamptz not null default clock_timestamp(),
    updated_at      timestamptz not null default clock_timestamp(),
    unique (organization_id, id),
    foreign key (organization_id, project_id) references projects (organization_id, id),
    constraint variable_sets_name unique (organization_id, name)
);

create table variable_set_workspaces (
    set_id          text not null,
    organization_id text not null,
    workspace_id    text not null,
    primary key (set_id, workspace_id),
    foreign key (organization_id, set_id) references variable_sets (organization_id, id) on delete cascade,
    foreign key (organization_id, workspace_id) references workspaces (organization_id, id)
);
create index variable_set_workspaces_workspace on variable_set_workspaces (workspace_id);

create table variable_set_projects (
    set_id          text not null,
    organization_id text not null,
    project_id      text not null,
    primary key (set_id, project_id),
    foreign key (organization_id, set_id) references variable_sets (organization_id, id) on delete cascade,
    foreign key (organization_id, project_id) references projects (organization_id, id)
);
create index variable_set_projects_project on variable_set_projects (project_id);

create table variable_set_variables (
    id              text primary key,
    organization_id text not null,
    set_id          text not null,
    key             text not null,
    category        text not null constraint variable_set_variables_category check (category in ('terraform', 'env')),
    value_sealed    bytea not null,
    hcl             boolean not null default false,
    sensitive       boolean not null default false,
    description     text not null default '',
    version_id      text not null default md5(random()::text || clock_timestamp()::text),
    created_at      timestamptz not null default clock_timestamp(),
    foreign key (organization_id, set_id) references variable_sets (organization_id, id) on delete cascade,
    constraint variable_set_variables_key unique (set_id, category, key)
);

-- The private part is sealed and given to the runners of workspaces that name the key.
create table ssh_keys (
    id              text primary key,
    organization_id text not null references organizations,
    name            text not null,
    value_sealed    bytea not null,
    created_at      timestamptz not null default clock_timestamp(),
    unique (organization_id, id)
);
create index ssh_keys_organization on ssh_keys (organization_id, name);
alter table workspaces
    add column ssh_key_id text,
    add foreign key (organization_id, ssh_key_id) references ssh_keys (organization_id, id);
create index workspaces_ssh_key on workspaces (ssh_key_id) where ssh_key_id is not null;

-- When an apply of the source ends well, a run of the workspace begins.
create table run_triggers (
    id              text primary key,
    organization_id text not null references organizations,
    workspace_id    text not null,
    source_id       text not null,
    created_by      text references users, -- whose right to queue runs it uses
    created_at      timestamptz not null default clock_timestamp(),
    unique (organization_id, id),
    foreign key (organization_id, workspace_id) references workspaces (organization_id, id),
    foreign key (organization_id, source_id) references workspaces (organization_id, id),
    constraint run_triggers_once unique (workspace_id, source_id),
    constraint run_triggers_not_itself check (workspace_id <> source_id)
);
create index run_triggers_source on run_triggers (source_id);
