-- +goose Up
-- What services of run tasks have found: the outcomes beside their answers.
alter table task_results add constraint task_results_tenant unique (organization_id, id);
create table task_result_outcomes (
    id              text primary key,
    organization_id text not null,
    result_id       text not null,
    position        bigint generated always as identity,
    outcome_id      text not null constraint task_result_outcomes_outcome_id check (outcome_id <> ''), -- the service's own name for it
    description     text not null,
    body            text not null, -- Markdown
    url             text not null,
    tags            jsonb not null constraint task_result_outcomes_tags check (jsonb_typeof(tags) = 'object'),
    created_at      timestamptz not null default clock_timestamp(),
    foreign key (organization_id, result_id) references task_results (organization_id, id) on delete cascade,
    constraint task_result_outcomes_once unique (result_id, outcome_id)
);
