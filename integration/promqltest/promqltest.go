// Package promqltest tests the queries, the alerts and the dashboard in docs with the parser and
// the engine of Prometheus.
package promqltest
