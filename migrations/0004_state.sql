-- +goose Up
-- State versions, the pointer to the current one, and what is read out of them.

create table state_versions (
    id                    text primary key,
    organization_id       text not null,
    workspace_id          text not null,
    status                text not null default 'pending' constraint state_versions_status check (status in ('pending', 'finalized', 'discarded')),
    discard_reason        text not null default '',
    -- who may finalize it: the holder and the epoch of the fence when it was begun
    epoch                 bigint not null,
    holder_kind           text not null,
    holder_id             text not null,
    -- what the client said it would send
    declared_serial       bigint not null constraint state_versions_declared_serial check (declared_serial >= 0),
    declared_lineage      text not null default '',
    declared_md5          text not null,
    forced                boolean not null default false,
    declared_outputs_sealed bytea, -- outputs in plain, which a client sends beside a state that it encrypted
    -- what the bytes said (they decide)
    serial                bigint,
    lineage               text,
    size                  bigint,
    sha256                text,
    client_encrypted      boolean not null default false,
    terraform_version     text not null default '',
    resource_count        integer,
    resources_sealed      bytea,
    -- where it came from
    base_version_id       text,
    rollback_of_id        text,
    run_id                text,
    attempt_id            text,
    sandbox_id            text not null default '',
    created_by            text references users,
    object_id             text,
    json_object_id        text,
    -- its life
    created_at            timestamptz not null default clock_timestamp(),
    expires_at            timestamptz not null,
    raw_claimed_at        timestamptz,
    json_claimed_at       timestamptz,
    finalized_at          timestamptz,
    unique (organization_id, id),
    unique (workspace_id, id),
    foreign key (workspace_id, base_version_id) references state_versions (workspace_id, id),
    foreign key (workspace_id, rollback_of_id) references state_versions (workspace_id, id),
    foreign key (organization_id, workspace_id) references workspaces (organization_id, id),
    foreign key (organization_id, object_id) references objects (organization_id, id),
    foreign key (organization_id, json_object_id) references objects (organization_id, id),
    constraint state_versions_finalized_complete check (status <> 'finalized'
        or (serial is not null and lineage is not null and size is not null and sha256 is not null and object_id is not null and finalized_at is not null))
);
-- The retry key (amendment 15): the same create again is the same version.
create unique index state_versions_retry on state_versions (workspace_id, epoch, declared_serial, declared_md5)
    where status <> 'discarded' and rollback_of_id is null;
create index state_versions_workspace on state_versions (workspace_id, created_at desc);
create index state_versions_run on state_versions (run_id) where run_id is not null;

-- Current is a pointer, never the highest serial (ST-24). Absent means: no state yet.
create table current_states (
    workspace_id     text primary key,
    organization_id  text not null,
    state_version_id text not null,
    moved_at         timestamptz not null default clock_timestamp(),
    foreign key (organization_id, workspace_id) references workspaces (organization_id, id),
    foreign key (workspace_id, state_version_id) references state_versions (workspace_id, id)
);

-- An output may be a secret, and so may its name: one sealed value holds both.
create table state_outputs (
    id               text primary key,
    organization_id  text not null,
    state_version_id text not null,
    position         integer not null,
    sealed           bytea not null,
    foreign key (organization_id, state_version_id) references state_versions (organization_id, id),
    unique (state_version_id, position)
);

-- A finalized or discarded version is never changed or removed; only the JSON form
-- that a client sends beside it may still arrive.
-- +goose StatementBegin
create function state_version_is_final() returns trigger language plpgsql as $$
begin
    if tg_op = 'DELETE' then
        raise exception 'a state version is not removed' using errcode = '23514', constraint = 'state_version_is_final';
    end if;
    if old.status <> 'pending' and to_jsonb(new) - '{json_object_id,json_claimed_at}'::text[] <> to_jsonb(old) - '{json_object_id,json_claimed_at}'::text[] then
        raise exception 'a finalized or discarded state version does not change' using errcode = '23514', constraint = 'state_version_is_final';
    end if;
    return new;
end $$;
-- +goose StatementEnd
create trigger state_version_is_final before update or delete on state_versions for each row execute function state_version_is_final();

-- The pointer only ever shows a finalized version.
-- +goose StatementBegin
create function current_state_is_finalized() returns trigger language plpgsql as $$
begin
    if not exists (select 1 from state_versions v where v.id = new.state_version_id and v.status = 'finalized') then
        raise exception 'only a finalized state version can be current' using errcode = '23514', constraint = 'current_state_is_finalized';
    end if;
    return new;
end $$;
-- +goose StatementEnd
create trigger current_state_is_finalized before insert or update on current_states for each row execute function current_state_is_finalized();
