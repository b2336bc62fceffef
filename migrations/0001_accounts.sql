-- +goose Up
-- Who there is: organizations, users, their membership and their tokens.
-- All instants are the database's clock_timestamp(); now() is the start of a transaction and is not used.

create table organizations (
    id         text primary key,
    name       text not null,
    email      text not null default '',
    created_at timestamptz not null default clock_timestamp(),
    deleted_at timestamptz
);
create unique index organizations_name on organizations (name) where deleted_at is null;

create table users (
    id            text primary key,
    username      text not null constraint users_username unique,
    email         text not null default '',
    password_hash text,
    site_admin    boolean not null default false,
    created_at    timestamptz not null default clock_timestamp()
);

create table memberships (
    organization_id text not null references organizations,
    user_id         text not null references users,
    role            text not null constraint memberships_role check (role in ('owner', 'member')),
    created_at      timestamptz not null default clock_timestamp(),
    primary key (organization_id, user_id)
);
create index memberships_user on memberships (user_id);

-- A token is stored as its SHA-256: the database cannot give it back.
create table tokens (
    id           text primary key,
    user_id      text not null references users,
    hash         bytea not null constraint tokens_hash unique constraint tokens_hash_size check (octet_length(hash) = 32),
    description  text not null default '',
    created_at   timestamptz not null default clock_timestamp(),
    expires_at   timestamptz,
    revoked_at   timestamptz
);
create index tokens_user on tokens (user_id);

-- A group of runners shares a token. Without an organization it serves all of them.
create table runner_groups (
    id              text primary key,
    organization_id text references organizations,
    name            text not null,
    token_hash      bytea not null constraint runner_groups_token unique constraint runner_groups_token_size check (octet_length(token_hash) = 32),
    created_at      timestamptz not null default clock_timestamp()
);
