-- name: Gates
-- Everything that may be closed for an organization; known is false when the launch controls are gone.
select c.deny is not null as known, coalesce(c.deny, true) as deny, coalesce(c.reason, '') as reason,
    coalesce(g.region, '') as region, coalesce(g.region = any (c.closed_regions), false) as region_closed,
    g.suspended_at is not null or x.disabled_at is not null as suspended, coalesce(case when x.disabled_at is not null then 'It is disabled.' end, g.suspended_reason, '') as suspended_reason
  from (values (@organization_id::text)) as o (id)
  left join launch_controls c on true
  left join organizations x on x.id = o.id
  left join organization_gates g on g.organization_id = o.id;

-- name: NotAllowed
-- Whether the list has entries and not this release.
select exists (select from allowed_releases a where a.list = @list)
   and not exists (select from allowed_releases a where a.list = @list and a.version = @version and a.digest = @digest);

-- name: Controls
select deny, reason, closed_regions, intake_paused, changed_at from launch_controls;

-- name: IntakePaused
select coalesce((select intake_paused from launch_controls), false);

-- name: SetControls
-- Put back too when somebody removed the row.
insert into launch_controls (deny, reason, closed_regions, intake_paused) values (@deny, @reason, @closed_regions, @intake_paused)
on conflict (singleton) do update
   set deny = excluded.deny, reason = excluded.reason, closed_regions = excluded.closed_regions, intake_paused = excluded.intake_paused, changed_at = clock_timestamp()
returning deny, reason, closed_regions, intake_paused, changed_at;

-- name: Standing
select coalesce(g.region, '') as region, g.suspended_at, coalesce(g.suspended_reason, '') as suspended_reason
  from organizations o left join organization_gates g on g.organization_id = o.id
 where o.id = @organization_id;

-- name: Regions
select organization_id as id, region from organization_gates where organization_id = any (@ids::text[]) and coalesce(region, '') <> '';

-- name: Suspend
insert into organization_gates (organization_id, suspended_at, suspended_reason) values (@organization_id, clock_timestamp(), @reason)
on conflict (organization_id) do update
   set suspended_at = coalesce(organization_gates.suspended_at, excluded.suspended_at), suspended_reason = excluded.suspended_reason;

-- name: Resume
update organization_gates set suspended_at = null, suspended_reason = '' where organization_id = @organization_id;

-- name: SetRegion
insert into organization_gates (organization_id, region) values (@organization_id, @region)
on conflict (organization_id) do update set region = excluded.region;

-- name: Releases
select version, digest from allowed_releases where list = @list order by version, digest;

-- name: ClearReleases
delete from allowed_releases where list = @list;

-- name: AllowRelease
insert into allowed_releases (list, version, digest) values (@list, @version, @digest) on conflict do nothing;

-- name: NotifyLook
-- Runners that wait should look again: what was kept from them may be open.
select pg_notify('holdfast_attempts', '');
