-- The statements of package workspaces.

-- fragment: LivingProjects
-- A project as it is shown: what it does not say itself is its organization's.
select p.id, p.organization_id as organization, o.name as organization_name, p.name, p.description, p.is_default, p.created_at,
       coalesce(p.default_execution_mode, o.default_execution_mode) as execution_mode,
       coalesce(case when p.default_execution_mode is null then o.default_agent_pool_id else p.default_agent_pool_id end, '') as agent_pool,
       p.default_execution_mode is null as inherits
  from projects p
  join organizations o on o.id = p.organization_id and o.deleted_at is null
 where p.deleted_at is null

-- name: ProjectInsert
insert into projects (id, organization_id, name, description, is_default, default_execution_mode, default_agent_pool_id)
values (@id, @organization_id, @name, @description, @is_default, @execution_mode, @agent_pool_id);

-- name: ProjectUpdate
update projects
   set name = coalesce(@name::text, name), description = coalesce(@description::text, description),
       default_execution_mode = case when @placed::boolean then @execution_mode else default_execution_mode end,
       default_agent_pool_id = case when @placed::boolean then @agent_pool_id else default_agent_pool_id end
 where id = @id and deleted_at is null;

-- name: ProjectHold
-- What is inherited from a project and its organization cannot change until the transaction ends.
select p.id from projects p join organizations o on o.id = p.organization_id and o.deleted_at is null
 where p.id = @id and p.deleted_at is null
   for share of p, o;

-- name: ProjectEnd
-- Only an empty one that is not the default. Its name is free then.
update projects p set deleted_at = clock_timestamp()
 where p.id = @id and p.deleted_at is null and not p.is_default
   and not exists (select from workspaces w where w.project_id = p.id and w.deleted_at is null);

-- name: ProjectLock
select id from projects where id = @id and deleted_at is null for update;

-- name: ProjectByID
{LivingProjects} and p.id = @id;

-- name: ProjectsSome
{LivingProjects} and p.id = any(@ids::text[]) order by p.id;

-- name: ProjectHasSome
select exists (select from workspaces w where w.project_id = @id and w.id = any(@workspaces::text[]) and w.deleted_at is null);

-- name: ProjectsWithSome
select distinct w.project_id from workspaces w where w.project_id = any(@ids) and w.id = any(@workspaces::text[]) and w.deleted_at is null;

-- name: ProjectDefault
{LivingProjects} and p.organization_id = @organization_id and p.is_default;

-- fragment: SelectedProjects
   and p.organization_id = @organization_id
   and (@all::boolean or p.id = any(@visible::text[])
        or p.id in (select w.project_id from workspaces w where w.id = any(@workspaces::text[]) and w.deleted_at is null))
   and (@anywhere::boolean or p.id = any(@may::text[]))
   and (not @filtered::boolean or p.name = any(@names::text[]))
   and position(lower(@search::text) in lower(p.name)) > 0
   and not exists (select from unnest(@keys::text[], @values::text[]) as wanted (key, value)
                    where not exists (select from project_tag_bindings b where b.project_id = p.id and b.key = wanted.key
                                         and (wanted.value = '' or b.value = wanted.value)))

-- name: Projects
{LivingProjects}
{SelectedProjects}
 order by case when @sort::text <> '-name' then p.name end collate "C", p.name collate "C" desc
 limit @limit offset @offset;

-- name: ProjectsCount
select count(*) from projects p where p.deleted_at is null
{SelectedProjects};

-- name: Inherit
-- Writes anew where runs of inheriting workspaces are executed: those of one project, or of the whole organization.
update workspaces w
   set execution_mode = coalesce(p.default_execution_mode, o.default_execution_mode),
       agent_pool_id = case when p.default_execution_mode is null then o.default_agent_pool_id else p.default_agent_pool_id end,
       updated_at = clock_timestamp()
  from projects p, organizations o
 where p.id = w.project_id and o.id = w.organization_id and w.organization_id = @organization_id
   and (@project_id::text = '' or w.project_id = @project_id)
   and w.execution_mode_inherited and w.deleted_at is null
   and (w.execution_mode, coalesce(w.agent_pool_id, ''))
       is distinct from (coalesce(p.default_execution_mode, o.default_execution_mode),
                         coalesce(case when p.default_execution_mode is null then o.default_agent_pool_id else p.default_agent_pool_id end, ''));

