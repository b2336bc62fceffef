-- +goose NO TRANSACTION
-- +goose Up
-- Lists of an organization with very many workspaces and runs. Everything here is made beside
-- the work that goes on, so nothing waits for it; an index that was left unfinished when its
-- server ended is made anew.

-- Parts of names are looked for by their trigrams. Names are ASCII, which is quicker to compare as such. The extension is part of PostgreSQL, and
-- whoever may create things in the database may create it.
create extension if not exists pg_trgm;

drop index concurrently if exists workspaces_name_parts;
create index concurrently workspaces_name_parts on workspaces using gin (lower(name collate "C") gin_trgm_ops) where deleted_at is null;
drop index concurrently if exists runs_message_parts;
create index concurrently runs_message_parts on runs using gin (lower(message) gin_trgm_ops);

-- The orders that pages are cut from, with all that decides what is on a page: rows before it
-- are counted off in the index alone.
drop index concurrently if exists workspaces_by_run;
create index concurrently workspaces_by_run on workspaces (organization_id, last_run_at desc nulls last, name collate "C") include (id, project_id) where deleted_at is null;
drop index concurrently if exists workspaces_last_run;
drop index concurrently if exists workspaces_by_name;
create index concurrently workspaces_by_name on workspaces (organization_id, name collate "C") include (id, project_id) where deleted_at is null;
drop index concurrently if exists workspaces_of_project;
create index concurrently workspaces_of_project on workspaces (project_id) include (id, organization_id);
drop index concurrently if exists workspaces_project;
drop index concurrently if exists runs_of_workspace;
create index concurrently runs_of_workspace on runs (workspace_id, queue_seq desc) include (id, organization_id, plan_only, durable_status);
drop index concurrently if exists runs_workspace;
drop index concurrently if exists runs_of_organization;
create index concurrently runs_of_organization on runs (organization_id, queue_seq desc) include (id, workspace_id, plan_only, durable_status);
drop index concurrently if exists runs_organization;

-- What workspaces are marked with.
drop index concurrently if exists workspace_tags_of_tag;
create index concurrently workspace_tags_of_tag on workspace_tags (tag_id) include (workspace_id);
drop index concurrently if exists workspace_tags_tag;
drop index concurrently if exists tag_bindings_pair;
create index concurrently tag_bindings_pair on tag_bindings (organization_id, key, value) include (workspace_id);

-- What goes on among very much that has ended.
drop index concurrently if exists runs_unfinished;
create index concurrently runs_unfinished on runs (organization_id, queue_seq) where finished_at is null;
drop index concurrently if exists runs_awaiting_approval;
create index concurrently runs_awaiting_approval on runs (queue_seq) where durable_status = 'awaiting_approval';
drop index concurrently if exists runs_configuration;
create index concurrently runs_configuration on runs (configuration_version_id) where finished_at is null;
drop index concurrently if exists attempts_unfolded;
create index concurrently attempts_unfolded on attempts (finished_at)
    where status in ('finished', 'lost', 'canceled') and ((log_object_id is null and log_size > 0) or (json_log_object_id is null and json_log_size > 0));
