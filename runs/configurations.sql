-- The statements about configuration versions.

-- name: ConfigurationInsert
insert into configuration_versions (id, organization_id, workspace_id, auto_queue_runs, speculative, provisional, created_by)
values (@id, @organization_id, @workspace_id, @auto_queue_runs, @speculative, @provisional, @created_by);

-- fragment: ConfigurationColumns
id, organization_id, workspace_id, (select w.project_id from workspaces w where w.id = workspace_id) as project_id, status, error, auto_queue_runs, speculative, provisional, coalesce(object_id, '') as object_id, captured_at,
    coalesce(created_by, '') as created_by, created_at, uploaded_at, backing_hidden_at as hidden_at, backing_deleted_at as deleted_at

-- name: ConfigurationsSome
select {ConfigurationColumns} from configuration_versions where id = any(@ids::text[]) order by id;

-- name: ConfigurationNeeded
select id from runs where configuration_version_id = @id and finished_at is null order by queue_seq limit 1;

-- name: ConfigurationArchive
update configuration_versions set status = 'archived', object_id = null where id = @id and status in ('uploaded', 'errored');

-- name: ConfigurationHide
update configuration_versions set backing_hidden_at = clock_timestamp()
 where id = @id and status = 'uploaded' and backing_hidden_at is null and backing_deleted_at is null;

-- name: ConfigurationRestore
update configuration_versions set backing_hidden_at = null where id = @id and backing_hidden_at is not null and backing_deleted_at is null;

-- name: ConfigurationDelete
update configuration_versions set backing_deleted_at = clock_timestamp() where id = @id and backing_hidden_at is not null and backing_deleted_at is null;

-- name: ConfigurationRetire
update configuration_versions set backing_hidden_at = coalesce(backing_hidden_at, clock_timestamp()), backing_deleted_at = clock_timestamp()
 where id = @id and status = 'uploaded' and backing_deleted_at is null;

-- name: ConfigurationsTooOld
-- Versions that are older than their workspace's policy, or else their organization's, lets them be, without the newest of each.
select c.id
  from data_retention_policies d
  join configuration_versions c on c.organization_id = d.organization_id and (d.workspace_id is null or d.workspace_id = c.workspace_id)
 where d.days is not null and c.object_id is not null and c.backing_deleted_at is null and c.created_at < clock_timestamp() - make_interval(days => d.days)
   and (d.workspace_id is not null or not exists (select from data_retention_policies own where own.workspace_id = c.workspace_id))
   and exists (select from configuration_versions newer where newer.workspace_id = c.workspace_id and newer.status = 'uploaded' and not newer.speculative and newer.created_at > c.created_at)
   and not exists (select from runs r where r.configuration_version_id = c.id and r.finished_at is null)
 order by c.created_at limit @limit;

-- name: ConfigurationGet
select {ConfigurationColumns}
  from configuration_versions where id = @id;

-- name: ConfigurationLock
select id from configuration_versions where id = @id for update;

-- name: ConfigurationList
select {ConfigurationColumns}
  from configuration_versions where workspace_id = @workspace_id order by created_at desc, id limit @limit offset @offset;

-- name: ConfigurationNewest
select id from configuration_versions
 where workspace_id = @workspace_id and status = 'uploaded' and not speculative and backing_hidden_at is null
 order by created_at desc, id limit 1;

-- name: ConfigurationCount
select count(*) from configuration_versions where workspace_id = @workspace_id;

-- name: ConfigurationBytes
-- Which bytes a version has, until the transaction ends; none once they were given up.
select coalesce(case when backing_deleted_at is null then object_id end, '') from configuration_versions where id = @id for update;

-- name: ConfigurationUploaded
-- A repeated upload replaces the bytes until a run has captured them (amendment 9).
update configuration_versions set status = 'uploaded', error = '', object_id = @object_id, uploaded_at = clock_timestamp()
 where id = @id and captured_at is null and status <> 'archived' and backing_deleted_at is null;

-- name: ConfigurationObjects
select object_id from configuration_versions where workspace_id = @workspace_id and object_id is not null order by created_at for update;

-- name: ConfigurationsArchive
update configuration_versions set status = 'archived', object_id = null where workspace_id = @workspace_id and status <> 'archived';

-- name: ConfigurationErrored
update configuration_versions set status = 'errored', error = @error where id = @id and status in ('pending', 'errored');

-- name: ConfigurationCapture
update configuration_versions set captured_at = coalesce(captured_at, clock_timestamp()) where id = @id and status = 'uploaded' and backing_hidden_at is null;

-- fragment: QueryRunColumns
q.id, q.organization_id, w.project_id, q.workspace_id, q.configuration_version_id, q.source, q.generate_config_out, q.reason, coalesce(q.created_by, '') as created_by, q.created_at

-- fragment: LivingQueryRuns
query_runs q join workspaces w on w.id = q.workspace_id and w.deleted_at is null

-- name: QueryRunInsert
insert into query_runs (id, organization_id, workspace_id, configuration_version_id, source, generate_config_out, reason, created_by)
values (@id, @organization_id, @workspace_id, @configuration_version_id, @source, @generate_config_out, @reason, nullif(@created_by::text, ''));

-- name: QueryRunByID
select {QueryRunColumns} from {LivingQueryRuns} where q.id = @id;

-- name: QueryRuns
select {QueryRunColumns} from {LivingQueryRuns} where q.workspace_id = @workspace_id
 order by q.created_at desc, q.id limit @limit offset @offset;

-- name: QueryRunsCount
select count(*) from query_runs where workspace_id = @workspace_id;
