package tfeapi

import (
	"time"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
)

// poolView is an agent pool, a group of runners, on the wire. Its attributes launcher,
// labels, remote-runs and draining are this server's own.
type poolView struct {
	ID                 string    `jsonapi:"primary,agent-pools"`
	Name               string    `jsonapi:"attr,name"`
	AgentCount         int       `jsonapi:"attr,agent-count"`
	OrganizationScoped bool      `jsonapi:"attr,organization-scoped"`
	CreatedAt          time.Time `jsonapi:"attr,created-at,iso8601"`
	Launcher           string    `jsonapi:"attr,launcher"`
	Labels             []string  `jsonapi:"attr,labels"`
	RemoteRuns         bool      `jsonapi:"attr,remote-runs"`
	Draining           bool      `jsonapi:"attr,draining"`
	related            relations
}

func (v *poolView) relations() relations { return v.related }

func newPoolView(p accounts.Pool) *poolView {
	return &poolView{
		ID: string(p.ID), Name: p.Name, AgentCount: p.AgentCount, OrganizationScoped: p.OrganizationScoped, CreatedAt: p.CreatedAt,
		Launcher: string(p.Launcher), Labels: p.Labels, RemoteRuns: p.TakesRemote, Draining: p.Draining,
		related: relations{
			"organization": poolOrganization(p), "workspaces": refs("workspaces", p.Workspaces),
			"allowed-workspaces": refs("workspaces", p.AllowedWorkspaces), "excluded-workspaces": refs("workspaces", p.ExcludedWorkspaces),
			"allowed-projects": refs("projects", p.AllowedProjects),
		},
	}
}

// poolOrganization is none for a group of all organizations.
func poolOrganization(p accounts.Pool) any {
	if p.Organization == "" {
		return nil
	}
	return ref{"organizations", p.OrganizationName}
}

func refs[T ids.Any](kind string, list []T) []ref {
	out := make([]ref, 0, len(list))
	for _, one := range list {
		out = append(out, ref{kind, string(one)})
	}
	return out
}

func (s *server) poolAnswer(r *request, status func(view) answer, p accounts.Pool, err error) (answer, error) {
	if err != nil {
		return answer{}, err
	}
	drawn := status(newPoolView(p))
	drawn.document.included, err = s.poolIncludes(r, p)
	return drawn, err
}

func okPool(v view) answer { return ok(v) }

// poolIncludes gives the workspaces of a pool in full when they are asked for.
func (s *server) poolIncludes(r *request, p accounts.Pool) (included []view, err error) {
	if !r.includes()["workspaces"] {
		return nil, nil
	}
	for _, id := range p.Workspaces {
		w, err := s.Workspaces.Get(r.ctx, r.actor, id)
		if fault.Is(err, fault.NotFound) { // not everybody who sees the pool sees all of its workspaces
			continue
		}
		if err != nil {
			return nil, err
		}
		included = append(included, s.newWorkspaceView(r.actor, w))
	}
	return included, nil
}

func (s *server) listPools(r *request) (answer, error) {
	p, err := parsePaging(r.query)
	if err != nil {
		return answer{}, err
	}
	filter := accounts.PoolFilter{
		Search: r.query.Get("q"), Page: p.page(),
		Workspace: r.either("filter[allowed_workspaces][name]", "filter[allowed-workspaces][name]"),
		Project:   r.either("filter[allowed_projects][name]", "filter[allowed-projects][name]"),
	}
	if filter.Sort, err = r.sorted("Agent pools", "created-at", "name"); err != nil {
		return answer{}, err
	}
	list, total, err := s.Accounts.Pools(r.ctx, r.actor, r.vars["organization"], filter)
	if err != nil {
		return answer{}, err
	}
	items, included := make([]*poolView, 0, len(list)), []view{}
	for _, pool := range list {
		items = append(items, newPoolView(pool))
		more, err := s.poolIncludes(r, pool)
		if err != nil {
			return answer{}, err
		}
		included = append(included, more...)
	}
	return page(items, p, total, included...), nil
}

