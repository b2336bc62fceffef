-- +goose Up
-- Structured run output: a second log of an attempt, and what clients draw a plan from.

alter table workspaces alter column structured_run_output_enabled set default true;
update workspaces set structured_run_output_enabled = true where not structured_run_output_enabled;

alter table runs
    add column structured_output            boolean not null default false, -- clients draw the run by themselves; settled when a runner accepts the plan
    add column generate_config              boolean not null default false, -- asked for: write configuration for what is imported without any
    add column generated_config             boolean not null default false, -- there is some in the redacted plan
    add column plan_json_redacted_object_id text,
    add foreign key (organization_id, plan_json_redacted_object_id) references objects (organization_id, id);

alter table attempts
    add column json_log           boolean not null default false, -- the attempt has a log of events beside the human one
    add column json_log_size      bigint not null default 0,
    add column json_log_object_id text,
    add foreign key (organization_id, json_log_object_id) references objects (organization_id, id),
    add constraint attempts_json_log check (json_log or json_log_size = 0);

alter table log_chunks add column stream text not null default 'human' constraint log_chunks_stream check (stream in ('human', 'json'));
alter table log_chunks drop constraint log_chunks_pkey;
alter table log_chunks add primary key (attempt_id, stream, start_at);
