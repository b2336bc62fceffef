-- The statements of package workspaces.

-- name: ProjectInsert
insert into projects (id, organization_id, name, description, is_default)
values (@id, @organization_id, @name, @description, @is_default)
returning id, organization_id as organization, name, description, is_default, created_at;

-- name: ProjectByID
select p.id, p.organization_id as organization, p.name, p.description, p.is_default, p.created_at
  from projects p
  join organizations o on o.id = p.organization_id and o.deleted_at is null
 where p.id = @id;

-- name: ProjectHasSome
select exists (select from workspaces w where w.project_id = @id and w.id = any(@workspaces::text[]) and w.deleted_at is null);

-- name: ProjectDefault
select id, organization_id as organization, name, description, is_default, created_at
  from projects where organization_id = @organization_id and is_default;

-- name: Projects
select id, organization_id as organization, name, description, is_default, created_at
  from projects
 where organization_id = @organization_id and (@all::boolean or id = any(@visible::text[]) or id in (select w.project_id from workspaces w where w.id = any(@workspaces::text[]) and w.deleted_at is null)) and (not @filtered::boolean or name = any(@names::text[]))
 order by name collate "C"
 limit @limit offset @offset;

-- name: ProjectsCount
select count(*) from projects
 where organization_id = @organization_id and (@all::boolean or id = any(@visible::text[]) or id in (select w.project_id from workspaces w where w.id = any(@workspaces::text[]))) and (not @filtered::boolean or name = any(@names::text[]));

-- name: WorkspaceInsert
insert into workspaces (id, organization_id, project_id, name, description, execution_mode, terraform_version, working_directory,
                        auto_apply, allow_destroy_plan, structured_run_output_enabled, client_encrypted, agent_pool_id, runner_selector, environment_class, failed_apply)
values (@id, @organization_id, @project_id, @name, coalesce(@description::text, ''), coalesce(@execution_mode::text, 'remote'),
        coalesce(@terraform_version::text, 'latest'), coalesce(@working_directory::text, ''),
        coalesce(@auto_apply::boolean, false), coalesce(@allow_destroy_plan::boolean, true), coalesce(@structured_run_output_enabled::boolean, true),
        coalesce(@client_encrypted::boolean, false), @agent_pool_id, coalesce(@runner_selector::text[], '{}'),
        coalesce(@environment_class::text, 'other'), coalesce(@failed_apply::text, 'hold'));

-- name: WorkspaceUpdate
-- Only what is given changes. The workspace must be alive.
update workspaces
   set name = coalesce(@name::text, name),
       project_id = coalesce(@project_id::text, project_id),
       description = coalesce(@description::text, description),
       execution_mode = coalesce(@execution_mode::text, execution_mode),
       agent_pool_id = @agent_pool_id,
       runner_selector = coalesce(@runner_selector::text[], runner_selector),
       terraform_version = coalesce(@terraform_version::text, terraform_version),
       working_directory = coalesce(@working_directory::text, working_directory),
       auto_apply = coalesce(@auto_apply::boolean, auto_apply),
       allow_destroy_plan = coalesce(@allow_destroy_plan::boolean, allow_destroy_plan),
       structured_run_output_enabled = coalesce(@structured_run_output_enabled::boolean, structured_run_output_enabled),
       client_encrypted = coalesce(@client_encrypted::boolean, client_encrypted),
       environment_class = coalesce(@environment_class::text, environment_class),
       failed_apply = coalesce(@failed_apply::text, failed_apply),
       updated_at = clock_timestamp()
 where id = @id and organization_id = @organization_id and deleted_at is null;

-- name: WorkspaceTombstone
update workspaces
   set deleted_at = clock_timestamp(), updated_at = clock_timestamp()
 where id = @id and deleted_at is null
returning organization_id;