type poolAttributes struct {
	Name               Opt[string]   `json:"name"`
	OrganizationScoped Opt[bool]     `json:"organization-scoped"`
	Launcher           Opt[string]   `json:"launcher"`
	Labels             Opt[[]string] `json:"labels"`
	RemoteRuns         Opt[bool]     `json:"remote-runs"`
}

// readPoolInput is what a request says about a pool.
func readPoolInput(r *request) (c accounts.PoolChanges, err error) {
	body, err := r.body()
	if err != nil {
		return c, err
	}
	in, err := decode[poolAttributes](body, "agent-pools")
	if err != nil {
		return c, err
	}
	a := in.Attributes
	c = accounts.PoolChanges{
		Name: a.Name.Pointer(), OrganizationScoped: a.OrganizationScoped.Pointer(), TakesRemote: a.RemoteRuns.Pointer(),
		Launcher: (*accounts.Launcher)(a.Launcher.Pointer()), Labels: a.Labels.Pointer(),
	}
	if c.AllowedWorkspaces, err = relatedIDs[ids.Workspace](in, "allowed-workspaces", "workspaces"); err != nil {
		return c, err
	}
	if c.ExcludedWorkspaces, err = relatedIDs[ids.Workspace](in, "excluded-workspaces", "workspaces"); err != nil {
		return c, err
	}
	c.AllowedProjects, err = relatedIDs[ids.Project](in, "allowed-projects", "projects")
	return c, err
}

// relatedIDs gives the ids of a to-many relation, or nil when it is absent.
func relatedIDs[T ids.Any, A any](in input[A], name, kind string) (*[]T, error) {
	list, given, err := relatedMany[struct{}](in, name, kind)
	if err != nil || !given {
		return nil, err
	}
	found := make([]T, 0, len(list))
	for _, item := range list {
		one, err := ids.Parse[T](item.ID)
		if err != nil {
			return nil, err
		}
		found = append(found, one)
	}
	return &found, nil
}

func (s *server) createPool(r *request) (answer, error) {
	said, err := readPoolInput(r)
	if err != nil {
		return answer{}, err
	}
	p, err := s.Accounts.CreatePool(r.ctx, r.actor, r.vars["organization"], said)
	return s.poolAnswer(r, created, p, err)
}

func (s *server) readPool(r *request) (answer, error) {
	pool, err := id[ids.RunnerGroup](r)
	if err != nil {
		return answer{}, err
	}
	p, err := s.Accounts.Pool(r.ctx, r.actor, pool)
	return s.poolAnswer(r, okPool, p, err)
}

func (s *server) updatePool(r *request) (answer, error) {
	pool, err := id[ids.RunnerGroup](r)
	if err != nil {
		return answer{}, err
	}
	said, err := readPoolInput(r)
	if err != nil {
		return answer{}, err
	}
	p, err := s.Dispatch.UpdatePool(r.ctx, r.actor, pool, said)
	return s.poolAnswer(r, okPool, p, err)
}

func (s *server) deletePool(r *request) (answer, error) {
	pool, err := id[ids.RunnerGroup](r)
	if err != nil {
		return answer{}, err
	}
	return noContent(), s.Dispatch.DeletePool(r.ctx, r.actor, pool)
}

func (s *server) drainPool(r *request) (answer, error)  { return s.setDraining(r, true) }
func (s *server) resumePool(r *request) (answer, error) { return s.setDraining(r, false) }

func (s *server) setDraining(r *request, drain bool) (answer, error) {
	pool, err := id[ids.RunnerGroup](r)
	if err != nil {
		return answer{}, err
	}
	p, err := s.Dispatch.DrainPool(r.ctx, r.actor, pool, drain)
	return s.poolAnswer(r, okPool, p, err)
}
