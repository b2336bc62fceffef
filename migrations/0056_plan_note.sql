-- +goose Up
-- What the server says at the end of a plan's log: what the plan waits for. It is written when the plan
-- is done, because a log that has ended does not change.
alter table runs add column plan_note text not null default '';
