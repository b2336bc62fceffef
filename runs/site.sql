-- What site admins see of runs, and the times that they give them.

-- name: SiteRuns
-- Of all organizations, the newest first.
select {RunColumns}
  from runs r join organizations o on o.id = r.organization_id join workspaces w on w.id = r.workspace_id
 where not @nothing::boolean and (cardinality(@statuses::text[]) = 0 or r.durable_status = any(@statuses))
   and (@since::timestamptz is null or r.created_at >= @since) and (@until::timestamptz is null or r.created_at <= @until)
   and (@query::text = '' or r.id = @query or position(lower(@query) in lower(w.name)) > 0 or position(lower(@query) in lower(o.name)) > 0)
 order by r.queue_seq desc limit @limit offset @offset;

-- name: Overlong
-- The runs whose attempt works longer than their organization, or else the site, gives it. An apply counts from its start.
select r.id, a.phase, l.limit_seconds
  from attempts a
  join runs r on r.id = a.run_id and r.round = a.round
  join organizations o on o.id = r.organization_id, site_settings s,
       lateral (select case when a.phase = 'plan' then coalesce(o.plan_timeout_seconds, s.plan_timeout_seconds) else coalesce(o.apply_timeout_seconds, s.apply_timeout_seconds) end as limit_seconds) l
 where a.status = 'running' and r.cancel_requested_at is null and r.durable_status in ('planning', 'awaiting_approval', 'applying')
   and coalesce(a.apply_started_at, a.accepted_at) < clock_timestamp() - make_interval(secs => l.limit_seconds)
 order by a.accepted_at limit @limit;
