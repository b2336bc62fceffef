-- +goose Up
-- What a run was driven by, its stages as rows, and a receipt of each phase that a runner executed.

-- Servers older than this leave the two as they are by default.
alter table runs
    add column workflow_definition   text not null default 'unrecorded',
    add column application_build_sha text not null default 'unrecorded';

-- +goose StatementBegin
create function run_keeps_its_origin() returns trigger language plpgsql as $$
begin
    if (new.workflow_definition, new.application_build_sha) is distinct from (old.workflow_definition, old.application_build_sha) then
        raise exception 'what a run was made by does not change' using errcode = '23514', constraint = 'run_keeps_its_origin';
    end if;
    return new;
end $$;
-- +goose StatementEnd
create trigger run_keeps_its_origin before update of workflow_definition, application_build_sha on runs for each row execute function run_keeps_its_origin();

-- The steps of a run as people see them. A row is made when the step comes, in the
-- transaction that brings it, and never changes once it has ended.
create table run_stages (
    id              text primary key,
    organization_id text not null,
    run_id          text not null,
    position        integer not null,
    kind            text not null constraint run_stages_kind check (kind in ('plan', 'policy', 'approval', 'apply')),
    status          text not null constraint run_stages_status check (status in ('pending', 'running', 'succeeded', 'failed', 'canceled', 'rejected', 'expired', 'uncertain', 'skipped')),
    attempt_id      text, -- what executes it; null where no runner is asked
    created_at      timestamptz not null default clock_timestamp(),
    started_at      timestamptz,
    finished_at     timestamptz,
    unique (organization_id, id),
    unique (run_id, position),
    foreign key (organization_id, run_id) references runs (organization_id, id),
    foreign key (organization_id, attempt_id) references attempts (organization_id, id),
    constraint run_stages_ended check ((status in ('pending', 'running')) = (finished_at is null)),
    constraint run_stages_started check (status <> 'running' or started_at is not null)
);
-- A run is at one step at a time.
create unique index run_stages_one_open on run_stages (run_id) where finished_at is null;

-- What a phase came to, written in the transaction that ends it.
create table run_receipts (
    id                    text primary key,
    organization_id       text not null,
    workspace_id          text not null,
    run_id                text not null,
    stage_id              text not null,
    attempt_id            text not null,
    kind                  text not null constraint run_receipts_kind check (kind in ('plan', 'apply')),
    result                text not null constraint run_receipts_result check (result in ('succeeded', 'failed', 'canceled', 'uncertain')),
    reason                text not null default '', -- stable code of why, empty on the main path
    exit_code             integer, -- null when no runner reported
    has_changes           boolean, -- these five are null where nothing was planned, or not all of it applied
    resource_additions    integer,
    resource_changes      integer,
    resource_destructions integer,
    resource_imports      integer,
    digests               jsonb not null default '{}', -- SHA-256 of what the attempt handed over, by kind
    tofu_version          text not null,
    tofu_digest           text not null default '',
    state_version_id      text, -- of an apply: the state it left, whose outputs are the receipt's
    started_at            timestamptz not null,
    finished_at           timestamptz not null,
    constraint run_receipts_stage unique (stage_id),
    foreign key (organization_id, run_id) references runs (organization_id, id),
    foreign key (organization_id, stage_id) references run_stages (organization_id, id),
    foreign key (organization_id, attempt_id) references attempts (organization_id, id),
    foreign key (workspace_id, state_version_id) references state_versions (workspace_id, id),
    constraint run_receipts_duration check (finished_at >= started_at)
);
create index run_receipts_run on run_receipts (run_id);

