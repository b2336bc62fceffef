-- +goose NO TRANSACTION
-- +goose Up
-- The current run of each workspace, kept beside it so that workspaces can be looked for by its
-- status. What is current is said by the fragment CurrentRun of workspaces/queries.sql; whoever
-- changes a run that can be current holds the fence row of its workspace.
create table if not exists current_runs (
    workspace_id    text primary key,
    organization_id text not null,
    run_id          text not null,
    status          text not null,
    foreign key (organization_id, workspace_id) references workspaces (organization_id, id) on delete cascade,
    foreign key (organization_id, run_id) references runs (organization_id, id) on delete cascade
);

-- +goose StatementBegin
create or replace function current_run_of(wanted text) returns text language sql stable as $$
    select coalesce(
        (select r.id from runs r where r.workspace_id = wanted and r.fence_epoch is not null and r.fence_released_at is null limit 1),
        (select r.id from runs r where r.workspace_id = wanted and r.durable_status = 'queued' and not r.plan_only and r.admitted_at is null order by r.queue_seq limit 1),
        (select r.id from runs r where r.workspace_id = wanted and r.fence_epoch is not null order by r.fence_epoch desc limit 1))
$$;
-- +goose StatementEnd

-- +goose StatementBegin
create or replace function keep_current_run() returns trigger language plpgsql as $$
begin
    with present as (
        select r.id, r.organization_id, r.durable_status from runs r where r.id = current_run_of(new.workspace_id)
    ), gone as (
        delete from current_runs c where c.workspace_id = new.workspace_id and not exists (select from present)
    )
    insert into current_runs as c (workspace_id, organization_id, run_id, status)
    select new.workspace_id, p.organization_id, p.id, p.durable_status from present p
        on conflict (workspace_id) do update set run_id = excluded.run_id, status = excluded.status
     where (c.run_id, c.status) <> (excluded.run_id, excluded.status);
    return null;
end $$;
-- +goose StatementEnd

create or replace trigger keep_current_run
    after insert or update of durable_status, fence_epoch, fence_released_at, admitted_at, queue_seq on runs
    for each row when (not new.plan_only) execute function keep_current_run();

insert into current_runs (workspace_id, organization_id, run_id, status)
select w.id, w.organization_id, r.id, r.durable_status from workspaces w join runs r on r.id = current_run_of(w.id)
    on conflict do nothing;

drop index concurrently if exists current_runs_status;
create index concurrently current_runs_status on current_runs (organization_id, status) include (workspace_id);
