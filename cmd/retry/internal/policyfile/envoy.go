package policyfile

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/cmd/retry/internal/saturate"
)

// envoyConditions lists the names in retry_on that Envoy knows. Envoy silently ignores other names.
var envoyConditions = strings.Fields(`5xx gateway-error reset reset-before-request connect-failure
	envoy-ratelimited retriable-4xx refused-stream retriable-status-codes retriable-headers
	http3-post-connect-failure cancelled deadline-exceeded internal resource-exhausted unavailable`)

// isEnvoyCondition reports whether Envoy knows a condition.
func isEnvoyCondition(name string) bool { return slices.Contains(envoyConditions, name) }

// mesh reads the settings that Envoy and Istio have in common: the conditions and the delays. Istio
// configures Envoy. A delay is drawn between 0 and an interval in whole milliseconds. The interval
// doubles, up to ten times the first interval.
func (f *form) mesh(key, write string, valid func(string) bool, base, most time.Duration) {
	write += strings.Join(envoyConditions, ", ")
	isComma := func(r rune) bool { return r == ',' }
	names := strings.FieldsFunc(take[string](f, key, write, "", nil), isComma)
	for i := range names {
		if key == "retry_on" { // only Envoy accepts blanks around a name
			names[i] = strings.TrimSpace(names[i])
		}
	}
	failures(f, key, write, names, valid)
	f.base = max(time.Millisecond, base.Truncate(time.Millisecond))
	f.factor, f.jitter = 2, retry.FullJitter
	f.cap = saturate.Mul(10, f.base)
	if most > 0 {
		f.cap = max(time.Millisecond, most.Truncate(time.Millisecond))
	}
}

// readEnvoy reads the retry policy of a route.
func readEnvoy(f *form) {
	f.attempts = 1 + f.whole("num_retries", 0, math.MaxUint32, 1)
	f.timeout = f.time("per_try_timeout", 0, 0).Truncate(time.Millisecond)
	base, most := 25*time.Millisecond, time.Duration(0)
	f.inner("retry_back_off", `a mapping such as {"base_interval": "0.025s"}`, func(inner *settings) {
		in := &form{settings: inner, b: f.b, times: f.times, needed: true}
		base = in.time("base_interval", 1, 0)
		in.needed = false
		if most = in.time("max_interval", 1, 0); most > 0 && most < base {
			in.fault("max_interval", most, say("at least the base_interval, %v", base))
		}
	})
	f.mesh("retry_on", "conditions of Envoy, which ignores others: ", isEnvoyCondition, base, most)
	if !slices.ContainsFunc(strings.Split(f.retryOn, ","), isEnvoyCondition) {
		f.b.warn(noEffect, "retry_on",
			"this policy has no effect: without retry_on Envoy retries nothing, unless a request asks for "+
				"it in x-envoy-retry-on")
	}
	for list, word := range map[string]string{
		"retriable_status_codes": "retriable-status-codes",
		"retriable_headers":      "retriable-headers",
	} {
		switch written := f.retries(word); {
		case f.isSet(list) && !written:
			f.b.warn(noEffect, list, fmt.Sprintf("%s: it has no effect without %s in retry_on", list, word))
		case written && !f.isSet(list):
			f.b.warn(noEffect, "retry_on", fmt.Sprintf("retry_on: %s has no effect without %s", word, list))
		}
	}
	f.skip("", "retriable_status_codes", "retriable_headers")
	f.skip("only requests with these headers are retried", "retriable_request_headers")
	f.finalTimeout("per_try_timeout")
	if f.attempts > 1 {
		f.clusters()
	}
	f.skip(routing, "retry_priority", "retry_host_predicate", "retry_options_predicates",
		"host_selection_retry_max_attempts")
	f.skip("a policy limits the whole attempt, not the time without data", "per_try_idle_timeout")
	f.skip("in a policy, max_retry_after limits the wait that a server asks for",
		"rate_limited_retry_back_off")
}

// finalTimeout warns if Envoy does not retry an attempt that its own timeout has ended. For Envoy,
// such an attempt ends with a reset. Only the conditions 5xx, gateway-error and reset include a
// reset.
func (f *form) finalTimeout(key string) {
	hedges, _ := f.b.beside.get(snake, "hedge_policy", "hedge_on_per_try_timeout")
	hedged := hedges.value != nil && hedges.value.Value == "true"
	if f.timeout > 0 && f.attempts != 1 && !hedged && !f.retries("5xx") &&
		!f.retries("gateway-error") && !f.retries("reset") {
		f.b.warn(noEffect, key,
			key+" ends an attempt, and Envoy does not retry it then: add reset to the conditions, or 5xx "+
				"or gateway-error")
	}
}
