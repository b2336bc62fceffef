-- name: StageEnd
-- The step at hand, if the run is at one. Nobody rejects what a runner executes: it is canceled then. What a runner has worked
-- on gets its receipt.
with ended as (
    update run_stages
       set status = case when kind in ('plan', 'apply') and @status in ('rejected', 'expired') then 'canceled' when status = 'pending' then @unbegun else @status end, finished_at = clock_timestamp()
     where run_id = @run_id and finished_at is null
    returning id, organization_id, run_id, attempt_id, kind, status, finished_at)
insert into run_receipts (id, organization_id, workspace_id, run_id, stage_id, attempt_id, kind, result, reason, exit_code, has_changes, resource_additions, resource_changes,
    resource_destructions, resource_imports, digests, tofu_version, tofu_digest, state_version_id, started_at, finished_at)
select @id, s.organization_id, r.workspace_id, s.run_id, s.id, a.id, s.kind, s.status, @reason, a.exit_code,
    case when done.all then r.has_changes end, case when done.all then r.resource_additions end, case when done.all then r.resource_changes end,
    case when done.all then r.resource_destructions end, case when done.all then r.resource_imports end,
    coalesce((select jsonb_object_agg(t.kind, t.sha256) from attempt_artifacts t where t.attempt_id = a.id), '{}'), a.tofu_version, r.plan_tofu_digest,
    case when s.kind = 'apply' then coalesce(r.resulting_version_id,
        (select v.id from state_versions v where v.attempt_id = a.id and v.status = 'finalized' order by v.finalized_at desc, v.id limit 1),
        case when done.all then r.predecessor_version_id end) end,
    a.accepted_at, greatest(coalesce(a.finished_at, s.finished_at), a.accepted_at)
  from ended s join runs r on r.id = s.run_id join attempts a on a.id = s.attempt_id
       cross join lateral (select s.status = 'succeeded' as "all") as done
 where s.kind in ('plan', 'apply') and a.accepted_at is not null;

-- fragment: StageNew
insert into run_stages (id, organization_id, run_id, position, kind, status, attempt_id, started_at, finished_at)
select @id, @organization_id, @run_id, (select count(*) from run_stages where run_id = @run_id), @kind, @status::text,
    (select a.id from attempts a where a.run_id = @run_id and a.phase = @kind and a.status in ('pending', 'assigned', 'running')),
    case when @status = 'running' then clock_timestamp() end, case when @status not in ('pending', 'running') then clock_timestamp() end

-- name: StageBegin
-- The open stage. A run that an older server accepted has none, and gets it here.
with begun as (
    update run_stages set status = 'running', started_at = clock_timestamp() where run_id = @run_id and kind = @kind and status = 'pending'
    returning id)
{StageNew}
 where not exists (select from begun);

-- name: StageAttempt
-- The newest, until one has begun: a gate may have sent back the one before.
update run_stages set attempt_id = @attempt_id where run_id = @run_id and kind = @kind and status = 'pending';

-- name: StageInsert
{StageNew};

-- name: StageList
select id, run_id, position, kind, status, coalesce(attempt_id, '') as attempt_id, created_at, started_at, finished_at
  from run_stages where run_id = @run_id order by position limit @limit offset @offset;

-- name: StageCount
select count(*) from run_stages where run_id = @run_id;

-- name: ReceiptList
select c.id, c.run_id, c.stage_id, c.attempt_id, c.kind, c.result, c.reason, c.exit_code, c.has_changes, c.resource_additions, c.resource_changes, c.resource_destructions,
    c.resource_imports, c.digests, c.tofu_version, c.tofu_digest, coalesce(c.state_version_id, '') as state_version_id, c.started_at, c.finished_at
  from run_receipts c join run_stages s on s.id = c.stage_id where c.run_id = @run_id order by s.position limit @limit offset @offset;

-- name: ReceiptCount
select count(*) from run_receipts where run_id = @run_id;
