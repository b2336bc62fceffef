-- fragment: VersionColumns
v.id, v.organization_id, v.workspace_id, (select w.project_id from workspaces w where w.id = v.workspace_id) as project_id, v.status, v.discard_reason, v.epoch, v.holder_kind, v.holder_id, v.declared_serial, v.declared_lineage,
    v.declared_md5, v.forced, coalesce(v.serial, v.declared_serial) as serial, coalesce(v.lineage, v.declared_lineage) as lineage, coalesce(v.size, 0) as size,
    coalesce(v.sha256, '') as sha256, v.client_encrypted, v.terraform_version, coalesce(v.base_version_id, '') as base_version_id,
    coalesce(v.rollback_of_id, '') as rollback_of_id, coalesce(v.run_id, '') as run_id, coalesce(v.attempt_id, '') as attempt_id, v.sandbox_id,
    coalesce(v.created_by, '') as created_by, coalesce(v.object_id, '') as object_id, coalesce(v.json_object_id, '') as json_object_id,
    coalesce(v.resource_count, 0) as resource_count, v.created_at, v.finalized_at, v.backing_hidden_at, v.backing_deleted_at

-- fragment: Gone
-- Whether the workspace of a version is deleted.
not exists (select from workspaces w join organizations o on o.id = w.organization_id and o.deleted_at is null
             where w.id = v.workspace_id and w.deleted_at is null) as gone

-- fragment: Insists
-- Whether the workspace insists on encryption by the client.
(select w.client_encrypted from workspaces w where w.id = v.workspace_id) as must_be_encrypted

-- name: Insert
insert into state_versions as v (id, organization_id, workspace_id, epoch, holder_kind, holder_id, declared_serial, declared_lineage, declared_md5,
    declared_outputs_sealed, forced, base_version_id, run_id, attempt_id, sandbox_id, created_by, expires_at)
values (@id, @organization_id, @workspace_id, @epoch, @holder_kind, @holder_id, @declared_serial, @declared_lineage, @declared_md5,
    @declared_outputs_sealed, @forced, nullif(@base_version_id::text, ''), nullif(@run_id::text, ''), nullif(@attempt_id::text, ''), @sandbox_id, nullif(@created_by::text, ''),
    clock_timestamp() + make_interval(secs => @lifetime_seconds::double precision))
returning {VersionColumns}, {Insists}, {Gone};

-- name: InsertRollback
insert into state_versions (id, organization_id, workspace_id, status, epoch, holder_kind, holder_id, declared_serial, declared_lineage, declared_md5,
    serial, lineage, size, sha256, client_encrypted, terraform_version, resource_count, resources_sealed, base_version_id, rollback_of_id, created_by,
    object_id, json_object_id, expires_at, raw_claimed_at, finalized_at)
select @id, o.organization_id, o.workspace_id, 'finalized', @epoch, @holder_kind, @holder_id, o.declared_serial, o.declared_lineage, o.declared_md5,
    o.serial, o.lineage, o.size, o.sha256, o.client_encrypted, o.terraform_version, o.resource_count, @resources_sealed, nullif(@base_version_id::text, ''), o.id, nullif(@created_by::text, ''),
    o.object_id, case when @with_json::boolean then o.json_object_id end, clock_timestamp(), clock_timestamp(), clock_timestamp()
  from state_versions o
 where o.id = @rollback_of_id and o.workspace_id = @workspace_id and o.status = 'finalized';

-- name: Retry
-- The create that was made before with the same retry key (amendment 15), under the lock as it is now.
select id from state_versions
 where workspace_id = @workspace_id and epoch = (select f.epoch from workspace_fences f where f.workspace_id = @workspace_id) and declared_serial = @declared_serial and declared_md5 = @declared_md5
   and status <> 'discarded' and rollback_of_id is null;

-- name: Get
-- What is sealed in the row is read by itself: it may be large, and few need it.
select {VersionColumns}, {Insists}, {Gone} from state_versions v where v.id = @id;

-- name: GetWhole
select {VersionColumns}, {Insists}, {Gone}, v.resources_sealed from state_versions v where v.id = @id;

-- name: Lock
select {VersionColumns}, {Insists}, {Gone} from state_versions v where v.id = @id for update of v;

-- name: CurrentVersion
select {VersionColumns}, {Insists}, {Gone}
  from current_states c join state_versions v on v.id = c.state_version_id
 where c.workspace_id = @workspace_id;

-- name: ResourcesSealed
select resources_sealed from state_versions where id = @id;

-- name: DeclaredOutputsSealed
select declared_outputs_sealed from state_versions where id = @id;

