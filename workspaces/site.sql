-- What site admins see of workspaces, and how many they allow.

-- name: WorkspaceLimit
-- How many workspaces the organization may have; 0 is as many as it likes.
select coalesce(o.workspace_limit, case when s.limit_workspaces_per_organization then s.workspaces_per_organization end, 0)
  from organizations o, site_settings s where o.id = @organization_id;

-- name: OrganizationHold
-- Those that are made at once wait for each other.
select id from organizations where id = @organization_id for no key update;

-- name: WorkspacesLiving
select count(*) from workspaces where organization_id = @organization_id and deleted_at is null;

-- fragment: SelectedOfSite
   and not @nothing::boolean
   and (@query::text = '' or position(lower(@query::text) in lower(w.name)) > 0 or position(lower(@query::text) in lower(o.name)) > 0)
   and (cardinality(@run_statuses::text[]) = 0
        or exists (select from runs r where r.id = {CurrentRun} and r.durable_status = any(@run_statuses::text[])))

-- name: SiteWorkspaces
select {WorkspaceColumns} {LivingWorkspaces}
{SelectedOfSite}
 order by case @sort::text when 'name' then w.name end collate "C", case @sort when '-name' then w.name end collate "C" desc,
          case @sort when 'current-run.created-at' then w.last_run_at end nulls last,
          case when @sort in ('', '-current-run.created-at') then w.last_run_at end desc nulls last,
          w.name collate "C", w.id
 limit @limit offset @offset;

-- name: SiteWorkspacesCount
select count(*) {LivingWorkspaces}
{SelectedOfSite};
