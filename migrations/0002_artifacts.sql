-- +goose Up
-- Sealed objects. The store holds immutable bytes; these rows say which of them count.

-- Data keys are wrapped by a key per organization, which is itself wrapped by a root key of the ring.
create table organization_keys (
    organization_id text not null references organizations,
    version         integer not null,
    root_version    integer not null,
    wrapped         bytea not null,
    created_at      timestamptz not null default clock_timestamp(),
    primary key (organization_id, version)
);

create table objects (
    id              text primary key,
    organization_id text not null references organizations,
    workspace_id    text not null,
    kind            text not null,
    -- What the object's sealed header repeats; opening it demands that both are equal.
    run_id          text not null default '',
    serial          bigint not null default -1,
    lineage         text not null default '',
    epoch           bigint not null default 0,
    status          text not null default 'pending' constraint objects_status check (status in ('pending', 'stored', 'discarded')),
    key_version     integer not null,
    wrapped_dek     bytea not null,
    size            bigint,
    sha256          text,
    md5             text,
    created_at      timestamptz not null default clock_timestamp(),
    stored_at       timestamptz,
    discarded_at    timestamptz,
    unique (organization_id, id),
    foreign key (organization_id, key_version) references organization_keys (organization_id, version),
    constraint objects_stored_complete check (status = 'pending' or status = 'discarded' or (size is not null and sha256 is not null and md5 is not null and stored_at is not null))
);
create index objects_pending on objects (created_at) where status = 'pending';
