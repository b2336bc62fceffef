package tfeapi

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
	"testing"

	"github.com/hashicorp/go-tfe"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/artifacts"
	"github.com/holdfast-run/holdfast/runs"
)

func TestClientCostEstimate(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	group, ws := w.runner(), w.workspace("shop")
	run := w.queue(ws, tfe.RunCreateOptions{})
	assert.Nil(t, run.CostEstimate)
	s := w.accept(group)
	for kind, content := range map[artifacts.Kind]string{artifacts.KindPlanJSON: "{}", artifacts.KindPlan: "p", artifacts.KindPlanJSONRedacted: "{}", artifacts.KindCostEstimate: `{"printed":1}`} {
		sum := sha256.Sum256([]byte(content))
		require.NoError(t, w.deps.Runs.HandOver(ctx, s.actor, kind, hex.EncodeToString(sum[:]), strings.NewReader(content)))
	}
	w.done(s, runs.Done{
		Outcome: runs.OutcomeFinished, ExitCode: 2, TofuVersion: "1.12.6", TofuDigest: "digest", Plan: &runs.PlanSummary{HasChanges: true, Additions: 1},
		Cost: &runs.CostReport{Currency: "USD", Prior: "100.50", Proposed: "743.64", Delta: "643.14", Resources: 5, Matched: 3},
	})
	with, err := w.client.Runs.ReadWithOptions(ctx, run.ID, &tfe.RunReadOptions{Include: []tfe.RunIncludeOpt{tfe.RunCostEstimate}})
	require.NoError(t, err)
	assert.Equal(t, tfe.RunCostEstimated, with.Status)
	assert.True(t, with.Actions.IsConfirmable)
	ce, err := w.client.CostEstimates.Read(ctx, with.CostEstimate.ID)
	require.NoError(t, err)
	assert.Equal(t, with.CostEstimate, ce)
	assert.Equal(t, []string{"finished", "100.50", "743.64", "643.14", ""}, []string{string(ce.Status), ce.PriorMonthlyCost, ce.ProposedMonthlyCost, ce.DeltaMonthlyCost, ce.ErrorMessage})
	assert.Equal(t, []int{5, 3, 2}, []int{ce.ResourcesCount, ce.MatchedResourcesCount, ce.UnmatchedResourcesCount})
	response, body := w.send("GET", "/api/v2/cost-estimates/"+ce.ID+"/output", w.ann, "")
	assert.Equal(t, []any{http.StatusOK, `{"printed":1}`}, []any{response.StatusCode, body})
	_, err = w.client.CostEstimates.Read(ctx, "ce-nonexisting")
	assert.Equal(t, tfe.ErrResourceNotFound, err)
}
