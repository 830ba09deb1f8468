package policyfile

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
)

// What stands beside the settings of another system decides which attempts run. The
// facts: FilterUtility::finalTimeout and wouldRetryFromReset of Envoy, HTTPRetry of
// Istio's API, gRPC's proposal A6, and nextBackoffInterval of Temporal's server.
func TestBeside(t *testing.T) {
	const (
		envoyDefault = "timeout: 15s, the default of Envoy, ends all attempts and waits together"
		second       = "timeout: 1s, beside these settings, ends all attempts and waits together"
		notRetried   = "ends an attempt that is not retried then: add reset to the conditions, or 5xx or gateway-error"
	)
	const grpc = "{maxAttempts: 4, initialBackoff: 1s, maxBackoff: 9s, backoffMultiplier: 2, retryableStatusCodes: [UNAVAILABLE]}"
	states := func(settings string) string { return "{States: {A: {Type: Task, " + settings + "}}}" }
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
		{"Istio, off", "{timeout: 1s, retries: {attempts: 0}}", "retries", second, ""},
		{"Istio, a template", "{timeout: '{{ .t }}', retries: {attempts: 1, retryOn: 5xx}}", "retries",
			`timeout: beside these settings it is "{{ .t }}", which is not read: "{{ .t }}" is not known here: it is read as if it were left out`, ""},
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
			"scheduleToCloseTimeout: 1s, beside these settings, ends all attempts and waits together",
			"attempt 2 never runs, the waits before it take at least 2s: scheduleToCloseTimeout is 1s, for all attempts and waits"},
		{"Temporal, an attempt longer than all", "{scheduleToCloseTimeout: 60s, startToCloseTimeout: 300s, retryPolicy: {initialInterval: 10s}}", "retryPolicy",
			"startToCloseTimeout: 5m0s, beside these settings, ends each attempt",
			"attempt 2 never runs, if each one before it takes its 5m0s: scheduleToCloseTimeout is 1m0s, for all attempts and waits"},
		{"Temporal, without an end, and one retry fits", "{scheduleToCloseTimeout: 3s, retryPolicy: {initialInterval: 2s}}", "retryPolicy",
			"scheduleToCloseTimeout: 3s, beside these settings, ends all attempts and waits together", ""},
		{"gRPC, no name", "{methodConfig: [{timeout: 9s, retryPolicy: " + grpc + "}]}", "", "timeout: 9s, beside these settings, ends all attempts and waits together",
			"this does nothing: its entry of methodConfig has no name, and is skipped; write name: [{}] for all methods"},
		{"gRPC, a budget", "{retryThrottling: {maxTokens: 10, tokenRatio: 0.1}, methodConfig: [{name: [{}], retryPolicy: " + grpc + "}]}", "",
			"retryThrottling: here a budget of 4 retries; in gRPC failures that are not retried take from it, too, and recovery takes up to 50 successes", ""},
		{"gRPC, a budget of nothing", "{retryThrottling: {maxTokens: 2, tokenRatio: 0.1}, methodConfig: [{name: [{}], retryPolicy: " + grpc + "}]}", "", "",
			"retryThrottling: with maxTokens 2 no retry is allowed: the first failure leaves half of them or less"},
		{"gRPC, a budget out of range", "{retryThrottling: {maxTokens: 1001, tokenRatio: 0.1}, methodConfig: [{name: [{}], retryPolicy: " + grpc + "}]}", "", "",
			"retryThrottling: grpc-go refuses the whole config: write maxTokens above 0 and up to 1000, and a tokenRatio above 0"},
		{"gRPC, a budget out of place", "{methodConfig: [{name: [{}], retryThrottling: {maxTokens: 10, tokenRatio: 0.1}, retryPolicy: " + grpc + "}]}", "", "",
			"retryThrottling: inside methodConfig it does nothing: write it beside methodConfig"},
		{"gRPC, waits for a connection", "{waitForReady: true, retryPolicy: " + grpc + "}", "retryPolicy",
			"waitForReady: a call to a server that is down waits for a connection, and is not retried", ""},
		{"gRPC, hedged", "{hedgingPolicy: {maxAttempts: 2}, retryPolicy: " + grpc + "}", "retryPolicy", "", "hedgingPolicy: beside a retryPolicy it is not allowed: write one of them"},
		{"gRPC, lower case", "{retryPolicy: {maxAttempts: 4, initialBackoff: 1s, maxBackoff: 9s, backoffMultiplier: 2, retryableStatusCodes: [unavailable]}}", "retryPolicy", "",
			"retryableStatusCodes: grpc-go refuses the whole config for codes in lower case: write UNAVAILABLE"},
		{"Envoy, hedging that is off", "{route: {timeout: 9s, hedge_policy: {initial_requests: 1}, retry_policy: {retry_on: unavailable, per_try_timeout: 1s}}}", "route.retry_policy",
			"timeout: 9s, beside these settings, ends all attempts and waits together", "per_try_timeout " + notRetried},
		{"Envoy, without conditions", "{route: {retry_policy: {num_retries: 2}}}", "route.retry_policy", envoyDefault,
			"this does nothing: without retry_on Envoy retries nothing, unless a request asks for it in x-envoy-retry-on"},
		{"Envoy, statuses without their word", "{route: {retry_policy: {retry_on: 5xx, retriable_status_codes: [409]}}}", "route.retry_policy", envoyDefault,
			"retriable_status_codes: it does nothing without retriable-status-codes in retry_on"},
		{"Envoy, a word without statuses", "{route: {retry_policy: {retry_on: 'reset, retriable-status-codes'}}}", "route.retry_policy", envoyDefault,
			"retry_on: retriable-status-codes does nothing without retriable_status_codes"},
		{"Envoy, in an outage", "{route: {retry_policy: {retry_on: 5xx}}}", "route.retry_policy",
			"max_retries: an outage meets the limit of the cluster before num_retries: 3 retries at once in each Envoy, unless its circuit_breakers say otherwise", ""},
		{"Envoy, the whole stream", "{route: {timeout: 0s, max_stream_duration: {max_stream_duration: 3s}, retry_policy: {retry_on: 5xx, per_try_timeout: 2s}}}", "route.retry_policy",
			"max_stream_duration.max_stream_duration: 3s, beside these settings, ends all attempts and waits together",
			"attempt 2 may be cut off: 2 attempts of 2s and their waits take up to 4.025s, and max_stream_duration.max_stream_duration is 3s"},
		{"Istio, without the block", "{kind: VirtualService, spec: {http: [{timeout: 1s, route: [{destination: {host: a}}]}]}}", "", second, ""},
		{"Temporal, each attempt", "{startToCloseTimeout: 60s, retryPolicy: {maximumAttempts: 3}}", "retryPolicy", "startToCloseTimeout: 1m0s, beside these settings, ends each attempt", ""},
		{"Temporal, the queue", "{scheduleToStartTimeout: 60s, retryPolicy: {maximumAttempts: 3}}", "retryPolicy", "scheduleToStartTimeout: ends the wait for a worker, and is not retried", ""},
		{"HTTPRoute, two of six fit", "{kind: HTTPRoute, spec: {rules: [{timeouts: {request: 400ms, backendRequest: 200ms}, retry: {attempts: 5, codes: [500]}}]}}", "",
			"timeouts.backendRequest: 200ms, beside these settings, ends each attempt",
			"attempt 3 of 6 never runs, if each one before it takes its 200ms: timeouts.request is 400ms, for all attempts and waits"},
		{"HTTPRoute, an attempt longer than all", "{timeouts: {request: 3s, backendRequest: 5s}, retry: {attempts: 1}}", "retry",
			"timeouts.backendRequest: 5s, beside these settings, ends each attempt",
			"timeouts.backendRequest is 5s, and the API refuses it, because timeouts.request is 3s: write at most 3s"},
		{"HTTPRoute, as long as all", "{timeouts: {request: 3s, backendRequest: 3s}, retry: {attempts: 1}}", "retry",
			"timeouts.backendRequest: 3s, beside these settings, ends each attempt",
			"attempt 2 of 2 never runs, if each one before it takes its 3s: timeouts.request is 3s, for all attempts and waits"},
		{"HTTPRoute, a fraction", "{timeouts: {request: 0.5s}, retry: {attempts: 1}}", "retry",
			`timeouts.request: beside these settings it is "0.5s", which is not read: write a duration as text in whole h, m, s and ms, such as "500ms" or "1m30s"`, ""},
		{"HTTPRoute, without a count", "{matches: [], retry: {codes: [503], backoff: 1s}}", "retry", "attempts: it is left out, and the implementation decides; here it is 2, as in Istio", ""},
		{"Step Functions, each attempt", states("TimeoutSeconds: 5, Retry: [{ErrorEquals: [States.ALL]}]"), "", "TimeoutSeconds: 5s, beside these settings, ends each attempt", ""},
		{"Step Functions, a timeout that is final", states("TimeoutSeconds: 5, Retry: [{ErrorEquals: [a]}]"), "",
			"ErrorEquals: an attempt that TimeoutSeconds, 5, ends is not retried by this: that needs States.Timeout", ""},
		{"Step Functions, the machine", "{TimeoutSeconds: 3, " + states("Retry: [{ErrorEquals: [States.ALL], MaxAttempts: 5}]")[1:], "",
			"TimeoutSeconds: 3s, beside these settings, ends all attempts and waits together",
			"attempt 3 of 6 never runs, the waits before it take at least 3s: TimeoutSeconds is 3s, for all attempts and waits"},
		{"Step Functions, two retriers", states("Retry: [{ErrorEquals: [a], MaxAttempts: 2}, {ErrorEquals: [b]}]"), "States.A.Retry.0",
			"MaxAttempts: each retrier counts by itself: with the others, the state makes up to 6 attempts", ""},
		{"Step Functions, one that is never reached", states("Retry: [{ErrorEquals: [a], MaxAttempts: 2}, {ErrorEquals: [a, b]}]"), "States.A.Retry.1", "",
			"ErrorEquals: a does nothing here: an earlier retrier of the state has it, and no later one is tried"},
		{"Step Functions, two layers", "{States: {M: {Type: Map, Retry: [{ErrorEquals: [States.ALL], MaxAttempts: 2}], Iterator: " + states("Retry: [{ErrorEquals: [a], MaxAttempts: 3}]") + "}}}",
			"States.M.Iterator.States.A.Retry.0", "",
			"attempts multiply: the state around this one is retried as a whole, up to 2 times, so that up to 12 attempts of this one run"},
		{"the Collector, its default", "{exporters: {otlp/2: {retry_on_failure: {}}}}", "", "timeout: 5s, the default of the OpenTelemetry Collector, ends each attempt", ""},
		{"the Collector, over HTTP", "{exporters: {otlp_http: {retry_on_failure: {}}}}", "", "timeout: 30s, the default of the OpenTelemetry Collector, ends each attempt", ""},
		{"the Collector, switched off", "{exporters: {otlp: {timeout: 0, retry_on_failure: {}}}}", "", "", ""},
		{"the Collector, without a queue", "{exporters: {otlp: {sending_queue: {enabled: false}, retry_on_failure: {}}}}", "",
			"sending_queue.enabled: without a queue, the deadline of the caller ends the retries, too", ""},
		{"the Collector, without the block", "{exporters: {otlp: {endpoint: x}}}", "", "retry_on_failure: it is left out, and this exporter retries by default", ""},
		{"the Collector, an expansion", "{exporters: {otlp: {timeout: '${env:T:-3s}', retry_on_failure: {initial_interval: '${env:INIT:-2s}'}}}}", "",
			`initial_interval: "${env:INIT:-2s}" is read as its default, 2s`, ""},
		{"the Collector, an expansion without a default", "{exporters: {otlp: {retry_on_failure: {initial_interval: '${INIT}'}}}}", "",
			`initial_interval: "${INIT}" is not known here: it is read as if it were left out`, ""},
		{"Argo, each attempt", "{spec: {templates: [{activeDeadlineSeconds: 5, retryStrategy: {limit: 1}}]}}", "", "activeDeadlineSeconds: 5s, beside these settings, ends each attempt", ""},
		{"Argo, the workflow", "{spec: {activeDeadlineSeconds: 5, templates: [{retryStrategy: {limit: 3, backoff: {duration: 4s}}}]}}", "",
			"spec.activeDeadlineSeconds: 5s, beside these settings, ends all attempts and waits together",
			"attempt 3 of 4 never runs, the waits before it take at least 8s: spec.activeDeadlineSeconds is 5s, for all attempts and waits"},
		{"Argo, in a CronWorkflow", "{spec: {workflowSpec: {activeDeadlineSeconds: 9, templates: [{name: all, retryStrategy: {limit: 2}, steps: [[{template: one}]]}, {name: one, retryStrategy: {limit: 3}}]}}}",
			"spec.workflowSpec.templates.1.retryStrategy", "spec.workflowSpec.activeDeadlineSeconds: 9s, beside these settings, ends all attempts and waits together",
			"attempts multiply: template all is retried, too, and runs this one each time"},
		{"Argo, a backoff without a limit", "{retryStrategy: {backoff: {duration: 4s}}}", "retryStrategy", "",
			"backoff: it does nothing without a limit: Argo retries at once, without an end"},
		{"Argo, two layers", "{spec: {templates: [{name: all, retryStrategy: {limit: 2}, steps: [[{name: x, template: one}]]}, {name: one, retryStrategy: {limit: 3}}]}}", "spec.templates.1.retryStrategy", "",
			"attempts multiply: template all is retried, too, and runs this one each time"},
		{"NATS, nothing acknowledged", "{max_deliver: 3, ack_wait: 1000000000}", "", "",
			"this does nothing: ack_policy is none, also where it is left out, and nothing is delivered again; set it to explicit"},
		{"NATS, no delay after the last delivery", "{max_deliver: 3, ack_policy: explicit, backoff: [1000000000, 2000000000]}", "", "", ""},
		{"NATS, nanoseconds", "{max_deliver: 3, ack_wait: 30, ack_policy: explicit}", "", "", "ack_wait: the first delay is 30ns: numbers are nanoseconds"},
		{"NATS, in Kubernetes", "{kind: Consumer, spec: {maxDeliver: 20, ackPolicy: explicit}}", "", "",
			"ackWait: it is left out, and the default of the CRD is 1ns: what is not acknowledged within about 1ms is delivered again; set ackWait"},
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
			texts := ""
			for _, w := range append(block.warnings, block.lintBounds(p)...) {
				texts += w.text
			}
			assert.Equal(t, test.want, texts)
		})
	}
}

// An attempt fits if it ends by the bound, or without a bound of its own starts before it.
func TestFits(t *testing.T) {
	p := retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Second)}
	for name, test := range map[string]struct {
		all, each time.Duration
		want      int
	}{
		"no bound":            {0, time.Second, -1},
		"to the nanosecond":   {8 * time.Second, 2 * time.Second, 3},
		"a nanosecond less":   {8*time.Second - 1, 2 * time.Second, 2},
		"not even the first":  {time.Second, 2 * time.Second, 0},
		"the waits":           {2*time.Second + 1, 0, 3},
		"the waits are it":    {2 * time.Second, 0, 2},
		"nothing but a first": {1, 0, 1},
	} {
		assert.Equal(t, test.want, (&Bounds{All: test.all, Each: test.each}).Fits(p), name)
	}
}
