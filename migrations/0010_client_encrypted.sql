-- +goose Up
-- A workspace may insist that clients encrypt its state.

alter table workspaces add column client_encrypted boolean not null default false;
