-- fragment: SetVersioned
(exists (select from policy_set_versions v where v.policy_set_id = s.id) and not exists (select from policy_set_policies p where p.policy_set_id = s.id))

-- fragment: SetColumns
s.id, s.organization_id as organization, o.name as organization_name, s.name, s.description, s.kind, s.global, s.overridable, s.agent_enabled, s.policy_tool_version, s.rego_version as rego,
    s.policies_path, s.update_patterns, s.created_at, s.updated_at,
    array(select p.policy_id from policy_set_policies p where p.policy_set_id = s.id order by p.policy_id) as policies,
    array(select m.workspace_id from policy_set_workspaces m join workspaces w on w.id = m.workspace_id where m.policy_set_id = s.id and not m.excluded and w.deleted_at is null order by 1) as workspaces,
    array(select m.workspace_id from policy_set_workspaces m join workspaces w on w.id = m.workspace_id where m.policy_set_id = s.id and m.excluded and w.deleted_at is null order by 1) as workspace_exclusions,
    array(select m.project_id from policy_set_projects m where m.policy_set_id = s.id and not m.excluded order by 1) as projects,
    array(select m.project_id from policy_set_projects m where m.policy_set_id = s.id and m.excluded order by 1) as project_exclusions,
    coalesce((select v.id from policy_set_versions v where v.policy_set_id = s.id order by v.position desc limit 1), '') as newest_version, {SetVersioned} as versioned,
    coalesce((select v.id from policy_set_versions v where v.policy_set_id = s.id and v.status = 'ready' order by v.position desc limit 1), '') as current_version,
    coalesce((select v.policies from policy_set_versions v where v.policy_set_id = s.id and v.status = 'ready' order by v.position desc limit 1), 0) as current_policies

-- name: SetInsert
insert into policy_sets (id, organization_id, name, description, kind, global, overridable, agent_enabled, policy_tool_version, rego_version, policies_path, update_patterns)
values (@id, @organization_id, @name, @description, @kind, @global, @overridable, @agent_enabled, @policy_tool_version, @rego, @policies_path, @update_patterns);

-- name: SetGet
select {SetColumns} from policy_sets s join organizations o on o.id = s.organization_id where s.id = @id and s.deleted_at is null;

-- name: SetLock
select id from policy_sets where id = @id and deleted_at is null for update;

-- fragment: SelectedSets
 where s.organization_id = @organization_id and s.deleted_at is null and strpos(lower(s.name), lower(@search)) > 0 and (@kind = '' or s.kind = @kind)
   and (@versioned::boolean is null or {SetVersioned} = @versioned)

-- name: SetList
-- As they were made: clients take the first for the oldest.
select {SetColumns} from policy_sets s join organizations o on o.id = s.organization_id {SelectedSets}
 order by s.created_at, s.id limit @limit offset @offset;

-- name: SetCount
select count(*) from policy_sets s {SelectedSets};

-- name: SetUpdate
update policy_sets set name = @name, description = @description, global = @global, overridable = @overridable, agent_enabled = @agent_enabled,
    policy_tool_version = @policy_tool_version, rego_version = @rego, policies_path = @policies_path, update_patterns = @update_patterns, updated_at = clock_timestamp()
 where id = @id and deleted_at is null;

-- name: SetDelete
update policy_sets set deleted_at = clock_timestamp() where id = @id and deleted_at is null;

-- name: SetTouched
update policy_sets set updated_at = clock_timestamp() where id = @id and deleted_at is null;

-- name: WorkspaceAdd
-- No row: it is not a living workspace of the organization.
insert into policy_set_workspaces (organization_id, policy_set_id, workspace_id, excluded)
select w.organization_id, @policy_set_id, w.id, @excluded from workspaces w where w.id = @id and w.organization_id = @organization_id and w.deleted_at is null
on conflict (policy_set_id, workspace_id, excluded) do update set excluded = excluded.excluded;

-- name: WorkspaceRemove
delete from policy_set_workspaces where policy_set_id = @policy_set_id and workspace_id = @id and excluded = @excluded;

-- name: WorkspacesClear
delete from policy_set_workspaces where policy_set_id = @policy_set_id and excluded = @excluded;

-- name: ProjectAdd
insert into policy_set_projects (organization_id, policy_set_id, project_id, excluded)
select p.organization_id, @policy_set_id, p.id, @excluded from projects p where p.id = @id and p.organization_id = @organization_id
on conflict (policy_set_id, project_id, excluded) do update set excluded = excluded.excluded;

