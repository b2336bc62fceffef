-- +goose Up
-- Which era of the database this is. PostgreSQL empties an unlogged table when it recovers from a crash and
-- on a standby that is promoted, and in both cases it may give out transaction ids that it had given out before.
-- A commit whose answer was lost is believed to be the one of that id only when the era is the same still.
create unlogged table commit_era (
    one boolean primary key default true check (one),
    id  uuid not null default gen_random_uuid()
);
insert into commit_era default values;
