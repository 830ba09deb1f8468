// Package promqltest tests the queries, alerts and the dashboard of docs/ with
// the parser and the engine of Prometheus. It has nothing but tests.
package promqltest
