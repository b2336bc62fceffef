-- +goose NO TRANSACTION
-- +goose Up
-- A search by letters compares each name in lower case. That is half of what the search costs where
-- the letters are too few for the index of parts, so it is done once, when the name is given.
alter table listed_workspaces add column if not exists lower_name text collate "C" generated always as (lower(name collate "C")) stored;

drop index concurrently if exists listed_workspaces_lower_name_parts;
create index concurrently listed_workspaces_lower_name_parts on listed_workspaces using gin (lower_name gin_trgm_ops) where deleted_at is null;
drop index concurrently if exists listed_workspaces_name_parts;

-- What a tag, a pair or a status finds is counted without the workspaces, less those that are deleted.
drop index concurrently if exists listed_workspaces_deleted;
create index concurrently listed_workspaces_deleted on listed_workspaces (organization_id, id) where deleted_at is not null;

vacuum (analyze) listed_workspaces;