-- name: ProjectRemove
delete from policy_set_projects where policy_set_id = @policy_set_id and project_id = @id and excluded = @excluded;

-- name: ProjectsClear
delete from policy_set_projects where policy_set_id = @policy_set_id and excluded = @excluded;

-- name: PolicyAdd
-- No row: no policy of this kind in the organization has the id.
insert into policy_set_policies (organization_id, policy_set_id, policy_id)
select p.organization_id, s.id, p.id from policies p join policy_sets s on s.organization_id = p.organization_id and s.kind = p.kind
 where p.id = @id and p.organization_id = @organization_id and s.id = @policy_set_id
on conflict (policy_set_id, policy_id) do update set policy_id = excluded.policy_id;

-- name: PolicyRemove
delete from policy_set_policies where policy_set_id = @policy_set_id and policy_id = @id;

-- name: PoliciesClear
delete from policy_set_policies where policy_set_id = @policy_set_id;

-- fragment: PolicyColumns
p.id, p.organization_id as organization, o.name as organization_name, p.name, p.description, p.kind, p.query, coalesce(p.query_awaited, '') as awaited, p.enforcement_level as level, p.path, p.content_sealed, p.content_digest, p.updated_at,
    (select count(*) from policy_set_policies m join policy_sets s on s.id = m.policy_set_id where m.policy_id = p.id and s.deleted_at is null) as sets

-- name: PolicyInsert
insert into policies (id, organization_id, name, description, kind, query, enforcement_level, path) values (@id, @organization_id, @name, @description, @kind, @query, @level, @path);

-- name: PolicyGet
select {PolicyColumns} from policies p join organizations o on o.id = p.organization_id where p.id = @id;

-- name: PoliciesSome
select {PolicyColumns} from policies p join organizations o on o.id = p.organization_id where p.id = any(@ids) order by p.id;

-- name: PolicyLock
select id from policies where id = @id for update;

-- name: PolicyList
select {PolicyColumns} from policies p join organizations o on o.id = p.organization_id
 where p.organization_id = @organization_id and strpos(lower(p.name), lower(@search)) > 0 and (@kind = '' or p.kind = @kind)
 order by case @sort::text when 'updated-at' then p.updated_at end, case @sort::text when '-updated-at' then p.updated_at end desc,
          case when @sort::text = '-name' then p.name end desc, p.name, p.id limit @limit offset @offset;

-- name: PolicyCount
select count(*) from policies p where p.organization_id = @organization_id and strpos(lower(p.name), lower(@search)) > 0 and (@kind = '' or p.kind = @kind);

-- name: PolicyUpdate
update policies set description = @description, query = @query, query_awaited = nullif(@awaited::text, ''), enforcement_level = @level, updated_at = clock_timestamp() where id = @id;

-- name: PolicyContent
-- With the query that the content answers, whatever it was before: the two are judged by together.
update policies set query = @query, query_awaited = null, content_sealed = @content_sealed, content_digest = @content_digest, updated_at = clock_timestamp() where id = @id;

-- name: PolicyDelete
delete from policies where id = @id;

-- name: SetsOfPolicy
select s.id from policy_set_policies m join policy_sets s on s.id = m.policy_set_id where m.policy_id = @id and s.deleted_at is null order by s.id;

-- name: SyntaxesOfPolicy
select distinct s.rego_version from policy_set_policies m join policy_sets s on s.id = m.policy_set_id where m.policy_id = @id and s.deleted_at is null order by 1;

-- name: PoliciesOfSet
-- Those that have something to say, in the order in which they are asked.
select {PolicyColumns} from policy_set_policies m join policies p on p.id = m.policy_id join organizations o on o.id = p.organization_id
 where m.policy_set_id = @policy_set_id and p.content_sealed is not null order by p.name;

-- name: VersionInsert
insert into policy_set_versions (id, organization_id, policy_set_id, source, status, bundle_sealed, digest, policies, runtime_version, runtime_digest)
values (@id, @organization_id, @policy_set_id, @source, @status, @bundle_sealed, @digest, @policies, @runtime_version, @runtime_digest);

