package metrics_test

import (
	"context"
	"errors"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/dispatch"
	"github.com/holdfast-run/holdfast/metrics"
	"github.com/holdfast-run/holdfast/runs"
)

func scrape(m *metrics.Metrics) string {
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	return w.Body.String()
}

func figures(context.Context) (runs.Figures, error) {
	return runs.Figures{
		Waiting: 7, OldestWaiting: 90 * time.Second, Held: 2, OldestHeld: time.Hour, Promotion: dispatch.Waits{Median: 2 * time.Millisecond, P99: 5 * time.Millisecond},
		Attempts: []dispatch.OpenAttempts{
			{Phase: "plan", Status: "pending", Count: 3, Oldest: 4 * time.Second},
			{Phase: "apply", Status: "running", Count: 1, Oldest: time.Minute, Silent: 6 * time.Second},
		},
		Dispatch: dispatch.Waits{Median: 100 * time.Millisecond, P99: 250 * time.Millisecond},
	}, nil
}

func TestFiguresAreShown(t *testing.T) {
	text := scrape(metrics.New("1.2.3", figures))
	for _, line := range []string{
		`holdfast_build_info{version="1.2.3"} 1`, `holdfast_database_up 1`,
		`holdfast_queue_runs 7`, `holdfast_queue_oldest_seconds 90`, `holdfast_held_workspaces 2`, `holdfast_held_oldest_seconds 3600`,
		`holdfast_attempts{phase="plan",status="pending"} 3`, `holdfast_attempt_oldest_seconds{phase="plan",status="pending"} 4`,
		`holdfast_attempts{phase="apply",status="running"} 1`, `holdfast_attempt_silent_seconds{phase="apply"} 6`,
		`holdfast_promotion_seconds{quantile="0.5"} 0.002`, `holdfast_promotion_seconds{quantile="0.99"} 0.005`,
		`holdfast_dispatch_seconds{quantile="0.5"} 0.1`, `holdfast_dispatch_seconds{quantile="0.99"} 0.25`,
	} {
		assert.Contains(t, text, line+"\n")
	}
	assert.NotContains(t, text, `attempt_silent_seconds{phase="plan"}`, "nothing of the plans runs")
}

func TestRequestsAreCountedByTemplate(t *testing.T) {
	m := metrics.New("1.2.3", figures)
	m.Observe("tfe", "GET", "/api/v2/runs/{id}", 200, 30*time.Millisecond)
	m.Observe("tfe", "GET", "/api/v2/runs/{id}", 200, 2*time.Second)
	m.Observe("tfe", "GET", "/api/v2/runs/{id}", 503, time.Millisecond)
	text := scrape(m)
	assert.Contains(t, text, `holdfast_requests_total{api="tfe",code="200",method="GET",route="/api/v2/runs/{id}"} 2`)
	assert.Contains(t, text, `holdfast_requests_total{api="tfe",code="503",method="GET",route="/api/v2/runs/{id}"} 1`)
	assert.Contains(t, text, `holdfast_request_seconds_bucket{api="tfe",method="GET",route="/api/v2/runs/{id}",le="0.05"} 2`)
	assert.Contains(t, text, `holdfast_request_seconds_count{api="tfe",method="GET",route="/api/v2/runs/{id}"} 3`)
}

func TestWithoutADatabase(t *testing.T) {
	m := metrics.New("1.2.3", func(context.Context) (runs.Figures, error) { return runs.Figures{}, errors.New("no database") })
	m.Observe("runner", "POST", "/runner/v1/poll", 503, time.Second)
	text := scrape(m)
	assert.Contains(t, text, "holdfast_database_up 0\n")
	assert.Contains(t, text, `holdfast_requests_total{api="runner",code="503"`)
	assert.NotContains(t, text, "holdfast_queue_runs", "an unknown number is not a zero")
}

var (
	sample = regexp.MustCompile(`(?m)^(holdfast_\w+)(?:\{([^}]*)\})? `)
	label  = regexp.MustCompile(`(\w+)="`)
)

func TestLabelsAreFew(t *testing.T) {
	m := metrics.New("1.2.3", figures)
	m.Observe("tfe", "GET", "/api/v2/ping", 204, time.Millisecond)
	allowed := []string{"api", "method", "route", "code", "phase", "status", "quantile", "le", "version"}
	found := sample.FindAllStringSubmatch(scrape(m), -1)
	require.NotEmpty(t, found)
	for _, one := range found {
		for _, l := range label.FindAllStringSubmatch(one[2], -1) {
			assert.Contains(t, allowed, l[1], one[0])
		}
	}
}

func TestThePageNamesEveryMetric(t *testing.T) {
	page, err := os.ReadFile("../docs/metrics.md")
	require.NoError(t, err)
	m := metrics.New("1.2.3", figures)
	m.Observe("tfe", "GET", "/api/v2/ping", 204, time.Millisecond)
	var names []string
	for _, one := range regexp.MustCompile(`(?m)^# TYPE (holdfast_\w+) `).FindAllStringSubmatch(scrape(m), -1) {
		names = append(names, one[1])
		assert.Contains(t, string(page), "`"+one[1]+"`")
	}
	for _, one := range regexp.MustCompile("`(holdfast_\\w+)`").FindAllStringSubmatch(string(page), -1) {
		assert.True(t, slices.Contains(names, one[1]), "%s is on the page only", one[1])
	}
}
