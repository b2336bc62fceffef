package metrics

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/holdfast-run/holdfast/dispatch"
	"github.com/holdfast-run/holdfast/runs"
)

// figuresWithin bounds the reading of the figures: a scrape must not hang with the database.
const figuresWithin = 5 * time.Second

// Metrics are one server's. Make them with New.
type Metrics struct {
	registry *prometheus.Registry
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
}

// New makes the metrics of a server. read gives the figures of the database at each scrape.
func New(version string, read func(context.Context) (runs.Figures, error)) *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "holdfast_requests_total", Help: "Answered requests. Code 499 is a client that went away, 598 a download that broke off.",
		}, []string{"api", "method", "route", "code"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "holdfast_request_seconds", Help: "Time from a request to the end of its answer; polls and log reads that wait for news count their waiting.",
			Buckets: []float64{.0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 120},
		}, []string{"api", "method", "route"}),
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{Name: "holdfast_build_info", Help: "Always 1; the label tells the version.", ConstLabels: prometheus.Labels{"version": version}})
	build.Set(1)
	m.registry.MustRegister(m.requests, m.seconds, build, figures{read}, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Observe counts one answered request. route is the template of its address.
func (m *Metrics) Observe(api, method, route string, status int, took time.Duration) {
	m.requests.WithLabelValues(api, method, route, strconv.Itoa(status)).Inc()
	m.seconds.WithLabelValues(api, method, route).Observe(took.Seconds())
}

// Handler answers a scrape.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// figures reads the database when it is asked.
type figures struct {
	read func(context.Context) (runs.Figures, error)
}

func described(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("holdfast_"+name, help, labels, nil)
}

var (
	up            = described("database_up", "1 when the figures of the database could be read, else 0.")
	waiting       = described("queue_runs", "Runs that wait for their workspace.")
	oldestWaiting = described("queue_oldest_seconds", "Age of the oldest run that waits for its workspace.")
	held          = described("held_workspaces", "Workspaces held for recovery.")
	oldestHeld    = described("held_oldest_seconds", "How long the workspace that has been held longest is held.")
	attempts      = described("attempts", "Attempts that are not at an end.", "phase", "status")
	oldestAttempt = described("attempt_oldest_seconds", "Age of the oldest attempt that is not at an end.", "phase", "status")
	silent        = described("attempt_silent_seconds", "Longest time without a heartbeat among running attempts: how far the leases lag.", "phase")
	promotion     = described("promotion_seconds", "In the last 15 minutes, how long a workspace stood free while its next run waited.", "quantile")
	claims        = described("dispatch_seconds", "In the last 15 minutes, how long attempts waited for a runner.", "quantile")
)

// Describe names the figures.
func (figures) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{up, waiting, oldestWaiting, held, oldestHeld, attempts, oldestAttempt, silent, promotion, claims} {
		to <- d
	}
}

// Collect reads and gives them; without a database only that it is down.
func (f figures) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), figuresWithin)
	defer cancel()
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	now, err := f.read(ctx)
	if err != nil {
		gauge(up, 0)
		return
	}
	gauge(up, 1)
	gauge(waiting, float64(now.Waiting))
	gauge(oldestWaiting, now.OldestWaiting.Seconds())
	gauge(held, float64(now.Held))
	gauge(oldestHeld, now.OldestHeld.Seconds())
	for _, a := range now.Attempts {
		gauge(attempts, float64(a.Count), a.Phase, a.Status)
		gauge(oldestAttempt, a.Oldest.Seconds(), a.Phase, a.Status)
		if a.Status == string(dispatch.Running) {
			gauge(silent, a.Silent.Seconds(), a.Phase)
		}
	}
	for d, w := range map[*prometheus.Desc]dispatch.Waits{promotion: now.Promotion, claims: now.Dispatch} {
		gauge(d, w.Median.Seconds(), "0.5")
		gauge(d, w.P99.Seconds(), "0.99")
	}
}
