-- +goose Up
-- Lists count and turn pages in indexes alone. For rows on pages that were changed since the last vacuum PostgreSQL
-- has to look into the table all the same, and by default it vacuums only when a fifth of a table has changed.
alter table workspaces set (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.02);
alter table runs set (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.02);
alter table current_runs set (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.02);
