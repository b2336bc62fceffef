package config_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/config"
)

func with(name, value string) map[string]string {
	all := complete()
	all[name] = value
	return all
}

func TestLimitsOfRuns(t *testing.T) {
	want := config.DefaultLimits()
	for name, change := range map[string]struct {
		value string
		set   func()
	}{
		"HOLDFAST_ASSIGNMENT_EXPIRY":  {"7s", func() { want.Runs.AssignmentExpiry = 7 * time.Second }},
		"HOLDFAST_HEARTBEAT":          {"2s", func() { want.Runs.Heartbeat = 2 * time.Second }},
		"HOLDFAST_PLAN_LIVENESS":      {"30s", func() { want.Runs.PlanLiveness = 30 * time.Second }},
		"HOLDFAST_OUTAGE_ALLOWANCE":   {"3m", func() { want.Runs.OutageAllowance = 3 * time.Minute }},
		"HOLDFAST_APPLY_LIVENESS":     {"20m", func() { want.Runs.ApplyLiveness = 20 * time.Minute }},
		"HOLDFAST_APPROVAL_TTL":       {"24h", func() { want.Runs.ApprovalLifetime = 24 * time.Hour }},
		"HOLDFAST_RUN_TTL":            {"1h", func() { want.Runs.RunTTL = time.Hour }},
		"HOLDFAST_INTERRUPT_GRACE":    {"1m", func() { want.Runs.InterruptGrace = time.Minute }},
		"HOLDFAST_FORCE_CANCEL_GRACE": {"9m", func() { want.Runs.ForceCancelGrace = 9 * time.Minute }},
		"HOLDFAST_RECOVERY_LEASE_TTL": {"20m", func() { want.Recovery.Lease = 20 * time.Minute }},
		"HOLDFAST_RUN_TASK_PROGRESS":  {"2m", func() { want.Runs.TaskProgress = 2 * time.Minute }},
		"HOLDFAST_RUN_TASK_TTL":       {"2h", func() { want.Runs.TaskTTL = 2 * time.Hour }},
		"HOLDFAST_LOG_LIMIT":          {"1000", func() { want.Runs.LogLimit = 1000 }},
		"HOLDFAST_STATE_LIMIT":        {"3000", func() { want.StateBytes = 3000 }},
		"HOLDFAST_STEP_UP_WINDOW":     {"5m", func() { want.StepUp = 5 * time.Minute }},
		"HOLDFAST_LAUNCH_LIMIT":       {"2000", func() { want.Runs.LaunchLimit = 2000 }},
		"HOLDFAST_API_RATE_LIMIT":     {"30", func() { want.Requests = 30 }},
		"HOLDFAST_POLICY_MEMORY":      {"268435456", func() { want.Policies.Memory = 256 << 20 }},
		"HOLDFAST_POLICY_TIME":        {"5m", func() { want.Policies.Time = 5 * time.Minute }},
		"HOLDFAST_POLICY_BUDGET":      {"3s", func() { want.Policies.Budget = 3 * time.Second }},
	} {
		want = config.DefaultLimits()
		change.set()
		environment(t, with(name, change.value))
		s, err := config.LoadServer()
		require.NoError(t, err, name)
		assert.Equal(t, want, s.Limits, name)
	}
}

func TestLimitsThatWouldBreakAPromise(t *testing.T) {
	for name, wrong := range map[string]struct{ value, says string }{
		"HOLDFAST_RUN_TTL":            {"4h", "shorter than the authority"}, // RP-18
		"HOLDFAST_INTERRUPT_GRACE":    {"10m", "shorter than the authority"},
		"HOLDFAST_PLAN_LIVENESS":      {"9s", "two heartbeats"},
		"HOLDFAST_APPLY_LIVENESS":     {"30s", "not shorter"},
		"HOLDFAST_HEARTBEAT":          {"0s", "longer than nothing"},
		"HOLDFAST_RECOVERY_LEASE_TTL": {"0s", "HOLDFAST_RECOVERY_LEASE_TTL must be longer than nothing"},
		"HOLDFAST_RUN_TASK_PROGRESS":  {"0s", "longer than nothing"},
		"HOLDFAST_RUN_TASK_TTL":       {"5m", "not shorter"},
		"HOLDFAST_APPROVAL_TTL":       {"soon", "HOLDFAST_APPROVAL_TTL must be a duration"},
		"HOLDFAST_POLICY_MEMORY":      {"1000000", "at least 134217728 bytes"},
		"HOLDFAST_POLICY_TIME":        {"5s", "longer than the budget"},
		"HOLDFAST_LOG_LIMIT":          {"10MB", "HOLDFAST_LOG_LIMIT must be a number of bytes"},
		"HOLDFAST_API_RATE_LIMIT":     {"-1", "HOLDFAST_API_RATE_LIMIT must be a number"},
		"HOLDFAST_SHUTDOWN_DELAY":     {"-1s", "HOLDFAST_SHUTDOWN_DELAY must be a duration"},
	} {
		environment(t, with(name, wrong.value))
		_, err := config.LoadServer()
		assert.ErrorContains(t, err, wrong.says, name)
	}
	for _, window := range []string{"59s", "1h1s", "0s", "90500ms"} {
		environment(t, with("HOLDFAST_STEP_UP_WINDOW", window))
		_, err := config.LoadServer()
		assert.ErrorContains(t, err, "from 1m to 1h", window)
	}
}
