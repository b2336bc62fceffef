package tfeapi

import (
	"slices"
	"time"

	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/runs"
	"github.com/holdfast-run/holdfast/workspaces"
)

// The runs and workspaces of all organizations, for site admins. They show that something is
// there and how it goes, and nothing of what is in it.

// adminRunView is a run as site admins see it.
type adminRunView struct {
	ID               string            `jsonapi:"primary,runs"`
	CreatedAt        time.Time         `jsonapi:"attr,created-at,iso8601"`
	HasChanges       bool              `jsonapi:"attr,has-changes"`
	Status           string            `jsonapi:"attr,status"`
	StatusTimestamps map[string]string `jsonapi:"attr,status-timestamps"`
	workspace        ids.Workspace
}

func (v *adminRunView) relations() relations {
	return relations{"workspace": ref{"workspaces", string(v.workspace)}}
}

func newAdminRunView(r *request, d runs.Detail) *adminRunView {
	shown := newRunView(r.actor, d, nil)
	return &adminRunView{
		ID: shown.ID, CreatedAt: shown.CreatedAt, HasChanges: shown.HasChanges, Status: shown.Status, StatusTimestamps: shown.StatusTimestamps, workspace: d.WorkspaceID,
	}
}

// adminWorkspaceView is a workspace as site admins see it.
type adminWorkspaceView struct {
	ID      string    `jsonapi:"primary,workspaces"`
	Name    string    `jsonapi:"attr,name"`
	Locked  bool      `jsonapi:"attr,locked"`
	VCSRepo *struct{} `jsonapi:"attr,vcs-repo"` // there are no connections to VCS hosts
	related relations
}

func (v *adminWorkspaceView) relations() relations { return v.related }

func newAdminWorkspaceView(w workspaces.Workspace) *adminWorkspaceView {
	return &adminWorkspaceView{
		ID: string(w.ID), Name: w.Name, Locked: w.Fence.Held(),
		related: relations{"organization": ref{"organizations", w.OrganizationName}, "current-run": optional("runs", w.CurrentRun)},
	}
}

// instantOf reads a filter that is an instant of RFC 3339, or nil.
func instantOf(r *request, name string) (*time.Time, error) {
	text := r.query.Get(name)
	if text == "" {
		return nil, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return nil, fault.New(fault.Malformed, "invalid_parameter", "The query parameter %s must be an instant such as 2026-11-30T12:00:00Z.", name)
	}
	return &at, nil
}

// listAdminRuns gives the runs of the site, the newest first. They are not counted.
func (s *server) listAdminRuns(r *request) (answer, error) {
	if err := siteAdmin(r); err != nil {
		return answer{}, err
	}
	p, err := parsePaging(r.query)
	if err != nil {
		return answer{}, err
	}
	for name := range r.includes() {
		switch name {
		case "", "workspace", "workspace.organization", "workspace.organization.owners":
		default: // in the words that clients know
			return answer{}, fault.New(fault.Malformed, "invalid_parameter", "Invalid include parameter: a run includes workspace and workspace.organization, not %q.", name)
		}
	}
	f := runs.SiteFilter{Query: r.query.Get("q"), Limit: p.limit(), Offset: p.offset()}
	if f.Since, err = instantOf(r, "filter[from]"); err != nil {
		return answer{}, err
	}
	if f.Until, err = instantOf(r, "filter[to]"); err != nil {
		return answer{}, err
	}
	// One status of clients may be several of ours, and one of ours several of theirs, so what
	// was found is looked through once more as it is shown.
	wanted := commaList(r.query, "filter[status]")
	f.Statuses = durableStatuses(wanted)
	f.Nothing = len(wanted) > 0 && len(f.Statuses) == 0
	list, more, err := s.Runs.OfSite(r.ctx, r.actor, f)
	if err != nil {
		return answer{}, err
	}
	items := make([]*adminRunView, 0, len(list))
	of := make([]ids.Workspace, 0, len(list))
	for _, d := range list {
		v := newAdminRunView(r, d)
		if len(wanted) == 0 || slices.Contains(wanted, v.Status) {
			items, of = append(items, v), append(of, d.WorkspaceID)
		}
	}
	included, err := s.adminRunIncludes(r, of)
	if err != nil {
		return answer{}, err
	}
	drawn := page(items, p, 0, included...)
	drawn.document.page = p.uncounted(more)
	return drawn, nil
}

