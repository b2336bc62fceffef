-- +goose Up
-- What tells a runner that is gone from one that nobody could hear.

alter table attempts
    -- since when the attempt is missed: it was silent while another runner of its group got through.
    -- Counts only as long as nothing has been heard of the attempt since.
    add column missed_since timestamptz,
    -- how often it was offered and nobody accepted in time
    add column expired_offers integer not null default 0;
