-- The statements of package registry. What belongs to an organization that is deleted is in no row here.

-- name: OrganizationsFolded
-- More than one: whoever asks must write the name as it is.
select name from organizations where deleted_at is null and lower(name) = lower(@name) limit 2;

-- fragment: ModuleColumns
m.id, m.organization_id as organization, o.name as organization_name, m.registry_name as registry, case m.registry_name when 'private' then o.name else m.namespace end as namespace,
    m.name, m.provider, m.no_code, m.created_at, m.updated_at,
    convert_to(coalesce((select json_agg(json_build_object('version', v.version, 'status', v.status, 'error', v.error) order by v.precedence desc, v.version desc) from registry_module_versions v where v.module_id = m.id), '[]')::text, 'UTF8') as statuses

-- fragment: ModuleMatches
m.organization_id = @organization_id and (@registry_name = '' or m.registry_name = @registry_name) and (@provider = '' or m.provider = @provider)
   and (@organization_name = '' or o.name = @organization_name)
   and strpos(lower(case m.registry_name when 'private' then o.name else m.namespace end || '/' || m.name || '/' || m.provider), lower(@search)) > 0

-- name: ModuleInsert
insert into registry_modules (id, organization_id, registry_name, namespace, name, provider, no_code)
values (@id, @organization_id, @registry_name, @namespace, @name, @provider, @no_code);

-- name: ModuleGet
select {ModuleColumns} from registry_modules m join organizations o on o.id = m.organization_id and o.deleted_at is null where m.id = @id;

-- name: ModuleAt
select {ModuleColumns} from registry_modules m join organizations o on o.id = m.organization_id and o.deleted_at is null
 where m.organization_id = @organization_id and m.registry_name = @registry_name and m.namespace = @namespace and m.name = @name and m.provider = @provider;

-- name: ModuleList
select {ModuleColumns} from registry_modules m join organizations o on o.id = m.organization_id and o.deleted_at is null
 where {ModuleMatches} order by m.name, m.provider, m.id limit @limit offset @offset;

-- name: ModuleCount
select count(*) from registry_modules m join organizations o on o.id = m.organization_id and o.deleted_at is null where {ModuleMatches};

-- name: ModuleUpdate
update registry_modules set no_code = coalesce(@no_code::boolean, no_code), updated_at = clock_timestamp() where id = @id;

-- name: ModuleLock
select id from registry_modules where id = @id for update;

-- name: ModulesLock
select {ModuleColumns} from registry_modules m join organizations o on o.id = m.organization_id and o.deleted_at is null
 where m.organization_id = @organization_id and m.name = @name and (@provider = '' or m.provider = @provider)
   and (@registry_name = '' or (m.registry_name = @registry_name and m.namespace = @namespace))
 order by m.id for update of m;

-- name: ModuleDelete
delete from registry_modules where id = @id;

-- name: ModuleObjects
select coalesce(object_id, '') from registry_module_versions where module_id = @module_id for update;

-- fragment: ModuleVersionColumns
v.id, v.organization_id as organization, v.module_id as module, v.version, v.commit_sha, v.status, v.error, coalesce(v.object_id, '') as object_id, v.installed_at, v.created_at, v.updated_at

-- name: ModuleVersionInsert
-- No row: its module is gone.
insert into registry_module_versions (id, organization_id, module_id, version, precedence, commit_sha)
select @id, m.organization_id, m.id, @version, @precedence, @commit_sha from registry_modules m where m.id = @module_id for share of m;

-- name: ModuleVersionGet
select {ModuleVersionColumns} from registry_module_versions v join organizations o on o.id = v.organization_id and o.deleted_at is null where v.id = @id;

-- name: ModuleVersionOf
select {ModuleVersionColumns} from registry_module_versions v where v.module_id = @module_id and v.version = @version;

-- name: ModuleVersionLock
select id from registry_module_versions where id = @id for update;

-- name: ModuleVersionUploaded
-- Upholds: what somebody was told to install never changes.
update registry_module_versions set status = 'ok', error = '', object_id = @object_id, updated_at = clock_timestamp() where id = @id and installed_at is null;

-- name: ModuleVersionFailed
update registry_module_versions set status = 'failed', error = @error, updated_at = clock_timestamp() where id = @id and status in ('pending', 'failed');

-- name: ModuleVersionInstalled
update registry_module_versions set installed_at = clock_timestamp() where id = @id and status = 'ok' and installed_at is null;

