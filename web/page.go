package web

import (
	"context"
	_ "embed"
	"html/template"
	"log/slog"
	"net/http"
	"strings"

	"github.com/gorilla/mux"

	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/runs"
)

//go:embed run.html
var runHTML string

var runPage = template.Must(template.New("run").Parse(runHTML))

// Deps is what the pages call.
type Deps struct {
	Authenticate func(ctx context.Context, token string) (authz.Actor, error)
	Runs         *runs.Service
	Log          *slog.Logger
}

// New makes the handler of /app.
func New(deps Deps) http.Handler {
	r := mux.NewRouter()
	r.HandleFunc("/app/{organization}/{workspace}/runs/{run}", deps.run).Methods(http.MethodGet, http.MethodHead)
	r.NotFoundHandler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		guard(w)
		http.Error(w, "There is no such page. The address of a run is /app/ORGANIZATION/WORKSPACE/runs/RUN.", http.StatusNotFound)
	})
	return r
}

type runView struct {
	Organization, Workspace, Run string
	Detail                       *runs.Detail // nil: the visitor has not shown a token
}

func (d Deps) run(w http.ResponseWriter, r *http.Request) {
	guard(w)
	vars := mux.Vars(r)
	view := runView{Organization: vars["organization"], Workspace: vars["workspace"], Run: vars["run"]}
	id, err := ids.Parse[ids.Run](view.Run)
	if err != nil {
		http.Error(w, "There is no such run.", http.StatusNotFound)
		return
	}
	if token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		if view.Detail, err = d.detail(r.Context(), token, id, view); err != nil {
			d.refuse(w, err)
			return
		}
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if err := runPage.Execute(w, view); err != nil {
		d.Log.Error("the page of a run broke off", "run", id, "error", err)
	}
}

func (d Deps) detail(ctx context.Context, token string, id ids.Run, view runView) (*runs.Detail, error) {
	actor, err := d.Authenticate(ctx, token)
	if err != nil {
		return nil, err
	}
	detail, err := d.Runs.Get(ctx, actor, id)
	if err == nil && (detail.OrganizationName != view.Organization || detail.WorkspaceName != view.Workspace) {
		err = fault.Missing("run", string(id))
	}
	return &detail, err
}

func (d Deps) refuse(w http.ResponseWriter, err error) {
	switch fault.KindOf(err) {
	case fault.Unauthenticated:
		http.Error(w, "The token is not valid.", http.StatusUnauthorized)
	case fault.NotFound, fault.Forbidden:
		http.Error(w, "There is no such run, or you are not allowed to see it.", http.StatusNotFound)
	case fault.Unavailable:
		http.Error(w, "The server cannot reach its database. Try again in a moment.", http.StatusServiceUnavailable)
	default:
		d.Log.Error("the page of a run failed", "error", err)
		http.Error(w, "The server failed.", http.StatusInternalServerError)
	}
}

// guard sets what every page carries: no scripts, no frames, no copies.
func guard(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
}
