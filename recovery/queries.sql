-- The statements of package recovery. Instants are clock_timestamp().

-- fragment: EmergencyColumns
e.id, e.organization_id, e.workspace_id, e.run_id, e.attempt_id, e.sandbox_id, e.object_id, e.size, e.sha256, e.serial, coalesce(e.lineage, '') as lineage,
    e.client_encrypted, e.terraform_version, e.resource_count, e.normalized_serial, coalesce(e.normalized_size, 0) as normalized_size,
    coalesce(e.normalized_sha256, '') as normalized_sha256, e.obstacle, e.late, e.received_at

-- fragment: OperationColumns
-- What is left of the lease is counted by the database's clock (RC-51, RC-52).
o.id, o.organization_id, o.workspace_id, o.run_id, o.status, o.resolution, o.principal_id, o.owner_epoch, o.lease_expires_at,
    case when o.status = 'prepared' then greatest(0, least(900, ceil(extract(epoch from o.lease_expires_at - clock_timestamp()))))::integer else 0 end as lease_remaining_seconds,
    o.status = 'prepared' and o.lease_expires_at > clock_timestamp() as lease_live, o.takeovers, o.request_digest, o.reason, o.fence_epoch, o.from_status,
    coalesce(o.current_version_id, '') as current_version_id, o.current_sha256, o.publications, coalesce(o.emergency_id, '') as emergency_id, o.emergency_sha256,
    o.emergency_size, o.emergency_count, o.writer_proven, o.overrides, o.target_version_id, o.target_sha256, o.target_size, coalesce(o.target_object_id, '') as target_object_id,
    o.prepared_at, o.committed_at, coalesce(o.reservation_epoch, 0) as reservation_epoch, coalesce(o.preview_run_id, '') as preview_run_id

-- name: EmergencyInsert
insert into emergency_states as e (id, organization_id, workspace_id, run_id, attempt_id, sandbox_id, object_id, size, sha256, serial, lineage, client_encrypted,
    terraform_version, resource_count, normalized_serial, normalized_size, normalized_sha256, obstacle, late)
values (@id, @organization_id, @workspace_id, @run_id, @attempt_id, @sandbox_id, @object_id, @size, @sha256, @serial, @lineage, @client_encrypted,
    @terraform_version, @resource_count, @normalized_serial, @normalized_size, @normalized_sha256, @obstacle, @late)
returning {EmergencyColumns};

-- name: EmergencyOfAttempt
select {EmergencyColumns} from emergency_states e where e.attempt_id = @attempt_id order by e.received_at, e.id;

-- name: EmergencyOfRun
select {EmergencyColumns} from emergency_states e where e.run_id = @run_id order by e.received_at, e.id;

-- name: OperationInsert
insert into recovery_operations as o (id, organization_id, workspace_id, run_id, resolution, principal_id, lease_expires_at, request_digest, reason, fence_epoch, from_status,
    current_version_id, current_sha256, publications, emergency_id, emergency_sha256, emergency_size, emergency_count, writer_proven, overrides, target_version_id, target_sha256, target_size)
values (@id, @organization_id, @workspace_id, @run_id, @resolution, @principal_id, clock_timestamp() + make_interval(secs => @lease_seconds::double precision),
    @request_digest, @reason, @fence_epoch, @from_status, nullif(@current_version_id::text, ''), @current_sha256, @publications, nullif(@emergency_id::text, ''),
    @emergency_sha256, @emergency_size, @emergency_count, @writer_proven, @overrides::jsonb, @target_version_id, @target_sha256, @target_size)
returning {OperationColumns};

-- name: OperationOfRun
-- The one that counts: prepared or committed.
select {OperationColumns} from recovery_operations o where o.run_id = @run_id and o.status <> 'abandoned';

-- name: OperationLock
select {OperationColumns} from recovery_operations o where o.id = @id for update;

-- name: Regrant
-- The lease of the same principal, which has run out without anybody taking over.
update recovery_operations o set lease_expires_at = clock_timestamp() + make_interval(secs => @lease_seconds::double precision)
 where id = @id and status = 'prepared' and owner_epoch = @owner_epoch and lease_expires_at <= clock_timestamp()
returning {OperationColumns};

