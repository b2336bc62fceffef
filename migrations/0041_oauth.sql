-- +goose Up
-- What an organization says of VCS hosts. Nothing here connects to them.

create table oauth_clients (
    id                  text primary key,
    organization_id     text not null references organizations,
    name                text,
    service_provider    text not null,
    api_url             text not null,
    http_url            text not null,
    key                 text not null default '',
    rsa_public_key      text not null default '',
    secret_sealed       bytea,
    private_key_sealed  bytea,
    organization_scoped boolean not null default true,
    created_at          timestamptz not null default clock_timestamp(),
    unique (organization_id, id)
);

-- The projects that a client is for, where it is not for the whole organization.
create table oauth_client_projects (
    organization_id text not null,
    client_id       text not null,
    project_id      text not null,
    primary key (client_id, project_id),
    foreign key (organization_id, client_id) references oauth_clients (organization_id, id) on delete cascade,
    foreign key (organization_id, project_id) references projects (organization_id, id)
);

create table oauth_tokens (
    id              text primary key,
    organization_id text not null,
    client_id       text not null,
    token_sealed    bytea not null,
    ssh_key_sealed  bytea,
    created_at      timestamptz not null default clock_timestamp(),
    foreign key (organization_id, client_id) references oauth_clients (organization_id, id) on delete cascade
);
create index oauth_tokens_client on oauth_tokens (client_id);
