package workspaces

import (
	"context"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/audit"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// TeamAccess is what a team may do in one workspace or in one project.
type TeamAccess struct {
	ID           string // of type ids.TeamWorkspace or ids.TeamProject
	Organization ids.Organization
	Team         ids.Team
	Workspace    ids.Workspace // or Project
	Project      ids.Project
	Access       Access
	levels       []authz.Level
}

// NewTeamAccess is what it is made from: one of Workspace and Project.
type NewTeamAccess struct {
	Team      ids.Team
	Workspace ids.Workspace
	Project   ids.Project
	Access    AccessChanges
}

// kindOfAccess is what accesses in workspaces and those in projects differ in.
type kindOfAccess struct {
	place
	statements   string // what their names begin with
	noun         string
	read, manage authz.Action
	once         string // the constraint that a team has one access to a thing
}

var (
	workspaceAccess = kindOfAccess{inWorkspace, "TeamWorkspace", "team access", authz.WorkspaceTeamsRead, authz.WorkspaceTeamsManage, "team_workspaces_once"}
	projectAccess   = kindOfAccess{inProject, "TeamProject", "team project access", authz.ProjectTeamsRead, authz.ProjectTeamsManage, "team_projects_once"}
)

// GiveWorkspace says what a team may do in a workspace. For those who manage the
// teams of the workspace, who give no more than they have. A team the actor does not see is NotFound, one that
// has an access already Invalid, and so is the owners team, which has all rights.
func (s *Service) GiveWorkspace(ctx context.Context, actor authz.Actor, n NewTeamAccess) (TeamAccess, error) {
	return s.give(ctx, actor, workspaceAccess, string(ids.New[ids.TeamWorkspace]()), n)
}

// GiveProject is GiveWorkspace for a project and all of its workspaces.
func (s *Service) GiveProject(ctx context.Context, actor authz.Actor, n NewTeamAccess) (TeamAccess, error) {
	return s.give(ctx, actor, projectAccess, string(ids.New[ids.TeamProject]()), n)
}

func (s *Service) give(ctx context.Context, actor authz.Actor, kind kindOfAccess, id string, n NewTeamAccess) (TeamAccess, error) {
	var made TeamAccess
	err := postgres.InTx(ctx, s.db, "workspaces.give-access", func(tx postgres.Tx) error {
		a := TeamAccess{ID: id, Team: n.Team, Workspace: n.Workspace, Project: n.Project}
		object, err := kind.objectOf(ctx, tx, a)
		if err != nil {
			return err
		}
		a.Organization = object.Organization
		if err := authz.Allow(actor, kind.manage, object); err != nil {
			return err
		}
		team, err := accounts.VisibleTeam(ctx, tx, actor, n.Team)
		if err != nil {
			return err
		}
		if team.Organization != object.Organization {
			return fault.Missing("team", string(n.Team))
		}
		if team.IsOwners {
			return accounts.Invalid("team", "The owners team has all rights already")
		}
		if a.levels, err = kind.levels(Access{}, n.Access); err != nil {
			return err
		}
		if err := mayGive(actor, object, a.levels); err != nil {
			return err
		}
		_, err = postgres.Exec(ctx, tx, queries.Get(kind.statements+"Insert"), postgres.Args{
			"id": id, "organization_id": a.Organization, "team_id": a.Team, "workspace_id": a.Workspace, "project_id": a.Project, "levels": a.levels,
		})
		if violates(err, kind.once) {
			return accounts.Invalid("team", "Team has already been added")
		}
		if err != nil {
			return err
		}
		made = kind.drawn(a)
		return kind.record(ctx, tx, actor, a, "team-access.given")
	})
	return made, err
}

// mayGive holds that nobody gives more than it has.
func mayGive(actor authz.Actor, object authz.Object, levels []authz.Level) error {
	free := actor.IsOwner(object.Organization) || actor.Kind == authz.OrganizationActor // whose token manages all teams, as in Terraform Cloud
	if missing := authz.Beyond(actor, levels, object); missing != "" && !free {
		return fault.New(fault.Forbidden, "forbidden", "You cannot give this access, because you do not have %s on %s %q yourself. Ask an owner of the organization for it.", missing, object.Noun, object.Name)
	}
	return nil
}

// ChangeWorkspaceAccess changes what is said and leaves the rest. It is refused like GiveWorkspace.
func (s *Service) ChangeWorkspaceAccess(ctx context.Context, actor authz.Actor, id ids.TeamWorkspace, c AccessChanges) (TeamAccess, error) {
	return s.changeAccess(ctx, actor, workspaceAccess, string(id), c)
}

// ChangeProjectAccess is ChangeWorkspaceAccess for a project.
func (s *Service) ChangeProjectAccess(ctx context.Context, actor authz.Actor, id ids.TeamProject, c AccessChanges) (TeamAccess, error) {
	return s.changeAccess(ctx, actor, projectAccess, string(id), c)
}

func (s *Service) changeAccess(ctx context.Context, actor authz.Actor, kind kindOfAccess, id string, c AccessChanges) (TeamAccess, error) {
	var changed TeamAccess
	err := postgres.InTx(ctx, s.db, "workspaces.change-access", func(tx postgres.Tx) error {
		a, object, err := kind.allowed(ctx, tx, actor, kind.manage, id)
		if err != nil {
			return err
		}
		before := a.levels
		if a.levels, err = kind.levels(kind.access(before), c); err != nil {
			return err
		}
		if err := mayGive(actor, object, a.levels); err != nil {
			return err
		}
		n, err := postgres.Exec(ctx, tx, queries.Get(kind.statements+"Update"), postgres.Args{"id": id, "levels": a.levels, "before": before})
		if err != nil {
			return err
		}
		if n == 0 {
			return fault.New(fault.Conflict, "access_changed", "The access was changed at the same time. Read it and try again.")
		}
		changed = kind.drawn(a)
		return kind.record(ctx, tx, actor, a, "team-access.changed")
	})
	return changed, err
}

// WorkspaceAccess gives what a team may do in a workspace, to those who see the teams of the
// workspace and to members of the team. To others it is NotFound.
func (s *Service) WorkspaceAccess(ctx context.Context, actor authz.Actor, id ids.TeamWorkspace) (TeamAccess, error) {
	return s.readAccess(ctx, actor, workspaceAccess, string(id))
}

// ProjectAccess is WorkspaceAccess for a project.
func (s *Service) ProjectAccess(ctx context.Context, actor authz.Actor, id ids.TeamProject) (TeamAccess, error) {
	return s.readAccess(ctx, actor, projectAccess, string(id))
}

func (s *Service) readAccess(ctx context.Context, actor authz.Actor, kind kindOfAccess, id string) (TeamAccess, error) {
	var found TeamAccess
	err := postgres.InSnapshot(ctx, s.db, "workspaces.access", func(tx postgres.Tx) error {
		a, _, err := kind.allowed(ctx, tx, actor, kind.read, id)
		if err == nil {
			found = kind.drawn(a)
		}
		return err
	})
	return found, err
}

// TakeWorkspaceAccess ends what a team may do in a workspace.
func (s *Service) TakeWorkspaceAccess(ctx context.Context, actor authz.Actor, id ids.TeamWorkspace) error {
	return s.takeAccess(ctx, actor, workspaceAccess, string(id))
}

// TakeProjectAccess ends what a team may do in a project.
func (s *Service) TakeProjectAccess(ctx context.Context, actor authz.Actor, id ids.TeamProject) error {
	return s.takeAccess(ctx, actor, projectAccess, string(id))
}

func (s *Service) takeAccess(ctx context.Context, actor authz.Actor, kind kindOfAccess, id string) error {
	return postgres.InTx(ctx, s.db, "workspaces.take-access", func(tx postgres.Tx) error {
		a, _, err := kind.allowed(ctx, tx, actor, kind.manage, id)
		if err != nil {
			return err
		}
		n, err := postgres.Exec(ctx, tx, queries.Get(kind.statements+"Delete"), postgres.Args{"id": id})
		if err != nil {
			return err
		}
		if n == 0 {
			return fault.Missing(kind.noun, id)
		}
		return kind.record(ctx, tx, actor, a, "team-access.taken")
	})
}

// WorkspaceAccesses gives what teams may do in the workspace, and how many there are: all
// for who sees its teams, else those of the actor's own. Where team is not empty, only its.
func (s *Service) WorkspaceAccesses(ctx context.Context, actor authz.Actor, workspace ids.Workspace, team ids.Team, page Page) ([]TeamAccess, int, error) {
	return s.listAccesses(ctx, actor, workspaceAccess, TeamAccess{Workspace: workspace, Team: team}, page)
}

// ProjectAccesses is WorkspaceAccesses for a project.
func (s *Service) ProjectAccesses(ctx context.Context, actor authz.Actor, project ids.Project, team ids.Team, page Page) ([]TeamAccess, int, error) {
	return s.listAccesses(ctx, actor, projectAccess, TeamAccess{Project: project, Team: team}, page)
}

func (s *Service) listAccesses(ctx context.Context, actor authz.Actor, kind kindOfAccess, of TeamAccess, page Page) (list []TeamAccess, total int, err error) {
	err = postgres.InSnapshot(ctx, s.db, "workspaces.accesses", func(tx postgres.Tx) error {
		object, err := kind.objectOf(ctx, tx, of)
		if err != nil {
			return err
		}
		all := authz.Can(actor, kind.read, object)
		if see := map[bool]authz.Action{true: authz.WorkspaceRead, false: authz.ProjectRead}[object.Workspace != ""]; !all {
			if err := authz.Allow(actor, see, object); err != nil {
				return err
			}
		}
		args := postgres.Args{
			"workspace_id": of.Workspace, "project_id": of.Project, "all": all, "team": of.Team, "own": append([]ids.Team{}, actor.Grants[object.Organization].Teams...),
			"limit": page.Limit(), "offset": page.Offset(),
		}
		rows, err := postgres.All[accessRow](ctx, tx, queries.Get(kind.statements+"s"), args)
		if err != nil {
			return err
		}
		list = make([]TeamAccess, 0, len(rows))
		for _, r := range rows {
			list = append(list, kind.drawn(r.access()))
		}
		total, err = postgres.Value[int](ctx, tx, queries.Get(kind.statements+"sCount"), args)
		return err
	})
	return list, total, err
}

type accessRow struct {
	ID           string
	Organization ids.Organization
	Team         ids.Team
	Workspace    ids.Workspace
	Project      ids.Project
	Levels       []authz.Level
}

func (r accessRow) access() TeamAccess {
	return TeamAccess{ID: r.ID, Organization: r.Organization, Team: r.Team, Workspace: r.Workspace, Project: r.Project, levels: r.Levels}
}

func (k kindOfAccess) drawn(a TeamAccess) TeamAccess {
	a.Access = k.access(a.levels)
	return a
}

// objectOf is the workspace or project as authz is asked about it.
func (k kindOfAccess) objectOf(ctx context.Context, tx postgres.Tx, a TeamAccess) (authz.Object, error) {
	if a.Project != "" {
		project, err := postgres.One[Project](ctx, tx, queries.Get("ProjectByID"), postgres.Args{"id": a.Project})
		if postgres.NoRow(err) {
			return authz.Object{}, fault.Missing("project", string(a.Project))
		}
		return project.object(), err
	}
	w, err := Load(ctx, tx, a.Workspace)
	return Object(w), err
}

// allowed gives the access with its workspace or project to an actor who may do action
// there. Who is in the team may read it.
func (k kindOfAccess) allowed(ctx context.Context, tx postgres.Tx, actor authz.Actor, action authz.Action, id string) (TeamAccess, authz.Object, error) {
	missing := fault.Missing(k.noun, id)
	row, err := postgres.One[accessRow](ctx, tx, queries.Get(k.statements+"ByID"), postgres.Args{"id": id})
	if postgres.NoRow(err) {
		return TeamAccess{}, authz.Object{}, missing
	}
	if err != nil {
		return TeamAccess{}, authz.Object{}, err
	}
	a := row.access()
	object, err := k.objectOf(ctx, tx, a)
	if err != nil {
		return TeamAccess{}, authz.Object{}, err
	}
	if authz.Can(actor, k.read, object) || actor.InTeam(a.Organization, a.Team) {
		if action == k.read {
			return a, object, nil
		}
		return a, object, authz.Allow(actor, action, object)
	}
	return TeamAccess{}, authz.Object{}, missing
}

func (k kindOfAccess) record(ctx context.Context, tx postgres.Tx, actor authz.Actor, a TeamAccess, action string) error {
	return audit.Append(ctx, tx, audit.Entry{
		Organization: a.Organization, Actor: actor, Action: action, ObjectKind: "team", ObjectID: string(a.Team),
		Details: map[string]any{"workspace": a.Workspace, "project": a.Project, "levels": a.levels},
	})
}
