-- What teams may do in workspaces and projects.

-- name: TeamWorkspaceByID
select a.id, a.organization_id as organization, a.team_id as team, a.workspace_id as workspace, '' as project, a.levels
  from team_workspaces a join workspaces w on w.id = a.workspace_id and w.deleted_at is null
  join organizations o on o.id = a.organization_id and o.deleted_at is null
 where a.id = @id;

-- name: TeamWorkspaces
select a.id, a.organization_id as organization, a.team_id as team, a.workspace_id as workspace, '' as project, a.levels
  from team_workspaces a
 where a.workspace_id = @workspace_id and (@all::boolean or a.team_id = any(@own::text[])) and @team::text in ('', a.team_id)
 order by a.created_at, a.id limit @limit offset @offset;

-- name: TeamWorkspacesCount
select count(*) from team_workspaces a where a.workspace_id = @workspace_id and (@all::boolean or a.team_id = any(@own::text[])) and @team::text in ('', a.team_id);

-- name: TeamWorkspaceInsert
insert into team_workspaces (id, organization_id, team_id, workspace_id, levels) values (@id, @organization_id, @team_id, @workspace_id, @levels);

-- name: TeamWorkspaceUpdate
update team_workspaces set levels = @levels where id = @id and levels = @before;

-- name: TeamWorkspaceDelete
delete from team_workspaces where id = @id;

-- name: TeamWorkspacesEnd
delete from team_workspaces where workspace_id = @workspace_id;

-- name: TeamProjectByID
select a.id, a.organization_id as organization, a.team_id as team, '' as workspace, a.project_id as project, a.levels
  from team_projects a join organizations o on o.id = a.organization_id and o.deleted_at is null
 where a.id = @id;

-- name: TeamProjects
select a.id, a.organization_id as organization, a.team_id as team, '' as workspace, a.project_id as project, a.levels
  from team_projects a
 where a.project_id = @project_id and (@all::boolean or a.team_id = any(@own::text[])) and @team::text in ('', a.team_id)
 order by a.created_at, a.id limit @limit offset @offset;

-- name: TeamProjectsCount
select count(*) from team_projects a where a.project_id = @project_id and (@all::boolean or a.team_id = any(@own::text[])) and @team::text in ('', a.team_id);

-- name: TeamProjectInsert
insert into team_projects (id, organization_id, team_id, project_id, levels) values (@id, @organization_id, @team_id, @project_id, @levels);

-- name: TeamProjectUpdate
update team_projects set levels = @levels where id = @id and levels = @before;

-- name: TeamProjectDelete
delete from team_projects where id = @id;
