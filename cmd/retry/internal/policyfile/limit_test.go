package policyfile

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What stands beside the settings of another system decides which attempts run. The
// facts: FilterUtility::finalTimeout and wouldRetryFromReset of Envoy, HTTPRetry of
// Istio's API, gRPC's proposal A6, and nextBackoffInterval of Temporal's server.
func TestLimit(t *testing.T) {
	const (
		envoyDefault = "timeout: 15s, Envoy's default, ends all attempts and waits together"
		second       = "timeout: 1s, beside these settings, ends all attempts and waits together"
		notRetried   = "ends an attempt that is not retried then: add reset to the conditions, or 5xx or gateway-error"
	)
	for _, test := range []struct{ name, text, at, note, want string }{
		{"Istio, an attempt longer than all", "{timeout: 1s, retries: {attempts: 5, perTryTimeout: 2s, retryOn: 5xx}}", "retries", second,
			"perTryTimeout is 2s, and Envoy ignores it, because timeout is 1s: write less than 1s"},
		{"Istio, as long as all", "{timeout: 1s, retries: {attempts: 5, perTryTimeout: 1s, retryOn: 5xx}}", "retries", second,
			"perTryTimeout is 1s, and Envoy ignores it, because timeout is 1s: write less than 1s"},
		{"Istio, two of six fit", "{timeout: 400ms, retries: {attempts: 5, perTryTimeout: 200ms, retryOn: reset}}", "retries",
			"timeout: 400ms, beside these settings, ends all attempts and waits together",
			"attempt 3 of 6 never runs, if each one before it takes its 200ms: timeout is 400ms, for all attempts and waits"},
		{"Istio, one millisecond more", "{timeout: 401ms, retries: {attempts: 2, perTryTimeout: 200ms, retryOn: reset}}", "retries",
			"timeout: 401ms, beside these settings, ends all attempts and waits together",
			"attempt 3 may be cut off: 3 attempts of 200ms and their waits take up to 675ms, and timeout is 401ms"},
		{"Istio, the waits do not fit", "{timeout: 2s, retries: {attempts: 3, perTryTimeout: 500ms, retryOn: gateway-error}}", "retries",
			"timeout: 2s, beside these settings, ends all attempts and waits together",
			"attempt 4 may be cut off: 4 attempts of 500ms and their waits take up to 2.175s, and timeout is 2s"},
		{"Istio, all fit to the millisecond", "{timeout: 2175ms, retries: {attempts: 3, perTryTimeout: 500ms, retryOn: 5xx}}", "retries",
			"timeout: 2.175s, beside these settings, ends all attempts and waits together", ""},
		{"Istio, no limit", "{retries: {attempts: 3, perTryTimeout: 2s, retryOn: 'gateway-error,connect-failure'}}", "retries", "", ""},
		{"Istio, a timeout that is final", "{retries: {attempts: 3, perTryTimeout: 2s, retryOn: connect-failure}}", "retries", "", "perTryTimeout " + notRetried},
		{"Istio, its default conditions", "{retries: {attempts: 3, perTryTimeout: 2s}}", "retries", "", "perTryTimeout " + notRetried},
		{"Istio, off", "{timeout: 1s, retries: {attempts: 0, perTryTimeout: 2s}}", "retries", second, ""},
		{"Istio, a template", "{timeout: '{{ .t }}', retries: {attempts: 1, retryOn: 5xx}}", "retries",
			`timeout: beside these settings it is "{{ .t }}", which is not read: write a duration as text, such as "200ms" or "1m30s"`, ""},
		{"Istio, in a whole file", "spec: {http: [{timeout: 1s, retries: {attempts: 5, perTryTimeout: 2s, retryOn: 5xx}}]}", "", second,
			"perTryTimeout is 2s, and Envoy ignores it, because timeout is 1s: write less than 1s"},
		{"Envoy, a number", "{route: {timeout: 3, retry_policy: {retry_on: 5xx}}}", "route.retry_policy",
			`timeout: beside these settings it is "3", which is not read: write seconds as text, such as "0.2s"`, ""},
		{"Envoy, the default of a route", "{route: {retry_policy: {retry_on: 5xx, num_retries: 2, per_try_timeout: 8s}}}", "route.retry_policy", envoyDefault,
			"attempt 3 of 3 never runs, if each one before it takes its 8s: timeout is 15s, for all attempts and waits"},
		{"Envoy, camelCase", "{route: {retryPolicy: {retryOn: 5xx, numRetries: 1, perTryTimeout: 20s}}}", "route.retryPolicy", envoyDefault,
			"per_try_timeout is 20s, and Envoy ignores it, because timeout is 15s: write less than 15s"},
		{"Envoy, switched off", "{route: {timeout: 0s, retry_policy: {retry_on: 5xx, num_retries: 2, per_try_timeout: 8s}}}", "route.retry_policy", "", ""},
		{"Envoy, a virtual host", "{domains: ['*'], retry_policy: {retry_on: 5xx, per_try_timeout: 20s}}", "retry_policy", "", ""},
		{"Envoy, hedged", "{route: {timeout: 9s, hedge_policy: {hedge_on_per_try_timeout: true}, retry_policy: {retry_on: unavailable, per_try_timeout: 1s}}}",
			"route.retry_policy", "timeout: 9s, beside these settings, ends all attempts and waits together", ""},
		{"gRPC", "{timeout: 1s, retryPolicy: {maxAttempts: 4, initialBackoff: 1s, maxBackoff: 9s, backoffMultiplier: 2, retryableStatusCodes: [UNAVAILABLE]}}",
			"retryPolicy", second, "attempt 3 of 4 never runs, the waits before it take at least 2.4s: timeout is 1s, for all attempts and waits"},
		{"Temporal", "{scheduleToCloseTimeout: 3s, retryPolicy: {maximumAttempts: 3}}", "retryPolicy",
			"scheduleToCloseTimeout: 3s, beside these settings, ends all attempts and waits together",
			"attempt 3 of 3 never runs, the waits before it take at least 3s: scheduleToCloseTimeout is 3s, for all attempts and waits"},
		{"Temporal, more than the waits", "{scheduleToCloseTimeout: 10s, retryPolicy: {maximumAttempts: 4}}", "retryPolicy",
			"scheduleToCloseTimeout: 10s, beside these settings, ends all attempts and waits together", ""},
		{"Temporal, without an end", "{scheduleToCloseTimeout: 1s, retryPolicy: {initialInterval: 2s}}", "retryPolicy",
			"scheduleToCloseTimeout: 1s, beside these settings, ends all attempts and waits together", ""},
		{"our own form", "{timeout: 1s, retry: {max_attempts: 3, attempt_timeout: 2s, backoff: {type: fixed, base: 1s}}}", "retry", "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			file, err := Parse("file.yaml", []byte(test.text))
			require.NoError(t, err)
			block, fault := file.Only(test.at)
			require.Nil(t, fault)
			p, _, faults := block.Read("")
			require.Empty(t, faults)
			if test.note == "" {
				for _, note := range block.Notes {
					assert.NotContains(t, note, "imeout: ")
				}
			} else {
				assert.Contains(t, block.Notes, test.note)
			}
			assert.Equal(t, test.want, join(block.lintLimit(p)))
		})
	}
}

func join(texts []string) (all string) {
	for _, text := range texts {
		all += text
	}
	return all
}