-- Runs from before, from their history: no run had been at one step twice.
with steps as (
    select h.run_id,
        min(at) filter (where to_status = 'queued')            as queued_at,
        min(at) filter (where to_status = 'planning')          as planning_at,
        min(at) filter (where to_status = 'plan_complete')     as planned_at,
        min(at) filter (where to_status = 'policy_evaluating') as evaluating_at,
        min(at) filter (where to_status = 'policy_passed')     as passed_at,
        min(at) filter (where to_status = 'awaiting_approval') as waiting_at,
        min(at) filter (where to_status = 'applying')          as applying_at,
        min(at) filter (where ends)                            as ended_at,
        (array_agg(to_status order by position) filter (where ends))[1] as ending
      from (select run_id, position, to_status, at, to_status in ('succeeded', 'plan_credentials_required', 'plan_failed', 'policy_failed', 'rejected', 'expired', 'canceled',
                'apply_failed', 'apply_start_uncertain', 'apply_interrupted', 'needs_recovery') as ends
              from run_history) h
     group by h.run_id
), stages as (
    select run_id, 0 as place, 'plan' as kind, queued_at as created_at, planning_at as started_at, coalesce(planned_at, ended_at) as finished_at,
        case when planned_at is not null then 'succeeded'
             when ended_at is null and planning_at is null then 'pending'
             when ended_at is null then 'running'
             when ending = 'canceled' then 'canceled'
             else 'failed' end as status
      from steps where queued_at is not null
    union all
    select run_id, 1, 'policy', evaluating_at, evaluating_at, coalesce(passed_at, ended_at),
        case when passed_at is not null then 'succeeded' when ended_at is null then 'running' when ending = 'canceled' then 'canceled' else 'failed' end
      from steps where evaluating_at is not null
    union all
    select s.run_id, 2, 'approval', waiting_at, null, coalesce(r.confirmed_at, ended_at),
        case when r.confirmed_at is not null then 'succeeded' when ended_at is null then 'pending' when ending in ('rejected', 'expired') then ending else 'canceled' end
      from steps s join runs r on r.id = s.run_id where waiting_at is not null
    union all
    select s.run_id, place, kind, ended_at, null, ended_at, 'skipped'
      from steps s join runs r on r.id = s.run_id cross join (values (2, 'approval'), (3, 'apply')) as skipped (place, kind)
     where ending = 'succeeded' and waiting_at is null and not r.plan_only and not r.has_changes
    union all
    select s.run_id, 3, 'apply', r.confirmed_at, applying_at, ended_at,
        case when ended_at is null and applying_at is null then 'pending'
             when ended_at is null then 'running'
             when ending = 'succeeded' then 'succeeded'
             when ending = 'apply_failed' then 'failed'
             when ending in ('canceled', 'apply_interrupted', 'rejected') then 'canceled'
             else 'uncertain' end
      from steps s join runs r on r.id = s.run_id where r.confirmed_at is not null
)
insert into run_stages (id, organization_id, run_id, position, kind, status, attempt_id, created_at, started_at, finished_at)
select 'stg-' || translate(left(md5(s.run_id || s.kind), 16), '0', 'g'), r.organization_id, s.run_id,
    row_number() over (partition by s.run_id order by s.place) - 1, s.kind, s.status,
    (select a.id from attempts a where a.run_id = s.run_id and a.phase = s.kind order by a.created_at desc, a.id limit 1),
    s.created_at, s.started_at, s.finished_at
  from stages s join runs r on r.id = s.run_id;

insert into run_receipts (id, organization_id, workspace_id, run_id, stage_id, attempt_id, kind, result, reason, exit_code, has_changes, resource_additions, resource_changes,
    resource_destructions, resource_imports, digests, tofu_version, tofu_digest, state_version_id, started_at, finished_at)
select 'rcpt-' || translate(left(md5(a.id || s.kind), 16), '0', 'g'), s.organization_id, r.workspace_id, s.run_id, s.id, a.id, s.kind, s.status,
    case when s.status = 'succeeded' and s.kind = 'plan' then '' else r.durable_reason end, a.exit_code,
    case when s.status = 'succeeded' then r.has_changes end, case when s.status = 'succeeded' then r.resource_additions end, case when s.status = 'succeeded' then r.resource_changes end,
    case when s.status = 'succeeded' then r.resource_destructions end, case when s.status = 'succeeded' then r.resource_imports end,
    coalesce((select jsonb_object_agg(t.kind, t.sha256) from attempt_artifacts t where t.attempt_id = a.id), '{}'), a.tofu_version, r.plan_tofu_digest,
    case when s.kind = 'apply' then coalesce(r.resulting_version_id,
        (select v.id from state_versions v where v.attempt_id = a.id and v.status = 'finalized' order by v.finalized_at desc, v.id limit 1),
        case when s.status = 'succeeded' then r.predecessor_version_id end) end,
    a.accepted_at, greatest(coalesce(a.finished_at, s.finished_at), a.accepted_at)
  from run_stages s join runs r on r.id = s.run_id join attempts a on a.id = s.attempt_id
 where s.finished_at is not null and a.accepted_at is not null;

-- Evidence stays as it was written (RE-06, RE-07).
-- +goose StatementBegin
create function evidence_is_append_only() returns trigger language plpgsql as $$
begin
    raise exception 'rows of % are not changed or removed', tg_table_name using errcode = '23514', constraint = 'evidence_is_append_only';
end $$;
-- +goose StatementEnd
create trigger evidence_is_append_only before update or delete on run_receipts for each row execute function evidence_is_append_only();
create trigger evidence_is_append_only before update or delete on run_history for each row execute function evidence_is_append_only();
create trigger evidence_is_not_emptied before truncate on run_receipts execute function evidence_is_append_only();
create trigger evidence_is_not_emptied before truncate on run_history execute function evidence_is_append_only();
create trigger evidence_is_append_only before delete on run_stages for each row execute function evidence_is_append_only();
create trigger evidence_is_append_only_once_ended before update on run_stages for each row when (old.finished_at is not null) execute function evidence_is_append_only();
create trigger evidence_is_not_emptied before truncate on run_stages execute function evidence_is_append_only();
