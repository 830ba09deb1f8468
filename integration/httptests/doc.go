// Package httptests has the tests of retryhttp that need other modules: pooled
// gzip readers, OpenTelemetry, and go-retryablehttp beside ours.
package httptests
