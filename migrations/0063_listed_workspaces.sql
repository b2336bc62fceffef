-- +goose NO TRANSACTION
-- +goose Up
-- What workspaces are found and put in order by, in a table of its own. Locks, settings and
-- descriptions change the rows of workspaces all the time, and then PostgreSQL has to look into
-- them for each row that it counts in an index; a name, a project or the time of the last run
-- changes seldom. Deleted ones stay in it: so a change is always the same statement, and none is
-- missed by the copy below.
create table if not exists listed_workspaces (
    id              text primary key,
    organization_id text not null,
    project_id      text not null,
    name            text not null,
    last_run_at     timestamptz,
    deleted_at      timestamptz,
    foreign key (organization_id, id) references workspaces (organization_id, id) on delete cascade
);

-- +goose StatementBegin
create or replace function list_workspace() returns trigger language plpgsql as $$
begin
    insert into listed_workspaces (id, organization_id, project_id, name, last_run_at, deleted_at)
    values (new.id, new.organization_id, new.project_id, new.name, new.last_run_at, new.deleted_at)
        on conflict (id) do update
       set organization_id = excluded.organization_id, project_id = excluded.project_id, name = excluded.name,
           last_run_at = excluded.last_run_at, deleted_at = excluded.deleted_at;
    return null;
end $$;
-- +goose StatementEnd

create or replace trigger list_new_workspace
    after insert on workspaces for each row execute function list_workspace();
create or replace trigger list_workspace
    after update of organization_id, project_id, name, last_run_at, deleted_at on workspaces
    for each row when ((old.organization_id, old.project_id, old.name, old.last_run_at, old.deleted_at)
                       is distinct from (new.organization_id, new.project_id, new.name, new.last_run_at, new.deleted_at))
    execute function list_workspace();

insert into listed_workspaces (id, organization_id, project_id, name, last_run_at, deleted_at)
select id, organization_id, project_id, name, last_run_at, deleted_at from workspaces
    on conflict do nothing;

drop index concurrently if exists listed_workspaces_by_run;
create index concurrently listed_workspaces_by_run on listed_workspaces (organization_id, last_run_at desc nulls last, name collate "C") include (id, project_id) where deleted_at is null;
drop index concurrently if exists listed_workspaces_by_name;
create index concurrently listed_workspaces_by_name on listed_workspaces (organization_id, name collate "C") include (id, project_id, last_run_at) where deleted_at is null;
-- Without more in it its entries are kept together by PostgreSQL, so this is the smallest to count in.
drop index concurrently if exists listed_workspaces_of_project;
create index concurrently listed_workspaces_of_project on listed_workspaces (organization_id, project_id) where deleted_at is null;
drop index concurrently if exists listed_workspaces_name_parts;
create index concurrently listed_workspaces_name_parts on listed_workspaces using gin (lower(name collate "C") gin_trgm_ops) where deleted_at is null;

alter table listed_workspaces set (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.02);

drop index concurrently if exists workspaces_by_run;
drop index concurrently if exists workspaces_name_parts;
drop index concurrently if exists workspaces_by_name;

-- Counts need to know at once which pages everybody sees.
vacuum (analyze) listed_workspaces;