-- name: TakeOver
update recovery_operations o
   set principal_id = @principal_id, owner_epoch = owner_epoch + 1, lease_expires_at = clock_timestamp() + make_interval(secs => @lease_seconds::double precision),
       request_digest = @request_digest, reason = @reason,
       takeovers = case when jsonb_array_length(takeovers) >= @most::integer then takeovers - 0 else takeovers end
           || jsonb_build_object('from', principal_id, 'to', @principal_id::text, 'at', clock_timestamp())
 where id = @id and status = 'prepared' and owner_epoch = @owner_epoch and (lease_expires_at <= clock_timestamp() or principal_id = 'policy')
returning {OperationColumns};

-- name: Abandon
update recovery_operations set status = 'abandoned' where id = @id and status = 'prepared' and owner_epoch = @owner_epoch;

-- name: Previewed
update recovery_operations o set preview_run_id = @preview_run_id
 where id = @id and status = 'prepared' and owner_epoch = @owner_epoch and lease_expires_at > clock_timestamp()
returning {OperationColumns};

-- name: TargetStored
update recovery_operations o set target_object_id = @target_object_id
 where id = @id and status = 'prepared' and owner_epoch = @owner_epoch and target_object_id is null
returning {OperationColumns};

-- name: Commit
update recovery_operations o set status = 'committed', committed_at = clock_timestamp(), reservation_epoch = @reservation_epoch
 where id = @id and status = 'prepared' and owner_epoch = @owner_epoch
returning {OperationColumns};


-- fragment: LostColumns
l.id, l.organization_id, (select w.project_id from workspaces w where w.id = l.workspace_id) as project_id, l.workspace_id, l.run_id, l.principal_id, l.request_digest, l.reason, l.from_epoch, coalesce(l.current_version_id, '') as current_version_id,
    l.current_sha256, l.current_size, l.reservation_epoch, l.committed_at

-- name: LostInsert
insert into lost_recoveries as l (id, organization_id, workspace_id, run_id, principal_id, request_digest, reason, held_because, from_epoch, current_version_id, current_sha256,
    current_size, reservation_epoch)
values (@id, @organization_id, @workspace_id, @run_id, @principal_id, @request_digest, @reason, @held_because, @from_epoch, nullif(@current_version_id::text, ''), @current_sha256,
    @current_size, @reservation_epoch)
returning {LostColumns};

-- name: LostReplay
-- What was lost once more since is another hold, and not this one's end.
select {LostColumns} from lost_recoveries l join workspace_fences f on f.workspace_id = l.workspace_id
 where l.run_id = @run_id and l.principal_id = @principal_id and l.request_digest = @request_digest
   and not (f.recovery_held and f.holder_kind = 'recovery' and f.holder_id = l.run_id)
 order by l.committed_at desc limit 1;

-- name: LostOfRun
select {LostColumns} from lost_recoveries l where l.run_id = @run_id order by l.committed_at desc limit 1;

-- name: HeldOf
-- Whoever holds a workspace for recovery is a run, or stands for one that was lost.
select w.project_id, f.workspace_id, f.holder_id as run_id,
       (select count(*) from runs r where r.workspace_id = f.workspace_id and r.durable_status = 'queued' and r.admitted_at is null and not r.plan_only) as waiting
  from workspace_fences f
  join workspaces w on w.id = f.workspace_id and w.deleted_at is null
 where f.organization_id = @organization_id and f.recovery_held
 order by w.name collate "C";

-- name: PolicyAllows
select exists (select from runs r join workspaces w on w.id = r.workspace_id
                where r.id = @run_id and w.deleted_at is null and w.failed_apply = 'release-when-proven' and not is_production(w.id));

-- name: PolicyRuns
-- Only a run that failed, and whose runner said that nothing was left, comes into question.
select r.id
  from workspace_fences f
  join workspaces w on w.id = f.workspace_id and w.deleted_at is null and w.failed_apply = 'release-when-proven' and not is_production(w.id)
  join runs r on r.id = f.holder_id and r.durable_reason = 'apply_failed'
 where f.recovery_held and f.holder_kind = 'run'
   and exists (select from attempts a where a.run_id = r.id and a.phase = 'apply' and not a.errored_state)
   and not exists (select from emergency_states e where e.run_id = r.id)
 order by f.acquired_at;

-- name: PolicyRunOf
select a.run_id from attempts a join workspaces w on w.id = a.workspace_id
 where a.id = @attempt_id and a.phase = 'apply' and w.failed_apply = 'release-when-proven';
