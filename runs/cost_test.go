package runs

import (
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/artifacts"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
)

// costs is what a runner says of a plan that has a price.
func costs() *CostReport {
	return &CostReport{Currency: "USD", Prior: "100.50", Proposed: "743.64", Delta: "643.14", Resources: 5, Matched: 3}
}

// TestTheCostsOfAPlanAreKept: with what the command printed; and a plan without them has none.
func TestTheCostsOfAPlanAreKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d := w.run(w.workspace())
	e := w.take(d.ID)
	for kind, content := range map[artifacts.Kind]string{artifacts.KindPlanJSON: "{}", artifacts.KindPlan: "the plan", artifacts.KindCostEstimate: `{"printed": true}`} {
		e.handOver(kind, content)
	}
	done := planned(true)
	done.Cost = costs()
	e.done(done)
	r := w.get(d.ID)
	require.NotEmpty(t, r.CostEstimateID)
	c, err := w.runs.Cost(ctx, w.member, r.CostEstimateID)
	require.NoError(t, err)
	assert.Equal(t, []string{"USD", "100.50", "743.64", "643.14", ""}, []string{c.Currency, c.Prior, c.Proposed, c.Delta, c.Error})
	assert.Equal(t, []int{5, 3}, []int{c.Resources, c.Matched})
	body, _, err := w.runs.CostOutput(ctx, w.member, r.CostEstimateID)
	require.NoError(t, err)
	printed, err := io.ReadAll(body)
	require.NoError(t, err)
	assert.Equal(t, `{"printed": true}`, string(printed))
	require.NoError(t, body.Close())
	_, err = w.runs.Cost(ctx, stranger(), r.CostEstimateID)
	assert.True(t, fault.Is(err, fault.NotFound), err)

	other := w.run(w.workspace())
	w.take(other.ID).plan(true)
	assert.Empty(t, w.get(other.ID).CostEstimateID)
}

// TestNoPlanFailsByItsPrice: what a runner cannot say, or says wrongly, is an estimate with an error.
func TestNoPlanFailsByItsPrice(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for says, change := range map[string]func(*CostReport){
		"exit code 3":       func(c *CostReport) { *c = CostReport{Error: "the cost command ended with exit code 3"} },
		"no number":         func(c *CostReport) { c.Delta = "much" },
		"more priced":       func(c *CostReport) { c.Matched = 6 },
		"that is none":      func(c *CostReport) { c.Currency = "a great deal" },
		"without what its ": func(*CostReport) {},
	} {
		d := w.run(w.workspace())
		e := w.take(d.ID)
		e.handOver(artifacts.KindPlanJSON, "{}")
		e.handOver(artifacts.KindPlan, "the plan")
		done := planned(true)
		done.Cost = costs()
		change(done.Cost)
		e.done(done)
		r := w.get(d.ID)
		assert.Equal(t, AwaitingApproval, r.DurableStatus)
		c, err := w.runs.Cost(ctx, w.owner, r.CostEstimateID)
		require.NoError(t, err, says)
		assert.Contains(t, c.Error, says)
		assert.Empty(t, c.Proposed)
		_, _, err = w.runs.CostOutput(ctx, w.owner, r.CostEstimateID)
		assert.True(t, fault.HasCode(err, "no_cost_estimate"), err)
	}
}

// stranger belongs to no organization.
func stranger() authz.Actor { return authz.Actor{Kind: authz.UserActor, User: ids.New[ids.User]()} }
