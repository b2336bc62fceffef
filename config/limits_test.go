package config_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/config"
	"github.com/holdfast-run/holdfast/runs"
)

func with(name, value string) map[string]string {
	all := complete()
	all[name] = value
	return all
}

func TestLimitsOfRuns(t *testing.T) {
	want := runs.Defaults()
	for name, change := range map[string]struct {
		value string
		set   func()
	}{
		"HOLDFAST_ASSIGNMENT_EXPIRY": {"7s", func() { want.AssignmentExpiry = 7 * time.Second }},
		"HOLDFAST_HEARTBEAT":         {"2s", func() { want.Heartbeat = 2 * time.Second }},
		"HOLDFAST_PLAN_LIVENESS":     {"30s", func() { want.PlanLiveness = 30 * time.Second }},
		"HOLDFAST_APPLY_LIVENESS":    {"20m", func() { want.ApplyLiveness = 20 * time.Minute }},
		"HOLDFAST_APPROVAL_TTL":      {"24h", func() { want.ApprovalLifetime = 24 * time.Hour }},
		"HOLDFAST_RUN_TTL":           {"1h", func() { want.RunTTL = time.Hour }},
		"HOLDFAST_INTERRUPT_GRACE":   {"1m", func() { want.InterruptGrace = time.Minute }},
		"HOLDFAST_LOG_LIMIT":         {"1000", func() { want.LogLimit = 1000 }},
		"HOLDFAST_LAUNCH_LIMIT":      {"2000", func() { want.LaunchLimit = 2000 }},
	} {
		want = runs.Defaults()
		change.set()
		environment(t, with(name, change.value))
		s, err := config.LoadServer()
		require.NoError(t, err, name)
		assert.Equal(t, want, s.Runs, name)
	}
}

func TestLimitsThatWouldBreakAPromise(t *testing.T) {
	for name, wrong := range map[string]struct{ value, says string }{
		"HOLDFAST_RUN_TTL":         {"4h", "shorter than the authority"}, // RP-18
		"HOLDFAST_INTERRUPT_GRACE": {"10m", "shorter than the authority"},
		"HOLDFAST_PLAN_LIVENESS":   {"9s", "two heartbeats"},
		"HOLDFAST_APPLY_LIVENESS":  {"30s", "not shorter"},
		"HOLDFAST_HEARTBEAT":       {"0s", "longer than nothing"},
		"HOLDFAST_APPROVAL_TTL":    {"soon", "HOLDFAST_APPROVAL_TTL must be a duration"},
		"HOLDFAST_LOG_LIMIT":       {"10MB", "HOLDFAST_LOG_LIMIT must be a number of bytes"},
		"HOLDFAST_SHUTDOWN_DELAY":  {"-1s", "HOLDFAST_SHUTDOWN_DELAY must be a duration"},
	} {
		environment(t, with(name, wrong.value))
		_, err := config.LoadServer()
		assert.ErrorContains(t, err, wrong.says, name)
	}
}
