-- fragment: AttemptColumns
a.id, a.organization_id, a.workspace_id, a.run_id, a.phase, a.status, a.fence_epoch, coalesce(a.runner_id, '') as runner_id, coalesce(a.group_id, '') as group_id,
    a.assignment_expires_at, a.accepted_at, a.sandbox_id, a.token_expires_at, a.manifest, a.manifest_digest, a.heartbeat_at, a.stop_requested_at,
    a.apply_started_at, a.tofu_version, coalesce(a.state_confirmed_id, '') as state_confirmed_id, a.exit_code, a.outcome, a.done_digest, a.log_size,
    coalesce(a.log_object_id, '') as log_object_id, a.json_log, a.json_log_size, coalesce(a.json_log_object_id, '') as json_log_object_id, a.created_at, a.finished_at

-- name: Create
insert into attempts (id, organization_id, workspace_id, run_id, round, phase, fence_epoch, tofu_version, speculative)
values (@id, @organization_id, @workspace_id, @run_id, coalesce((select round from runs where id = @run_id), 1), @phase, @fence_epoch, @tofu_version, @speculative);

-- name: Notify
select pg_notify('holdfast_attempts', @organization_id::text);

-- name: NotifyLog
select pg_notify('holdfast_logs', @run_id::text);

-- name: SeeRunner
insert into runners (id, group_id, name) values (@id, @group_id, @name)
on conflict (id) do update set last_seen_at = clock_timestamp(), name = excluded.name
 where runners.group_id = @group_id
returning id;

-- name: SeeVersion
insert into runner_group_versions (group_id, version) values (@group_id, @version) on conflict do nothing;

-- name: Versions
-- All versions that some group serving the organization can execute.
select distinct v.version from runner_group_versions v join runner_groups g on g.id = v.group_id
 where g.organization_id is null or g.organization_id = @organization_id;

-- name: Claim
-- The oldest pending attempt that the group may execute: applies first, speculative plans last.
update attempts
   set status = 'assigned', runner_id = @runner_id, group_id = @group_id,
       assignment_expires_at = clock_timestamp() + make_interval(secs => @expiry_seconds::double precision)
 where status = 'pending' and id = (
       select a.id from attempts a
        where a.status = 'pending' and (@organization_id::text = '' or a.organization_id = @organization_id) and a.tofu_version = any (@versions::text[])
        order by (a.phase = 'apply') desc, a.speculative, a.created_at, a.id
        limit 1 for update skip locked)
returning id;

-- name: Get
select {AttemptColumns}
  from attempts a where a.id = @id;

-- name: Lock
select {AttemptColumns}
  from attempts a where a.id = @id for update;

-- name: OfRun
-- Attempts of the rounds before a requeue are kept, and are not the run's any more.
select {AttemptColumns}
  from attempts a join runs r on r.id = a.run_id and r.round = a.round
 where a.run_id = @run_id and a.phase = @phase order by a.created_at desc, a.id limit 1;

-- name: Offered
select {AttemptColumns}
  from attempts a where a.runner_id = @runner_id and a.group_id = @group_id and a.status = 'assigned' and a.assignment_expires_at > clock_timestamp()
 order by a.created_at, a.id limit 1;

-- name: GiveBack
update attempts set status = 'pending', runner_id = null, group_id = null, assignment_expires_at = null
 where runner_id = @id and group_id = @group_id and status = 'assigned'
returning organization_id;

-- name: AssignmentOpen
select assignment_expires_at > clock_timestamp() from attempts where id = @id;

-- name: Ready
update runners set status = 'ready', last_seen_at = clock_timestamp() where id = @id and group_id = @group_id;

-- name: RunnerStatus
select status from runners where id = @id and group_id = @group_id;

-- name: Deregister
delete from runners where id = @id and group_id = @group_id;

-- name: Accept
update attempts
   set status = 'running', accepted_at = clock_timestamp(), heartbeat_at = clock_timestamp(), sandbox_id = @sandbox_id, json_log = @json_log,
       token_expires_at = date_trunc('second', clock_timestamp()) + make_interval(secs => @authority_seconds::double precision)
 where id = @id and status = 'assigned' and runner_id = @runner_id
returning token_expires_at;

-- name: FixManifest
update attempts set manifest = @manifest, manifest_digest = @manifest_digest where id = @id and status = 'running' and manifest is null;

-- name: Session
-- Everything an attempt's token stands for, while its attempt runs.
select a.id, a.organization_id, a.workspace_id, a.run_id, a.phase, a.sandbox_id, coalesce(a.fence_epoch, 0) as fence_epoch,
    coalesce(r.predecessor_version_id, '') as predecessor_version_id, a.apply_started_at is not null as applying
  from attempts a join runs r on r.id = a.run_id
 where a.id = @id and a.status = 'running' and a.token_expires_at > clock_timestamp();

