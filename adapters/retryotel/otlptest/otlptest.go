// Package otlptest holds the end-to-end test of retryotel: what a collector
// receives by OTLP over HTTP.
package otlptest
