-- +goose Up
-- Who must approve a plan: rules of organizations, projects and workspaces, what exactly each decision
-- covers, and the decision about a wait whose time has come.

-- What is said at one place; null is nothing. All that is said at the places around a workspace holds together.
create table approval_rules (
    id                 bigint generated always as identity primary key,
    organization_id    text not null references organizations,
    project_id         text,
    workspace_id       text,
    mode               text constraint approval_rules_mode check (mode in ('manual', 'requester', 'policy')),
    required_approvals integer constraint approval_rules_required check (required_approvals between 1 and 20),
    exclude_requester  boolean,
    reviewer_teams     text[] constraint approval_rules_reviewers check (cardinality(reviewer_teams) between 1 and 20),
    environment_class  text constraint approval_rules_class check (environment_class in ('production', 'other')),
    updated_at         timestamptz not null default clock_timestamp(),
    constraint approval_rules_once unique nulls not distinct (organization_id, project_id, workspace_id),
    constraint approval_rules_place check (project_id is null or workspace_id is null),
    constraint approval_rules_workspace_class check (workspace_id is null or environment_class is null), -- it is the workspace's own column
    foreign key (organization_id, project_id) references projects (organization_id, id) on delete cascade,
    foreign key (organization_id, workspace_id) references workspaces (organization_id, id)
);

-- +goose StatementBegin
create function is_production(workspace text) returns boolean stable language sql as $$
    select exists (select from workspaces w where w.id = workspace
        and (w.environment_class = 'production'
             or exists (select from approval_rules a where a.organization_id = w.organization_id and a.workspace_id is null
                        and (a.project_id is null or a.project_id = w.project_id) and a.environment_class = 'production')))
$$;
-- +goose StatementEnd

-- The rule as it was when the plan came to its decision. Null for runs from before.
alter table runs add column approval_rule jsonb;

alter table approvals
    add column public_id          text not null default 'apv-' || translate(substr(md5(random()::text || clock_timestamp()::text), 1, 16), '0', 'z'),
    add column reviewer_teams     text[] not null default '{}', -- those that the reviewer belonged to when it decided
    add column predecessor_sha256 text not null default '',
    add column binding_digest     text not null default '',
    alter column reviewer_id drop not null,
    drop constraint approvals_source,
    add constraint approvals_source check (source in ('native', 'auto-apply', 'policy')),
    add constraint approvals_reviewer check ((reviewer_id is null) = (source = 'policy')),
    add constraint approvals_public_id unique (public_id);
create unique index approvals_policy_once on approvals (run_id, round) where source = 'policy';
update approvals a set predecessor_sha256 = coalesce((select v.sha256 from state_versions v where v.id = a.predecessor_version_id), '');
update approvals set binding_digest = encode(sha256(convert_to(
    'plan ' || plan_digest || E'\nconfiguration ' || configuration_digest || E'\nlock-file ' || lock_file_digest || E'\nstate ' || predecessor_version_id
    || E'\nstate-sha256 ' || predecessor_sha256 || E'\npolicy ' || policy_result_digest || E'\n', 'UTF8')), 'hex');
alter table approvals add constraint approvals_bound check (binding_digest <> '');

-- A decision stays as it was made. It is spent once.
-- +goose StatementBegin
create function approvals_are_kept() returns trigger language plpgsql as $$
begin
    if tg_op <> 'UPDATE' or old.spent_at is not null or to_jsonb(new) - 'spent_at' <> to_jsonb(old) - 'spent_at' then
        raise exception 'a decision is not changed or removed' using errcode = '23514', constraint = 'approvals_are_kept';
    end if;
    return new;
end $$;
-- +goose StatementEnd
create trigger approvals_are_kept before update or delete on approvals for each row execute function approvals_are_kept();
create trigger approvals_are_not_emptied before truncate on approvals execute function approvals_are_kept();

-- No run is confirmed with fewer approvals than it needs, whatever the program says.
-- +goose StatementBegin
create function runs_confirmed_by_enough() returns trigger language plpgsql as $$
begin
    if (select count(*) from approvals a where a.run_id = new.id and a.round = new.round and a.decision = 'approved')
            < coalesce((new.approval_rule ->> 'required-approvals')::integer, 1) then
        raise exception '% has not enough approvals', new.id using errcode = '23514', constraint = 'runs_confirmed_by_enough';
    end if;
    return new;
end $$;
-- +goose StatementEnd
create trigger runs_confirmed_by_enough before update on runs for each row
    when (old.confirmed_at is null and new.confirmed_at is not null) execute function runs_confirmed_by_enough();

-- What became of a wait for a decision that ended, by its deadline or by a failure. The request is
-- committed first, so that it is not forgotten; then the database decides, under the run's lock.
create table approval_arbitrations (
    organization_id text not null,
    run_id          text not null,
    round           integer not null,
    wait_error      text not null, -- why the wait ended
    requested_at    timestamptz not null default clock_timestamp(),
    outcome         text constraint approval_arbitrations_outcome check (outcome in ('decided', 'pending', 'expired')),
    arbitrated_at   timestamptz,
    primary key (run_id, round, wait_error),
    foreign key (organization_id, run_id) references runs (organization_id, id),
    constraint approval_arbitrations_whole check ((outcome is null) = (arbitrated_at is null))
);
create index approval_arbitrations_open on approval_arbitrations (requested_at) where outcome is null;

-- What a team may do in a workspace gets one more name: to act on production.
alter table team_workspaces drop constraint team_workspaces_levels, add constraint team_workspaces_levels check (cardinality(levels) > 0 and levels <@ array[
        'workspace:read', 'workspace:plan', 'workspace:write', 'workspace:admin',
        'workspace:runs=read', 'workspace:runs=plan', 'workspace:runs=apply', 'workspace:variables=read', 'workspace:variables=write',
        'workspace:state=read-outputs', 'workspace:state=read', 'workspace:state=write', 'workspace:sentinel-mocks', 'workspace:locking',
        'workspace:run-tasks', 'workspace:policy-overrides', 'workspace:run-recover', 'workspace:state-recover', 'workspace:production-act']);
alter table team_projects drop constraint team_projects_levels, add constraint team_projects_levels check (cardinality(levels) > 0 and levels <@ array[
        'project:read', 'project:write', 'project:maintain', 'project:admin',
        'project:settings=read', 'project:settings=update', 'project:settings=delete', 'project:teams=read', 'project:teams=manage',
        'project:variable-sets=read', 'project:variable-sets=write', 'project:create', 'workspace:move', 'workspace:delete',
        'workspace:runs=read', 'workspace:runs=plan', 'workspace:runs=apply', 'workspace:variables=read', 'workspace:variables=write',
        'workspace:state=read-outputs', 'workspace:state=read', 'workspace:state=write', 'workspace:sentinel-mocks', 'workspace:locking',
        'workspace:run-tasks', 'workspace:policy-overrides', 'workspace:run-recover', 'workspace:state-recover', 'workspace:production-act']);

-- A server from before knows no rule, and one approval was enough for it.
update schema_compatibility set min_server = 34;
