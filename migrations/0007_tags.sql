-- +goose Up
-- What workspaces are found by: flat tags, which belong to the organization, and
-- pairs of key and value, which belong to one workspace.

create table tags (
    id              text primary key,
    organization_id text not null references organizations,
    name            text not null constraint tags_form check (name ~ '^[A-Za-z0-9:_-]{1,255}$'),
    created_at      timestamptz not null default clock_timestamp(),
    unique (organization_id, id),
    constraint tags_name unique (organization_id, name)
);

create table workspace_tags (
    organization_id text not null,
    workspace_id    text not null,
    tag_id          text not null,
    created_at      timestamptz not null default clock_timestamp(),
    primary key (workspace_id, tag_id),
    foreign key (organization_id, workspace_id) references workspaces (organization_id, id),
    foreign key (organization_id, tag_id) references tags (organization_id, id) on delete cascade
);
create index workspace_tags_tag on workspace_tags (tag_id);

create table tag_bindings (
    id              text primary key,
    organization_id text not null,
    workspace_id    text not null,
    key             text not null,
    value           text not null default '',
    created_at      timestamptz not null default clock_timestamp(),
    foreign key (organization_id, workspace_id) references workspaces (organization_id, id),
    constraint tag_bindings_key unique (workspace_id, key)
);