-- name: List
select {VersionColumns}, false as must_be_encrypted, false as gone
  from state_versions v
 where v.workspace_id = @workspace_id and (cardinality(@statuses::text[]) = 0 or v.status = any(@statuses))
 order by v.created_at desc, v.id desc
 limit @limit offset @offset;

-- name: Count
select count(*) from state_versions v where v.workspace_id = @workspace_id and (cardinality(@statuses::text[]) = 0 or v.status = any(@statuses));

-- name: Current
select coalesce((select state_version_id from current_states where workspace_id = @workspace_id), '');

-- name: PublishedByRun
-- The newest publication of a run, in the order in which the pointer moved.
select coalesce((select id from state_versions where run_id = @run_id and status = 'finalized' order by finalized_at desc, id desc limit 1), '');

-- name: ClaimRaw
-- An upload must begin in time; one that has begun may be repeated.
update state_versions v set raw_claimed_at = coalesce(raw_claimed_at, clock_timestamp())
 where id = @id and status = 'pending' and (raw_claimed_at is not null or json_claimed_at is not null or expires_at > clock_timestamp())
returning {VersionColumns}, {Insists}, {Gone};

-- name: ClaimJSON
update state_versions v set json_claimed_at = coalesce(json_claimed_at, clock_timestamp())
 where id = @id and status in ('pending', 'finalized') and json_object_id is null
   and (raw_claimed_at is not null or json_claimed_at is not null or expires_at > clock_timestamp())
returning {VersionColumns}, {Insists}, {Gone};

-- name: Finalize
update state_versions v
   set status = 'finalized', serial = @serial, lineage = @lineage, size = @size, sha256 = @sha256, client_encrypted = @client_encrypted,
       terraform_version = @terraform_version, resource_count = @resource_count, resources_sealed = @resources_sealed,
       object_id = @object_id, finalized_at = clock_timestamp(), declared_outputs_sealed = null
 where id = @id and status = 'pending' and epoch = @epoch
returning {VersionColumns}, {Insists}, {Gone};

-- name: Discard
update state_versions
   set status = 'discarded', discard_reason = @reason, object_id = @object_id, size = @size, sha256 = @sha256, serial = @serial, lineage = @lineage
 where id = @id and status = 'pending';

-- name: DiscardExpired
update state_versions set status = 'discarded', discard_reason = 'upload_expired'
 where id = @id and status = 'pending' and expires_at <= clock_timestamp();

-- name: KeepUnpublished
update state_versions set object_id = @object_id where id = @id and status = 'pending' and object_id is null;

-- name: AttachJSON
update state_versions v set json_object_id = @json_object_id
 where v.id = @id and v.json_object_id is null and v.status in ('pending', 'finalized')
   and not (select w.client_encrypted from workspaces w where w.id = v.workspace_id);

-- name: MovePointer
-- Moves only from the version that was current when the upload began.
insert into current_states (workspace_id, organization_id, state_version_id)
select @workspace_id, @organization_id, @id where @base_version_id::text = ''
    and not exists (select 1 from current_states where workspace_id = @workspace_id)
union all
select workspace_id, organization_id, @id from current_states where workspace_id = @workspace_id and state_version_id = @base_version_id
on conflict (workspace_id) do update set state_version_id = excluded.state_version_id, moved_at = clock_timestamp()
    where current_states.state_version_id = @base_version_id;

-- name: InsertOutputs
insert into state_outputs (id, organization_id, state_version_id, position, sealed)
select o.id, @organization_id, @state_version_id, o.position - 1, o.sealed
  from unnest(@ids::text[], @sealed::bytea[]) with ordinality as o (id, sealed, position);

-- name: Outputs
select id, organization_id, state_version_id, position, sealed from state_outputs where state_version_id = @state_version_id order by position;

-- name: Output
select o.id, o.organization_id, o.state_version_id, o.position, o.sealed, v.workspace_id, (select w.project_id from workspaces w where w.id = v.workspace_id) as project_id, {Gone}
  from state_outputs o join state_versions v on v.id = o.state_version_id where o.id = @id;

-- name: OpenUploads
-- Uploads that may still matter: begun and neither finalized, discarded nor expired without a claim.
select count(*) from state_versions
 where workspace_id = @workspace_id and epoch = @epoch and status = 'pending'
   and (raw_claimed_at is not null or json_claimed_at is not null or expires_at > clock_timestamp());

-- name: Publications
select count(*) from state_versions where run_id = @run_id and status = 'finalized';

-- name: AnnouncedByAttempt
select count(*) from state_versions where run_id = @run_id and attempt_id = @attempt_id and status <> 'discarded';