-- name: ModuleVersionObjects
select coalesce(object_id, '') from registry_module_versions where id = @id for update;

-- name: ModuleVersionDelete
delete from registry_module_versions where id = @id;

-- name: ModuleVersionCount
select count(*) from registry_module_versions where module_id = @module_id;

-- name: ModuleVersionsInstallable
select version from registry_module_versions where module_id = @module_id and status = 'ok' order by precedence desc, version desc;

-- fragment: KeyColumns
k.id, k.organization_id as organization, o.name as organization_name, k.key_id, k.ascii_armor, k.created_at, k.updated_at

-- name: KeyInsert
insert into gpg_keys (id, organization_id, key_id, ascii_armor) values (@id, @organization_id, @key_id, @ascii_armor);

-- name: KeyGet
select {KeyColumns} from gpg_keys k join organizations o on o.id = k.organization_id where k.organization_id = @organization_id and k.key_id = @key_id;

-- name: KeyByID
select {KeyColumns} from gpg_keys k join organizations o on o.id = k.organization_id where k.id = @id;

-- name: KeyHold
-- It stays until the signature that rests on it is written down.
select {KeyColumns} from gpg_keys k join organizations o on o.id = k.organization_id where k.organization_id = @organization_id and k.key_id = @key_id for share of k;

-- name: KeyList
select {KeyColumns} from gpg_keys k join organizations o on o.id = k.organization_id
 where k.organization_id = any(@organizations::text[]) order by o.name, k.key_id limit @limit offset @offset;

-- name: KeyCount
select count(*) from gpg_keys k where k.organization_id = any(@organizations::text[]);

-- name: KeyMove
update gpg_keys set organization_id = @to, updated_at = clock_timestamp() where id = @id and organization_id = @organization_id;

-- name: KeyDelete
delete from gpg_keys where id = @id and organization_id = @organization_id;

-- fragment: ProviderColumns
p.id, p.organization_id as organization, o.name as organization_name, p.registry_name as registry, case p.registry_name when 'private' then o.name else p.namespace end as namespace,
    p.name, p.created_at, p.updated_at,
    array(select v.id from registry_provider_versions v where v.provider_id = p.id order by v.precedence desc, v.version desc) as versions

-- fragment: ProviderMatches
p.organization_id = @organization_id and (@registry_name = '' or p.registry_name = @registry_name) and (@organization_name = '' or o.name = @organization_name)
   and strpos(lower(case p.registry_name when 'private' then o.name else p.namespace end || '/' || p.name), lower(@search)) > 0

-- name: ProviderInsert
insert into registry_providers (id, organization_id, registry_name, namespace, name) values (@id, @organization_id, @registry_name, @namespace, @name);

-- name: ProviderGet
select {ProviderColumns} from registry_providers p join organizations o on o.id = p.organization_id and o.deleted_at is null where p.id = @id;

-- name: ProviderAt
select {ProviderColumns} from registry_providers p join organizations o on o.id = p.organization_id and o.deleted_at is null
 where p.organization_id = @organization_id and p.registry_name = @registry_name and lower(p.namespace) = lower(@namespace) and lower(p.name) = lower(@name);

-- name: ProviderList
select {ProviderColumns} from registry_providers p join organizations o on o.id = p.organization_id and o.deleted_at is null
 where {ProviderMatches} order by p.name, p.registry_name, p.namespace, p.id limit @limit offset @offset;

-- name: ProviderCount
select count(*) from registry_providers p join organizations o on o.id = p.organization_id and o.deleted_at is null where {ProviderMatches};

-- name: ProviderLock
select id from registry_providers where id = @id for update;

-- name: ProviderDelete
delete from registry_providers where id = @id;

-- name: ProviderObjects
select coalesce(f.object_id, '') from registry_provider_platforms f join registry_provider_versions v on v.id = f.version_id where v.provider_id = @provider_id for update;

-- fragment: ProviderVersionColumns
v.id, v.organization_id as organization, v.provider_id as provider, v.version, v.key_id, v.protocols, v.shasums_sealed, v.signature_sealed, coalesce(v.gpg_key_id, '') as gpg_key_id, v.created_at, v.updated_at,
    array(select f.id from registry_provider_platforms f where f.version_id = v.id order by f.os, f.arch) as platforms

-- name: ProviderVersionInsert
insert into registry_provider_versions (id, organization_id, provider_id, version, precedence, key_id, protocols)
values (@id, @organization_id, @provider_id, @version, @precedence, @key_id, @protocols);

