-- +goose Up
-- Which servers may still work on this schema. A migration that only adds leaves the mark
-- alone, so that servers of the release before go on beside those that brought it (expand);
-- one that takes away what they use raises it to its own number (contract).
create table schema_compatibility (
    only_row   boolean primary key default true constraint schema_compatibility_one_row check (only_row),
    min_server integer not null -- the number of the newest migration that a server must know
);
insert into schema_compatibility (min_server) values (16); -- servers before this one do not look at the mark

-- What an operator watches is read from the newest rows only.
create index runs_admitted on runs (admitted_at) where admitted_at is not null;
create index attempts_accepted on attempts (accepted_at) where accepted_at is not null;
