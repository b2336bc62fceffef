-- +goose Up
-- Query runs: what was asked of a workspace by a command that OpenTofu does not have. Each ends as errored, and says why.

create table query_runs (
    id                       text primary key,
    organization_id          text not null references organizations,
    workspace_id             text not null,
    configuration_version_id text not null,
    source                   text not null,
    generate_config_out      boolean not null,
    reason                   text not null, -- why it errored
    created_by               text references users,
    created_at               timestamptz not null default clock_timestamp(),
    unique (organization_id, id),
    foreign key (organization_id, workspace_id) references workspaces (organization_id, id),
    foreign key (organization_id, configuration_version_id) references configuration_versions (organization_id, id)
);
create index query_runs_workspace on query_runs (workspace_id, created_at desc, id);
