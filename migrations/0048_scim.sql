-- +goose Up
-- SCIM: people and groups as an identity provider keeps them, and the teams that follow its groups.

alter table users
    add column deactivated_at timestamptz,                              -- by the identity provider: nothing of the user's counts
    add column provisioned_admin boolean not null default false;        -- a site admin for as long as the identity provider says so
alter table teams add column provisioned boolean not null default false;       -- its members are changed by the identity provider only
alter table memberships add column provisioned boolean not null default false; -- made for a team that follows a group, and ends with the last such team

create table scim_settings (
    one                     boolean primary key default true constraint scim_settings_one check (one),
    enabled                 boolean not null default false,
    paused                  boolean not null default false,
    site_admin_group        text,
    site_admin_confirmed_at timestamptz, -- by somebody who was stepped up; until then the group makes nobody an admin
    constraint scim_settings_confirmed check (site_admin_confirmed_at is null or site_admin_group is not null)
);
insert into scim_settings default values;

-- A token of an identity provider is stored as its SHA-256, like every other.
create table scim_tokens (
    id           text primary key,
    hash         bytea not null constraint scim_tokens_hash unique constraint scim_tokens_hash_size check (octet_length(hash) = 32),
    description  text not null,
    created_by   text references users, -- null: the server's operator
    created_at   timestamptz not null default clock_timestamp(),
    expires_at   timestamptz not null,
    revoked_at   timestamptz,
    last_used_at timestamptz
);

-- Attributes are those of the identity provider's document, without what has a column.
create table scim_users (
    user_id     text primary key references users,
    user_name   text not null,
    external_id text,
    active      boolean not null,
    attributes  jsonb not null,
    created_at  timestamptz not null default clock_timestamp(),
    updated_at  timestamptz not null default clock_timestamp()
);
create unique index scim_users_name on scim_users (lower(user_name));
create index scim_users_external on scim_users (external_id);
create index scim_users_created on scim_users (created_at, user_id);

create table scim_groups (
    id           text primary key,
    display_name text not null,
    external_id  text,
    created_at   timestamptz not null default clock_timestamp(),
    updated_at   timestamptz not null default clock_timestamp()
);
create index scim_groups_name on scim_groups (lower(display_name));
create index scim_groups_created on scim_groups (created_at, id);
alter table scim_settings add foreign key (site_admin_group) references scim_groups;

create table scim_group_members (
    group_id text not null references scim_groups on delete cascade,
    user_id  text not null references scim_users on delete cascade,
    primary key (group_id, user_id)
);
create index scim_group_members_user on scim_group_members (user_id);

-- A team follows at most one group; a group leads as many teams as are linked to it.
create table scim_mappings (
    team_id    text primary key references teams on delete cascade,
    group_id   text not null references scim_groups on delete cascade,
    paused     boolean not null default false,
    updated_at timestamptz not null default clock_timestamp()
);
create index scim_mappings_group on scim_mappings (group_id);

-- What is known of the identity provider. There is no sign-in by SAML: only team_management acts.
create table saml_settings (
    one                      boolean primary key default true constraint saml_settings_one check (one),
    team_management          boolean not null default true, -- only the identity provider changes teams that follow a group
    provider_type            text not null default 'unknown' constraint saml_settings_provider check (provider_type in ('okta', 'entra', 'saml', 'unknown')),
    idp_cert                 text not null default '',
    old_idp_cert             text not null default '',
    certificate              text not null default '',
    slo_endpoint_url         text not null default '',
    sso_endpoint_url         text not null default '',
    attr_username            text not null default 'Username',
    attr_groups              text not null default 'MemberOf',
    attr_site_admin          text not null default 'SiteAdmin',
    site_admin_role          text not null default 'site-admins',
    session_timeout          integer not null default 1209600, -- seconds
    signature_signing_method text not null default 'SHA256' constraint saml_settings_signing check (signature_signing_method in ('SHA1', 'SHA256')),
    signature_digest_method  text not null default 'SHA256' constraint saml_settings_digest check (signature_digest_method in ('SHA1', 'SHA256'))
);
insert into saml_settings default values;