-- name: Heartbeat
update attempts set heartbeat_at = clock_timestamp() where id = @id and status = 'running'
returning stop_requested_at is not null;

-- name: RequestStop
update attempts set stop_requested_at = coalesce(stop_requested_at, clock_timestamp()) where id = @id and status = 'running';

-- name: StartApply
update attempts set apply_started_at = clock_timestamp() where id = @id and status = 'running' and phase = 'apply' and apply_started_at is null
returning apply_started_at;

-- name: ConfirmState
update attempts set state_confirmed_id = @state_version_id, state_confirmed_at = clock_timestamp()
 where id = @id and status = 'running' and apply_started_at is not null;

-- name: Finish
update attempts
   set status = @status, outcome = @outcome, exit_code = @exit_code, done_digest = @done_digest, finished_at = clock_timestamp()
 where id = @id and status = @from_status;

-- name: InsertArtifact
insert into attempt_artifacts (attempt_id, organization_id, kind, object_id, sha256) values (@attempt_id, @organization_id, @kind, @object_id, @sha256)
on conflict (attempt_id, kind) do nothing;

-- name: Artifact
select kind, object_id, sha256 from attempt_artifacts where attempt_id = @attempt_id and kind = @kind;

-- name: AdvanceLog
update attempts set log_size = @next, heartbeat_at = clock_timestamp() where id = @id and status = 'running' and log_size = @start_at;

-- name: AdvanceJSONLog
update attempts set json_log_size = @next, heartbeat_at = clock_timestamp() where id = @id and status = 'running' and json_log and json_log_size = @start_at;

-- name: InsertChunk
insert into log_chunks (attempt_id, stream, start_at, size, sha256, sealed) values (@attempt_id, @stream, @start_at, @size, @sha256, @sealed);

-- name: Chunks
select start_at, size, sealed from log_chunks
 where attempt_id = @attempt_id and stream = @stream and start_at + size > @from_byte and start_at < @to_byte
 order by start_at;

-- name: ChunkDigest
select sha256 from log_chunks where attempt_id = @attempt_id and stream = @stream and start_at = @start_at and size = @size;

-- name: Unfolded
select a.id from attempts a
 where a.status in ('finished', 'lost', 'canceled')
   and ((a.log_object_id is null and a.log_size > 0) or (a.json_log_object_id is null and a.json_log_size > 0))
 order by a.finished_at limit @limit;

-- name: Fold
update attempts set log_object_id = @object_id where id = @id and log_object_id is null and status in ('finished', 'lost', 'canceled');

-- name: FoldJSON
update attempts set json_log_object_id = @object_id where id = @id and json_log_object_id is null and status in ('finished', 'lost', 'canceled');

-- name: DeleteChunks
delete from log_chunks where attempt_id = @attempt_id and stream = @stream;

-- name: ExpiredAssignments
select id from attempts where status = 'assigned' and assignment_expires_at <= clock_timestamp() order by assignment_expires_at limit @limit;

-- name: Silent
-- Running attempts that have not been heard of for too long, or whose authority has ended.
select id from attempts
 where status = 'running' and (token_expires_at <= clock_timestamp()
    or heartbeat_at <= clock_timestamp() - make_interval(secs => (case when apply_started_at is null then @plan_seconds::double precision else @apply_seconds::double precision end)))
 order by heartbeat_at limit @limit;

-- name: StillSilent
-- The same once more for one attempt, after its row was locked.
select status = 'running' and (token_expires_at <= clock_timestamp()
    or heartbeat_at <= clock_timestamp() - make_interval(secs => (case when apply_started_at is null then @plan_seconds::double precision else @apply_seconds::double precision end)))
  from attempts where id = @id;

-- name: OpenAttempts
-- Attempts at work or waiting for it, and since when the oldest of each kind is.
select phase, status, count(*)::int as count, extract(epoch from clock_timestamp() - min(created_at))::double precision as oldest_seconds,
       coalesce(extract(epoch from clock_timestamp() - min(heartbeat_at)), 0)::double precision as silent_seconds
  from attempts where status in ('pending', 'assigned', 'running') group by phase, status;

-- name: WaitsForRunners
-- How long the attempts that began in the last quarter of an hour had waited for a runner, in seconds.
select coalesce(percentile_cont(0.5) within group (order by extract(epoch from accepted_at - created_at)), 0)::double precision as median,
       coalesce(percentile_cont(0.99) within group (order by extract(epoch from accepted_at - created_at)), 0)::double precision as p99
  from attempts where accepted_at > clock_timestamp() - interval '15 minutes';

-- name: ListOfRun
select {AttemptColumns}
  from attempts a where a.run_id = @run_id order by a.created_at, a.id limit @limit offset @offset;

-- name: CountOfRun
select count(*) from attempts where run_id = @run_id;
