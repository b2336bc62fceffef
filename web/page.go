package web

import (
	"context"
	"net/http"
	"regexp"
	"strings"

	"github.com/gorilla/mux"

	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/runs"
	"github.com/holdfast-run/holdfast/runtasks"
)

type runView struct {
	Organization, Workspace, Run string
	SignIn                       string       // where to sign in and come back
	Detail                       *runs.Review // nil: the visitor has shown no token and is not signed in
	Policies                     string       // what they said, as in a terminal; empty where none was asked
	Tasks                        []runtasks.TaskStage
}

// Waits tells whether somebody is to decide about the plan.
func (v runView) Waits() bool {
	return v.Detail.DurableStatus == runs.AwaitingApproval && v.Detail.ConfirmedAt == nil
}

// possibleName is what a name can be at all. The page repeats the address, commands for
// a shell included: nobody may make a link that puts words of their own there.
var possibleName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,90}$`)

// run shows a run to who shows a token or is signed in, and to everybody else no more
// than the address says.
func (d Deps) run(w http.ResponseWriter, r *http.Request) {
	guard(w)
	vars := mux.Vars(r)
	view := runView{Organization: vars["organization"], Workspace: vars["workspace"], Run: vars["run"]}
	id, err := ids.Parse[ids.Run](view.Run)
	if err != nil || !possibleName.MatchString(view.Organization) || !possibleName.MatchString(view.Workspace) {
		http.Error(w, "There is no such run.", http.StatusNotFound)
		return
	}
	actor, err := d.visitor(r)
	if err == nil {
		err = d.detail(r.Context(), actor, id, &view)
	}
	if fault.HasCode(err, "session_over") {
		view.SignIn, err = signInFor(r.URL.EscapedPath()), nil
	}
	if err != nil {
		d.refuseRun(w, err)
		return
	}
	d.show(r.Context(), w, http.StatusOK, "run.html", view)
}

// visitor gives who looks: by the token, which scripts send, else by the session.
func (d Deps) visitor(r *http.Request) (authz.Actor, error) {
	if token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		return d.Authenticate(r.Context(), token)
	}
	s, err := d.session(r)
	return s.actor, err
}

// detail puts what the visitor may see of the run into its page.
func (d Deps) detail(ctx context.Context, actor authz.Actor, id ids.Run, view *runView) error {
	review, err := d.Runs.Review(ctx, actor, id)
	if err == nil && (review.OrganizationName != view.Organization || review.WorkspaceName != view.Workspace) {
		err = fault.Missing("run", string(id))
	}
	if err != nil {
		return err
	}
	view.Detail = &review
	if len(review.TaskStages) > 0 {
		if view.Tasks, err = d.Runs.TaskStagesOf(ctx, actor, id); err != nil {
			return err
		}
	}
	if review.Policy == nil {
		return nil
	}
	evaluation, err := review.Policy.Result()
	if len(evaluation.Sets) > 0 {
		view.Policies = evaluation.Text()
	}
	return err
}

func (d Deps) refuseRun(w http.ResponseWriter, err error) {
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
