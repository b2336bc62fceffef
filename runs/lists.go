package runs

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/workspaces"
)

// Filter of runs. What is empty selects nothing away.
type Filter struct {
	PlanOnly   bool     // also those that only plan, which are left out otherwise
	Statuses   []string // in one of these durable statuses
	Sources    []string
	Operations []string // plan_and_apply, plan_only, save_plan, refresh_only, destroy, empty_apply
	User       string   // the username of whoever made it
	Search     string   // a part of the message, in any case, or the id
	Workspaces []string // names
	Pools      []string // names of the agent pools of their workspaces
	Year       int      // made in this year, of UTC
	LastYear   bool     // made within the last twelve months
	Nothing    bool     // what is asked for is on no run here, such as a commit

	Limit, Offset int
}

// page gives the runs of the organization on the page, in one workspace where that is not
// empty, as far as they are seen, newest first; with counted also how many there are in all.
func (f Filter) page(ctx context.Context, tx postgres.Tx, org ids.Organization, workspace ids.Workspace, seen authz.Scope, counted bool) (rows []Run, total int, err error) {
	if f.Nothing {
		return nil, 0, nil
	}
	few := false
	if !seen.All && workspace == "" {
		if few, err = workspaces.SeesFew(ctx, tx, org, seen); err != nil {
			return nil, 0, err
		}
	}
	args := postgres.Args{
		"organization_id": org, "workspace_id": workspace, "projects": seen.Projects, "visible": seen.Workspaces, "statuses": orEmpty(f.Statuses), "sources": orEmpty(f.Sources),
		"operations": orEmpty(f.Operations), "username": f.User, "search": f.Search, "part": "%" + likeEscapes.Replace(f.Search) + "%",
		"workspaces": orEmpty(f.Workspaces), "pools": orEmpty(f.Pools), "year": f.Year, "limit": f.Limit, "offset": f.Offset,
	}
	applies := map[string]bool{
		"workspace": workspace != "", "sees few": !seen.All && few, "sees some": !seen.All && !few, "without plans": !f.PlanOnly, "statuses": len(f.Statuses) > 0, "going on": goingOn(f.Statuses), "sources": len(f.Sources) > 0,
		"operations": len(f.Operations) > 0, "user": f.User != "", "search": f.Search != "", "year": f.Year != 0, "last year": f.LastYear, "workspaces": len(f.Workspaces) > 0, "pools": len(f.Pools) > 0,
	}
	statement := "RunsOnPage"
	if counted {
		statement = "RunPage"
	}
	found, err := postgres.One[pageOf](ctx, tx, Queries.For(statement, applies), args)
	if err != nil || len(found.IDs) == 0 {
		return nil, found.Total, err
	}
	rows, err = postgres.All[Run](ctx, tx, Queries.Get("RunsInOrder"), postgres.Args{"ids": found.IDs})
	return rows, found.Total, err
}

// goingOn tells whether only runs that have not ended can be in one of the statuses.
func goingOn(statuses []string) bool {
	return len(statuses) > 0 && !slices.ContainsFunc(statuses, func(status string) bool { return Status(status).Final() })
}

// pageOf is what a list has in all, where that is counted, and what is on one page.
type pageOf struct {
	Total int
	IDs   []string `db:"ids"`
}

// likeEscapes lets a text stand for itself in a pattern of LIKE.
var likeEscapes = strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`)

// OrganizationRuns gives the runs of an organization that the actor sees, newest first, and
// whether there are more after them. They are not counted: there may be a million.
func (s *Service) OrganizationRuns(ctx context.Context, actor authz.Actor, organization string, f Filter) (list []Detail, more bool, err error) {
	err = postgres.InSnapshot(ctx, s.db, "runs.organization-runs", func(tx postgres.Tx) error {
		org, err := accounts.AllowedOrganization(ctx, tx, actor, authz.OrganizationRead, organization)
		if err != nil {
			return err
		}
		wanted := f
		wanted.Limit++
		rows, _, err := wanted.page(ctx, tx, org.ID, "", authz.Where(actor, authz.RunRead, org.ID), false)
		if err != nil {
			return err
		}
		if more = len(rows) > f.Limit; more {
			rows = rows[:f.Limit]
		}
		list, err = withHistory(ctx, tx, rows)
		return err
	})
	return list, more, err
}

// SiteFilter selects runs of all organizations. What is empty selects nothing away.
type SiteFilter struct {
	Statuses      []string   // in one of these durable statuses
	Query         string     // the id, or a part of the name of the workspace or organization, in any case
	Since, Until  *time.Time // made then, both included
	Nothing       bool       // what is asked for is on no run
	Limit, Offset int
}

// OfSite gives the runs of all organizations, newest first, and whether there are more after
// them. They are not counted. For site admins; to others it is NotFound.
func (s *Service) OfSite(ctx context.Context, actor authz.Actor, f SiteFilter) (list []Detail, more bool, err error) {
	if err := onlySiteAdmins(actor); err != nil {
		return nil, false, err
	}
	args := postgres.Args{
		"statuses": orEmpty(f.Statuses), "query": f.Query, "since": f.Since, "until": f.Until, "nothing": f.Nothing, "limit": f.Limit + 1, "offset": f.Offset,
	}
	err = postgres.InSnapshot(ctx, s.db, "runs.of-site", func(tx postgres.Tx) error {
		rows, err := postgres.All[Run](ctx, tx, Queries.Get("SiteRuns"), args)
		if err != nil {
			return err
		}
		if more = len(rows) > f.Limit; more {
			rows = rows[:f.Limit]
		}
		list, err = withHistory(ctx, tx, rows)
		return err
	})
	return list, more, err
}

// Some gives those of the runs that the actor sees, with two statements, for showing them
// beside what names them.
func (s *Service) Some(ctx context.Context, actor authz.Actor, list []ids.Run) (found []Detail, err error) {
	if len(list) == 0 {
		return nil, nil
	}
	err = postgres.InSnapshot(ctx, s.db, "runs.some", func(tx postgres.Tx) error {
		rows, err := postgres.All[Run](ctx, tx, Queries.Get("RunsSome"), postgres.Args{"ids": textsOf(list)})
		if err != nil {
			return err
		}
		seen := rows[:0]
		for _, r := range rows {
			if authz.Can(actor, authz.RunRead, r.Object()) {
				seen = append(seen, r)
			}
		}
		found, err = withHistory(ctx, tx, seen)
		return err
	})
	return found, err
}

// SomeConfigurations is Some for configuration versions.
func (s *Service) SomeConfigurations(ctx context.Context, actor authz.Actor, list []ids.ConfigurationVersion) (found []Configuration, err error) {
	if len(list) == 0 {
		return nil, nil
	}
	err = postgres.InOneStatement(ctx, s.db, "runs.some-configurations", func(tx postgres.Tx) error {
		rows, err := postgres.All[Configuration](ctx, tx, Queries.Get("ConfigurationsSome"), postgres.Args{"ids": textsOf(list)})
		for _, c := range rows {
			if authz.Can(actor, authz.ConfigurationRead, c.object()) {
				found = append(found, c)
			}
		}
		return err
	})
	return found, err
}

func textsOf[T ~string](list []T) []string {
	out := make([]string, 0, len(list))
	for _, one := range list {
		out = append(out, string(one))
	}
	return out
}