-- name: ProviderVersionGet
select {ProviderVersionColumns} from registry_provider_versions v join organizations o on o.id = v.organization_id and o.deleted_at is null where v.id = @id;

-- name: ProviderVersionOf
select {ProviderVersionColumns} from registry_provider_versions v where v.provider_id = @provider_id and v.version = @version;

-- name: ProviderVersionLock
select id from registry_provider_versions where id = @id for update;

-- name: ProviderVersionList
select {ProviderVersionColumns} from registry_provider_versions v where v.provider_id = @provider_id order by v.precedence desc, v.version desc limit @limit offset @offset;

-- name: ProviderVersionCount
select count(*) from registry_provider_versions v where v.provider_id = @provider_id;

-- name: ProviderVersionsOf
select {ProviderVersionColumns} from registry_provider_versions v where v.provider_id = any(@providers::text[]) order by v.provider_id, v.precedence desc, v.version desc;

-- name: ProviderVersionFiles
-- Upholds: signed checksums never change.
update registry_provider_versions set shasums_sealed = @shasums_sealed, signature_sealed = @signature_sealed, gpg_key_id = @gpg_key_id, updated_at = clock_timestamp()
 where id = @id and gpg_key_id is null;

-- name: ProviderVersionObjects
select coalesce(object_id, '') from registry_provider_platforms where version_id = @version_id for update;

-- name: ProviderVersionDelete
delete from registry_provider_versions where id = @id;

-- name: ProviderVersionsInstallable
select v.version, v.protocols, array_agg(f.os || '/' || f.arch order by f.os, f.arch) as platforms
  from registry_provider_versions v join registry_provider_platforms f on f.version_id = v.id and f.object_id is not null
 where v.provider_id = @provider_id and v.gpg_key_id is not null
 group by v.id, v.version, v.protocols, v.precedence
 order by v.precedence desc, v.version desc;

-- fragment: PlatformColumns
f.id, f.organization_id as organization, f.version_id as version, f.os, f.arch, f.filename, f.shasum, coalesce(f.object_id, '') as object_id, f.created_at

-- name: PlatformInsert
insert into registry_provider_platforms (id, organization_id, version_id, os, arch, filename, shasum) values (@id, @organization_id, @version_id, @os, @arch, @filename, @shasum);

-- name: PlatformGet
select {PlatformColumns} from registry_provider_platforms f join organizations o on o.id = f.organization_id and o.deleted_at is null where f.id = @id;

-- name: PlatformOf
select {PlatformColumns} from registry_provider_platforms f where f.version_id = @version_id and f.os = @os and f.arch = @arch;

-- name: PlatformsOf
select {PlatformColumns} from registry_provider_platforms f where f.version_id = @version_id order by f.os, f.arch;

-- name: PlatformList
select {PlatformColumns} from registry_provider_platforms f where f.version_id = @version_id order by f.os, f.arch limit @limit offset @offset;

-- name: PlatformCount
select count(*) from registry_provider_platforms f where f.version_id = @version_id;

-- name: PlatformUploaded
update registry_provider_platforms set object_id = @object_id where id = @id and object_id is null;

-- name: PlatformDelete
delete from registry_provider_platforms where id = @id;

-- name: ComponentInsert
insert into registry_components (id, organization_id, name) values (@id, @organization_id, @name);

-- name: ComponentGet
select c.id, c.organization_id as organization, o.name as organization_name, c.name, c.created_at, c.updated_at
  from registry_components c join organizations o on o.id = c.organization_id and o.deleted_at is null where c.id = @id;

-- name: ComponentTouched
update registry_components set updated_at = clock_timestamp() where id = @id;

-- name: ComponentDelete
delete from registry_components where id = @id;

-- name: BindingsClear
delete from registry_tag_bindings where module_id = nullif(@module_id, '') or provider_id = nullif(@provider_id, '') or component_id = nullif(@component_id, '');

-- name: BindingsInsert
insert into registry_tag_bindings (id, organization_id, module_id, provider_id, component_id, key, value)
select b.id, @organization_id, nullif(@module_id, ''), nullif(@provider_id, ''), nullif(@component_id, ''), b.key, b.value
  from unnest(@ids::text[], @keys::text[], @values::text[]) as b (id, key, value);

-- name: BindingList
select id, key, value from registry_tag_bindings
 where module_id = nullif(@module_id, '') or provider_id = nullif(@provider_id, '') or component_id = nullif(@component_id, '') order by key;
