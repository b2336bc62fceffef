-- +goose Up
-- Intents: what a run is for, and the ways to go on from one: requeue, replan, promote, teardown.

alter table runs
    add column operation                 text not null default 'apply' constraint runs_operation check (operation in ('plan', 'apply', 'destroy', 'plan-only', 'preview', 'teardown')),
    add column round                     integer not null default 1 constraint runs_round check (round >= 1), -- one more after each requeue
    add column source_run_id             text, -- whose plan this run applies
    add column replan_of                 text, -- the run whose plan was not good enough
    add column force_cancel_available_at timestamptz,
    add foreign key (organization_id, source_run_id) references runs (organization_id, id),
    add foreign key (organization_id, replan_of) references runs (organization_id, id);
create index runs_promoted on runs (source_run_id) where source_run_id is not null;

-- The runs there are.
-- +goose StatementBegin
create function is_speculative(configuration_version text) returns boolean stable language sql as $$
    select speculative from configuration_versions where id = configuration_version
$$;
-- +goose StatementEnd
alter table runs alter column operation type text using
    case when plan_only and is_speculative(configuration_version_id) then 'preview' when plan_only then 'plan-only' when save_plan then 'plan' when is_destroy then 'destroy' else 'apply' end;
alter table runs alter column force_cancel_available_at type timestamptz using cancel_requested_at + interval '5 minutes';
drop function is_speculative(text);

insert into run_transitions (from_status, to_status) values
    ('dispatch_pending', 'awaiting_approval'),
    ('awaiting_approval', 'succeeded'),
    ('plan_failed', 'queued'),
    ('plan_credentials_required', 'queued'),
    ('policy_failed', 'queued'),
    ('canceled', 'queued');

-- What belongs to one round of a run: the evidence of earlier ones is kept and does not count any more.
alter table attempts add column round integer not null default 1;
alter table policy_checks add column round integer not null default 1;
alter table policy_checks drop constraint policy_checks_run_id_key, add constraint policy_checks_one_a_round unique (run_id, round);
alter table approvals add column round integer not null default 1;
alter table approvals drop constraint approvals_one_each, add constraint approvals_one_each unique (run_id, reviewer_id, round);

-- A run whose apply has begun is never begun again.
-- +goose StatementBegin
create function run_requeues_before_its_apply() returns trigger language plpgsql as $$
begin
    if exists (select 1 from attempts a where a.run_id = new.id and a.apply_started_at is not null) then
        raise exception 'the apply of % has begun', new.id using errcode = '23514', constraint = 'run_requeues_before_its_apply';
    end if;
    return new;
end $$;
-- +goose StatementEnd
create trigger run_requeues_before_its_apply before update on runs for each row
    when (new.durable_status = 'queued' and old.durable_status not in ('queued', 'dispatch_pending')) execute function run_requeues_before_its_apply();

-- The bytes of a torn down workspace's configurations are given up.
alter table configuration_versions drop constraint configuration_versions_status,
    add constraint configuration_versions_status check (status in ('pending', 'uploaded', 'errored', 'archived'));
