package tfeapi

import (
	"time"

	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/runs"
)

// applyView is the apply of a run on the wire. It exists from the run's creation,
// also of a run that never applies.
type applyView struct {
	ID                   string            `jsonapi:"primary,applies"`
	Status               string            `jsonapi:"attr,status"`
	ResourceAdditions    int               `jsonapi:"attr,resource-additions"`
	ResourceChanges      int               `jsonapi:"attr,resource-changes"`
	ResourceDestructions int               `jsonapi:"attr,resource-destructions"`
	ResourceImports      int               `jsonapi:"attr,resource-imports"`
	LogReadURL           string            `jsonapi:"attr,log-read-url"`
	LogTruncated         bool              `jsonapi:"attr,log-truncated"`
	StatusTimestamps     map[string]string `jsonapi:"attr,status-timestamps"`
	ClosedAt             *time.Time        `jsonapi:"attr,closed-at,iso8601"`
	related              relations
}

func (v *applyView) relations() relations { return v.related }

// newApplyView counts the changes of the plan once they have all been applied.
func (s *server) newApplyView(actor authz.Actor, d runs.Detail) *applyView {
	p := project(factsOf(actor, d.Run))
	view := &applyView{
		ID: string(d.ApplyID), Status: p.apply, LogReadURL: s.logLink(applyLogLink, string(d.ApplyID)), LogTruncated: d.ApplyLogTruncated, StatusTimestamps: applyTimestamps(d, p),
		ClosedAt: applyClosedAt(d.Run),
		related:  relations{"run": ref{"runs", string(d.ID)}, "state-versions": stateVersionRefs(d)},
	}
	if p.apply == "finished" {
		view.ResourceAdditions, view.ResourceChanges = d.ResourceAdditions, d.ResourceChanges
		view.ResourceDestructions, view.ResourceImports = d.ResourceDestructions, d.ResourceImports
	}
	return view
}

func stateVersionRefs(d runs.Detail) []ref {
	if d.ResultingVersionID == "" {
		return []ref{}
	}
	return []ref{{"state-versions", string(d.ResultingVersionID)}}
}

func applyTimestamps(d runs.Detail, p projection) map[string]string {
	stamps := map[string]string{}
	if d.ConfirmedAt != nil {
		stamps["queued-at"] = rfc3339(*d.ConfirmedAt)
	}
	for _, step := range d.History {
		if step.ToStatus == runs.Applying {
			stamps["started-at"] = rfc3339(step.At)
		}
	}
	switch p.apply {
	case "finished", "errored", "canceled":
		if d.FinishedAt != nil {
			stamps[p.apply+"-at"] = rfc3339(*d.FinishedAt)
		}
	}
	return stamps
}

func (s *server) readApply(r *request) (answer, error) {
	apply, err := id[ids.Apply](r)
	if err != nil {
		return answer{}, err
	}
	d, err := s.Runs.ByApply(r.ctx, r.actor, apply)
	if err != nil {
		return answer{}, err
	}
	return ok(s.newApplyView(r.actor, d)), nil
}
