package tfeapi

import (
	"time"

	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/runs"
)

func (s *server) queryRunRoutes() []route {
	const query = "/api/v2/queries/{id}"
	return []route{
		{method: get, path: "/api/v2/workspaces/{id}/queries", handle: s.listQueryRuns},
		{method: post, path: "/api/v2/queries", handle: s.createQueryRun},
		{method: get, path: query, handle: s.readQueryRun},
		{method: post, path: query + "/actions/cancel", handle: s.cancelQueryRun},
		{method: post, path: query + "/actions/force-cancel", handle: s.cancelQueryRun},
		{method: get, path: queryLogLink.template(), open: true, handle: s.queryLog},
	}
}

// queryRunView is what was asked by terraform query, which OpenTofu does not have: its status
// is always errored, and the log says why.
type queryRunView struct {
	ID                string            `jsonapi:"primary,queries"`
	CreatedAt         time.Time         `jsonapi:"attr,created-at,iso8601"`
	Source            string            `jsonapi:"attr,source"`
	Status            string            `jsonapi:"attr,status"`
	StatusTimestamps  map[string]string `jsonapi:"attr,status-timestamps"`
	GenerateConfigOut bool              `jsonapi:"attr,generate-config-out"`
	LogReadURL        string            `jsonapi:"attr,log-read-url"`
	ErrorMessage      string            `jsonapi:"attr,error-message"`
	related           relations
}

func (v *queryRunView) relations() relations { return v.related }

func (s *server) newQueryRunView(q runs.QueryRun) *queryRunView {
	return &queryRunView{
		ID: string(q.ID), CreatedAt: q.CreatedAt, Source: q.Source, Status: "errored", StatusTimestamps: map[string]string{"errored-at": rfc3339(q.CreatedAt)},
		GenerateConfigOut: q.GenerateConfigOut, LogReadURL: s.logLink(queryLogLink, string(q.ID)), ErrorMessage: q.Reason,
		related: relations{
			"workspace": ref{"workspaces", string(q.WorkspaceID)}, "configuration-version": ref{"configuration-versions", string(q.ConfigurationVersionID)},
			"created-by": optional("users", q.CreatedBy),
		},
	}
}

// queryIncludes gives what belongs to the query runs in full when it is asked for.
func (s *server) queryIncludes(r *request, list ...runs.QueryRun) ([]view, error) {
	var users []ids.User
	for _, q := range list {
		users = append(users, q.CreatedBy)
	}
	if !r.includes()["created-by"] {
		return nil, nil
	}
	return s.userViews(r, users)
}

func (s *server) listQueryRuns(r *request) (answer, error) {
	workspace, err := id[ids.Workspace](r)
	if err != nil {
		return answer{}, err
	}
	p, err := parsePaging(r.query)
	if err != nil {
		return answer{}, err
	}
	list, total, err := s.Runs.QueryRuns(r.ctx, r.actor, workspace, p.limit(), p.offset())
	if err != nil {
		return answer{}, err
	}
	items := make([]*queryRunView, 0, len(list))
	for _, q := range list {
		items = append(items, s.newQueryRunView(q))
	}
	included, err := s.queryIncludes(r, list...)
	return page(items, p, total, included...), err
}

func (s *server) createQueryRun(r *request) (answer, error) {
	body, err := r.body()
	if err != nil {
		return answer{}, err
	}
	in, err := decode[struct {
		GenerateConfigOut Opt[bool] `json:"generate-config-out"`
	}](body, "queries")
	if err != nil {
		return answer{}, err
	}
	workspace, err := in.required("workspace", "workspaces")
	if err != nil {
		return answer{}, err
	}
	configuration, err := in.related("configuration-version", "configuration-versions")
	if err != nil {
		return answer{}, err
	}
	n := runs.NewQueryRun{Workspace: ids.Workspace(workspace), Configuration: ids.ConfigurationVersion(configuration), GenerateConfigOut: in.Attributes.GenerateConfigOut.Or(true)}
	q, err := s.Runs.CreateQueryRun(r.ctx, r.actor, n)
	if err != nil {
		return answer{}, err
	}
	return created(s.newQueryRunView(q)), nil
}

func (s *server) readQueryRun(r *request) (answer, error) {
	query, err := id[ids.QueryRun](r)
	if err != nil {
		return answer{}, err
	}
	q, err := s.Runs.QueryRun(r.ctx, r.actor, query)
	if err != nil {
		return answer{}, err
	}
	included, err := s.queryIncludes(r, q)
	return ok(s.newQueryRunView(q), included...), err
}

func (s *server) cancelQueryRun(r *request) (answer, error) {
	query, err := id[ids.QueryRun](r)
	if err != nil {
		return answer{}, err
	}
	return accepted(), s.Runs.CancelQueryRun(r.ctx, r.actor, query)
}

func (s *server) queryLog(r *request) (answer, error) {
	if err := s.checkLink(queryLogLink, r); err != nil {
		return answer{}, err
	}
	query, err := id[ids.QueryRun](r)
	if err != nil {
		return answer{}, err
	}
	return s.logAnswer(r, func(offset, limit int64) (runs.LogSlice, error) {
		return s.Runs.QueryRunLog(r.ctx, query, offset, limit)
	})
}
