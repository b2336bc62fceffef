// Package metrics shows a server from outside, in Prometheus' text format.
//
// Owns: the names of the metrics (docs/metrics.md lists them). Words: figure (a number read
// from the database at each scrape, the same at every server), request (one call of a client
// or a runner, counted by this server).
// Invariants: labels are route templates, methods, status codes, phases and attempt statuses
// only: no id, name, address or token becomes a label (TestLabelsAreFew); a database that is
// down leaves the other metrics readable (TestWithoutADatabase).
// Refuses: deciding anything by a metric.
// Tested by: metrics_test.go.
package metrics
