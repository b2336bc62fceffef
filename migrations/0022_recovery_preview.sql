-- +goose Up
-- An emergency state may follow what its own apply has published, and who holds the lease of
-- a recovery may look for drift before it is committed.
alter table recovery_operations
    add column preview_run_id text,
    add foreign key (organization_id, preview_run_id) references runs (organization_id, id),
    drop constraint recovery_operations_resolution,
    add constraint recovery_operations_resolution check (resolution in ('current_state_verified', 'import_emergency_state', 'import_emergency_successor')),
    drop constraint recovery_operations_import_has_emergency,
    add constraint recovery_operations_import_has_emergency check (resolution not in ('import_emergency_state', 'import_emergency_successor') or emergency_id is not null);

-- What was prepared is what is committed. A server that does not know a resolution cannot
-- commit it either: it would leave the state behind that was to be imported.
-- +goose StatementBegin
create or replace function recovery_keeps_its_target() returns trigger language plpgsql as $$
begin
    if tg_op = 'DELETE' or old.status <> 'prepared' then
        raise exception 'a recovery that has ended does not change' using errcode = '23514', constraint = 'recovery_keeps_its_target';
    end if;
    if (new.run_id, new.resolution, new.target_version_id, new.target_sha256, new.current_version_id, new.emergency_id) is distinct from
       (old.run_id, old.resolution, old.target_version_id, old.target_sha256, old.current_version_id, old.emergency_id)
       or (old.target_object_id is not null and new.target_object_id is distinct from old.target_object_id) or new.owner_epoch < old.owner_epoch then
        raise exception 'a recovery keeps what it was prepared for' using errcode = '23514', constraint = 'recovery_keeps_its_target';
    end if;
    if new.status = 'committed' and new.resolution <> 'current_state_verified'
       and not exists (select from state_versions v where v.id = new.target_version_id and v.status = 'finalized') then
        raise exception 'a recovery that imports has made its target a state' using errcode = '23514', constraint = 'recovery_keeps_its_target';
    end if;
    return new;
end $$;
-- +goose StatementEnd
