// Package httptests has the tests of retryhttp that need other modules: pooled
// gzip readers and OpenTelemetry.
package httptests
