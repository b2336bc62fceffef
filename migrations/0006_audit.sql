-- +goose Up
-- What was done by whom. Rows are written in the transaction of the action: an
-- action whose row cannot be written does not happen.
create table audit_entries (
    id              text primary key,
    organization_id text references organizations,
    actor_kind      text not null,
    actor_id        text not null,
    action          text not null,
    object_kind     text not null,
    object_id       text not null,
    reason          text not null default '',
    details         jsonb not null default '{}',
    at              timestamptz not null default clock_timestamp()
);
create index audit_entries_organization on audit_entries (organization_id, at desc);

-- +goose StatementBegin
create function audit_is_append_only() returns trigger language plpgsql as $$
begin
    raise exception 'audit entries are not changed or removed' using errcode = '23514', constraint = 'audit_is_append_only';
end $$;
-- +goose StatementEnd
create trigger audit_is_append_only before update or delete on audit_entries for each row execute function audit_is_append_only();
