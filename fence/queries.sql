-- name: Create
insert into workspace_fences (workspace_id, organization_id) values (@workspace_id, @organization_id);

-- name: Read
select workspace_id, epoch, coalesce(holder_kind, '') as holder_kind, coalesce(holder_id, '') as holder_id, holder_name, reason, recovery_held, acquired_at
from workspace_fences where workspace_id = @workspace_id;

-- name: Lock
select workspace_id, epoch, coalesce(holder_kind, '') as holder_kind, coalesce(holder_id, '') as holder_id, holder_name, reason, recovery_held, acquired_at
from workspace_fences where workspace_id = @workspace_id
for update;

-- name: LockOf
select workspace_id, epoch, coalesce(holder_kind, '') as holder_kind, coalesce(holder_id, '') as holder_id, holder_name, reason, recovery_held, acquired_at
from workspace_fences
where workspace_id = case when @attempt_id::text = '' then (select workspace_id from runs where id = @run_id) else (select workspace_id from attempts where id = @attempt_id) end
for update;

-- name: Acquire
update workspace_fences
   set epoch = epoch + 1, holder_kind = @holder_kind, holder_id = @holder_id, holder_name = @holder_name,
       reason = @reason, recovery_held = false, acquired_at = clock_timestamp()
 where workspace_id = @workspace_id and holder_kind is null
returning epoch;

-- name: AcquireLocked
-- Acquire for whoever knows the epoch of the free fence.
update workspace_fences
   set epoch = epoch + 1, holder_kind = @holder_kind, holder_id = @holder_id, holder_name = @holder_name,
       reason = @reason, recovery_held = false, acquired_at = clock_timestamp()
 where workspace_id = @workspace_id and epoch = @epoch and holder_kind is null;

-- name: Release
update workspace_fences
   set holder_kind = null, holder_id = null, holder_name = '', reason = '', recovery_held = false, acquired_at = null
 where workspace_id = @workspace_id and epoch = @epoch and holder_kind = @holder_kind and holder_id = @holder_id;

-- name: Revoke
update workspace_fences
   set epoch = epoch + 1, holder_kind = null, holder_id = null, holder_name = '', reason = '', recovery_held = false, acquired_at = null
 where workspace_id = @workspace_id and epoch = @epoch
returning epoch;

-- name: Grow
update workspace_fences
   set epoch = epoch + 1
 where workspace_id = @workspace_id and epoch = @epoch and holder_kind = @holder_kind and holder_id = @holder_id
returning epoch;

-- name: HoldForRecovery
update workspace_fences
   set recovery_held = true, reason = @reason
 where workspace_id = @workspace_id and epoch = @epoch and holder_kind = 'run' and holder_id = @holder_id;

-- name: HoldLost
-- The epoch passes the one that was handed out and forgotten, too.
update workspace_fences
   set epoch = greatest(epoch, @seen_epoch::bigint) + 1, holder_kind = 'recovery', holder_id = @holder_id, holder_name = @holder_id,
       reason = @reason, recovery_held = true, acquired_at = clock_timestamp()
 where workspace_id = @workspace_id and epoch = @epoch
returning epoch;

-- name: LostBy
select workspace_id from workspace_fences where holder_kind = 'recovery' and holder_id = @holder_id and recovery_held;

-- name: Reserve
-- The workspace stays held: nobody but the recovery may pass.
update workspace_fences
   set epoch = epoch + 1, holder_kind = 'recovery', holder_id = @holder_id, holder_name = @holder_name, reason = @reason, acquired_at = clock_timestamp()
 where workspace_id = @workspace_id and epoch = @epoch and recovery_held
returning epoch;
