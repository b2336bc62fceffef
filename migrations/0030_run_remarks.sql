-- +goose Up
-- What people say about runs, plans made ready for download, what workspaces start by the clock, and old versions without their bytes.

create table comments (
    id              text primary key,
    organization_id text not null,
    workspace_id    text not null,
    run_id          text not null,
    body_sealed     bytea not null,
    created_by      text references users,
    created_at      timestamptz not null default clock_timestamp(),
    foreign key (organization_id, run_id) references runs (organization_id, id)
);
create index comments_run on comments (run_id, created_at);

-- Made from the plan whenever it is downloaded.
create table plan_exports (
    id              text primary key,
    organization_id text not null,
    workspace_id    text not null,
    run_id          text not null,
    data_type       text not null,
    created_at      timestamptz not null default clock_timestamp(),
    expires_at      timestamptz not null,
    foreign key (organization_id, run_id) references runs (organization_id, id)
);

-- An apply that ended well and is to start runs of other workspaces; the sweep takes it from here.
create table triggered_runs (
    source_run_id   text not null,
    trigger_id      text not null,
    organization_id text not null,
    created_at      timestamptz not null default clock_timestamp(),
    primary key (source_run_id, trigger_id),
    foreign key (organization_id, source_run_id) references runs (organization_id, id),
    foreign key (organization_id, trigger_id) references run_triggers (organization_id, id) on delete cascade
);
create index triggered_runs_due on triggered_runs (created_at);

alter table workspaces
    add column auto_destroy_due boolean not null default false, -- it lies ahead; an instant that had passed when it was set starts nothing
    add column assessed_at timestamptz,
    add column automated_by text references users; -- whose right to queue runs those two use
create index workspaces_assessments on workspaces (assessed_at) where assessments_enabled and deleted_at is null;

-- Bytes of old versions: hidden until somebody restores them, and then gone.
alter table state_versions
    add column backing_hidden_at timestamptz,
    add column backing_deleted_at timestamptz;
alter table configuration_versions
    add column backing_hidden_at timestamptz,
    add column backing_deleted_at timestamptz;
create index configuration_versions_retained on configuration_versions (organization_id, created_at) where backing_deleted_at is null and object_id is not null;
create index state_versions_retained on state_versions (organization_id, created_at) where backing_deleted_at is null and status = 'finalized';

-- A finalized or discarded version is never changed or removed; the JSON form that a client
-- sends beside it may still arrive, and its bytes may be hidden and given up with what was
-- read out of them.
-- +goose StatementBegin
create or replace function state_version_is_final() returns trigger language plpgsql as $$
declare
    movable constant text[] := '{json_object_id,json_claimed_at,backing_hidden_at,backing_deleted_at,resources_sealed}';
begin
    if tg_op = 'DELETE' then
        raise exception 'a state version is not removed' using errcode = '23514', constraint = 'state_version_is_final';
    end if;
    if old.status <> 'pending' and (to_jsonb(new) - movable <> to_jsonb(old) - movable
        or (new.resources_sealed is distinct from old.resources_sealed and (new.resources_sealed is not null or new.backing_deleted_at is null))
        or (old.backing_deleted_at is not null and new.backing_deleted_at is distinct from old.backing_deleted_at)) then
        raise exception 'a finalized or discarded state version does not change' using errcode = '23514', constraint = 'state_version_is_final';
    end if;
    return new;
end $$;
-- +goose StatementEnd
