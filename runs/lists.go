package runs

import (
	"context"
	"time"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
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
	Nothing    bool     // what is asked for is on no run here, such as a commit

	Limit, Offset int
}

// args selects runs of the organization, in one workspace where that is not empty, as far as
// they are seen.
func (f Filter) args(org ids.Organization, workspace ids.Workspace, seen authz.Scope) postgres.Args {
	return postgres.Args{
		"organization_id": org, "workspace_id": workspace, "all": seen.All, "projects": seen.Projects, "visible": seen.Workspaces, "include_plan_only": f.PlanOnly, "statuses": orEmpty(f.Statuses), "sources": orEmpty(f.Sources),
		"operations": orEmpty(f.Operations), "username": f.User, "search": f.Search, "workspaces": orEmpty(f.Workspaces), "pools": orEmpty(f.Pools), "nothing": f.Nothing,
	}
}

// OrganizationRuns gives the runs of an organization that the actor sees, newest first, and
// whether there are more after them. They are not counted: there may be a million.
func (s *Service) OrganizationRuns(ctx context.Context, actor authz.Actor, organization string, f Filter) (list []Detail, more bool, err error) {
	err = postgres.InSnapshot(ctx, s.db, "runs.organization-runs", func(tx postgres.Tx) error {
		org, err := accounts.AllowedOrganization(ctx, tx, actor, authz.OrganizationRead, organization)
		if err != nil {
			return err
		}
		args := f.args(org.ID, "", authz.Where(actor, authz.RunRead, org.ID))
		args["limit"], args["offset"] = f.Limit+1, f.Offset
		rows, err := postgres.All[Run](ctx, tx, Queries.Get("RunList"), args)
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
