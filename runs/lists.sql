-- The statements about lists of runs.

-- fragment: SelectedRuns
 where r.organization_id = @organization_id
-- when: workspace
   and r.workspace_id = @workspace_id
-- when: sees few
   and r.workspace_id in (select unnest(@visible::text[]) union all select x.id from workspaces x where x.project_id = any(@projects::text[]))
-- when: sees some
   and r.workspace_id in (select x.id from workspaces x where x.id = any(@visible::text[]) or x.project_id = any(@projects::text[]))
-- when: without plans
   and not r.plan_only
-- when: statuses
   and r.durable_status = any(@statuses::text[])
-- when: going on
   and r.finished_at is null
-- when: sources
   and r.source = any(@sources::text[])
-- when: operations
   and case when r.plan_only then 'plan_only' when r.save_plan then 'save_plan' when r.refresh_only then 'refresh_only'
            when r.is_destroy then 'destroy' when r.allow_empty_apply then 'empty_apply' else 'plan_and_apply' end = any(@operations::text[])
-- when: user
   and r.created_by = (select u.id from users u where u.username = @username)
-- when: search
   and (r.id = @search or lower(r.message) like lower(@part::text))
-- when: year
   and r.created_at >= make_timestamptz(@year::int, 1, 1, 0, 0, 0, 'UTC') and r.created_at < make_timestamptz(@year::int + 1, 1, 1, 0, 0, 0, 'UTC')
-- when: last year
   and r.created_at > clock_timestamp() - interval '12 months'
-- when: workspaces
   and r.workspace_id = any(array(select x.id from workspaces x where x.organization_id = @organization_id and x.name = any(@workspaces::text[]) and x.deleted_at is null))
-- when: pools
   and r.workspace_id in (select x.id from workspaces x join runner_groups g on g.id = x.agent_pool_id
                           where x.organization_id = @organization_id and g.name = any(@pools::text[]) and g.deleted_at is null)
-- always

-- fragment: RunIDs
array(select r.id from runs r
{SelectedRuns}
 order by r.queue_seq desc limit @limit offset @offset)

-- name: RunPage
-- planned anew
select (select count(*) from runs r
{SelectedRuns}
       ) as total, {RunIDs} as ids;

-- name: RunsOnPage
-- RunPage without the count.
-- planned anew
select 0::bigint as total, {RunIDs} as ids;

-- name: RunsInOrder
select {RunColumns}
  from runs r join organizations o on o.id = r.organization_id join workspaces w on w.id = r.workspace_id
 where r.id = any(@ids::text[]) order by r.queue_seq desc;
