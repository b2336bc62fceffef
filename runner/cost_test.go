package runner

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/runnerapi/wire"
)

const infracost = `{"version":"0.2","currency":"USD","totalMonthlyCost":"743.644","pastTotalMonthlyCost":"100.5","diffTotalMonthlyCost":"643.144","summary":{"totalDetectedResources":5,"totalSupportedResources":3}}`

func TestReadingInfracost(t *testing.T) {
	t.Parallel()
	got, err := readCosts([]byte(infracost))
	require.NoError(t, err)
	assert.Equal(t, wire.CostEstimate{Currency: "USD", Prior: "100.50", Proposed: "743.64", Delta: "643.14", Resources: 5, Matched: 3}, got)
	got, err = readCosts([]byte(`{"currency":"EUR","totalMonthlyCost":null,"summary":{"totalDetectedResources":1}}`))
	require.NoError(t, err, "nothing in it has a price")
	assert.Equal(t, wire.CostEstimate{Currency: "EUR", Prior: "0.00", Proposed: "0.00", Delta: "0.00", Resources: 1}, got)
	for _, wrong := range []string{"", "no JSON", "{}", "[]", `{"currency":"USD","totalMonthlyCost":"much"}`, `{"totalMonthlyCost":"1e999999999"}`, `{"totalMonthlyCost":"1/3"}`, `{"totalMonthlyCost":"1","summary":{"totalDetectedResources":1,"totalSupportedResources":2}}`} {
		_, err := readCosts([]byte(wrong))
		assert.ErrorContains(t, err, "Infracost's JSON", wrong)
	}
}

func TestTheCostCommand(t *testing.T) {
	t.Parallel()
	tmp := t.TempDir()
	plan := filepath.Join(tmp, "plan.json")
	require.NoError(t, os.WriteFile(plan, []byte("the plan"), 0o600))
	own := []string{"PATH=" + os.Getenv("PATH"), "HOME=/nowhere", "INFRACOST_API_KEY=k", "HOLDFAST_RUNNER_TOKEN_FILE=/secret", "TF_TOKEN_x=secret", "AWS_SECRET_ACCESS_KEY=secret"}
	run := func(command string) (string, error) {
		out, err := runCostCommand(t.Context(), command, plan, tmp, own)
		return string(out), err
	}
	out, err := run(`cat "$PLAN_JSON"; echo; env`)
	require.NoError(t, err)
	assert.Contains(t, out, "the plan\n")
	assert.Contains(t, out, "INFRACOST_API_KEY=k\n")
	assert.NotContains(t, out, "secret", "nothing else of the runner's environment")
	_, err = run("exit 3")
	assert.ErrorContains(t, err, "exit code 3")
	_, err = run("yes | head -c 6000000")
	assert.ErrorContains(t, err, "more than 5 MiB")

	ended, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = runCostCommand(ended, "sleep 600 & wait", plan, tmp, own)
	assert.ErrorContains(t, err, "took too long")
}

func TestACostEstimateIsHandedOver(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		command string
		want    *wire.CostEstimate
	}{
		"an estimate":  {"printf '%s' '" + infracost + "'", &wire.CostEstimate{Currency: "USD", Prior: "100.50", Proposed: "743.64", Delta: "643.14", Resources: 5, Matched: 3}},
		"a failure":    {"exit 1", &wire.CostEstimate{Error: "the cost command ended with exit code 1"}},
		"no estimator": {"", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFakeServer(t, wire.Manifest{}, map[string]string{"main.tf": `resource "terraform_data" "a" {}`})
			cfg := f.config()
			cfg.CostCommand = c.command
			start(t, cfg)
			done := f.await()
			require.Equal(t, wire.OutcomeFinished, done.Outcome, done.Message)
			assert.Equal(t, c.want, done.Cost)
			if c.want != nil && c.want.Error == "" {
				assert.Equal(t, infracost, string(f.artifacts[wire.KindCostEstimate]))
			} else {
				assert.NotContains(t, f.artifacts, wire.KindCostEstimate)
			}
		})
	}
}
