-- +goose Up
-- What an organization says about who gets in and about its VCS connections, and what it is subscribed to.
alter table organizations
    add column user_tokens_enabled         boolean not null default true,  -- false: no token of a user reaches it
    add column aggregated_commit_status    boolean not null default false, -- these three are kept for whoever says them: there are no VCS connections
    add column passing_commit_statuses     boolean not null default false,
    add column speculative_plan_management boolean not null default false,
    add column feature_set                 text not null default 'business' constraint organizations_feature_set check (feature_set in ('free', 'standard_entitlement', 'business')),
    add column feature_set_ends_at         timestamptz, -- from then on it has what is free
    add constraint organizations_commit_statuses check (not (aggregated_commit_status and passing_commit_statuses));
create index organizations_without_user_tokens on organizations (id) where not user_tokens_enabled;

-- The feature set that holds now, of one that ends.
-- +goose StatementBegin
create function feature_set_now(feature_set text, ends_at timestamptz) returns text volatile language sql as $$
    select case when ends_at <= clock_timestamp() then 'free' else feature_set end
$$;
-- +goose StatementEnd

-- What the free one lacks: tasks that every workspace asks.
-- +goose StatementBegin
create function has_global_run_tasks(feature_set text, ends_at timestamptz) returns boolean volatile language sql as $$
    select feature_set_now(feature_set, ends_at) <> 'free'
$$;
-- +goose StatementEnd
