-- +goose Up
-- What stands in front of every start: launch controls, suspension, region, and which releases of the runner may execute.

create table launch_controls (
    singleton      boolean primary key default true constraint launch_controls_singleton check (singleton),
    deny           boolean not null default false,
    reason         text not null default '',
    closed_regions text[] not null default '{}',
    changed_at     timestamptz not null default clock_timestamp()
);
insert into launch_controls default values;

-- An organization without a row is not suspended and has no region.
create table organization_gates (
    organization_id  text primary key references organizations,
    region           text not null default '',
    suspended_at     timestamptz,
    suspended_reason text not null default ''
);

-- Two lists: what may execute, and what may evaluate policies. An empty list allows every release.
create table allowed_releases (
    list       text not null constraint allowed_releases_list check (list in ('runner', 'policy-runtime')),
    version    text not null,
    digest     text not null, -- SHA-256 of the binary, hex
    created_at timestamptz not null default clock_timestamp(),
    primary key (list, version, digest)
);

-- Organizations whose runs must not start now; all of them when the launch controls are gone.
create view closed_organizations as
select o.id as organization_id,
       case when c.deny is null then 'The launch controls cannot be read.'
            when c.deny then 'Launch controls deny new starts. ' || c.reason
            when g.suspended_at is not null then 'The organization is suspended. ' || g.suspended_reason
            else 'Region ' || g.region || ' is closed.'
        end as reason
  from organizations o
  left join organization_gates g on g.organization_id = o.id
  left join launch_controls c on true
 where coalesce(c.deny, true) or g.suspended_at is not null or g.region = any (c.closed_regions);

alter table runs
    add column runner_version text not null default '', -- of the release that planned; pinned by its accept
    add column runner_digest  text not null default '',
    add column waiting_reason text not null default ''; -- why a start was refused, while the run waits to be let through
alter table attempts
    add column runner_version  text not null default '',
    add column runner_digest   text not null default '',
    add column start_denied_at timestamptz; -- a gate refused its apply-start: what did not start goes on waiting
