-- +goose Up

-- Whether something was left out of the logs of an attempt, as its runner reports at its end (PL-04).
alter table attempts add column log_truncated boolean not null default false;
