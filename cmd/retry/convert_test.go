package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestConvert(t *testing.T) {
	assert.Equal(t, "max_attempts: 3\nbackoff:\n  type: exponential\n  base: 1s\n  factor: 2\n",
		succeed(t, "", "convert", "-from", "tasker", "-to", "native", "testdata/tasker.yaml"))
	assert.Equal(t, "max_attempts: 5\nbackoff: linear\nbackoff_base_ms: 1000\nmax_backoff_ms: 3000\n",
		succeed(t, "", "convert", "-to", "tasker", "testdata/argyll.json"), "a dialect that is found")
	assert.Contains(t, succeed(t, "{max_attempts: 2, backoff: {type: fixed, base: 1s}, jitter: full}", "convert", "-to=envoy", "-retry-on", "5xx,reset"),
		"retry_on: 5xx,reset\nnum_retries: 1\n")
	assert.Equal(t, "max_attempts: 2\n", succeed(t, "a: {b: {max_attempts: 2}}", "convert", "-to=native", "-at", "a.b"))

	assert.JSONEq(t, `{"methodConfig": [{"name": [{"service": "pay.Payments"}], "retryPolicy": {"maxAttempts": 2,
		"initialBackoff": "1s", "maxBackoff": "1s", "backoffMultiplier": 1, "retryableStatusCodes": ["ABORTED", "UNAVAILABLE"]}}]}`,
		succeed(t, "{max_attempts: 2, backoff: {type: fixed, base: 1s}, jitter: 0.2}", "convert", "-to=grpc", "-codes", "UNAVAILABLE,ABORTED", "-service", "pay.Payments"))
	assert.Equal(t, "{\n  \"initialInterval\": \"0.2s\",\n  \"backoffCoefficient\": 2,\n  \"maximumInterval\": \"5s\",\n  \"maximumAttempts\": 9\n}\n",
		succeed(t, "{max_attempts: 9, backoff: {type: exponential, base: 200ms}, max_delay: 5s}", "convert", "-to=temporal"))

	// A setting that cannot be expressed is reported with its line.
	stdout, stderr, status := tool("", "convert", "-to", "tasker", "testdata/policy.yaml")
	assert.Equal(t, 1, status)
	assert.Empty(t, stdout)
	assert.Equal(t, "testdata/policy.yaml:8: jitter is 0.2: Tasker has none\ntestdata/policy.yaml:9: attempt_timeout is 1s: Tasker has none\n", stderr)
	_, stderr, status = tool("backoff:\n  base: 1500us\n  type: fixed\nmax_attempts: -1", "convert", "-to", "tasker")
	assert.Equal(t, 1, status)
	assert.Equal(t, "standard input:4: max_attempts is unlimited in effect: Tasker needs a limit\n"+
		"standard input:2: backoff.base is 1.5ms: Tasker counts whole milliseconds\n", stderr)

	_, stderr, status = tool("max_elapsed: 1m\njitter: full\nbackoff:\n  type: fibonacci\n  base: 1s", "convert", "-to", "temporal")
	assert.Equal(t, 1, status)
	assert.Regexp(t, `^standard input:1: max_elapsed is 1m0s: .*\nstandard input:2: jitter is full: .*\nstandard input:3: backoff is fibonacci: .*\n$`, stderr)
	_, stderr, status = tool("max_attempts: 3", "convert", "-to", "grpc", "-codes", "SOMETIMES")
	assert.Equal(t, 1, status)
	assert.Contains(t, stderr, "standard input:1: codes is \"SOMETIMES\": ")

	for system, why := range map[string]string{"envoy": "Envoy ignores it: write one of 5xx, ", "istio": "Istio refuses it: write a status such as 503, or one of 5xx, "} {
		_, stderr, status = tool("{max_attempts: 2, backoff: {type: fixed, base: 1s}, jitter: full}", "convert", "-to", system, "-retry-on", "reset,resett")
		assert.Equal(t, 1, status)
		assert.Contains(t, stderr, `standard input:1: retry-on is "resett": `+why)
	}

	_, stderr, status = tool("jitter: 2", "convert", "-to", "tasker")
	assert.Equal(t, 1, status)
	assert.Contains(t, stderr, "standard input:1: jitter is 2")
}
