// Package httptests contains the tests of retryhttp that need other modules: pooled gzip readers,
// OpenTelemetry, and a server of the Model Context Protocol.
package httptests