-- name: WorkspaceInsert
insert into workspaces (id, organization_id, project_id, name, description, execution_mode, agent_pool_id, execution_mode_inherited, terraform_version, working_directory,
                        auto_apply, allow_destroy_plan, structured_run_output_enabled, client_encrypted, runner_selector,
                        auto_apply_run_trigger, queue_all_runs, assessments_enabled, auto_destroy_at, file_triggers_enabled, trigger_prefixes, trigger_patterns,
                        source_name, source_url, auto_destroy_due, automated_by, environment_class, failed_apply, global_remote_state, project_remote_state)
values (@id, @organization_id, @project_id, @name, coalesce(@description::text, ''), @execution_mode, @agent_pool_id, @execution_mode_inherited,
        coalesce(@terraform_version::text, 'latest'), coalesce(@working_directory::text, ''),
        coalesce(@auto_apply::boolean, false), coalesce(@allow_destroy_plan::boolean, true), coalesce(@structured_run_output_enabled::boolean, true),
        coalesce(@client_encrypted::boolean, false), coalesce(@runner_selector::text[], '{}'),
        coalesce(@auto_apply_run_trigger::boolean, false), coalesce(@queue_all_runs::boolean, false), coalesce(@assessments_enabled::boolean, false), @auto_destroy_at,
        coalesce(@file_triggers_enabled::boolean, false), coalesce(@trigger_prefixes::text[], '{}'), coalesce(@trigger_patterns::text[], '{}'),
        coalesce(@source_name::text, ''), coalesce(@source_url::text, ''), coalesce(@auto_destroy_at > clock_timestamp(), false), nullif(@automated_by::text, ''),
        coalesce(@environment_class::text, 'other'), coalesce(@failed_apply::text, 'hold'), coalesce(@global_remote_state::boolean, not coalesce(@project_remote_state::boolean, false) and (select default_remote_state_access from site_settings)), coalesce(@project_remote_state::boolean, false));

-- name: WorkspaceUpdate
-- Only what is given changes. The workspace must be alive.
update workspaces
   set name = coalesce(@name::text, name),
       project_id = coalesce(@project_id::text, project_id),
       description = coalesce(@description::text, description),
       execution_mode = case when @placed::boolean then @execution_mode else execution_mode end,
       agent_pool_id = case when @placed::boolean then @agent_pool_id else agent_pool_id end,
       execution_mode_inherited = case when @placed::boolean then @execution_mode_inherited else execution_mode_inherited end,
       runner_selector = coalesce(@runner_selector::text[], runner_selector),
       terraform_version = coalesce(@terraform_version::text, terraform_version),
       working_directory = coalesce(@working_directory::text, working_directory),
       auto_apply = coalesce(@auto_apply::boolean, auto_apply),
       allow_destroy_plan = coalesce(@allow_destroy_plan::boolean, allow_destroy_plan),
       structured_run_output_enabled = coalesce(@structured_run_output_enabled::boolean, structured_run_output_enabled),
       client_encrypted = coalesce(@client_encrypted::boolean, client_encrypted),
       environment_class = coalesce(@environment_class::text, environment_class),
       failed_apply = coalesce(@failed_apply::text, failed_apply),
       global_remote_state = coalesce(@global_remote_state::boolean, global_remote_state),
       project_remote_state = coalesce(@project_remote_state::boolean, project_remote_state),
       auto_apply_run_trigger = coalesce(@auto_apply_run_trigger::boolean, auto_apply_run_trigger),
       queue_all_runs = coalesce(@queue_all_runs::boolean, queue_all_runs),
       assessments_enabled = coalesce(@assessments_enabled::boolean, assessments_enabled),
       auto_destroy_at = case when @clear_auto_destroy::boolean then null else coalesce(@auto_destroy_at, auto_destroy_at) end,
       auto_destroy_due = case when @clear_auto_destroy::boolean then false else coalesce(@auto_destroy_at > clock_timestamp(), auto_destroy_due) end,
       automated_by = coalesce(nullif(@automated_by::text, ''), automated_by),
       file_triggers_enabled = coalesce(@file_triggers_enabled::boolean, file_triggers_enabled),
       trigger_prefixes = coalesce(@trigger_prefixes::text[], trigger_prefixes),
       trigger_patterns = coalesce(@trigger_patterns::text[], trigger_patterns),
       source_name = coalesce(@source_name::text, source_name),
       source_url = coalesce(@source_url::text, source_url),
       updated_at = clock_timestamp()
 where id = @id and organization_id = @organization_id and deleted_at is null;

