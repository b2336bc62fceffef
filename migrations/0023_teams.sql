-- +goose Up
-- Teams, what they may do, and tokens that act for a team or an organization.
-- The server of before goes on to work on this schema: it reads roles as it did, and does not find tokens without a user.

-- That a user belongs to an organization is a thing of its own. Who is invited has no rights yet.
alter table memberships
    add column id text not null default 'ou-' || translate(substr(md5(random()::text || clock_timestamp()::text), 1, 16), '0', 'z'),
    add column status text not null default 'active' constraint memberships_status check (status in ('active', 'invited')),
    add constraint memberships_id unique (id);

alter table users
    add column service_account boolean not null default false, -- work done by a team's token is written down in its name; nobody signs in as it
    add column invited boolean not null default false, -- only an address so far; the user made with that address takes its place
    add constraint users_invited check (not invited or (not site_admin and not service_account and password_hash is null));
create index users_email on users (lower(email)) where email <> '';

create table teams (
    id                            text primary key,
    organization_id               text not null references organizations,
    name                          text not null,
    is_owners                     boolean not null default false, -- its members are those whose membership has the role owner
    visibility                    text not null default 'secret' constraint teams_visibility check (visibility in ('secret', 'organization')),
    allow_member_token_management boolean not null default true,
    sso_team_id                   text,
    organization_access           text[] not null default '{}' constraint teams_organization_access check (organization_access <@ array[
        'manage-policies', 'manage-policy-overrides', 'delegate-policy-overrides', 'manage-workspaces', 'manage-projects', 'read-workspaces',
        'read-projects', 'manage-vcs-settings', 'manage-providers', 'manage-modules', 'manage-run-tasks', 'manage-membership', 'manage-teams',
        'manage-organization-access', 'access-secret-teams', 'manage-agent-pools']),
    service_user_id               text constraint teams_service_user unique references users,
    created_at                    timestamptz not null default clock_timestamp(),
    unique (organization_id, id),
    constraint teams_name unique (organization_id, name)
);
create unique index teams_owners on teams (organization_id) where is_owners;

create table team_memberships (
    organization_id text not null,
    team_id         text not null,
    user_id         text not null,
    created_at      timestamptz not null default clock_timestamp(),
    primary key (team_id, user_id),
    foreign key (organization_id, team_id) references teams (organization_id, id) on delete cascade,
    foreign key (organization_id, user_id) references memberships (organization_id, user_id) on delete cascade
);
create index team_memberships_user on team_memberships (user_id);

-- +goose StatementBegin
create function team_memberships_owners() returns trigger language plpgsql as $$
begin
    if exists (select from teams where id = new.team_id and is_owners) then
        raise exception 'the members of the owners team are those with the role owner' using errcode = '23514', constraint = 'team_memberships_owners';
    end if;
    return new;
end $$;
-- +goose StatementEnd
create trigger team_memberships_owners before insert or update on team_memberships for each row execute function team_memberships_owners();

-- What a team may do in a workspace or a project: names of levels of package authz. Several are a custom access.
create table team_workspaces (
    id              text primary key,
    organization_id text not null,
    team_id         text not null,
    workspace_id    text not null,
    levels          text[] not null constraint team_workspaces_levels check (cardinality(levels) > 0 and levels <@ array[
        'workspace:read', 'workspace:plan', 'workspace:write', 'workspace:admin',
        'workspace:runs=read', 'workspace:runs=plan', 'workspace:runs=apply', 'workspace:variables=read', 'workspace:variables=write',
        'workspace:state=read-outputs', 'workspace:state=read', 'workspace:state=write', 'workspace:sentinel-mocks', 'workspace:locking',
        'workspace:run-tasks', 'workspace:policy-overrides', 'workspace:run-recover', 'workspace:state-recover']),
    created_at      timestamptz not null default clock_timestamp(),
    constraint team_workspaces_once unique (team_id, workspace_id),
    foreign key (organization_id, team_id) references teams (organization_id, id) on delete cascade,
    foreign key (organization_id, workspace_id) references workspaces (organization_id, id)
);
create index team_workspaces_workspace on team_workspaces (workspace_id);

create table team_projects (
    id              text primary key,
    organization_id text not null,
    team_id         text not null,
    project_id      text not null,
    levels          text[] not null constraint team_projects_levels check (cardinality(levels) > 0 and levels <@ array[
        'project:read', 'project:write', 'project:maintain', 'project:admin',
        'project:settings=read', 'project:settings=update', 'project:settings=delete', 'project:teams=read', 'project:teams=manage',
        'project:variable-sets=read', 'project:variable-sets=write', 'project:create', 'workspace:move', 'workspace:delete',
        'workspace:runs=read', 'workspace:runs=plan', 'workspace:runs=apply', 'workspace:variables=read', 'workspace:variables=write',
        'workspace:state=read-outputs', 'workspace:state=read', 'workspace:state=write', 'workspace:sentinel-mocks', 'workspace:locking',
        'workspace:run-tasks', 'workspace:policy-overrides', 'workspace:run-recover', 'workspace:state-recover']),
    created_at      timestamptz not null default clock_timestamp(),
    constraint team_projects_once unique (team_id, project_id),
    foreign key (organization_id, team_id) references teams (organization_id, id) on delete cascade,
    foreign key (organization_id, project_id) references projects (organization_id, id) on delete cascade
);
create index team_projects_project on team_projects (project_id);

-- A token acts for a user, a team or an organization.
alter table tokens
    alter column user_id drop not null,
    add column kind text not null default 'user' constraint tokens_kind check (kind in ('user', 'team', 'organization', 'audit-trails')),
    add column organization_id text references organizations,
    add column team_id text,
    add column created_by text references users, -- null: the server's operator
    add foreign key (organization_id, team_id) references teams (organization_id, id) on delete cascade,
    add constraint tokens_whose check ((kind = 'user') = (user_id is not null) and (kind = 'user') = (organization_id is null) and (kind = 'team') = (team_id is not null));
create unique index tokens_one_of_organization on tokens (organization_id, kind) where kind in ('organization', 'audit-trails') and revoked_at is null;
create unique index tokens_team_description on tokens (team_id, description) where kind = 'team' and revoked_at is null;

-- Every organization has its owners team from its first instant, whichever server makes it.
-- +goose StatementBegin
create function organizations_owners() returns trigger language plpgsql as $$
begin
    insert into teams (id, organization_id, name, is_owners, visibility)
    values ('team-' || translate(substr(md5(random()::text || new.id), 1, 16), '0', 'z'), new.id, 'owners', true, 'organization');
    return null;
end $$;
-- +goose StatementEnd
create trigger organizations_owners after insert on organizations for each row execute function organizations_owners();
insert into teams (id, organization_id, name, is_owners, visibility)
select 'team-' || translate(substr(md5(random()::text || id), 1, 16), '0', 'z'), id, 'owners', true, 'organization' from organizations;

-- A member could read everything until now. A team keeps that right for those who had it.
insert into teams (id, organization_id, name, organization_access)
select 'team-' || translate(substr(md5(random()::text || id), 1, 16), '0', 'z'), id, 'members', '{read-workspaces,read-projects}'
  from organizations o where exists (select from memberships m where m.organization_id = o.id and m.role = 'member');
insert into team_memberships (organization_id, team_id, user_id)
select t.organization_id, t.id, m.user_id
  from teams t join memberships m on m.organization_id = t.organization_id and m.role = 'member'
 where t.name = 'members';
