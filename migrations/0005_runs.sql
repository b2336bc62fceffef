-- +goose Up
-- Configuration versions, runs, their history, attempts, logs and decisions.

create table configuration_versions (
    id                text primary key,
    organization_id   text not null,
    workspace_id      text not null,
    status            text not null default 'pending' constraint configuration_versions_status check (status in ('pending', 'uploaded', 'errored')),
    error             text not null default '',
    auto_queue_runs   boolean not null default true,
    speculative       boolean not null default false,
    provisional       boolean not null default false,
    object_id         text,
    captured_at       timestamptz, -- a run uses it: from here on its bytes are fixed
    created_by        text references users,
    created_at        timestamptz not null default clock_timestamp(),
    uploaded_at       timestamptz,
    unique (organization_id, id),
    foreign key (organization_id, workspace_id) references workspaces (organization_id, id),
    foreign key (organization_id, object_id) references objects (organization_id, id),
    constraint configuration_versions_uploaded_whole check ((status = 'uploaded') = (object_id is not null))
);
create index configuration_versions_workspace on configuration_versions (workspace_id, created_at desc);

create sequence run_queue_seq;

create table runs (
    id                       text primary key,
    plan_id                  text not null unique,
    apply_id                 text not null unique,
    organization_id          text not null,
    workspace_id             text not null,
    durable_status           text not null default 'dispatch_pending',
    durable_reason           text not null default '',
    status_message           text not null default '', -- what a person should know about the reason
    queue_seq                bigint not null,
    -- what was asked for: fixed at creation
    message                  text not null default '',
    source                   text not null default 'tfe-api',
    created_by               text not null references users,
    plan_only                boolean not null default false,
    save_plan                boolean not null default false,
    is_destroy               boolean not null default false,
    refresh                  boolean not null default true,
    refresh_only             boolean not null default false,
    auto_apply               boolean not null default false,
    allow_empty_apply        boolean not null default false,
    target_addrs             text[] not null default '{}',
    replace_addrs            text[] not null default '{}',
    configuration_version_id text not null,
    configuration_object_id  text not null,
    terraform_version        text not null default '',
    working_directory        text not null default '',
    run_variables_sealed     bytea not null, -- as the client sent them, for showing
    variables_sealed         bytea not null, -- all of them, as the runner gets them
    -- admission to the workspace
    predecessor_version_id   text,
    admitted_at              timestamptz,
    fence_epoch              bigint,
    fence_released_at        timestamptz,
    -- the plan
    has_changes              boolean,
    resource_additions       integer not null default 0,
    resource_changes         integer not null default 0,
    resource_destructions    integer not null default 0,
    resource_imports         integer not null default 0,
    plan_object_id           text,
    plan_json_object_id      text,
    lock_file_object_id      text,
    plan_tofu_version        text not null default '',
    plan_tofu_digest         text not null default '',
    plan_finished_at         timestamptz,
    -- the decision
    approval_expires_at      timestamptz,
    confirmed_at             timestamptz,
    -- the end
    cancel_requested_at      timestamptz,
    cancel_requested_by      text references users,
    resulting_version_id     text,
    recovered_at             timestamptz,
    recovered_reason         text not null default '',
    created_at               timestamptz not null default clock_timestamp(),
    finished_at              timestamptz,
    unique (organization_id, id),
    foreign key (organization_id, workspace_id) references workspaces (organization_id, id),
    foreign key (workspace_id, predecessor_version_id) references state_versions (workspace_id, id),
    foreign key (workspace_id, resulting_version_id) references state_versions (workspace_id, id),
    foreign key (organization_id, configuration_version_id) references configuration_versions (organization_id, id),
    foreign key (organization_id, configuration_object_id) references objects (organization_id, id),
    foreign key (organization_id, plan_object_id) references objects (organization_id, id),
    foreign key (organization_id, plan_json_object_id) references objects (organization_id, id),
    foreign key (organization_id, lock_file_object_id) references objects (organization_id, id),
    constraint runs_fence_release check (fence_released_at is null or fence_epoch is not null),
    constraint runs_deadline_with_approval check (durable_status <> 'awaiting_approval' or approval_expires_at is not null)
);
-- At most one run occupies a workspace (QP-01).
create unique index runs_one_active on runs (workspace_id) where fence_epoch is not null and fence_released_at is null;
create index runs_workspace on runs (workspace_id, queue_seq desc);
create index runs_queue on runs (workspace_id, queue_seq) where durable_status in ('dispatch_pending', 'queued');
create index runs_had_workspace on runs (workspace_id, fence_epoch desc) where fence_epoch is not null;
create index runs_organization on runs (organization_id, queue_seq desc);