-- name: Chain
-- Versions from one back to another, by what each was based on.
with recursive chain as (
    select v.id, v.base_version_id, 1 as place from state_versions v where v.id = @from and v.id <> @until::text
    union all
    select b.id, b.base_version_id, c.place + 1 from chain c join state_versions b on b.id = c.base_version_id
     where b.id <> @until::text and c.place < @most::integer
)
select {VersionColumns}, false as must_be_encrypted, false as gone from chain c join state_versions v on v.id = c.id order by c.place;

-- name: PendingUploads
select {VersionColumns}, false as must_be_encrypted, false as gone,
    least(v.raw_claimed_at, v.json_claimed_at) as claimed_at, v.expires_at, v.expires_at <= clock_timestamp() as expired
  from state_versions v where v.run_id = @run_id and v.status = 'pending' order by v.created_at, v.id;

-- name: DiscardUnclaimed
-- A JSON form alone counts as a claim, too (G-23).
update state_versions set status = 'discarded', discard_reason = 'upload_expired'
 where run_id = @run_id and status = 'pending' and raw_claimed_at is null and json_claimed_at is null and expires_at <= clock_timestamp();

-- name: DiscardClaimed
update state_versions set status = 'discarded', discard_reason = 'superseded_by_recovery'
 where id = @id and run_id = @run_id and status = 'pending' and least(raw_claimed_at, json_claimed_at) = @claimed_at;

-- name: CurrentOrReplaced
-- Whether a version is current, or was before the one that is.
select exists (select from current_states c join state_versions v on v.id = c.state_version_id
                where c.workspace_id = @workspace_id and @id::text in (v.id, v.base_version_id));

-- name: VersionsSome
select {VersionColumns}, false as must_be_encrypted, {Gone} from state_versions v where v.id = any(@ids::text[]) order by v.id;

-- name: BackingNeeded
-- Why the bytes of a version must stay; empty when nothing speaks for it.
select case when exists (select from current_states c where c.workspace_id = @workspace_id and c.state_version_id = @id) then 'it is current'
            when exists (select from runs r where r.workspace_id = @workspace_id and (r.predecessor_version_id = @id or r.resulting_version_id = @id) and r.finished_at is null) then 'a run began with it'
            when exists (select from runs r join workspace_fences f on f.workspace_id = r.workspace_id and f.recovery_held
                          where r.workspace_id = @workspace_id and r.predecessor_version_id = @id and r.fence_epoch is not null and r.fence_released_at is null) then 'a recovery may need it'
            else '' end;

-- name: BackingHide
update state_versions set backing_hidden_at = clock_timestamp() where id = @id and status = 'finalized' and backing_hidden_at is null and backing_deleted_at is null;

-- name: BackingRestore
update state_versions set backing_hidden_at = null where id = @id and backing_hidden_at is not null and backing_deleted_at is null;

-- name: BackingDelete
update state_versions set backing_deleted_at = clock_timestamp(), resources_sealed = null
 where id = @id and backing_hidden_at is not null and backing_deleted_at is null;

-- name: BackingRetire
update state_versions set backing_hidden_at = coalesce(backing_hidden_at, clock_timestamp()), backing_deleted_at = clock_timestamp(), resources_sealed = null
 where id = @id and status = 'finalized' and backing_deleted_at is null;

-- name: BackingUnshared
-- The objects of a version that no version with bytes has too.
select o.id from state_versions v cross join lateral (select unnest(array[v.object_id, v.json_object_id]) as id) o
 where v.id = @id and o.id is not null
   and not exists (select from state_versions other where other.workspace_id = v.workspace_id and other.id <> v.id and other.backing_deleted_at is null
                      and (other.object_id = o.id or other.json_object_id = o.id));

-- name: OutputsDelete
delete from state_outputs where state_version_id = @id;

-- name: TooOld
-- Versions that are older than their workspace's policy, or else their organization's, lets them be.
select v.id
  from data_retention_policies d
  join state_versions v on v.organization_id = d.organization_id and (d.workspace_id is null or d.workspace_id = v.workspace_id)
 where d.days is not null and v.status = 'finalized' and v.backing_deleted_at is null and v.created_at < clock_timestamp() - make_interval(days => d.days)
   and (d.workspace_id is not null or not exists (select from data_retention_policies own where own.workspace_id = v.workspace_id))
   and not exists (select from current_states c where c.state_version_id = v.id)
 order by v.created_at limit @limit;

-- name: OutputsOfSome
select id, organization_id, state_version_id, position, sealed from state_outputs where state_version_id = any(@ids::text[]) order by state_version_id, position;