// adminRunIncludes gives the workspaces of runs and what is around them in full.
func (s *server) adminRunIncludes(r *request, of []ids.Workspace) (included []view, err error) {
	asked := r.includes()
	organizations, owners := asked["workspace.organization"] || asked["workspace.organization.owners"], asked["workspace.organization.owners"]
	if !asked["workspace"] && !organizations {
		return nil, nil
	}
	found, err := s.Workspaces.Some(r.ctx, r.actor, of)
	if err != nil {
		return nil, err
	}
	for _, w := range found {
		included = append(included, newAdminWorkspaceView(w))
	}
	if organizations {
		around, err := s.organizationsAround(r, found, owners)
		if err != nil {
			return nil, err
		}
		included = append(included, around...)
	}
	return included, nil
}

// organizationsAround gives the organizations of workspaces, and their owners.
func (s *server) organizationsAround(r *request, list []workspaces.Workspace, owners bool) ([]view, error) {
	found, err := s.Accounts.SiteOrganizationsSome(r.ctx, r.actor, each(list, func(w workspaces.Workspace) ids.Organization { return w.Organization }))
	if err != nil {
		return nil, err
	}
	included, err := s.adminOrganizationViews(r, found)
	if err != nil || !owners {
		return included, err
	}
	people, err := s.ownersIncluded(r, found)
	return append(included, people...), err
}

// forceCancelAdminRun needs no cancel before it, and no waiting.
func (s *server) forceCancelAdminRun(r *request) (answer, error) {
	if err := siteAdmin(r); err != nil {
		return answer{}, err
	}
	return actOnRun(r, func(run ids.Run, comment string) error { return s.Runs.ForceCancelNow(r.ctx, r.actor, run, comment) })
}

// listAdminWorkspaces gives the workspaces of the site. q is a part of the name.
func (s *server) listAdminWorkspaces(r *request) (answer, error) {
	if err := siteAdmin(r); err != nil {
		return answer{}, err
	}
	p, err := parsePaging(r.query)
	if err != nil {
		return answer{}, err
	}
	f := workspaces.SiteFilter{Query: r.query.Get("q"), Page: p.page()}
	if f.Sort, err = r.sorted("Workspaces", "name", "current-run.created-at"); err != nil {
		return answer{}, err
	}
	wanted := commaList(r.query, "filter[current_run][status]")
	f.RunStatuses = durableStatuses(wanted)
	f.Nothing = len(wanted) > 0 && len(f.RunStatuses) == 0
	list, total, err := s.Workspaces.OfSite(r.ctx, r.actor, f)
	if err != nil {
		return answer{}, err
	}
	items := make([]*adminWorkspaceView, 0, len(list))
	for _, w := range list {
		items = append(items, newAdminWorkspaceView(w))
	}
	included, err := s.adminWorkspaceIncludes(r, list)
	if err != nil {
		return answer{}, err
	}
	return page(items, p, total, included...), nil
}

func (s *server) adminWorkspaceIncludes(r *request, list []workspaces.Workspace) (included []view, err error) {
	asked := r.includes()
	if asked["organization"] || asked["organization.owners"] {
		if included, err = s.organizationsAround(r, list, asked["organization.owners"]); err != nil {
			return nil, err
		}
	}
	if asked["current-run"] {
		found, err := s.Runs.Some(r.ctx, r.actor, each(list, func(w workspaces.Workspace) ids.Run { return w.CurrentRun }))
		if err != nil {
			return nil, err
		}
		for _, d := range found {
			included = append(included, newAdminRunView(r, d))
		}
	}
	return included, nil
}

func (s *server) readAdminWorkspace(r *request) (answer, error) {
	if err := siteAdmin(r); err != nil {
		return answer{}, err
	}
	which, err := id[ids.Workspace](r)
	if err != nil {
		return answer{}, err
	}
	w, err := s.Workspaces.SiteGet(r.ctx, r.actor, which)
	if err != nil {
		return answer{}, err
	}
	included, err := s.adminWorkspaceIncludes(r, []workspaces.Workspace{w})
	if err != nil {
		return answer{}, err
	}
	return ok(newAdminWorkspaceView(w), included...), nil
}

func (s *server) deleteAdminWorkspace(r *request) (answer, error) {
	if err := siteAdmin(r); err != nil {
		return answer{}, err
	}
	return s.deleteWorkspace(r)
}