-- The table of allowed transitions; runs/transitions.go and docs/run-states.md say the same, and a test compares the three.
create table run_transitions (
    from_status text not null,
    to_status   text not null,
    primary key (from_status, to_status)
);
insert into run_transitions (from_status, to_status) values
    ('dispatch_pending', 'queued'),
    ('dispatch_pending', 'canceled'),
    ('queued', 'planning'),
    ('queued', 'plan_failed'),
    ('queued', 'plan_credentials_required'),
    ('queued', 'canceled'),
    ('planning', 'plan_complete'),
    ('planning', 'plan_failed'),
    ('planning', 'plan_credentials_required'),
    ('planning', 'canceled'),
    ('plan_complete', 'policy_evaluating'),
    ('plan_complete', 'canceled'),
    ('policy_evaluating', 'policy_passed'),
    ('policy_evaluating', 'policy_failed'),
    ('policy_evaluating', 'canceled'),
    ('policy_passed', 'awaiting_approval'),
    ('policy_passed', 'succeeded'),
    ('awaiting_approval', 'applying'),
    ('awaiting_approval', 'rejected'),
    ('awaiting_approval', 'expired'),
    ('awaiting_approval', 'canceled'),
    ('awaiting_approval', 'apply_failed'),
    ('applying', 'succeeded'),
    ('applying', 'apply_failed'),
    ('applying', 'apply_start_uncertain'),
    ('applying', 'apply_interrupted'),
    ('applying', 'needs_recovery'),
    ('apply_failed', 'needs_recovery'),
    ('apply_start_uncertain', 'needs_recovery'),
    ('apply_interrupted', 'needs_recovery');

create table run_history (
    run_id      text not null references runs,
    position    integer not null,
    from_status text not null,
    to_status   text not null,
    reason      text not null default '',
    actor_kind  text not null,
    actor_id    text not null,
    at          timestamptz not null default clock_timestamp(),
    primary key (run_id, position),
    foreign key (from_status, to_status) references run_transitions
);

-- +goose StatementBegin
create function run_steps_by_the_table() returns trigger language plpgsql as $$
begin
    if tg_op = 'INSERT' then
        if new.durable_status <> 'dispatch_pending' then
            raise exception 'a run begins as dispatch_pending' using errcode = '23514', constraint = 'run_steps_by_the_table';
        end if;
    elsif new.durable_status <> old.durable_status
            and not exists (select 1 from run_transitions t where t.from_status = old.durable_status and t.to_status = new.durable_status) then
        raise exception 'a run cannot go from % to %', old.durable_status, new.durable_status using errcode = '23514', constraint = 'run_steps_by_the_table';
    end if;
    return new;
end $$;
-- +goose StatementEnd
create trigger run_steps_by_the_table before insert or update on runs for each row execute function run_steps_by_the_table();

-- The policy check that a finished plan reserves. Without a policy set in scope it
-- is recorded as passed over that very plan in the same transaction (amendment 1).
create table policy_checks (
    id             text primary key,
    run_id         text not null unique references runs,
    durable_status text not null constraint policy_checks_status check (durable_status in ('running', 'passed', 'failed', 'errored')),
    input_digest   text,
    result         jsonb,
    result_digest  text,
    created_at     timestamptz not null default clock_timestamp(),
    completed_at   timestamptz,
    constraint policy_checks_complete check (durable_status = 'running' or (input_digest is not null and result is not null and result_digest is not null and completed_at is not null))
);

