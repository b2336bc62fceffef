package runs

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"time"

	"github.com/holdfast-run/holdfast/artifacts"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/dispatch"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// CostReport is what a runner's cost command says of a plan, in amounts a month; or, in Error, why it
// says nothing.
type CostReport struct {
	Currency               string
	Prior, Proposed, Delta string // decimal numbers
	Resources, Matched     int    // those in the plan, and those that have a price
	Error                  string
}

var decimal = regexp.MustCompile(`^-?\d{1,30}(\.\d{1,10})?$`)

// check gives the report as it is kept: what makes no sense counts as an error of the command. No plan fails by
// its price.
func (c CostReport) check(handedOver bool) CostReport {
	if c.Error != "" {
		return CostReport{Error: c.Error}
	}
	for _, amount := range []string{c.Prior, c.Proposed, c.Delta} {
		if !decimal.MatchString(amount) {
			return CostReport{Error: "The runner reported an amount that is no number."}
		}
	}
	switch {
	case c.Matched < 0 || c.Matched > c.Resources:
		return CostReport{Error: "The runner reported more priced resources than there are."}
	case len(c.Currency) > 10:
		return CostReport{Error: "The runner reported a currency that is none."}
	case !handedOver:
		return CostReport{Error: "The runner reported costs without what its command printed."}
	}
	return c
}

// keepCost keeps what the plan would cost, where its runner has a command for that.
func keepCost(ctx context.Context, tx postgres.Tx, r *Run, handed map[artifacts.Kind]dispatch.Artifact, d Done) error {
	if d.Cost == nil {
		return nil
	}
	art, found := handed[artifacts.KindCostEstimate]
	c := d.Cost.check(found)
	if c.Error != "" {
		art.ObjectID = ""
	}
	_, err := postgres.Exec(ctx, tx, Queries.Get("CostInsert"), postgres.Args{
		"id": ids.New[ids.CostEstimate](), "organization_id": r.OrganizationID, "run_id": r.ID, "round": r.Round, "object_id": string(art.ObjectID), "error": c.Error,
		"currency": c.Currency, "prior": c.Prior, "proposed": c.Proposed, "delta": c.Delta, "resources": c.Resources, "matched": c.Matched,
	})
	if err != nil {
		return fmt.Errorf("keep the costs of %s: %w", r.ID, err)
	}
	*r, err = load(ctx, tx, r.ID)
	return err
}

// Cost is a kept estimate.
type Cost struct {
	ID                     ids.CostEstimate
	OrganizationID         ids.Organization
	RunID                  ids.Run
	ObjectID               ids.Object // empty when there are no amounts
	Error                  string
	Currency               string
	Prior, Proposed, Delta string
	Resources, Matched     int
	CreatedAt              time.Time
}

// Cost gives an estimate to whoever may read the run.
func (s *Service) Cost(ctx context.Context, actor authz.Actor, id ids.CostEstimate) (c Cost, err error) {
	err = postgres.InSnapshot(ctx, s.db, "runs.cost", func(tx postgres.Tx) error {
		c, err = postgres.One[Cost](ctx, tx, Queries.Get("CostGet"), postgres.Args{"id": id})
		if postgres.NoRow(err) {
			return fault.Missing("cost estimate", string(id))
		}
		if err != nil {
			return err
		}
		_, err = visibleRun(ctx, tx, actor, c.RunID)
		return missingAs(err, "cost estimate", string(id))
	})
	return c, err
}

// CostOutput gives what the cost command printed. The caller closes the reader. NotFound where there are no amounts.
func (s *Service) CostOutput(ctx context.Context, actor authz.Actor, id ids.CostEstimate) (io.ReadCloser, artifacts.Object, error) {
	c, err := s.Cost(ctx, actor, id)
	if err != nil {
		return nil, artifacts.Object{}, err
	}
	if c.ObjectID == "" {
		return nil, artifacts.Object{}, fault.New(fault.NotFound, "no_cost_estimate", "The cost estimate %s has no amounts: %s", id, c.Error)
	}
	return s.objects.Open(ctx, c.OrganizationID, c.ObjectID)
}