-- fragment: VersionColumns
v.id, v.organization_id as organization, v.policy_set_id as set, v.source, v.status, v.error, v.bundle_sealed, v.digest, v.policies, v.tests, v.runtime_version, v.runtime_digest, v.created_at, v.updated_at

-- name: VersionGet
select {VersionColumns} from policy_set_versions v where v.id = @id;

-- name: VersionsSome
select {VersionColumns} from policy_set_versions v where v.id = any(@ids) order by v.id;

-- name: VersionNewest
-- The newest that can be used; a set may have none.
select v.digest from policy_set_versions v where v.policy_set_id = @policy_set_id and v.status = 'ready' order by v.position desc limit 1;

-- name: VersionUploaded
select exists (select from policy_set_versions where policy_set_id = @policy_set_id and source = 'tfe-api');

-- name: VersionReady
update policy_set_versions set status = 'ready', error = '', bundle_sealed = @bundle_sealed, digest = @digest, policies = @policies, tests = @tests,
    runtime_version = @runtime_version, runtime_digest = @runtime_digest, updated_at = clock_timestamp()
 where id = @id and status in ('pending', 'errored');

-- name: VersionErrored
update policy_set_versions set status = 'errored', error = @error, runtime_version = @runtime_version, runtime_digest = @runtime_digest, updated_at = clock_timestamp()
 where id = @id and status in ('pending', 'errored');

-- name: ParameterInsert
insert into policy_set_parameters (id, organization_id, policy_set_id, key, value_sealed, sensitive) values (@id, @organization_id, @policy_set_id, @key, @value_sealed, @sensitive);

-- name: ParameterList
select id, policy_set_id as set, key, value_sealed, sensitive from policy_set_parameters where policy_set_id = @policy_set_id order by key;

-- name: ParameterLock
select id, policy_set_id as set, key, value_sealed, sensitive from policy_set_parameters where policy_set_id = @policy_set_id and id = @id for update;

-- name: ParameterUpdate
update policy_set_parameters set key = @key, value_sealed = @value_sealed, sensitive = @sensitive where policy_set_id = @policy_set_id and id = @id;

-- name: ParameterDelete
delete from policy_set_parameters where policy_set_id = @policy_set_id and id = @id;

-- name: ParametersChanged
update policy_sets set parameters_revision = parameters_revision + 1, updated_at = clock_timestamp() where id = @id and deleted_at is null;

-- name: InScope
-- The sets that have a say about a workspace. One that was never filled says nothing; one of
-- Sentinel is in scope as soon as there is something in it, because it cannot be asked here.
select s.id as set, s.name, s.description, s.kind, s.overridable, s.parameters_revision, coalesce(v.id, '') as version, coalesce(v.digest, '') as digest
  from workspaces w
  join policy_sets s on s.organization_id = w.organization_id and s.deleted_at is null
  left join lateral (select v.id, v.digest, v.policies from policy_set_versions v where v.policy_set_id = s.id and v.status = 'ready' order by v.position desc limit 1) v on true
 where w.id = @workspace_id
   and (s.global
        or exists (select from policy_set_workspaces m where m.policy_set_id = s.id and m.workspace_id = w.id and not m.excluded)
        or exists (select from policy_set_projects m where m.policy_set_id = s.id and m.project_id = w.project_id and not m.excluded))
   and not exists (select from policy_set_workspaces m where m.policy_set_id = s.id and m.workspace_id = w.id and m.excluded)
   and not exists (select from policy_set_projects m where m.policy_set_id = s.id and m.project_id = w.project_id and m.excluded
                    and not exists (select from policy_set_workspaces i where i.policy_set_id = s.id and i.workspace_id = w.id and not i.excluded))
   and (coalesce(v.policies, 0) > 0 or (s.kind = 'sentinel' and exists (select from policy_set_policies p where p.policy_set_id = s.id)))
 order by s.name, s.id;

-- name: BindSet
insert into run_policy_sets (organization_id, run_id, round, policy_set_id, version_id, name, description, kind, overridable, digest, parameters_revision, parameters_sealed)
values (@organization_id, @run_id, @round, @policy_set_id, @version_id, @name, @description, @kind, @overridable, @digest, @parameters_revision, @parameters_sealed);

-- name: BoundSets
select policy_set_id as set, version_id as version, name, description, kind, overridable, digest, parameters_revision, parameters_sealed
  from run_policy_sets where run_id = @run_id and round = @round order by name, policy_set_id;
