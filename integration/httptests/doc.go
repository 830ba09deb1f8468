// Package httptests contains the tests of retryhttp that need other modules. They test pooled gzip
// readers, OpenTelemetry, and a server of the Model Context Protocol.
package httptests
