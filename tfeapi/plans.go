package tfeapi

import (
	"net/http"

	"github.com/google/jsonapi"

	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/runs"
)

// planView is the plan of a run on the wire. It exists from the run's creation, and
// so does its log address.
type planView struct {
	ID                     string            `jsonapi:"primary,plans"`
	Status                 string            `jsonapi:"attr,status"`
	HasChanges             bool              `jsonapi:"attr,has-changes"`
	GeneratedConfiguration bool              `jsonapi:"attr,generated-configuration"`
	ResourceAdditions      int               `jsonapi:"attr,resource-additions"`
	ResourceChanges        int               `jsonapi:"attr,resource-changes"`
	ResourceDestructions   int               `jsonapi:"attr,resource-destructions"`
	ResourceImports        int               `jsonapi:"attr,resource-imports"`
	LogReadURL             string            `jsonapi:"attr,log-read-url"`
	LogTruncated           bool              `jsonapi:"attr,log-truncated"`
	Actions                planActions       `jsonapi:"attr,actions"`
	Permissions            planPermissions   `jsonapi:"attr,permissions"`
	StatusTimestamps       map[string]string `jsonapi:"attr,status-timestamps"`
	related                relations
}

type planActions struct {
	IsExportable bool `json:"is-exportable"`
}

type planPermissions struct {
	CanExport bool `json:"can-export"`
}

func (v *planView) relations() relations { return v.related }

// JSONAPILinks are the links of the resource.
func (v *planView) JSONAPILinks() *jsonapi.Links {
	self := "/api/v2/plans/" + v.ID
	return &jsonapi.Links{"self": self, "json-output": self + "/json-output", "json-output-redacted": self + "/json-output-redacted"}
}

func (s *server) newPlanView(actor authz.Actor, d runs.Detail) *planView {
	p := project(factsOf(actor, d.Run))
	view := &planView{
		ID: string(d.PlanID), Status: p.plan, LogReadURL: s.logLink(planLogLink, string(d.PlanID)), LogTruncated: d.PlanLogTruncated, StatusTimestamps: planTimestamps(d, p),
		Actions:     planActions{IsExportable: p.plan == "finished"},
		Permissions: planPermissions{CanExport: authz.Can(actor, authz.StateRead, d.Object())},
		related:     relations{"run": ref{"runs", string(d.ID)}},
	}
	if p.plan == "finished" || p.plan == "errored" {
		view.GeneratedConfiguration = d.GeneratedConfig
	}
	if p.plan == "finished" {
		view.HasChanges = d.HasChanges != nil && *d.HasChanges
		view.ResourceAdditions, view.ResourceChanges = d.ResourceAdditions, d.ResourceChanges
		view.ResourceDestructions, view.ResourceImports = d.ResourceDestructions, d.ResourceImports
	}
	return view
}

func planTimestamps(d runs.Detail, p projection) map[string]string {
	stamps := map[string]string{}
	if d.AdmittedAt != nil {
		stamps["queued-at"] = rfc3339(*d.AdmittedAt)
	}
	for _, step := range d.History {
		if step.ToStatus == runs.Planning {
			stamps["started-at"] = rfc3339(step.At)
		}
	}
	switch {
	case p.plan == "finished" && d.PlanFinishedAt != nil:
		stamps["finished-at"] = rfc3339(*d.PlanFinishedAt)
	case (p.plan == "errored" || p.plan == "canceled") && d.FinishedAt != nil:
		stamps[p.plan+"-at"] = rfc3339(*d.FinishedAt)
	}
	return stamps
}

func (s *server) readPlan(r *request) (answer, error) {
	plan, err := id[ids.Plan](r)
	if err != nil {
		return answer{}, err
	}
	d, err := s.Runs.ByPlan(r.ctx, r.actor, plan)
	if err != nil {
		return answer{}, err
	}
	return ok(s.newPlanView(r.actor, d)), nil
}

// planJSON gives the plan as `tofu show -json` writes it.
func (s *server) planJSON(r *request) (answer, error) {
	plan, err := id[ids.Plan](r)
	if err != nil {
		return answer{}, err
	}
	body, object, err := s.Runs.PlanJSON(r.ctx, r.actor, plan)
	if err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusOK, stream: body, size: object.Size, mediaType: "application/json"}, nil
}

// planJSONRedacted gives what a client draws the plan from, which whoever may see the
// run may see.
func (s *server) planJSONRedacted(r *request) (answer, error) {
	plan, err := id[ids.Plan](r)
	if err != nil {
		return answer{}, err
	}
	body, object, err := s.Runs.PlanJSONRedacted(r.ctx, r.actor, plan)
	if err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusOK, stream: body, size: object.Size, mediaType: "application/json"}, nil
}