-- fragment: LivingWorkspaces
-- A workspace as it is shown: with the names around it, its fence and its current run, without tombstones.
-- The current run is the one that has the workspace, else the one that gets it next (so that a waiting
-- client can tell a person's lock), else the last that had it. Package runs owns that table; it is only
-- read here, so that all of a workspace is of one instant.
select w.id, w.organization_id, o.name as organization_name, w.project_id, p.name as project_name, w.name, w.description,
       w.execution_mode, coalesce(w.agent_pool_id, '') as agent_pool_id, w.runner_selector, w.terraform_version, w.working_directory, w.auto_apply, w.allow_destroy_plan, w.structured_run_output_enabled,
       w.client_encrypted, w.environment_class, w.failed_apply, w.created_at, w.updated_at,
       array(select t.name from workspace_tags wt join tags t on t.id = wt.tag_id where wt.workspace_id = w.id order by t.name collate "C") as tag_names,
       f.epoch, coalesce(f.holder_kind, '') as holder_kind, coalesce(f.holder_id, '') as holder_id, f.holder_name, f.reason, f.recovery_held, f.acquired_at,
       coalesce(
           (select r.id from runs r where r.workspace_id = w.id and r.fence_epoch is not null and r.fence_released_at is null limit 1),
           (select r.id from runs r where r.workspace_id = w.id and r.durable_status = 'queued' and not r.plan_only and r.admitted_at is null order by r.queue_seq limit 1),
           (select r.id from runs r where r.workspace_id = w.id and r.fence_epoch is not null order by r.fence_epoch desc limit 1),
           '') as current_run
  from workspaces w
  join organizations o on o.id = w.organization_id and o.deleted_at is null
  join projects p on p.id = w.project_id
  join workspace_fences f on f.workspace_id = w.id
 where w.deleted_at is null

-- name: WorkspaceByID
{LivingWorkspaces} and w.id = @id;

-- name: WorkspaceByName
{LivingWorkspaces} and o.name = @organization and w.name = @name;

-- fragment: Selected
-- What a filter selects. Each wanted tag and pair must be there (AND); no unwanted one may be.
   and w.organization_id = @organization_id
   and (@all::boolean or w.project_id = any(@projects::text[]) or w.id = any(@workspaces::text[]))
   and (@project_id::text = '' or w.project_id = @project_id)
   and position(lower(@search::text) in lower(w.name)) > 0
   and lower(w.name) like lower(@pattern::text)
   and (select count(*) from workspace_tags wt join tags t on t.id = wt.tag_id
         where wt.workspace_id = w.id and t.name = any(@tags::text[])) = cardinality(@tags::text[])
   and not exists (select from workspace_tags wt join tags t on t.id = wt.tag_id
                    where wt.workspace_id = w.id and t.name = any(@without::text[]))
   and not exists (select from unnest(@keys::text[], @values::text[]) as wanted (key, value)
                    where not exists (select from tag_bindings b where b.workspace_id = w.id and b.key = wanted.key
                                         and (wanted.value = '' or b.value = wanted.value)))

-- name: Workspaces
{LivingWorkspaces}
{Selected}
 order by case when not @descending::boolean then w.name collate "C" end, w.name collate "C" desc
 limit @limit offset @offset;

-- name: WorkspacesCount
select count(*) from workspaces w where w.deleted_at is null
{Selected};

-- name: WorkspacesOf
select id from workspaces where organization_id = @organization_id and deleted_at is null order by id;

-- name: TagsEnsure
insert into tags (id, organization_id, name)
select wanted.id, @organization_id, wanted.name from unnest(@ids::text[], @names::text[]) as wanted (id, name)
on conflict (organization_id, name) do nothing;

-- name: TagsFind
select id from tags where organization_id = @organization_id and (id = any(@ids::text[]) or name = any(@names::text[]));

-- name: TagsAttach
insert into workspace_tags (organization_id, workspace_id, tag_id)
select @organization_id, workspace_id, tag_id from unnest(@workspaces::text[]) as w (workspace_id), unnest(@tags::text[]) as t (tag_id)
 order by 2, 3
on conflict (workspace_id, tag_id) do nothing;

-- name: TagsDetach
delete from workspace_tags where organization_id = @organization_id and workspace_id = @workspace_id and tag_id = any(@tags::text[]);

-- name: TagByID
select id, organization_id as organization, name, 0 as instances from tags where id = @id;

-- name: TagsDelete
delete from tags where organization_id = @organization_id and id = any(@ids::text[]);

-- fragment: TagSelection
from tags t
 where t.organization_id = @organization_id
   and position(lower(@query::text) in lower(t.name)) > 0
   and t.id <> @excluded::text
   and not exists (select from workspace_tags x where x.tag_id = t.id and x.workspace_id = @excluded::text)
   and (@workspace_id::text = '' or exists (select from workspace_tags x where x.tag_id = t.id and x.workspace_id = @workspace_id::text))

-- name: Tags
select t.id, t.organization_id as organization, t.name,
       (select count(*) from workspace_tags wt join workspaces w on w.id = wt.workspace_id and w.deleted_at is null where wt.tag_id = t.id) as instances
  {TagSelection}
 order by t.name collate "C"
 limit @limit offset @offset;

-- name: TagsCount
select count(*) {TagSelection};

-- name: BindingSet
insert into tag_bindings (id, organization_id, workspace_id, key, value)
values (@id, @organization_id, @workspace_id, @key, @value)
on conflict (workspace_id, key) do update set value = excluded.value
returning id, key, value;

-- name: BindingsClear
delete from tag_bindings where organization_id = @organization_id and workspace_id = @workspace_id;

-- name: Bindings
select id, key, value from tag_bindings
 where organization_id = @organization_id and workspace_id = @workspace_id
 order by key collate "C";

-- name: VariableInsert
insert into variables (id, organization_id, workspace_id, key, category, value_sealed, hcl, sensitive, description)
values (@id, @organization_id, @workspace_id, @key, @category, @value_sealed, @hcl, @sensitive, @description);

-- name: Variables
select id, workspace_id as workspace, key, category, value_sealed, hcl, sensitive, description
  from variables
 where organization_id = @organization_id and workspace_id = @workspace_id
 order by category collate "C", key collate "C";

-- name: VariableLock
select id, workspace_id as workspace, key, category, value_sealed, hcl, sensitive, description
  from variables
 where id = @id and organization_id = @organization_id and workspace_id = @workspace_id
   for update;

-- name: VariableUpdate
update variables
   set key = @key, category = @category, value_sealed = @value_sealed, hcl = @hcl, sensitive = @sensitive, description = @description
 where id = @id and organization_id = @organization_id and workspace_id = @workspace_id;

-- name: VariablesPurge
delete from variables where organization_id = @organization_id and workspace_id = @workspace_id;

-- name: VariableDelete
delete from variables where id = @id and organization_id = @organization_id and workspace_id = @workspace_id;
