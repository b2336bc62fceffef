-- +goose Up
-- Which request an entry of the audit log was made in, as its answer named it; empty for what the server did by itself.
alter table audit_entries add column request_id text not null default '';
