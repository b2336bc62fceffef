-- +goose NO TRANSACTION
-- +goose Up
-- A search by letters compares each name in lower case. That is half of what the search costs where
-- the letters are too few for the index of parts, so it is done once, when the name is given.
alter table listed_workspaces add column if not exists lower_name text collate "C";

-- +goose StatementBegin
create or replace function list_workspace() returns trigger language plpgsql as $$
begin
    insert into listed_workspaces (id, organization_id, project_id, name, lower_name, last_run_at, deleted_at)
    values (new.id, new.organization_id, new.project_id, new.name, lower(new.name collate "C"), new.last_run_at, new.deleted_at)
        on conflict (id) do update
       set organization_id = excluded.organization_id, project_id = excluded.project_id, name = excluded.name, lower_name = excluded.lower_name,
           last_run_at = excluded.last_run_at, deleted_at = excluded.deleted_at;
    return null;
end $$;
-- +goose StatementEnd

-- In small pieces, which whoever changes one of the rows does not wait long for. (A column that
-- PostgreSQL fills by itself has the whole table written anew, and lists that wait for it find it empty.)
-- +goose StatementBegin
do $$
begin
    loop
        update listed_workspaces set lower_name = lower(name collate "C")
         where id in (select id from listed_workspaces where lower_name is null limit 5000);
        exit when not found;
        commit;
    end loop;
end $$;
-- +goose StatementEnd

drop index concurrently if exists listed_workspaces_lower_name_parts;
create index concurrently listed_workspaces_lower_name_parts on listed_workspaces using gin (lower_name gin_trgm_ops) where deleted_at is null;
drop index concurrently if exists listed_workspaces_name_parts;

-- What a tag, a pair or a status finds is counted without the workspaces, less those that are deleted.
drop index concurrently if exists listed_workspaces_deleted;
create index concurrently listed_workspaces_deleted on listed_workspaces (organization_id, id) where deleted_at is not null;

-- How many living workspaces each project has, as rows to add up. Whoever changes the number puts
-- its own row in place of those that nobody else is changing, so nobody waits for anybody and
-- hardly more than one row is left.
create table if not exists workspace_counts (
    organization_id text not null,
    project_id      text not null,
    living          bigint not null
);
create index if not exists workspace_counts_of on workspace_counts (organization_id, project_id);

-- +goose StatementBegin
create or replace function count_workspaces(organization text, project text, change bigint) returns void language sql as $$
    with earlier as (
        select c.ctid from workspace_counts c where c.organization_id = organization and c.project_id = project for update skip locked
    ), taken as (
        delete from workspace_counts c using earlier e where c.ctid = e.ctid returning c.living
    )
    insert into workspace_counts (organization_id, project_id, living) select organization, project, change + coalesce(sum(living), 0) from taken
$$;
-- +goose StatementEnd

-- +goose StatementBegin
create or replace function count_workspace() returns trigger language plpgsql as $$
begin
    if tg_op <> 'INSERT' and old.deleted_at is null then
        perform count_workspaces(old.organization_id, old.project_id, -1);
    end if;
    if tg_op <> 'DELETE' and new.deleted_at is null then
        perform count_workspaces(new.organization_id, new.project_id, 1);
    end if;
    return null;
end $$;
-- +goose StatementEnd

-- +goose StatementBegin
do $$
begin
    lock table listed_workspaces in share row exclusive mode; -- what is counted now and what is counted from now on meet here
    if not exists (select from pg_trigger where tgrelid = 'listed_workspaces'::regclass and tgname = 'count_workspace') then
        create trigger count_new_workspace
            after insert or delete on listed_workspaces for each row execute function count_workspace();
        create trigger count_workspace
            after update of organization_id, project_id, deleted_at on listed_workspaces for each row
            when ((old.organization_id, old.project_id, old.deleted_at is null) is distinct from (new.organization_id, new.project_id, new.deleted_at is null))
            execute function count_workspace();
        insert into workspace_counts (organization_id, project_id, living)
        select organization_id, project_id, count(*) from listed_workspaces where deleted_at is null group by 1, 2;
    end if;
end $$;
-- +goose StatementEnd

-- The planner hears soon of many that are deleted.
alter table listed_workspaces set (autovacuum_analyze_scale_factor = 0.02);

vacuum (analyze) listed_workspaces, workspace_counts;
