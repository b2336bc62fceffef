-- +goose Up
-- Run tasks: services of others that are asked about a run before it goes on.

create table run_tasks (
    id                 text primary key,
    organization_id    text not null references organizations,
    name               text not null,
    description        text not null default '',
    enabled            boolean not null default true,
    url_sealed         bytea not null,
    hmac_key_sealed    bytea,
    -- for all workspaces of the organization
    global_enabled     boolean not null default false,
    global_stages      text[] not null default '{}',
    global_enforcement text not null default 'advisory' constraint run_tasks_enforcement check (global_enforcement in ('advisory', 'mandatory')),
    created_at         timestamptz not null default clock_timestamp(),
    unique (organization_id, id),
    constraint run_tasks_name unique (organization_id, name),
    constraint run_tasks_stages check (global_stages <@ array['pre_plan', 'post_plan', 'pre_apply'])
);

create table workspace_tasks (
    id              text primary key,
    organization_id text not null,
    workspace_id    text not null,
    task_id         text not null,
    enforcement     text not null constraint workspace_tasks_enforcement check (enforcement in ('advisory', 'mandatory')),
    stages          text[] not null constraint workspace_tasks_stages check (stages <@ array['pre_plan', 'post_plan', 'pre_apply'] and stages <> '{}'),
    created_at      timestamptz not null default clock_timestamp(),
    constraint workspace_tasks_once unique (workspace_id, task_id),
    foreign key (organization_id, workspace_id) references workspaces (organization_id, id),
    foreign key (organization_id, task_id) references run_tasks (organization_id, id) on delete cascade
);

-- What a round of a run asks, fixed when it begins.
create table task_stages (
    id              text primary key,
    organization_id text not null,
    run_id          text not null,
    round           integer not null,
    stage           text not null constraint task_stages_stage check (stage in ('pre_plan', 'post_plan', 'pre_apply')),
    status          text not null default 'pending' constraint task_stages_status check (status in ('pending', 'running', 'passed', 'failed', 'canceled', 'unreachable')),
    created_at      timestamptz not null default clock_timestamp(),
    started_at      timestamptz,
    ended_at        timestamptz,
    unique (organization_id, id),
    constraint task_stages_once unique (run_id, round, stage),
    foreign key (organization_id, run_id) references runs (organization_id, id),
    constraint task_stages_ended check ((status in ('pending', 'running')) = (ended_at is null))
);
create unique index task_stages_one_running on task_stages (run_id) where status = 'running';

create table task_results (
    id                text primary key,
    organization_id   text not null,
    stage_id          text not null,
    task_id           text not null, -- the task may be gone, and what it said stays
    task_name         text not null,
    workspace_task_id text not null default '', -- empty: it is asked for the whole organization
    enforcement       text not null constraint task_results_enforcement check (enforcement in ('advisory', 'mandatory')),
    status            text not null default 'pending' constraint task_results_status check (status in ('pending', 'running', 'passed', 'failed', 'errored', 'canceled', 'unreachable')),
    message           text not null default '',
    url               text not null default '',
    -- the request: sent by whichever server claims it
    attempts          integer not null default 0,
    due_at            timestamptz not null default clock_timestamp(),
    leased_until      timestamptz,
    accepted_at       timestamptz, -- the service has taken the request
    progress_at       timestamptz, -- its first word after that
    created_at        timestamptz not null default clock_timestamp(),
    updated_at        timestamptz not null default clock_timestamp(),
    ended_at          timestamptz,
    foreign key (organization_id, stage_id) references task_stages (organization_id, id),
    constraint task_results_once unique (stage_id, task_id),
    constraint task_results_ended check ((status in ('pending', 'running')) = (ended_at is null)),
    constraint task_results_running check (status <> 'running' or accepted_at is not null)
);
create index task_results_open on task_results (due_at) where status in ('pending', 'running');

-- What a plan would cost, by the command of the runner that made it.
create table cost_estimates (
    id              text primary key,
    organization_id text not null,
    run_id          text not null,
    round           integer not null,
    object_id       text, -- what the command printed
    error           text not null default '', -- why there are no amounts
    currency        text not null default '',
    prior           text not null default '',
    proposed        text not null default '',
    delta           text not null default '',
    resources       integer not null default 0,
    matched         integer not null default 0,
    created_at      timestamptz not null default clock_timestamp(),
    constraint cost_estimates_one_a_round unique (run_id, round),
    foreign key (organization_id, run_id) references runs (organization_id, id),
    foreign key (organization_id, object_id) references objects (organization_id, id),
    constraint cost_estimates_whole check ((error = '') = (object_id is not null and proposed <> '' and prior <> '' and delta <> ''))
);
create trigger evidence_is_append_only before update or delete on cost_estimates for each row execute function evidence_is_append_only();
create trigger evidence_is_not_emptied before truncate on cost_estimates execute function evidence_is_append_only();
