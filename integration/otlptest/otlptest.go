// Package otlptest has the end-to-end test of retryotel. It checks what a collector
// receives by OTLP over HTTP.
package otlptest
