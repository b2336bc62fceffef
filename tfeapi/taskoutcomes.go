package tfeapi

import (
	"time"

	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/runtasks"
)

// taskOutcomeView is one thing that a run task has found.
type taskOutcomeView struct {
	ID          string        `jsonapi:"primary,task-result-outcomes"`
	OutcomeID   string        `jsonapi:"attr,outcome-id"`
	Description string        `jsonapi:"attr,description"`
	Body        string        `jsonapi:"attr,body"`
	URL         string        `jsonapi:"attr,url"`
	Tags        runtasks.Tags `jsonapi:"attr,tags"`
	CreatedAt   time.Time     `jsonapi:"attr,created-at,iso8601"`
	result      ids.TaskResult
}

func (v *taskOutcomeView) relations() relations {
	return relations{"task-result": ref{"task-results", string(v.result)}}
}

// taskOutcomeAttributes is how a service reports one.
type taskOutcomeAttributes struct {
	OutcomeID   Opt[string]        `json:"outcome-id"`
	Description Opt[string]        `json:"description"`
	Body        Opt[string]        `json:"body"`
	URL         Opt[string]        `json:"url"`
	Tags        Opt[runtasks.Tags] `json:"tags"`
}

func (a taskOutcomeAttributes) outcome() runtasks.Outcome {
	return runtasks.Outcome{OutcomeID: a.OutcomeID.Value, Description: a.Description.Value, Body: a.Body.Value, URL: a.URL.Value, Tags: a.Tags.Value}
}

// listTaskOutcomes lists what the service of a task result has found.
func (s *server) listTaskOutcomes(r *request) (answer, error) {
	which, err := id[ids.TaskResult](r)
	if err != nil {
		return answer{}, err
	}
	p, err := parsePaging(r.query)
	if err != nil {
		return answer{}, err
	}
	found, total, err := s.Runs.TaskOutcomes(r.ctx, r.actor, which, p.page())
	if err != nil {
		return answer{}, err
	}
	items := make([]*taskOutcomeView, 0, len(found))
	for _, o := range found {
		items = append(items, &taskOutcomeView{
			ID: string(o.ID), OutcomeID: o.OutcomeID, Description: o.Description, Body: o.Body, URL: o.URL, Tags: o.Tags, CreatedAt: o.CreatedAt, result: o.ResultID,
		})
	}
	return page(items, p, total), nil
}
