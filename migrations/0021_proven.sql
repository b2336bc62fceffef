-- +goose Up
-- A failed apply of which everything is proven may be released without a person, where the
-- workspace says so; and a workspace whose run the database has lost is recovered over the API.

-- What a workspace stands for, and what becomes of its failed applies.
alter table workspaces
    add column environment_class text not null default 'other' constraint workspaces_environment_class check (environment_class in ('production', 'other')),
    add column failed_apply      text not null default 'hold' constraint workspaces_failed_apply check (failed_apply in ('hold', 'release-when-proven')),
    add constraint workspaces_production_is_held check (environment_class <> 'production' or failed_apply = 'hold');

-- Whether tofu left state that it could not publish, as its runner reported; null: it was
-- never reported, or before this was kept.
alter table attempts add column errored_state boolean;

-- The policy is no user. Everybody else still is one.
alter table recovery_operations drop constraint recovery_operations_principal_id_fkey;
alter table recovery_operations add column principal_user_id text generated always as (nullif(principal_id, 'policy')) stored
    constraint recovery_operations_principal references users;

-- Recoveries of workspaces that are held for a run which has ended or is not known. They have
-- no publications to prove and nothing to copy: each is one transaction. The run is no
-- reference: it may be lost.
create table lost_recoveries (
    id                   text primary key,
    organization_id      text not null,
    workspace_id         text not null,
    run_id               text not null,
    principal_id         text not null references users,
    request_digest       text not null,
    reason               text not null,
    held_because         text not null,
    from_epoch           bigint not null,
    current_version_id   text, -- null: there was no state
    current_sha256       text not null default '',
    current_size         bigint not null default 0,
    reservation_epoch    bigint not null,
    committed_at         timestamptz not null default clock_timestamp(),
    foreign key (organization_id, workspace_id) references workspaces (organization_id, id),
    foreign key (workspace_id, current_version_id) references state_versions (workspace_id, id),
    constraint lost_recoveries_once unique (workspace_id, from_epoch)
);
create index workspace_fences_held on workspace_fences (organization_id) where recovery_held;
create index lost_recoveries_run on lost_recoveries (run_id);
create trigger evidence_is_append_only before update or delete on lost_recoveries for each row execute function evidence_is_append_only();
create trigger evidence_is_not_emptied before truncate on lost_recoveries execute function evidence_is_append_only();
