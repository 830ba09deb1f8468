package policyfile

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
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
// configures Envoy. A delay is drawn between 0 and an interval in whole milliseconds. The first
// interval is the parameter `base`. The interval doubles with each retry, up to the parameter
// `most`. If `most` is 0, the interval doubles up to ten times `base`.
func (f *form) mesh(key, write string, valid func(string) bool, base, most time.Duration) {
	write += strings.Join(envoyConditions, ", ")
	isComma := func(r rune) bool { return r == ',' }
	names := strings.FieldsFunc(take[string](f, key, write, "", nil), isComma)
	for i := range names {
		if key == "retry_on" { // Envoy accepts blanks around a name, and Istio does not
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
		switch written := f.isRetried(word); {
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

// finalTimeout warns if Envoy does not retry an attempt that exceeds its own timeout. The parameter
// `key` is the key of the timeout of each attempt. For Envoy, an attempt that runs out of its
// timeout ends with a reset. Only the conditions 5xx, gateway-error and reset include a reset.
func (f *form) finalTimeout(key string) {
	hedges, _ := f.b.beside.get(snake, "hedge_policy", "hedge_on_per_try_timeout")
	hedged := hedges.value != nil && hedges.value.Value == "true"
	if f.timeout > 0 && f.attempts != 1 && !hedged && !f.isRetried("5xx") &&
		!f.isRetried("gateway-error") && !f.isRetried("reset") {
		f.b.warn(noEffect, key,
			key+" ends an attempt, and Envoy does not retry it then: add reset to the conditions, or 5xx "+
				"or gateway-error")
	}
}

const routing = "a policy does not say where a retry goes"

// routeTimeout returns the default timeout of a route of Envoy. It returns 0 for the retry_policy
// of a virtual host, because each route of the host may have another timeout.
func routeTimeout(b *Block) time.Duration {
	if inRoute.MatchString(b.At) {
		return 15 * time.Second
	}
	return 0
}

var inRoute = regexp.MustCompile(`(^|\.)route\.retry_?[pP]olicy$`)

const grpcTimeout = "a gRPC request has its own timeout, which replaces the timeout of the route"

// The limit on the retries of all calls to a target is a setting of the target, not of the call.
// For Envoy, the setting is in a cluster in the same file. For Istio, the setting is in another
// document of the file. The code below finds the setting by the name of the target.

// A concurrency contains the keys with which Envoy limits how many retries run at the same time.
type concurrency struct {
	budget, percent, least string  // the keys of a budget, which is a share of the active requests
	most                   string  // the key that limits concurrent retries if there is no budget
	missing                float64 // the limit if the key in the field `most` is not set; 0: no limit
}

var (
	ofCluster = concurrency{
		budget:  "retry_budget",
		percent: "budget_percent.value",
		least:   "min_retry_concurrency",
		most:    "max_retries",
		missing: 3,
	}
	ofRule = concurrency{
		budget:  "retryBudget",
		percent: "percent",
		least:   "minRetryConcurrency",
		most:    "connectionPool.http.maxRetries",
	}
)

// limit adds a note about Envoy's limit on the retries to a target, and reports whether there is
// such a limit.
func (f *form) limit(target string, in *place, c concurrency) bool {
	if len(f.places(in, c.budget)) > 0 {
		share := min(100, f.amount(in, c.budget+"."+c.percent, 20))
		least := f.amount(in, c.budget+"."+c.least, 3)
		f.b.note(c.budget,
			fmt.Sprintf("each Envoy allows %v %% of its active requests to %s as retries at the same time, "+
				"and at least %v; the nearest budget is {size: %v, ratio: %.3g}",
				share, target, least, max(1, least), share/max(share, 100-share)))
		return true
	}
	most := f.amount(in, c.most, c.missing)
	switch {
	case most > 0:
		f.b.note(c.most,
			fmt.Sprintf("each Envoy allows %v retries to %s at the same time; in an outage, calls reach "+
				"this limit before their own limit on retries", most, target))
	case c.missing > 0:
		f.b.warn(noEffect, "retry_on",
			fmt.Sprintf("this policy has no effect: %s of the cluster %s is 0, and allows no retry",
				c.most, target))
	}
	return most > 0
}

// clusters adds notes about the limits of the clusters to which a route of Envoy leads. In the
// `thresholds` of a cluster, Envoy uses the first element with the same priority as the route.
func (f *form) clusters() {
	route, limited := f.b.beside, false
	names := append(f.textsAt(route, "cluster"),
		f.textsAt(route, "weighted_clusters.clusters.*.name")...)
	priority := func(p *place) string { return cmp.Or(f.textAt(p, "priority"), "DEFAULT") }
	for _, cluster := range f.places(route.document(), "static_resources.clusters.*") {
		name := f.textAt(cluster, "name")
		if !slices.Contains(names, name) {
			continue
		}
		thresholds := f.places(cluster, "circuit_breakers.thresholds.*")
		thresholds = slices.DeleteFunc(thresholds, func(p *place) bool {
			return priority(p) != priority(route)
		})
		limited = f.limit(name, append(thresholds, &place{node: cluster.node})[0], ofCluster) || limited
	}
	if !limited {
		f.b.note("max_retries",
			"each Envoy allows 3 retries to a cluster at the same time, unless circuit_breakers says "+
				"otherwise; in an outage, calls reach this limit before num_retries")
	}
}
