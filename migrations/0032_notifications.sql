-- +goose Up
-- Notifications: who is told what about runs, and the outbox that the telling is taken from.

create table notification_configurations (
    id               text primary key,
    organization_id  text not null references organizations,
    workspace_id     text,
    project_id       text, -- for all workspaces of the project
    name             text not null,
    destination_type text not null constraint notification_configurations_destination check (destination_type in ('generic', 'slack', 'microsoft-teams', 'email')),
    enabled          boolean not null,
    triggers         text[] not null default '{}',
    url_sealed       bytea, -- sealed like the token: the path of a chat's address is its password
    token_sealed     bytea,
    email_addresses  text[] not null default '{}',
    given_up         integer not null default 0,       -- deliveries given up one after the other
    disabled_reason  text not null default '',         -- why the server, and not a person, has disabled it
    created_at       timestamptz not null default clock_timestamp(),
    updated_at       timestamptz not null default clock_timestamp(),
    unique (organization_id, id),
    foreign key (organization_id, workspace_id) references workspaces (organization_id, id),
    foreign key (organization_id, project_id) references projects (organization_id, id),
    constraint notification_configurations_one_subscriber check ((workspace_id is null) <> (project_id is null)),
    constraint notification_configurations_has_url check ((destination_type = 'email') = (url_sealed is null)),
    constraint notification_configurations_disabled check (disabled_reason = '' or not enabled)
);
create index notification_configurations_workspace on notification_configurations (workspace_id);
create index notification_configurations_project on notification_configurations (project_id);

-- The members of the organization that an email goes to; who leaves it is told no more.
create table notification_users (
    organization_id  text not null,
    configuration_id text not null,
    user_id          text not null,
    primary key (configuration_id, user_id),
    foreign key (organization_id, configuration_id) references notification_configurations (organization_id, id) on delete cascade,
    foreign key (organization_id, user_id) references memberships (organization_id, user_id) on delete cascade
);

-- One message to one receiver: written by the transaction that makes the run's step, with ids
-- only. What the message says is read when it is sent.
create table notification_deliveries (
    id               bigint generated always as identity primary key, -- in whose order a run's messages go out
    organization_id  text not null,
    configuration_id text not null,
    run_id           text, -- null for a verification
    position         integer, -- of the step in the run's history
    trigger          text not null,
    status           text not null default 'pending' constraint notification_deliveries_status check (status in ('pending', 'delivered', 'failed', 'dropped')),
    attempts         integer not null default 0,
    due_at           timestamptz not null default clock_timestamp(),
    leased_until     timestamptz,
    code             integer not null default 0, -- HTTP status of the last answer; 0: there was none
    answer           text not null default '',   -- the beginning of its body
    error            text not null default '',   -- why there was none
    created_at       timestamptz not null default clock_timestamp(),
    ended_at         timestamptz,
    foreign key (organization_id, configuration_id) references notification_configurations (organization_id, id) on delete cascade,
    foreign key (organization_id, run_id) references runs (organization_id, id),
    constraint notification_deliveries_run check ((run_id is null) = (position is null)),
    constraint notification_deliveries_answer check (octet_length(answer) <= 1024),
    constraint notification_deliveries_ended check ((status = 'pending') = (ended_at is null))
);
create index notification_deliveries_pending on notification_deliveries (configuration_id, run_id, id) where status = 'pending';
create index notification_deliveries_log on notification_deliveries (configuration_id, id desc);
create index notification_deliveries_ended on notification_deliveries (ended_at) where status <> 'pending';
