-- +goose Up
-- What an organization demands of plans, and what its policies said of them.
create table policy_sets (
    id                  text primary key,
    organization_id     text not null references organizations,
    name                text not null,
    description         text not null default '',
    kind                text not null constraint policy_sets_kind check (kind in ('opa', 'sentinel')),
    global              boolean not null default false, -- in scope of every workspace that is not excluded
    overridable         boolean not null default false,
    agent_enabled       boolean not null default false,
    policy_tool_version text not null default '',
    rego_version        text not null default 'v1' constraint policy_sets_rego check (rego_version in ('v0', 'v1')),
    policies_path       text not null default '',
    update_patterns     text[] not null default '{}',
    parameters_revision integer not null default 0, -- grows with every change of a parameter: values are no part of a digest
    created_at          timestamptz not null default clock_timestamp(),
    updated_at          timestamptz not null default clock_timestamp(),
    deleted_at          timestamptz, -- runs that are bound to its versions go on
    unique (organization_id, id)
);
create unique index policy_sets_name on policy_sets (organization_id, name) where deleted_at is null;

create table policy_set_workspaces (
    organization_id text not null,
    policy_set_id   text not null,
    workspace_id    text not null,
    excluded        boolean not null,
    primary key (policy_set_id, workspace_id, excluded),
    foreign key (organization_id, policy_set_id) references policy_sets (organization_id, id),
    foreign key (organization_id, workspace_id) references workspaces (organization_id, id)
);
create index policy_set_workspaces_workspace on policy_set_workspaces (workspace_id);

create table policy_set_projects (
    organization_id text not null,
    policy_set_id   text not null,
    project_id      text not null,
    excluded        boolean not null,
    primary key (policy_set_id, project_id, excluded),
    foreign key (organization_id, policy_set_id) references policy_sets (organization_id, id),
    foreign key (organization_id, project_id) references projects (organization_id, id)
);

-- Policies that are managed one by one, and the sets that they are in.
create table policies (
    id                text primary key,
    organization_id   text not null references organizations,
    name              text not null,
    description       text not null default '',
    kind              text not null constraint policies_kind check (kind in ('opa', 'sentinel')),
    query             text not null default '',
    enforcement_level text not null constraint policies_level check (enforcement_level in ('advisory', 'mandatory', 'soft-mandatory', 'hard-mandatory')),
    path              text not null default '',
    content_sealed    bytea, -- null before the first upload
    content_digest    text not null default '',
    created_at        timestamptz not null default clock_timestamp(),
    updated_at        timestamptz not null default clock_timestamp(),
    constraint policies_name unique (organization_id, name),
    unique (organization_id, id)
);

create table policy_set_policies (
    organization_id text not null,
    policy_set_id   text not null,
    policy_id       text not null,
    primary key (policy_set_id, policy_id),
    foreign key (organization_id, policy_set_id) references policy_sets (organization_id, id),
    foreign key (organization_id, policy_id) references policies (organization_id, id) on delete cascade
);

-- What a set consisted of at one time. A version that is ready never changes.
create table policy_set_versions (
    id              text primary key,
    organization_id text not null,
    policy_set_id   text not null,
    position        bigint generated always as identity,
    source          text not null constraint policy_set_versions_source check (source in ('tfe-api', 'policies')), -- uploaded, or put together of policies
    status          text not null constraint policy_set_versions_status check (status in ('pending', 'ready', 'errored')),
    error           text not null default '',
    bundle_sealed   bytea,
    digest          text not null default '',
    policies        integer not null default 0,
    tests           integer not null default 0,
    runtime_version text not null default '', -- the release of the policy-runner that found it good
    runtime_digest  text not null default '',
    created_at      timestamptz not null default clock_timestamp(),
    updated_at      timestamptz not null default clock_timestamp(),
    unique (organization_id, id),
    foreign key (organization_id, policy_set_id) references policy_sets (organization_id, id),
    constraint policy_set_versions_ready_whole check (status <> 'ready' or (bundle_sealed is not null and digest <> ''))
);
create index policy_set_versions_of on policy_set_versions (policy_set_id, position desc);

create table policy_set_parameters (
    id              text primary key,
    organization_id text not null,
    policy_set_id   text not null,
    key             text not null,
    value_sealed    bytea not null,
    sensitive       boolean not null,
    created_at      timestamptz not null default clock_timestamp(),
    constraint policy_set_parameters_key unique (policy_set_id, key),
    foreign key (organization_id, policy_set_id) references policy_sets (organization_id, id)
);

-- The sets in the scope of a run, as they were when the run, or its round, was made.
create table run_policy_sets (
    organization_id     text not null,
    run_id              text not null,
    round               integer not null,
    policy_set_id       text not null,
    version_id          text not null default '', -- empty: a set of a kind that is not evaluated here
    name                text not null,
    description         text not null,
    kind                text not null,
    overridable         boolean not null,
    digest              text not null,
    parameters_revision integer not null,
    parameters_sealed   bytea,
    primary key (run_id, round, policy_set_id),
    foreign key (organization_id, run_id) references runs (organization_id, id),
    foreign key (organization_id, policy_set_id) references policy_sets (organization_id, id)
);

-- Rows of before know no scope: nothing was in it.
alter table runs
    add column policy_sets    integer not null default 0, -- how many are in its scope
    add column policy_scope   text not null default '',   -- the digest of them, empty when there are none
    add column policy_version text not null default '',   -- the release of the policy-runner that judged its plan
    add column policy_digest  text not null default '';

alter table policy_checks
    add column evaluating_at timestamptz, -- when the input was bound
    add column input_object_id text,
    add column tries           integer not null default 0,
    add column claimed_until   timestamptz, -- an evaluator is at it until then
    add column evaluation      text not null default '', -- the exact bytes that the result digest covers
    add column last_error      text not null default '';
-- What servers from before have recorded, to the byte.
update policy_checks set evaluation = '{"policy_sets":0}' where durable_status <> 'running';
create index policy_checks_running on policy_checks (created_at) where durable_status = 'running';

-- The input is bound once.
-- +goose StatementBegin
create function policy_input_is_bound_once() returns trigger language plpgsql as $$
begin
    if old.input_digest is not null and new.input_digest is distinct from old.input_digest then
        raise exception 'the input of a policy check is bound once' using errcode = '23514', constraint = 'policy_input_is_bound_once';
    end if;
    return new;
end $$;
-- +goose StatementEnd
create trigger policy_input_is_bound_once before update on policy_checks for each row execute function policy_input_is_bound_once();

-- A server from before would let every plan pass.
update schema_compatibility set min_server = 26;
