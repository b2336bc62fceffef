-- +goose Up
-- What tells a runner that is gone from one that nobody could hear.

alter table attempts
    -- since when the attempt is missed: it was silent while another runner of its group got through.
    -- Counts only as long as nothing has been heard of the attempt since.
    add column missed_since timestamptz,
    -- how often it was offered and nobody accepted in time
    add column expired_offers integer not null default 0;

-- Whose runs may read a workspace's state beside its own: all of the organization, those of its
-- project, or those of the workspaces that are named.
alter table workspaces
    add column global_remote_state boolean not null default false,
    add column project_remote_state boolean not null default false,
    add constraint workspaces_remote_state check (not (global_remote_state and project_remote_state));

create table remote_state_consumers (
    organization_id text not null,
    workspace_id    text not null, -- whose state is read
    consumer_id     text not null, -- whose runs read it
    created_at      timestamptz not null default clock_timestamp(),
    primary key (workspace_id, consumer_id),
    foreign key (organization_id, workspace_id) references workspaces (organization_id, id),
    foreign key (organization_id, consumer_id) references workspaces (organization_id, id),
    constraint remote_state_consumers_others check (workspace_id <> consumer_id)
);
create index remote_state_consumers_consumer on remote_state_consumers (consumer_id);

-- While it is set, runs that are created stay where they are: dispatch_pending.
alter table launch_controls add column intake_paused boolean not null default false;
create index runs_pending on runs (queue_seq) where durable_status = 'dispatch_pending';