-- One row per human (or recorded automatic) decision, with the digests it covers.
create table approvals (
    id                     bigint generated always as identity primary key,
    run_id                 text not null references runs,
    reviewer_id            text not null references users,
    requester_id           text not null references users,
    decision               text not null constraint approvals_decision check (decision in ('approved', 'rejected')),
    source                 text not null constraint approvals_source check (source in ('native', 'auto-apply')),
    comment                text not null default '',
    plan_digest            text not null,
    configuration_digest   text not null,
    lock_file_digest       text not null,
    predecessor_version_id text not null default '',
    policy_result_digest   text not null,
    decided_at             timestamptz not null default clock_timestamp(),
    spent_at               timestamptz, -- an approval starts one apply, once
    constraint approvals_one_each unique (run_id, reviewer_id)
);

-- The exact versions of OpenTofu that a group has said it can execute.
create table runner_group_versions (
    group_id text not null references runner_groups,
    version  text not null,
    primary key (group_id, version)
);

create table runners (
    id           text primary key,
    group_id     text not null references runner_groups,
    name         text not null,
    status       text not null default 'not_ready' constraint runners_status check (status in ('not_ready', 'ready')),
    created_at   timestamptz not null default clock_timestamp(),
    last_seen_at timestamptz not null default clock_timestamp()
);

create table attempts (
    id                    text primary key,
    organization_id       text not null,
    workspace_id          text not null,
    run_id                text not null,
    phase                 text not null constraint attempts_phase check (phase in ('plan', 'apply')),
    status                text not null default 'pending' constraint attempts_status check (status in ('pending', 'assigned', 'running', 'finished', 'lost', 'canceled')),
    fence_epoch           bigint, -- null for a plan that never locks
    runner_id             text,
    group_id              text references runner_groups,
    assignment_expires_at timestamptz,
    accepted_at           timestamptz,
    sandbox_id            text not null default '',
    token_expires_at      timestamptz, -- end of all authority (AU-20); the token itself is derived, not stored
    manifest              bytea,
    manifest_digest       text not null default '',
    heartbeat_at          timestamptz,
    stop_requested_at     timestamptz,
    apply_started_at      timestamptz,
    tofu_version          text not null, -- exact; only a runner that has it is offered the attempt
    speculative           boolean not null default false, -- waits behind attempts that are not
    state_confirmed_id    text,
    state_confirmed_at    timestamptz,
    exit_code             integer,
    outcome               text not null default '',
    done_digest           text not null default '', -- of the accepted done report: a repeat is the same, another is refused
    log_size              bigint not null default 0,
    log_object_id         text,
    created_at            timestamptz not null default clock_timestamp(),
    finished_at           timestamptz,
    unique (organization_id, id),
    foreign key (organization_id, run_id) references runs (organization_id, id),
    foreign key (organization_id, workspace_id) references workspaces (organization_id, id),
    foreign key (workspace_id, state_confirmed_id) references state_versions (workspace_id, id),
    foreign key (organization_id, log_object_id) references objects (organization_id, id),
    constraint attempts_started_is_apply check (apply_started_at is null or phase = 'apply')
);
create unique index attempts_one_per_phase on attempts (run_id, phase) where status in ('pending', 'assigned', 'running');
create index attempts_pending on attempts (created_at) where status = 'pending';
create index attempts_open on attempts (status) where status in ('assigned', 'running');
create index attempts_run on attempts (run_id);

-- What an attempt hands over, by kind, at most once each: evidence is immutable (RL-15).
create table attempt_artifacts (
    attempt_id      text not null,
    organization_id text not null,
    kind            text not null,
    object_id       text not null,
    sha256          text not null,
    primary key (attempt_id, kind),
    foreign key (organization_id, attempt_id) references attempts (organization_id, id),
    foreign key (organization_id, object_id) references objects (organization_id, id)
);

-- The log while the attempt runs; folded into one sealed object when it ends.
create table log_chunks (
    attempt_id text not null references attempts,
    start_at   bigint not null,
    size       integer not null,
    sha256     text not null,
    sealed     bytea not null,
    primary key (attempt_id, start_at)
);
