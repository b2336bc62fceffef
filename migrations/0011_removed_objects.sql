-- +goose Up
-- When the bytes of a discarded object were removed from the store; its row stays.

alter table objects add column removed_at timestamptz
    constraint objects_removed_were_discarded check (removed_at is null or status = 'discarded');
create index objects_discarded on objects (discarded_at) where status = 'discarded' and removed_at is null;
