package workspaces

import (
	"context"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// SiteFilter selects workspaces of all organizations. What is empty selects nothing away.
type SiteFilter struct {
	Query       string   // a part of the name of the workspace or its organization, in any case
	RunStatuses []string // the current run is in one of these durable statuses
	Nothing     bool     // what is asked for is on no workspace
	Sort        string   // as of Filter
	Page        Page
}

// onlySiteAdmins refuses everybody else as if there were nothing.
func onlySiteAdmins(actor authz.Actor) error {
	if authz.Can(actor, authz.OrganizationCreate, authz.Object{}) {
		return nil
	}
	return fault.New(fault.NotFound, "not_found", "There is nothing at this address for you. It is for site admins.")
}

// OfSite gives the living workspaces of all organizations, those first that had a run last
// unless it is said otherwise, and how many match. For site admins; to others it is NotFound.
// What Shown says is left out.
func (s *Service) OfSite(ctx context.Context, actor authz.Actor, f SiteFilter) (list []Workspace, total int, err error) {
	if err := onlySiteAdmins(actor); err != nil {
		return nil, 0, err
	}
	if !accounts.Storable(f.Query) {
		return nil, 0, nil
	}
	args := postgres.Args{
		"query": f.Query, "run_statuses": append([]string{}, f.RunStatuses...), "nothing": f.Nothing, "sort": f.Sort, "limit": f.Page.Limit(), "offset": f.Page.Offset(),
	}
	err = postgres.InSnapshot(ctx, s.db, "workspaces.of-site", func(tx postgres.Tx) error {
		rows, err := postgres.All[row](ctx, tx, queries.Get("SiteWorkspaces"), args)
		if err != nil {
			return err
		}
		for _, r := range rows {
			list = append(list, r.workspace())
		}
		total, err = postgres.Value[int](ctx, tx, queries.Get("SiteWorkspacesCount"), args)
		return err
	})
	return list, total, err
}

// SiteGet gives a living workspace for a site admin.
func (s *Service) SiteGet(ctx context.Context, actor authz.Actor, id ids.Workspace) (w Workspace, err error) {
	if err := onlySiteAdmins(actor); err != nil {
		return w, err
	}
	err = postgres.InOneStatement(ctx, s.db, "workspaces.site-get", func(tx postgres.Tx) error {
		w, err = Load(ctx, tx, id)
		return err
	})
	return w, err
}
