package tfeapi

import (
	"net/http"

	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/runs"
)

// costView is what a plan would cost, by the command of the runner that made it. currency is this server's own.
type costView struct {
	ID                      string            `jsonapi:"primary,cost-estimates"`
	Status                  string            `jsonapi:"attr,status"`
	StatusTimestamps        map[string]string `jsonapi:"attr,status-timestamps"`
	ResourcesCount          int               `jsonapi:"attr,resources-count"`
	MatchedResourcesCount   int               `jsonapi:"attr,matched-resources-count"`
	UnmatchedResourcesCount int               `jsonapi:"attr,unmatched-resources-count"`
	PriorMonthlyCost        string            `jsonapi:"attr,prior-monthly-cost"`
	ProposedMonthlyCost     string            `jsonapi:"attr,proposed-monthly-cost"`
	DeltaMonthlyCost        string            `jsonapi:"attr,delta-monthly-cost"`
	ErrorMessage            string            `jsonapi:"attr,error-message"`
	Currency                string            `jsonapi:"attr,currency"`
	run                     ids.Run
}

func (v *costView) relations() relations { return relations{"run": runRef(v.run)} }

func newCostView(c runs.Cost) *costView {
	status := "finished"
	if c.Error != "" {
		status = "errored"
	}
	return &costView{
		ID: string(c.ID), Status: status, StatusTimestamps: map[string]string{status + "-at": rfc3339(c.CreatedAt)},
		ResourcesCount: c.Resources, MatchedResourcesCount: c.Matched, UnmatchedResourcesCount: c.Resources - c.Matched,
		PriorMonthlyCost: c.Prior, ProposedMonthlyCost: c.Proposed, DeltaMonthlyCost: c.Delta, ErrorMessage: c.Error, Currency: c.Currency, run: c.RunID,
	}
}

// costRef is none for a plan whose runner makes no estimates, and as long as there is no plan.
func costRef(r runs.Run) any {
	if r.CostEstimateID == "" {
		return nil
	}
	return ref{"cost-estimates", string(r.CostEstimateID)}
}

func (s *server) readCost(r *request) (answer, error) {
	which, err := id[ids.CostEstimate](r)
	if err != nil {
		return answer{}, err
	}
	c, err := s.Runs.Cost(r.ctx, r.actor, which)
	if err != nil {
		return answer{}, err
	}
	return ok(newCostView(c)), nil
}

func (s *server) costOutput(r *request) (answer, error) {
	which, err := id[ids.CostEstimate](r)
	if err != nil {
		return answer{}, err
	}
	body, object, err := s.Runs.CostOutput(r.ctx, r.actor, which)
	if err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusOK, stream: body, size: object.Size, mediaType: "application/json"}, nil
}
