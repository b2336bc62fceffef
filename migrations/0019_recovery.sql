-- +goose Up
-- Recovery of an interrupted apply: what is known of it, and the operation that ends it.

-- State that tofu could not publish, as the runner handed it over. It is evidence and never
-- changes; only a recovery makes a state version of it.
create table emergency_states (
    id                text primary key,
    organization_id   text not null,
    workspace_id      text not null,
    run_id            text not null,
    attempt_id        text not null,
    sandbox_id        text not null,
    object_id         text not null,
    size              bigint not null,
    sha256            text not null,
    serial            bigint, -- these two are null where the bytes are no state file
    lineage           text,
    client_encrypted  boolean not null default false,
    terraform_version text not null default '',
    resource_count    integer not null default 0,
    -- the same state as the exact successor of what the run began with (G-19)
    normalized_serial bigint,
    normalized_size   bigint,
    normalized_sha256 text,
    obstacle          text not null default '', -- why it cannot be imported; empty when it can
    late              boolean not null,         -- its attempt had ended
    received_at       timestamptz not null default clock_timestamp(),
    unique (organization_id, id),
    constraint emergency_states_once unique (attempt_id, sha256),
    foreign key (organization_id, workspace_id) references workspaces (organization_id, id),
    foreign key (organization_id, run_id) references runs (organization_id, id),
    foreign key (organization_id, attempt_id) references attempts (organization_id, id),
    foreign key (organization_id, object_id) references objects (organization_id, id),
    constraint emergency_states_importable_whole check (obstacle <> '' or (normalized_serial is not null and normalized_size is not null and normalized_sha256 is not null and lineage is not null))
);
create index emergency_states_run on emergency_states (run_id);
create trigger evidence_is_append_only before update or delete on emergency_states for each row execute function evidence_is_append_only();
create trigger evidence_is_not_emptied before truncate on emergency_states execute function evidence_is_append_only();

-- What a runner reported after its attempt was called lost. It changes nothing any more; that
-- the writer has stopped is known from it.
create table late_reports (
    attempt_id      text not null references attempts,
    digest          text not null,
    outcome         text not null,
    exit_code       integer not null,
    tofu_started    boolean not null,
    errored_state   boolean not null,
    message         text not null,
    received_at     timestamptz not null default clock_timestamp(),
    primary key (attempt_id, digest)
);
create trigger evidence_is_append_only before update or delete on late_reports for each row execute function evidence_is_append_only();
create trigger evidence_is_not_emptied before truncate on late_reports execute function evidence_is_append_only();

-- A recovery takes the authority that an apply still had.
alter table attempts add column authority_revoked_at timestamptz;

create table recovery_operations (
    id                   text primary key,
    organization_id      text not null,
    workspace_id         text not null,
    run_id               text not null,
    status               text not null default 'prepared' constraint recovery_operations_status check (status in ('prepared', 'committed', 'abandoned')),
    resolution           text not null constraint recovery_operations_resolution check (resolution in ('current_state_verified', 'import_emergency_state')),
    -- whose it is, until when, and how often it has changed hands
    principal_id         text not null references users,
    owner_epoch          integer not null default 1,
    lease_expires_at     timestamptz not null,
    takeovers            jsonb not null default '[]',
    request_digest       text not null,
    reason               text not null,
    -- the evidence it was prepared on
    fence_epoch          bigint not null,
    from_status          text not null,
    current_version_id   text, -- null: there was no state
    current_sha256       text not null default '',
    publications         integer not null,
    emergency_id         text,
    emergency_sha256     text not null default '',
    emergency_size       bigint not null default 0,
    emergency_count      integer not null default 0,
    writer_proven        boolean not null,
    overrides            jsonb not null default '[]',
    -- what becomes current; fixed from the start, whoever completes it
    target_version_id    text not null, -- empty: there is no state
    target_sha256        text not null default '',
    target_size          bigint not null default 0,
    target_object_id     text,
    prepared_at          timestamptz not null default clock_timestamp(),
    committed_at         timestamptz,
    reservation_epoch    bigint,
    unique (organization_id, id),
    foreign key (organization_id, workspace_id) references workspaces (organization_id, id),
    foreign key (organization_id, run_id) references runs (organization_id, id),
    foreign key (workspace_id, current_version_id) references state_versions (workspace_id, id),
    foreign key (organization_id, emergency_id) references emergency_states (organization_id, id),
    foreign key (organization_id, target_object_id) references objects (organization_id, id),
    constraint recovery_operations_committed_whole check ((status = 'committed') = (committed_at is not null) and (status = 'committed') = (reservation_epoch is not null)),
    constraint recovery_operations_import_has_emergency check (resolution <> 'import_emergency_state' or emergency_id is not null)
);
-- A run is recovered once, and one recovery of it is prepared at a time.
create unique index recovery_operations_one_open on recovery_operations (run_id) where status <> 'abandoned';

-- What was prepared is what is committed.
-- +goose StatementBegin
create function recovery_keeps_its_target() returns trigger language plpgsql as $$
begin
    if tg_op = 'DELETE' or old.status <> 'prepared' then
        raise exception 'a recovery that has ended does not change' using errcode = '23514', constraint = 'recovery_keeps_its_target';
    end if;
    if (new.run_id, new.resolution, new.target_version_id, new.target_sha256, new.current_version_id, new.emergency_id) is distinct from
       (old.run_id, old.resolution, old.target_version_id, old.target_sha256, old.current_version_id, old.emergency_id)
       or (old.target_object_id is not null and new.target_object_id is distinct from old.target_object_id) or new.owner_epoch < old.owner_epoch then
        raise exception 'a recovery keeps what it was prepared for' using errcode = '23514', constraint = 'recovery_keeps_its_target';
    end if;
    return new;
end $$;
-- +goose StatementEnd
create trigger recovery_keeps_its_target before update or delete on recovery_operations for each row execute function recovery_keeps_its_target();
