-- The statements of package artifacts. Instants are clock_timestamp().

-- name: OrganizationKeyInsert
insert into organization_keys (organization_id, version, root_version, wrapped)
values (@organization, @version, @root_version, @wrapped)
on conflict (organization_id, version) do nothing

-- name: OrganizationKeyCurrent
select version, root_version, wrapped
  from organization_keys
 where organization_id = @organization
 order by version desc
 limit 1

-- name: OrganizationKey
select version, root_version, wrapped
  from organization_keys
 where organization_id = @organization and version = @version

-- name: RootVersions
select root_version from organization_keys union select root_version from totp_factors union select root_version from signing_keys order by root_version

-- name: ObjectInsert
-- The intent: bytes may exist from now on, and do not count.
insert into objects (id, organization_id, workspace_id, kind, run_id, serial, lineage, epoch, key_version, wrapped_dek)
values (@id, @organization, @workspace, @kind, @run, @serial, @lineage, @epoch, @key_version, @wrapped_dek)

-- name: ObjectStored
-- Upholds: an object counts only after its body and sidecar are in the store.
update objects
   set status = 'stored', size = @size, sha256 = @sha256, md5 = @md5, stored_at = clock_timestamp()
 where id = @id and organization_id = @organization and status = 'pending'

-- name: ObjectAbandoned
update objects
   set status = 'discarded', discarded_at = clock_timestamp()
 where id = @id and organization_id = @organization and status = 'pending'

-- name: ObjectDiscarded
update objects
   set status = 'discarded', discarded_at = clock_timestamp()
 where id = @id and organization_id = @organization and status = 'stored'

-- name: Object
select id, organization_id, workspace_id, kind, run_id, serial, lineage, epoch, status, key_version, wrapped_dek,
       coalesce(size, 0) as size, coalesce(sha256, '') as sha256, coalesce(md5, '') as md5
  from objects
 where id = @id and organization_id = @organization

-- name: ObjectsForgotten
-- An upload that neither ended nor failed in time: its server went down. In a held workspace a recovery may still need it.
update objects
   set status = 'discarded', discarded_at = clock_timestamp()
 where status = 'pending' and created_at < clock_timestamp() - make_interval(secs => @seconds::double precision)
   and not exists (select from workspace_fences f where f.workspace_id = objects.workspace_id and f.recovery_held)

-- name: ObjectsToRemove
select id, organization_id, workspace_id, kind, key_version
  from objects
 where status = 'discarded' and removed_at is null and discarded_at < clock_timestamp() - make_interval(secs => @seconds::double precision)
 order by discarded_at
 limit @limit

-- name: ObjectRemoved
update objects set removed_at = clock_timestamp()
 where id = @id and organization_id = @organization and status = 'discarded' and removed_at is null

-- name: ObjectsUnconfirmed
select id from objects
 where organization_id = @organization and workspace_id = @workspace and kind = @kind and run_id = @run and serial = @serial and lineage = @lineage and epoch = @epoch
   and status = 'pending'
 order by created_at, id
