// Package promqltest tests the queries, alerts and dashboard in docs/ with the
// parser and the engine of Prometheus.
package promqltest