-- name: WorkspaceTombstone
update workspaces
   set deleted_at = clock_timestamp(), updated_at = clock_timestamp()
 where id = @id and deleted_at is null
returning organization_id;

-- name: WorkspaceBuried
select w.organization_id, w.project_id, w.name
  from workspaces w join organizations o on o.id = w.organization_id and o.deleted_at is null
 where w.id = @id and w.deleted_at is not null;

-- name: WorkspaceUndelete
update workspaces set deleted_at = null, project_id = @project_id, updated_at = clock_timestamp() where id = @id and deleted_at is not null;

-- fragment: CurrentRun
-- The current run is the one that has the workspace, else the one that gets it next (so that a waiting
-- client can tell a person's lock), else the last that had it. Package runs owns that table; it is only
-- read here, so that all of a workspace is of one instant.
coalesce(
           (select r.id from runs r where r.workspace_id = w.id and r.fence_epoch is not null and r.fence_released_at is null limit 1),
           (select r.id from runs r where r.workspace_id = w.id and r.durable_status = 'queued' and not r.plan_only and r.admitted_at is null order by r.queue_seq limit 1),
           (select r.id from runs r where r.workspace_id = w.id and r.fence_epoch is not null order by r.fence_epoch desc limit 1),
           '')

-- fragment: WorkspaceColumns
-- A workspace with the names around it, its fence and its current run.
w.id, w.organization_id, o.name as organization_name, w.project_id, p.name as project_name, w.name, w.description,
       w.execution_mode, coalesce(w.agent_pool_id, '') as agent_pool_id, w.runner_selector, w.terraform_version, w.working_directory, w.auto_apply, w.allow_destroy_plan, w.structured_run_output_enabled,
       w.client_encrypted, w.environment_class, w.failed_apply, w.global_remote_state, w.project_remote_state, w.created_at, w.updated_at,
       array(select t.name from workspace_tags wt join tags t on t.id = wt.tag_id where wt.workspace_id = w.id order by t.name collate "C") as tag_names,
       f.epoch, coalesce(f.holder_kind, '') as holder_kind, coalesce(f.holder_id, '') as holder_id, f.holder_name, f.reason, f.recovery_held, f.acquired_at,
       w.execution_mode_inherited, w.auto_apply_run_trigger, w.queue_all_runs, w.assessments_enabled, w.auto_destroy_at, w.file_triggers_enabled,
       w.trigger_prefixes, w.trigger_patterns, w.source_name, w.source_url, coalesce(w.ssh_key_id, '') as ssh_key_id,
       {CurrentRun} as current_run, o.force_delete_allowed

-- fragment: ShownColumns
-- What is shown of it besides, which costs more to find out.
coalesce((select c.id from configuration_versions c where c.workspace_id = w.id and c.status in ('pending', 'uploaded') and not c.speculative and not c.provisional and c.backing_hidden_at is null
                  order by c.created_at desc, c.id limit 1), '') as current_configuration,
       coalesce(v.id, '') as current_state, coalesce(v.resource_count, 0) as resource_count,
       (select count(*) from runs r where r.workspace_id = w.id) as runs_count,
       array(select x.id from variables x where x.workspace_id = w.id order by x.category collate "C", x.key collate "C") as variables,
       coalesce(d.id, '') as retention_id, d.days as retention_days

-- fragment: LivingWorkspaces
-- Without tombstones.
from workspaces w
  join organizations o on o.id = w.organization_id and o.deleted_at is null
  join projects p on p.id = w.project_id
  join workspace_fences f on f.workspace_id = w.id
 where w.deleted_at is null

-- fragment: ShownWorkspaces
from workspaces w
  join organizations o on o.id = w.organization_id and o.deleted_at is null
  join projects p on p.id = w.project_id
  join workspace_fences f on f.workspace_id = w.id
  left join current_states cs on cs.workspace_id = w.id
  left join state_versions v on v.id = cs.state_version_id
  left join data_retention_policies d on d.workspace_id = w.id
 where w.deleted_at is null

-- name: WorkspaceByID
select {WorkspaceColumns} {LivingWorkspaces} and w.id = @id;

-- name: WorkspaceShown
select {WorkspaceColumns}, {ShownColumns} {ShownWorkspaces} and w.id = @id;

-- name: WorkspacesSome
select {WorkspaceColumns}, {ShownColumns} {ShownWorkspaces} and w.id = any(@ids::text[]) order by w.id;

-- name: WorkspaceByName
select {WorkspaceColumns}, {ShownColumns} {ShownWorkspaces} and o.name = @organization and w.name = @name;

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
values (@id, @organization_id, @owner_id, @key, @value)
on conflict (workspace_id, key) do update set value = excluded.value
returning id, key, value;

-- name: BindingsClear
delete from tag_bindings where organization_id = @organization_id and workspace_id = @owner_id;

-- name: Bindings
select id, key, value from tag_bindings
 where organization_id = @organization_id and workspace_id = @owner_id
 order by key collate "C";

-- name: ProjectBindingSet
insert into project_tag_bindings (id, organization_id, project_id, key, value)
values (@id, @organization_id, @owner_id, @key, @value)
on conflict (project_id, key) do update set value = excluded.value
returning id, key, value;

-- name: ProjectBindingsClear
delete from project_tag_bindings where organization_id = @organization_id and project_id = @owner_id;

-- name: ProjectBindings
select id, key, value from project_tag_bindings
 where organization_id = @organization_id and project_id = @owner_id
 order by key collate "C";

-- name: ProjectsBindings
select project_id as owner, '' as inherited_from, id, key, value from project_tag_bindings where project_id = any(@ids::text[]) order by project_id, key collate "C";

-- name: EffectiveBindings
-- Those of the workspaces themselves, and those of their projects whose keys they do not have.
select b.workspace_id as owner, '' as inherited_from, b.id, b.key, b.value from tag_bindings b where b.workspace_id = any(@ids::text[])
union all
select w.id, w.project_id, b.id, b.key, b.value
  from workspaces w join project_tag_bindings b on b.project_id = w.project_id
 where w.id = any(@ids::text[]) and not exists (select from tag_bindings own where own.workspace_id = w.id and own.key = b.key)
 order by 1, 4;

-- name: FixedKeys
-- Keys that a workspace cannot have with a value of its own, because its project has them.
select k.key from reserved_tag_keys k join workspaces w on w.organization_id = k.organization_id and w.id = @workspace_id
 where k.disable_overrides and k.key = any(@keys::text[])
   and exists (select from project_tag_bindings b where b.project_id = w.project_id and b.key = k.key)
 order by 1 limit 1;

-- name: OverriddenKeys
-- Keys that cannot be overridden and that a workspace of the project has with a value of its own.
select k.key from reserved_tag_keys k
 where k.organization_id = @organization_id and k.disable_overrides and k.key = any(@keys::text[])
   and exists (select from tag_bindings b join workspaces w on w.id = b.workspace_id and w.deleted_at is null where w.project_id = @project_id and b.key = k.key)
 order by 1 limit 1;

-- name: ReservedKeyInsert
insert into reserved_tag_keys (id, organization_id, key, disable_overrides)
values (@id, @organization_id, @key, @disable_overrides)
returning id, organization_id as organization, key, disable_overrides, created_at, updated_at;

-- name: ReservedKeyByID
select id, organization_id as organization, key, disable_overrides, created_at, updated_at from reserved_tag_keys where id = @id;

-- name: ReservedKeyUpdate
update reserved_tag_keys
   set key = coalesce(@key::text, key), disable_overrides = coalesce(@disable_overrides::boolean, disable_overrides), updated_at = clock_timestamp()
 where id = @id
returning id, organization_id as organization, key, disable_overrides, created_at, updated_at;

-- name: ReservedKeyDelete
delete from reserved_tag_keys where id = @id;

-- name: ReservedKeys
select id, organization_id as organization, key, disable_overrides, created_at, updated_at from reserved_tag_keys
 where organization_id = @organization_id order by key collate "C" limit @limit offset @offset;

-- name: ReservedKeysCount
select count(*) from reserved_tag_keys where organization_id = @organization_id;

-- name: RetentionGet
select id, organization_id as organization, days from data_retention_policies where organization_id = @organization_id and coalesce(workspace_id, '') = @workspace_id;

-- name: RetentionSet
-- One of another sort is another policy, with an id of its own.
insert into data_retention_policies as d (id, organization_id, workspace_id, days)
values (@id, @organization_id, nullif(@workspace_id::text, ''), @days)
on conflict (organization_id, coalesce(workspace_id, '')) do update
   set days = excluded.days, id = case when (d.days is null) = (excluded.days is null) then d.id else excluded.id end
returning id, organization_id as organization, days;

-- name: RetentionClear
delete from data_retention_policies where organization_id = @organization_id and coalesce(workspace_id, '') = @workspace_id;

-- fragment: VariableColumns
v.id, v.key, v.category, v.value_sealed, v.hcl, v.sensitive, v.description, v.version_id

-- name: VariableInsert
insert into variables as v (id, organization_id, workspace_id, key, category, value_sealed, hcl, sensitive, description)
values (@id, @organization_id, @owner_id, @key, @category, @value_sealed, @hcl, @sensitive, @description)
returning {VariableColumns};

-- name: Variables
select {VariableColumns}
  from variables v
 where v.organization_id = @organization_id and v.workspace_id = @owner_id
 order by v.category collate "C", v.key collate "C";

-- name: VariableLock
select {VariableColumns}
  from variables v
 where v.id = @id and v.organization_id = @organization_id and v.workspace_id = @owner_id
   for update;

-- name: VariableUpdate
update variables v
   set key = @key, category = @category, value_sealed = @value_sealed, hcl = @hcl, sensitive = @sensitive, description = @description,
       version_id = md5(random()::text || clock_timestamp()::text)
 where id = @id and organization_id = @organization_id and workspace_id = @owner_id
returning {VariableColumns};

-- name: VariableDelete
delete from variables where id = @id and organization_id = @organization_id and workspace_id = @owner_id;

-- name: SetVariableInsert
insert into variable_set_variables as v (id, organization_id, set_id, key, category, value_sealed, hcl, sensitive, description)
values (@id, @organization_id, @owner_id, @key, @category, @value_sealed, @hcl, @sensitive, @description)
returning {VariableColumns};

-- name: SetVariables
select {VariableColumns}
  from variable_set_variables v
 where v.organization_id = @organization_id and v.set_id = @owner_id
 order by v.category collate "C", v.key collate "C";

-- name: SetVariableLock
select {VariableColumns}
  from variable_set_variables v
 where v.id = @id and v.organization_id = @organization_id and v.set_id = @owner_id
   for update;

-- name: SetVariableUpdate
update variable_set_variables v
   set key = @key, category = @category, value_sealed = @value_sealed, hcl = @hcl, sensitive = @sensitive, description = @description,
       version_id = md5(random()::text || clock_timestamp()::text)
 where id = @id and organization_id = @organization_id and set_id = @owner_id
returning {VariableColumns};

-- name: SetVariableDelete
delete from variable_set_variables where id = @id and organization_id = @organization_id and set_id = @owner_id;

-- fragment: SetLevel
-- By what set s reaches workspace w: 3 by its name, 2 by its project, 1 by being there for all; null when it does not. A set that
-- a project owns reaches nothing outside of it, also when a workspace it is applied to has moved away.
case when s.organization_id <> w.organization_id or coalesce(s.project_id, w.project_id) <> w.project_id then null
     when exists (select from variable_set_workspaces x where x.set_id = s.id and x.workspace_id = w.id) then 3
     when exists (select from variable_set_projects x where x.set_id = s.id and x.project_id = w.project_id) or (s.global and s.project_id is not null) then 2
     when s.global then 1 end

-- name: VariablesOfSets
-- What the sets of a workspace say, the weakest first: for all workspaces, for its project, for itself, and among
-- those of one scope the set whose name comes last. Sets with priority have the scopes the other way round.
select {VariableColumns}, s.id as set_id, s.priority
  from workspaces w
  join variable_sets s on s.organization_id = w.organization_id
  cross join lateral (select {SetLevel} as level) scope
  join variable_set_variables v on v.set_id = s.id
 where w.id = @workspace_id and scope.level is not null
 order by s.priority, case when s.priority then -scope.level else scope.level end, s.name collate "C" desc, v.category collate "C", v.key collate "C";

-- fragment: VariableSetColumns
s.id, s.organization_id as organization, o.name as organization_name, coalesce(s.project_id, '') as project, s.name, s.description, s.global, s.priority, s.created_at, s.updated_at,
       array(select x.workspace_id from variable_set_workspaces x join workspaces w on w.id = x.workspace_id and w.deleted_at is null where x.set_id = s.id order by x.workspace_id) as workspaces,
       array(select x.project_id from variable_set_projects x join projects p on p.id = x.project_id and p.deleted_at is null where x.set_id = s.id order by x.project_id) as projects,
       array(select x.id from variable_set_variables x where x.set_id = s.id order by x.category collate "C", x.key collate "C") as variables

-- fragment: SelectedSets
from variable_sets s join organizations o on o.id = s.organization_id and o.deleted_at is null
 where s.organization_id = @organization_id and position(lower(@search::text) in lower(s.name)) > 0
   and s.global = coalesce(@global::boolean, s.global)
   and case @scope::text when 'owned' then coalesce(s.project_id, '') = @project_id::text when 'shared' then s.project_id is null else true end
   and (@all::boolean or s.project_id = any(@visible::text[]))
   and (@workspace_id::text = '' or exists (select from workspaces w where w.id = @workspace_id and {SetLevel} is not null))
   and (@project_id::text = ''
        or exists (select from variable_set_projects x where x.set_id = s.id and x.project_id = @project_id)
        or s.project_id = @project_id or (s.global and s.project_id is null))

-- name: VariableSets
select {VariableSetColumns} {SelectedSets}
 order by s.name collate "C"
 limit @limit offset @offset;

-- name: VariableSetsCount
select count(*) {SelectedSets};

-- name: VariableSetByID
select {VariableSetColumns}
  from variable_sets s join organizations o on o.id = s.organization_id and o.deleted_at is null
 where s.id = @id;

-- name: VariableSetInsert
insert into variable_sets (id, organization_id, project_id, name, description, global, priority)
values (@id, @organization_id, @project_id, @name, @description, @global, @priority);

-- name: VariableSetUpdate
update variable_sets
   set name = coalesce(@name::text, name), description = coalesce(@description::text, description),
       global = coalesce(@global::boolean, global), priority = coalesce(@priority::boolean, priority), updated_at = clock_timestamp()
 where id = @id;

-- name: VariableSetDelete
delete from variable_sets where id = @id;

-- name: VariableSetWorkspacesAdd
-- What does not live, is another organization's or lies outside the project that owns the set is left out, and the count shows it.
with wanted as (
    select w.id from workspaces w where w.id = any(@ids::text[]) and w.organization_id = @organization_id and w.deleted_at is null
       and (@project_id::text = '' or w.project_id = @project_id)
), added as (
    insert into variable_set_workspaces (set_id, organization_id, workspace_id) select @id, @organization_id, id from wanted
    on conflict (set_id, workspace_id) do nothing)
select count(*) from wanted;

-- name: VariableSetWorkspacesRemove
delete from variable_set_workspaces where set_id = @id and (workspace_id = any(@ids::text[]) or @all::boolean);

-- name: VariableSetProjectsAdd
with wanted as (
    select p.id from projects p where p.id = any(@ids::text[]) and p.organization_id = @organization_id and p.deleted_at is null
       and (@project_id::text = '' or p.id = @project_id)
), added as (
    insert into variable_set_projects (set_id, organization_id, project_id) select @id, @organization_id, id from wanted
    on conflict (set_id, project_id) do nothing)
select count(*) from wanted;

-- name: VariableSetProjectsRemove
delete from variable_set_projects where set_id = @id and (project_id = any(@ids::text[]) or @all::boolean);

-- name: VariablesPurge
delete from variables where organization_id = @organization_id and workspace_id = @workspace_id;

-- name: SSHKeyInsert
insert into ssh_keys (id, organization_id, name, value_sealed) values (@id, @organization_id, @name, @value_sealed)
returning id, organization_id as organization, name, created_at;

-- name: SSHKeyByID
select id, organization_id as organization, name, created_at from ssh_keys where id = @id;

-- name: SSHKeySealed
select value_sealed from ssh_keys where id = @id;

-- name: SSHKeyUpdate
update ssh_keys set name = coalesce(@name::text, name), value_sealed = coalesce(@value_sealed::bytea, value_sealed) where id = @id
returning id, organization_id as organization, name, created_at;

-- name: SSHKeyRelease
update workspaces set ssh_key_id = null where ssh_key_id = @id;

-- name: SSHKeyDelete
delete from ssh_keys where id = @id;

-- name: SSHKeys
select id, organization_id as organization, name, created_at from ssh_keys
 where organization_id = @organization_id order by name collate "C", id limit @limit offset @offset;

-- name: SSHKeysCount
select count(*) from ssh_keys where organization_id = @organization_id;

-- name: SSHKeyAssign
update workspaces set ssh_key_id = nullif(@ssh_key_id::text, ''), updated_at = clock_timestamp() where id = @id and deleted_at is null;

-- fragment: Consumes
-- Whether the runs of workspace c may read the state of workspace s.
c.id <> s.id and c.organization_id = s.organization_id and c.deleted_at is null and s.deleted_at is null
   and case when s.global_remote_state then true
            when s.project_remote_state then c.project_id = s.project_id
            else exists (select from remote_state_consumers x where x.workspace_id = s.id and x.consumer_id = c.id) end

-- name: SharesState
select exists (select from workspaces s, workspaces c where s.id = @workspace_id and c.id = @consumer_id and {Consumes});

-- fragment: SeenConsumers
 from workspaces s, workspaces c where s.id = @workspace_id
   and case when @named::boolean then exists (select from remote_state_consumers x where x.workspace_id = s.id and x.consumer_id = c.id) and c.deleted_at is null
            else {Consumes} end
   and (@all::boolean or c.project_id = any(@projects::text[]) or c.id = any(@visible::text[]))

-- name: ConsumersCount
select count(*) {SeenConsumers};

-- name: Consumers
select {WorkspaceColumns}, {ShownColumns} {ShownWorkspaces}
   and w.id in (select c.id {SeenConsumers})
 order by w.name collate "C" limit @limit offset @offset;

-- name: ConsumersAdd
insert into remote_state_consumers (organization_id, workspace_id, consumer_id)
select @organization_id, @workspace_id, c from unnest(@consumers::text[]) as c order by c
on conflict do nothing;

-- name: ConsumersRemove
delete from remote_state_consumers where organization_id = @organization_id and workspace_id = @workspace_id and consumer_id = any (@consumers::text[]);

-- name: ConsumersRemoveOthers
delete from remote_state_consumers where organization_id = @organization_id and workspace_id = @workspace_id and not consumer_id = any (@consumers::text[]);
